"""How assignors, and protocols of PyKafka 2, divide the partitions of topics among members."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka.compat.membership_protocol import DecidePartitions, as_brokers_keep_it
from pykafka.compat.topic_member import TopicMember
from pykafka.groups.assignors.abstract import AbstractPartitionAssignor
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor, RoundRobinPartitionAssignor
from pykafka.membershipprotocol import (
    GroupMembershipProtocol,
    RangeProtocol,
    RoundRobinProtocol,
    decide_partitions_range,
    decide_partitions_roundrobin,
)
from pykafka.metadata.partition import Partition
from pykafka.protocol import (
    ConsumerGroupProtocolMetadata,
)


class Numbered:
    """A partition as far as sharing out is concerned."""

    def __init__(self, id_: int, leader: int | None) -> None:
        self.id = id_
        self.topic = SimpleNamespace(name="t")
        self.leader = None if leader is None else SimpleNamespace(id=leader)


@pytest.mark.parametrize("decide", [decide_partitions_range, decide_partitions_roundrobin])
@given(members=st.sets(st.text(), min_size=1, max_size=8), count=st.integers(0, 40), leaders=st.integers(1, 4))
def test_members_divide_evenly_and_completely(
    decide: DecidePartitions, members: set[str], count: int, leaders: int
) -> None:
    partitions = {id_: Numbered(id_, id_ % leaders or None) for id_ in range(count)}
    shares = [decide(members, partitions, member) for member in members]
    assert Counter(part.id for share in shares for part in share) == Counter(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_ranges_are_those_of_old_consumers() -> None:
    """By leader first, as text: members of 2.x work theirs out in this order."""
    partitions: dict[int, Any] = {id_: Numbered(id_, id_ % 2) for id_ in range(12)}
    share = decide_partitions_range(["b", "a"], partitions, "a")
    assert {part.id for part in share} == {0, 2, 4, 6, 8, 10}
    with pytest.raises(ValueError, match="'a' is not among the members"):
        decide_partitions_range(["b"], partitions, "a")


class Named:
    """A topic or a broker, as far as sharing out is concerned."""

    def __init__(self, name: str, id_: int = 0) -> None:
        self.name = name
        self.id = id_


def _divided(protocol: Any, partitions: dict[int, Any]) -> dict[str, list[int]]:
    member: Any = SimpleNamespace(
        _protocol=protocol, _partitions_of=lambda name: partitions, _topics=SimpleNamespace(divided={})
    )
    metadata = bytes(ConsumerGroupProtocolMetadata(topic_names=["t"]).get_bytes())
    found = TopicMember.divide(member, [(name, metadata) for name in "bca"])
    return {name: list(share.partition_assignment[0][1]) for name, share in found.items()}


@pytest.mark.parametrize(
    ("protocol", "shares"),
    [
        (RangeProtocol, {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}),
        (RoundRobinProtocol, {"a": [0, 3, 6], "b": [1, 4], "c": [2, 5]}),
    ],
    ids=["range", "roundrobin"],
)
def test_groups_that_the_brokers_keep_divide_by_number(protocol: Any, shares: dict[str, list[int]]) -> None:
    """As all other clients do in the same group; they went by leader, as members of groups in ZooKeeper must."""
    topic: Any = Named("t")
    leaders: list[Any] = [Named("", id_) for id_ in range(3)]
    partitions = {id_: Partition(topic, id_, leaders[id_ % 3], [], []) for id_ in (6, 0, 5, 1, 4, 2, 3)}
    assert _divided(protocol, partitions) == shares


def test_leaders_that_change_while_a_topic_is_divided() -> None:
    """Each member's share was worked out from what was true at that moment: a partition was nobody's, another two's."""
    topic: Any = Named("t")
    leaders: list[Any] = [Named("", id_) for id_ in range(3)]
    partitions = {id_: Partition(topic, id_, leaders[id_ % 3], [], []) for id_ in range(7)}

    def by_leader(participants: Any, seen: Any, consumer_id: Any) -> set[Any]:
        ordered = sorted(seen.values(), key=lambda partition: (partition.leader.id, partition.id))
        for id_, partition in partitions.items():  # an election, which another worker hears of just now
            partition._leader = leaders[(leaders.index(partition.leader) + id_) % 3]
        partitions.pop(max(partitions))
        return set(ordered[sorted(participants).index(consumer_id) :: len(participants)])

    own = GroupMembershipProtocol("consumer", "own", ConsumerGroupProtocolMetadata(), by_leader)
    assert sorted(id_ for ids in _divided(own, partitions).values() for id_ in ids) == list(range(7))


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor])
@given(
    topics=st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1),
    wishes=st.dictionaries(st.text(min_size=1, max_size=3), st.sets(st.sampled_from("abc"))),
)
def test_assignors_give_every_wanted_partition_to_one_that_wants_it(
    assignor: type[AbstractPartitionAssignor], topics: dict[str, int], wishes: dict[str, set[str]]
) -> None:
    partitions = {topic: range(count) for topic, count in topics.items()}
    shares = assignor.assign(partitions, {member: assignor.metadata(names) for member, names in wishes.items()})
    assert set(shares) == set(wishes)
    given_away: Counter[tuple[str, int]] = Counter()
    for member, share in shares.items():
        for topic, ids in share.partition_assignment:
            assert topic in wishes[member]
            given_away.update((topic, id_) for id_ in ids)
    wanted = set().union(*wishes.values())
    assert given_away == Counter((topic, id_) for topic in wanted for id_ in partitions.get(topic, ()))


