"""`DocumentedProducer`: what the reference documents of `Producer` for subclasses and old code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import LeaderNotFoundError, ProducerStoppedException
from pykafka.protocol.message import Message

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.partition import TopicView
    from pykafka.producer.accumulator import MessageBatch, PartitionQueue
    from pykafka.producer.deliveries import Callback
    from pykafka.producer.options import ProducerOptions
    from pykafka.producer.sender import OwnedBroker


class DocumentedProducer(ABC):
    """Be the part of `Producer` by which subclasses and old code reach into it.

    Senders call `_send_request` for each request and `_mark_as_delivered` for each batch that was acknowledged.
    `produce()` does not call `_produce`: a message that is plain goes straight into its batch.
    """

    _handler: Handler
    _topic: TopicView
    _options: ProducerOptions
    _running: bool

    @property
    @abstractmethod
    def _queues(self) -> dict[int, PartitionQueue]:
        """The partitions' queues by id."""

    @abstractmethod
    def _enqueue(
        self,
        queue: PartitionQueue,
        value: Any,
        key: Any,
        timestamp: int,
        headers: Any,
        callback: Callback | None = None,
    ) -> Message:
        """Write a message into the open batch of its partition, waiting for room where that is allowed."""

    @abstractmethod
    def _finish(self, batch: MessageBatch, error: KafkaException | None) -> None:
        """Settle a batch for good."""

    def _produce(self, message: Message | tuple[tuple[bytes | None, bytes | None], int]) -> None:
        """Enqueue a message whose partition is known.

        :param message: a Message with its `partition_id`; or, as in 2.0, ((key, value), partition id)
        :raises LeaderNotFoundError: the topic has no such partition
        :raises ProducerStoppedException: the producer is not running
        """
        if not isinstance(message, Message):
            (key, value), partition_id = message
            message = Message(value, partition_key=key, partition_id=partition_id)
        if not self._running:
            raise ProducerStoppedException(
                "the producer is not running; call start(), or make another", topic=self._topic.name
            )
        queue = self._queues.get(message.partition_id)
        if queue is None:
            raise LeaderNotFoundError(
                "the topic has no such partition; check the message's partition_id",
                topic=self._topic.name,
                partition=message.partition_id,
            )
        timestamp = -1 if message.timestamp is None else message.timestamp
        queued = self._enqueue(queue, message.value, message.partition_key, timestamp, message.headers)
        # So that offset and error can be read from the message that was given.
        message._batch = queued._batch
        message._index = queued._index

    def _send_request(self, message_batch: Iterable[MessageBatch], owned_broker: OwnedBroker) -> None:
        """Send one request; its answer settles the batches, or has them sent again.

        :param message_batch: what to send, at most a batch a partition
        :param owned_broker: where to send it
        """
        owned_broker._send(list(message_batch))

    def _mark_as_delivered(
        self, owned_broker: OwnedBroker, message_batch: Iterable[MessageBatch], req: Any = None
    ) -> None:
        """Settle batches that were acknowledged.

        :param owned_broker: which took them
        :param message_batch: the batches
        :param req: accepted for old code
        """
        for batch in message_batch:
            self._finish(batch, None)

    def _produce_has_timed_out(self, start_time: float) -> bool:
        """Return whether `pending_timeout_ms` has passed.

        :param start_time: since when (ms since 1970)
        """
        return self._handler.time_ms() - start_time > self._options.pending_timeout_ms
