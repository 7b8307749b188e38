"""Produce: records of clients are checked, get their offsets, and are acknowledged."""

from __future__ import annotations

from typing import Any, NamedTuple

from pykafka.exceptions import (
    InvalidProducerEpoch,
    InvalidRequiredAcks,
    InvalidTxnState,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderForPartition,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.protocol.records import RawBatch
from pykafka.testing.call import Call, HungUpError, api, refusing
from pykafka.testing.incoming import Rules, checked
from pykafka.testing.producers import SequencedBatch
from pykafka.testing.quotas import PRODUCE
from pykafka.testing.topics import Partition, Topic
from pykafka.testing.transactions import Identity

_Topic = wire.ProduceResponse.Topic
_Answer = _Topic.Partition
#: From which version on topics have ids, and answers say who leads.
_FIRST_WITH_IDS = 13
_FIRST_WITH_LEADERS = 10
#: The first version whose transactions are of version 2: writing adds a partition to them.
_FIRST_THAT_ADDS = 12
_ALL, _NONE = -1, 0
_NO_OFFSET = -1


class _Written(NamedTuple):
    # What waits for its followers: the answer, the partition, the offset behind the records.
    answer: _Answer
    topic: Topic
    partition: Partition
    epoch: int
    end: int


@api(wire.ProduceRequest)
def produce(call: Call, request: wire.ProduceRequest) -> wire.ProduceResponse | None:
    """Write records; with acks -1, wait until all replicas in sync have them."""
    call.charge(PRODUCE, call.size)
    written: list[_Written] = []
    answers: list[_Topic] = []
    for asked in request.topic_data:
        topic = call.state.topic(asked.topic_id if call.version >= _FIRST_WITH_IDS else asked.name)
        parts = [_write(call, request, topic, part, written) for part in asked.partition_data]
        answers.append(_Topic(name=asked.name, topic_id=asked.topic_id, partition_responses=parts))
    if request.acks == _NONE:
        # There is no answer that could have an error: brokers hang up, so that the client asks who leads.
        if any(part.error_code for answer in answers for part in answer.partition_responses):
            raise HungUpError
        return None
    if request.acks not in (_NONE, 1):
        _await_followers(call, request, written)
    response = wire.ProduceResponse(responses=answers)
    if call.version >= _FIRST_WITH_LEADERS:
        _name_leaders(call, request, response)
    return response


def _write(
    call: Call, request: wire.ProduceRequest, topic: Topic | None, asked: Any, written: list[_Written]
) -> _Answer:
    partition = None if topic is None else topic.partition(asked.index)
    if topic is None or partition is None:
        unknown_id = topic is None and call.version >= _FIRST_WITH_IDS
        code = UnknownTopicId.ERROR_CODE if unknown_id else UnknownTopicOrPartition.ERROR_CODE
        return _Answer(index=asked.index, error_code=code, base_offset=_NO_OFFSET)
    answer, blamed = _Answer(index=asked.index, base_offset=_NO_OFFSET), list[tuple[int, str]]()
    with refusing(answer, None):
        written.append(_append(call, request, topic, partition, asked.records, answer, blamed))
    answer.record_errors = [
        _Answer.RecordError(batch_index=index, batch_index_error_message=text) for index, text in blamed
    ]
    return answer


def _append(
    call: Call,
    request: wire.ProduceRequest,
    topic: Topic,
    partition: Partition,
    records: Any,
    answer: _Answer,
    blamed: list[tuple[int, str]],
) -> _Written:
    state, log = call.state, partition.log
    if request.acks not in (_ALL, _NONE, 1) and not (state.data_path.takes_any_acks and request.acks > 0):
        raise InvalidRequiredAcks(f"acks is {request.acks}")
    if partition.leader != call.node.node_id:
        raise NotLeaderForPartition
    now_ms = state.now_ms()
    magic, node_id = topic.message_format(state.data_path.message_format), call.node.node_id
    raws = checked(records, topic, Rules(call.version, magic, now_ms, blamed, node_id))
    least = int(topic.setting("min.insync.replicas", node_id))
    if request.acks == _ALL and len(partition.isr) < least:
        raise NotEnoughReplicas(f"{len(partition.isr)} replicas are in sync; min.insync.replicas is {least}")
    append_time = now_ms if topic.setting("message.timestamp.type", node_id) == "LogAppendTime" else -1
    known = _check_producers(call, request, partition, raws, answer)
    if known is not None:
        first, end = known.offset, known.offset + raws[0].next_offset - raws[0].base_offset
    else:
        first = log.append(raws, now_ms, partition.leader_epoch, append_time)
        end = log.end
        state.waiters.wake(partition)
    answer.base_offset, answer.log_start_offset = first, log.start
    answer.log_append_time_ms = append_time if known is None else known.time_ms
    return _Written(answer, topic, partition, partition.leader_epoch, end)


def _check_producers(
    call: Call, request: wire.ProduceRequest, partition: Partition, raws: list[RawBatch], answer: _Answer
) -> SequencedBatch | None:
    # Only formats from 2 on have producers, and of these there is one batch in a request.
    if not raws or raws[0].producer_id < 0:
        return None
    raw, state = raws[0], call.state
    if known := partition.log.producers.duplicate(raw, state.data_path.remembered):
        return known
    if raw.is_transactional:
        producer = Identity(raw.producer_id, raw.producer_epoch)
        try:
            state.transactions.check_produce(partition, request.transactional_id, producer, call.version)
        except InvalidProducerEpoch:
            if not state.data_path.verifies:  # then it is the log's own error
                answer.log_start_offset = partition.log.start
            raise
    answer.log_start_offset = partition.log.start  # with errors of the log, too
    partition.log.producers.check(raw, state.data_path.unknown_producer)
    if not raw.is_transactional and raw.producer_id in partition.log.open_transactions:
        raise InvalidTxnState(f"producer {raw.producer_id} has a transaction under way here")
    if raw.is_transactional and call.version >= _FIRST_THAT_ADDS:
        partition.log.producers.check_start(raw)
    return None


def _await_followers(call: Call, request: wire.ProduceRequest, written: list[_Written]) -> None:
    def is_settled(one: _Written) -> bool:
        if not _leads(call, one):
            return True
        partition = call.state.held_by(call.node.node_id, one.partition)
        if request.acks == _ALL:
            return partition.high_watermark >= one.end
        return sum(partition.copied_by(node) >= one.end for node in partition.isr) >= request.acks

    waiting = [one for one in written if not is_settled(one)]
    if not waiting:
        return
    call.wait(lambda: all(map(is_settled, waiting)), request.timeout_ms, *(one.partition for one in waiting))
    for one in waiting:
        in_sync = call.state.held_by(call.node.node_id, one.partition).isr
        if not _leads(call, one):
            one.answer.error_code = NotLeaderForPartition.ERROR_CODE
        elif not is_settled(one):
            one.answer.error_code = RequestTimedOut.ERROR_CODE
        elif len(in_sync) < int(one.topic.setting("min.insync.replicas", call.node.node_id)):
            one.answer.error_code = NotEnoughReplicasAfterAppend.ERROR_CODE


def _leads(call: Call, written: _Written) -> bool:
    """Return whether the broker leads a partition in the epoch in which it has written."""
    found, node_id = written.partition, call.node.node_id
    held = call.state.held_by(node_id, found)
    present = call.state.partition(found.topic, found.index)
    return present is found and (held.leader, held.leader_epoch) == (node_id, written.epoch)


def _name_leaders(call: Call, request: wire.ProduceRequest, response: wire.ProduceResponse) -> None:
    state = call.state
    leaders: set[int] = set()
    for asked, topic in zip(request.topic_data, response.responses, strict=True):
        for answer in topic.partition_responses:
            if answer.error_code != NotLeaderForPartition.ERROR_CODE:
                continue
            key = asked.topic_id if call.version >= _FIRST_WITH_IDS else asked.name
            partition = state.partition(key, answer.index)
            if partition is not None:
                answer.current_leader = _Answer.Leader(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
                leaders.add(partition.leader)
    response.node_endpoints = state.endpoints(wire.ProduceResponse.Node, leaders)
