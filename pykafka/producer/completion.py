"""`Completion`: the final outcome of a producer's batches, and its announcement."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import DeliveryUnknownError, MessagesNotDelivered, TransactionAbortedError
from pykafka.producer.buffer_pool import Bounds
from pykafka.producer.delivery_callbacks import Callback, DeliveryCallbacks

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType, LockType
    from pykafka.metrics.listener import ClientListener
    from pykafka.producer.accumulator import RecordAccumulator
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.buffer_pool import Bounds
    from pykafka.producer.delivery_callbacks import CompletedBatch
    from pykafka.producer.options import ProducerOptions
    from pykafka.protocol.message import Message
    from pykafka.utils.loglimit import LogLimiter


#: What a failed batch takes besides its messages (bytes).
BATCH_COST = 5 * 1024

log = logging.getLogger(__name__)


class Failures:
    """Failed batches not yet reported.

    State: changes under the producer's lock.

    :param bounds: from which on producing raises
    :param any_topic: whether to show messages as `Delivery`
    """

    def __init__(self, bounds: Bounds, any_topic: bool = False) -> None:
        self._bounds = bounds
        self._any_topic = any_topic
        self._batches: list[tuple[CompletedBatch, set[int]]] = []
        self._bytes = 0
        #: How many messages have failed.
        self.count = 0

    @property
    def full(self) -> bool:
        """Whether there are so many failures that `produce()` must raise them."""
        return self._bounds.reached(self.count, self._bytes)

    def add(self, batch: CompletedBatch, count: int, nbytes: int, reported: Collection[int] = ()) -> None:
        """Add a failed batch.

        :param count: messages in it
        :param nbytes: which they take
        :param reported: indexes of those that were reported
        """
        self._batches.append((batch, set(reported)))
        self.count += count - len(reported)
        self._bytes += nbytes + BATCH_COST

    def mark_reported(self, failed: CompletedBatch, index: int) -> None:
        """Note that a message was reported."""
        for batch, reported in self._batches:
            if batch is failed and index not in reported:
                reported.add(index)
                self.count -= 1

    def empty(self) -> Failures:
        """Return an empty object with the same bounds."""
        return Failures(self._bounds, self._any_topic)

    def take(self) -> Failures:
        """Take all failures out, and return them."""
        taken = self.empty()
        taken.restore(self)
        self._batches, self.count, self._bytes = [], 0, 0
        return taken

    def restore(self, taken: Failures) -> None:
        """Put back failures that could not be raised."""
        self._batches = taken._batches + self._batches
        self.count += taken.count
        self._bytes += taken._bytes

    def pairs(self) -> list[tuple[Message, KafkaException]]:
        """Return each message with its error."""
        found: list[tuple[Any, Any]] = []
        batch: Any
        for batch, reported in self._batches:
            for message in batch.deliveries() if self._any_topic else batch.messages():
                error = batch.error_of(message._index)
                if error is not None and message._index not in reported:
                    found.append((message, error))
        return found


class Completion:
    """The final outcome of batches: notifies their producers, and keeps the failures that were not reported yet.

    State: `failures` and what batches hold change under `lock`.

    :param handler: supplies workers and queues
    :param name: of the topic, as logs and errors have it
    :param options: of the producer
    :param lock: the producer's
    :param accumulator: whose broker queues count the batches
    :param progress: set when a caller may have waited for the completed batches
    :param limiter: through which warnings go
    :param any_topic: whether messages are for any topic: failures then show them as `Delivery`
    :param listener: hears of each outcome; None: nobody listens
    """

    def __init__(
        self,
        handler: Handler,
        name: str,
        options: ProducerOptions,
        lock: LockType,
        accumulator: RecordAccumulator,
        progress: EventType,
        limiter: LogLimiter,
        any_topic: bool = False,
        listener: ClientListener | None = None,
    ) -> None:
        self._listener = listener
        self._now = handler.now
        self._name = name
        self._any_topic = any_topic
        self._options = options
        self._lock = lock
        self._accumulator = accumulator
        self._progress = progress
        self._limiter = limiter
        queued = Bounds(options.max_queued_messages, options.max_queued_bytes)
        self.failures = Failures(Bounds(options.max_failed_messages, options.max_failed_bytes), any_topic)
        #: Whether some callbacks only observe (`Callback.reports`), or are traces: they report no failure.
        self.observed = False
        # of the event alone: the worker keeps no producer alive
        self.callbacks = DeliveryCallbacks(handler, name, progress.set, queued, listener)
        accumulator.callbacks = self.callbacks

    def complete(self, batch: ProducerBatch, error: KafkaException | None = None, asked_for: bool = False) -> None:
        """Complete a batch for good: acknowledged, or failed by `error`.

        :param asked_for: whether the application wanted it to fail: then `flush()` and `stop()` do not raise it
        """
        with self._lock:
            in_flight: Any = batch.in_flight
            if in_flight is None or not in_flight.on_wire:  # else a sender may be about to write it
                batch.wire = None
            if batch.done:
                return
            if error is not None:
                batch.error = error.again()  # without the frames that it came through, which hold batches
            batch.done = True
        if self._listener is not None and batch.parts is None:
            self._listener.on_batch(batch, error, self._now())
        if error is not None and not asked_for:
            about = f"{batch.topic}/{batch.partition_id} {type(error).__name__}"
            text, args = "%d messages to %s/%d were not delivered: %s", (batch.topic, batch.partition_id, error)
            self._limiter.warn(log, about, text, batch.count, *args, level=logging.ERROR)
        if batch.parent is not None:
            self._complete_whole(batch.parent)
            return
        if (error is not None or batch.parts is not None) and not self._options.sync and not asked_for:
            self._keep_unreported(batch)
        if batch.reports and self.observed:
            self._end_traces(batch)
        if batch.reports:
            self._report(batch)
        else:
            batch.reported = True
        # At last: callers of `produce()`, `flush()` and `stop()` wait for these two, and look at reports and calls then.
        if batch.event is not None:
            batch.event.set()
        self._accumulator.release(batch)
        self._progress.set()

    def _complete_whole(self, parent: ProducerBatch) -> None:
        """Complete a batch that was split, once its last part is."""
        if not all(part.done for part in parent.parts or ()):
            return
        self.complete(parent)
        with self._lock:
            # Parts and whole refer to each other, and would stay until the garbage collector comes by.
            for part in parent.parts or ():
                part.parent = None

    def _keep_unreported(self, batch: ProducerBatch) -> None:
        reports = batch.reports
        reported = reports if not self.observed else [one for one in reports if one.delivery_report_q.reports]
        if len(reported) < batch.count:
            self.keep(batch, reported)

    def _end_traces(self, batch: ProducerBatch) -> None:
        """End the traces of a batch's messages, and leave the callbacks of the application."""
        traced: list[tuple[Any, int]] = []
        reports: list[Any] = []
        contexts: list[Any] = []
        for message, context in zip(batch.reports, batch.contexts, strict=True):
            callback = message.delivery_report_q
            if hasattr(callback, "after"):
                traced.append((callback, message._index))
                message.delivery_report_q = callback = callback.after
            if callback is not None:
                reports.append(message)
                contexts.append(context if type(callback) is Callback else None)
        if traced:
            batch.reports, batch.contexts = reports, contexts
            traced[0][0].delivered(batch, traced)

    def _report(self, batch: ProducerBatch) -> None:
        """Queue the callbacks and the reports of a completed batch."""
        reports, batch.reports = batch.reports, []
        contexts, batch.contexts = batch.contexts, []
        if self._options.delivery_reports:
            queued = [
                (message, batch.error_of(message._index))
                for message in reports
                if type(message.delivery_report_q) is not Callback
            ]
            reports = [message for message in reports if type(message.delivery_report_q) is Callback]
            contexts = [context for context in contexts if context is not None]
            if queued:  # all of the queues are of one producer
                queued[0][0].delivery_report_q.reports.put(queued, batch.queued_bytes / max(batch.count, 1))
        if reports:
            self.callbacks.report(batch, reports, contexts, batch.queued_bytes)
        else:
            batch.reported = True

    def keep(self, batch: Any, reported: Sequence[Message]) -> None:
        """Keep what has failed of a batch until it is reported; at the bound, the next `produce()` raises it.

        :param reported: messages that are reported
        """
        indexes = {message._index for message in reported}
        first = 0
        for leaf in _leaves(batch):
            if leaf.error is not None:
                those = {index - first for index in indexes if first <= index < first + leaf.count}
                with self._lock:
                    those |= getattr(leaf, "raised_indexes", None) or set()
                    self.failures.add(leaf, leaf.count, leaf.size, those)
                    if self.failures.full:
                        self._accumulator.close()
            first += leaf.count

    def mark_reported(self, batch: ProducerBatch, index: int) -> None:
        """Note that a failed message was reported, by `Delivery.get()`."""
        leaf: Any = batch
        while leaf.parts is not None and leaf.error is None:
            leaf, index = leaf.part_of(index)
        with self._lock:
            leaf.raised_indexes = (leaf.raised_indexes or set()) | {index}  # it may not be among the failures yet
            self.failures.mark_reported(leaf, index)

    def end_callbacks(self, limit: float | None = None) -> None:
        """Wait until `on_delivery` has been called for each message; failures that it could not report are raised instead.

        :param limit: how long at most (s); None: while functions return, each within `pending_timeout_ms`
        """
        unreported = 0
        patience = self._options.pending_timeout_ms / 1000 if limit is None else limit
        batch: Any
        for batch, messages in self.callbacks.finish(patience, total=limit is not None):
            indexes = {message._index for message in messages}
            unreported += len(messages)
            if self._options.sync:
                continue  # produce() has raised it
            self.keep(batch, [message for message in batch.messages() if message._index not in indexes])
        if unreported:
            why = (
                "on_delivery has not returned for %d ms"
                if limit is None
                else "the %d ms that were left for it are over"
            )
            log.error(
                f"{why}: on_delivery is not called for %d messages to %s; those of them that failed are raised",
                round(patience * 1000),
                unreported,
                self._name,
            )

    def _not_delivered(self, pairs: list[tuple[Any, KafkaException]]) -> MessagesNotDelivered:
        if not self._any_topic:
            return MessagesNotDelivered(self._name, pairs)
        topics = {delivery.topic for delivery, _ in pairs}
        return MessagesNotDelivered(topics.pop() if len(topics) == 1 else None, pairs)

    def raise_failures(self, failed: Failures) -> None:
        """Raise failures that were taken out; if that is cut off, they are kept.

        :raises MessagesNotDelivered: there are some
        """
        if not failed.count:
            return
        try:
            raise self._not_delivered(failed.pairs())
        except BaseException as error:
            if not isinstance(error, MessagesNotDelivered):  # Ctrl-C, or a timeout
                with self._lock:
                    self.failures.restore(failed)
            raise


def _leaves(batch: Any) -> list[Any]:
    """Return the batches that were sent for this one: itself, unless it was split."""
    if batch.parts is None or batch.error is not None:  # given up as a whole, while a sender was about to split it
        return [batch]
    return [leaf for part in batch.parts for leaf in _leaves(part)]


def unknown_outcome(batch: ProducerBatch, error: KafkaException, plain: bool = False) -> DeliveryUnknownError | None:
    """Return the error of a batch that the broker may have, in spite of `error`; else None.

    What an abort takes back does not count, whether the broker has it or not.

    :param plain: also of a batch without sequence numbers: `error` does not say so
    """
    in_flight = batch.in_flight
    if in_flight is None or not in_flight.may_be_written or isinstance(error, TransactionAbortedError):
        return None
    if not (plain or in_flight.numbered or in_flight.doubted):
        return None
    unknown = DeliveryUnknownError(
        f"given up, though the broker may have it: {error}", topic=batch.topic, partition=batch.partition_id
    )
    unknown.__cause__ = error.again()
    return unknown
