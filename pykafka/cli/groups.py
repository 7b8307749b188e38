"""The consumer groups that brokers coordinate, as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pykafka.cli.listing import partition_ids
from pykafka.exceptions import (
    CorruptResponseError,
    GroupIdNotFound,
    IncompleteResponseError,
    ProtocolClientError,
    error_for,
)
from pykafka.metadata.groupoffsets import CHANNEL, FETCH_CEILING
from pykafka.protocol import documented, wire
from pykafka.utils import get_string

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.client import KafkaClient

#: The protocol type of groups of consumers; a group with offsets alone has none.
_CONSUMERS = ("consumer", "")
#: A new coordinator loads its groups first: pause between attempts (s), and number of attempts.
_PAUSE_S = 0.2
_ATTEMPTS = 25


class GroupMember(NamedTuple):
    """A member; `partitions` are those of the requested topic, else "topic-0" and so on of all topics."""

    member: str
    client: str
    host: str
    partitions: list[int] | list[str]


class GroupDescription(NamedTuple):
    """A group; `committed` counts the partitions of the topic with committed offsets.

    None: no topic was asked about.
    """

    group: str
    state: str
    type: str
    assignor: str
    coordinator: int
    committed: int | None
    members: list[GroupMember]


class ListedGroup(NamedTuple):
    """The name of a group, and its coordinator."""

    coordinator: Broker
    group: str
    state: str
    type: str


def list_groups(client: KafkaClient) -> list[ListedGroup]:
    """Return all groups of consumers in the cluster by name; each broker returns its own.

    :raises UnsupportedVersion: the brokers manage no groups
    """
    found = [group for broker in client.brokers.values() for group in _listed(client, broker)]
    return sorted(found, key=lambda group: group.group)


def _listed(client: KafkaClient, broker: Broker) -> Iterator[ListedGroup]:
    for group in _ask_for_groups(client, broker).groups:
        if group.protocol_type in _CONSUMERS:
            yield ListedGroup(broker, group.group_id, group.group_state, group.group_type or "classic")


def _ask_for_groups(client: KafkaClient, broker: Broker) -> wire.ListGroupsResponse:
    for attempt in range(1, _ATTEMPTS + 1):
        response = broker.call(wire.ListGroupsRequest())
        if not response.error_code:
            return response
        error = error_for(response.error_code, broker=broker.address, api="ListGroups")
        if not error.retriable or attempt == _ATTEMPTS:
            raise error
        client.cluster.handler.sleep(_PAUSE_S)
    raise AssertionError("unreachable")


def describe_groups(
    client: KafkaClient, topic: str | None, groups: Sequence[ListedGroup]
) -> Iterator[GroupDescription | None]:
    """Yield the description of each group, or None if it does not concern the topic.

    It concerns the topic if a member subscribes to it, or if it has committed offsets for it.

    :param topic: None for all topics of the groups
    :raises UnknownTopicOrPartition: there is no such topic
    """
    ids = [] if topic is None else partition_ids(client, topic)
    for group in groups:
        described = _describe(group)
        members = [member for member in described.members if topic is None or member.is_of(topic)]
        committed = None if topic is None else _count_committed(group, topic, ids)
        if not members and committed == 0:
            yield None
            continue
        yield GroupDescription(
            group.group,
            described.state or group.state,
            group.type,
            described.assignor,
            group.coordinator.id,
            committed,
            [GroupMember(one.member, one.client, one.host.removeprefix("/"), one.share(topic)) for one in members],
        )


class _Member(NamedTuple):
    """A member as a broker describes it, in either protocol."""

    member: str
    client: str
    host: str
    wanted: list[str]
    assigned: dict[str, list[int]]

    def is_of(self, topic: str) -> bool:
        return topic in self.wanted or topic in self.assigned

    def share(self, topic: str | None) -> list[int] | list[str]:
        if topic is not None:
            return sorted(self.assigned.get(topic, []))
        return [f"{name}-{id_}" for name, ids in sorted(self.assigned.items()) for id_ in sorted(ids)]


class _Described(NamedTuple):
    state: str
    assignor: str
    members: list[_Member]


def _describe(group: ListedGroup) -> _Described:
    """Describe one group: with client-side assignors, else with the broker's (KIP-848)."""
    response = group.coordinator.call(wire.DescribeGroupsRequest(groups=[group.group]))
    for found in response.groups:
        # For a group that is of another kind or does not exist, older brokers return the one error, newer ones the other.
        if found.error_code == GroupIdNotFound.ERROR_CODE or (not found.error_code and found.group_state == "Dead"):
            return _describe_newer(group)
        if found.error_code:
            raise _error(found.error_code, group, "DescribeGroups", found.error_message)
        return _Described(found.group_state, found.protocol_data, [_classic(one) for one in found.members])
    raise IncompleteResponseError(f"group {group.group}", broker=group.coordinator.address, api="DescribeGroups")


