"""The assignors by generated groups: nothing unowned or owned twice, even, sticky, deterministic, in two steps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykafka.common import TopicPartition
from pykafka.coordinator import (
    AbstractPartitionAssignor,
    CooperativeStickyAssignor,
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
)
from pykafka.exceptions import NoBrokersAvailableError
from pykafka.groups.assignors.abstract import by_topic
from pykafka.groups.assignors.sticky import Claim, balanced, owners_of
from pykafka.groups.classic.membership import MemberAssignors
from pykafka.protocol import ConsumerGroupProtocolMetadata, MemberAssignment, wire
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykafka.utils.loglimit import LogLimiter

ALL = [
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
    CooperativeStickyAssignor,
]
STICKY = ALL[2:]
Group = tuple[dict[str, list[int]], dict[str, list[str]]]
GroupMembership = dict[str, set[TopicPartition]]


@st.composite
def groups(draw: st.DrawFn, alike: bool | None = None) -> Group:
    """Topics with the numbers of their partitions, and what each member reads."""
    topics = {f"t{n}": list(range(draw(st.integers(0, 7)))) for n in range(draw(st.integers(1, 5)))}
    names = st.lists(st.sampled_from(sorted(topics)), min_size=1, unique=True)
    same = draw(names)
    members = {
        f"m{n}": same if (draw(st.booleans()) if alike is None else alike) else draw(names)
        for n in range(draw(st.integers(1, 6)))
    }
    return topics, members


def said(topics: list[str], owned: set[TopicPartition], generation: int, kind: type[AbstractPartitionAssignor]) -> Any:
    found = kind.metadata(topics)
    data = kind.user_data(owned, generation)
    found.user_data = found.user_data if data is None else data
    found.version, found.owned_partitions, found.generation_id = 3, by_topic(owned), generation
    return ConsumerProtocolSubscription.from_bytestring(found.get_bytes())


def divide(
    kind: type[AbstractPartitionAssignor], group: Group, had: GroupMembership | None = None, generation: int = 1
) -> GroupMembership:
    topics, members = group
    metadata = {one: said(names, (had or {}).get(one, set()), generation, kind) for one, names in members.items()}
    return taken(kind.assign(topics, metadata))


def taken(shares: dict[str, ConsumerProtocolAssignment]) -> GroupMembership:
    found = {}
    for member, share in shares.items():
        keys = [TopicPartition(topic, id_) for topic, ids in share.partition_assignment for id_ in ids]
        assert len(keys) == len(set(keys))
        found[member] = set(keys)
    return found


def check_whole(group: Group, shares: GroupMembership) -> None:
    topics, members = group
    counts = Counter(key for share in shares.values() for key in share)
    readable = {TopicPartition(one, id_) for names in members.values() for one in names for id_ in topics[one]}
    assert counts == Counter(readable)
    assert shares.keys() == members.keys()
    assert all({key.topic for key in share} <= set(members[member]) for member, share in shares.items())


def evenness(shares: GroupMembership) -> list[int]:
    return sorted(map(len, shares.values()), reverse=True)


@pytest.mark.parametrize("kind", ALL)
@settings(max_examples=40)
@given(group=groups())
def test_every_partition_has_one_owner(kind: type[AbstractPartitionAssignor], group: Group) -> None:
    shares = divide(kind, group)
    check_whole(group, shares)
    topics, members = group
    backwards = dict(reversed(topics.items())), dict(reversed(members.items()))
    assert divide(kind, backwards) == shares


@pytest.mark.parametrize("kind", STICKY)
@settings(max_examples=40)
@given(group=groups(alike=True))
def test_members_that_read_the_same_have_the_same_but_for_one(
    kind: type[AbstractPartitionAssignor], group: Group
) -> None:
    sizes = evenness(divide(kind, group))
    assert sizes[0] - sizes[-1] <= 1


def fewest(group: Group) -> list[int]:
    """Return the sizes of the most even shares there are, by trying everything that one move at a time can reach."""
    topics, members = group
    keys = sorted({TopicPartition(one, id_) for names in members.values() for one in names for id_ in topics[one]})
    sizes: set[tuple[int, ...]] = {(0,) * len(members)}
    order = sorted(members)
    for key in keys:
        may = [place for place, member in enumerate(order) if key.topic in members[member]]
        sizes = {(*one[:place], one[place] + 1, *one[place + 1 :]) for one in sizes for place in may}
    return min(sorted(one, reverse=True) for one in sizes)


@st.composite
def small_groups(draw: st.DrawFn) -> Group:
    topics = {f"t{n}": list(range(draw(st.integers(0, 3)))) for n in range(draw(st.integers(1, 4)))}
    names = st.lists(st.sampled_from(sorted(topics)), min_size=1, unique=True)
    return topics, {f"m{n}": draw(names) for n in range(draw(st.integers(1, 4)))}


@settings(max_examples=40)
@given(group=small_groups(), data=st.data())
def test_shares_are_as_even_as_subscriptions_allow(group: Group, data: st.DataObject) -> None:
    topics, members = group
    had = {
        member: {
            key
            for one in names
            for id_ in topics[one]
            if data.draw(st.booleans())
            for key in [TopicPartition(one, id_)]
        }
        for member, names in members.items()
    }
    shares = balanced(topics, members, {one: Claim(frozenset(keys), 1) for one, keys in had.items()})
    assert evenness(shares) == fewest(group)


@pytest.mark.parametrize("kind", STICKY)
@settings(max_examples=40)
@given(group=groups())
def test_a_share_that_is_even_stays(kind: type[AbstractPartitionAssignor], group: Group) -> None:
    shares = divide(kind, group)
    assert divide(kind, group, shares) == shares


@settings(max_examples=40)
@given(group=groups(alike=True), data=st.data())
def test_no_more_moves_than_has_to(group: Group, data: st.DataObject) -> None:
    """Of members that read the same, each keeps what it has up to its part."""
    topics, members = group
    before = divide(StickyPartitionAssignor, group)
    gone = data.draw(st.lists(st.sampled_from(sorted(members)), unique=True, max_size=len(members) - 1))
    come = {f"n{n}": next(iter(members.values())) for n in range(data.draw(st.integers(0, 3)))}
    now = topics, {**{one: names for one, names in members.items() if one not in gone}, **come}
    had = {one: keys for one, keys in before.items() if one not in gone}
    after = divide(StickyPartitionAssignor, now, had)
    check_whole(now, after)
    sizes = evenness(after)
    kept = sum(len(after[one] & keys) for one, keys in had.items())
    held = sorted(map(len, had.values()), reverse=True)
    assert kept == sum(min(have, size) for have, size in zip(held, sizes, strict=False))


@settings(max_examples=40)
@given(group=groups(), data=st.data())
def test_a_cooperative_group_comes_to_rest(group: Group, data: st.DataObject) -> None:
    """Nothing is ever owned twice, and what stays stays; two rebalances after a change are enough where all read the same."""
    topics, members = group
    kind = CooperativeStickyAssignor
    shares = divide(kind, group)
    for generation in range(2, 4):
        come = {f"n{generation}": data.draw(st.lists(st.sampled_from(sorted(topics)), min_size=1, unique=True))}
        leaves = data.draw(st.none() | st.sampled_from(sorted(members)))
        members = {**{one: names for one, names in members.items() if one != leaves}, **come}
        had = {one: shares.get(one, set()) for one in members}
        first = divide(kind, (topics, members), had, generation)
        for one, other in ((one, other) for one in members for other in members if one != other):
            assert not first[one] & (first[other] | had[other])
        rounds = 2
        while (second := divide(kind, (topics, members), first, generation)) != first:
            for one, other in ((one, other) for one in members for other in members if one != other):
                assert not second[one] & (second[other] | first[other])
            first, rounds = second, rounds + 1
        check_whole((topics, members), first)
        assert rounds <= (3 if len({frozenset(names) for names in members.values()}) == 1 else 8)
        shares = first


def test_the_later_generation_owns() -> None:
    one, two = TopicPartition("t", 1), TopicPartition("t", 2)
    claims = {"a": Claim(frozenset({one, two}), 3), "b": Claim(frozenset({one}), 5), "c": Claim(frozenset({two}), 3)}
    assert owners_of(claims) == {one: "b"}  # of two alike neither owns
    settled = CooperativeStickyAssignor.settled({"a": {two}, "b": {one}, "c": set()}, claims)
    assert settled == {"a": set(), "b": {one}, "c": set()}


@pytest.mark.parametrize("kind", [RangePartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor])
@settings(max_examples=40)
@given(group=groups(alike=True), data=st.data())
def test_racks_cost_no_balance(kind: type[AbstractPartitionAssignor], group: Group, data: st.DataObject) -> None:
    topics, members = group
    metadata = {member: said(names, set(), -1, kind) for member, names in members.items()}
    for one in metadata.values():
        one.rack_id = data.draw(st.sampled_from([None, "x", "y", "z"]))
    replicas = st.frozensets(st.sampled_from("xyz"), min_size=1, max_size=2)
    racks = {TopicPartition(topic, id_): data.draw(replicas) for topic, ids in topics.items() for id_ in ids}
    far = taken(kind.assign(topics, metadata))
    near = taken(kind.assign_near(topics, metadata, racks))
    check_whole(group, near)
    for topic in [*topics] if kind is RangePartitionAssignor else [""]:  # which is even in each topic

        def part(shares: GroupMembership, of: str = topic) -> list[int]:
            return sorted(sum(key.topic.startswith(of) for key in share) for share in shares.values())

        assert part(near) == part(far)


@pytest.mark.parametrize("kind", [RangePartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor])
def test_members_read_in_their_racks(kind: type[AbstractPartitionAssignor]) -> None:
    metadata = {f"m{rack}": said(["t", "u"], set(), -1, kind) for rack in "zyx"}
    for member, one in metadata.items():
        one.rack_id = member[1]
    racks = {TopicPartition(topic, id_): frozenset("xyz"[id_ % 3]) for topic in "tu" for id_ in range(6)}
    shares = taken(kind.assign_near({"t": range(6), "u": range(6)}, metadata, racks))
    assert all(member[1] in racks[key] for member, share in shares.items() for key in share)
    # without racks of the members, or with replicas everywhere, racks change nothing
    everywhere = dict.fromkeys(racks, frozenset("xyz"))
    plain = taken(kind.assign({"t": range(6), "u": range(6)}, metadata))
    assert taken(kind.assign_near({"t": range(6), "u": range(6)}, metadata, everywhere)) == plain


def test_a_large_group_is_shared_out_in_a_second() -> None:
    topics = {f"t{n}": range(40) for n in range(50)}
    for mixed in (False, True):
        wants = {f"m{n:04}": [f"t{(n + k) % 50}" for k in range(25)] if mixed else list(topics) for n in range(400)}
        began = time.process_time()
        first = balanced(topics, wants, {})
        had = {one: Claim(frozenset(keys), 1) for one, keys in list(first.items())[50:]}
        shares = balanced(topics, {one: wants[one] for one in had}, had)
        assert evenness(shares)[0] - evenness(shares)[-1] <= 1
        assert all(len(shares[one] & claim.keys) == len(claim.keys) for one, claim in had.items())
        assert time.process_time() - began < 10


@given(data=st.binary())
@example(data=b"\0\0\0\1\0\1\xff\0\0\0\1\0\0\0\0\0\0\0\7")  # a topic that is no UTF-8
def test_user_data_that_nobody_can_read_is_none(data: bytes) -> None:
    metadata = ConsumerProtocolSubscription(3, ["t"], data)
    for kind in (StickyPartitionAssignor, CooperativeStickyAssignor):
        assert all(key.topic is not None for key in kind.claim(metadata).keys)


def test_user_data_before_generations() -> None:
    share = {TopicPartition("t", 1), TopicPartition("u", 0)}
    data = StickyPartitionAssignor.user_data(share, 9)
    assert data is not None
    assert StickyPartitionAssignor.claim(ConsumerProtocolSubscription(0, ["t"], data)) == Claim(frozenset(share), 9)
    assert StickyPartitionAssignor.claim(ConsumerProtocolSubscription(0, ["t"], data[:-4])) == Claim(
        frozenset(share), -1
    )
    assert StickyPartitionAssignor.user_data(share, -1) is None


class _Cluster:
    """Two brokers, one of them in a rack; a topic of three partitions."""

    handler = SimpleNamespace(now=time.monotonic)

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False

    def topic_metadata(self, _: str) -> Any:
        return SimpleNamespace(partitions={0: None, 1: None, 2: None})

    def ask_metadata(self, topics: list[str], timeout_ms: int | None) -> Any:
        self.asked += 1
        if self.fails:
            raise NoBrokersAvailableError("no broker")
        part = wire.MetadataResponse.Topic.Partition
        parts = [part(partition_index=id_, replica_nodes=[2 - id_ % 2]) for id_ in range(3)]
        brokers = [wire.MetadataResponse.Broker(node_id=id_, rack=f"r{id_}") for id_ in (1, 2)]
        return SimpleNamespace(brokers=brokers, topics=[SimpleNamespace(name=one, partitions=parts) for one in topics])


@pytest.mark.parametrize("fails", [False, True])
def test_a_leader_asks_for_racks_where_members_have_some(fails: bool) -> None:
    cluster = _Cluster()
    leader = MemberAssignors(cast(Any, cluster), "g", [RangePartitionAssignor])
    plain = leader.protocols(["t"])[0][1]
    assert ConsumerProtocolSubscription.from_bytestring(plain).version == 0
    leader.assign("range", [("a", plain), ("b", plain)])
    assert cluster.asked == 0
    cluster.fails = fails
    near = [(member, leader.protocols(["t"], rack)[0][1]) for member, rack in (("a", "r1"), ("b", "r2"))]
    shares = leader.assign("range", near)
    assert cluster.asked == 1
    read = {
        one: ConsumerProtocolAssignment.from_bytestring(share).partition_assignment for one, share in shares.items()
    }
    assert read == {"a": [("t", [0, 1] if fails else [1])], "b": [("t", [2] if fails else [0, 2])]}


def test_a_member_tells_what_it_had() -> None:
    member = MemberAssignors(cast(Any, _Cluster()), "g", [StickyPartitionAssignor, RangePartitionAssignor])
    share = member.assign("sticky", [("a", member.protocols(["t"])[0][1])])["a"]
    keys = member.accept("sticky", share, 4)
    sticky, plain = (ConsumerProtocolSubscription.from_bytestring(data) for _, data in member.protocols(["t"]))
    assert StickyPartitionAssignor.claim(sticky) == Claim(frozenset(keys), 4)
    assert len(keys) == 3
    assert plain.user_data == b""


def test_a_member_takes_nothing_of_a_topic_that_it_does_not_subscribe_to(caplog: pytest.LogCaptureFixture) -> None:
    cluster: Any = _Cluster()
    cluster.limiter = LogLimiter(_Cluster.handler)
    member = MemberAssignors(cluster, "g", [RangePartitionAssignor])
    share = bytes(ConsumerProtocolAssignment([("t", [0]), ("former", [1, 2])]).get_bytes())
    assert member.accept("range", share, 4, {"t"}) == [TopicPartition("t", 0)]
    assert "the leader assigned topics former, which this member does not subscribe to" in caplog.text


class _OfPyKafka2(AbstractPartitionAssignor):
    """An assignor whose author has the documented classes."""

    name = "mine"
    seen: ClassVar[list[object]] = []

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerGroupProtocolMetadata:
        return ConsumerGroupProtocolMetadata(0, [*topics])

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, ConsumerProtocolSubscription]
    ) -> dict[str, ConsumerProtocolAssignment]:
        cls.seen += [name for said in members.values() for name in said.topic_names]
        return {member: MemberAssignment([(b"t", [0, 2])]) for member in members}


def test_an_assignor_may_return_the_documented_classes() -> None:
    member = MemberAssignors(cast(Any, _Cluster()), "g", [_OfPyKafka2])
    [(name, metadata)] = member.protocols(["t"])
    share = member.assign(name, [("a", metadata)])["a"]
    assert share.endswith(b"\0\0\0\0")  # user data, for Java's consumers
    assert member.accept(name, share) == [TopicPartition("t", 0), TopicPartition("t", 2)]
    assert [type(topic) for topic in _OfPyKafka2.seen] == [str]
