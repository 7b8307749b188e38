"""The assignors by name, as the setting `assignor` gives them."""

from __future__ import annotations

from typing import Any

from pykafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from pykafka.coordinator.assignors.range import RangePartitionAssignor
from pykafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

KNOWN: dict[str, type[AbstractPartitionAssignor]] = {
    one.name: one for one in (RangePartitionAssignor, RoundRobinPartitionAssignor)
}


def valid_assignor(value: Any, name: str) -> tuple[str, ...]:
    """Return the names of assignors, the best first.

    :param value: a name, or several
    :raises TypeError: it is something else
    :raises ValueError: there is none, or one is unknown here
    """
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(one, str) for one in names):
        raise TypeError(f"{name} must be a name, or a list of names, not {type(value).__name__}: {value!r}")
    if not names:
        raise ValueError(f"{name} must name one at least of {', '.join(map(repr, KNOWN))}")
    for one in names:
        if one not in KNOWN:
            raise ValueError(
                f"{name} must be {' or '.join(map(repr, KNOWN))}, not {one!r}; members of a group that use other assignors as "
                "well, such as Kafka's Java client, agree with this one on one that all know"
            )
    return tuple(dict.fromkeys(names))
