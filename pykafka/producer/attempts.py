"""`Attempts`: the time of the next attempt of a batch, and its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.producer.retrying import counts, kind_of, with_remark
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.producer.batch import MessageBatch
    from pykafka.producer.options import ProducerOptions


class Attempts:
    """The pauses before a batch is sent again, and its bounds: age and number of attempts.

    :param handler: supplies clock and chance
    :param options: of the producer
    """

    def __init__(self, handler: Handler, options: ProducerOptions) -> None:
        self._handler = handler
        self._options = options
        self.backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, handler.random)

    def expires_at(self, batch: MessageBatch) -> float:
        """Return when a batch expires (s of the handler's clock)."""
        return batch.created + self._options.delivery_timeout_s

    def expired(self, batch: MessageBatch) -> bool:
        """Return whether a batch is older than the delivery timeout."""
        return self._handler.now() > self.expires_at(batch)

    def back_off(self, batch: MessageBatch) -> None:
        """Set the time of a batch's next attempt: later after each failure; the caller holds the lock."""
        now = self._handler.now()
        batch.failures += 1
        until = now + self.backoff.seconds(batch.failures)
        # its last try is when its time is over
        batch.retry_at = min(until, max(now, self.expires_at(batch)))

    def may_retry(self, batch: MessageBatch, error: KafkaException) -> bool:
        """Count a failed attempt, and return whether the batch may be sent again."""
        batch.attempts += counts(kind_of(error), batch.flight.numbered)
        return not self.expired(batch) and batch.attempts <= self._options.max_retries

    def explained(self, batch: MessageBatch, error: KafkaException) -> KafkaException:
        """Return the last error of a failed batch, with a remark about its attempts."""
        options = self._options
        late = self.expired(batch)
        bound = f"delivery_timeout_ms={options.delivery_timeout_ms}" if late else f"max_retries={options.max_retries}"
        remark = f"not delivered in {batch.failures} tries, within {bound}"
        return with_remark(error, remark).with_context(topic=batch.topic, partition=batch.partition_id)
