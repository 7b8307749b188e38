"""`Sender`: one worker per leader, which takes batches that are ready and passes them to its `LeaderRequests`.

A batch's life: open (in `PartitionQueue.open`, written by `append`), closed (full, or taken by the sender), on its way
(in `PartitionQueue.window`, sent once or again), done.

The sender's worker connects, compresses and sends, and begins look-ups of leaders; where `produce()` waits for the
acknowledgement anyway, its worker does the same instead. Answers are handled in the connection's reader worker, which never
blocks: it marks batches and wakes the sender.
"""

from __future__ import annotations

import logging
import math
import weakref
from functools import partial
from typing import TYPE_CHECKING, cast

from pykafka.handlers.interrupts import OwnedWorker
from pykafka.metadata.lifecycle import Tether
from pykafka.producer.accumulator import PartitionQueue, take_next
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.producer.delivery_deadlines import fail
from pykafka.producer.leader_requests import MAX_IN_FLIGHT, LeaderRequests
from pykafka.producer.produce_request import divide

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Worker
    from pykafka.handlers.base import EventType
    from pykafka.network.node import Node
    from pykafka.producer.core import ProducerCore
    from pykafka.producer.produce_request import Request
    from pykafka.producer.routing import Routing


#: As many messages that their callers sent themselves, within `linger_s`, make it worth to look again.
OFTEN = 2

log = logging.getLogger(__name__)

#: Maximum sleep without a wake-up (s): what was queued may have been sent since, or the producer may be gone.
IDLE_POLL_INTERVAL_S = 5.0
#: How often a sender checks whether the metadata is old (s).
CHECK_AGE_S = 5.0
#: How long a sender's worker stays without a message (s); the next one starts another.
IDLE_S = 60.0
#: While more messages than this wait, those that produce leave the sending to the sender.
INLINE_MESSAGES_MAX = 8
#: So much (bytes) the buffers of an idle connection take, at this end and the other, so that sending it is no wait.
INLINE_BYTES_MAX = 160 * 1024


class WakeupPolicy:
    """The light sleep of a sender whose messages are sent by the workers that wait for them (`Delivery.get`).

    The first message of a batch wakes the sender, which then knows when to look. Where the caller sends the batch at once, the
    sender was woken for nothing, and takes the interpreter from the caller. So while callers do that often, the sender looks
    once each `linger_s`, which is early enough for any message that comes meanwhile, and none of them wakes it.

    State: changes under the producer's lock; `helped` by single stores.

    :param linger_s: how long a message may wait for others (s); 0: the sender never polls
    :param always: whether no message ever wakes the sender
    """

    def __init__(self, linger_s: float, always: bool) -> None:
        self.linger_s = 0.0 if always else linger_s
        self._always = always
        #: How often a caller has sent, since `_since`.
        self.helped = 0
        self._since = 0.0
        #: The partitions of which messages do not wake the sender; None while it does not poll.
        self.polling: dict[tuple[str, int], PartitionQueue] | None = None

    def set_wakeup(self, queue: PartitionQueue) -> None:
        """Note that the next message of a partition wakes the sender, unless the sender looks soon anyway."""
        if self.polling is not None:
            self.polling[queue.key] = queue
        queue.wakes_sender = not self._always and self.polling is None

    def polls(self, now: float) -> bool:
        """Return whether the sender is to look again after `linger_s`; asked at each look.

        :param now: on the handler's clock (s)
        """
        often = self.helped >= OFTEN
        if now - self._since >= self.linger_s:
            self.helped, self._since = 0, now
        elif self.polling is not None:  # something has roused it early, which says nothing of the callers
            return True
        if not self.linger_s or not often:
            return False
        if self.polling is None:
            self.polling = {}
        return True

    def end(self) -> bool:
        """Stop polling: messages wake the sender again; return whether one has come meanwhile."""
        polled, self.polling = self.polling, None
        if polled is None:
            return False
        # In this order: a message that comes in between wakes the sender itself.
        for queue in polled.values():
            queue.wakes_sender = not queue.window.on_wire
        return any(queue.waiting for queue in polled.values())


