"""`Request`: batches that share a Produce request, and the result of each in the response. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pykafka.exceptions import (
    CorruptResponseError,
    DuplicateSequenceNumber,
    KafkaException,
    ResponseTimeoutError,
    error_for,
)
from pykafka.producer import lone
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.channel import PendingResponse
    from pykafka.producer.batch import MessageBatch

NO_ID = UUID(int=0)
#: What became of a batch: None, or why it was not written.
Outcome = tuple["MessageBatch", KafkaException | None]


class Request:
    """A Produce request in flight.

    :param batches: in it, one a partition
    :param ids: the ids of their topics, where they are known: they name the topics from version 13 on
    :param transactional_id: of a producer with transactions
    """

    __slots__ = ("batches", "ids", "pending", "transactional_id")

    def __init__(
        self, batches: list[MessageBatch], ids: Mapping[str, UUID] | None = None, transactional_id: str | None = None
    ) -> None:
        self.batches = batches
        self.ids = ids or {}
        self.transactional_id = transactional_id
        #: Its answer, once it is sent.
        self.pending: PendingResponse[wire.ProduceResponse] | None = None

    def message(self, acks: int, timeout_ms: int) -> wire.ProduceRequest:
        """Return the wire message.

        :param acks: how many replicas have to have it
        :param timeout_ms: how long the leader may wait for them
        """
        batch = self.batches[0]
        if len(self.batches) == 1 and batch.wire is not None and self.transactional_id is None:
            topic_id = self.ids.get(batch.topic, NO_ID)
            return lone.ProduceRequest(batch.topic, topic_id, batch.partition_id, batch.wire, acks, timeout_ms)
        topics: dict[str, list[wire.ProduceRequest.Topic.Partition]] = defaultdict(list)
        for batch in self.batches:
            topics[batch.topic].append(
                wire.ProduceRequest.Topic.Partition(index=batch.partition_id, records=batch.wire)
            )
        return wire.ProduceRequest(
            transactional_id=self.transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                wire.ProduceRequest.Topic(name=name, topic_id=self.ids.get(name, NO_ID), partition_data=parts)
                for name, parts in topics.items()
            ],
        )

    def outcomes(self, response: wire.ProduceResponse, where: str) -> list[Outcome]:
        """Return the result of each batch in a response, and store offsets and errors of single messages.

        :param where: the broker, for errors ("host:port")
        :raises CorruptResponseError: it tells of a partition that was not asked about, or of one twice
        """
        written = response.written if isinstance(response, lone.ProduceResponse) else None
        if written is not None and self._take_written(*written):
            return [(self.batches[0], None)]
        waiting = {(batch.topic, batch.partition_id): batch for batch in self.batches}
        self._name_topics(response, where)
        _check_partitions(set(waiting), response, where)
        found: list[Outcome] = []
        for topic in response.responses:
            for part in topic.partition_responses:
                batch = waiting.pop((topic.name, part.index))
                found.append((batch, _read(batch, part, where)))
        for batch in waiting.values():
            context: dict[str, Any] = {"broker": where, "topic": batch.topic, "partition": batch.partition_id}
            found.append((batch, ResponseTimeoutError("the broker's answer left this partition out", **context)))
        return found

    def _take_written(self, topic: bytes, partition: int, offset: int, time_ms: int) -> bool:
        """Store the offset of the only batch, which the broker has written; return False if another one was asked about."""
        batch = self.batches[0]
        if partition != batch.partition_id:
            return False
        id_ = self.ids.get(batch.topic)
        if (id_ is None or topic != id_.bytes) and topic != batch.topic.encode():
            return False
        batch.base_offset = offset
        batch.log_append_time = time_ms
        return True

    def leaders(self, response: wire.ProduceResponse) -> Iterator[tuple[MessageBatch, int, int]]:
        """Yield (batch, leader's broker number, its epoch) of each batch for which a broker names the leader (KIP-951).

        :param response: that `outcomes` has read
        """
        batches = {(batch.topic, batch.partition_id): batch for batch in self.batches}
        for topic in response.responses:
            for part in topic.partition_responses:
                if part.error_code and part.current_leader.leader_id >= 0:
                    batch = batches[topic.name, part.index]
                    yield batch, part.current_leader.leader_id, part.current_leader.leader_epoch

    def _name_topics(self, response: wire.ProduceResponse, where: str) -> None:
        """Give the topics of a response their names, where it has their ids alone."""
        names: dict[UUID, str] | None = None
        for topic in response.responses:
            if topic.topic_id == NO_ID:
                continue
            names = names or {id_: name for name, id_ in self.ids.items()}
            if topic.topic_id not in names:
                raise CorruptResponseError(
                    f"the answer tells of topic id {topic.topic_id}, which the request has nothing for",
                    broker=where,
                    api="Produce",
                )
            topic.name = names[topic.topic_id]


def divide(batches: Sequence[MessageBatch], limit: int) -> list[list[MessageBatch]]:
    """Return requests of at most `limit` bytes each; a larger batch has a request of its own."""
    requests: list[list[MessageBatch]] = []
    size = 0
    for batch in batches:
        taken = batch.wire_size
        if not requests or size + taken > limit:
            requests.append([])
            size = 0
        requests[-1].append(batch)
        size += taken
    return requests


def _check_partitions(asked: set[tuple[str, int]], response: wire.ProduceResponse, where: str) -> None:
    for topic in response.responses:
        for part in topic.partition_responses:
            if (topic.name, part.index) not in asked:
                raise CorruptResponseError(
                    f"the answer tells of {topic.name}/{part.index}, which the request has nothing for, or tells it twice",
                    broker=where,
                    api="Produce",
                )
            asked.remove((topic.name, part.index))


def _read(batch: MessageBatch, part: wire.ProduceResponse.Topic.Partition, where: str) -> KafkaException | None:
    # some brokers tell of a duplicate where it is
    if part.error_code in (0, DuplicateSequenceNumber.ERROR_CODE):
        batch.base_offset = part.base_offset
        batch.log_append_time = part.log_append_time_ms
    if part.error_code == 0:
        return None
    context: dict[str, Any] = {
        "broker": where,
        "topic": batch.topic,
        "partition": batch.partition_id,
        "api": "Produce",
    }
    for bad in part.record_errors:
        if batch.record_errors is None:
            batch.record_errors = {}
        text = bad.batch_index_error_message or part.error_message
        batch.record_errors[bad.batch_index] = error_for(part.error_code, text, **context)
    return error_for(part.error_code, part.error_message, **context)
