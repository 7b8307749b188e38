"""Members of groups, as each kind of description has them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from pykafka.admin.grouptypes import MemberDescription
from pykafka.common import TopicPartition
from pykafka.compat import messages
from pykafka.exceptions import CorruptResponseError
from pykafka.protocol import wire
from pykafka.utils import get_string


class _Partitions(Protocol):
    @property
    def topic_name(self) -> str: ...
    @property
    def partitions(self) -> list[int]: ...


def partitions_of(topics: Iterable[_Partitions]) -> tuple[TopicPartition, ...]:
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
            names = messages.ConsumerGroupProtocolMetadata.read(member.member_metadata).topic_names
            wanted = tuple(get_string(name) for name in names)
    if of_consumers and member.member_assignment:
        with suppress(CorruptResponseError):
            shares = messages.MemberAssignment.read(member.member_assignment).partition_assignment
            assigned = tuple(sorted(TopicPartition(get_string(topic), id_) for topic, ids in shares for id_ in ids))
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        member.group_instance_id,
        subscription=wanted,
        assignment=assigned,
    )


def consumer_member(member: wire.ConsumerGroupDescribeResponse.Group.Member) -> MemberDescription:
    """Return a member of a group whose shares the broker works out."""
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


class _Tasks(Protocol):
    @property
    def subtopology_id(self) -> str: ...
    @property
    def partitions(self) -> list[int]: ...


def _of_tasks(tasks: Iterable[_Tasks], sources: dict[str, list[str]]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic, id_)
            for task in tasks
            for topic in sources.get(task.subtopology_id, ())
            for id_ in task.partitions
        )
    )
