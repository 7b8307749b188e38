"""`ProducerEngine`: starting and stopping senders, finding room for messages, and waiting for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    ClientClosedError,
    LeaderNotFoundError,
    ProducerQueueFullError,
    ProducerStoppedException,
    ResponseTimeoutError,
    WorkerNotStartedError,
)
from pykafka.handlers.start_once import StartOnce
from pykafka.metadata.brokers import QUICK_CONNECT_MS
from pykafka.metrics.listener import BUFFER_WAIT, FLUSH
from pykafka.producer.accumulator import RECORD_OVERHEAD, Owner, PartitionQueue, headers_size
from pykafka.producer.batch import ProducerBatch
from pykafka.producer.completion import unknown_outcome
from pykafka.producer.core import ProducerCore
from pykafka.producer.producer_id import ProducerIds
from pykafka.producer.retry_policy import PASSING
from pykafka.producer.routing import Routing

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import TopicView
    from pykafka.metrics.metric import Metric
    from pykafka.network.node import Node
    from pykafka.producer.options import ProducerOptions
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

#: How long stop() waits for senders to end, beyond what it waits for messages (s); no longer than its timeout, if it has one.
JOIN_TIMEOUT_S = 5.0
#: How long a stop() whose timeout is over waits for senders to end, and then for the callbacks of what it has given up (s).
GRACE_S = 0.25
#: So many leaders are asked at first whether they know the idempotent producer; others when there is something to send.
CHECKED_LEADERS = 16
#: How often a caller that waits for room looks again, if nothing wakes it (s).
ROOM_S = 0.1


class ProducerEngine(ProducerCore):
    """Run a producer: its senders, the room for its messages, and the wait for them.

    State: `start()` and `stop()` change `running` and `stopping`; `routing` is of one run.

    Parameters as for `ProducerCore`.
    """

    #: What a stopped producer's error says to do.
    ANEW = "call start(), or make another"
    #: Whether a stop that a timeout or cancellation ends may be called again, and continues to deliver.
    RESUMES = False

    def __init__(
        self,
        cluster: BaseCluster,
        topic: TopicView | None,
        options: ProducerOptions,
        make_sender: Callable[[Node], Owner],
    ) -> None:
        super().__init__(cluster, topic, options, make_sender)
        self.running = False
        self.stopping = False
        #: In a forked child the next message starts it again.
        self.starts = StartOnce(self.handler)
        #: Called when it has started, also in a forked child, and when it has stopped.
        self.on_start: Callable[[], object] = int
        self.on_stop: Callable[[], object] = int
        self.routing = Routing(self)
        self._left_to_parent: list[Any] = []

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to take messages, which start the senders of their leaders; errors as for `Producer.start`.

        If another worker is starting it, wait for that.
        """
        self.starts.run(self._start, self.stop)

    def _start(self) -> None:
        if self.running:
            return
        if self.cluster.closed:
            raise ClientClosedError("this client was closed; make a new KafkaClient", topic=self.topic_name)
        self.worker_exception = None
        self.routing = Routing(self)
        for buffer_pool in (self.buffer_pool, self.buffer_pool.shared):
            if buffer_pool is not None:
                buffer_pool.join(self)
        self.producer_ids = ProducerIds(self.cluster, self.options.enable_idempotence)
        if self.topic is not None:
            self.topic_ids.begin(self.name)
            if self.options.enable_idempotence:
                self._check_leaders(self.topic)
        try:
            self.set_up()
        except BaseException:
            self.routing.ended = True
            for owned in self.routing.owned_brokers.values():
                owned.stop()
            raise
        self.running = True
        self.accumulator.closed = False
        self.cluster.on_part_start()
        self.on_start()

    def set_up(self) -> None:
        """Give each leader a sender, and each partition's queue to its leader's."""
        self.routing.set_up()

    def hurry(self) -> None:
        """Wake the senders: a caller waits for room."""
        for owned in list(self.routing.owned_brokers.values()):
            owned.wake.set()

    def _check_leaders(self, topic: TopicView) -> None:
        """Raise UnsupportedVersion if a leader that can be asked now knows no idempotent producer.

        They are asked together, for a short time: the first message of a topic waits for this.
        """
        found = {partition.leader for partition in topic.partitions.values() if partition.leader is not None}
        leaders = sorted(found, key=lambda leader: leader.id)[:CHECKED_LEADERS]
        limit_ms = min(QUICK_CONNECT_MS, self.cluster.socket_timeout_ms)
        asked = [leader for leader in leaders if not self.producer_ids.is_known_to(leader)]
        if not asked:
            return
        from pykafka.metadata.reaching import reached  # mostly their versions are known

        ask = partial(self.producer_ids.known_to, timeout_ms=limit_ms)
        for leader, error in reached(self.handler, asked, ask, limit_ms / 1000):
            if error is not None and not error.retriable:
                raise error
            if error is not None:
                log.info("broker %s is asked what it knows when there is something to send: %s", leader.address, error)

    def read_metrics(self) -> list[Metric]:
        """Return the metrics of now."""
        from pykafka.producer.producer_metrics import read_producer

        return read_producer(self, self.routing).metrics

    def metric_labels(self) -> dict[str, str]:
        """Return the labels of the producer's metrics at brokers (KIP-714)."""
        return {"transactional_id": getattr(self.options, "transactional_id", None) or ""}

    def after_fork(self) -> None:
        """Leave to the parent what is its own, in a forked child; the next message starts afresh.

        Senders are threads that this child has not got, or greenlets that it has got a copy of, which must not send; locks
        may be held by nobody.
        """
        self._left_to_parent.append((self.routing, self.producer_ids, self.accumulator))
        for owned in self.routing.owned_brokers.values():
            owned.running = False
        self.starts.after_fork(self.running and not self.stopping)
        self.running = self.stopping = False
        self.undelivered = 0
        self.accumulator.closed = True
        self._begin()
        self.routing = Routing(self)

    def stop(self, timeout_ms: int | None = None) -> None:
        """Deliver queued messages and end the senders; errors as for `Producer.stop`.

        :param timeout_ms: how long to wait at most; None: `pending_timeout_ms`, while no message gets through
        """
        self.starts.stop()
        deadline = None if timeout_ms is None else self.handler.now() + timeout_ms / 1000
        if self.running:
            with self.lock:
                self.stopping = True
                self.accumulator.close()
            try:
                if isinstance(self.worker_exception, (KeyboardInterrupt, SystemExit)):
                    # A signal that came while a sender's greenlet ran: the program has got it, and queued messages can go.
                    self.worker_exception = None
                    for owned in list(self.routing.owned_brokers.values()):
                        if owned.running:
                            owned.running = False
                            owned.start()
                if self.worker_exception is None:
                    self.wait_all(timeout_ms, total=timeout_ms is not None)
            except BaseException as error:
                if not self.RESUMES or isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
                    self._end(deadline)
                raise
            self._end(deadline)
        # also if an interrupt has cut off the call before this, once it had ended all else
        self.completion.end_callbacks(None if deadline is None else self._time_left(deadline))
        self.raise_failures()

    def _time_left(self, deadline: float) -> float:
        """Return how long a stop may still wait (s): a moment at least."""
        return max(deadline - self.handler.now(), GRACE_S)

    def _end(self, deadline: float | None = None) -> None:
        """End the senders and give up the remaining batches, also if a timeout ends this.

        A sender that waits for a broker ends when that wait does. It sends nothing then: its batches are done.

        :param deadline: when to stop waiting for senders (s of the handler's clock); None: after `JOIN_TIMEOUT_S`
        """
        with self.lock:
            self.routing.ended = True
        owned_brokers = list(self.routing.owned_brokers.values())
        patience = JOIN_TIMEOUT_S if deadline is None else min(self._time_left(deadline), JOIN_TIMEOUT_S)
        until = self.handler.now() + patience
        try:
            self.routing.deadlines.stop()
            for owned in owned_brokers:
                owned.stop()
            for owned in owned_brokers:
                owned.join(max(until - self.handler.now(), 0))
            self.routing.deadlines.join(max(until - self.handler.now(), 0))
            self.routing.lookup.join(max(until - self.handler.now(), 0))
        finally:
            self.running = self.stopping = False
            self.on_stop()
            self._give_up_queued()

    def raise_failures(self) -> None:
        """Raise the failures that were not reported yet, and forget them."""
        with self.lock:
            failed = self.completion.failures.take()
            if self.running and not self.stopping:
                self._reopen()
        self.completion.raise_failures(failed)

    def _reopen(self) -> None:
        """Take messages again; the caller holds the lock."""
        self.accumulator.closed = False

    def flush(self, timeout_ms: int | None = None, total: bool = False) -> None:
        """Wait until queued messages are acknowledged or have failed; parameters and errors as for `Producer.flush`."""
        patience = self.options.pending_timeout_ms if timeout_ms is None else timeout_ms
        began = self.handler.now()
        left = self.wait_all(timeout_ms, total)
        if self.listener is not None:
            self.listener.on_event(FLUSH, self.name, self.handler.now() - began, f"{left} messages left")
        self.raise_worker_exception()
        if left:
            failed = (
                f" ({self.completion.failures.count} others have failed: the next flush() raises them)"
                if self.completion.failures.count
                else ""
            )
            raise ResponseTimeoutError(
                f"{left} messages are still queued, and none got through for {patience} ms{failed}; see that the brokers are "
                f"up and on_delivery returns, or give flush() a longer timeout_ms{self._about_throttling()}",
                topic=self.topic_name,
            )
        self.raise_failures()

    def wait_all(self, timeout_ms: int | None = None, total: bool = False) -> int:
        """Wait until nothing is queued, or nothing has got through for so long; return how many messages are left."""
        patience = (self.options.pending_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        with self.lock:
            self.flushing += 1
        try:
            # A function of on_delivery that flushes does not wait for itself.
            here = self.completion.callbacks.here
            calls = self.completion.callbacks.calls
            found: list[Any] = self.queued()
            if not here:
                found += self.completion.callbacks.waiting()
            pending = list({id(batch): batch for batch in found}.values())
            deadline = self.handler.now() + patience
            while pending and self.worker_exception is None:
                self._hasten(pending, deadline)
                self.completion.callbacks.begin()
                remaining = deadline - self.handler.now()
                if remaining <= 0:
                    break
                self.progress.wait(min(remaining, 1.0))
                self.progress.clear()
                left = [batch for batch in pending if not (batch.done if here else batch.reported)]
                if total:
                    pass
                elif len(left) < len(pending) or calls != self.completion.callbacks.calls:
                    calls, deadline = self.completion.callbacks.calls, self.handler.now() + patience
                pending = left
            return sum(batch.count for batch in pending)
        finally:
            with self.lock:
                self.flushing -= 1

    def _hasten(self, pending: list[ProducerBatch], deadline: float) -> None:
        """Send what is pending; if it is for one broker, this worker does, which costs less than waking others.

        :param deadline: until when to help (s of the handler's clock)
        """
        owned_brokers = list(self.routing.owned_brokers.values())
        busy = [owned for owned in owned_brokers if owned.active]
        for owned in busy:  # whatever has kept its worker from starting
            try:
                owned.start()
            except WorkerNotStartedError as error:  # those that wait try again
                text = "the sender of broker %d has no worker: %s"
                self.cluster.limiter.warn(log, str(owned.broker.id), text, owned.broker.id, error)
        if len(busy) == 1 and not self.stopping and self.may_help:  # whatever hangs, `stop()` ends in time
            busy[0].deliver_all(
                lambda: (
                    all(batch.done for batch in pending)
                    or self.worker_exception is not None
                    or self.handler.now() >= deadline
                )
            )
            return
        for owned in owned_brokers:
            owned.wake.set()

    @property
    def may_help(self) -> bool:
        """Whether sending what is queued needs no answer of a broker before."""
        return True

    def queued(self) -> list[ProducerBatch]:
        """Return the batches that are queued now; messages that are produced later do not prolong the wait."""
        with self.lock:
            owned_brokers = self.routing.owned_brokers.values()
            busy = [queue for owned in owned_brokers for queue in owned.active.values()]
            found = [batch for owned in owned_brokers for batch in owned.awaited()]
            found += [batch for batch, _ in self.routing.deadlines.failing]
            found += [one.batch for queue in busy for one in queue.window.batches]
            for queue in busy:
                found += queue.closed_batches
                if queue.open is not None and queue.open.count:
                    found.append(queue.open)
            here = self.completion.callbacks.here
            # what is done and not reported is being completed by another worker
            left = {id(whole): whole for whole in map(_whole, found) if not (whole.done if here else whole.reported)}
            return list(left.values())

    def _about_throttling(self) -> str:
        """Return what an error about time is to say of brokers that throttle; nothing if none does."""
        for owned in list(self.routing.owned_brokers.values()):
            muted_for = owned.broker.throttled_for("produce")
            if muted_for:
                return (
                    f"; broker {owned.broker.address} throttles this client by a quota, "
                    f"for {muted_for * 1000:.0f} ms more"
                )
        return ""

    def _give_up_queued(self) -> None:
        error = ProducerStoppedException(
            "the producer was stopped before the message got through "
            f"(pending_timeout_ms={self.options.pending_timeout_ms}{self._about_throttling()})",
            topic=self.topic_name,
        )
        left: list[ProducerBatch | None] = []
        with self.lock:
            left += [batch for batch, _ in self.routing.deadlines.failing]
            for queue in self.routing.queues.values():
                left += [in_flight.batch for in_flight in queue.window.batches]
                left += queue.closed_batches
                left.append(self.accumulator.shut(queue))  # for good: a caller may still wait for room in this queue
        for batch in left:
            if batch is not None and not batch.done:
                batch.parts = None  # a sender that is about to split it comes too late
                self.undelivered += batch.count
                reason = batch.last_error or error
                if self.transaction is not None:  # first: its commit waits for the messages in another worker
                    self.transaction.failed(reason)
                self.completion.complete(batch, unknown_outcome(batch, reason, plain=True) or reason)
        self.routing = Routing(self)
        self.accumulator.queues = []
        self.accumulator.topics = {}

    def check_running(self) -> None:
        """Raise what ended a sender, that the producer takes no messages, or what has failed if that is too much."""
        self.raise_worker_exception()
        if not self.running or self.stopping:
            raise self.stopped()
        if self.completion.failures.full:
            self.raise_failures()

    def check_open(self) -> None:
        """Raise an error if the producer was stopped; one that this process has from its parent starts again."""
        if (not self.running or self.stopping) and not self.starts.due:
            raise self.stopped()

    def stopped(self) -> ProducerStoppedException:
        """Return the error for calls that need a running producer."""
        return ProducerStoppedException(f"the producer is not running; {self.ANEW}", topic=self.topic_name)

    # -- room for messages -----------------------------------------------------------------------------------------

    def place(
        self, queue: PartitionQueue, value: Any, key: Any, timestamp: int, headers: Any, callback: Any
    ) -> Message:
        """Write a message into the open batch of its partition, waiting for room if that is allowed.

        :param callback: where to report the outcome: a `Callback`, a queue of reports, a trace, or None
        """
        while True:
            message = self.accumulator.append(value, key, timestamp, headers, queue, callback)
            if message is not None:
                return message
            self._make_room(queue, RECORD_OVERHEAD + len(value or b"") + len(key or b"") + headers_size(headers or ()))

    def await_acknowledgement(self, queue: PartitionQueue, message: Message) -> None:
        """Wait for the outcome of a message that was written, if the producer is synchronous; raise its error."""
        if self.options.sync:
            if queue.owner is not None:
                batch: Any = message._batch
                queue.owner.deliver(lambda: batch.done, patient=True)
            self._wait_for(message)

    def await_queue(self, find: Callable[[], PartitionQueue | None]) -> PartitionQueue | None:
        """Ask for the metadata of the only topic until a partition is there; None if it is not within `pending_timeout_ms`.

        :param find: returns the queue of the partition, or None
        """
        name, cluster = self.name, self.cluster
        deadline, failures = self.handler.now() + self.options.pending_timeout_ms / 1000, 0
        while True:
            self.check_running()
            left = deadline - self.handler.now()
            try:
                cluster.refresh(cluster.generation, [name], max(1, int(left * 1000)))
            except PASSING as error:
                log.info("topic %s: %s", name, error)
            self.routing.catch_up()
            queue = find()
            failures += 1
            pause = cluster.retry_backoff.seconds(failures)
            if queue is not None or not self.options.block_on_queue_full or self.handler.now() + pause >= deadline:
                return queue
            self.handler.sleep(pause)

    def _make_room(self, queue: PartitionQueue, need: int) -> None:
        """Find out why a message found no room, and see to it: a full queue, a full batch, or none yet.

        :param need: what the message takes (bytes)
        """
        self.check_running()
        if self.routing.queues.get(queue.key) is not queue:
            raise ProducerStoppedException("the producer was stopped before there was room", topic=queue.topic)
        owner = queue.owner
        if owner is None:
            raise LeaderNotFoundError("no broker leads this partition", topic=queue.topic, partition=queue.partition_id)
        # A function of on_delivery may produce all the same: it cannot wait for itself.
        callbacks_full = self.completion.callbacks.full and not self.completion.callbacks.here
        if not owner.broker_queue.full and not callbacks_full and need <= self.buffer_pool.room:
            if self.routing.outgrown:
                self.routing.catch_up()
            owner.open_batch(queue)
            return
        if not self.options.block_on_queue_full:
            if callbacks_full:
                held = f"{self.completion.callbacks.messages} messages wait for on_delivery"
            elif need > self.buffer_pool.room:
                held = f"buffer_memory of the client has room for {self.buffer_pool.room} bytes"
            else:
                messages, nbytes = owner.broker_queue.messages, owner.broker_queue.bytes
                held = f"{messages} messages ({nbytes} bytes) are queued for broker {owner.broker.id}"
            raise ProducerQueueFullError(
                f"{held}; produce more slowly, raise max_queued_messages, or let block_on_queue_full wait",
                topic=self.topic_name,
            )
        owner.wake.set()
        began = self.handler.now()
        if need > self.buffer_pool.room:
            self.buffer_pool.wait(self.handler.Event(), ROOM_S)
        else:
            self.progress.wait(ROOM_S)
            self.progress.clear()
        if self.listener is not None:
            self.listener.on_event(BUFFER_WAIT, queue.topic, self.handler.now() - began)

    def _wait_for(self, message: Message) -> None:
        """Wait until a message is acknowledged, and raise what went wrong."""
        batch: Any = message._batch
        if batch.event is not None and not batch.done:
            self._wait_for_batch(batch)
        error = message.error
        if error is not None:
            raise error

    def _wait_for_batch(self, batch: ProducerBatch) -> None:
        options = self.options
        patience = options.delivery_timeout_s + max(options.ack_timeout_ms, self.cluster.socket_timeout_ms) / 1000
        deadline = self.handler.now() + patience + JOIN_TIMEOUT_S
        while batch.event is not None and not batch.done:
            self.raise_worker_exception()
            if self.handler.now() > deadline:  # the sender answers for each batch before, if it was not interrupted
                raise ResponseTimeoutError(
                    "the sender has not said what became of the message; stop() the producer, and start() it again",
                    topic=self.topic_name,
                    partition=batch.partition_id,
                )
            batch.event.wait(1.0)


def _whole(batch: ProducerBatch) -> ProducerBatch:
    """Return the batch that was split into this one, else itself."""
    return batch if batch.parent is None else _whole(batch.parent)
