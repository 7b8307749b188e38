"""How the members of a group share out partitions: the documented protocols, and the seam for other ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from pykafka.protocol import documented


class Shared(Protocol):
    """What is shared out: a `pykafka.partition.Partition`, or what has as much of it."""

    @property
    def id(self) -> int: ...
    @property
    def leader(self) -> Any: ...
    @property
    def topic(self) -> Any: ...


P = TypeVar("P", bound=Shared)

#: `(ids of all members, {partition id: Partition}, id of one member) -> its partitions`; each member must come to the same
#: result, and each partition must go to one member.
DecidePartitions = Callable[[Iterable[Any], Mapping[int, Any], Any], "set[Any]"]


class GroupMembershipProtocol(NamedTuple):
    """Name a way to share out partitions.

    :param protocol_type: kind of the group's members; b"consumer" for all consumers
    :param protocol_name: the name that all members of the group must know
    :param metadata: what members say when they join; consumers copy it and fill in their topic
    :param decide_partitions: shares out
    """

    protocol_type: str | bytes
    protocol_name: str | bytes
    metadata: Any
    decide_partitions: DecidePartitions


def valid_protocol(param: Any) -> Any:
    """Return what has all that a `GroupMembershipProtocol` has.

    :raises TypeError: it has not
    """
    missing = [field for field in GroupMembershipProtocol._fields if not hasattr(param, field)]
    if missing:
        raise TypeError(
            f"membership_protocol must be RangeProtocol, RoundRobinProtocol or a GroupMembershipProtocol of your own, "
            f"not {type(param).__name__}: {param!r} has no {', '.join(missing)}"
        )
    return param


def _by_leader(partitions: Mapping[int, P]) -> list[P]:
    # As text, leader first: the order that consumers of 2.x have, which share groups in ZooKeeper with ours.
    def place(partition: Shared) -> str:
        leader, topic = partition.leader, partition.topic
        return f"{topic.name if topic else ''}-{leader.id if leader else -1}-{partition.id}"

    return sorted(partitions.values(), key=place)


def _by_number(partitions: Mapping[int, P]) -> list[P]:
    # The order of all clients whose groups the brokers keep: it does not change with the leaders.
    return [partitions[id_] for id_ in sorted(partitions)]


def _range(participants: Iterable[Any], ordered: list[P], consumer_id: Any) -> set[P]:
    members = sorted(participants)
    place = members.index(consumer_id)
    share, left_over = divmod(len(ordered), len(members))
    start = share * place + min(place, left_over)
    return set(ordered[start : start + share + (place < left_over)])


def _roundrobin(participants: Iterable[Any], ordered: list[P], consumer_id: Any) -> set[P]:
    members = sorted(participants)
    return set(ordered[members.index(consumer_id) :: len(members)])


def decide_partitions_range(participants: Iterable[Any], partitions: Mapping[int, P], consumer_id: Any) -> set[P]:
    """Give each member a run of neighbouring partitions; the first members get one more where it does not come out even.

    Neighbours have the same leader, as for members of groups in ZooKeeper; in a group that the brokers keep they have
    neighbouring numbers, whoever leads them.

    :param participants: ids of all members
    :param partitions: of the topic, by id
    :param consumer_id: whose share to return
    :raises ValueError: that is none of the members
    """
    return _range(participants, _by_leader(partitions), consumer_id)


def decide_partitions_roundrobin(participants: Iterable[Any], partitions: Mapping[int, P], consumer_id: Any) -> set[P]:
    """Deal the partitions out one by one, as cards; order, parameters and errors as of `decide_partitions_range`."""
    return _roundrobin(participants, _by_leader(partitions), consumer_id)


def _range_by_number(participants: Iterable[Any], partitions: Mapping[int, P], consumer_id: Any) -> set[P]:
    return _range(participants, _by_number(partitions), consumer_id)


def _roundrobin_by_number(participants: Iterable[Any], partitions: Mapping[int, P], consumer_id: Any) -> set[P]:
    return _roundrobin(participants, _by_number(partitions), consumer_id)


_KEPT_BY_BROKERS: dict[DecidePartitions, DecidePartitions] = {
    decide_partitions_range: _range_by_number,
    decide_partitions_roundrobin: _roundrobin_by_number,
}


def as_brokers_keep_it(decide: DecidePartitions) -> DecidePartitions:
    """Return what shares out in a group that the brokers keep: the stock functions go by partition number there."""
    return _KEPT_BY_BROKERS.get(decide, decide)


RangeProtocol = GroupMembershipProtocol(
    b"consumer", b"range", documented.ConsumerGroupProtocolMetadata(), decide_partitions_range
)
RoundRobinProtocol = GroupMembershipProtocol(
    b"consumer", b"roundrobin", documented.ConsumerGroupProtocolMetadata(), decide_partitions_roundrobin
)
