"""Coordinators of groups and transactions, membership of groups, and descriptions of groups."""

from __future__ import annotations

from typing import Self

from pykafka.protocol.fields import array, binary, boolean, int8, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct

INT32_MIN = -(2**31)


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+", early="2+"):
    """Coordinators; from version 4 on, one per key."""

    class Coordinator(Struct):
        """The coordinator of one key."""

        key: str = string("4+")
        node_id: int = int32("4+")
        host: str = string("4+")
        port: int = int32("4+")
        error_code: int = int16("4+")
        error_message: str | None = string("4+", nullable="4+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


class FindCoordinatorRequest(Request[FindCoordinatorResponse], api_key=10, versions="0-6", flexible="3+"):
    """A request for coordinators of groups (key_type 0) or transactions (1); of several from version 4 on (KIP-699)."""

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")

    def prepared(self, version: int) -> Self:
        """Return the same request in the form of the version: one `key` before 4, `coordinator_keys` from 4 on."""
        if version >= 4 and self.key and not self.coordinator_keys:
            return type(self)(key_type=self.key_type, coordinator_keys=[self.key])
        if version < 4 and not self.key and len(self.coordinator_keys) == 1:
            return type(self)(key_type=self.key_type, key=self.coordinator_keys[0])
        return self


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+", early="3+"):
    """A member's generation; for the leader also the other members."""

    class Member(Struct):
        member_id: str = string("0+")
        group_instance_id: str | None = string("5+", None, nullable="5+", ignorable=True)
        metadata: bytes = binary("0+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", -1)
    protocol_type: str | None = string("7+", None, nullable="7+", ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[Member] = array(Member, "0+")


class JoinGroupRequest(Request[JoinGroupResponse], api_key=11, versions="0-9", flexible="6+"):
    """A request to join a group, or to take part in its rebalance. Static members come with version 5 (KIP-345)."""

    class Protocol(Struct):
        """An assignment protocol, and the member's metadata for it."""

        name: str = string("0+")
        metadata: bytes = binary("0+")

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", -1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", None, nullable="5+")
    protocol_type: str = string("0+")
    protocols: list[Protocol] = array(Protocol, "0+")
    reason: str | None = string("8+", None, nullable="8+", ignorable=True)


class SyncGroupResponse(Response, api_key=14, versions="0-5", flexible="4+", early="2+"):
    """A member's assignment."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", None, nullable="5+", ignorable=True)
    protocol_name: str | None = string("5+", None, nullable="5+", ignorable=True)
    assignment: bytes = binary("0+")


class SyncGroupRequest(Request[SyncGroupResponse], api_key=14, versions="0-5", flexible="4+"):
    """A request for this member's assignment; the leader's request has the assignments of all."""

    class Assignment(Struct):
        """The assignment of one member."""

        member_id: str = string("0+")
        assignment: bytes = binary("0+")

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", None, nullable="3+")
    protocol_type: str | None = string("5+", None, nullable="5+", ignorable=True)
    protocol_name: str | None = string("5+", None, nullable="5+", ignorable=True)
    assignments: list[Assignment] = array(Assignment, "0+")


class HeartbeatResponse(Response, api_key=12, versions="0-4", flexible="4+", early="2+"):
    """Whether the member still belongs to the group, or must rejoin."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")


class HeartbeatRequest(Request[HeartbeatResponse], api_key=12, versions="0-4", flexible="4+"):
    """A request that keeps a membership alive."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", None, nullable="3+")


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+", early="2+"):
    """The members that have left."""

    class Member(Struct):
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+")
        error_code: int = int16("3+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[Member] = array(Member, "3+")


class LeaveGroupRequest(Request[LeaveGroupResponse], api_key=13, versions="0-5", flexible="4+"):
    """A request to leave a group; for several members from version 3 on (KIP-345)."""

    class Member(Struct):
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", None, nullable="3+")
        reason: str | None = string("5+", None, nullable="5+", ignorable=True)

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[Member] = array(Member, "3+")


class DescribeGroupsResponse(Response, api_key=15, versions="0-6", flexible="5+", early="2+"):
    """State and members of groups."""

    class Group(Struct):
        class Member(Struct):
            member_id: str = string("0+")
            group_instance_id: str | None = string("4+", None, nullable="4+", ignorable=True)
            client_id: str = string("0+")
            client_host: str = string("0+")
            member_metadata: bytes = binary("0+")
            member_assignment: bytes = binary("0+")

        error_code: int = int16("0+")
        error_message: str | None = string("6+", None, nullable="6+")
        group_id: str = string("0+")
        group_state: str = string("0+")
        protocol_type: str = string("0+")
        protocol_data: str = string("0+")
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("3+", INT32_MIN)

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[Group] = array(Group, "0+")


class DescribeGroupsRequest(Request[DescribeGroupsResponse], api_key=15, versions="0-6", flexible="5+"):
    """A request for state and members of groups."""

    groups: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("3+")


class ListGroupsResponse(Response, api_key=16, versions="0-5", flexible="3+", early="2+"):
    """The groups that a broker coordinates."""

    class Group(Struct):
        group_id: str = string("0+")
        protocol_type: str = string("0+")
        group_state: str = string("4+", ignorable=True)
        group_type: str = string("5+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[Group] = array(Group, "0+")


class ListGroupsRequest(Request[ListGroupsResponse], api_key=16, versions="0-5", flexible="3+"):
    """A request for the groups that a broker coordinates, by state (KIP-518) or type (KIP-848)."""

    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


class DeleteGroupsResponse(Response, api_key=42, versions="0-3", flexible="2+", early="1+"):
    """The groups that were deleted; version 3 says why one was not (KIP-1331)."""

    class Group(Struct):
        group_id: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("3+", None, nullable="3+", ignorable=True)

    throttle_time_ms: int = int32("0+")
    results: list[Group] = array(Group, "0+")


class DeleteGroupsRequest(Request[DeleteGroupsResponse], api_key=42, versions="0-3", flexible="2+"):
    """A request that deletes groups without members (KIP-229)."""

    groups_names: list[str] = array("string", "0+")
