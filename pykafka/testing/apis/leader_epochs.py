"""OffsetForLeaderEpoch: where the epochs of leaders end (KIP-320)."""

from __future__ import annotations

from typing import Any

from pykafka.exceptions import NotLeaderForPartition, UnknownTopicOrPartition
from pykafka.protocol import wire
from pykafka.testing.apis.fetch import epoch_error_of
from pykafka.testing.call import Call, api

_Topic = wire.OffsetForLeaderEpochResponse.Topic


@api(wire.OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(call: Call, request: wire.OffsetForLeaderEpochRequest) -> wire.OffsetForLeaderEpochResponse:
    """Say where each epoch ends, so that readers find out whether their log is still the leader's."""
    topics = [
        _Topic(topic=asked.topic, partitions=[_end_of(call, asked.topic, part) for part in asked.partitions])
        for asked in request.topics
    ]
    return wire.OffsetForLeaderEpochResponse(topics=topics)


def _end_of(call: Call, topic: str, asked: Any) -> _Topic.Partition:
    answer = _Topic.Partition(partition=asked.partition)
    partition = call.state.partition(topic, asked.partition)
    if partition is None:
        answer.error_code = UnknownTopicOrPartition.ERROR_CODE
    elif call.node.node_id not in partition.replicas:
        answer.error_code = NotLeaderForPartition.ERROR_CODE
    elif error := epoch_error_of(partition, asked.current_leader_epoch):
        answer.error_code = error
    elif partition.leader != call.node.node_id:
        answer.error_code = NotLeaderForPartition.ERROR_CODE
    else:
        answer.leader_epoch, answer.end_offset = partition.end_of_epoch(asked.leader_epoch)
    return answer
