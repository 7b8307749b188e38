"""`KafkaProducer` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.base import Sends
from pykafka.handlers.bridge import bridged
from pykafka.kafkaproducer import K, V

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykafka.producer.producer_record import ProducerRecord


class KafkaProducer(Sends[K, V]):
    """Send messages to any topic: `client.producer(...)` makes one.

    As `pykafka.kafkaproducer.KafkaProducer`, which documents parameters and errors.
    """

    @property
    def serializes(self) -> bool:
        """Whether the producer has a serializer of keys or values; otherwise it takes bytes alone."""
        return self._inner.serializes

    async def produce_many(self, topic: str, values_or_records: Iterable[V | ProducerRecord[K, V] | None]) -> int:
        """Send many messages to one topic; return how many."""
        return await bridged(self._here.produce_many, topic, values_or_records)

    def room(self) -> int:
        """Return how many bytes `produce()` would take now without waiting; a message takes up to 32 besides key and value."""
        return self._inner.room()

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the numbers of a topic's partitions, looking the topic up where it is not known."""
        return await bridged(self._here.partitions_for, topic, timeout)

    async def flush(self, timeout: float | None = None) -> None:
        """Send what is queued without lingering, and wait until each message is acknowledged or has failed."""
        return await bridged(self._here.flush, timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what is queued and end the senders; does nothing when it is closed. Takes no messages from its start on."""
        return await bridged(self._here.close, timeout)

    async def purge(self) -> int:
        """Drop the messages that were not sent yet; return how many. They fail with `ProducerPurgedError`."""
        return await bridged(self._here.purge)

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Fence other producers with this transactional id, and wait until what they left open is ended (KIP-98)."""
        return await bridged(self._here.init_transactions, timeout)

    async def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction: messages from now on are part of it. Waits for brokers only where an epoch is needed."""
        return await bridged(self._here.begin_transaction, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver what is queued, and commit the transaction: messages and offsets become visible together."""
        return await bridged(self._here.commit_transaction, timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: drop what is queued, and put its consumers back to their committed offsets."""
        return await bridged(self._here.abort_transaction, timeout)
