"""`KafkaProducer` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.base import Sends, coroutine
from pykafka.handlers.bridge import bridged
from pykafka.kafkaproducer import KafkaProducer as _KafkaProducer
from pykafka.record import K, V

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykafka.metrics.metric import Metrics
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

    partitions_for = coroutine(_KafkaProducer.partitions_for)
    flush = coroutine(_KafkaProducer.flush)
    close = coroutine(_KafkaProducer.close)
    purge = coroutine(_KafkaProducer.purge)
    begin_transaction = coroutine(_KafkaProducer.begin_transaction)
    commit_transaction = coroutine(_KafkaProducer.commit_transaction)
    abort_transaction = coroutine(_KafkaProducer.abort_transaction)

    def metrics(self) -> Metrics:
        """Return the metrics of this producer now, with Java's names; docs/metrics.md lists them. No broker is asked."""
        return self._inner.metrics()

    health = coroutine(_KafkaProducer.health)
    explain = coroutine(_KafkaProducer.explain)
