"""Calls of `client.consumer(...)` on threads that Ctrl-C ends at any step: others go on, at the record that was not seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer
from pykafka.common import TopicPartition
from pykafka.embedded import EmbeddedCluster
from tests.embedded.consumer.test_kafkaconsumer import cluster, fill, make
from tests.support.interrupts import Interrupted, interrupting

__all__ = ["cluster", "make"]
pytestmark = pytest.mark.timeout(120)

COUNT = 600

kept: list[Any] = []


def _one(consumer: KafkaConsumer[Any, Any], seen: list[int]) -> None:
    for _ in range(3):
        record = consumer.one(10)
        assert record is not None
        seen.append(record.offset)


def _poll(consumer: KafkaConsumer[Any, Any], seen: list[int]) -> None:
    for _ in range(2):
        records = consumer.poll(2, 10)
        seen += [record.offset for record in records]


def _iterate(consumer: KafkaConsumer[Any, Any], seen: list[int]) -> None:
    iterator = iter(consumer)
    kept.append(iterator)  # Python discards the exception where a generator is freed
    for _ in range(4):
        seen.append(next(iterator).offset)


def _iterate_slowly(consumer: KafkaConsumer[Any, Any], seen: list[int]) -> None:
    consumer._pipeline.plain = False  # as with deserializers
    _iterate(consumer, seen)


class CutBuffers:
    """The buffers of a consumer; each second time that something was taken, Ctrl-C comes before the caller has it.

    Profiles do not show the return of compiled functions.
    """

    def __init__(self, buffers: Any) -> None:
        self._buffers = buffers
        self.cuts = 0
        self._taken = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffers, name)

    def next(self) -> Any:
        return self._cut(self._buffers.next())

    def take(self, limit: int) -> Any:
        return self._cut(self._buffers.take(limit))

    def _cut(self, found: Any) -> Any:
        self._taken += bool(found)
        if found and self._taken % 2 == 0:
            self.cuts += 1
            raise Interrupted
        return found


@pytest.mark.parametrize("read", [_one, _poll, _iterate, _iterate_slowly])
def test_an_interrupt_at_any_step_skips_no_record_and_locks_nobody_out(
    cluster: EmbeddedCluster, make: Any, read: Callable[[KafkaConsumer[Any, Any], list[int]], None]
) -> None:
    topic = make()
    seen: list[int] = []
    steps = 0
    with KafkaClient(cluster.hosts) as client:
        fill(client, topic, COUNT)
        with client.consumer(topic) as consumer:
            for call in interrupting("kafkaconsumer.py", "handlers/interrupts.py"):
                steps += 1
                with suppress(Interrupted):
                    call(lambda: read(consumer, seen))
                assert not consumer._reading.locked(), f"interrupted at step {steps}"
                record = consumer.one(10)
                assert record is not None
                seen.append(record.offset)
                assert seen == list(range(len(seen))), f"interrupted at step {steps}"
    assert steps >= 5


@pytest.mark.parametrize("read", [_one, _poll, _iterate, _iterate_slowly])
def test_what_was_taken_and_not_returned_comes_again(
    cluster: EmbeddedCluster, make: Any, read: Callable[[KafkaConsumer[Any, Any], list[int]], None]
) -> None:
    topic = make(2)
    seen: list[int] = []
    with KafkaClient(cluster.hosts) as client:
        fill(client, topic, 30)
        with client.consumer(topic) as consumer:
            consumer._buffers = buffers = CutBuffers(consumer._buffers)  # type: ignore[assignment]
            while len(seen) < 20:
                with suppress(Interrupted):
                    read(consumer, seen)
                assert consumer.position(TopicPartition(topic, 0)) == len(seen)
            assert seen == list(range(len(seen)))
            assert buffers.cuts > 3
