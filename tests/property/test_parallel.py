"""The table of parallel work against a simple model: any order of ends, failures, revocations and rewinds."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykafka.common import TopicPartition
from pykafka.parallel.task import OffsetTracker, Task
from pykafka.parallel.tasks import Limits, Order, TaskTable
from tests.support.fakeconsumer import FakeRecord

PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


@given(st.data())
def test_the_tracker_commits_as_a_set_of_offsets_does(data: st.DataObject) -> None:
    tracker: OffsetTracker[int] = OffsetTracker()
    open_: dict[int, int] = {}  # number -> offset
    done: set[int] = set()
    end = None
    for _ in range(data.draw(st.integers(1, 30))):
        step = data.draw(st.sampled_from(["give", "acknowledge", "acknowledge all but one", "rewind", "twice"]))
        if step == "give":
            gaps = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2000))
            offsets, at = [], (end or 0) - 1
            for gap in gaps:
                at += gap
                offsets.append(at)
            first = tracker.give(offsets, offsets)
            open_.update(zip(range(first, first + len(offsets)), offsets, strict=True))
            end = at + 1
        elif step == "acknowledge" and open_:
            number = data.draw(st.sampled_from(sorted(open_)))
            assert tracker.acknowledge(number)
            del open_[number]
            done.add(number)
        elif step == "acknowledge all but one" and open_:
            kept = data.draw(st.sampled_from(sorted(open_)))
            for number in [one for one in open_ if one != kept]:
                assert tracker.acknowledge(number)
                done.add(number)
            open_ = {kept: open_[kept]}
        elif step == "rewind" and end:
            offset = data.draw(st.integers(0, end - 1))
            gone = [number for number, one in open_.items() if one >= offset]
            assert tracker.rewind(offset) == [open_.pop(number) for number in sorted(gone)]
            end = offset
        elif step == "twice" and done:
            assert not tracker.acknowledge(data.draw(st.sampled_from(sorted(done))))
        assert tracker.unacknowledged == len(open_)
        assert tracker.unacknowledged_items() == [open_[number] for number in sorted(open_)]
        assert tracker.committable == (min(open_.values()) if open_ else end)
        assert tracker.end == end


class World:
    """A table of tasks, its workers, and what the broker has of each partition; the order of events is drawn."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.order: Order = chance.choice(["key", "partition", None])
        self.manual = chance.random() < 0.5
        keys = [b"a", b"b", None]
        self.logs = {
            one: [FakeRecord(*one, at, chance.choice(keys), b"x" * 10) for at in range(200) if chance.random() < 0.7]
            for one in PARTITIONS
        }
        self.tasks = TaskTable(self.order, Limits(50, 10_000), self.acknowledger if self.manual else None)
        self.now = 0.0
        self.positions = dict.fromkeys(PARTITIONS, 0)
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.running: list[tuple[Task, FakeRecord]] = []
        self.returned: list[Task] = []
        #: {partition: offsets that were handled to their end at least once}
        self.handled: dict[TopicPartition, set[int]] = defaultdict(set)
        self.given: dict[TopicPartition, set[int]] = defaultdict(set)
        self.began: dict[Any, list[int]] = defaultdict(list)

    def acknowledger(self, task: Task) -> None:
        return None

    def queue_key(self, record: FakeRecord) -> Any:
        partition = TopicPartition(record.topic, record.partition)
        return {"key": (partition, record.key), "partition": (partition, None), None: (partition, record.offset)}[
            self.order
        ]

    def give(self) -> None:
        records = []
        for partition in PARTITIONS:
            at = self.positions[partition]
            found = [one for one in self.logs[partition] if one.offset >= at][: self.chance.randrange(7)]
            records.extend(found)
            self.positions[partition] = found[-1].offset + 1 if found else at
        for record in records:
            self.given[TopicPartition(record.topic, record.partition)].add(record.offset)
        self.tasks.flow(self.tasks.give(records))

    def take(self) -> None:
        task = self.tasks.take()
        if task is None:
            return
        record = task.record
        if task.error is not None:
            self.running.append((task, record))
            return
        if self.order is not None and (self.order == "partition" or record.key is not None):
            queue_key = self.queue_key(record)
            assert queue_key not in [self.queue_key(one) for _, one in self.running], "two of one key at a time"
            self.began[queue_key].append(record.offset)
        self.running.append((task, record))

    def end(self, fails: bool | None = None) -> None:
        if not self.running:
            return
        task, record = self.running.pop(self.chance.randrange(len(self.running)))
        fails = self.chance.random() < 0.3 if fails is None else fails
        if fails or task.error is not None:
            if fails and not (task.acknowledged or task.dropped):
                task.failures += 1
                self.tasks.retry_later(task, self.now + self.chance.uniform(0.1, 5))
            else:
                self.handled[TopicPartition(record.topic, record.partition)].add(record.offset)
                self.tasks.complete(task)
            return
        self.handled[TopicPartition(record.topic, record.partition)].add(record.offset)
        assert self.tasks.on_handled(task)
        if self.manual and not task.dropped and not task.acknowledged:
            self.returned.append(task)

    def by_hand(self, refuse: bool | None = None) -> None:
        if not self.returned:
            return
        task = self.returned.pop(self.chance.randrange(len(self.returned)))
        gone = task.dropped
        if self.chance.random() < 0.5 if refuse is None else refuse:
            assert self.tasks.refuse(task, ValueError()) != gone
        else:
            assert self.tasks.acknowledge(task) != gone
            assert self.tasks.acknowledge(task) != gone

    def commit(self) -> None:
        for partition, progress in self.tasks.progress.items():
            offset = progress.tracker.committable
            assert offset is not None
            passed = {one for one in self.given[partition] if one < offset}
            assert passed <= self.handled[partition], "committed past a record that nobody has handled"
            self.committed[partition] = offset

    def revoke(self) -> None:
        partition = self.chance.choice(PARTITIONS)
        self.tasks.revoke_tasks([partition])
        if self.chance.random() < 0.5:
            self.end()
            self.commit()
        for record in self.tasks.forget(partition):
            assert record.offset in self.given[partition]
        assert partition not in self.tasks.progress
        self.positions[partition] = self.committed[partition]

    def seek(self) -> None:
        partition = self.chance.choice(PARTITIONS)
        self.positions[partition] = self.chance.randint(0, self.positions[partition])

    def wait(self) -> None:
        self.now += self.chance.uniform(0, 10)
        self.tasks.wake_due(self.now)

    def check(self) -> None:
        tasks = self.tasks
        unacknowledged_items = [task for one in tasks.progress.values() for task in one.tracker.unacknowledged_items()]
        assert tasks.unacknowledged == len(unacknowledged_items)
        assert tasks.bytes == sum(task.size for task in unacknowledged_items)
        assert tasks.under_way == len(self.running) + len([task for task in self.returned if not task.dropped])

    def finish(self) -> None:
        """End all tasks well: nothing may be left, whatever came before."""
        for _ in range(100_000):
            self.now += 100
            self.tasks.wake_due(self.now)
            self.take()
            self.end(fails=False)
            self.by_hand(refuse=False)
            if not self.tasks.unacknowledged and not self.running:
                break
        assert self.tasks.unacknowledged == self.tasks.bytes == 0
        assert not self.tasks.ready
        assert not any(one.queues for one in self.tasks.progress.values())
        assert all(one.tracker.committable == one.tracker.end for one in self.tasks.progress.values())


@given(st.integers(0, 2**32))
def test_tasks_end_in_order_and_none_is_passed_over(seed: int) -> None:
    world = World(seed)
    steps = [*[world.give] * 2, *[world.take] * 6, *[world.end] * 4, *[world.by_hand] * 3]
    for _ in range(world.chance.randint(1, 300)):
        world.chance.choice([*steps, world.wait, world.commit, world.revoke, world.seek])()
        world.check()
    world.finish()
    world.check()
