"""Sharing out partitions among the members of a group: the two algorithms, the documented protocols, the seam for others.

`in_runs` and `in_turn` are the algorithms. The protocols here use them for one topic at a time;
`pykafka.groups.assignors` uses them for all topics that the members of a group read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pykafka.compat import messages
from pykafka.utils import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)


class Shared(Protocol):
    """A partition as far as sharing out is concerned, such as `pykafka.metadata.partition.Partition`."""

    @property
    def id(self) -> int: ...
    @property
    def leader(self) -> Any: ...
    @property
    def topic(self) -> Any: ...


P = TypeVar("P", bound=Shared)
M = TypeVar("M")
T = TypeVar("T")

#: `(ids of all members, {partition id: Partition}, id of one member) -> its partitions`; each member must come to the same
#: result, and each partition must go to one member.
DecidePartitions = Callable[[Iterable[Any], Mapping[int, Any], Any], "set[Any]"]


class GroupMembershipProtocol(NamedTuple):
    """A way to share out partitions, and the name under which members agree on it.

    :param protocol_type: kind of the group's members; b"consumer" for all consumers
    :param protocol_name: the name that all members of the group must know
    :param metadata: what members send when they join; consumers copy it and fill in their topic
    :param decide_partitions: computes one member's share, see `DecidePartitions`
    """

    protocol_type: str | bytes
    protocol_name: str | bytes
    metadata: Any
    decide_partitions: DecidePartitions


def valid_protocol(param: Any) -> Any:
    """Return a membership protocol, or anything with the same fields.

    :raises TypeError: a field of `GroupMembershipProtocol` is missing
    """
    missing = [field for field in GroupMembershipProtocol._fields if not hasattr(param, field)]
    if missing:
        raise TypeError(
            f"membership_protocol must be RangeProtocol, RoundRobinProtocol or a GroupMembershipProtocol of your own, "
            f"not {type(param).__name__}: {param!r} has no {', '.join(missing)}"
        )
    return param


def in_runs(members: Sequence[M], ordered: Sequence[T]) -> dict[M, list[T]]:
    """Share out in runs of neighbours: the algorithm named `range`.

    :param members: in the order that all members agree on, at least one
    :param ordered: what is shared out, in the order that all members agree on
    :returns: {member: its run}; the first members get one more where it does not come out even
    """
    size, left_over = divmod(len(ordered), len(members))
    shares: dict[M, list[T]] = {member: [] for member in members}
    start = 0
    for place, member in enumerate(members):
        end = start + size + (place < left_over)
        shares[member] += ordered[start:end]
        start = end
    return shares


def in_turn(
    members: Sequence[M], ordered: Iterable[T], wants: Callable[[M, T], bool] | None = None
) -> dict[M, list[T]]:
    """Share out one by one, as cards are dealt: the algorithm named `roundrobin`.

    :param members: in the order that all members agree on, at least one
    :param ordered: what is shared out, in the order that all members agree on
    :param wants: tells whether a member takes part in sharing out this one; None if each takes part in all. The turn of
        a member that does not passes to the next one.
    :returns: {member: what it got}
    """
    shares: dict[M, list[T]] = {member: [] for member in members}
    turns = cycle(members)
    for one in ordered:
        for member in islice(turns, len(members)):
            if wants is None or wants(member, one):
                shares[member].append(one)
                break
    return shares


def _by_leader(partitions: Mapping[int, P]) -> list[P]:
    # As text, leader first: consumers of PyKafka 2.x use this order, and share groups in ZooKeeper with ours.
    def place(partition: Shared) -> str:
        leader, topic = partition.leader, partition.topic
        return f"{topic.name if topic else ''}-{leader.id if leader else -1}-{partition.id}"

    return sorted(partitions.values(), key=place)


def _by_number(partitions: Mapping[int, P]) -> list[P]:
    # All clients use this order in groups that the brokers keep: it does not change when leaders do.
    return [partitions[id_] for id_ in sorted(partitions)]


def _decide(
    share_out: Callable[..., dict[Any, list[P]]],
    order: Callable[[Mapping[int, P]], list[P]],
    participants: Iterable[Any],
    partitions: Mapping[int, P],
    consumer_id: Any,
) -> set[P]:
    members = sorted(participants)
    if consumer_id not in members:
        raise ValueError(f"consumer {consumer_id!r} is not among the members of the group: {members}")
    return set(share_out(members, order(partitions))[consumer_id])


def decide_partitions_range(participants: Iterable[Any], partitions: Mapping[int, P], consumer_id: Any) -> set[P]:
    """Return one member's share where each member gets a run of neighbouring partitions.

    The first members get one more where it does not come out even. Neighbours have the same leader, as members of groups
    in ZooKeeper order them; in a group that the brokers keep they have neighbouring numbers, whatever their leaders.

    :param participants: ids of all members
    :param partitions: of the topic, by id
    :param consumer_id: the member whose share to return
    :raises ValueError: `consumer_id` is not among the members
    """
    return _decide(in_runs, _by_leader, participants, partitions, consumer_id)


def decide_partitions_roundrobin(participants: Iterable[Any], partitions: Mapping[int, P], consumer_id: Any) -> set[P]:
    """Return one member's share where partitions are dealt out one by one, as cards.

    Order, parameters and errors are those of `decide_partitions_range`. Each topic is dealt out by itself, so the first
    member gets the first partition of each.
    """
    return _decide(in_turn, _by_leader, participants, partitions, consumer_id)


_STOCK: dict[DecidePartitions, Callable[..., Any]] = {
    decide_partitions_range: in_runs,
    decide_partitions_roundrobin: in_turn,
}


def as_brokers_keep_it(decide: DecidePartitions) -> DecidePartitions:
    """Return the function to use in a group that the brokers keep: there the stock functions order partitions by number."""
    share_out = _STOCK.get(decide)
    return decide if share_out is None else partial(_decide, share_out, _by_number)


RangeProtocol = GroupMembershipProtocol(
    b"consumer", b"range", messages.ConsumerGroupProtocolMetadata(), decide_partitions_range
)
RoundRobinProtocol = GroupMembershipProtocol(
    b"consumer", b"roundrobin", messages.ConsumerGroupProtocolMetadata(), decide_partitions_roundrobin
)
