"""`BatchResults`: the results of batches in flight: delivered, sent again, divided, or given up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from pykafka.exceptions import (
    InvalidRecord,
    KafkaException,
    ProducerStoppedException,
    ProtocolClientError,
    RequestTimedOut,
    ResponseTimeoutError,
)
from pykafka.producer.in_flight_window import Verdict

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import LockType
    from pykafka.metrics.listener import ClientListener
    from pykafka.producer.accumulator import PartitionQueue
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.in_flight_window import InFlightBatch
    from pykafka.producer.produce_request import BatchResult
    from pykafka.producer.retry_policy import RetryPolicy

log = logging.getLogger(__name__)


class BatchOwner(Protocol):
    """The caller that sends batches and hears of their results. It marks a delivered or failed batch `done`."""

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue: ...
    def leaders_moved(self) -> None: ...  # they may have: look them up
    def leader_named(self) -> None: ...  # the cluster knows a new one already: take it over
    def delivered(self, batch: ProducerBatch) -> None: ...
    def failed(
        self, batch: ProducerBatch, error: KafkaException, given_up: bool
    ) -> None: ...  # given_up: out of time or tries
    def divide(
        self, batch: ProducerBatch, error: KafkaException | None
    ) -> list[ProducerBatch]: ...  # into smaller ones


class BatchResults:
    """The completion of batches by their responses, as the `InFlightWindow` of their partition judges.

    State: what batches and windows hold changes under the owner's lock.

    :param handler: supplies the clock
    :param lock: the owner's
    :param retry_policy: pauses and bounds
    :param owner: of the batches
    :param metadata_error: returns why the cluster cannot be asked for leaders, if it cannot
    :param listener: hears of batches that are sent again; None: nobody listens
    """

    def __init__(
        self,
        handler: Handler,
        lock: LockType,
        retry_policy: RetryPolicy,
        owner: BatchOwner,
        metadata_error: Callable[[], KafkaException | None] = lambda: None,
        listener: ClientListener | None = None,
    ) -> None:
        self._listener = listener
        self._handler = handler
        self._lock = lock
        self._retry_policy = retry_policy
        self._owner = owner
        self._metadata_error = metadata_error

    def acknowledged(self, batch: ProducerBatch) -> None:
        """Apply the result of a batch that is written; call it again after an interruption."""
        in_flight = batch.in_flight
        with self._lock:
            queue = self._owner.queue_of(batch)
            oldest = queue.window.acknowledge(in_flight)
            if oldest:
                _note_end(queue, batch)
        if not oldest:
            self.apply([(batch, None)])
            return
        self._owner.delivered(batch)
        in_flight.batch = None  # as in `_let_go`

    def apply(self, results: Sequence[BatchResult], led: Collection[ProducerBatch] = ()) -> None:
        """Apply the result of each batch, and of those that it decides; call it again after an interruption.

        :param led: batches whose new leader the broker has named, and the cluster taken over
        """
        for batch, error in results:
            with self._lock:
                queue = self._owner.queue_of(batch)
                window = queue.window
                if batch.record_errors is not None and isinstance(error, InvalidRecord):
                    # The topic takes no such record: so it has not taken it in a former try, of which nothing was heard.
                    batch.in_flight.outcome_unknown = batch.in_flight.doubted = False
                judged = (
                    window.on_result(batch.in_flight, error, _room(queue, batch))
                    if batch.in_flight in window.batches
                    else []
                )
                if judged and judged[0][1] is Verdict.DELIVERED:
                    _note_end(queue, batch)
                for in_flight, verdict in judged:
                    if verdict is Verdict.RETRY:  # not before that is followed
                        self._retry_policy.back_off(in_flight.batch)
            if not judged and not batch.done and batch.parts is None:  # this was interrupted half-way
                judged = [(batch.in_flight, Verdict.DELIVERED if error is None else Verdict.FAILED)]
            for in_flight, verdict in judged:
                self._follow(in_flight.batch, verdict, error, in_flight.batch in led)
                if verdict in (Verdict.DELIVERED, Verdict.FAILED):
                    _let_go(in_flight)

    def _follow(self, batch: ProducerBatch, verdict: Verdict, error: KafkaException | None, led: bool) -> None:
        """Apply the verdict on a batch.

        :param led: whether its new leader is known
        """
        if error is None or verdict is Verdict.DELIVERED:
            self._owner.delivered(batch)
        elif verdict is Verdict.SPLIT:
            if batch.done:  # its time is over, or a close has given it up
                self.give_up(batch, error, True)
            else:
                self.split(batch, error, str(error))
        elif verdict is Verdict.FAILED:
            self._owner.failed(batch, error, False)
        elif verdict is Verdict.RETRY and not self._may_retry(batch, error, led):
            self.give_up(batch, error, True)
        else:
            log.info("will send %d messages to %s/%d again: %s", batch.count, batch.topic, batch.partition_id, error)
            if self._listener is not None:
                self._listener.on_retry(batch, error)
            with self._lock:
                batch.last_error = error.again()
                batch.record_errors = None
                if led or verdict is Verdict.RETRY_IN_ORDER:
                    batch.retry_at = self._handler.now()

    def _may_retry(self, batch: ProducerBatch, error: KafkaException, led: bool) -> bool:
        if led:
            self._owner.leader_named()
        elif (
            error.invalid_metadata
            # A leader that is cut off from the controller answers so to each batch: its followers copy from the new leader.
            or isinstance(error, RequestTimedOut)
            or not isinstance(error, ProtocolClientError)
        ):
            self._owner.leaders_moved()
        return self._retry_policy.may_retry(batch, error)

    def unsent(self, batches: Sequence[ProducerBatch], error: KafkaException) -> None:
        """Put back batches that did not reach a broker; they go later, to the leader of that time."""
        with self._lock:
            for batch in batches:
                self._owner.queue_of(batch).window.unsent(batch.in_flight)
                batch.last_error = error.again()
                self._retry_policy.back_off(batch)
        for batch in batches:
            self.check_age(batch)

    def check_age(self, batch: ProducerBatch) -> None:
        """Fail a batch that has waited beyond the delivery timeout."""
        if not self._retry_policy.expired(batch):
            return
        queue = self._queue_of(batch)
        if queue is not None:
            self.give_up(batch, reason_of_age(batch, queue, self._metadata_error()), True)

    def _queue_of(self, batch: ProducerBatch) -> PartitionQueue | None:
        """Return the queue of a batch; None if another worker has failed it, and the producer has left its idle topic since."""
        try:
            return self._owner.queue_of(batch)
        except KeyError:
            return None

    def split(self, batch: ProducerBatch, error: KafkaException | None, reason: str) -> None:
        """Replace a batch that the broker refuses by smaller ones, so that only the refused messages fail.

        :param error: of the broker; None if it was not asked
        :param reason: for the log
        """
        if self._listener is not None and error is not None:  # it was sent, and goes again
            self._listener.on_retry(batch, error)
        parts = self._owner.divide(batch, error)
        with self._lock:
            done = batch.done or batch.given_up or batch.in_flight not in self._owner.queue_of(batch).window.batches
            if done:
                batch.parts = None
        if done:  # meanwhile its time has ended, or a close has given it up: that error stands
            self.give_up(batch, batch.error or error or ProducerStoppedException("the producer was stopped"), True)
            return
        about = (batch.topic, batch.partition_id, batch.count, len(parts))
        log.info("%s/%d: %d messages go in %d parts: %s", *about, reason)
        with self._lock:
            window = self._owner.queue_of(batch).window
            for in_flight in window.split(batch.in_flight, [(part, part.count) for part in parts]):
                in_flight.batch.in_flight = in_flight
        _let_go(batch.in_flight)

    def give_up(self, batch: ProducerBatch, error: KafkaException, expired: bool) -> None:
        """Fail a batch that is still in its window, and those that depended on it.

        :param expired: whether its time or its tries are over
        """
        with self._lock:
            queue = self._queue_of(batch)
            window = None if queue is None else queue.window
            left = window.drop(batch.in_flight) if window is not None and batch.in_flight in window.batches else []
        for in_flight in left:
            self._owner.failed(in_flight.batch, error, expired)
            _let_go(in_flight)


def reason_of_age(batch: ProducerBatch, queue: PartitionQueue | None, unasked: KafkaException | None) -> KafkaException:
    """Return why a batch has waited beyond its time.

    :param queue: that it is from, or was
    :param unasked: why the cluster cannot be asked for leaders, if it cannot
    """
    error = batch.last_error
    # A broker that has said that it does not lead is not the reason, if no broker names the leader.
    if unasked is not None and (error is None or (isinstance(error, ProtocolClientError) and error.invalid_metadata)):
        return unasked.again()
    if error is not None:
        return error
    owner = None if queue is None or queue.partition is None or queue.partition.leader is None else queue.owner
    if owner is None:
        return RequestTimedOut("no broker leads the partition; check that its replicas are up")
    return ResponseTimeoutError(
        "the client waited for the broker, or for answers to other messages, until the message was too old to be sent",
        broker=owner.broker.address,
    )


def _room(queue: PartitionQueue, batch: ProducerBatch) -> int | None:
    """Return how many messages may be between a batch and those acknowledged before it; None if that is unknown."""
    return batch.base_offset - queue.next_offset if batch.base_offset >= 0 and queue.next_offset >= 0 else None


def _note_end(queue: PartitionQueue, batch: ProducerBatch) -> None:
    """Note the offset behind a batch that was acknowledged."""
    if batch.base_offset >= 0:
        queue.next_offset = max(queue.next_offset, batch.base_offset + batch.count)


def _let_go(in_flight: InFlightBatch) -> None:
    # It has left its window, and the two refer to each other: the batch would stay in memory until the next garbage collection,
    # which few objects of many bytes do not hasten.
    in_flight.batch = None
