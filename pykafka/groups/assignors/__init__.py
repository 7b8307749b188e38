"""Assignors: how the leader of a group assigns partitions, for `ClassicMembership` and `ConsumerCoordinator`.

Consumers of one topic take a `GroupMembershipProtocol` instead. Both use the algorithms of `range_and_roundrobin`.

Here are the assignors by name, as the setting `assignor` gives them.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from pykafka.groups.assignors.abstract import AbstractPartitionAssignor
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor, RoundRobinPartitionAssignor

Assignor = AbstractPartitionAssignor | type[AbstractPartitionAssignor]
#: What the setting `assignor` takes.
AssignorLike = str | Assignor | Sequence[str | Assignor]

#: The names of the assignors of this package.
KNOWN = ("range", "roundrobin", "sticky", "cooperative-sticky")
#: Their names in configurations of Kafka's Java client.
JAVA_NAMES = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


def valid_assignor(value: Any, name: str) -> tuple[str | Assignor, ...]:
    """Return assignors, the best first: the names of this package's, and others as they are.

    :param value: one, or several: a name, that of Kafka's Java class, or an `AbstractPartitionAssignor`
    :raises TypeError: it is something else
    :raises ValueError: there is none, a name is unknown, or two assignors have the same name
    """
    given = value if isinstance(value, (list, tuple)) else (value,)
    if not given:
        raise ValueError(f"{name} must name one at least of {', '.join(map(repr, KNOWN))}")
    by_name: dict[str, str | Assignor] = {}
    for assignor in given:
        if isinstance(assignor, str):
            short = JAVA_NAMES.get(assignor, assignor)
            if short not in KNOWN:
                raise ValueError(
                    f"{name} must be {' or '.join(map(repr, KNOWN))}, a name of Kafka's Java classes for them, or an "
                    f"AbstractPartitionAssignor of your own, not {assignor!r}; members of a group with other assignors, "
                    "such as Kafka's Java client, agree with this one on one that all know"
                )
            by_name.setdefault(short, short)
            continue
        kind = assignor if isinstance(assignor, type) else type(assignor)
        if not issubclass(kind, AbstractPartitionAssignor) or (assignor is kind and inspect.isabstract(kind)):
            raise TypeError(
                f"{name} must be a name or an AbstractPartitionAssignor, or a list of them, not "
                f"{type(assignor).__name__}: {assignor!r}"
            )
        own = assignor.name if assignor.name in KNOWN and _known(assignor.name) is assignor else assignor
        if (first := by_name.setdefault(assignor.name, own)) != own:
            raise ValueError(f"{name} has two assignors of the name {assignor.name!r}: {first!r} and {assignor!r}")
    return tuple(by_name.values())


def assignors_of(value: Any, name: str) -> list[Assignor]:
    """Return the assignors themselves; for parameters and errors see `valid_assignor`."""
    assignors: list[Assignor] = []
    for assignor in valid_assignor(value, name):
        assignors.append(_known(assignor) if isinstance(assignor, str) else assignor)
    return assignors


def _known(name: str) -> type[AbstractPartitionAssignor]:
    """Return one of this package's assignors; the sticky ones are loaded when they are used."""
    if name == "range":
        return RangePartitionAssignor
    if name == "roundrobin":
        return RoundRobinPartitionAssignor
    from pykafka.groups.assignors.sticky import CooperativeStickyAssignor, StickyPartitionAssignor

    return StickyPartitionAssignor if name == "sticky" else CooperativeStickyAssignor
