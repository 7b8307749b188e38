"""`StickyPartitionAssignor` and `CooperativeStickyAssignor`: as even as possible, and members keep their partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from pykafka.common import TopicPartition
from pykafka.exceptions import CorruptResponseError, UnicodeException
from pykafka.groups.assignors.abstract import AbstractPartitionAssignor, Racks, by_topic, nearness
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykafka.utils import get_string
from pykafka.utils.struct_helpers import unpack_from

Near = Callable[[str, TopicPartition], bool]


class Claim(NamedTuple):
    """The partitions that a member claims to own, and since which generation; -1 if it sends none."""

    keys: frozenset[TopicPartition]
    generation: int


_NOTHING = Claim(frozenset(), -1)


class StickyPartitionAssignor(AbstractPartitionAssignor):
    """The assignor that moves as few partitions as evenness allows (KIP-54); members send it their last assignment (KIP-341).

    Each rebalance revokes everything all the same; `CooperativeStickyAssignor` does not.
    """

    name = "sticky"

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, ConsumerProtocolSubscription]
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's assignment; see `AbstractPartitionAssignor.assign`."""
        return cls.assign_near(partitions, members, {})

    @classmethod
    def assign_near(
        cls,
        partitions: Mapping[str, Collection[int]],
        members: Mapping[str, ConsumerProtocolSubscription],
        racks: Racks,
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's assignment; see `AbstractPartitionAssignor.assign_near`."""
        subscriptions = {
            member: {get_string(topic) for topic in subscription.topic_names}
            for member, subscription in members.items()
        }
        if not subscriptions:
            return {}
        claims = {member: cls.claim(subscription) for member, subscription in members.items()}
        assignments = cls.settled(balanced(partitions, subscriptions, claims, nearness(members, racks)), claims)
        return {member: ConsumerProtocolAssignment(by_topic(keys), 0) for member, keys in assignments.items()}

    @classmethod
    def settled(
        cls, assignments: dict[str, set[TopicPartition]], claims: Mapping[str, Claim]
    ) -> dict[str, set[TopicPartition]]:
        """Return what members may have now of their assignments: all, as all members have revoked theirs.

        :param assignments: {member: its partitions}
        :param claims: {member: what it claims to own}
        """
        return assignments

    @classmethod
    def claim(cls, subscription: ConsumerProtocolSubscription) -> Claim:
        """Return what a member claims to own: by its user data, as Kafka's Java client writes it.

        Data in another form counts as none.

        :param subscription: the metadata that it sent
        """
        data = subscription.user_data or b""
        for end in (b"", (-1).to_bytes(4, "big", signed=True)):  # before KIP-341 there was no generation
            try:
                pairs, generation = unpack_from("[S [i]] i", data + end)
                keys = frozenset(TopicPartition(get_string(topic), id_) for topic, ids in pairs for id_ in ids)
                return Claim(keys, generation)
            except (CorruptResponseError, UnicodeException, TypeError):
                continue
        return _NOTHING

    @classmethod
    def user_data(cls, share: Iterable[TopicPartition], generation: int) -> bytes | None:
        """Return a member's last assignment and its generation as bytes; see `AbstractPartitionAssignor.user_data`."""
        if generation < 0:
            return None
        pairs = by_topic(share)
        # as in the assignment itself: the bytes behind the version
        whole = ConsumerProtocolAssignment(pairs, 0).get_bytes()
        return bytes(whole[2:]) + generation.to_bytes(4, "big", signed=True)


class CooperativeStickyAssignor(StickyPartitionAssignor):
    """The assignor of the same assignments, in two steps: another member gets a partition after its owner has revoked it.

    Members keep the rest through a rebalance (KIP-429); their metadata has the partitions that they own.
    """

    name = "cooperative-sticky"
    cooperative = True

    @classmethod
    def settled(
        cls, assignments: dict[str, set[TopicPartition]], claims: Mapping[str, Claim]
    ) -> dict[str, set[TopicPartition]]:
        """Return what members may have now of their assignments: nothing that another member claims to own.

        :param assignments: {member: its partitions}
        :param claims: {member: what it claims to own}
        """
        claimants: dict[TopicPartition, list[str]] = {}
        for member in sorted(claims):
            for key in claims[member].keys:
                claimants.setdefault(key, []).append(member)

        def may_have(member: str, key: TopicPartition) -> bool:
            others = [claims[other].generation for other in claimants.get(key, ()) if other != member]
            if not others:
                return True
            mine = claims.get(member, _NOTHING)
            return key in mine.keys and mine.generation > max(others)

        return {member: {key for key in keys if may_have(member, key)} for member, keys in assignments.items()}

    @classmethod
    def claim(cls, subscription: ConsumerProtocolSubscription) -> Claim:
        """Return what a member claims to own: by its owned partitions, and their generation.

        :param subscription: the metadata that it sent; before version 2 its user data has the generation
        """
        keys = frozenset(TopicPartition(topic, id_) for topic, ids in subscription.owned_partitions for id_ in ids)
        generation, data = subscription.generation_id, subscription.user_data or b""
        if generation < 0 and len(data) == 4:
            generation = int.from_bytes(data, "big", signed=True)
        return Claim(keys, generation)

    @classmethod
    def user_data(cls, share: Iterable[TopicPartition], generation: int) -> bytes | None:
        """Return the generation as bytes, for leaders that read no version 2 of the metadata; see `sticky`."""
        return generation.to_bytes(4, "big", signed=True)


def owners_of(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Return the owner of each claimed partition: the highest generation wins; of two equal ones neither does.

    :param claims: {member: what it claims}
    """
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted(claims):
        keys, generation = claims[member]
        for key in keys:
            highest = best.get(key)
            if highest is None or generation > highest[0]:
                best[key] = generation, member
            elif generation == highest[0]:
                best[key] = generation, None
    return {key: member for key, (_, member) in best.items() if member is not None}


def balanced(
    partitions: Mapping[str, Collection[int]],
    subscriptions: Mapping[str, Collection[str]],
    claims: Mapping[str, Claim],
    near: Near | None = None,
) -> dict[str, set[TopicPartition]]:
    """Return each member's partitions: even first, then those it owns already, then those in its rack.

    No member could give a partition to one that has two fewer or less, also not by way of other members.

    :param partitions: {topic: partition ids}
    :param subscriptions: {member: the topics that it subscribes to}
    :param claims: what members have
    :param near: returns whether a partition is in a member's rack; None if racks do not matter
    """
    readers: dict[str, list[str]] = {}
    for member in sorted(subscriptions):
        for topic in set(subscriptions[member]):
            readers.setdefault(topic, []).append(member)
    keys = {TopicPartition(topic, id_) for topic in readers for id_ in partitions.get(topic, ())}
    eligible = {topic: frozenset(members) for topic, members in readers.items()}
    assignments: dict[str, set[TopicPartition]] = {member: set() for member in sorted(subscriptions)}
    owners = {key: member for key, member in owners_of(claims).items() if key in keys and member in eligible[key.topic]}
    for key, member in owners.items():
        assignments[member].add(key)
    free = sorted(keys - owners.keys())
    if len({frozenset(topics) for topics in subscriptions.values()}) == 1:
        _deal(assignments, free, near)
    else:
        _spread(assignments, free, readers, owners, near)
    return assignments


def _deal(assignments: dict[str, set[TopicPartition]], free: Iterable[TopicPartition], near: Near | None) -> None:
    """Even out the partitions of members with the same subscription."""
    left = list(free)
    size, more = divmod(len(left) + sum(map(len, assignments.values())), len(assignments))
    # members that have most may have one more, so that fewest partitions have to move
    order = sorted(assignments, key=lambda member: (-len(assignments[member]), member))
    room = {}
    for place, member in enumerate(order):
        keys = assignments[member]
        quota = size + (place < more)
        surplus = len(keys) - quota
        if surplus > 0:
            # partitions of other racks go first
            going = sorted((near is not None and near(member, key), key) for key in keys)[:surplus]
            keys.difference_update(key for _, key in going)
            left += [key for _, key in going]
        room[member] = quota - len(keys)
    left.sort()
    if near is not None:
        left = _deal_near(assignments, left, room, near)
    takers = deque(sorted(member for member in assignments if room[member] > 0))
    for key in left:
        member = takers.popleft()
        assignments[member].add(key)
        room[member] -= 1
        if room[member]:
            takers.append(member)


def _deal_near(
    assignments: dict[str, set[TopicPartition]], keys: Iterable[TopicPartition], room: dict[str, int], near: Near
) -> list[TopicPartition]:
    """Give partitions to members in their racks that have room; return the others."""
    left = []
    for key in keys:
        members = [member for member in assignments if room[member] > 0 and near(member, key)]
        if not members:
            left.append(key)
            continue
        taker = max(members, key=lambda member: room[member])
        assignments[taker].add(key)
        room[taker] -= 1
    return left


def _spread(
    assignments: dict[str, set[TopicPartition]],
    free: Iterable[TopicPartition],
    readers: Mapping[str, list[str]],
    owners: Mapping[TopicPartition, str],
    near: Near | None,
) -> None:
    """Even out the partitions of members with different subscriptions."""
    for key in sorted(free, key=lambda key: (len(readers[key.topic]), key)):
        _, _, taker = min(
            (len(assignments[member]), near is None or not near(member, key), member) for member in readers[key.topic]
        )
        assignments[taker].add(key)
    while _even_out(assignments, readers, owners, near):
        pass


def _even_out(
    assignments: dict[str, set[TopicPartition]],
    readers: Mapping[str, list[str]],
    owners: Mapping[TopicPartition, str],
    near: Near | None,
) -> bool:
    """Move partitions from members with more to members with fewer, by way of others if need be; return whether any moved."""
    moved = False
    least = min(map(len, assignments.values()))
    closed: set[str] = set()  # from these members none with two fewer can be reached
    for member in sorted(assignments, key=lambda member: (-len(assignments[member]), member)):
        while member not in closed and len(assignments[member]) >= least + 2:
            way = _way(member, assignments, readers, closed)
            if not way:
                break
            for giver, topic, taker in reversed(way):
                *_, key = min(
                    (owners.get(one) == giver, owners.get(one) != taker, near is None or not near(taker, one), one)
                    for one in assignments[giver]
                    if one.topic == topic
                )
                assignments[giver].remove(key)
                assignments[taker].add(key)
            moved = True
    return moved


def _way(
    start: str, assignments: Mapping[str, set[TopicPartition]], readers: Mapping[str, list[str]], closed: set[str]
) -> list[tuple[str, str, str]]:
    """Return the shortest way from a member to one with two fewer: (giver, topic, taker), ...; empty for none."""
    enough = len(assignments[start]) - 2
    came: dict[str, tuple[str, str]] = {}
    seen = {start}
    topics: set[str] = set()
    level = [start]
    while level:
        after = []
        for giver in level:
            for topic in sorted({key.topic for key in assignments[giver]} - topics):
                topics.add(topic)
                for taker in readers[topic]:
                    if taker not in seen:
                        seen.add(taker)
                        came[taker] = giver, topic
                        after.append(taker)
        smaller = [member for member in after if len(assignments[member]) <= enough]
        if smaller:
            taker = min(smaller, key=lambda member: (len(assignments[member]), member))
            way = []
            while taker != start:
                giver, topic = came[taker]
                way.append((giver, topic, taker))
                taker = giver
            return way[::-1]
        level = after
    closed.update(member for member in seen if len(assignments[member]) <= enough + 2)
    return []
