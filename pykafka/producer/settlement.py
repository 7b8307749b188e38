"""`Settlement`: the final outcome of a producer's batches, and its announcement."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import DeliveryUnknownError, MessagesNotDelivered
from pykafka.producer.bounds import Bounds
from pykafka.producer.deliveries import Callback, Deliveries
from pykafka.producer.failures import Failures
from pykafka.producer.reports import Reports

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType, LockType
    from pykafka.producer.accumulator import Accumulator, MessageBatch
    from pykafka.producer.options import ProducerOptions
    from pykafka.protocol.message import Message
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)


class Settlement:
    """The final outcome of batches: tells their producers, and keeps the failures of which nobody was told yet.

    State: `failures` and what batches hold change under `lock`.

    :param handler: supplies workers and queues
    :param name: of the topic, as logs and errors have it
    :param options: of the producer
    :param lock: the producer's
    :param accumulator: whose backlogs count the batches
    :param progress: set when somebody may have waited for what was settled
    :param limiter: through which warnings go
    """

    def __init__(
        self,
        handler: Handler,
        name: str,
        options: ProducerOptions,
        lock: LockType,
        accumulator: Accumulator,
        progress: EventType,
        limiter: LogLimiter,
    ) -> None:
        self._name = name
        self._options = options
        self._lock = lock
        self._accumulator = accumulator
        self._progress = progress
        self._limiter = limiter
        queued = Bounds(options.max_queued_messages, options.max_queued_bytes)
        self.failures = Failures(Bounds(options.max_failed_messages, options.max_failed_bytes))
        # of the event alone: the worker keeps no producer that nobody else has any more
        self.deliveries = Deliveries(handler, name, progress.set, queued)
        self.reports = Reports(handler, name, queued)

    def finish(self, batch: MessageBatch, error: KafkaException | None) -> None:
        """Settle a batch for good: acknowledged, or failed by `error`."""
        with self._lock:
            if batch.done:
                return
            # without the frames that it came through, which hold batches
            batch.error = None if error is None else error.again()
            batch.done = True
        batch.wire = None
        if error is not None:
            about = f"{batch.topic}/{batch.partition_id} {type(error).__name__}"
            text, args = "%d messages to %s/%d were not delivered: %s", (batch.topic, batch.partition_id, error)
            self._limiter.warn(log, about, text, batch.count, *args, level=logging.ERROR)
        parent = batch.parent
        if parent is None:
            self._tell(batch)
        elif all(part.done for part in parent.parts or ()):
            self.finish(parent, None)
            with self._lock:
                # Parts and whole refer to each other, and would stay until the garbage collector comes by.
                for part in parent.parts or ():
                    part.parent = None

    def _tell(self, batch: MessageBatch) -> None:
        """Tell the callers that wait for a batch, and subtract it from the backlog."""
        reports, batch.reports = batch.reports, []
        if not self._options.sync and len(reports) < batch.count:
            self.keep(batch, reports)
        callbacks = reports
        if self._options.delivery_reports:
            callbacks = [message for message in reports if type(message.delivery_report_q) is Callback]
            self.reports.put(
                [
                    (message, batch.error_of(message._index))
                    for message in reports
                    if type(message.delivery_report_q) is not Callback
                ],
                batch.queued_bytes / max(batch.count, 1),
            )
        if callbacks:
            self.deliveries.tell(batch, callbacks, batch.queued_bytes)
        else:
            batch.told = True
        # At last: callers of `produce()`, `flush()` and `stop()` wait for these two, and look at reports and calls then.
        if batch.event is not None:
            batch.event.set()
        self._accumulator.release(batch)
        self._progress.set()

    def keep(self, batch: Any, told: Sequence[Message]) -> None:
        """Keep what has failed of a batch until somebody is told; at the bound, the next `produce()` is.

        :param told: messages of which somebody is told
        """
        indexes = {message._index for message in told}
        first = 0
        for leaf in _leaves(batch):
            if leaf.error is not None:
                those = {index - first for index in indexes if first <= index < first + leaf.count}
                with self._lock:
                    self.failures.add(leaf, leaf.count, leaf.size, those)
                    if self.failures.full:
                        self._accumulator.close()
            first += leaf.count

    def end_deliveries(self) -> None:
        """Wait until `on_delivery` has been called for each message; what it keeps from being told is raised instead."""
        untold = 0
        batch: Any
        for batch, messages in self.deliveries.finish(self._options.pending_timeout_ms / 1000):
            indexes = {message._index for message in messages}
            untold += len(messages)
            if self._options.sync:
                continue  # produce() has raised it
            self.keep(batch, [message for message in batch.messages() if message._index not in indexes])
        if untold:
            log.error(
                "on_delivery has not returned for %d ms, and is not called for %d messages to %s; stop() raises those of them "
                "that failed",
                self._options.pending_timeout_ms,
                untold,
                self._name,
            )

    def raise_failures(self, failed: Failures) -> None:
        """Raise failures that were taken out; where that is cut off, they are kept.

        :raises MessagesNotDelivered: there are some
        """
        if not failed.count:
            return
        try:
            raise MessagesNotDelivered(self._name, failed.pairs())
        except BaseException as error:
            if not isinstance(error, MessagesNotDelivered):  # Ctrl-C, or somebody's timeout
                with self._lock:
                    self.failures.restore(failed)
            raise


def _leaves(batch: Any) -> list[Any]:
    """Return the batches that were sent for this one: itself, unless it was split."""
    if batch.parts is None:
        return [batch]
    return [leaf for part in batch.parts for leaf in _leaves(part)]


def outcome_unknown(batch: MessageBatch, error: KafkaException) -> DeliveryUnknownError | None:
    """Return the error of a batch with sequence numbers that the broker may have, in spite of `error`; else None."""
    flight = batch.flight
    if flight is None or not flight.numbered or not (flight.uncertain or flight.on_wire):
        return None
    unknown = DeliveryUnknownError(
        f"given up, though the broker may have it: {error}", topic=batch.topic, partition=batch.partition_id
    )
    unknown.__cause__ = error.again()
    return unknown
