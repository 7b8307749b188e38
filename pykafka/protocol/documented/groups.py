"""Membership of groups that the brokers keep: the documented classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, Protocol, Self

from pykafka.exceptions import CorruptResponseError, UnicodeException
from pykafka.protocol import wire
from pykafka.protocol.documented.base import Request, Response
from pykafka.utils import get_bytes, get_string
from pykafka.utils.struct_helpers import unpack_from


class ConsumerGroupProtocolMetadata:
    """Say what a member wants: the metadata that consumers bring when they join a group.

    :param version: of this format; what later ones add is left out
    :param topic_names: subscribed to
    :param user_data: for whoever assigns; the stock protocols do not look at it
    """

    def __init__(
        self,
        version: int = 0,
        topic_names: Iterable[str | bytes] | None = None,
        user_data: bytes | None = b"testuserdata",
    ) -> None:
        self.version = version
        self.topic_names: list[str | bytes] = list(topic_names or [b"dummytopic"])
        self.user_data = user_data

    def __len__(self) -> int:
        """Return the length of the bytes."""
        return len(self.get_bytes())

    def get_bytes(self) -> bytearray:
        """Return it as it goes over the wire."""
        output = bytearray(self.version.to_bytes(2, "big", signed=True))
        output += len(self.topic_names).to_bytes(4, "big")
        for name in self.topic_names:
            output += _short_string(name)
        output += _long_bytes(self.user_data)
        return output

    @classmethod
    def from_bytestring(cls, buff: bytes | bytearray | memoryview) -> Self:
        """Read what a member has sent, whatever its version.

        :raises CorruptResponseError: it is no such thing
        """
        if not buff:
            return cls()
        with _reading(buff, "a member's metadata"):
            version, names, user_data = unpack_from("h [S] Y", bytes(buff))
            found = cls(version, user_data=user_data)
            found.topic_names = [get_string(name) for name in names]  # perhaps none
        return found


class MemberAssignment:
    """Say what a member gets.

    :param partition_assignment: (topic name, partition ids) pairs
    :param version: of this format
    """

    def __init__(self, partition_assignment: Iterable[tuple[str | bytes, Sequence[int]]], version: int = 1) -> None:
        self.version = version
        self.partition_assignment = [(get_string(name), list(ids)) for name, ids in partition_assignment]

    def __len__(self) -> int:
        """Return the length of the bytes."""
        return len(self.get_bytes())

    def get_bytes(self) -> bytearray:
        """Return it as it goes over the wire."""
        output = bytearray(self.version.to_bytes(2, "big", signed=True))
        output += len(self.partition_assignment).to_bytes(4, "big")
        for name, ids in self.partition_assignment:
            output += _short_string(name)
            output += len(ids).to_bytes(4, "big")
            for id_ in ids:
                output += id_.to_bytes(4, "big", signed=True)
        output += _long_bytes(b"")
        return output

    @classmethod
    def from_bytestring(cls, buff: bytes | bytearray | memoryview) -> Self:
        """Read what a leader has assigned; no bytes at all assign nothing.

        :raises CorruptResponseError: it is no such thing
        """
        if not buff:
            return cls([])
        with _reading(buff, "a member's assignment"):
            version, topics = unpack_from("h [S [i]]", bytes(buff))
            return cls(topics, version)


def _short_string(text: str | bytes) -> bytes:
    raw = get_bytes(text)
    return len(raw).to_bytes(2, "big") + raw


def _long_bytes(content: bytes | None) -> bytes:
    if content is None:
        return (-1).to_bytes(4, "big", signed=True)
    return len(content).to_bytes(4, "big") + content


@contextmanager
def _reading(buff: bytes | bytearray | memoryview, what: str) -> Iterator[None]:
    try:
        yield
    except (CorruptResponseError, TypeError, UnicodeException) as error:  # cut short; a name that is null, or no UTF-8
        raise CorruptResponseError(f"{what} cannot be read: {bytes(buff)[:40]!r}; who wrote it?") from error


class MembershipProtocol(Protocol):
    """What of a membership protocol goes over the wire; `pykafka.membershipprotocol` has real ones."""

    @property
    def protocol_type(self) -> str | bytes: ...
    @property
    def protocol_name(self) -> str | bytes: ...
    @property
    def metadata(self) -> Any: ...
    @property
    def decide_partitions(self) -> Callable[..., Any]: ...


def protocol_metadata(protocol: MembershipProtocol, topic_name: str | bytes | None) -> bytes:
    """Return what a member that wants one topic says under a membership protocol; the protocol stays as it is.

    :param topic_name: None for what the protocol's metadata names
    """
    metadata = protocol.metadata
    if isinstance(metadata, (bytes, bytearray)):
        return bytes(metadata)
    if topic_name is not None and hasattr(metadata, "topic_names"):
        metadata = copy(metadata)
        metadata.topic_names = [topic_name]
    return bytes(metadata.get_bytes())


class JoinGroupRequest(Request):
    """Join a group, or take part in its rebalance.

    :param group_id: name of the group
    :param member_id: empty for a new member
    :param topic_name: what the member wants; None leaves to the protocol's metadata what it says
    :param membership_protocol: how partitions are shared out
    :param session_timeout: a member that is not heard of for this long is out (ms)
    :param rebalance_timeout: how long members may take to join again (ms; since Kafka 0.10.1); None: as long as that
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
        self.group_id = get_string(group_id)
        self.session_timeout = session_timeout
        self.rebalance_timeout = session_timeout if rebalance_timeout is None else rebalance_timeout
        self.member_id = get_string(member_id)
        self.protocol_type = get_string(membership_protocol.protocol_type)
        metadata = protocol_metadata(membership_protocol, topic_name)
        self.group_protocols = [(get_string(membership_protocol.protocol_name), metadata)]

    def wire(self, version: int) -> wire.JoinGroupRequest:
        """Return this as a wire message."""
        return wire.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout,
            rebalance_timeout_ms=self.rebalance_timeout,
            member_id=self.member_id,
            protocol_type=self.protocol_type,
            protocols=[
                wire.JoinGroupRequest.Protocol(name=name, metadata=metadata) for name, metadata in self.group_protocols
            ],
        )


