"""Membership of groups that the brokers coordinate: the documented classes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from typing import Any, Protocol, Self, cast

from pykafka.compat.messages.base import Request, Response, kept
from pykafka.protocol import wire
from pykafka.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    assignment_bytes,
)
from pykafka.utils import get_string
from pykafka.utils.name import Name


class ConsumerGroupProtocolMetadata(ConsumerProtocolSubscription):
    """The subscription of a member: the metadata that consumers send when they join a group.

    :param version: version of this format: 1 has `owned_partitions`, 2 also `generation_id`, 3 also `rack_id`
    :param topic_names: the topics that the member subscribes to
    :param user_data: data for the assignor; the standard protocols ignore it
    :param owned_partitions: (topic name, partition ids) pairs that the member reads while it joins
    :param generation_id: the generation that assigned them; -1 for none
    :param rack_id: the rack of the member; None for none
    """

    def __init__(
        self,
        version: int = 0,
        topic_names: Iterable[str | bytes] | None = None,
        user_data: bytes | None = b"testuserdata",
        owned_partitions: Iterable[tuple[str, Sequence[int]]] = (),
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        super().__init__(version, (), user_data, owned_partitions, generation_id, rack_id)
        #: As given; text if it was read from bytes.
        self.topic_names = cast("Collection[str]", kept(topic_names or [b"dummytopic"]))

    @classmethod
    def from_bytestring(cls, buff: bytes | bytearray | memoryview) -> Self:
        """Return the metadata that a member has sent, in any version.

        :raises CorruptResponseError: the bytes have another format
        """
        metadata = super().from_bytestring(buff)
        if buff:
            metadata.topic_names = [Name.of(name) for name in metadata.topic_names]
            metadata.owned_partitions = _named(metadata.owned_partitions)
            metadata.rack_id = None if metadata.rack_id is None else Name.of(metadata.rack_id)
        return metadata


class MemberAssignment(ConsumerProtocolAssignment):
    """The partitions assigned to a member.

    :param partition_assignment: (topic name, partition ids) pairs
    :param version: version of this format
    """

    def __init__(self, partition_assignment: Iterable[tuple[str | bytes, Sequence[int]]], version: int = 1) -> None:
        super().__init__((), version)
        #: The pairs as they were given; a list of text and lists of ints if they were read from bytes.
        self.partition_assignment = cast("list[tuple[str, list[int]]]", kept(partition_assignment))

    @classmethod
    def from_bytestring(cls, buff: bytes | bytearray | memoryview) -> Self:
        """Return the assignment that a leader has made; no bytes mean no partitions.

        :raises CorruptResponseError: the bytes have another format
        """
        assignment = super().from_bytestring(buff)
        if buff:
            assignment.partition_assignment = _named(assignment.partition_assignment)
        return assignment


def _named(pairs: Iterable[tuple[str, list[int]]]) -> list[tuple[str, list[int]]]:
    return [(Name.of(name), ids) for name, ids in pairs]


class MembershipProtocol(Protocol):
    """The wire part of a membership protocol; `pykafka.compat.membership_protocol` has the complete ones."""

    @property
    def protocol_type(self) -> str | bytes: ...
    @property
    def protocol_name(self) -> str | bytes: ...
    @property
    def metadata(self) -> Any: ...
    @property
    def decide_partitions(self) -> Callable[..., Any]: ...


def protocol_metadata(protocol: MembershipProtocol, topic_name: str | bytes | None) -> bytes:
    """Return a member's metadata for one topic under a membership protocol, which stays unchanged.

    :param topic_name: the topic to subscribe to; None keeps the topics of the protocol's metadata
    """
    metadata = protocol.metadata
    if isinstance(metadata, (bytes, bytearray)):
        return bytes(metadata)
    if topic_name is not None and hasattr(metadata, "topic_names"):
        metadata = copy(metadata)
        metadata.topic_names = [topic_name]
    return bytes(metadata.get_bytes())


class JoinGroupRequest(Request):
    """A request to join a group, or to take part in its rebalance.

    :param group_id: name of the group
    :param member_id: empty for a new member
    :param topic_name: the topic to subscribe to; None keeps the topics of the protocol's metadata
    :param membership_protocol: how the leader assigns partitions
    :param session_timeout: the coordinator removes a member after so long without a heartbeat (ms)
    :param rebalance_timeout: how long members may take to rejoin (ms; since Kafka 0.10.1); None: the session timeout
    """

    API_KEY = 11

    def __init__(
        self,
        group_id: str | bytes,
        member_id: str | bytes,
        topic_name: str | bytes | None,
        membership_protocol: MembershipProtocol,
        session_timeout: int = 30000,
        rebalance_timeout: int | None = None,
    ) -> None:
        self.protocol = membership_protocol
        self.group_id = group_id
        self.session_timeout = session_timeout
        self.rebalance_timeout = session_timeout if rebalance_timeout is None else rebalance_timeout
        self.member_id = member_id
        self.protocol_type = membership_protocol.protocol_type
        metadata = protocol_metadata(membership_protocol, topic_name)
        self.group_protocols = [(membership_protocol.protocol_name, metadata)]

    def wire(self, version: int) -> wire.JoinGroupRequest:
        """Return this as a wire message."""
        return wire.JoinGroupRequest(
            group_id=get_string(self.group_id),
            session_timeout_ms=self.session_timeout,
            rebalance_timeout_ms=self.rebalance_timeout,
            member_id=get_string(self.member_id),
            protocol_type=get_string(self.protocol_type),
            protocols=[
                wire.JoinGroupRequest.Protocol(name=get_string(name), metadata=metadata)
                for name, metadata in self.group_protocols
            ],
        )


class JoinGroupResponse(Response[wire.JoinGroupResponse]):
    """A member's generation; for the leader also all members (`.members` is empty for the others).

    :param buff: the response's body, version 0
    """

    WIRE = wire.JoinGroupResponse

    def _take(self, message: wire.JoinGroupResponse) -> None:
        self.error_code = message.error_code
        self.generation_id = message.generation_id
        self.group_protocol = Name.of(message.protocol_name or "")
        self.leader_id = Name.of(message.leader)
        self.member_id = Name.of(message.member_id)
        self.members = {
            Name.of(member.member_id): ConsumerGroupProtocolMetadata.from_bytestring(member.metadata)
            for member in message.members
        }


class SyncGroupRequest(Request):
    """A request for this member's assignment; the leader's request has the assignments of all.

    :param group_id: name of the group
    :param generation_id: the generation, from the response to JoinGroup
    :param member_id: the member id, from the same response
    :param group_assignment: (member id, MemberAssignment) pairs; empty except for the leader
    """

    API_KEY = 14

    def __init__(
        self,
        group_id: str | bytes,
        generation_id: int,
        member_id: str | bytes,
        group_assignment: Iterable[tuple[str | bytes, MemberAssignment]],
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_assignment = kept(group_assignment)

    def get_bytes(self, correlation_id: int = 0) -> bytearray:
        """Return the whole request, with the assignments as their `get_bytes()` gives them.

        :param correlation_id: the broker returns it with the response
        """
        message = self._filled(lambda assignment: bytes(assignment.get_bytes()))
        return self._framed(message, 0, correlation_id)

    def wire(self, version: int) -> wire.SyncGroupRequest:
        """Return this as a wire message, with user data in the assignments."""
        message: wire.SyncGroupRequest = self._filled(assignment_bytes)
        return message

    def _filled(self, written: Callable[[Any], bytes]) -> Any:
        return wire.SyncGroupRequest(
            group_id=get_string(self.group_id),
            generation_id=self.generation_id,
            member_id=get_string(self.member_id),
            assignments=[
                wire.SyncGroupRequest.Assignment(member_id=get_string(member), assignment=written(assignment))
                for member, assignment in self.group_assignment
            ],
        )


class SyncGroupResponse(Response[wire.SyncGroupResponse]):
    """A member's assignment: `.member_assignment`.

    :param buff: the response's body, version 0
    """

    WIRE = wire.SyncGroupResponse

    def _take(self, message: wire.SyncGroupResponse) -> None:
        self.error_code = message.error_code
        self.member_assignment = MemberAssignment.from_bytestring(message.assignment)


class HeartbeatRequest(Request):
    """A request that keeps a membership alive.

    :param group_id: name of the group
    :param generation_id: the generation of the membership
    :param member_id: the member's id
    """

    API_KEY = 12

    def __init__(self, group_id: str | bytes, generation_id: int, member_id: str | bytes) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id

    def wire(self, version: int) -> wire.HeartbeatRequest:
        """Return this as a wire message."""
        return wire.HeartbeatRequest(
            group_id=get_string(self.group_id),
            generation_id=self.generation_id,
            member_id=get_string(self.member_id),
        )


class HeartbeatResponse(Response[wire.HeartbeatResponse]):
    """The `.error_code` of a heartbeat: 0, or an error if the member must rejoin.

    :param buff: the response's body, version 0
    """

    WIRE = wire.HeartbeatResponse

    def _take(self, message: wire.HeartbeatResponse) -> None:
        self.error_code = message.error_code


class LeaveGroupRequest(Request):
    """A request to leave a group, so that the others need not wait for the session timeout.

    :param group_id: name of the group
    :param member_id: the member that leaves
    """

    API_KEY = 13

    def __init__(self, group_id: str | bytes, member_id: str | bytes) -> None:
        self.group_id = group_id
        self.member_id = member_id

    def wire(self, version: int) -> wire.LeaveGroupRequest:
        """Return this as a wire message."""
        sent = wire.LeaveGroupRequest
        if version >= 3:  # several at once, since then
            return sent(group_id=get_string(self.group_id), members=[sent.Member(member_id=get_string(self.member_id))])
        return sent(group_id=get_string(self.group_id), member_id=get_string(self.member_id))


class LeaveGroupResponse(Response[wire.LeaveGroupResponse]):
    """The `.error_code` of leaving: 0 if the member has left.

    :param buff: the response's body, version 0
    """

    WIRE = wire.LeaveGroupResponse

    def _take(self, message: wire.LeaveGroupResponse) -> None:
        failed = (member.error_code for member in message.members if member.error_code)
        self.error_code = message.error_code or next(failed, 0)
