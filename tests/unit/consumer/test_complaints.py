"""Consumers say by log lines and errors which partitions they cannot fetch, and why."""

from __future__ import annotations

import logging
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.consumer.failed_partitions import ErrorsToRaise
from pykafka.exceptions import (
    InvalidMessageError,
    KafkaException,
    LeaderNotFoundError,
    SocketDisconnectedError,
    UnknownTopicOrPartition,
)
from pykafka.handlers import ThreadingHandler
from pykafka.utils.loglimit import LogLimiter


def test_errors_of_many_partitions_are_one_line_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    """A topic of a thousand partitions logged a thousand lines a second while its broker was away."""
    caplog.set_level(logging.INFO, "pykafka.consumer")
    handler = ThreadingHandler()
    cluster = SimpleNamespace(limiter=LogLimiter(handler), may_pass=lambda error: True, socket_timeout_ms=30_000)
    reader: Any = SimpleNamespace(name="t", cluster=cluster, errors=deque(), is_patient=False)
    complaints = ErrorsToRaise(handler.now)
    parts: list[Any] = [SimpleNamespace(key=TopicPartition("t", id_), trouble_since=None) for id_ in range(1000)]
    for error in (SocketDisconnectedError("gone"), LeaderNotFoundError("none")):
        for owned in parts * 3:
            complaints.judge(reader, owned, error)
    assert [record.getMessage() for record in caplog.records] == [
        f"partition {TopicPartition('t', 0)}: {text}; trying again" for text in ("gone", "none")
    ]
    assert not reader.errors


def test_an_error_of_all_metadata_is_raised_once_for_all_partitions_and_by_each_consumer_apart() -> None:
    handler = ThreadingHandler()
    error = LeaderNotFoundError("none")
    cluster = SimpleNamespace(may_pass=lambda error: False, socket_timeout_ms=30_000, metadata_error=error)
    raised = []
    for _ in range(2):
        reader: Any = SimpleNamespace(name="t", cluster=cluster, errors=deque(), is_patient=False)
        reader.worker_failed = reader.errors.append
        complaints = ErrorsToRaise(handler.now)
        for id_ in range(40):
            owned: Any = SimpleNamespace(key=TopicPartition("t", id_), trouble_since=None)
            complaints.judge(reader, owned, error)
            raised += reader.errors
            reader.errors.clear()  # the application consumes meanwhile
    assert [type(one) for one in raised] == [LeaderNotFoundError] * 2
    assert len({id(one) for one in [*raised, error]}) == 3  # tracebacks of one would gather in the others


@pytest.mark.parametrize("is_patient", [False, True])
def test_an_outage_ends_no_call_of_a_patient_reader(is_patient: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Brokers of three died for longer than the socket timeout, and `poll()` raised LeaderNotFoundError."""
    caplog.set_level(logging.INFO, "pykafka.consumer")
    clock = SimpleNamespace(now=0.0)
    limiter = LogLimiter(ThreadingHandler())
    cluster = SimpleNamespace(limiter=limiter, may_pass=lambda error: True, socket_timeout_ms=4000, metadata_error=None)
    reader: Any = SimpleNamespace(name="t", cluster=cluster, errors=deque(), is_patient=is_patient)
    reader.worker_failed = reader.errors.append
    complaints = ErrorsToRaise(lambda: clock.now)
    outages: list[KafkaException] = [LeaderNotFoundError("none"), SocketDisconnectedError("gone")]
    for id_, error in enumerate([*outages, UnknownTopicOrPartition("deleted"), InvalidMessageError("damaged")]):
        owned: Any = SimpleNamespace(key=TopicPartition("t", id_), trouble_since=None)
        for clock.now in (0.0, 3.0, 5.0):
            complaints.judge(reader, owned, error)
    raised = {type(error) for error in reader.errors}
    assert raised - {type(one) for one in outages} == {UnknownTopicOrPartition, InvalidMessageError}
    assert raised.isdisjoint(type(one) for one in outages) == is_patient


def test_an_error_that_waits_to_be_raised_is_reported_once_whatever_is_raised_meanwhile() -> None:
    handler = ThreadingHandler()
    cluster = SimpleNamespace(may_pass=lambda error: False, socket_timeout_ms=30_000, metadata_error=None)
    reader: Any = SimpleNamespace(name="t", cluster=cluster, errors=deque(), is_patient=False)
    reader.worker_failed = reader.errors.append
    complaints = ErrorsToRaise(handler.now)

    def judge(*partitions: int) -> list[int | None]:
        for id_ in partitions:
            owned: Any = SimpleNamespace(key=TopicPartition("t", id_), trouble_since=None)
            complaints.judge(reader, owned, LeaderNotFoundError(topic="t", partition=id_))
        return [error.partition for error in reader.errors]

    assert judge(0, 1, 0, 1, 2) == [0, 1, 2]
    reader.errors.popleft()
    assert judge(0, 1, 2, 0) == [1, 2, 0]
    reader.errors.append(LeaderNotFoundError(topic="t", partition=7))
    assert judge(7, 2) == [1, 2, 0, 7]
    reader.errors.clear()
    assert judge(7) == [7]
