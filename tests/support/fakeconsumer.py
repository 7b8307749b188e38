"""A consumer in memory, for tests of parallel work: logs with gaps, a group that takes partitions away, commits that fail."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler


class FakeRecord:
    """A record with what parallel work needs."""

    def __init__(self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.raw_key = self.key = key
        self.raw_value = self.value = value
        self._ack: Any = None

    def _set_ack(self, ack: Any) -> None:
        self._ack = ack

    def ack(self) -> bool:
        return bool(self._ack.acknowledge())

    def nack(self, error: BaseException | None = None) -> bool:
        return bool(self._ack.refuse(error))

    def __repr__(self) -> str:
        return f"<{self.topic}/{self.partition}@{self.offset} {self.key!r}>"


class FakeConsumer:
    """A consumer of logs in memory; what the group does happens inside of the next `poll`.

    :param handler: for its waits
    :param logs: {partition: its records}; offsets may have gaps
    """

    def __init__(self, handler: Handler, logs: Mapping[TopicPartition, Sequence[FakeRecord]]) -> None:
        self._handler = handler
        self._wake = handler.Event()
        self.turn = handler.Lock()
        self.logs = {partition: list(records) for partition, records in logs.items()}
        self.positions = dict.fromkeys(self.logs, 0)
        #: Where the log ends, behind what it lacks.
        self.ends = {partition: (log[-1].offset + 1 if log else 0) for partition, log in self.logs.items()}
        self.owned = set(self.logs)
        self.kept: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.commits: list[dict[TopicPartition, int]] = []
        self.committed: dict[TopicPartition, int] = {}
        self.changes: deque[Callable[[], object]] = deque()
        self.hooks: Any = None
        self.commit_errors: deque[KafkaException] = deque()
        self.poll_errors: deque[BaseException] = deque()
        self.polls = 0
        self.workers: set[str] = set()

    def poll(self, max_records: int = 500, timeout: float | None = None) -> list[FakeRecord]:
        self.polls += 1
        deadline = self._handler.now() + (1e9 if timeout is None else timeout)
        while True:
            while self.changes:
                self.changes.popleft()()
            if self.poll_errors:
                raise self.poll_errors.popleft()
            found = self._read(max_records)
            left = deadline - self._handler.now()
            if found or left <= 0 or self._wake.is_set():
                self._wake.clear()
                return found
            self._wake.wait(min(left, 5.0))

    def _read(self, max_records: int) -> list[FakeRecord]:
        found: list[FakeRecord] = []
        for partition in sorted(self.owned - self.paused):
            fresh = [one for one in self.logs[partition] if one.offset >= self.positions[partition]]
            fresh = fresh[: max_records - len(found)]
            if fresh:
                last = fresh[-1].offset + 1
                at_end = fresh[-1] is self.logs[partition][-1]
                self.positions[partition] = self.ends[partition] if at_end else last
                found.extend(fresh)
        return found

    def follow(self, hooks: Any) -> None:
        self.hooks = hooks

    @property
    def settled(self) -> bool:
        return True

    @property
    def called(self) -> tuple[str, float] | None:
        return None

    def wakeup(self) -> None:
        self._wake.set()

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.paused.difference_update(partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def position(self, partition: TopicPartition) -> int | None:
        return self.positions[partition]

    def commit(self, what: Mapping[TopicPartition, int], *, timeout: float | None = None) -> None:
        if self.commit_errors:
            raise self.commit_errors.popleft()
        assert self.owned >= what.keys()
        self.commits.append(dict(what))
        self.committed.update(what)

    # -- the group ----------------------------------------------------------------------------------------------------

    def change(self, change: Callable[[], object]) -> None:
        """Make something happen inside of the next poll."""
        self.changes.append(change)
        self._wake.set()

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        self.hooks.revoke(partitions)
        self.kept = {partition: self.positions[partition] for partition in partitions}
        self.owned -= set(partitions)
        self.paused -= set(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        self.owned -= set(partitions)
        self.paused -= set(partitions)
        self.hooks.lose(partitions)

    def assign(self, partitions: Collection[TopicPartition], *, keep: bool = False) -> None:
        """Give partitions, at what is committed.

        :param keep: where they were, as nobody else can have had them
        """
        for partition in partitions:
            self.positions[partition] = self.kept[partition] if keep else self.committed.get(partition, 0)
        self.owned |= set(partitions)


def log_of(
    partition: TopicPartition, count: int, keys: int = 0, gap: Callable[[int], bool] | None = None
) -> list[FakeRecord]:
    """Return the records of a log.

    :param count: of offsets
    :param keys: how many keys take turns; 0 for records without key
    :param gap: tells which offsets the log lacks
    """
    return [
        FakeRecord(*partition, offset, b"k%d" % (offset % keys) if keys else None, b"%d" % offset)
        for offset in range(count)
        if gap is None or not gap(offset)
    ]
