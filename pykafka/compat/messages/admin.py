"""Groups, topics and versions, for administrators: the documented classes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

from pykafka._version import __version__
from pykafka.compat.messages.base import Request, Response, kept
from pykafka.compat.messages.groups import ConsumerGroupProtocolMetadata, MemberAssignment
from pykafka.exceptions import CorruptResponseError
from pykafka.protocol import wire
from pykafka.utils import get_string
from pykafka.utils.name import Name

# From this version on, the request has one struct per topic, as it may also name topics by id.
_DELETE_ONE_BY_ONE = 6
#: The protocol type of groups that consumers make.
_CONSUMERS = "consumer"


class ListGroupsRequest(Request):
    """A request for the groups that a broker coordinates."""

    API_KEY = 16

    def wire(self, version: int) -> wire.ListGroupsRequest:
        """Return this as a wire message."""
        return wire.ListGroupsRequest()


class GroupListing(NamedTuple):
    """The name of a group, and its protocol type ("consumer" for consumers)."""

    group_id: str
    protocol_type: str


class ListGroupsResponse(Response[wire.ListGroupsResponse]):
    """The groups that a broker coordinates: `.groups[group id]`; `.error` is the broker's error code.

    :param buff: the response's body, version 0
    """

    WIRE = wire.ListGroupsResponse

    def _take(self, message: wire.ListGroupsResponse) -> None:
        self.error = message.error_code
        listed = [GroupListing(Name.of(group.group_id), Name.of(group.protocol_type)) for group in message.groups]
        self.groups = {group.group_id: group for group in listed}


class DescribeGroupsRequest(Request):
    """A request for state and members of groups that a broker coordinates.

    :param group_ids: names of the groups
    """

    API_KEY = 15

    def __init__(self, group_ids: Iterable[str | bytes]) -> None:
        self.group_ids: Collection[str | bytes] = kept(group_ids)

    def wire(self, version: int) -> wire.DescribeGroupsRequest:
        """Return this as a wire message."""
        return wire.DescribeGroupsRequest(groups=[get_string(group_id) for group_id in self.group_ids])


class GroupMember(NamedTuple):
    """A member of a group: the metadata it joined with, and its assignment.

    Both are bytes if the members of the group are not consumers. While the group rebalances, consumers have the metadata of
    `ConsumerGroupProtocolMetadata()` and no partitions.
    """

    member_id: str
    client_id: str
    client_host: str
    member_metadata: ConsumerGroupProtocolMetadata | bytes
    member_assignment: MemberAssignment | bytes


class DescribeGroupResponse(NamedTuple):
    """A group: its state ("Stable", "Empty", "Dead", ...), its assignment protocol, and its members by id."""

    error_code: int
    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: Mapping[str, GroupMember]


class DescribeGroupsResponse(Response[wire.DescribeGroupsResponse]):
    """State and members of groups: `.groups[group id]`.

    :param buff: the response's body, version 0
    """

    WIRE = wire.DescribeGroupsResponse

    def _take(self, message: wire.DescribeGroupsResponse) -> None:
        self.groups = {}
        for group in message.groups:
            members = [_member(group.protocol_type, member) for member in group.members]
            described = DescribeGroupResponse(
                group.error_code,
                Name.of(group.group_id),
                Name.of(group.group_state),
                Name.of(group.protocol_type),
                Name.of(group.protocol_data),
                {member.member_id: member for member in members},
            )
            self.groups[described.group_id] = described


def _member(protocol_type: str, member: wire.DescribeGroupsResponse.Group.Member) -> GroupMember:
    metadata: Any = member.member_metadata
    assignment: Any = member.member_assignment
    if protocol_type == _CONSUMERS:
        # Any client may call its group one of consumers, with metadata of its own format.
        with suppress(CorruptResponseError):
            metadata = ConsumerGroupProtocolMetadata.from_bytestring(metadata)
        with suppress(CorruptResponseError):
            assignment = MemberAssignment.from_bytestring(assignment)
    return GroupMember(
        Name.of(member.member_id), Name.of(member.client_id), Name.of(member.client_host), metadata, assignment
    )


class ApiVersionsRequest(Request):
    """A request for the versions of each API that a broker supports."""

    API_KEY = 18

    def wire(self, version: int) -> wire.ApiVersionsRequest:
        """Return this as a wire message."""
        return wire.ApiVersionsRequest(client_software_name="pykafka", client_software_version=__version__)


class ApiVersionsSpec(NamedTuple):
    """The lowest and the highest version of an API."""

    key: int
    min: int
    max: int


class ApiVersionsResponse(Response[wire.ApiVersionsResponse], versions=(0,)):
    """The versions of each API that a broker supports: `.api_versions[API key]`.

    :param buff: the response's body, version 0
    """

    WIRE = wire.ApiVersionsResponse
    API_KEY: ClassVar[int] = 18

    def _take(self, message: wire.ApiVersionsResponse) -> None:
        self.throttle_time = message.throttle_time_ms
        self.api_versions = {
            key.api_key: ApiVersionsSpec(key.api_key, key.min_version, key.max_version) for key in message.api_keys
        }


class ApiVersionsResponseV1(ApiVersionsResponse, versions=(1,)):
    """The versions of each API that a broker supports; the body is of version 1, which has a throttle time."""


def _specs(highest: Mapping[int, int]) -> dict[int, ApiVersionsSpec]:
    return {key: ApiVersionsSpec(key, 0, highest.get(key, 0)) for key in range(17)}


#: The versions that PyKafka 2 uses with brokers that do not report theirs.
API_VERSIONS_080 = _specs({8: 1, 9: 1})
API_VERSIONS_090 = _specs({1: 1, 8: 1, 9: 1})


class CreateTopicRequest(NamedTuple):
    """A topic to create.

    :param topic_name: name of the topic
    :param num_partitions: how many; -1 where `replica_assignment` says it, or (brokers since 2.4) for their default
    :param replication_factor: copies of each partition; -1 likewise
    :param replica_assignment: (partition, broker ids) pairs, or a mapping; nothing leaves it to the brokers
    :param config_entries: (name, value) pairs, or a mapping, of settings that differ from the brokers'
    """

    topic_name: str | bytes
    num_partitions: int
    replication_factor: int
    replica_assignment: Iterable[tuple[int, Sequence[int]]] | Mapping[int, Sequence[int]] = ()
    config_entries: Iterable[tuple[str | bytes, str | bytes]] | Mapping[Any, str | bytes] = ()


class CreateTopicsRequest(Request):
    """A request that creates topics.

    :param topic_requests: the topics
    :param timeout: how long the broker may wait until they are there (ms)
    """

    API_KEY = 19

    def __init__(self, topic_requests: Iterable[CreateTopicRequest], timeout: int = 0) -> None:
        self.topic_requests: Collection[CreateTopicRequest] = kept(topic_requests)
        self.timeout = timeout

    def wire(self, version: int) -> wire.CreateTopicsRequest:
        """Return this as a wire message."""
        topic = wire.CreateTopicsRequest.Topic
        wanted = [
            topic(
                name=get_string(asked.topic_name),
                num_partitions=asked.num_partitions,
                replication_factor=asked.replication_factor,
                assignments=[
                    topic.Assignment(partition_index=int(id_), broker_ids=list(brokers))
                    for id_, brokers in _pairs(asked.replica_assignment)
                ],
                configs=[
                    topic.Config(name=get_string(name), value=get_string(value))
                    for name, value in _pairs(asked.config_entries)
                ],
            )
            for asked in self.topic_requests
        ]
        return wire.CreateTopicsRequest(topics=wanted, timeout_ms=self.timeout)


def _pairs(given: Any) -> list[tuple[Any, Any]]:
    return list(given.items() if isinstance(given, Mapping) else given)


class CreateTopicsResponse(Response[wire.CreateTopicsResponse]):
    """The topics that were created: `.topic_names`.

    :param buff: the response's body, version 0
    :raises ProtocolClientError: one of them was not
    """

    WIRE = wire.CreateTopicsResponse
    API_KEY: ClassVar[int] = 19

    def _take(self, message: wire.CreateTopicsResponse) -> None:
        self.topic_names = {Name.of(topic.name) for topic in message.topics}
        for topic in message.topics:
            if topic.error_code:
                self.raise_error(topic.error_code, f"topic {topic.name}: {topic.error_message or 'was not created'}")


class DeleteTopicsRequest(Request):
    """A request that deletes topics.

    :param topics: their names
    :param timeout: how long the broker may wait until they are gone (ms)
    """

    API_KEY = 20

    def __init__(self, topics: Iterable[str | bytes], timeout: int = 0) -> None:
        self.topics: Collection[str | bytes] = kept(topics)
        self.timeout = timeout

    def wire(self, version: int) -> wire.DeleteTopicsRequest:
        """Return this as a wire message."""
        request = wire.DeleteTopicsRequest(timeout_ms=self.timeout)
        names = [get_string(topic) for topic in self.topics]
        if version >= _DELETE_ONE_BY_ONE:
            request.topics = [wire.DeleteTopicsRequest.Topic(name=name) for name in names]
        else:
            request.topic_names = names
        return request


class DeleteTopicsResponse(Response[wire.DeleteTopicsResponse]):
    """The topics that were deleted: `.topic_names`.

    :param buff: the response's body, version 0
    :raises ProtocolClientError: one of them was not
    """

    WIRE = wire.DeleteTopicsResponse
    API_KEY: ClassVar[int] = 20

    def _take(self, message: wire.DeleteTopicsResponse) -> None:
        self.topic_names = {Name.of(topic.name) for topic in message.responses if topic.name is not None}
        for topic in message.responses:
            if topic.error_code:
                reason = topic.error_message or "was not deleted; before Kafka 1.0 that takes delete.topic.enable=true"
                self.raise_error(topic.error_code, f"topic {topic.name}: {reason}")