class JoinGroupResponse(Response[wire.JoinGroupResponse]):
    """Tell a member its generation, and the leader who is there: `.members` is empty for all others.

    :param buff: the response's body, version 0
    """

    WIRE = wire.JoinGroupResponse

    def _take(self, message: wire.JoinGroupResponse) -> None:
        self.error_code = message.error_code
        self.generation_id = message.generation_id
        self.group_protocol = message.protocol_name or ""
        self.leader_id = message.leader
        self.member_id = message.member_id
        self.members = {
            member.member_id: ConsumerGroupProtocolMetadata.from_bytestring(member.metadata)
            for member in message.members
        }


class SyncGroupRequest(Request):
    """Ask for this member's share; the leader brings those of all.

    :param group_id: name of the group
    :param generation_id: as the answer to joining told it
    :param member_id: likewise
    :param group_assignment: (member id, MemberAssignment) pairs; empty but for the leader
    """

    API_KEY = 14

    def __init__(
        self,
        group_id: str | bytes,
        generation_id: int,
        member_id: str | bytes,
        group_assignment: Iterable[tuple[str | bytes, MemberAssignment]],
    ) -> None:
        self.group_id = get_string(group_id)
        self.generation_id = generation_id
        self.member_id = get_string(member_id)
        self.group_assignment = [(get_string(member), assignment) for member, assignment in group_assignment]

    def wire(self, version: int) -> wire.SyncGroupRequest:
        """Return this as a wire message."""
        return wire.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            assignments=[
                wire.SyncGroupRequest.Assignment(member_id=member, assignment=bytes(assignment.get_bytes()))
                for member, assignment in self.group_assignment
            ],
        )


class SyncGroupResponse(Response[wire.SyncGroupResponse]):
    """Tell a member its share: `.member_assignment`.

    :param buff: the response's body, version 0
    """

    WIRE = wire.SyncGroupResponse

    def _take(self, message: wire.SyncGroupResponse) -> None:
        self.error_code = message.error_code
        self.member_assignment = MemberAssignment.from_bytestring(message.assignment)


class HeartbeatRequest(Request):
    """Keep a membership alive.

    :param group_id: name of the group
    :param generation_id: of the membership
    :param member_id: of the member
    """

    API_KEY = 12

    def __init__(self, group_id: str | bytes, generation_id: int, member_id: str | bytes) -> None:
        self.group_id = get_string(group_id)
        self.generation_id = generation_id
        self.member_id = get_string(member_id)

    def wire(self, version: int) -> wire.HeartbeatRequest:
        """Return this as a wire message."""
        return wire.HeartbeatRequest(group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id)


class HeartbeatResponse(Response[wire.HeartbeatResponse]):
    """Tell by `.error_code` whether a member still belongs (0), or must join again.

    :param buff: the response's body, version 0
    """

    WIRE = wire.HeartbeatResponse

    def _take(self, message: wire.HeartbeatResponse) -> None:
        self.error_code = message.error_code


class LeaveGroupRequest(Request):
    """Leave a group, so that the others need not wait until the session times out.

    :param group_id: name of the group
    :param member_id: who leaves
    """

    API_KEY = 13

    def __init__(self, group_id: str | bytes, member_id: str | bytes) -> None:
        self.group_id = get_string(group_id)
        self.member_id = get_string(member_id)

    def wire(self, version: int) -> wire.LeaveGroupRequest:
        """Return this as a wire message."""
        sent = wire.LeaveGroupRequest
        if version >= 3:  # several at once, since then
            return sent(group_id=self.group_id, members=[sent.Member(member_id=self.member_id)])
        return sent(group_id=self.group_id, member_id=self.member_id)


class LeaveGroupResponse(Response[wire.LeaveGroupResponse]):
    """Tell by `.error_code` whether a member has left.

    :param buff: the response's body, version 0
    """

    WIRE = wire.LeaveGroupResponse

    def _take(self, message: wire.LeaveGroupResponse) -> None:
        failed = (member.error_code for member in message.members if member.error_code)
        self.error_code = message.error_code or next(failed, 0)