class Sender:
    """The worker of a producer for one leader, with that leader's queues and counts.

    State: `queues`, and each queue's `closed_batches` and `window`, change under the producer's lock. The worker that holds
    `_stepping` is the sender for that moment; what it has taken and not yet entered in `LeaderRequests.awaiting` is its own to
    complete.

    :param core: of the producer whose messages these are
    :param routing: of the run of the producer
    :param broker: where they go
    :param auto_start: start the sender at once
    """

    def __init__(self, core: ProducerCore, routing: Routing, broker: Node, auto_start: bool = True) -> None:
        self._core = core
        #: The leader.
        self.broker = broker
        self._requests = LeaderRequests(core, broker, self)
        self._handler = core.handler
        self._lock = core.lock
        self._routing = routing  # of this run of the producer, whatever it does later
        self.wake = self._handler.Event()
        options = core.options
        # a sync producer's worker sends each message itself, and wakes no sender
        enough = 0 if options.sync else options.min_queued_messages
        self.broker_queue = BrokerQueue(self._wakeup(), options.max_queued_messages, options.max_queued_bytes, enough)
        self.queues: dict[tuple[str, int], PartitionQueue] = {}
        #: Those of them that have batches.
        self.active: dict[tuple[str, int], PartitionQueue] = {}
        self.running = False
        #: Whether its worker is in a step, which may wait for the network.
        self.at_work = False
        self._blocked = False
        # From so many messages on, a batch need not linger.
        self._min_queued = options.min_queued_messages
        self._linger_s = options.linger_s
        self.wakeups = WakeupPolicy(options.linger_s, options.sync)
        self._schedule = core.cluster.refresh_schedule
        # When the age of the metadata is to be checked next.
        self._check_age_at = 0.0
        self._stepping = self._handler.Lock()
        # Whether the present step may wait: it is the sender's own.
        self._waits = True
        self._starting = self._handler.Lock()
        # Since when nothing is queued, as its worker has seen (s); None while something is.
        self._idle_since: float | None = None
        # Itself, while something is queued: what the sender's worker holds.
        self._kept: list[Sender] = []
        self._worker: Worker | None = None
        if auto_start:
            self.start()

    def _wakeup(self) -> EventType:
        """Return what `append` sets when the sender has to look: `wake`, or for messages that do not linger a `_InlineSend`."""
        prompt = not self._core.options.linger_s and not self._core.options.sync
        return cast("EventType", _InlineSend(weakref.ref(self), self.wake)) if prompt else self.wake

    def move_to(self, broker: Node) -> None:
        """Send to this broker from now on: the leader has moved to another address."""
        self.broker = broker
        self._requests.move_to(broker)

    def start(self) -> None:
        """Start the worker, if it is not running; one without messages ends after a minute."""
        if not self.running:
            with self._starting:
                self._spawn()

    def _spawn(self) -> None:
        if self.running or self._routing.ended:  # another worker was here first
            return
        self._idle_since = None
        self.running, worker = True, None
        try:
            name = f"pykafka.OwnedBroker.{self.broker.id}"
            tether = Tether(self.wake)
            self._core.cluster.stop_at_close(tether)
            run = partial(_run, weakref.ref(self), self.wake, self._kept, tether)
            self._worker = worker = OwnedWorker(self._handler, run, name)
            worker.start()
        except BaseException:  # an interrupt may come when the worker has begun
            self.running = worker is not None and worker.is_alive()
            raise
        self._stop_if_ended()  # since the look above

    def _stop_if_ended(self) -> None:
        if self._routing.ended:
            self.stop()

    def stop(self) -> None:
        """End the sender; queued batches stay in the queues."""
        self.running = False
        self.wake.set()

    def join(self, timeout: float) -> None:
        """Wait until the sender has ended, `timeout` seconds at most."""
        if self._worker is not None:
            self._worker.join(timeout)

    # -- the sender's worker ---------------------------------------------------------------------------------------

    def open_batch(self, queue: PartitionQueue) -> bool:
        """Give a partition a new open batch if the present one is full or missing; return False if that cannot be now."""
        core, routing = self._core, self._routing
        handler = self._handler
        if core.worker_exception is not None or (handler.cooperative and handler.has_ended):  # the caller finds why
            return False
        if core.looks_ahead:
            core.look_ahead()
        if not self.running:
            self.start()
        now, broker_queue = self._handler.now(), self.broker_queue
        batch = ProducerBatch(queue.topic, queue.partition_id, broker_queue, now, core.clock, queue.expected)
        batch.delivery_wait = core.delivery_wait
        if core.options.sync:
            batch.event = self._handler.Event()
        full = None
        with self._lock:
            # Others may have been here, a leader may have moved, the producer may have been stopped: look again.
            if (
                queue.owner is not self
                or routing.queues.get(queue.key) is not queue
                or routing.ended
                or not self.running
            ):
                return False
            if queue.open is not None:
                if not queue.open.count:
                    return True
                full = core.accumulator.take_open(queue)
                if full is not None:
                    queue.closed_batches.append(full)
            queue.open = batch
            self.active[queue.key] = queue
            self._idle_since = None
            if not self._kept:  # the producer lives until its queue is sent, even if nothing refers to it
                self._kept.append(self)
        if full is not None:
            self.wake.set()
        return True

    def _rests(self) -> bool:
        """Release the producer if nothing is queued; return whether the worker is to end, as that is so for a while."""
        now = self._handler.now()
        with self._lock:
            if self._kept and not self.broker_queue.messages and all(one.open is None for one in self.active.values()):
                self._kept.clear()
            if self._kept or self.active:
                self._idle_since = None
                return False
            if self._idle_since is None:
                self._idle_since = now
            if now - self._idle_since < IDLE_S:
                return False
            self.running = False
        return True

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
            log.error("sender of broker %d ended by an error", self.broker.id, exc_info=error)
        else:
            log.warning(
                "sender of broker %d was ended from outside (%s), as at the end of its event loop; close() the client before",
                self.broker.id,
                type(error).__name__,
            )
        if not self._routing.ended:
            self._core.worker_failed(error)

    def deliver(self, done: Callable[[], bool], patient: bool = False) -> None:
        """Send ready batches, and read responses until `done()`, in the caller's worker unless another worker reads.

        The sender's own worker does what may wait for longer than the caller: it connects, and asks for a producer id.

        :param patient: whether the caller has no time-out: else the sender writes what the connection's buffers may not take
        """
        requests = self._requests.channel.requests
        if requests is None or not self._may_send:
            self.wake.set()
            return
        if not requests.help_read():
            self.send_now(patient)
            return
        try:
            self.send_now(patient)
            requests.read_until(done)
        finally:
            requests.leave()

    def deliver_all(self, done: Callable[[], bool]) -> None:
        """Send all that is queued: in the caller's worker if that needs no wait, else by the sender.

        Sending does not block if the connection is up and idle, and its buffers take all of it: a caller with a deadline is
        back in time even if the broker hangs.

        :param done: says when to stop reading answers
        """
        if self._may_send and not self._requests.awaiting and self.broker_queue.bytes <= INLINE_BYTES_MAX:
            self.deliver(done)
        else:
            self.wake.set()

    @property
    def _may_send(self) -> bool:
        """Whether a worker other than the sender's may send: the connection is up, and takes requests now."""
        requests = self._requests.channel.requests
        return (
            requests is not None
            and self._handler.may_wait
            and requests.alive
            and not requests.shared.requests.throttled_until
        )

    @property
    def may_send_inline(self) -> bool:
        """Whether the worker that produces may send: the connection is up, and few messages wait."""
        return self._may_send and self.broker_queue.messages <= INLINE_MESSAGES_MAX

    def send_now(self, patient: bool = False) -> None:
        """Send ready batches in the caller's worker if that needs no wait; else wake the sender; as for `deliver`."""
        # Not `acquire(blocking=False)`: Ctrl-C could come before the `try` behind it, and the sender would wait for ever. Who
        # is second here waits for a step, as it would for what the sender does instead.
        if (patient or self.broker_queue.bytes <= INLINE_BYTES_MAX) and not self._stepping.locked():
            with self._stepping:
                again = self._send_ready(False)
            self.wakeups.helped += 1
            if again is None and not self._routing.stale and not self._routing.moved:
                return
        self.wake.set()

    def _step(self) -> float | None:
        """Send ready batches; return how long to sleep unless woken (s)."""
        if self._routing.moved:
            self._routing.catch_up()
        with self._stepping:
            deadline = self._send_ready(True)
        now, routing = self._handler.now(), self._routing
        if now >= self._check_age_at:
            self._check_age_at = now + CHECK_AGE_S
            if self._core.cluster.metadata_is_old:
                routing.doubt()
        if routing.stale:
            routing.deadlines.start()
            due = routing.lookup.begin(now)
            if due is not None:
                deadline = due if deadline is None else min(deadline, due)
        elif routing.moved or (self._schedule.generation != routing.compared_at and routing.behind):
            routing.catch_up()
        with self._lock:
            polls = self.wakeups.polls(now)
        if polls:
            deadline = min(math.inf if deadline is None else deadline, now + self.wakeups.linger_s)
        elif self.wakeups.polling:
            self._stop_polling()
        return None if deadline is None else max(0.0, deadline - now)

    def _stop_polling(self) -> None:
        """Stop polling."""
        with self._lock:
            missed = self.wakeups.end()
        if missed:
            self.wake.set()

    def _send_ready(self, waits: bool) -> float | None:
        """Send ready batches; return when more will be ready, if nothing changes.

        :param waits: whether this worker may wait for a connection, or for the answers that sending takes
        """
        self._waits = waits
        try:
            ready, deadline = self._take_ready(self._handler.now())
            if len(ready) > 1:
                for batches in divide(ready, self._core.options.max_request_size):
                    self.send(batches)
            elif ready:
                self.send(ready)
        except BaseException as error:  # a timeout, Ctrl-C, or an overridden method's error
            self._requests.lose(list(self._routing.queues.values()), error)
            self.wake.set()
            raise
        return deadline

    def _take_ready(self, now: float) -> tuple[list[ProducerBatch], float | None]:
        """Return batches to send now, at most one a partition, and when the next will be ready if nothing changes."""
        ready: list[ProducerBatch] = []
        waiting: list[ProducerBatch] = []
        deadline: float | None = None
        connection, pool = self._requests.channel.requests, self._core.buffer_pool
        throttled_until = 0.0 if connection is None else connection.shared.requests.throttled_until
        hurried = bool(self._core.flushing or pool.waiting or (pool.shared is not None and pool.shared.waiting))
        with self._lock:
            # a response wakes the sender when requests may be sent again
            self._blocked = len(self._requests.awaiting) >= MAX_IN_FLIGHT
            for queue in list(self.active.values()):
                self.wakeups.set_wakeup(queue)
                window = queue.window
                is_waiting = queue.open is not None or queue.closed_batches or len(window.batches) > window.on_wire
                due = self._due(queue, now, hurried) if is_waiting else None
                if due is not None and throttled_until > now:
                    due = self._requests.due_unheard(queue, max(due, throttled_until))
                if due is not None and due <= now and not self._blocked:
                    batch = self._take(queue)
                    if batch is not None and throttled_until > now and not batch.retry_at:
                        self._requests.hold(batch, throttled_until - now)
                    if batch is not None:
                        (waiting if batch.retry_at else ready).append(batch)
                        more = queue.open is not None or queue.closed_batches
                        due = batch.retry_at or (self._due(queue, now, hurried) if more else None)
                if due is not None and not self._blocked:
                    deadline = due if deadline is None else min(deadline, due)
                # without a deadline, a response is awaited, or the first message wakes the sender
                if due is not None or window.on_wire:
                    queue.wakes_sender = False
                if queue.open is None and not queue.closed_batches and not window.batches:
                    del self.active[queue.key]
        for batch in waiting:
            self._requests.results.check_age(batch)
        return ready, deadline

    def _due(self, queue: PartitionQueue, now: float, hurried: bool) -> float | None:
        """Return when the next batch of this partition may be sent; None if there is none, or a response is awaited.

        :param hurried: whether nothing lingers: a caller waits in `flush()` or `stop()`, or for room
        """
        window = queue.window
        if window.batches and self._requests.must_wait(queue):
            return None
        if queue.closed_batches or len(window.batches) > window.on_wire:
            return self._requests.due(queue, now)
        batch = queue.open
        if batch is None or not batch.count:
            return None
        if batch.urgent or hurried:
            return now
        # while a batch is under way, this one had better be filled
        queued = self.broker_queue
        if not window.on_wire and (
            queued.messages >= self._min_queued
            or queued.messages >= queued.max_messages
            or queued.bytes >= queued.max_bytes
        ):
            return now
        return batch.created + self._linger_s

    def _take(self, queue: PartitionQueue) -> ProducerBatch | None:
        """Take the next batch of a partition; with `retry_at` set if this is not its leader any more."""
        batch = take_next(queue, self._requests, self._core.accumulator.take_open)
        if batch is None:
            return None
        leader = None if queue.partition is None else queue.partition.leader
        if leader is not self.broker:
            if leader is None:
                self._routing.doubt()
            else:  # some part of this client has noticed
                self._routing.moved = True
            queue.window.unsent(batch.in_flight)
            self._core.retry_policy.back_off(batch)
        return batch

    def send(self, batches: list[ProducerBatch]) -> None:
        """Send one request, with at most one batch a partition."""
        if self._requests.may_outlast(batches):
            self._routing.deadlines.start()
        if self._requests.send(batches, self._waits):
            self.wake.set()  # what is behind those may go, or in their place; and when to look again was worked out before

    # -- what becomes of batches (in the connection's reader worker: nothing here may block) ---------------------------

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue:
        """Return the queue that a batch is from."""
        return self._routing.queues[batch.topic, batch.partition_id]

    def leaders_moved(self) -> None:
        """Schedule a look-up of the leaders in the next step."""
        self._routing.stale = True

    def leader_named(self) -> None:
        """Schedule the hand-over to a leader that a broker has named, in the next step."""
        self._routing.moved = True

    def sent(self, requests: LeaderRequests, request: Request) -> None:
        """Register a request, whose response will complete its batches."""
        assert request.pending is not None
        request.pending.add_done_callback(partial(self.on_response, requests, request))

    def on_response(self, requests: LeaderRequests, request: Request, _: object = None) -> None:
        """Complete the batches of a request; called again after an interruption."""
        try:
            requests.read(request, timeout=0)
        except Exception:  # an overridden method's
            self._after_response(request)
            raise
        self._after_response(request)

    def _after_response(self, request: Request) -> None:
        """Wake the senders whose batches have waited for a response: the partitions may be another sender's by now."""
        self._requests.awaiting.pop(request, None)
        if self._blocked:
            self.wake.set()
        for batch in request.batches:
            queue = self._routing.queues.get((batch.topic, batch.partition_id))
            if queue is None:
                continue
            with self._lock:
                owner = queue.owner
                if owner is not None:
                    owner.wakeups.set_wakeup(queue)
            # in this order: a message that comes in between wakes the sender itself
            if owner is not None and queue.waiting:
                owner.wake.set()

    def awaited(self) -> list[ProducerBatch]:
        """Return the batches of the requests whose response is awaited, or being applied: some may have left their windows."""
        return [batch for request in list(self._requests.awaiting) for batch in request.batches]

    def delivered(self, batch: ProducerBatch) -> None:
        """Complete a batch that was acknowledged."""
        self._core.completion.complete(batch, None)

    def failed(self, batch: ProducerBatch, error: KafkaException, given_up: bool) -> None:
        """Complete a batch that has failed, by its error or, `given_up`, since its time or its tries are over."""
        fail(self._core, batch, error, given_up)

    def divide(self, batch: ProducerBatch, error: KafkaException | None) -> list[ProducerBatch]:
        """Divide a batch in two."""
        return batch.split()


