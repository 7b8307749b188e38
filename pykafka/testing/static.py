"""Settings that brokers are started with, as far as they have an effect here."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pykafka.testing.state import ClusterState

#: By name: what has the value, from the cluster's state on, and the attribute.
_KEPT: Final = {
    "auto.create.topics.enable": ("", "auto_create"),
    "default.replication.factor": ("", "default_replication"),
    "group.initial.rebalance.delay.ms": ("groups.settings", "initial_rebalance_delay_ms"),
    "group.max.session.timeout.ms": ("groups.settings", "max_session_timeout_ms"),
    "group.min.session.timeout.ms": ("groups.settings", "min_session_timeout_ms"),
    "num.partitions": ("", "default_partitions"),
    "transaction.max.timeout.ms": ("transactions", "max_timeout_ms"),
    "transactional.id.expiration.ms": ("transactions", "expiration_ms"),
}


def static_values(state: ClusterState) -> dict[str, str]:
    """Return the settings that have an effect, as text."""
    return {name: str(getattr(_owner(state, path), key)).lower() for name, (path, key) in _KEPT.items()}


def set_static(state: ClusterState, name: str, value: str) -> None:
    """Set what all brokers were started with; the cluster has just been made.

    :raises ValueError: the setting has no effect here, or cannot have this value
    """
    if name not in _KEPT:
        raise ValueError(f"fake brokers cannot be started with {name}; they know {', '.join(_KEPT)}")
    path, key = _KEPT[name]
    owner = _owner(state, path)
    if isinstance(getattr(owner, key), bool):
        if value not in ("true", "false"):
            raise ValueError(f"{name} is {value!r}: true or false")
        setattr(owner, key, value == "true")
    elif value.isdecimal() and 0 < int(value) < 2**31:
        setattr(owner, key, int(value))
    else:
        raise ValueError(f"{name} is {value!r}: a whole number from 1 to {2**31 - 1}")


def _owner(state: ClusterState, path: str) -> object:
    owner: object = attrgetter(path)(state) if path else state
    return owner
