"""The assignors by name, as the setting `assignor` gives them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from pykafka.groups.assignors.abstract import AbstractPartitionAssignor
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor, RoundRobinPartitionAssignor
from pykafka.groups.assignors.sticky import CooperativeStickyAssignor, StickyPartitionAssignor

Assignor = AbstractPartitionAssignor | type[AbstractPartitionAssignor]
#: What the setting `assignor` takes.
AssignorLike = str | Assignor | Sequence[str | Assignor]

KNOWN: dict[str, type[AbstractPartitionAssignor]] = {
    one.name: one
    for one in (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
        CooperativeStickyAssignor,
    )
}
#: What configurations of Kafka's Java client say.
JAVA_NAMES = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


def valid_assignor(value: Any, name: str) -> tuple[str | Assignor, ...]:
    """Return assignors, the best first: the names of those that are known here, and others as they are.

    :param value: one, or several: a name, that of Kafka's Java class, or an `AbstractPartitionAssignor`
    :raises TypeError: it is something else
    :raises ValueError: there is none, one is unknown here, or two are of one name
    """
    given = value if isinstance(value, (list, tuple)) else (value,)
    if not given:
        raise ValueError(f"{name} must name one at least of {', '.join(map(repr, KNOWN))}")
    found: dict[str, str | Assignor] = {}
    for one in given:
        if isinstance(one, str):
            short = JAVA_NAMES.get(one, one)
            if short not in KNOWN:
                raise ValueError(
                    f"{name} must be {' or '.join(map(repr, KNOWN))}, a name of Kafka's Java classes for them, or an "
                    f"AbstractPartitionAssignor of your own, not {one!r}; members of a group that use other assignors as well, "
                    "such as Kafka's Java client, agree with this one on one that all know"
                )
            found.setdefault(short, short)
            continue
        kind = one if isinstance(one, type) else type(one)
        if not issubclass(kind, AbstractPartitionAssignor) or (one is kind and inspect.isabstract(kind)):
            raise TypeError(
                f"{name} must be a name or an AbstractPartitionAssignor, or a list of them, not {type(one).__name__}: {one!r}"
            )
        own = one.name if one.name in KNOWN and KNOWN[one.name] is one else one
        if found.setdefault(one.name, own) != own:
            raise ValueError(f"{name} has two assignors of the name {one.name!r}: {found[one.name]!r} and {one!r}")
    return tuple(found.values())


#: The assignors that brokers have by default (KIP-848), and that members of the classic protocol do not know.
AT_BROKER = ("uniform",)


def assignors_of(value: Any, name: str) -> list[Assignor]:
    """Return the assignors themselves; parameters and errors as of `valid_assignor`."""
    return [KNOWN[one] if isinstance(one, str) else one for one in valid_assignor(value, name)]
