"""`Broker`: one Kafka server, with the requests that the reference documents."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.compat import messages
from pykafka.exceptions import IncompleteResponseError, MemberIdRequired, RequestTimedOut, SocketDisconnectedError
from pykafka.network.channel import group_channel
from pykafka.network.node import CLIENT_ID, Node
from pykafka.protocol import wire
from pykafka.utils import get_string, old_attributes, old_names
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from pykafka.compat.messages.groups import MembershipProtocol
    from pykafka.handlers import Handler
    from pykafka.network.connection import BrokerConnection
    from pykafka.network.requests import RequestHandler
    from pykafka.protocol import schema
    from pykafka.security import SslConfigLike

__all__ = ["CLIENT_ID", "Broker"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

R = TypeVar("R")
D = TypeVar("D", bound="messages.Response[Any]")
C = TypeVar("C", "messages.CreateTopicsResponse", "messages.DeleteTopicsResponse")

#: What "return at once" (timeout=0) becomes for topics (ms): KRaft controllers take 0 for a deadline that has passed, and
#: do nothing.
AT_ONCE_MS = 5000


@old_attributes(
    """
    _connection _offsets_channel_connection _offsets_channel_req_handler _req_handler _source_host _source_port
    _ssl_config
    """
)
class Broker(Node):
    """A Kafka server, with the documented requests: each one call and one answer. Constructor parameters: see `Node`.

    Each request goes out in the highest version that broker and client have, and comes back in the documented shape. What a
    broker answers for a partition is handed over as it is, error codes included: retrying is left to the caller. All
    raise `SocketDisconnectedError` where the broker cannot be reached, `ResponseTimeoutError` where it does not answer
    in time, `IncompleteResponseError` where its answer leaves out what it was asked for, and `UnsupportedVersion` where
    it lacks the API.

    Each connection id of a group's member has a connection of its own, since a coordinator lets a JoinGroup wait for the
    other members, and with it whatever was sent behind it: a member takes one id for joining and another for heartbeats.
    Error codes of groups come back as `.error_code`, for the caller to judge.
    """

    @classmethod
    def from_metadata(
        cls,
        metadata: Any,
        handler: Handler,
        socket_timeout_ms: int,
        offsets_channel_socket_timeout_ms: int,
        buffer_size: int = 64 * 1024,
        source_host: str = "",
        source_port: int = 0,
        ssl_config: SslConfigLike | None = None,
        broker_version: str = "0.9.0",
        api_versions: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Broker:
        """Make a broker from what cluster metadata says of it (`id`, `host`, `port`); the rest as in the constructor."""
        return cls(
            metadata.id,
            metadata.host,
            metadata.port,
            handler,
            socket_timeout_ms,
            offsets_channel_socket_timeout_ms,
            buffer_size,
            source_host,
            source_port,
            ssl_config,
            broker_version,
            api_versions,
        )

    @property
    def host(self) -> str:
        """The host that the client connects to, a `Name` as PyKafka 2 had bytes here."""
        return Name.of(self._host)

    @property
    def _connection_class(self) -> type[BrokerConnection]:
        # PyKafka 2 had the class in this module, and programs put one of their own there.
        found: type[BrokerConnection] = globals().get("BrokerConnection", super()._connection_class)
        return found

    @property
    def connected(self) -> bool:
        """Whether the main connection is up."""
        return self._channels.is_up("main")

    @property
    def offsets_channel_connected(self) -> bool:
        """Whether the connection for offset commits and fetches is up."""
        return self._channels.is_up("offsets")

    @property
    def handler(self) -> RequestHandler | None:
        """The request handler of the main connection; None before the first connect."""
        channel = self._channels.find("main")
        return channel.requests if channel is not None else None

    @property
    def offsets_channel_handler(self) -> RequestHandler | None:
        """The request handler of the offsets connection; None before the first use."""
        channel = self._channels.find("offsets")
        return channel.requests if channel is not None else None

    def connect(self, attempts: int = 3) -> None:
        """Open the main connection now, instead of when it is first needed.

        :param attempts: how often to try
        :raises SocketDisconnectedError: no attempt succeeded
        """
        self._connect_channel("main", attempts)

    def connect_offsets_channel(self, attempts: int = 3) -> None:
        """Open the connection for offset commits and fetches now; as `connect`."""
        self._connect_channel("offsets", attempts)

    def _connect_channel(self, name: str, attempts: int) -> None:
        for attempt in range(1, attempts + 1):
            try:
                self.channel(name).open()
                return
            except SocketDisconnectedError:
                if attempt == attempts:
                    raise
                self._handler.sleep(0.1 * attempt)

    def _get_unique_req_handler(self, connection_id: Any) -> RequestHandler:
        """Return the request handler of a connection that only users of `connection_id` share."""
        return self.channel(group_channel(connection_id)).open()

    # -- the documented requests -----------------------------------------------------------------------------------

    def _ask(
        self,
        request: messages.Request,
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
        self, partition_requests: Iterable[messages.PartitionFetchRequest], timeout: int = 30000, min_bytes: int = 1
    ) -> messages.FetchResponse:
        """Fetch messages of some partitions, over a connection of its own: it may take long.

        :param partition_requests: what to fetch
        :param timeout: how long the broker may wait for `min_bytes` (ms)
        :param min_bytes: how much is worth an answer (bytes)
        :return: `.topics[name][partition id]` has max_offset, messages and err
        :raises InvalidMessageError: a message is corrupt
        """
        wanted = list(partition_requests)
        request = messages.FetchRequest(wanted, timeout=timeout, min_bytes=min_bytes)
        response = self._ask(request, wire.FetchRequest, messages.FetchResponse, "documented fetch", timeout)
        self._check_partitions([(one.topic_name, one.partition_id) for one in wanted], response.topics, "Fetch")
        return response

    def produce_messages(self, produce_request: messages.ProduceRequest) -> messages.ProduceResponse | None:
        """Produce messages to some partitions.

        :param produce_request: the messages
        :return: `.topics[name][partition id]` has err and offset; None with required_acks=0, which nobody answers
        """
        if produce_request.required_acks:
            response = self._ask(
                produce_request, wire.ProduceRequest, messages.ProduceResponse, "produce", produce_request.timeout
            )
            asked = [(name, id_) for name, partitions in produce_request.msets.items() for id_ in partitions]
            self._check_partitions(asked, response.topics, "Produce")
            return response
        version = self.api_version(wire.ProduceRequest)
        self.send(produce_request.wire(version), "produce", version=version, has_response=False)
        return None

    # -- metadata and offsets by time --------------------------------------------------------------------------------

    def request_metadata(self, topics: Sequence[str | bytes] | None = None) -> messages.MetadataResponse:
        """Ask for brokers, topics and leaders.

        A topic that is named and unknown is created where the brokers' auto.create.topics.enable allows it.

        :param topics: names; None asks for all
        :return: `.brokers[id]` and `.topics[name]`
        """
        return self._ask(messages.MetadataRequest(topics), wire.MetadataRequest, messages.MetadataResponse)

    def request_offset_limits(
        self, partition_requests: Iterable[messages.PartitionOffsetRequest]
    ) -> messages.ListOffsetResponse:
        """Ask for offsets by time.

        Brokers since 0.10.1 answer the first offset whose message is not older than the time, or none; older ones up
        to `max_offsets` starts of log segments that were written before it.

        :param partition_requests: partitions and times
        :return: `.topics[name][partition id]` has offset (a list) and err
        """
        wanted = list(partition_requests)
        response = self._ask(messages.ListOffsetRequest(wanted), wire.ListOffsetsRequest, messages.ListOffsetResponse)
        self._check_partitions([(one.topic_name, one.partition_id) for one in wanted], response.topics, "ListOffsets")
        return response

    # -- offsets of groups -------------------------------------------------------------------------------------------

    def commit_consumer_group_offsets(
        self,
        consumer_group: str | bytes,
        consumer_group_generation_id: int,
        consumer_id: str | bytes,
        preqs: Iterable[messages.PartitionOffsetCommitRequest],
    ) -> messages.OffsetCommitResponse:
        """Commit a group's offsets; this broker must be its coordinator.

        :param consumer_group: name of the group
        :param consumer_group_generation_id: of the membership; -1 for none
        :param consumer_id: id of the member; empty for none
        :param preqs: what to commit
        :return: `.topics[name][partition id]` has err
        """
        wanted = list(preqs)
        request = messages.OffsetCommitRequest(consumer_group, consumer_group_generation_id, consumer_id, wanted)
        response = self._ask(request, wire.OffsetCommitRequest, messages.OffsetCommitResponse, "offsets")
        self._check_partitions([(one.topic_name, one.partition_id) for one in wanted], response.topics, "OffsetCommit")
        return response

    def fetch_consumer_group_offsets(
        self, consumer_group: str | bytes, preqs: Iterable[messages.PartitionOffsetFetchRequest]
    ) -> messages.OffsetFetchResponse:
        """Ask for a group's committed offsets; this broker must be its coordinator.

        :param consumer_group: name of the group
        :param preqs: partitions to ask for
        :return: `.topics[name][partition id]` has offset, metadata and err
        """
        wanted = list(preqs)
        request = messages.OffsetFetchRequest(consumer_group, wanted)
        response = self._ask(request, wire.OffsetFetchRequest, messages.OffsetFetchResponse, "offsets")
        if response.err:
            # Of a group in error brokers name no partitions, and the documents know errors of partitions only.
            for asked in wanted:
                failed = messages.OffsetFetchPartitionResponse(-1, "", response.err)
                response.topics.setdefault(get_string(asked.topic_name), {}).setdefault(asked.partition_id, failed)
        self._check_partitions([(one.topic_name, one.partition_id) for one in wanted], response.topics, "OffsetFetch")
        return response

    # -- groups, topics and versions -----------------------------------------------------------------------------------

    def list_groups(self) -> messages.ListGroupsResponse:
        """Ask for the groups that this broker coordinates (since Kafka 0.9).

        :return: `.groups[group id]` has group_id and protocol_type
        """
        return self._ask(messages.ListGroupsRequest(), wire.ListGroupsRequest, messages.ListGroupsResponse)

    def describe_groups(self, group_ids: Iterable[str | bytes]) -> messages.DescribeGroupsResponse:
        """Ask for state and members of groups (since Kafka 0.9); this broker must be their coordinator.

        :param group_ids: names of the groups
        :return: `.groups[group id]` has error_code, state, protocol_type, protocol and members
        """
        request = messages.DescribeGroupsRequest(group_ids)
        response = self._ask(request, wire.DescribeGroupsRequest, messages.DescribeGroupsResponse)
        self._check_names("group", map(get_string, request.group_ids), response.groups, "DescribeGroups")
        return response

    def create_topics(
        self, topic_reqs: Iterable[messages.CreateTopicRequest], timeout: int = 0
    ) -> messages.CreateTopicsResponse:
        """Make topics (since Kafka 0.10.1); this broker must be the cluster's `controller_broker`.

        :param topic_reqs: the topics
        :param timeout: how long to wait until they are there (ms); 0 or less does not insist on it
        :raises ProtocolClientError: one of them was not made, and why
        """
        request = messages.CreateTopicsRequest(topic_reqs, timeout if timeout > 0 else AT_ONCE_MS)
        names = [asked.topic_name for asked in request.topic_requests]
        return self._ask_for_topics(request, wire.CreateTopicsRequest, messages.CreateTopicsResponse, names, timeout)

    def delete_topics(self, topics: Iterable[str | bytes], timeout: int = 0) -> messages.DeleteTopicsResponse:
        """Delete topics (since Kafka 0.10.1); this broker must be the cluster's `controller_broker`.

        :param topics: their names
        :param timeout: how long to wait until they are gone (ms); 0 or less does not insist on it
        :raises ProtocolClientError: one of them was not deleted, and why
        """
        request = messages.DeleteTopicsRequest(topics, timeout if timeout > 0 else AT_ONCE_MS)
        names = request.topics
        return self._ask_for_topics(request, wire.DeleteTopicsRequest, messages.DeleteTopicsResponse, names, timeout)

    def _ask_for_topics(
        self, request: Any, wire_cls: type[Any], answer: type[C], names: Iterable[str | bytes], timeout: int
    ) -> C:
        try:
            response = self._ask(request, wire_cls, answer, "topics", request.timeout)
            self._check_names(
                "topic", map(get_string, names), response.topic_names, wire_cls.__name__[: -len("Request")]
            )
            return response
        except RequestTimedOut:
            if timeout > 0:
                raise
            return answer.of(answer.WIRE())

    def fetch_api_versions(self) -> messages.ApiVersionsResponse:
        """Ask which versions of which APIs this broker takes; of one that does not say (before 0.10), tell what is known.

        :return: `.api_versions[API key]` has key, min and max
        """
        ranges = self.api_ranges()
        if messages.ApiVersionsRequest.API_KEY in ranges:
            return self._ask(messages.ApiVersionsRequest(), wire.ApiVersionsRequest, messages.ApiVersionsResponse)
        keys = [
            wire.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in ranges.items()
        ]
        return messages.ApiVersionsResponse.of(wire.ApiVersionsResponse(api_keys=keys))

    # -- members of groups -----------------------------------------------------------------------------------------

    def join(self, request: wire.JoinGroupRequest, channel: str) -> wire.JoinGroupResponse:
        """Join a group by a wire message, again with the member id that the coordinator gives where it insists on one.

        :param request: as a new member has it, or an old one
        :param channel: whose connection to use
        """
        version = self.api_version(wire.JoinGroupRequest)
        patience = request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms
        timeout_ms = self._socket_timeout_ms + patience
        response = self.ask_once(request, channel, timeout_ms, version)
        if response.error_code == MemberIdRequired.ERROR_CODE:
            request.member_id = response.member_id
            response = self.ask_once(request, channel, timeout_ms, version)
        return response

    def ask_once(self, request: schema.Request[R], channel: str, timeout_ms: int, version: int) -> R:
        """Send a wire message and return the answer; unlike `call`, never over a second connection.

        A member that stops ends the connection on which it waits for the others: that must not make it join again.
        """
        answer: R = self.send(request, channel, timeout_ms=timeout_ms, version=version).get_when_due()
        return answer

    def join_group(
        self,
        connection_id: Any,
        consumer_group: str | bytes,
        member_id: str | bytes,
        topic_name: str | bytes | None = None,
        membership_protocol: MembershipProtocol | None = None,
        session_timeout_ms: int = 30000,
        rebalance_timeout_ms: int | None = None,
    ) -> messages.JoinGroupResponse:
        """Join a group, or take part in its rebalance; this broker must be its coordinator.

        :param connection_id: whose connection to use
        :param consumer_group: name of the group
        :param member_id: empty for a new member
        :param topic_name: what the member wants; None leaves to the protocol's metadata what it says
        :param membership_protocol: how members divide the partitions; None for `RangeProtocol`
        :param session_timeout_ms: a member that is not heard of for this long is out
        :param rebalance_timeout_ms: how long members may take to join again; None: as long as that
        """
        if membership_protocol is None:
            from pykafka.compat.membership_protocol import RangeProtocol

            membership_protocol = RangeProtocol
        request = messages.JoinGroupRequest(
            consumer_group, member_id, topic_name, membership_protocol, session_timeout_ms, rebalance_timeout_ms
        )
        sent = request.wire(self.api_version(wire.JoinGroupRequest))
        return messages.JoinGroupResponse.of(self.join(sent, group_channel(connection_id)))

    def sync_group(
        self,
        connection_id: Any,
        consumer_group: str | bytes,
        generation_id: int,
        member_id: str | bytes,
        group_assignment: Iterable[tuple[str | bytes, messages.MemberAssignment]] = (),
    ) -> messages.SyncGroupResponse:
        """Ask for this member's share; the leader brings those of all.

        :param connection_id: whose connection to use
        :param consumer_group: name of the group
        :param generation_id: as the answer to joining told it
        :param member_id: likewise
        :param group_assignment: (member id, MemberAssignment) pairs; empty but for the leader
        """
        request = messages.SyncGroupRequest(consumer_group, generation_id, member_id, group_assignment)
        # later versions want to be told the protocol again, which the documented signature does not know
        version = self.api_version(wire.SyncGroupRequest, ceiling=4)
        timeout_ms = 2 * self._socket_timeout_ms
        return messages.SyncGroupResponse.of(
            self.ask_once(request.wire(version), group_channel(connection_id), timeout_ms, version)
        )

    def heartbeat(
        self, connection_id: Any, consumer_group: str | bytes, generation_id: int, member_id: str | bytes
    ) -> messages.HeartbeatResponse:
        """Keep a membership alive; parameters: see `sync_group`."""
        request = messages.HeartbeatRequest(consumer_group, generation_id, member_id)
        return self._ask(request, wire.HeartbeatRequest, messages.HeartbeatResponse, group_channel(connection_id))

    def leave_group(
        self, connection_id: Any, consumer_group: str | bytes, member_id: str | bytes
    ) -> messages.LeaveGroupResponse:
        """Leave a group, so that the others need not wait until the session times out; parameters: see `sync_group`."""
        request = messages.LeaveGroupRequest(consumer_group, member_id)
        return self._ask(request, wire.LeaveGroupRequest, messages.LeaveGroupResponse, group_channel(connection_id))
