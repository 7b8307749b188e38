"""Breaks of a membership, and static members in the order of their instance ids."""

from __future__ import annotations

import pytest

from pykafka.compat import messages
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor, RoundRobinPartitionAssignor
from pykafka.groups.classic.state import Event, MemberState


@pytest.mark.parametrize(
    ("generations", "breaks"), [([1, 2, 3], 0), ([1, 1, 2], 0), ([1, 3], 1), ([5, 4], 1), ([1, 2, 4, 5, 9], 2)]
)
def test_a_missed_generation_is_a_break(generations: list[int], breaks: int) -> None:
    member = MemberState()
    for generation in generations:
        member.apply(Event.REBALANCE)
        member.apply(Event.JOIN)
        member.apply(Event.JOINED, generation, "m", "cooperative-sticky")
        counted = member.breaks
        member.apply(Event.SYNCED)
    assert member.breaks == counted == breaks


@pytest.mark.parametrize("event", [Event.OUTDATED, Event.LOST, Event.LEFT])
def test_a_member_that_was_out_has_a_break(event: Event) -> None:
    member = MemberState()
    member.apply(Event.JOIN)
    member.apply(Event.JOINED, 1, "m", "range")
    member.apply(event)
    assert member.breaks == 1
    member.apply(Event.JOIN)
    member.apply(Event.JOINED, 7, "m", "range")  # of another membership: no further one
    assert member.breaks == 1
    member.apply(event)
    assert member.breaks == 2


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor])
def test_a_static_member_gets_the_same_share_under_another_member_id(
    assignor: type[RangePartitionAssignor] | type[RoundRobinPartitionAssignor],
) -> None:
    def shares(ids: dict[str, str]) -> dict[str, list[int]]:
        members = {}
        for member, instance_id in ids.items():
            members[member] = messages.ConsumerGroupProtocolMetadata(topic_names=["t"])
            members[member].group_instance_id = instance_id
        found = assignor.assign({"t": range(5)}, members)
        return {ids[member]: share.partition_assignment[0][1] for member, share in found.items()}

    assert shares({"m1": "a", "m2": "b", "m3": "c"}) == shares({"m9": "a", "m2": "b", "m0": "c"})
