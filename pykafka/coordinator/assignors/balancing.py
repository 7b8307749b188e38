"""Sharing out as evenly as subscriptions allow, with as few moves as that takes: the algorithm of the sticky assignors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from pykafka.common import TopicPartition

Near = Callable[[str, TopicPartition], bool]


class Claim(NamedTuple):
    """The partitions that a member says that it has, and since which generation; -1 if it does not say."""

    keys: frozenset[TopicPartition]
    generation: int


def owners_of(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Return the owner of each partition that members claim: the highest generation wins; of two alike neither does.

    :param claims: {member: what it claims}
    """
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted(claims):
        keys, generation = claims[member]
        for key in keys:
            found = best.get(key)
            if found is None or generation > found[0]:
                best[key] = generation, member
            elif generation == found[0]:
                best[key] = generation, None
    return {key: member for key, (_, member) in best.items() if member is not None}


def balanced(
    partitions: Mapping[str, Collection[int]],
    wants: Mapping[str, Collection[str]],
    claims: Mapping[str, Claim],
    near: Near | None = None,
) -> dict[str, set[TopicPartition]]:
    """Return each member's share: even first, then what it has already, then what is in its rack.

    No share can be made smaller in favour of one that is smaller by two or more, also not by way of other members.

    :param partitions: {topic: partition ids}
    :param wants: {member: the topics that it reads}
    :param claims: what members have
    :param near: tells whether a partition is in a member's rack; None where that makes no difference
    """
    readers: dict[str, list[str]] = {}
    for member in sorted(wants):
        for topic in set(wants[member]):
            readers.setdefault(topic, []).append(member)
    keys = {TopicPartition(topic, id_) for topic in readers for id_ in partitions.get(topic, ())}
    eligible = {topic: frozenset(members) for topic, members in readers.items()}
    shares: dict[str, set[TopicPartition]] = {member: set() for member in sorted(wants)}
    owners = {key: member for key, member in owners_of(claims).items() if key in keys and member in eligible[key.topic]}
    for key, member in owners.items():
        shares[member].add(key)
    free = sorted(keys - owners.keys())
    if len({frozenset(topics) for topics in wants.values()}) == 1:
        _deal(shares, free, near)
    else:
        _spread(shares, free, readers, owners, near)
    return shares


def _deal(shares: dict[str, set[TopicPartition]], free: Iterable[TopicPartition], near: Near | None) -> None:
    """Even out shares of members that all read the same."""
    left = list(free)
    size, more = divmod(len(left) + sum(map(len, shares.values())), len(shares))
    # those that have most may have one more, so that least has to move
    order = sorted(shares, key=lambda member: (-len(shares[member]), member))
    room = {}
    for place, member in enumerate(order):
        share = shares[member]
        quota = size + (place < more)
        surplus = len(share) - quota
        if surplus > 0:
            # away goes what is elsewhere first
            going = sorted((near is not None and near(member, key), key) for key in share)[:surplus]
            share.difference_update(key for _, key in going)
            left += [key for _, key in going]
        room[member] = quota - len(share)
    left.sort()
    if near is not None:
        left = _deal_near(shares, left, room, near)
    takers = deque(sorted(member for member in shares if room[member] > 0))
    for key in left:
        member = takers.popleft()
        shares[member].add(key)
        room[member] -= 1
        if room[member]:
            takers.append(member)


def _deal_near(
    shares: dict[str, set[TopicPartition]], keys: Iterable[TopicPartition], room: dict[str, int], near: Near
) -> list[TopicPartition]:
    """Give partitions to members in their racks, as far as these have room; return the others."""
    left = []
    for key in keys:
        members = [member for member in shares if room[member] > 0 and near(member, key)]
        if not members:
            left.append(key)
            continue
        taker = max(members, key=lambda member: room[member])
        shares[taker].add(key)
        room[taker] -= 1
    return left


def _spread(
    shares: dict[str, set[TopicPartition]],
    free: Iterable[TopicPartition],
    readers: Mapping[str, list[str]],
    owners: Mapping[TopicPartition, str],
    near: Near | None,
) -> None:
    """Even out shares of members that read different topics."""
    for key in sorted(free, key=lambda key: (len(readers[key.topic]), key)):
        _, _, taker = min((len(shares[one]), near is None or not near(one, key), one) for one in readers[key.topic])
        shares[taker].add(key)
    while _even_out(shares, readers, owners, near):
        pass


def _even_out(
    shares: dict[str, set[TopicPartition]],
    readers: Mapping[str, list[str]],
    owners: Mapping[TopicPartition, str],
    near: Near | None,
) -> bool:
    """Move partitions from larger to smaller shares, by way of others if need be; return whether any was moved."""
    moved = False
    least = min(map(len, shares.values()))
    closed: set[str] = set()  # from here no share is smaller by two
    for member in sorted(shares, key=lambda one: (-len(shares[one]), one)):
        while member not in closed and len(shares[member]) >= least + 2:
            way = _way(member, shares, readers, closed)
            if not way:
                break
            for giver, topic, taker in reversed(way):
                *_, key = min(
                    (owners.get(one) == giver, owners.get(one) != taker, near is None or not near(taker, one), one)
                    for one in shares[giver]
                    if one.topic == topic
                )
                shares[giver].remove(key)
                shares[taker].add(key)
            moved = True
    return moved


def _way(
    start: str, shares: Mapping[str, set[TopicPartition]], readers: Mapping[str, list[str]], closed: set[str]
) -> list[tuple[str, str, str]]:
    """Return the shortest way from a share to one that is smaller by two: (giver, topic, taker), ...; empty for none."""
    enough = len(shares[start]) - 2
    came: dict[str, tuple[str, str]] = {}
    seen = {start}
    topics: set[str] = set()
    level = [start]
    while level:
        after = []
        for giver in level:
            for topic in sorted({key.topic for key in shares[giver]} - topics):
                topics.add(topic)
                for taker in readers[topic]:
                    if taker not in seen:
                        seen.add(taker)
                        came[taker] = giver, topic
                        after.append(taker)
        found = [member for member in after if len(shares[member]) <= enough]
        if found:
            taker = min(found, key=lambda member: (len(shares[member]), member))
            way = []
            while taker != start:
                giver, topic = came[taker]
                way.append((giver, topic, taker))
                taker = giver
            return way[::-1]
        level = after
    closed.update(member for member in seen if len(shares[member]) <= enough + 2)
    return []
