"""`GroupSettings`: what the configuration of brokers says about groups."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka.testing.behaviour import GroupPath

#: How groups may go from the classic protocol to KIP-848, and back.
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


class GroupSettings:
    """Brokers' configuration of groups, with Kafka's defaults unless a comment gives a reason. Times are in ms."""

    def __init__(self) -> None:
        #: What administrators have set, by group (`Configs.groups`).
        self.configs: Mapping[str, Mapping[str, str]] = {}
        #: How the release that is played coordinates groups.
        self.path = GroupPath()
        #: How long an empty group waits for more members before its first rebalance ends. Brokers have 3000.
        self.initial_rebalance_delay_ms = 100
        #: The session timeouts that classic members may have.
        self.min_session_timeout_ms = 6_000
        self.max_session_timeout_ms = 1_800_000
        #: How long a classic member that has joined for the first time is kept without its group's rebalance.
        self.new_member_join_timeout_ms = 300_000
        #: The most members that a group may have.
        self.max_size = 2**31 - 1
        #: Members by KIP-848 get these from the broker.
        self.consumer_session_timeout_ms = 45_000
        self.consumer_heartbeat_interval_ms = 5_000
        #: One of `MIGRATION_POLICIES`.
        self.migration_policy = "bidirectional"
        #: Whether a commit may name an epoch before the member's present one, since which it has the partition (KIP-1251).
        self.has_assignment_epochs = True
        #: How long offsets are kept after their group has become empty, and how often brokers look.
        self.offsets_retention_ms = 7 * 24 * 3600 * 1000
        self.retention_check_interval_ms = 600_000
        #: The longest metadata of a committed offset (bytes).
        self.offset_metadata_max_bytes = 4096

    def of_group(self, group: str, name: str) -> int:
        """Return the effective value of a group's setting, such as consumer.session.timeout.ms: its own, or the brokers'."""
        own = self.configs.get(group, {}).get(name)
        return int(getattr(self, name.replace(".", "_")) if own is None else own)

    def change(self, values: Mapping[str, object]) -> None:
        """Change some settings, by the names of their attributes.

        :raises ValueError: there is no such setting, or it is of another type
        """
        known = {name: value for name, value in vars(self).items() if isinstance(value, int | str)}
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"groups have no setting {name!r}: one of {', '.join(known)}")
            if type(value) is not type(known[name]):
                raise ValueError(f"the setting {name} of groups is {value!r}: {type(known[name]).__name__} is its type")
            if isinstance(value, int) and value < 0:
                raise ValueError(f"the setting {name} of groups is {value}: 0 or more")
            if name == "migration_policy" and value not in MIGRATION_POLICIES:
                raise ValueError(f"the setting {name} of groups is {value!r}: one of {', '.join(MIGRATION_POLICIES)}")
            setattr(self, name, value)
