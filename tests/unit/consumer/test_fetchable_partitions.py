"""The choice of the partitions that a fetcher asks for next, and how much of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from pykafka.common import TopicPartition
from pykafka.consumer.fetch_plan import Asked, Member, Plan
from pykafka.consumer.fetcher import RESPONSE_MAX_BYTES, FetchablePartitions

QUARTER = 1000


class FakeBuffers:
    """The buffers of a consumer, as much as a plan needs of them."""

    def __init__(self, nbytes: int = 0, max_bytes: int = 4 * QUARTER) -> None:
        self.nbytes = nbytes
        self.max_bytes = max_bytes

    def wait_for_room(self, wake: object) -> bool:
        return self.nbytes >= self.max_bytes


class FakeCompleted:
    """Has each partition at the offset that the test gives it, and nothing where it gives none."""

    def __init__(self) -> None:
        self.fed: set[object] = set()
        self.coming: dict[object, Any] = {}
        self.kept: dict[object, Any] = {}

    def next_fetch(self, owned: Any) -> tuple[int, int] | None:
        return None if owned.offset is None else (0, owned.offset)


class Owned:
    """A partition of a consumer."""

    leader_epochs = SimpleNamespace(before=lambda at: -1)
    leader_epoch = -1
    topic_id: Any = None
    max_bytes = 300
    epoch = 0
    paused = False

    def __init__(self, number: int, offset: int | None, buffers: FakeBuffers) -> None:
        self.key = TopicPartition("t", number)
        self.offset = self.fetch_offset = offset
        self.buffers = buffers


def member(number: int, offset: int | None = 0, *, buffers: FakeBuffers | None = None, gone: bool = False) -> Any:
    owned = Owned(number, offset, buffers or FakeBuffers())
    return Member(cast(Any, owned), cast(Any, lambda: None if gone else SimpleNamespace()))


def fetchable(*members: Member) -> tuple[FetchablePartitions, FakeCompleted]:
    completed: Any = FakeCompleted()
    made = FetchablePartitions(completed, cast(Any, None))
    for one in members:
        made.add(one)
    return made, completed


def numbers(plan: Plan) -> list[int]:
    return [key.partition for key in plan.partitions]


def test_partitions_that_have_enough_are_left_out_and_come_first_next_time() -> None:
    full = member(0, None)
    made, _ = fetchable(full, member(1))
    assert (numbers(plan := made.plan(limited=True)), plan.held_back) == ([1], True)
    full.owned.offset = 5
    assert (numbers(plan := made.plan(limited=True)), plan.held_back) == ([0, 1], False)


def test_partitions_that_were_served_come_last() -> None:
    first, second = member(0), member(1)
    made, completed = fetchable(first, second)
    completed.fed.add(first.owned)
    assert numbers(made.plan(limited=True)) == [1, 0]


def test_consumers_share_a_request_at_one_offset_and_take_turns_at_two() -> None:
    made, _ = fetchable(member(0, 5), member(0, 5), member(0, 6))
    offsets = [one.offset for one in made.plan(limited=True).partitions.values()]
    assert offsets == [5]
    (asked,) = made.plan(limited=True).partitions.values()
    assert isinstance(asked, Asked)
    assert (asked.offset, len(asked.members)) == (6, 1)


def test_an_answer_may_fill_a_quarter_of_the_smallest_buffer() -> None:
    made, _ = fetchable(member(0), member(1, buffers=FakeBuffers(max_bytes=400)))
    assert made.plan(limited=True).max_bytes == 100
    assert fetchable()[0].plan(limited=True).max_bytes == RESPONSE_MAX_BYTES


def test_brokers_without_a_limit_for_answers_are_asked_for_fewer_partitions() -> None:
    buffers = FakeBuffers()
    made, _ = fetchable(*(member(number, buffers=buffers) for number in range(6)))
    assert numbers(made.plan(limited=False)) == [0, 1, 2, 3]  # 300 bytes each: the fourth exceeds the room of 1000
    assert numbers(made.plan(limited=True)) == [4, 5, 0, 1, 2, 3]


def test_partitions_of_dropped_consumers_are_given_back() -> None:
    gone = member(0, gone=True)
    made, _ = fetchable(gone, member(1))
    assert made.take_gone() == [gone.owned]
    assert numbers(made.plan(limited=True)) == [1]
    assert made.take_gone() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda one, made: setattr(one.owned, "epoch", 1),  # moved
        lambda one, made: setattr(one.owned, "fetch_offset", 6),
        lambda one, made: setattr(one.owned, "paused", True),
        lambda one, made: setattr(one.owned, "leader_epoch", 3),
        lambda one, made: setattr(one.owned, "max_bytes", 600),
        lambda one, made: setattr(one.owned, "topic_id", uuid4()),
        lambda one, made: setattr(one.owned.buffers, "nbytes", 10),  # something was read, or has come
        lambda one, made: made.add(member(1)),
        lambda one, made: made.remove(one.owned),
        lambda one, made: made._completed.fed.add(one.owned),
        lambda one, made: made._completed.coming.update({one.owned: SimpleNamespace(nbytes=10)}),
    ],
)
def test_a_plan_stands_until_something_changes(change: Any) -> None:
    one = member(0, 5)
    made, _ = fetchable(one)
    assert made.unchanged() is None
    plan = made.plan(limited=True)
    assert made.unchanged() is plan
    change(one, made)
    assert made.unchanged() is None


def test_a_plan_that_leaves_partitions_out_or_has_a_dropped_consumer_does_not_stand() -> None:
    one, full = member(0), member(1, None)
    made, _ = fetchable(one, full)
    assert made.plan(limited=True).held_back
    assert made.unchanged() is None
    made, _ = fetchable(member(0, gone=True))
    made.plan(limited=True)
    assert made.unchanged() is None


def test_a_plan_says_whether_all_topics_have_ids() -> None:
    first, second = member(0), member(1)
    made, _ = fetchable(first, second)
    first.owned.topic_id = uuid4()
    assert not made.plan(limited=True).has_ids
    second.owned.topic_id = uuid4()
    assert made.plan(limited=True).has_ids
