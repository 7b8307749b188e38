"""How the members of a group of one topic divide its partitions: the documented protocols, and the class for your own.

`pykafka.groups.assignors` has the algorithms, and uses them for all topics that the members of a group read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pykafka.compat import messages
from pykafka.groups.assignors.range_and_roundrobin import (
    Divisible,
    decide_partitions,
    decide_partitions_range,
    decide_partitions_roundrobin,
    in_runs,
    in_turn,
)

P = TypeVar("P", bound=Divisible)


#: `(ids of all members, {partition id: Partition}, id of one member) -> its partitions`; each member must come to the same
#: result, and each partition must go to one member.
DecidePartitions = Callable[[Iterable[Any], Mapping[int, Any], Any], "set[Any]"]


class GroupMembershipProtocol(NamedTuple):
    """A way to divide partitions, and the name under which members agree on it.

    :param protocol_type: kind of the group's members; b"consumer" for all consumers
    :param protocol_name: the name that all members of the group must know
    :param metadata: what members send when they join; consumers copy it and fill in their topic
    :param decide_partitions: computes one member's partitions, see `DecidePartitions`
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


def _by_number(partitions: Mapping[int, P]) -> list[P]:
    # All clients use this order in groups that the brokers keep: it does not change when leaders do.
    return [partitions[id_] for id_ in sorted(partitions)]


_STOCK: dict[DecidePartitions, Callable[..., Any]] = {
    decide_partitions_range: in_runs,
    decide_partitions_roundrobin: in_turn,
}


def as_brokers_keep_it(decide: DecidePartitions) -> DecidePartitions:
    """Return the function to use in a group that the brokers keep: there the stock functions order partitions by number."""
    share_out = _STOCK.get(decide)
    return decide if share_out is None else partial(decide_partitions, share_out, _by_number)


RangeProtocol = GroupMembershipProtocol(
    b"consumer", b"range", messages.ConsumerGroupProtocolMetadata(), decide_partitions_range
)
RoundRobinProtocol = GroupMembershipProtocol(
    b"consumer", b"roundrobin", messages.ConsumerGroupProtocolMetadata(), decide_partitions_roundrobin
)