def _classic(member: wire.DescribeGroupsResponse.Group.Member) -> _Member:
    wanted: list[str] = []
    assigned: dict[str, list[int]] = {}
    # Any client may call its group one of consumers, with metadata of its own format.
    if member.member_metadata:
        with suppress(CorruptResponseError):
            names = documented.ConsumerGroupProtocolMetadata.from_bytestring(member.member_metadata).topic_names
            wanted = [get_string(name) for name in names]
    with suppress(CorruptResponseError):
        assigned = dict(documented.MemberAssignment.from_bytestring(member.member_assignment).partition_assignment)
    return _Member(member.member_id, member.client_id, member.client_host, wanted, assigned)


def _describe_newer(group: ListedGroup) -> _Described:
    if not group.coordinator.has(wire.ConsumerGroupDescribeRequest):
        return _Described("", "", [])
    response = group.coordinator.call(wire.ConsumerGroupDescribeRequest(group_ids=[group.group]))
    for found in response.groups:
        if found.error_code == GroupIdNotFound.ERROR_CODE:
            return _Described("", "", [])
        if found.error_code:
            raise _error(found.error_code, group, "ConsumerGroupDescribe", found.error_message)
        members = [
            _Member(
                one.member_id,
                one.client_id,
                one.client_host,
                list(one.subscribed_topic_names),
                {topic.topic_name: list(topic.partitions) for topic in one.assignment.topic_partitions},
            )
            for one in found.members
        ]
        return _Described(found.group_state, found.assignor_name, members)
    raise IncompleteResponseError(f"group {group.group}", broker=group.coordinator.address, api="ConsumerGroupDescribe")


def _count_committed(group: ListedGroup, topic: str, ids: list[int]) -> int:
    broker = group.coordinator
    version = max(broker.api_version(wire.OffsetFetchRequest, ceiling=FETCH_CEILING), 1)
    request = wire.OffsetFetchRequest(
        group_id=group.group, topics=[wire.OffsetFetchRequest.Topic(name=topic, partition_indexes=ids)]
    )
    response = broker.call(request, CHANNEL, version=version)
    if response.error_code:
        raise _error(response.error_code, group, "OffsetFetch")
    committed = {part.partition_index: part.committed_offset for found in response.topics for part in found.partitions}
    for id_ in ids:
        if id_ not in committed:
            raise IncompleteResponseError(broker=broker.address, topic=topic, partition=id_, api="OffsetFetch")
    return sum(offset >= 0 for offset in committed.values())


def _error(code: int, group: ListedGroup, api: str, text: str | None = None) -> ProtocolClientError:
    error = error_for(code, broker=group.coordinator.address, api=api)
    return error_for(code, f"group {group.group}: {text or error.description}", broker=error.broker, api=api)


def is_known(client: KafkaClient, group: str) -> bool:
    """Return whether brokers know a group: with members, or with offsets for any topic (since 0.10.1)."""
    described = _described(client, group)
    return described is not None and bool(described.state)


def active_members(client: KafkaClient, group: str) -> int | None:
    """Return the number of members of a group; None if brokers do not report it."""
    described = _described(client, group)
    return None if described is None else len(described.members)


def _described(client: KafkaClient, group: str) -> _Described | None:
    """Return a description from a group's coordinator, which may still load its groups; None if brokers have none."""
    for attempt in range(1, _ATTEMPTS + 1):
        coordinator = client.cluster.get_group_coordinator(group)
        if not coordinator.has(wire.DescribeGroupsRequest):
            return None
        try:
            return _describe(ListedGroup(coordinator, group, "", ""))
        except ProtocolClientError as error:
            if not error.retriable or attempt == _ATTEMPTS:
                raise
        client.cluster.handler.sleep(_PAUSE_S)
    raise AssertionError("unreachable")
