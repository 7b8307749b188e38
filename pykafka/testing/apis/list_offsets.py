"""ListOffsets: the first and last offsets of partitions, and by time; OffsetForLeaderEpoch: where epochs end (KIP-320)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pykafka.exceptions import (
    InvalidRequest,
    NotLeaderForPartition,
    OffsetNotAvailable,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pykafka.protocol import wire
from pykafka.testing.apis.fetch import epoch_error_of
from pykafka.testing.call import Call, api
from pykafka.testing.topics import Partition

_Topic = wire.ListOffsetsResponse.Topic
_Answer = _Topic.Partition
_EndOffset = wire.OffsetForLeaderEpochResponse.Topic.Partition
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
#: The first versions that have them.
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_WITH_EPOCHS = 4
_CONSUMER, _COMMITTED = -1, 1


@api(wire.ListOffsetsRequest)
def list_offsets(call: Call, request: wire.ListOffsetsRequest) -> wire.ListOffsetsResponse:
    """Find offsets by time; -1 and -2 are the log's end and start."""
    named = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    topics = []
    for asked in request.topics:
        parts = []
        for part in asked.partitions:
            answer = _Answer(partition_index=part.partition_index)
            partition = call.state.partition(asked.name, part.partition_index)
            answer.error_code = _error(call, partition, part, named[asked.name, part.partition_index])
            if partition is not None and not answer.error_code:
                _find(call, request, partition, part, answer)
            parts.append(answer)
        topics.append(_Topic(name=asked.name, partitions=parts))
    return wire.ListOffsetsResponse(topics=topics)


def _error(call: Call, partition: Partition | None, asked: Any, times: int) -> int:
    if times > 1:
        return InvalidRequest.ERROR_CODE
    if error := _leader_error(call, partition, asked):
        return error
    if asked.timestamp < EARLIEST_PENDING_UPLOAD or call.version < _SINCE.get(asked.timestamp, 0):
        return UnsupportedVersion.ERROR_CODE
    return 0


def _leader_error(call: Call, partition: Partition | None, asked: Any) -> int:
    if partition is None:
        return UnknownTopicOrPartition.ERROR_CODE
    if call.node.node_id not in partition.replicas:
        return NotLeaderForPartition.ERROR_CODE
    if error := epoch_error_of(partition, asked.current_leader_epoch):
        return error
    return 0 if call.node.node_id == partition.leader else NotLeaderForPartition.ERROR_CODE


def _find(call: Call, request: wire.ListOffsetsRequest, partition: Partition, asked: Any, answer: _Answer) -> None:
    below = partition.log.end
    if request.replica_id == _CONSUMER:
        below = partition.last_stable if request.isolation_level == _COMMITTED else partition.high_watermark
    if call.version == 0:
        answer.old_style_offsets = _several(call, partition, asked, below)
        return
    log, timestamp, epoch = partition.log, asked.timestamp, -1
    if timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL):
        answer.offset = below if timestamp == LATEST else log.start
        epoch = partition.leader_epoch if timestamp == LATEST else log.epoch_of(log.start)
    elif timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        found = log.newest() if timestamp == MAX_TIMESTAMP else log.offset_by_time(timestamp)
        if found is not None and found[0] < below:
            answer.offset, answer.timestamp = found
            epoch = log.epoch_of(found[0])
    if call.version >= _WITH_EPOCHS:
        answer.leader_epoch = epoch
    if partition.high_watermark < partition.log.epochs[-1][1] and timestamp not in (EARLIEST, EARLIEST_LOCAL):
        # A new leader does not know yet how far its followers are.
        answer.error_code = OffsetNotAvailable.ERROR_CODE


def _several(call: Call, partition: Partition, asked: Any, below: int) -> list[int]:
    # Version 0: the first offsets of segments that are not newer than a time, and the end of the log; newest first. A log
    # here is one segment.
    log = partition.log
    known = [(log.start, log.appended_ms)]
    if log.batches:
        known.append((below, call.state.now_ms()))
    if asked.timestamp == EARLIEST:
        known = known[:1]
    elif asked.timestamp != LATEST:
        known = [one for one in known if one[1] <= asked.timestamp]
    return [offset for offset, _ in reversed(known)][: asked.max_num_offsets]


@api(wire.OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(call: Call, request: wire.OffsetForLeaderEpochRequest) -> wire.OffsetForLeaderEpochResponse:
    """Say where each epoch ends, so that readers find out whether their log is still the leader's."""
    response = wire.OffsetForLeaderEpochResponse()
    for topic in request.topics:
        parts = [_end_of(call, topic.topic, part) for part in topic.partitions]
        response.topics.append(response.Topic(topic=topic.topic, partitions=parts))
    return response


def _end_of(call: Call, topic: str, asked: Any) -> _EndOffset:
    answer = _EndOffset(partition=asked.partition)
    partition = call.state.partition(topic, asked.partition)
    answer.error_code = _leader_error(call, partition, asked)
    if partition is not None and not answer.error_code:
        answer.leader_epoch, answer.end_offset = partition.end_of_epoch(asked.leader_epoch)
    return answer
