"""Groups and their members as brokers describe them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pykafka.admin.groupnames import GroupState, GroupType
from pykafka.admin.operations import AclOperation
from pykafka.common import TopicPartition


@dataclass(frozen=True)
class GroupListing:
    """A group in one line.

    :param group: its name
    :param type: its kind
    :param state: UNKNOWN before Kafka 2.6
    :param protocol_type: "consumer", "connect", ...; "" for a group that has committed offsets alone
    :param coordinator: the broker that keeps it, by id
    """

    group: str
    type: GroupType
    state: GroupState
    protocol_type: str
    coordinator: int

    @property
    def is_simple(self) -> bool:
        """Whether programs only commit offsets in its name, and nobody joins it."""
        return self.type == GroupType.CLASSIC and not self.protocol_type


@dataclass(frozen=True)
class MemberDescription:
    """A member of a group; a classic group that is no group of consumers has no subscription and assignment here.

    :param member_id: the id that the coordinator knows it by
    :param client_id: what the client calls itself
    :param host: where it connects from
    :param instance_id: of a static member
    :param rack: if it names one
    :param subscription: the topics it wants
    :param pattern: the pattern of topics it wants (groups of type consumer)
    :param assignment: the partitions it has
    :param target: the partitions it is to get; None in classic groups
    :param epoch: of the member; None in classic groups
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    rack: str | None = None
    subscription: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None


@dataclass(frozen=True)
class GroupDescription:
    """A group.

    :param group: its name
    :param type: its kind
    :param state: of the group
    :param protocol_type: "consumer", "connect", "share", ...
    :param assignor: the way of assigning partitions; "" without members
    :param coordinator: the broker that keeps it, by id
    :param members: in the broker's order
    :param epoch: counts changes of the members; None in classic groups
    :param assignment_epoch: the epoch that the assignment is for; None in classic groups
    :param authorized_operations: what this user may do; None if that was not asked for
    """

    group: str
    type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[MemberDescription, ...] = field(default=())
    epoch: int | None = None
    assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None
