"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.exceptions import GroupIdNotFound, ProtocolClientError, TopicAuthorizationFailed, UnsupportedVersion
from pykafka.protocol import wire
from pykafka.protocol.schema import Struct
from pykafka.testing.apis.coordinators import check_group
from pykafka.testing.apis.groups import client_of
from pykafka.testing.authorization import may, operations, require
from pykafka.testing.call import Call, api, refuse
from pykafka.testing.groups.consumer_group import ConsumerGroup, by_topic

if TYPE_CHECKING:
    from pykafka.testing.groups.consumer_member import ConsumerMember, Key

N = TypeVar("N", bound=Struct)
_Described = wire.ConsumerGroupDescribeResponse.Group
_Assignment = _Described.Member.Assignment


def _check_on(call: Call) -> None:
    if not call.state.groups.settings.path.next_generation:
        raise UnsupportedVersion("the consumer protocol is off: group.version is 0")


@api(wire.ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(
    call: Call, request: wire.ConsumerGroupHeartbeatRequest
) -> wire.ConsumerGroupHeartbeatResponse:
    """Take in, keep or let go a member, and say what it may read."""
    _check_on(call)
    for topic in request.subscribed_topic_names or ():
        require(call, Operation.DESCRIBE, ResourceType.TOPIC, topic)
    check_group(call, request.group_id)
    return call.state.groups.consumer_heartbeat(request, client_of(call))


@api(wire.ConsumerGroupDescribeRequest)
def consumer_group_describe(
    call: Call, request: wire.ConsumerGroupDescribeRequest
) -> wire.ConsumerGroupDescribeResponse:
    """Describe groups of the consumer protocol; others do not exist for this API."""
    response: wire.ConsumerGroupDescribeResponse = described(call, request, _description)
    return response


def described(call: Call, request: Any, describe: Callable[[Call, str], Any]) -> Any:
    """Return the response with the groups that a request names.

    :param describe: returns one, or raises its error
    """
    response: Any = request.response()
    for name in request.group_ids:
        try:
            one = describe(call, name)
            if request.include_authorized_operations:
                one.authorized_operations = operations(call, ResourceType.GROUP, name)
        except ProtocolClientError as error:
            one = refuse(response.Group(group_id=name), error)
        response.groups.append(one)
    return response


def _description(call: Call, name: str) -> _Described:
    _check_on(call)
    check_group(call, name)
    group = call.state.groups.consumer(name)
    if group is None:
        other = call.state.groups.get(name)
        raise GroupIdNotFound(f"Group {name} {'not found' if other is None else 'is not a consumer group'}.")
    one = _Described(
        group_id=group.name,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(call, group, member) for member in group.members.values()],
    )
    topics = {found.topic_name for member in one.members for found in member.assignment.topic_partitions}
    if not all(may(call, Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        raise TopicAuthorizationFailed(
            "The group has described topic(s) that the client is not authorized to describe."
        )
    return one


def _member(call: Call, group: ConsumerGroup, member: ConsumerMember) -> _Described.Member:
    target = group.target.get(member.member_id, ())
    return _Described.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client.client_id,
        client_host=member.client.host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex="" if member.pattern is None else member.pattern.text,
        assignment=_Assignment(topic_partitions=named(call, member.held, _Assignment.TopicPartitions)),
        target_assignment=_Assignment(topic_partitions=named(call, target, _Assignment.TopicPartitions)),
        member_type=1 if member.classic is None else 0,
    )


def named(call: Call, keys: Collection[Key], kind: type[N]) -> list[N]:
    """Return partitions by topic, as a description lists them, as far as the topics exist.

    :param kind: the class of the parts
    """
    topics = call.state.topic_ids
    return [
        kind(topic_id=id_, topic_name=topics[id_].name, partitions=indexes)
        for id_, indexes in by_topic(keys).items()
        if id_ in topics
    ]
