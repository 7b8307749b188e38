"""Groups and their members as brokers describe them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pykafka.admin.results import AclOperation
from pykafka.common import TopicPartition
from pykafka.exceptions import CorruptResponseError
from pykafka.protocol import wire
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription


class GroupType(Enum):
    """A kind of group; the values are Kafka's names."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, name: str) -> GroupType:
        """Return the type that a broker names; brokers before Kafka 3.8 name none, and have classic groups alone."""
        return next((one for one in cls if one.value == name.lower()), cls.UNKNOWN) if name else cls.CLASSIC


class GroupState(Enum):
    """The state of a group; the values are Kafka's names."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    UNKNOWN = "Unknown"

    @classmethod
    def of(cls, name: str) -> GroupState:
        """Return the state that a broker names; UNKNOWN if it names none (lists before Kafka 2.6)."""
        if name == "AwaitingSync":  # the name before Kafka 1.0
            return cls.COMPLETING_REBALANCE
        return next((one for one in cls if one.value.lower() == name.lower()), cls.UNKNOWN)


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
        """Whether programs only commit offsets in its name, without members."""
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


def partitions_of(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment, in order."""
    return tuple(sorted(TopicPartition(topic.topic_name, id_) for topic in topics for id_ in topic.partitions))


def classic_member(member: wire.DescribeGroupsResponse.Group.Member, of_consumers: bool) -> MemberDescription:
    """Return a member of a classic group.

    :param of_consumers: whether the group says that it is one of consumers: then its members' bytes are readable
    """
    wanted: tuple[str, ...] = ()
    assigned: tuple[TopicPartition, ...] = ()
    # Any client may call its group one of consumers, with metadata of its own format.
    if of_consumers and member.member_metadata:
        with suppress(CorruptResponseError):
            wanted = tuple(ConsumerProtocolSubscription.from_bytestring(member.member_metadata).topic_names)
    if of_consumers and member.member_assignment:
        with suppress(CorruptResponseError):
            assignment = ConsumerProtocolAssignment.from_bytestring(member.member_assignment).partition_assignment
            assigned = tuple(sorted(TopicPartition(topic, id_) for topic, ids in assignment for id_ in ids))
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        member.group_instance_id,
        subscription=wanted,
        assignment=assigned,
    )


def consumer_member(member: wire.ConsumerGroupDescribeResponse.Group.Member) -> MemberDescription:
    """Return a member of a group that the broker assigns partitions to."""
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        member.instance_id,
        member.rack_id,
        tuple(member.subscribed_topic_names),
        member.subscribed_topic_regex or None,
        partitions_of(member.assignment.topic_partitions),
        partitions_of(member.target_assignment.topic_partitions),
        member.member_epoch,
    )


def share_member(member: wire.ShareGroupDescribeResponse.Group.Member) -> MemberDescription:
    """Return a member of a share group."""
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        rack=member.rack_id,
        subscription=tuple(member.subscribed_topic_names),
        assignment=partitions_of(member.assignment.topic_partitions),
        epoch=member.member_epoch,
    )


def streams_members(group: wire.StreamsGroupDescribeResponse.Group) -> tuple[MemberDescription, ...]:
    """Return the members of a group of Kafka Streams: of their active tasks, the partitions of the topics read."""
    parts = group.topology.subtopologies if group.topology is not None else None
    sources = {
        part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        for part in parts or ()
    }
    wanted = tuple(sorted({topic for part in parts or () for topic in part.source_topics}))
    return tuple(
        MemberDescription(
            member.member_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            member.instance_id,
            member.rack_id,
            wanted,
            None,
            _of_tasks(member.assignment.active_tasks, sources),
            _of_tasks(member.target_assignment.active_tasks, sources),
            member.member_epoch,
        )
        for member in group.members
    )


def _of_tasks(tasks: Iterable[Any], sources: dict[str, list[str]]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic, id_)
            for task in tasks
            for topic in sources.get(task.subtopology_id, ())
            for id_ in task.partitions
        )
    )
