"""`TaskTable` without workers: each step of a record, and what the table counts, orders and holds back meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from pykafka.common import TopicPartition
from pykafka.parallel.task import ENDED, PAUSED, READY, RETURNED, RUNNING, WAITING, Progress, Task
from pykafka.parallel.tasks import Limits, Order, TaskTable, grouped
from tests.support.fakeconsumer import FakeRecord, log_of
from tests.unit.parallel.runs import A, B

WIDE = Limits(1000, 1_000_000)


def table(order: Order = None, limits: Limits = WIDE, *, manual: bool = False) -> TaskTable:
    """Return an empty one; with `manual`, the receiver of `record.ack()` is its task."""
    return TaskTable(order, limits, (lambda task: task) if manual else None)


def records(partition: TopicPartition, offsets: Iterable[int], keys: int = 0) -> list[FakeRecord]:
    """Return records of some offsets, each of one byte and of one of some keys in turn."""
    return [
        FakeRecord(*partition, offset, b"k%d" % (offset % keys) if keys else None, b"v") for offset in sorted(offsets)
    ]


def begin(tasks: TaskTable) -> dict[int, Task]:
    """Take all tasks that are ready; return them by offset."""
    return {task.record.offset: task for task in begin_all(tasks)}


def begin_all(tasks: TaskTable) -> list[Task]:
    """Take all tasks that are ready, as a worker that calls `handle()` next."""
    taken = list(iter(tasks.take, None))
    for task in taken:
        task.called = True
    return taken


def counts(tasks: TaskTable) -> tuple[int, int, int, int]:
    """Return what is unacknowledged, under way, acknowledged and late."""
    return tasks.unacknowledged, tasks.under_way, tasks.acknowledged, tasks.late


# -- giving and taking ---------------------------------------------------------------------------------------------------


def test_records_are_grouped_in_stretches_of_ascending_offsets() -> None:
    given = [*records(A, (3, 5)), *records(B, (0, 1)), *records(A, (6,)), *records(A, (5, 6)), *records(A, (6,))]
    found = [
        (partition, offsets, [record.offset for record in members]) for partition, offsets, members in grouped(given)
    ]
    stretches = [(A, [3, 5]), (B, [0, 1]), (A, [6]), (A, [5, 6]), (A, [6])]
    assert found == [(partition, offsets, offsets) for partition, offsets in stretches]
    assert list(grouped([])) == []
    other = TopicPartition("payments", 0)
    assert [partition for partition, _, _ in grouped([*records(A, (0,)), *records(other, (1,))])] == [A, other]


@pytest.mark.parametrize(
    ("order", "ready"),
    [(None, [0, 1, 2, 3, 4]), ("key", [0, 1]), ("partition", [0])],
)
def test_the_order_says_which_records_wait_for_others(order: Order, ready: list[int]) -> None:
    tasks = table(order)
    assert [progress.partition for progress in tasks.give(log_of(A, 5, keys=2))] == [A]
    taken = begin(tasks)
    assert list(taken) == ready
    assert {task.state for task in taken.values()} == {RUNNING}
    assert counts(tasks) == (5, len(ready), 0, 0)
    done = list(ready)
    while taken:
        _, task = taken.popitem()
        assert tasks.on_handled(task)
        assert (task.state, task.acknowledged, task.record) == (ENDED, True, None)
        taken |= begin(tasks)
        done += [offset for offset in taken if offset not in done]
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert counts(tasks) == (0, 0, 5, 0)
    assert tasks.bytes == 0
    assert tasks.progress[A].tracker.committable == 5


def test_partitions_do_not_wait_for_each_other() -> None:
    tasks = table("partition")
    touched = tasks.give([*log_of(A, 2), *log_of(B, 2)])
    assert [progress.partition for progress in touched] == [A, B]
    assert [progress.committed for progress in touched] == [0, 0]
    first, second = tasks.take(), tasks.take()
    assert first is not None
    assert second is not None
    assert [first.progress.partition, second.progress.partition] == [A, B]
    assert tasks.take() is None
    assert tasks.give(records(A, (2,))) == [tasks.progress[A]]


def test_bytes_are_those_of_keys_and_values() -> None:
    tasks = table()
    for offset, (key, value) in enumerate([(b"key", b"value"), (None, b"value"), (b"key", None), (None, None)]):
        tasks.give([FakeRecord(*A, offset, key, value)])
    assert tasks.bytes == 8 + 5 + 3
    tasks.forget(A)
    assert tasks.bytes == tasks.unacknowledged == 0


def test_a_rewind_drops_what_comes_again() -> None:
    """Running ones end without an effect, waiting ones never run, and the lower ones stay."""
    tasks = table("key")
    tasks.give(records(A, range(6), keys=2))
    running = begin(tasks)
    tasks.on_handled(running[1])  # so 3 is ready
    tasks.give(records(A, range(3, 6), keys=2))
    assert counts(tasks) == (5, 1, 1, 0)  # 0 and 2 of before, 3 to 5 of now
    assert tasks.bytes == 5 * 3
    taken = begin(tasks)
    assert list(taken) == [3]
    tasks.on_handled(running[0])
    assert list(begin(tasks)) == [2]
    assert tasks.progress[A].tracker.committable == 2


def test_what_was_handed_out_again_at_once_is_not_dropped() -> None:
    tasks = table()
    tasks.give(records(A, range(3)))
    tasks.give(records(A, range(3, 6)))
    assert list(begin(tasks)) == [0, 1, 2, 3, 4, 5]


# -- ends, failures and pauses -------------------------------------------------------------------------------------------


def test_a_failed_task_pauses_and_holds_its_queue() -> None:
    tasks = table("key")
    tasks.give(records(A, range(4), keys=2))
    taken = begin(tasks)
    for offset, due in ((0, 20.0), (1, 10.0)):
        taken[offset].error = ValueError("no")
        tasks.retry_later(taken[offset], due)
        assert (taken[offset].state, taken[offset].error) == (PAUSED, None)
    assert (tasks.under_way, tasks.pausing, tasks.next_due) == (0, 2, 10.0)
    assert tasks.progress[A].under_way == 0
    tasks.wake_due(9.9)
    assert tasks.take() is None
    tasks.wake_due(10.0)
    assert (tasks.pausing, tasks.next_due) == (1, 20.0)
    assert list(begin(tasks)) == [1]
    tasks.wake_due(30.0)
    assert (tasks.pausing, tasks.next_due) == (0, None)
    assert list(begin(tasks)) == [0]


def test_tasks_that_are_due_together_go_in_the_order_of_their_failures() -> None:
    tasks = table()
    tasks.give(records(A, range(3)))
    taken = begin(tasks)
    for offset in (2, 0, 1):
        tasks.retry_later(taken[offset], 5.0)
    tasks.wake_due(5.0)
    assert list(begin(tasks)) == [2, 0, 1]


def test_a_pause_that_was_ended_otherwise_is_passed_over() -> None:
    tasks = table("partition", manual=True)
    tasks.give([*records(A, range(2)), *records(B, range(1))])
    taken = {task.progress.partition: task for task in begin_all(tasks)}
    tasks.retry_later(taken[A], 1.0)
    tasks.retry_later(taken[B], 2.0)
    assert tasks.acknowledge(taken[A])
    assert (tasks.pausing, tasks.next_due) == (1, 2.0)
    tasks.wake_due(1.5)
    assert [task.record.offset for task in begin_all(tasks)] == [1]
    assert tasks.acknowledge(taken[B])
    assert tasks.next_due is None
    tasks.wake_due(5.0)
    assert not tasks.ready


@pytest.mark.parametrize("state", ["dropped", "acknowledged", "revoked"])
def test_what_needs_no_further_try_is_not_tried_later(state: str) -> None:
    tasks = table("key", manual=True)
    tasks.give(records(A, range(2), keys=1))
    [task] = begin_all(tasks)
    if state == "acknowledged":
        tasks.acknowledge(task)
    else:
        tasks.revoke_tasks([A])
        if state == "dropped":
            assert tasks.forget(A) == [task.record]
    tasks.retry_later(task, 1.0)
    assert (task.state, tasks.pausing, tasks.under_way) == (ENDED, 0, 0)
    assert [other.record.offset for other in begin_all(tasks)] == ([1] if state == "acknowledged" else [])


def test_an_abandoned_task_ends_its_queue_and_counts_as_begun() -> None:
    tasks = table("partition")
    tasks.give(records(A, range(3)))
    [task] = begin_all(tasks)
    tasks.abandon(task)
    assert (task.state, task.failures, task.begun, tasks.under_way) == (ENDED, 1, True, 0)
    assert begin_all(tasks) == []
    assert tasks.progress[A].tracker.committable == 0
    assert counts(tasks) == (3, 0, 0, 0)
    tasks.give(records(B, (0,)))
    [other] = begin_all(tasks)
    other.failures = 3
    tasks.abandon(other)
    assert other.failures == 3
    assert [record.offset for record in tasks.forget(A)] == [0]


@pytest.mark.parametrize(("is_known", "acknowledged"), [(False, 1), (True, 1)])
def test_a_dead_letter_acknowledges_once(is_known: bool, acknowledged: int) -> None:
    tasks = table("partition", manual=True)
    tasks.give(records(A, range(2)))
    [task] = begin_all(tasks)
    if is_known:
        tasks.acknowledge(task)
    tasks.complete(task)
    assert counts(tasks) == (1, 0, acknowledged, 0)
    assert task.state == ENDED
    assert [other.record.offset for other in begin_all(tasks)] == [1]
    assert tasks.progress[A].tracker.committable == 1


def test_a_dead_letter_of_a_revoked_partition_counts_for_nothing() -> None:
    tasks = table("partition")
    tasks.give(records(A, range(2)))
    [task] = begin_all(tasks)
    tasks.forget(A)
    tasks.complete(task)
    assert counts(tasks) == (0, 0, 0, 0)
    assert not task.acknowledged


# -- acknowledgement by hand ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["ready", "running", "returned", "paused"])
def test_an_acknowledgement_by_hand_counts_once_at_any_time(when: str) -> None:
    """The next record of the queue runs when `handle()` has returned, too."""
    tasks = table("partition", manual=True)
    tasks.give(records(A, range(2)))
    [task] = begin_all(tasks)
    if when == "ready":
        tasks.on_handled(task)
        assert tasks.refuse(task, ValueError())
    elif when == "returned":
        assert tasks.on_handled(task)
        assert (task.state, tasks.under_way) == (RETURNED, 1)
    elif when == "paused":
        tasks.retry_later(task, 1.0)
    assert tasks.acknowledge(task)
    assert tasks.acknowledge(task)
    assert counts(tasks) == (1, 1 if when == "running" else 0, 1, 0)
    assert tasks.progress[A].tracker.committable == 1
    if when == "running":
        assert begin_all(tasks) == []
        assert tasks.on_handled(task)
    assert [other.record.offset for other in begin_all(tasks)] == [1]
    assert task.state == ENDED


def test_the_record_reaches_its_task() -> None:
    tasks = table(manual=True)
    given = records(A, (0,))
    tasks.give(given)
    [task] = begin_all(tasks)
    assert given[0]._ack is task
    given = records(B, (0,))
    table().give(given)
    assert given[0]._ack is None


def test_a_record_that_is_refused_while_it_runs_fails_when_it_has_returned() -> None:
    tasks = table(manual=True)
    tasks.give(records(A, (0,)))
    [task] = begin_all(tasks)
    error = ValueError("no")
    assert tasks.refuse(task, error)
    assert not tasks.on_handled(task)
    assert (task.state, task.error, tasks.under_way) == (RUNNING, error, 1)
    tasks.retry_later(task, 0.0)
    assert tasks.pausing == 1


def test_a_record_that_is_refused_after_its_return_is_handled_as_failed_by_a_worker() -> None:
    tasks = table("partition", manual=True)
    tasks.give(records(A, range(2)))
    [task] = begin_all(tasks)
    tasks.on_handled(task)
    error = ValueError("no")
    assert tasks.refuse(task, error)
    assert (task.state, task.error, tasks.under_way, tasks.progress[A].under_way) == (READY, error, 0, 0)
    assert begin_all(tasks) == [task]
    assert (task.state, task.error, task.failures) == (RUNNING, error, 0)


def test_a_record_of_a_partition_that_goes_is_refused_for_good() -> None:
    tasks = table("partition", manual=True)
    tasks.give(records(A, range(2)))
    [task] = begin_all(tasks)
    tasks.on_handled(task)
    task.failures = 1
    assert tasks.revoke_tasks([A]) == [tasks.progress[A]]
    assert tasks.refuse(task, ValueError())
    assert (task.state, task.failures, tasks.under_way) == (ENDED, 2, 0)
    assert begin_all(tasks) == []
    assert [record.offset for record in tasks.forget(A)] == [0]


def refuse_acknowledged(tasks: TaskTable, task: Task) -> None:
    tasks.acknowledge(task)


def refuse_dropped(tasks: TaskTable, task: Task) -> None:
    tasks.forget(A)


def refuse_paused(tasks: TaskTable, task: Task) -> None:
    tasks.retry_later(task, 1.0)


@pytest.mark.parametrize("before", [refuse_acknowledged, refuse_dropped, refuse_paused])
def test_a_refusal_counts_for_what_runs_or_has_returned_alone(before: Callable[[TaskTable, Task], None]) -> None:
    tasks = table(manual=True)
    tasks.give(records(A, (0,)))
    [task] = begin_all(tasks)
    before(tasks, task)
    assert not tasks.refuse(task, ValueError())
    assert task.error is None


# -- partitions that go --------------------------------------------------------------------------------------------------


def test_of_a_revoked_partition_no_further_task_starts() -> None:
    tasks = table("key", manual=True)
    tasks.give([*records(A, range(6), keys=3), *records(B, (0,))])
    ran, returned, paused, _ = begin_all(tasks)
    tasks.on_handled(returned)
    tasks.retry_later(paused, 1.0)
    assert tasks.revoke_tasks([A, TopicPartition("unknown", 0)]) == [tasks.progress[A]]
    progress = tasks.progress[A]
    assert progress.is_revoked
    assert progress.watched
    assert progress.under_way == 2
    assert [task.dropped for task in (ran, returned, paused)] == [False, False, True]
    assert (paused.state, tasks.pausing, tasks.next_due) == (ENDED, 0, None)
    assert tasks.acknowledge(returned)  # in time
    assert tasks.on_handled(ran)
    assert begin_all(tasks) == []
    assert (tasks.acknowledged, tasks.late) == (1, 0)


def test_what_is_ready_leaves_with_its_partition() -> None:
    tasks = table()
    tasks.give([*records(A, range(3)), *records(B, range(2))])
    assert [task.record.offset for task in tasks.ready] == [0, 1, 2, 0, 1]
    begun = tasks.take()
    assert begun is not None
    tasks.revoke_tasks([A])
    assert [task.progress.partition for task in begin_all(tasks)] == [B, B]
    assert tasks.on_handled(begun)
    assert tasks.forget(A) == []
    assert counts(tasks) == (2, 2, 1, 0)


@pytest.mark.parametrize("manual", [False, True])
def test_what_ends_after_its_partition_has_gone_is_late(manual: bool) -> None:
    """By hand, the acknowledgement is what comes late."""
    tasks = table("key", manual=manual)
    tasks.give(records(A, range(4), keys=2))
    running = begin_all(tasks)
    assert [record.offset for record in tasks.forget(A)] == [0, 1]
    assert tasks.forget(A) == []
    assert (tasks.unacknowledged, tasks.bytes, tasks.under_way) == (0, 0, 2)
    for late, task in enumerate(running, 1):
        assert tasks.on_handled(task)
        assert tasks.late == (0 if manual else late)
    for late, task in enumerate(running if manual else (), 1):
        assert not tasks.acknowledge(task)
        assert tasks.late == late
    assert counts(tasks) == (0, 0, 0, 2)
    assert not any(task.acknowledged for task in running)


def test_a_returned_task_leaves_with_its_partition() -> None:
    tasks = table(manual=True)
    tasks.give(records(A, range(2)))
    for task in begin_all(tasks):
        tasks.on_handled(task)
    assert tasks.under_way == 2
    assert [record.offset for record in tasks.forget(A)] == [0, 1]
    assert tasks.under_way == 0
    assert task.state == ENDED


@pytest.mark.parametrize("order", ["key", "partition"])
def test_a_partition_that_comes_back_waits_for_what_still_runs(order: Order) -> None:
    """The records of one key are never handled at a time, and the next one runs when the former one has ended."""
    tasks = table(order)
    tasks.give(records(A, range(2), keys=1))
    [former] = begin_all(tasks)
    tasks.revoke_tasks([A])
    tasks.forget(A)
    tasks.give(records(A, range(2), keys=1))
    assert begin_all(tasks) == []
    tasks.on_handled(former)
    [again] = begin_all(tasks)
    assert again.record.offset == 0
    assert again is not former
    tasks.on_handled(again)
    assert [task.record.offset for task in begin_all(tasks)] == [1]
    assert tasks.late == 1


def test_a_task_whose_pause_is_over_leaves_with_its_partition() -> None:
    tasks = table()
    tasks.give(records(A, (0,)))
    [task] = begin_all(tasks)
    tasks.retry_later(task, 1.0)
    tasks.wake_due(1.0)
    assert task.state == READY
    tasks.revoke_tasks([A])
    assert begin_all(tasks) == []
    assert task.state == ENDED


def test_nothing_is_kept_of_a_partition_that_went_while_nothing_ran() -> None:
    tasks = table("key")
    tasks.give([*records(A, (0,), keys=1), *records(B, (0,), keys=1)])
    for task in begin_all(tasks):
        tasks.on_handled(task)
    tasks.forget(A)
    assert list(tasks._queues) == [B]


def test_a_partition_that_comes_back_later_has_no_queue_of_before() -> None:
    tasks = table("key")
    tasks.give(records(A, (0,), keys=1))
    queues = tasks.progress[A].queues
    [former] = begin_all(tasks)
    tasks.forget(A)
    assert tasks._queues == {A: queues}
    tasks.on_handled(former)
    assert tasks._queues == {}
    tasks.give(records(A, (0,), keys=1))
    assert tasks.progress[A].queues is not queues
    assert [task.record.offset for task in begin_all(tasks)] == [0]


# -- holding back --------------------------------------------------------------------------------------------------------


def test_a_partition_is_paused_at_its_limit_and_resumed_at_half_of_it() -> None:
    tasks = table(limits=Limits(4, 1000))
    touched = tasks.give([*records(A, range(3)), *records(B, range(4))])
    assert tasks.flow(touched) == ([B], [])
    assert [progress.is_paused for progress in touched] == [False, True]
    assert tasks.flow([]) == ([], [])
    assert [progress.watched for progress in touched] == [False, True]
    assert tasks.flow(tasks.give(records(A, (3, 4)))) == ([A], [])
    taken = {(task.progress.partition, task.record.offset): task for task in begin_all(tasks)}
    tasks.on_handled(taken[B, 0])
    assert not tasks.ends_wait(touched[1])
    assert tasks.flow([]) == ([], [])
    tasks.on_handled(taken[B, 1])
    assert tasks.ends_wait(touched[1])
    assert not touched[1].watched
    assert tasks.flow([]) == ([], [B])
    assert not touched[1].is_paused
    assert tasks.flow([]) == ([], [])
    tasks.on_handled(taken[A, 1])  # not the lowest
    tasks.on_handled(taken[A, 2])
    tasks.on_handled(taken[A, 3])
    assert tasks.flow([]) == ([], [])
    tasks.on_handled(taken[A, 0])
    assert tasks.flow([]) == ([], [A])


def test_all_partitions_are_paused_if_their_records_take_too_many_bytes() -> None:
    tasks = table(limits=Limits(100, 6))
    assert tasks.flow(tasks.give([*records(A, range(3)), *records(B, range(2))])) == ([], [])
    assert tasks.flow(tasks.give(records(A, (3,)))) == ([A, B], [])
    assert (tasks.full, tasks.bytes) == (True, 6)
    taken = begin_all(tasks)
    for task in taken[:2]:
        tasks.on_handled(task)
        assert not tasks.ends_wait(tasks.progress[B])
        assert tasks.flow([]) == ([], [])
    tasks.on_handled(taken[2])
    assert tasks.ends_wait(tasks.progress[B])
    assert tasks.flow([]) == ([], [A, B])
    assert (tasks.full, tasks.bytes) == (False, 3)
    assert tasks.flow(tasks.give(records(B, (2, 3)))) == ([], [])


def test_a_paused_partition_that_goes_is_not_resumed() -> None:
    tasks = table(limits=Limits(2, 1000))
    assert tasks.flow(tasks.give([*records(A, range(2)), *records(B, range(2))])) == ([A, B], [])
    tasks.forget(A)
    for task in begin_all(tasks):
        tasks.on_handled(task)
    assert tasks.flow([]) == ([], [B])


def test_a_revocation_waits_until_nothing_is_under_way() -> None:
    tasks = table()
    tasks.give(records(A, range(2)))
    first, second = begin_all(tasks)
    [progress] = tasks.revoke_tasks([A])
    tasks.on_handled(first)
    assert not tasks.ends_wait(progress)
    assert progress.watched
    tasks.on_handled(second)
    assert tasks.ends_wait(progress)
    assert not progress.watched


def test_a_new_partition_begins_where_its_first_record_is() -> None:
    tasks = table("partition")
    [progress] = tasks.give(records(A, (7, 9)))
    assert isinstance(progress, Progress)
    assert (progress.committed, progress.tracker.committable, progress.tracker.end) == (7, 7, 10)
    waiting = progress.tracker.unacknowledged_items()[1]
    assert (waiting.state, waiting.number, waiting.key) == (WAITING, 1, "all")
