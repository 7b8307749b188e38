"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup; and what administrators ask of groups, whatever their protocol."""

from __future__ import annotations

from typing import TypeVar

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.exceptions import (
    GroupAuthorizationFailed,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    ProtocolClientError,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.testing.apis.coordinators import check_group
from pykafka.testing.authorization import may, operations, require
from pykafka.testing.call import Call, HungUpError, api, refusing
from pykafka.testing.groups.classic import ClassicGroup, GroupState
from pykafka.testing.groups.pending_answer import Client, PendingAnswer

#: How long an answer is waited for at most (ms): rebalances have timeouts of their own.
_LONGEST_MS = 7 * 24 * 3600 * 1000
A = TypeVar("A")
_Listed = wire.ListGroupsResponse.Group
_Described = wire.DescribeGroupsResponse.Group
_Left = wire.LeaveGroupResponse.Member


def client_of(call: Call) -> Client:
    """Return who sends a request."""
    return Client(call.client_id or "", "/127.0.0.1", call.version)


def _answer_of(call: Call, held: PendingAnswer[A]) -> A:
    while held.answer is None:
        if not call.wait(lambda: held.is_answered, _LONGEST_MS, held):
            raise HungUpError
    return held.answer


@api(wire.JoinGroupRequest)
def join_group(call: Call, request: wire.JoinGroupRequest) -> wire.JoinGroupResponse:
    """Take a member into its group; the answer comes when all have joined."""
    groups = call.state.groups
    settings = groups.settings
    try:
        require(call, Operation.READ, ResourceType.GROUP, request.group_id)
        check_group(call, request.group_id)
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            raise InvalidSessionTimeout(f"the session timeout is {request.session_timeout_ms} ms")
        answer = _answer_of(call, groups.join(request, client_of(call)))
    except ProtocolClientError as error:
        answer = wire.JoinGroupResponse(
            error_code=error.ERROR_CODE,
            member_id=request.member_id,
            protocol_name=None,
            generation_id=-1 if isinstance(error, GroupAuthorizationFailed) else settings.path.refused_generation,
        )
    if answer.protocol_name is None and call.version < 7:
        answer.protocol_name = ""
    return answer


@api(wire.SyncGroupRequest)
def sync_group(call: Call, request: wire.SyncGroupRequest) -> wire.SyncGroupResponse:
    """Give a member its assignment; the answer comes when the leader has sent it."""
    check_group(call, request.group_id)
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        raise InconsistentGroupProtocol("SyncGroup names the protocol from version 5 on")
    return _answer_of(call, call.state.groups.sync(request))


@api(wire.HeartbeatRequest)
def heartbeat(call: Call, request: wire.HeartbeatRequest) -> wire.HeartbeatResponse:
    """Note that a member lives, and say whether its group rebalances."""
    check_group(call, request.group_id)
    call.state.groups.heartbeat(request)
    return wire.HeartbeatResponse()


@api(wire.LeaveGroupRequest)
def leave_group(call: Call, request: wire.LeaveGroupRequest) -> wire.LeaveGroupResponse:
    """Remove members."""
    check_group(call, request.group_id)
    response = wire.LeaveGroupResponse()
    if call.version < 3:
        call.state.groups.leave(request.group_id, request.member_id, None)
        return response
    for one in request.members:
        left = _Left(member_id=one.member_id, group_instance_id=one.group_instance_id)
        with refusing(left):
            call.state.groups.leave(request.group_id, one.member_id, one.group_instance_id)
        response.members.append(left)
    return response


@api(wire.DescribeGroupsRequest)
def describe_groups(call: Call, request: wire.DescribeGroupsRequest) -> wire.DescribeGroupsResponse:
    """Describe groups of the classic protocol; others do not exist for this API."""
    described = []
    for name in request.groups:
        try:
            check_group(call, name, may_be_empty=True)
            group = call.state.groups.classic(name)
            if group is None or group.is_gone:
                described.append(_not_found(call, name))
            else:
                described.append(_description(group, shows_all=call.state.groups.settings.path.shows_assignments))
        except ProtocolClientError as error:
            described.append(_Described(error_code=error.ERROR_CODE, group_id=name))
    for one in described:
        if request.include_authorized_operations and not one.error_code:
            one.authorized_operations = operations(call, ResourceType.GROUP, one.group_id)
    return wire.DescribeGroupsResponse(groups=described)


def _not_found(call: Call, name: str) -> _Described:
    if call.version < 6:
        return _Described(group_id=name, group_state="Dead")
    other = call.state.groups.get(name)
    said = f"Group {name} not found." if other is None else f"Group {name} is not a classic group."
    return _Described(error_code=GroupIdNotFound.ERROR_CODE, error_message=said, group_id=name, group_state="Dead")


def _description(group: ClassicGroup, *, shows_all: bool) -> _Described:
    is_stable = group.state is GroupState.STABLE
    members = [
        _Described.Member(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client.client_id,
            client_host=member.client.host,
            member_metadata=member.metadata(group.protocol) if is_stable else b"",
            member_assignment=member.assignment if is_stable or shows_all else b"",
        )
        for member in group.members.values()
    ]
    return _Described(
        group_id=group.name,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if is_stable else "",
        members=members,
    )


@api(wire.ListGroupsRequest)
def list_groups(call: Call, request: wire.ListGroupsRequest) -> wire.ListGroupsResponse:
    """List the groups that this broker coordinates."""
    path = call.state.groups.settings.path
    shown = str.lower if path.lowers_states else str
    states = {shown(state) for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    may_all = may(call, Operation.DESCRIBE, ResourceType.CLUSTER)
    listed = [
        _Listed(
            group_id=group.name,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type,
        )
        for group in call.state.groups
        if call.state.coordinator("group", group.name) is call.node
        and (may_all or may(call, Operation.DESCRIBE, ResourceType.GROUP, group.name))
        and (not states or shown(group.state_name) in states)
        and (not types or group.type in types)
        and not (path.forgets_empty and group.is_empty)
    ]
    return wire.ListGroupsResponse(groups=listed)


@api(wire.DeleteGroupsRequest)
def delete_groups(call: Call, request: wire.DeleteGroupsRequest) -> wire.DeleteGroupsResponse:
    """Delete groups without members."""
    results = []
    for name in dict.fromkeys(request.groups_names):
        result = wire.DeleteGroupsResponse.Group(group_id=name)
        with refusing(result):
            check_group(call, name, may_be_empty=True)
            call.state.groups.delete(name)
        results.append(result)
    return wire.DeleteGroupsResponse(results=results)


@api(wire.OffsetDeleteRequest)
def offset_delete(call: Call, request: wire.OffsetDeleteRequest) -> wire.OffsetDeleteResponse:
    """Delete committed offsets of topics that no member reads."""
    state, response = call.state, wire.OffsetDeleteResponse()
    check_group(call, request.group_id)
    group = state.groups.for_offset_delete(request.group_id)
    for topic in request.topics:
        known = state.topics.get(topic.name)
        count = 0 if known is None else len(known.partitions)
        is_read = known is not None and group.is_subscribed(topic.name)
        results = []
        for one in topic.partitions:
            code = GroupSubscribedToTopic.ERROR_CODE if is_read else 0
            if one.partition_index not in range(count):
                code = UnknownTopicOrPartition.ERROR_CODE
            if not code:
                state.offsets.delete(request.group_id, topic.name, one.partition_index)
            result = wire.OffsetDeleteResponse.Topic.Partition(partition_index=one.partition_index, error_code=code)
            results.append(result)
        response.topics.append(wire.OffsetDeleteResponse.Topic(name=topic.name, partitions=results))
    if state.groups.settings.path.ends_with_offsets and group.is_empty:
        state.groups.forget_without_offsets(group)
    return response