@pytest.mark.parametrize(
    ("assignor", "protocol"),
    [(RangePartitionAssignor, RangeProtocol), (RoundRobinPartitionAssignor, RoundRobinProtocol)],
    ids=["range", "roundrobin"],
)
@given(members=st.sets(st.text(min_size=1), min_size=1, max_size=8), count=st.integers(0, 40))
def test_both_faces_share_a_topic_alike(assignor: Any, protocol: Any, members: set[str], count: int) -> None:
    """A group may have members of both faces: the leader decides, whichever it has."""
    numbers = assignor.assign({"t": range(count)}, {member: assignor.metadata(["t"]) for member in members})
    partitions = {id_: Numbered(id_, -id_ % 3 or None) for id_ in range(count)}
    decide = as_brokers_keep_it(protocol.decide_partitions)
    for member in members:
        assert {id_ for _, ids in numbers[member].partition_assignment for id_ in ids} == {
            one.id for one in decide(members, partitions, member)
        }


def test_a_member_that_names_its_topic_twice_has_one_share() -> None:
    """The leader got the topics as they came: the partitions of the first share went to nobody."""
    members = {"a": RangePartitionAssignor.metadata(["t", "t"]), "b": RangePartitionAssignor.metadata(["t"])}
    for assignor in (RangePartitionAssignor, RoundRobinPartitionAssignor):
        shares = assignor.assign({"t": range(6)}, members)
        assert sorted(id_ for one in shares.values() for _, ids in one.partition_assignment for id_ in ids) == [
            *range(6)
        ]


@pytest.mark.parametrize(
    ("assignor", "shares"),
    [
        (RangePartitionAssignor, {"m1": [("t0", [0, 1]), ("t1", [0, 1])], "m2": [("t0", [2]), ("t1", [2])]}),
        (RoundRobinPartitionAssignor, {"m1": [("t0", [0, 2]), ("t1", [1])], "m2": [("t0", [1]), ("t1", [0, 2])]}),
    ],
)
def test_assignors_divide_as_kafka_s_own_documents_say(
    assignor: type[AbstractPartitionAssignor], shares: dict[str, Any]
) -> None:
    members = {name: assignor.metadata(["t0", "t1"]) for name in ("m1", "m2")}
    found = assignor.assign({"t0": range(3), "t1": range(3)}, members)
    assert {name: share.partition_assignment for name, share in found.items()} == shares
