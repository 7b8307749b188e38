"""The assignors beside Kafka's own: the same shares, or as even ones, and what one leaves the other leaves."""

from __future__ import annotations

import random

import pytest

from pykafka.common import TopicPartition
from pykafka.coordinator import (
    AbstractPartitionAssignor,
    CooperativeStickyAssignor,
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
)
from pykafka.groups.assignors.abstract import by_topic
from pykafka.protocol import ConsumerGroupProtocolMetadata
from tests.java_judge.kafka_java import run_source
from tests.java_judge.schemas import RELEASES

GroupMembership = dict[str, set[TopicPartition]]
CASES = 150


class Case:
    """A group made at random.

    :param alike: whether all members read the same
    :param racks: whether brokers and members have racks
    """

    def __init__(self, kind: type[AbstractPartitionAssignor], chance: random.Random, alike: bool, racks: bool) -> None:
        self.kind = kind
        places = "xyz" if racks else "-"
        self.topics = {
            f"t{n}": [chance.choice(places) for _ in range(chance.randrange(9))] for n in range(chance.randint(1, 5))
        }

        def some() -> list[str]:
            return sorted(chance.sample(sorted(self.topics), chance.randint(1, len(self.topics))))

        same = some()
        self.wants = {f"m{n}": same if alike else some() for n in range(chance.randint(1, 6))}
        self.of_members = {one: chance.choice("xyz") if racks else None for one in self.wants}
        self.had: GroupMembership = {}

    def metadata(self) -> dict[str, ConsumerGroupProtocolMetadata]:
        found = {}
        for member, topics in self.wants.items():
            said = self.kind.metadata(topics)
            had = self.had.get(member, set())
            said.user_data = self.kind.user_data(had, 5) if self.had else said.user_data
            owned = by_topic(had) if self.kind.cooperative else ()
            rack = self.of_members[member]
            found[member] = ConsumerGroupProtocolMetadata(3, topics, said.user_data, owned, 5 if self.had else -1, rack)
        return found

    def line(self) -> str:
        topics = ";".join(f"{topic}={','.join(places)}" for topic, places in self.topics.items())
        members = " ".join(f"{one}={said.get_bytes().hex()}" for one, said in self.metadata().items())
        return f"{self.kind.name} {topics} {members}"

    def ours(self) -> GroupMembership:
        racks = {
            TopicPartition(topic, id_): frozenset({place} - {"-"})
            for topic, places in self.topics.items()
            for id_, place in enumerate(places)
        }
        partitions = {topic: range(len(places)) for topic, places in self.topics.items()}
        shares = self.kind.assign_near(partitions, self.metadata(), racks)
        return {
            one: {TopicPartition(topic, id_) for topic, ids in share.partition_assignment for id_ in ids}
            for one, share in shares.items()
        }

    def near(self, shares: GroupMembership) -> int:
        """Return how many partitions are read in their rack."""
        return sum(
            self.topics[key.topic][key.partition] == self.of_members[one]
            for one, share in shares.items()
            for key in share
        )

    def kept(self, shares: GroupMembership) -> int:
        return sum(len(share & self.had.get(one, set())) for one, share in shares.items())


def judged(cases: list[Case]) -> list[GroupMembership]:
    printed = run_source("Assignors.java", RELEASES[0], "\n".join(case.line() for case in cases) + "\n").splitlines()
    found = []
    for line in printed:
        shares: GroupMembership = {}
        for word in line.split(" "):
            member, _, keys = word.partition("=")
            pairs = [key.rpartition("-") for key in keys.split(",") if key]
            shares[member] = {TopicPartition(topic, int(id_)) for topic, _, id_ in pairs}
        found.append(shares)
    assert len(found) == len(cases)
    return found


def evenness(shares: GroupMembership) -> list[int]:
    return sorted(map(len, shares.values()), reverse=True)


@pytest.mark.kafka
@pytest.mark.parametrize("kind", [RangePartitionAssignor, RoundRobinPartitionAssignor])
def test_range_and_roundrobin_divide_as_kafka_does(kind: type[AbstractPartitionAssignor]) -> None:
    chance = random.Random(881)
    cases = [Case(kind, chance, alike, racks=False) for alike in (True, False) for _ in range(CASES)]
    for case, theirs in zip(cases, judged(cases), strict=True):
        assert case.ours() == theirs, case.line()


@pytest.mark.kafka
def test_range_reads_in_its_racks_as_much_as_kafka_does() -> None:
    chance = random.Random(392)
    cases = [Case(RangePartitionAssignor, chance, alike, racks=True) for alike in (True, False) for _ in range(CASES)]
    near = [0, 0]
    for case, theirs in zip(cases, judged(cases), strict=True):
        ours = case.ours()
        for topic in case.topics:
            mine, other = (
                sorted(sum(key.topic == topic for key in one) for one in all_.values()) for all_ in (ours, theirs)
            )
            assert mine == other, case.line()
        near[0] += case.near(ours)
        near[1] += case.near(theirs)
    assert near[0] >= near[1]


@pytest.mark.kafka
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("kind", [StickyPartitionAssignor, CooperativeStickyAssignor])
def test_the_sticky_ones_are_as_good_as_kafka_s(kind: type[AbstractPartitionAssignor], alike: bool) -> None:
    chance = random.Random(54)
    cases = [Case(kind, chance, alike, racks=False) for _ in range(CASES)]
    first = judged(cases)
    for case, theirs in zip(cases, first, strict=True):
        assert evenness(case.ours()) <= evenness(theirs), case.line()
        case.had = theirs
    again = judged(cases)
    for case, theirs in zip(cases, again, strict=True):
        assert theirs == case.had
        if alike:
            assert case.ours() == case.had, case.line()  # what Kafka's left, ours leaves
    for case in cases:
        case.had = {}
        case.had = case.ours()
    for case, theirs in zip(cases, judged(cases), strict=True):
        assert evenness(case.had) <= evenness(theirs)
        if alike:
            assert theirs == case.had, case.line()  # what ours left, Kafka's leaves
    moves = [0, 0]
    for case in cases:  # members go and come
        gone = chance.choice(sorted(case.wants))
        case.wants["n"] = case.wants.pop(gone)
        case.wants["o"] = case.wants["n"]
        case.of_members.update(n=None, o=None)
        case.had.pop(gone)
    for case, theirs in zip(cases, judged(cases), strict=True):
        ours = case.ours()
        if alike:
            assert evenness(ours) == evenness(theirs) or kind.cooperative
        moves[0] += case.kept(ours)
        moves[1] += case.kept(theirs)
    assert moves[0] >= moves[1] * (1.0 if alike else 0.95)
