"""Consumers say by log lines and errors which partitions they cannot fetch, and why."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.consumer.failed_partitions import ErrorsToRaise, PendingErrors
from pykafka.exceptions import (
    InvalidMessageError,
    KafkaException,
    LeaderNotFoundError,
    LogTruncationError,
    OffsetOutOfRangeError,
    OffsetResetNeededError,
    SocketDisconnectedError,
    TopicRecreatedError,
    UnknownTopicOrPartition,
)
from pykafka.handlers import ThreadingHandler
from pykafka.utils.loglimit import LogLimiter


def test_errors_of_many_partitions_are_one_line_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    """A topic of a thousand partitions logged a thousand lines a second while its broker was away."""
    caplog.set_level(logging.INFO, "pykafka.consumer")
    handler = ThreadingHandler()
    cluster = SimpleNamespace(limiter=LogLimiter(handler), may_pass=lambda error: True, socket_timeout_ms=30_000)
    consumer: Any = SimpleNamespace(name="t", cluster=cluster, errors=deque(), is_patient=False)
    errors_to_raise = ErrorsToRaise(handler.now)
    parts: list[Any] = [SimpleNamespace(key=TopicPartition("t", id_), trouble_since=None) for id_ in range(1000)]
    for error in (SocketDisconnectedError("gone"), LeaderNotFoundError("none")):
        for owned in parts * 3:
            errors_to_raise.judge(consumer, owned, error)
    assert [record.getMessage() for record in caplog.records] == [
        f"partition {TopicPartition('t', 0)}: {text}; trying again" for text in ("gone", "none")
    ]
    assert not consumer.errors


def test_an_error_of_all_metadata_is_raised_once_for_all_partitions_and_by_each_consumer_apart() -> None:
    handler = ThreadingHandler()
    error = LeaderNotFoundError("none")
    cluster = SimpleNamespace(may_pass=lambda error: False, socket_timeout_ms=30_000, metadata_error=error)
    raised = []
    for _ in range(2):
        consumer: Any = SimpleNamespace(name="t", cluster=cluster, errors=deque(), is_patient=False)
        consumer.worker_failed = consumer.errors.append
        errors_to_raise = ErrorsToRaise(handler.now)
        for id_ in range(40):
            owned: Any = SimpleNamespace(key=TopicPartition("t", id_), trouble_since=None)
            errors_to_raise.judge(consumer, owned, error)
            raised += consumer.errors
            consumer.errors.clear()  # the application consumes meanwhile
    assert [type(one) for one in raised] == [LeaderNotFoundError] * 2
    assert len({id(one) for one in [*raised, error]}) == 3  # tracebacks of one would gather in the others


@pytest.mark.parametrize("is_patient", [False, True])
def test_an_outage_ends_no_call_of_a_patient_reader(is_patient: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Brokers of three died for longer than the socket timeout, and `poll()` raised LeaderNotFoundError."""
    caplog.set_level(logging.INFO, "pykafka.consumer")
    clock = SimpleNamespace(now=0.0)
    limiter = LogLimiter(ThreadingHandler())
    cluster = SimpleNamespace(limiter=limiter, may_pass=lambda error: True, socket_timeout_ms=4000, metadata_error=None)
    consumer: Any = SimpleNamespace(name="t", cluster=cluster, errors=deque(), is_patient=is_patient)
    consumer.worker_failed = consumer.errors.append
    errors_to_raise = ErrorsToRaise(lambda: clock.now)
    outages: list[KafkaException] = [LeaderNotFoundError("none"), SocketDisconnectedError("gone")]
    for id_, error in enumerate([*outages, UnknownTopicOrPartition("deleted"), InvalidMessageError("damaged")]):
        owned: Any = SimpleNamespace(key=TopicPartition("t", id_), trouble_since=None)
        for clock.now in (0.0, 3.0, 5.0):
            errors_to_raise.judge(consumer, owned, error)
    raised = {type(error) for error in consumer.errors}
    assert raised - {type(one) for one in outages} == {UnknownTopicOrPartition, InvalidMessageError}
    assert raised.isdisjoint(type(one) for one in outages) == is_patient


def test_an_error_that_waits_to_be_raised_is_reported_once_whatever_is_raised_meanwhile() -> None:
    handler = ThreadingHandler()
    cluster = SimpleNamespace(may_pass=lambda error: False, socket_timeout_ms=30_000, metadata_error=None)
    consumer: Any = SimpleNamespace(name="t", cluster=cluster, errors=deque(), is_patient=False)
    consumer.worker_failed = consumer.errors.append
    errors_to_raise = ErrorsToRaise(handler.now)

    def judge(*partitions: int) -> list[int | None]:
        for id_ in partitions:
            owned: Any = SimpleNamespace(key=TopicPartition("t", id_), trouble_since=None)
            errors_to_raise.judge(consumer, owned, LeaderNotFoundError(topic="t", partition=id_))
        return [error.partition for error in consumer.errors]

    assert judge(0, 1, 0, 1, 2) == [0, 1, 2]
    consumer.errors.popleft()
    assert judge(0, 1, 2, 0) == [1, 2, 0]
    consumer.errors.append(LeaderNotFoundError(topic="t", partition=7))
    assert judge(7, 2) == [1, 2, 0, 7]
    consumer.errors.clear()
    assert judge(7) == [7]


@pytest.mark.parametrize(
    "make",
    [
        OffsetResetNeededError,
        partial(TopicRecreatedError, "recreated"),
        OffsetOutOfRangeError,
        partial(LogTruncationError, 5, 3),
    ],
    ids=["reset", "recreated", "out-of-range", "truncated"],
)
def test_the_application_answers_the_errors_about_positions(make: Callable[..., KafkaException]) -> None:
    """Each of its calls finds those of its partitions, however many others have one."""
    keys = [TopicPartition("t", number) for number in range(5)]
    errors = PendingErrors()
    for key in keys:
        errors.append(make(topic=key.topic, partition=key.partition))
        errors.append(LeaderNotFoundError("gone", topic=key.topic, partition=key.partition))
    asked = list(errors)[::2]
    assert errors.popleft() is asked[0]
    errors.remove(asked[1])
    errors.drop_answered(keys[:3])
    assert [error for error in errors if error in asked] == asked[3:]
    assert len(errors) == 7
    errors.clear()
    errors.append(asked[4])
    errors.drop_answered(keys[:4])
    assert list(errors) == asked[4:]
    errors.drop_answered([TopicPartition("other", 4), *keys])
    assert not errors
