"""`DeliveryDeadlines`: the end of each message's delivery time-out, also while its sender waits for the network."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from pykafka.exceptions import ResponseTimeoutError, WorkerNotStartedError
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.metadata.lifecycle import Tether
from pykafka.producer.batch_results import reason_of_age
from pykafka.producer.completion import unknown_outcome

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Worker
    from pykafka.handlers.base import EventType
    from pykafka.producer.accumulator import Owner, PartitionQueue
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.core import ProducerCore
    from pykafka.producer.leader_requests import LeaderRequests

log = logging.getLogger(__name__)

#: How long after its time a batch is failed (s): senders do that at once, and an answer may be on its way.
GRACE_S = 0.1
#: Maximum sleep (s): the producer may be gone, which then leaves this worker behind, or its senders done.
POLL_INTERVAL_S = 1.0
#: Minimum sleep (s): each look goes through all partitions, and in an outage of many each one has a time of its own.
LEAST_S = 0.02


class Queues(Protocol):
    """The queues of one run of a producer; `pykafka.producer.routing.Routing` documents each member."""

    queues: dict[tuple[str, int], PartitionQueue]
    owned_brokers: dict[int, Owner]
    ended: bool


class DeliveryDeadlines:
    """A worker that fails batches at the end of their delivery time-out, if a sender or a request may last longer than they.

    A sender gives up what is too old by itself, but not while it connects, or writes to a broker that reads nothing; and a
    request has its full time-out, though its batches, and those that come behind it, may have less time left.
    The worker runs only then, and while leaders are looked up. A batch that a sender or a broker has (`InFlightBatch.on_wire`)
    stays in its window until its response: the numbers behind it stay valid, and an abort still waits for it.

    State: `_running` changes under the producer's lock.

    :param core: of the producer
    :param routing: of the run of the producer
    """

    def __init__(self, core: ProducerCore, routing: Queues) -> None:
        self._core = core
        self._routing = routing
        self._timeout_s = core.options.delivery_timeout_s + GRACE_S
        self._wake = core.handler.Event()
        self._running = False
        self._worker: Worker | None = None
        #: What is being failed, in no queue or window any more: with the error of what was in flight.
        self.failing: deque[tuple[ProducerBatch, KafkaException | None]] = deque()

    def start(self) -> None:
        """Start the worker, if it is not running; it ends when nothing is queued or in flight, and no sender works."""
        # without any time each batch is tried once, with all the time of its request
        if self._running or not self._core.options.delivery_timeout_ms or self._routing.ended or not self._claim():
            return
        worker = None
        try:
            tether = Tether(self._wake)
            self._core.cluster.stop_at_close(tether)
            name = f"pykafka.DeliveryDeadlines.{self._core.name}"
            run = partial(_run, weakref.ref(self), self._wake, tether)
            self._worker = worker = OwnedWorker(self._core.handler, run, name)
            worker.start()
        except WorkerNotStartedError as error:  # the next request tries again; the sender itself gives up what it can
            self._running = False
            text = "messages that wait longer than delivery_timeout_ms may be reported late: %s"
            self._core.cluster.limiter.warn(log, "deadlines", text, error)
        except BaseException:  # an interrupt may come when the worker has begun
            self._running = is_at_work(worker)
            raise

    def _claim(self) -> bool:
        with self._core.lock:
            running, self._running = self._running, True
        return not running

    def stop(self) -> None:
        """End the worker, after the run of the producer has ended."""
        self._wake.set()

    def join(self, timeout: float) -> None:
        """Wait until the worker has ended, `timeout` seconds at most."""
        if self._worker is not None:
            self._worker.join(timeout)

    def ended(self) -> None:
        """Note that an error has ended the worker: the next request starts another one."""
        self._running = False

    def look(self) -> float | None:
        """Fail what is too old; return how long to sleep (s), or None to end."""
        core, now = self._core, self._core.handler.now()
        next_at = now + min(POLL_INTERVAL_S, self._timeout_s)
        with core.lock:
            needed = False
            for queue in list(self._routing.queues.values()):
                self.failing += self._take_late(queue, now)
                # What comes later waits for the request before, which may outlast its own batches.
                needed = needed or queue.window.on_wire > 0
                left = [in_flight.batch for in_flight in queue.window.batches if not in_flight.batch.done]
                left += list(queue.closed_batches)[:1]
                if queue.open is not None and queue.open.count:
                    left.append(queue.open)
                for batch in left:
                    needed = True
                    next_at = min(next_at, batch.created + self._timeout_s)
            if self._routing.ended or (
                not needed and not any(owned.at_work for owned in self._routing.owned_brokers.values())
            ):
                self._running = False
        while self.failing:
            batch, error = self.failing[0]
            fail(core, batch, error or self._reason(batch), True)
            self.failing.popleft()  # not before: `flush()` and `stop()` look here
        return max(next_at - now, LEAST_S) if self._running else None

    def _take_late(self, queue: PartitionQueue, now: float) -> list[tuple[ProducerBatch, KafkaException | None]]:
        """Return what is too old, with the error of what is in flight; the caller holds the lock.

        What neither a sender nor a broker has is taken out of the queue.
        """
        late: list[tuple[ProducerBatch, KafkaException | None]] = []
        for in_flight in list(queue.window.batches):
            batch = in_flight.batch
            if batch.done or batch.parts is not None or batch.created + self._timeout_s > now:
                continue
            if in_flight.on_wire:
                batch.given_up = True
                batch.failures += 1
                # without numbers the last error might say that it is not stored, which is not known of this attempt
                known = batch.last_error if in_flight.numbered else None
                late.append((batch, known or self._unanswered(queue, in_flight.numbered)))
            elif in_flight in queue.window.batches:
                late += [(one.batch, None) for one in queue.window.drop(in_flight)]
        while queue.closed_batches and queue.closed_batches[0].created + self._timeout_s <= now:
            late.append((queue.closed_batches.popleft(), None))
        if queue.open is not None and queue.open.count and queue.open.created + self._timeout_s <= now:
            open_batch = self._core.accumulator.take_open(queue)
            if open_batch is not None:
                late.append((open_batch, None))
        return late

    def _unanswered(self, queue: PartitionQueue, numbered: bool) -> KafkaException:
        if self._core.transaction is not None and not numbered:  # they get their numbers after that
            return ResponseTimeoutError(
                "the partition is not in the transaction in time; its coordinator may still be ending the transaction before, "
                "or delivery_timeout_ms is too short",
                api="AddPartitionsToTxn",
            )
        sender = cast("LeaderRequests", queue.sender)  # set before a batch is on the wire
        return ResponseTimeoutError(
            "no answer in time; the broker may be overloaded, or delivery_timeout_ms too short",
            broker=sender.broker.address,
        )

    def _reason(self, batch: ProducerBatch) -> KafkaException:
        """Return why a batch was not sent in time."""
        queue = self._routing.queues.get((batch.topic, batch.partition_id))
        return reason_of_age(batch, queue, self._core.cluster.metadata_error)


def fail(core: ProducerCore, batch: ProducerBatch, error: KafkaException, given_up: bool) -> None:
    """Complete a batch that has failed.

    :param given_up: whether its time or its tries are over
    """
    if given_up:
        error = core.retry_policy.explained(batch, error)
    if core.transaction is not None and not batch.done:  # else that was of a former one, perhaps
        core.transaction.failed(error)
    core.completion.complete(batch, unknown_outcome(batch, error) or error)


def _run(reference: weakref.ref[DeliveryDeadlines], wake: EventType, _: Tether) -> None:
    """Look whenever a batch may be too old; the main function of the worker, which holds no producer while it sleeps."""
    try:
        while True:
            owner = reference()
            pause = None if owner is None else owner.look()
            if pause is None:
                return
            del owner
            wake.wait(pause)
            wake.clear()
    except BaseException:
        owner = reference()
        if owner is not None:
            owner.ended()
        raise
