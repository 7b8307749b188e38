"""Membership of groups, and descriptions of groups."""

from __future__ import annotations

from pykafka.protocol.fields import array, binary, boolean, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct

INT32_MIN = -(2**31)


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


class DeleteGroupsResponse(Response, api_key=42, versions="0-2", flexible="2+", early="1+"):
    """The groups that were deleted."""

    class Group(Struct):
        group_id: str = string("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    results: list[Group] = array(Group, "0+")


class DeleteGroupsRequest(Request[DeleteGroupsResponse], api_key=42, versions="0-2", flexible="2+"):
    """A request that deletes groups without members (KIP-229)."""

    groups_names: list[str] = array("string", "0+")
