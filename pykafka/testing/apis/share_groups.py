"""ShareGroupHeartbeat and ShareGroupDescribe; start offsets of share groups: describe, alter, delete (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from pykafka.exceptions import (
    NonEmptyGroup,
    UnknownError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pykafka.protocol import wire
from pykafka.protocol.wire.share_groups import Assignment, TopicPartitions
from pykafka.testing.apis.consumer_groups import described, named
from pykafka.testing.apis.coordinators import check_coordinator, check_group
from pykafka.testing.apis.groups import client_of
from pykafka.testing.call import Call, api, refusing
from pykafka.testing.groups.consumer_group import by_topic
from pykafka.testing.groups.share_group import ASSIGNOR, ShareGroup

if TYPE_CHECKING:
    pass

_Described = wire.ShareGroupDescribeResponse.Group
_Offsets = wire.DescribeShareGroupOffsetsResponse.Group
_Altered = wire.AlterShareGroupOffsetsResponse.Result
_Deleted = wire.DeleteShareGroupOffsetsResponse.Result
_NO_ID = UUID(int=0)


def check_on(call: Call) -> None:
    """Raise an error if share groups are off.

    :raises UnsupportedVersion: share.version is 0
    """
    if call.state.features.levels["share.version"] < 1:
        raise UnsupportedVersion("share groups are off: share.version is 0")


@api(wire.ShareGroupHeartbeatRequest)
def share_group_heartbeat(call: Call, request: wire.ShareGroupHeartbeatRequest) -> wire.ShareGroupHeartbeatResponse:
    """Take in, keep or let go a member, and say what it may read."""
    check_on(call)
    ShareGroup.check(request)
    check_coordinator(call, "group", request.group_id)
    return call.state.groups.share_heartbeat(request, client_of(call))


@api(wire.ShareGroupDescribeRequest)
def share_group_describe(call: Call, request: wire.ShareGroupDescribeRequest) -> wire.ShareGroupDescribeResponse:
    """Describe share groups; others do not exist for this API."""
    response: wire.ShareGroupDescribeResponse = described(call, request, _description)
    return response


def _description(call: Call, name: str) -> _Described:
    check_on(call)
    check_group(call, name)
    group = call.state.groups.share(name)
    members = [
        _Described.Member(
            member_id=member.member_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client.client_id,
            client_host=member.client.host,
            subscribed_topic_names=sorted(member.topics),
            assignment=Assignment(topic_partitions=named(call, member.assigned, TopicPartitions)),
        )
        for member in group.members.values()
    ]
    return _Described(
        group_id=group.name,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=ASSIGNOR,
        members=members,
    )


@api(wire.DescribeShareGroupOffsetsRequest)
def describe_share_group_offsets(
    call: Call, request: wire.DescribeShareGroupOffsetsRequest
) -> wire.DescribeShareGroupOffsetsResponse:
    """Describe the start offsets of share groups, and how many records are not done."""
    response = wire.DescribeShareGroupOffsetsResponse()
    for wanted in request.groups:
        one = _Offsets(group_id=wanted.group_id)
        with refusing(one):
            check_on(call)
            if not wanted.group_id:
                raise UnknownError
            check_coordinator(call, "group", wanted.group_id)
            one.topics = _offsets(call, wanted)
        response.groups.append(one)
    return response


def _offsets(call: Call, wanted: wire.DescribeShareGroupOffsetsRequest.Group) -> list[_Offsets.Topic]:
    state, shares = call.state, call.state.groups.shares
    if wanted.topics is None:
        known = by_topic(shares.of_group(wanted.group_id))
        listed = [(state.topic_ids[id_].name, indexes) for id_, indexes in known.items() if id_ in state.topic_ids]
    else:
        listed = [(topic.topic_name, topic.partitions) for topic in wanted.topics]
    topics = []
    for name, indexes in listed:
        id_ = state.topics[name].id if name in state.topics else _NO_ID
        rows = []
        for index in indexes:
            share = shares.get(wanted.group_id, id_, index)
            row = _Offsets.Topic.Partition(partition_index=index, start_offset=-1)
            if share is not None:
                row.start_offset, row.lag = share.written_start, share.lag
            rows.append(row)
        topics.append(_Offsets.Topic(topic_name=name, topic_id=id_, partitions=rows))
    return topics


@api(wire.AlterShareGroupOffsetsRequest)
def alter_share_group_offsets(
    call: Call, request: wire.AlterShareGroupOffsetsRequest
) -> wire.AlterShareGroupOffsetsResponse:
    """Set the start offsets of a group without members; one that is not there begins by it."""
    groups = call.state.groups
    check_on(call)
    check_group(call, request.group_id)
    _check_empty(groups.share_or_new(request.group_id))
    results: dict[str, _Altered] = {}
    for topic in request.topics:
        known = call.state.topics.get(topic.topic_name)
        id_ = _NO_ID if known is None else known.id
        result = results.setdefault(topic.topic_name, _Altered(topic_name=topic.topic_name, topic_id=id_))
        for one in topic.partitions:
            row = _Altered.Partition(partition_index=one.partition_index)
            partition = call.state.partition(topic.topic_name, one.partition_index)
            if partition is None:
                row.error_code = UnknownTopicOrPartition.ERROR_CODE
            else:
                share = groups.shares.begin(request.group_id, (id_, one.partition_index), partition)
                share.begin(one.start_offset)
            result.partitions.append(row)
    return wire.AlterShareGroupOffsetsResponse(responses=list(results.values()))


@api(wire.DeleteShareGroupOffsetsRequest)
def delete_share_group_offsets(
    call: Call, request: wire.DeleteShareGroupOffsetsRequest
) -> wire.DeleteShareGroupOffsetsResponse:
    """Forget what a group without members has read of topics."""
    shares = call.state.groups.shares
    check_on(call)
    check_group(call, request.group_id)
    _check_empty(call.state.groups.share(request.group_id))
    results = []
    read = by_topic(shares.of_group(request.group_id))
    for topic in request.topics:
        known = call.state.topics.get(topic.topic_name)
        result = _Deleted(topic_name=topic.topic_name)
        if known is None or known.id not in read:
            result.error_code = UnknownTopicOrPartition.ERROR_CODE
        else:
            result.topic_id = known.id
            shares.delete(request.group_id, known.id)
        results.append(result)
    return wire.DeleteShareGroupOffsetsResponse(responses=results)


def _check_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise NonEmptyGroup(f"The group {group.name} is not empty.")