class _InlineSend:
    """Sends a message that comes alone in the worker that produces it: waking the sender costs more than sending.

    :param sender: of the message
    :param wake: wakes the sender's worker, if there is more to do than to send
    """

    __slots__ = ("_sender", "_wake")

    def __init__(self, sender: weakref.ref[Sender], wake: EventType) -> None:
        self._sender = sender
        self._wake = wake

    def set(self) -> None:
        """Send what is there, if that needs no wait; else wake the sender."""
        sender = self._sender()
        if sender is None or not sender.may_send_inline:
            self._wake.set()
        else:
            sender.send_now()


def _run(reference: weakref.ref[Sender], wake: EventType, kept: list[Sender], _: Tether) -> None:
    """Send what is ready, whenever there is something; the main function of a sender's worker.

    While nothing is queued it does not hold the producer, and ends with its last owner: by its next look, or with the client
    (the tether, which this holds).
    """
    try:
        while True:
            owned = reference()
            if owned is None or not owned.running:
                return
            owned.at_work = True
            pause = owned._step()
            owned.at_work = False
            if not owned.broker_queue.messages and owned._rests():
                return
            del owned
            wake.wait(IDLE_POLL_INTERVAL_S if pause is None else min(pause, IDLE_POLL_INTERVAL_S))
            wake.clear()
    except BaseException as error:  # noqa: BLE001 - `produce()` raises it
        owned = reference()
        if owned is not None:
            owned.at_work = False
            owned._failed(error)
    finally:
        kept.clear()
