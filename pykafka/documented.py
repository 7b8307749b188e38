"""`DocumentedRequests`: the requests of `Broker` that the reference documents, each one call and one answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.exceptions import IncompleteResponseError, RequestTimedOut
from pykafka.protocol import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchRequest,
    FetchResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetRequest,
    ListOffsetResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PartitionFetchRequest,
    PartitionOffsetCommitRequest,
    PartitionOffsetFetchRequest,
    PartitionOffsetRequest,
    ProduceRequest,
    ProduceResponse,
    messages,
)
from pykafka.utils import get_string

if TYPE_CHECKING:
    from pykafka.protocol import Request, Response, schema
    from pykafka.protocol.versions import ApiRanges

R = TypeVar("R")
D = TypeVar("D", bound="Response[Any]")

#: What "return at once" (timeout=0) becomes for topics (ms): KRaft controllers take 0 for a deadline that has passed, and
#: do nothing.
AT_ONCE_MS = 5000


class DocumentedRequests(ABC):
    """Be the part of `Broker` that speaks the documented request and response classes.

    Each goes out in the highest version that broker and client have, and comes back in the documented shape. What a
    broker answers for a partition is handed over as it is, error codes included: retrying is left to the caller. All
    raise `SocketDisconnectedError` where the broker cannot be reached, `ResponseTimeoutError` where it does not answer
    in time, `IncompleteResponseError` where its answer leaves out what it was asked for, and `UnsupportedVersion` where
    it lacks the API.
    """

    _socket_timeout_ms: int

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the broker is, as `host:port`."""

    @abstractmethod
    def api_ranges(self) -> ApiRanges:
        """Return what the broker speaks."""

    @abstractmethod
    def api_version(self, request_cls: type[schema.Request[Any]], ceiling: int | None = None) -> int:
        """Return the version of an API to speak."""

    @abstractmethod
    def call(
        self,
        request: schema.Request[R],
        channel: str = "main",
        *,
        timeout_ms: int | None = None,
        version: int | None = None,
        ceiling: int | None = None,
    ) -> R:
        """Send a wire message and return the answer."""

    @abstractmethod
    def send(
        self,
        request: schema.Request[R],
        channel: str = "main",
        *,
        timeout_ms: int | None = None,
        version: int | None = None,
        ceiling: int | None = None,
        has_response: bool = True,
    ) -> Any:
        """Send a wire message and return at once."""

    def _ask(
        self,
        request: Request,
        wire_cls: type[schema.Request[Any]],
        answer: type[D],
        channel: str = "main",
        extra_ms: int | None = None,
    ) -> D:
        """Send a documented request and return the documented answer.

        :param wire_cls: the wire message that it becomes
        :param extra_ms: how long the broker may take to think, besides the socket timeout of the channel
        """
        version = self.api_version(wire_cls)
        timeout_ms = None if extra_ms is None else self._socket_timeout_ms + extra_ms
        return answer.of(self.call(request.wire(version), channel, timeout_ms=timeout_ms, version=version))

    def _check_partitions(
        self, asked: Iterable[tuple[str | bytes, int]], topics: Mapping[str, Mapping[int, Any]], api: str
    ) -> None:
        """Raise where an answer leaves a partition out, which is not to say that all is well with it.

        :param asked: (topic, partition) pairs
        :param topics: of the answer
        :raises IncompleteResponseError: it does
        """
        for topic, id_ in asked:
            name = get_string(topic)
            if id_ not in topics.get(name, {}):
                raise IncompleteResponseError(broker=self.address, topic=name, partition=id_, api=api)

    def _check_names(self, what: str, asked: Iterable[str], answered: Container[str], api: str) -> None:
        for name in asked:
            if name not in answered:
                raise IncompleteResponseError(f"{what} {name}", broker=self.address, api=api)

    # -- messages --------------------------------------------------------------------------------------------------

    def fetch_messages(
        self, partition_requests: Iterable[PartitionFetchRequest], timeout: int = 30000, min_bytes: int = 1
    ) -> FetchResponse:
        """Fetch messages of some partitions, over a connection of its own: it may take long.

        :param partition_requests: what to fetch
        :param timeout: how long the broker may wait for `min_bytes` (ms)
        :param min_bytes: how much is worth an answer (bytes)
        :return: `.topics[name][partition id]` has max_offset, messages and err
        :raises InvalidMessageError: a message is corrupt
        """
        wanted = list(partition_requests)
        request = FetchRequest(wanted, timeout=timeout, min_bytes=min_bytes)
        response = self._ask(request, messages.FetchRequest, FetchResponse, "documented fetch", timeout)
        self._check_partitions([(one.topic_name, one.partition_id) for one in wanted], response.topics, "Fetch")
        return response

    def produce_messages(self, produce_request: ProduceRequest) -> ProduceResponse | None:
        """Produce messages to some partitions.

        :param produce_request: the messages
        :return: `.topics[name][partition id]` has err and offset; None with required_acks=0, which nobody answers
        """
        if produce_request.required_acks:
            response = self._ask(
                produce_request, messages.ProduceRequest, ProduceResponse, "produce", produce_request.timeout
            )
            asked = [(name, id_) for name, partitions in produce_request.msets.items() for id_ in partitions]
            self._check_partitions(asked, response.topics, "Produce")
            return response
        version = self.api_version(messages.ProduceRequest)
        self.send(produce_request.wire(version), "produce", version=version, has_response=False)
        return None

    # -- metadata and offsets by time --------------------------------------------------------------------------------

    def request_metadata(self, topics: Sequence[str | bytes] | None = None) -> MetadataResponse:
        """Ask for brokers, topics and leaders.

        A topic that is named and unknown is created where the brokers' auto.create.topics.enable allows it.

        :param topics: names; None asks for all
        :return: `.brokers[id]` and `.topics[name]`
        """
        return self._ask(MetadataRequest(topics), messages.MetadataRequest, MetadataResponse)

    def request_offset_limits(self, partition_requests: Iterable[PartitionOffsetRequest]) -> ListOffsetResponse:
        """Ask for offsets by time.

        Brokers since 0.10.1 answer the first offset whose message is not older than the time, or none; older ones up
        to `max_offsets` starts of log segments that were written before it.

        :param partition_requests: partitions and times
        :return: `.topics[name][partition id]` has offset (a list) and err
        """
        wanted = list(partition_requests)
        response = self._ask(ListOffsetRequest(wanted), messages.ListOffsetsRequest, ListOffsetResponse)
        self._check_partitions([(one.topic_name, one.partition_id) for one in wanted], response.topics, "ListOffsets")
        return response

    # -- offsets of groups -------------------------------------------------------------------------------------------

    def commit_consumer_group_offsets(
        self,
        consumer_group: str | bytes,
        consumer_group_generation_id: int,
        consumer_id: str | bytes,
        preqs: Iterable[PartitionOffsetCommitRequest],
    ) -> OffsetCommitResponse:
        """Commit a group's offsets; this broker must be its coordinator.

        :param consumer_group: name of the group
        :param consumer_group_generation_id: of the membership; -1 for none
        :param consumer_id: id of the member; empty for none
        :param preqs: what to commit
        :return: `.topics[name][partition id]` has err
        """
        wanted = list(preqs)
        request = OffsetCommitRequest(consumer_group, consumer_group_generation_id, consumer_id, wanted)
        response = self._ask(request, messages.OffsetCommitRequest, OffsetCommitResponse, "offsets")
        self._check_partitions([(one.topic_name, one.partition_id) for one in wanted], response.topics, "OffsetCommit")
        return response

    def fetch_consumer_group_offsets(
        self, consumer_group: str | bytes, preqs: Iterable[PartitionOffsetFetchRequest]
    ) -> OffsetFetchResponse:
        """Ask for a group's committed offsets; this broker must be its coordinator.

        :param consumer_group: name of the group
        :param preqs: partitions to ask for
        :return: `.topics[name][partition id]` has offset, metadata and err
        """
        wanted = list(preqs)
        request = OffsetFetchRequest(consumer_group, wanted)
        response = self._ask(request, messages.OffsetFetchRequest, OffsetFetchResponse, "offsets")
        if response.err:
            # Of a group in error brokers name no partitions, and the documents know errors of partitions only.
            for asked in wanted:
                failed = OffsetFetchPartitionResponse(-1, "", response.err)
                response.topics.setdefault(get_string(asked.topic_name), {}).setdefault(asked.partition_id, failed)
        self._check_partitions([(one.topic_name, one.partition_id) for one in wanted], response.topics, "OffsetFetch")
        return response

    # -- groups, topics and versions -----------------------------------------------------------------------------------

    def list_groups(self) -> ListGroupsResponse:
        """Ask for the groups that this broker coordinates (since Kafka 0.9).

        :return: `.groups[group id]` has group_id and protocol_type
        """
        return self._ask(ListGroupsRequest(), messages.ListGroupsRequest, ListGroupsResponse)

    def describe_groups(self, group_ids: Iterable[str | bytes]) -> DescribeGroupsResponse:
        """Ask for state and members of groups (since Kafka 0.9); this broker must be their coordinator.

        :param group_ids: names of the groups
        :return: `.groups[group id]` has error_code, state, protocol_type, protocol and members
        """
        request = DescribeGroupsRequest(group_ids)
        response = self._ask(request, messages.DescribeGroupsRequest, DescribeGroupsResponse)
        self._check_names("group", request.group_ids, response.groups, "DescribeGroups")
        return response

    def create_topics(self, topic_reqs: Iterable[CreateTopicRequest], timeout: int = 0) -> CreateTopicsResponse:
        """Make topics (since Kafka 0.10.1); this broker must be the cluster's `controller_broker`.

        :param topic_reqs: the topics
        :param timeout: how long to wait until they are there (ms); 0 or less does not insist on it
        :raises ProtocolClientError: one of them was not made, and why
        """
        request = CreateTopicsRequest(topic_reqs, timeout if timeout > 0 else AT_ONCE_MS)
        try:
            response = self._ask(
                request, messages.CreateTopicsRequest, CreateTopicsResponse, "topics", extra_ms=request.timeout
            )
            names = [get_string(asked.topic_name) for asked in request.topic_requests]
            self._check_names("topic", names, response.topic_names, "CreateTopics")
            return response
        except RequestTimedOut:
            if timeout > 0:
                raise
            return CreateTopicsResponse.of(messages.CreateTopicsResponse())

    def delete_topics(self, topics: Iterable[str | bytes], timeout: int = 0) -> DeleteTopicsResponse:
        """Delete topics (since Kafka 0.10.1); this broker must be the cluster's `controller_broker`.

        :param topics: their names
        :param timeout: how long to wait until they are gone (ms); 0 or less does not insist on it
        :raises ProtocolClientError: one of them was not deleted, and why
        """
        request = DeleteTopicsRequest(topics, timeout if timeout > 0 else AT_ONCE_MS)
        try:
            response = self._ask(
                request, messages.DeleteTopicsRequest, DeleteTopicsResponse, "topics", extra_ms=request.timeout
            )
            self._check_names("topic", request.topics, response.topic_names, "DeleteTopics")
            return response
        except RequestTimedOut:
            if timeout > 0:
                raise
            return DeleteTopicsResponse.of(messages.DeleteTopicsResponse())

    def fetch_api_versions(self) -> ApiVersionsResponse:
        """Ask which versions of which APIs this broker takes; of one that does not say (before 0.10), tell what is known.

        :return: `.api_versions[API key]` has key, min and max
        """
        ranges = self.api_ranges()
        if ApiVersionsRequest.API_KEY in ranges:
            return self._ask(ApiVersionsRequest(), messages.ApiVersionsRequest, ApiVersionsResponse)
        keys = [
            messages.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in ranges.items()
        ]
        return ApiVersionsResponse.of(messages.ApiVersionsResponse(api_keys=keys))
