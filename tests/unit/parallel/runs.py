"""Runs over a consumer in memory, and the functions that they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka.common import TopicPartition
from pykafka.handlers import Handler
from pykafka.parallel.options import ParallelOptions
from pykafka.parallel.run import ParallelRun
from tests.support.fakeconsumer import FakeConsumer, FakeRecord

A = TopicPartition("orders", 0)
B = TopicPartition("orders", 1)


def make(
    handler: Handler, consumer: FakeConsumer, handle: Callable[[Any], object], dead_letters: Any = None, **options: Any
) -> ParallelRun:
    options.setdefault("commit_interval", 0.02)
    options.setdefault("stop_timeout", 5.0)
    return ParallelRun(handler, consumer, handle, ParallelOptions(**options), dead_letters)


def call_later(handle: Callable[[Any], object], record: Any) -> object:
    return handle(record)


class Handled:
    """A `handle` that remembers what it was called with."""

    def __init__(self, handler: Handler, pause: float = 0.0) -> None:
        self._handler = handler
        self._pause = pause
        self._lock = handler.Lock()
        self.records: list[FakeRecord] = []
        self.now = 0
        self.most = 0

    def __call__(self, record: FakeRecord) -> None:
        with self._lock:
            self.records.append(record)
            self.now += 1
            self.most = max(self.most, self.now)
        if self._pause:
            self._handler.sleep(self._pause)
        with self._lock:
            self.now -= 1

    def offsets(self, partition: TopicPartition, key: bytes | None = None) -> list[int]:
        return [
            one.offset
            for one in self.records
            if (one.topic, one.partition) == partition and (key is None or one.key == key)
        ]


class Sent:
    """A dead letter under way, as `Letters.send()` returns it."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def get(self) -> None:
        if self._error is not None:
            raise self._error


class Letters:
    """Takes dead letters.

    :param error: that each of them fails with
    """

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[tuple[int, BaseException]] = []
        self._error = error

    def send(self, record: FakeRecord, error: BaseException) -> Sent:
        self.sent.append((record.offset, error))
        return Sent(self._error)


def until(handler: Handler, condition: Callable[[], object], timeout: float = 10.0) -> None:
    deadline = handler.now() + timeout
    while not condition():
        assert handler.now() < deadline, "it did not happen in time"
        handler.sleep(0.002)
