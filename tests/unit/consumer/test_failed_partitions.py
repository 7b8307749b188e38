"""The times at which recovery tries partitions again: a table over a clock."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest

from pykafka.consumer.failed_partitions import JOIN, TOGETHER, FailedPartition, FailedPartitions
from pykafka.exceptions import (
    FencedLeaderEpoch,
    KafkaException,
    LogTruncationError,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    OffsetResetNeededError,
    SaslAuthenticationFailed,
    SocketDisconnectedError,
    TopicAuthorizationFailed,
    TopicRecreatedError,
)
from pykafka.utils.backoff import Backoff

FIRST_MS = 100
PAUSE_S = FIRST_MS / 1000


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def owned(**state: Any) -> Any:
    """Return a partition."""
    return mock.Mock(**({"moves": 0, "messages": 0, "borrow": 0, "topic_id": None, "trouble_since": None} | state))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cases(clock: Clock) -> FailedPartitions:
    return FailedPartitions(clock, Backoff(FIRST_MS, 1000, random.Random(1)))


@pytest.mark.parametrize(
    ("error", "at_once"),
    [
        (OffsetOutOfRangeError(), True),
        (FencedLeaderEpoch(), True),
        (NotLeaderForPartition(), False),
        (SocketDisconnectedError(), False),
    ],
)
def test_what_can_be_corrected_is_tried_at_once_and_only_once(
    cases: FailedPartitions, clock: Clock, error: KafkaException, at_once: bool
) -> None:
    case = cases.add(owned(), 0, error)
    assert (cases.due() == [case]) is at_once
    again = cases.add(owned(trouble_since=clock.now), 0, error)
    assert again not in cases.due()


def test_a_position_out_of_range_ends_the_outage_before_it(cases: FailedPartitions, clock: Clock) -> None:
    """The broker answers again: how long it did not says nothing about the position, which is corrected at once."""
    part = owned()
    cases.add(part, 0, SocketDisconnectedError())
    part.trouble_since = clock.now
    clock.now += 60
    case = cases.add(part, 0, OffsetOutOfRangeError())
    assert part.trouble_since is None
    assert cases.due() == [case]
    part.trouble_since = clock.now
    again = cases.add(part, 0, OffsetOutOfRangeError())
    assert part.trouble_since == clock.now
    assert cases.due() == []
    cases.again(again, SocketDisconnectedError())
    assert (again.asked, again.astray) == (True, True)


def test_a_position_is_tried_at_another_leader_once_until_it_is_fetched(cases: FailedPartitions, clock: Clock) -> None:
    """Two brokers that name each other must not make a loop; nor is the reset to be late if both lack the position."""
    part, error = owned(), OffsetOutOfRangeError(broker="a:9092")
    leader: Any = mock.Mock(address="a:9092")
    part.partition.leader = leader
    first = cases.add(part, 0, error)
    assert (first.unsure, first.wants_metadata, first.is_led_elsewhere) == (True, True, False)
    assert first.refused_by == leader
    leader.address = "b:9092"
    found: Any = first.is_led_elsewhere, first.refused_by
    assert found == (True, None)
    cases.send_on(first)
    part.trouble_since = clock.now
    cases.add(part, 0, NotLeaderForPartition())
    cases.add(part, 0, FencedLeaderEpoch())
    assert cases.due() == []
    second = cases.add(part, 0, error)
    assert (second.unsure, second.wants_metadata, second.is_led_elsewhere) == (False, False, False)
    assert cases.due() == [second]
    part.trouble_since = None  # it was fetched
    assert cases.add(part, 0, error).unsure


@pytest.mark.parametrize("leader", [None, "b:9092"])
@pytest.mark.parametrize("refused_by", [None, "a:9092"])
def test_only_the_refusal_of_a_former_leader_is_no_reason_for_a_reset(
    cases: FailedPartitions, leader: str | None, refused_by: str | None
) -> None:
    """If it is not known who has refused, the leader has."""
    part = owned()
    part.partition.leader = leader and mock.Mock(address=leader)
    case = cases.add(part, 0, OffsetOutOfRangeError(broker=refused_by))
    found = [case.is_led_elsewhere]
    case.error = TopicRecreatedError("made anew", None, None)
    found.append(case.is_led_elsewhere)
    assert found == [leader is None or refused_by is not None, False]


def test_partitions_that_fail_together_are_tried_together(cases: FailedPartitions, clock: Clock) -> None:
    first = cases.add(owned(), 0, NotLeaderForPartition())
    clock.now += PAUSE_S * (1 - JOIN) / 4
    second = cases.add(owned(), 0, NotLeaderForPartition())
    clock.now = max(first.due, second.due) - PAUSE_S * TOGETHER / 2
    assert cases.due() == [first, second]


def test_pauses_grow_while_a_partition_fails(cases: FailedPartitions, clock: Clock) -> None:
    case = cases.add(owned(), 0, NotLeaderForPartition())
    waits = []
    for _ in range(6):
        waits.append(cases.next_wait())
        clock.now = case.due
        cases.again(case)
    assert waits[-1] > 4 * waits[0]
    assert waits[-1] <= 1.3  # s; pauses end at 1000 ms, more or less a random part


def test_a_partition_that_the_application_has_moved_is_due_at_once(cases: FailedPartitions) -> None:
    part = owned()
    case = cases.add(part, 0, NotLeaderForPartition())
    assert cases.due() == []
    part.moves += 1
    assert cases.due() == [case]


def test_a_closed_case_is_over(cases: FailedPartitions) -> None:
    part = owned()
    case = cases.add(part, 0, NotLeaderForPartition())
    assert (part in cases, len(cases)) == (True, 1)
    cases.close(case)
    assert (part in cases, len(cases)) == (False, 0)


@pytest.mark.parametrize(
    ("error", "state", "wanted"),
    [
        (NotLeaderForPartition(), {}, True),
        (SocketDisconnectedError(), {}, True),
        (TopicAuthorizationFailed(), {}, False),  # another broker would refuse it, too
        (SaslAuthenticationFailed("not let in"), {}, True),  # by this broker; nobody has refused the partition
        (OffsetResetNeededError(), {}, False),
        (TopicRecreatedError("made anew", None, None), {}, False),
        (OffsetOutOfRangeError(), {}, False),
        (OffsetOutOfRangeError(), {"topic_id": "an id"}, True),
        (LogTruncationError(5, 3), {"topic_id": "an id"}, True),
        (LogTruncationError(5, 3), {"topic_id": "an id", "messages": 1}, False),
        (LogTruncationError(5, 3), {"topic_id": "an id", "moves": 1}, False),
    ],
)
def test_metadata_is_asked_for_where_it_may_help(error: KafkaException, state: dict[str, Any], wanted: bool) -> None:
    assert FailedPartition(owned(**state), 0, error, 0.0).wants_metadata is wanted


@pytest.mark.parametrize(
    ("error", "lost", "nowhere"),
    [
        (OffsetOutOfRangeError(), True, False),
        (LogTruncationError(5, 3), True, False),
        (OffsetResetNeededError(), False, True),
        (NotLeaderForPartition(), False, False),
    ],
)
def test_lost_positions_are_told_from_missing_ones(error: KafkaException, lost: bool, nowhere: bool) -> None:
    case = FailedPartition(owned(), 0, error, 0.0)
    assert (case.is_lost, case.is_nowhere) == (lost, nowhere)
