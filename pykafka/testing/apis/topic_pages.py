"""DescribeTopicPartitions: topics page by page (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykafka.admin.acls import ResourceType
from pykafka.exceptions import (
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.testing.apis.metadata import may_describe
from pykafka.testing.authorization import operations
from pykafka.testing.call import Call, api
from pykafka.testing.topicnames import check_name

if TYPE_CHECKING:
    from pykafka.testing.topics import Partition

_Request = wire.DescribeTopicPartitionsRequest
_Response = wire.DescribeTopicPartitionsResponse
#: The most partitions of a page: max.request.partition.size.limit.
_PAGE: Final = 2000


@api(_Request)
def describe_topic_partitions(call: Call, request: _Request) -> _Response:
    """Describe a page of the partitions of topics, in the order of their names."""
    state, cursor = call.state, request.cursor
    asked = {topic.name for topic in request.topics}
    first = cursor.topic_name if cursor is not None else ""
    known_names = (name for name in state.topics if may_describe(call, name))
    names = sorted(name for name in asked or known_names if name >= first)
    if cursor is not None and cursor.partition_index < 0:
        return _Response(topics=[_Response.Topic(error_code=InvalidRequest.ERROR_CODE, name=first)])
    room = max(1, min(request.response_partition_limit, _PAGE))
    response = _Response()
    for name in names:
        start = cursor.partition_index if cursor is not None and name == first else 0
        topic = _described(call, name, start, room)
        known = None if topic.error_code else state.topics.get(name)
        response.topics.append(topic)
        room -= len(topic.partitions)
        if known is not None and start + len(topic.partitions) < len(known.partitions):
            response.next_cursor = _Request.Cursor(topic_name=name, partition_index=start + len(topic.partitions))
            break
        if room <= 0 and name != names[-1]:
            response.next_cursor = _Request.Cursor(topic_name=names[names.index(name) + 1], partition_index=0)
            break
    return response


def _described(call: Call, name: str, start: int, room: int) -> _Response.Topic:
    if not may_describe(call, name):
        return _Response.Topic(error_code=TopicAuthorizationFailed.ERROR_CODE, name=name)
    answer = _Response.Topic(name=name, topic_authorized_operations=operations(call, ResourceType.TOPIC, name))
    topic = call.state.topics.get(name)
    if topic is None:
        answer.error_code = UnknownTopicOrPartition.ERROR_CODE
        try:
            check_name(name)
        except InvalidTopic as error:
            answer.error_code = error.ERROR_CODE
        return answer
    answer.topic_id, answer.is_internal = topic.id, topic.is_internal
    answer.partitions = [_partition(call, partition) for partition in topic.partitions[start : start + room]]
    return answer


def _partition(call: Call, partition: Partition) -> _Response.Topic.Partition:
    return _Response.Topic.Partition(
        error_code=0 if call.state.is_up(partition.leader) else LeaderNotAvailable.ERROR_CODE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[node for node in partition.replicas if not call.state.is_up(node)],
    )
