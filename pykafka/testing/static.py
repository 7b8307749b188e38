"""Settings that brokers are started with, as far as they have an effect here."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pykafka.testing.groups.settings import MIGRATION_POLICIES, GroupSettings

if TYPE_CHECKING:
    from pykafka.testing.state import ClusterState

#: By name: what has the value, from the cluster's state on, and the attribute.
STATIC: Final = {
    "auto.create.topics.enable": ("", "auto_create"),
    "default.replication.factor": ("", "default_replication"),
    "group.consumer.heartbeat.interval.ms": ("groups.settings", "consumer_heartbeat_interval_ms"),
    "group.consumer.migration.policy": ("groups.settings", "migration_policy"),
    "group.consumer.session.timeout.ms": ("groups.settings", "consumer_session_timeout_ms"),
    "group.initial.rebalance.delay.ms": ("groups.settings", "initial_rebalance_delay_ms"),
    "group.max.session.timeout.ms": ("groups.settings", "max_session_timeout_ms"),
    "group.max.size": ("groups.settings", "max_size"),
    "group.min.session.timeout.ms": ("groups.settings", "min_session_timeout_ms"),
    "num.partitions": ("", "default_partitions"),
    "offset.metadata.max.bytes": ("groups.settings", "offset_metadata_max_bytes"),
    "transaction.max.timeout.ms": ("transactions", "max_timeout_ms"),
    "transactional.id.expiration.ms": ("transactions", "expiration_ms"),
}
#: Those that brokers are seldom started with: they are reported as defaults until they are changed.
_SELDOM: Final = {
    name: vars(GroupSettings())[STATIC[name][1]]
    for name in (
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.migration.policy",
        "group.consumer.session.timeout.ms",
        "group.max.size",
        "offset.metadata.max.bytes",
    )
}


def static_values(state: ClusterState) -> dict[str, str]:
    """Return what the brokers were started with, of the settings that have an effect, as text."""
    values = {name: getattr(_owner(state, path), key) for name, (path, key) in STATIC.items()}
    return {name: str(value).lower() for name, value in values.items() if _SELDOM.get(name) != value}


def set_static(state: ClusterState, name: str, value: str) -> None:
    """Set what all brokers were started with; the cluster has just been made.

    :raises ValueError: the setting has no effect here, or cannot have this value
    """
    if name not in STATIC:
        raise ValueError(f"fake brokers cannot be started with {name}; they know {', '.join(STATIC)}")
    path, key = STATIC[name]
    owner = _owner(state, path)
    known = getattr(owner, key)
    if isinstance(known, bool):
        if value not in ("true", "false"):
            raise ValueError(f"{name} is {value!r}: true or false")
        setattr(owner, key, value == "true")
    elif isinstance(known, str):
        if value not in MIGRATION_POLICIES:
            raise ValueError(f"{name} is {value!r}: one of {', '.join(MIGRATION_POLICIES)}")
        setattr(owner, key, value)
    else:
        least = 0 if key == "initial_rebalance_delay_ms" else 1
        if not value.isdecimal() or not least <= int(value) < 2**31:
            raise ValueError(f"{name} is {value!r}: a whole number from {least} to {2**31 - 1}")
        setattr(owner, key, int(value))


def _owner(state: ClusterState, path: str) -> object:
    owner: object = attrgetter(path)(state) if path else state
    return owner
