"""`GroupConsumer`: the base of consumers that share a topic's partitions with a group, whatever the group's protocol.

A member reads its partitions through an internal `SimpleConsumer`, which it replaces when its assignment changes, and keeps if
the assignment stays the same. A worker of the member changes the assignment, so a `consume()` that waits delays nothing: it
continues at the new internal consumer.
"""

from __future__ import annotations

import logging
import math
import os
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pykafka.compat.assignment_reader import AssignmentReader
from pykafka.compat.blocking_engine import unseen
from pykafka.compat.simple_consumer import BATCH_MESSAGES
from pykafka.consumer.options import ARROW_BYTES, ARROW_MESSAGES
from pykafka.exceptions import ConsumerStoppedException, KafkaException, OffsetsNotCommitted
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.health import Viewed, watching
from pykafka.metadata.lifecycle import Tether
from pykafka.utils import old_attributes
from pykafka.utils.error_handlers import valid_int
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from pykafka.compat.simple_consumer import SimpleConsumer
    from pykafka.handlers import Handler, Worker
    from pykafka.handlers.base import EventType
    from pykafka.health.progress import Progress
    from pykafka.health.view import View
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import TopicView
    from pykafka.metrics.tracing import RecordTracer
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How often a worker that waits checks whether its consumer still exists (s).
OWNER_POLL_INTERVAL_S = 5.0


class _Deadline:
    """An `unblock_event` that is set at a deadline, or when the caller's own event is set."""

    def __init__(self, handler: Handler, deadline: float, event: Any) -> None:
        self._handler = handler
        self._deadline = deadline
        self._event = event

    def is_set(self) -> bool:
        return self._handler.now() >= self._deadline or (self._event is not None and self._event.is_set())


@old_attributes(
    """
    _auto_commit_enable _auto_commit_interval_ms _auto_offset_reset _consumer_timeout_ms _deserializer
    _fetch_message_max_bytes _fetch_min_bytes _fetch_wait_max_ms _num_consumer_fetchers
    _offsets_channel_backoff_ms _offsets_commit_max_retries _queued_max_messages _reset_offset_on_fetch
    _reset_offset_on_start _worker_exception _post_rebalance_callback _rebalance_backoff_ms
    _rebalance_max_retries _use_rdkafka
    """
)
class GroupConsumer(AssignmentReader, Viewed, ABC):
    """A consumer that shares a topic with its group: the base of `BalancedConsumer` and `ManagedBalancedConsumer`.

    `consume()` takes no lock.
    """

    def _configure(self, topic: TopicView, cluster: BaseCluster, given: dict[str, Any]) -> None:
        super()._configure(topic, cluster, given)
        self._left_to_parent: list[Any] = []
        self._on_start, self._on_stop = watching(self, cluster)
        self._begin_afresh()
        self._trace(cluster.tracer)
        cluster.stop_at_close(self)
        self._handler.at_fork(self._after_fork)

    def _begin_afresh(self) -> None:
        super()._begin_afresh()
        #: The member's id; if the brokers keep the group, `_generation_id` goes with it.
        number = uuid.UUID(int=self._handler.random.getrandbits(128), version=4)
        self._consumer_id = Name.of(f"{os.uname().nodename}:{number}")
        self._midway = False
        #: The worker that follows the assignment; after the end of this consumer until it has ended, too.
        self._worker: Worker | None = None
        #: Of health: the error that has ended the consumer, that of the last attempt to follow the group, and what was seen.
        self._ended_by: BaseException | None = None
        self._last_error: Exception | None = None
        self._progress: Progress | None = None

    def _after_fork(self) -> None:
        # The member is the parent's; the next consume() makes one of this process. What the parent's workers used is kept,
        # and left alone: a lock of theirs may be taken, and no worker here would release it.
        self._left_to_parent.append((self._consumer, self._rebalancing_lock, self._changed, self._stopping))
        self._starts.after_fork(self._running)
        self._begin_afresh()

    def __repr__(self) -> str:
        return (
            f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} "
            f"(consumer_group={self._consumer_group}, topic={self._topic.name})>"
        )

    def __enter__(self) -> Self:
        """Start the consumer, if it is not running."""
        if not self._running:
            self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the consumer; auto-commit, if it is on, commits first: after an error not what the last call returned."""
        if exc is not None and self._tracer is not None:
            self._tracer.left(self, exc)
        if exc_type is None:
            self.stop()
        else:
            self.stop_midway()

    @property
    def _is_running(self) -> bool:
        """Whether the watch has something to look at: also at a consumer that an error has ended."""
        return self._running or self._ended_by is not None

    @property
    def _is_open(self) -> bool:
        return self._is_running or self._starts.due

    def _view_class(self) -> type[View]:
        from pykafka.compat.health import GroupView

        return GroupView

    def stop_midway(self) -> None:
        """Stop as `stop()` does, but commit nothing of what the last call returned: the application may still process it.

        A `with` block that ends by an error calls this, and so does the end of the interpreter.
        """
        self._midway = True
        try:
            self.stop()
        finally:
            self._midway = False

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group and read the assigned partitions; a worker follows the assignment from then on.

        :raises ZooKeeperError: ZooKeeper keeps the group, and could not be reached
        :raises PartitionOwnedError: ZooKeeper keeps the group, and another member did not release a partition
        :raises UnsupportedVersion: the brokers are older than 0.9, and should keep the group
        :raises KafkaException: the consumer got no assignment, or no offsets; the error has the reason
        """
        if not self._running or self._stopping.is_set():  # a start() that another worker makes has set the first one
            self._starts.run(self._start, self.stop)

    def _start(self) -> None:
        if self._running and not self._stopping.is_set():
            return
        # The worker is there yet if its callback has stopped this consumer, if a stop() was cut off, or if an error has just
        # ended this consumer: it must not go on in the next life.
        self._stopping.set()
        self._join_worker()
        if not self._await_call(0.0):
            raise KafkaException(
                f"{self._called} of the time before the last stop() has not returned; call start() when it has, or make "
                "another consumer",
                topic=self._topic.name,
            )
        self._await_leaving()  # if a stop() was cut off
        self._stopping, self._worker = self._handler.Event(), None
        self._worker_exceptions.clear()
        self._ended_by = self._last_error = None
        self._positions.forget_lost()
        self._running = True
        try:
            self._enter()
            self._rebalance()
            if not self._stopping.is_set():  # by the callback
                self._start_worker()
        except BaseException:
            self._undo_start()
            raise
        self._on_start()

    def _undo_start(self) -> None:
        self._running = False
        self._stopping.set()
        worker, self._worker = self._worker, None
        try:
            if worker is not None:  # an interrupt came when it had begun
                self._interrupt()
                worker.join(self._stop_timeout_s)
        finally:
            try:
                if self._await_call(0.0):
                    self._halt_or_report()
                    self._forget_positions()
            finally:
                self._leave()

    def stop(self) -> None:
        """Stop consuming, committing first if auto-commit is on; then leave the group, so that others can take over.

        A static member does not leave: other members take over when its session has ended. A `zookeeper` that the consumer
        was given stays open. `post_rebalance_callback`, if it runs, is waited for: twice `socket_timeout_ms` at most, with
        ZooKeeper twice `zookeeper_connection_timeout_ms` besides. Nothing is read when it returns later.

        :raises OffsetsNotCommitted: that commit failed, or an earlier one failed and no `consume()` has raised that; the
            consumer is stopped all the same
        """
        self._starts.stop()
        self._ended_by = self._last_error = None
        until = -math.inf  # an interrupt of the first wait has the second one end at once
        try:  # even if it does not run: a former stop() may have been cut off anywhere
            if self._running or is_at_work(self._worker):  # a former stop() may have been cut off here
                self._running = False
                self._on_stop()
                self._stopping.set()
                self._changed.set()
                self._interrupt()
            ends = self._handler.now() + self._stop_timeout_s
            self._join_worker()
            until = ends
        finally:
            try:
                self._halt_in_time(until)
            finally:
                failed: list[BaseException] = []
                try:
                    self._take_failed_commits(failed)
                    self._leave()
                except BaseException:
                    # the next `stop()` raises them
                    self._worker_exceptions.extend(one for one in failed if one not in self._worker_exceptions)
                    self._leave(wait=False)  # the interrupt may have come before the worker that leaves had started
                    raise
        if failed:
            raise failed[-1]

    def _halt_in_time(self, until: float) -> None:
        """Stop consuming, and forget the positions, unless a function of the application does not return.

        :param until: how long to wait for it, of the handler's clock (s)
        """
        if self._await_call(max(until - self._handler.now(), 0.0)):
            try:
                self._halt(self._midway)
            finally:
                self._forget_positions()
            return
        text = "group %s: %s has not returned, and stop() waits no longer for it; the member leaves the group"
        log.warning(text, self._consumer_group, self._called)
        consumer, self._consumer = self._consumer, None  # none in a callback: the former one was stopped before
        if consumer is not None:
            (consumer.stop_midway if self._midway else consumer.stop)()

    def _join_worker(self) -> None:
        """Wait for the end of the worker that follows the assignment, unless this is its callback."""
        worker = self._worker
        if worker is None or getattr(self._here, "is_worker", False) or not worker.join(self._stop_timeout_s):
            return
        if self._worker is worker:
            self._worker = None

    def _take_failed_commits(self, failed: list[BaseException]) -> None:
        """Move the failed commits that no call has raised yet to a list: `stop()` raises one for all."""
        failed += [one for one in self._worker_exceptions if isinstance(one, OffsetsNotCommitted)]
        for error in failed:
            self._worker_exceptions.remove(error)

    @abstractmethod
    def _await_leaving(self) -> None:
        """Wait until this member has left the group, if it is leaving."""

    @abstractmethod
    def _enter(self) -> None:
        """Prepare to take part in the group."""

    @abstractmethod
    def _start_worker(self) -> None:
        """Start the worker that follows the assignment; see `_spawn_worker`."""

    @abstractmethod
    def _interrupt(self) -> None:
        """Wake the worker, so that it ends."""

    @property
    @abstractmethod
    def _stop_timeout_s(self) -> float:
        """The time that `stop()` waits for the worker (s)."""

    @abstractmethod
    def _leave(self, wait: bool = True) -> None:
        """Leave the group, so that others can take over.

        :param wait: False returns at once, while a worker leaves
        """

    @abstractmethod
    def _update_member_assignment(self) -> None:
        """Determine this member's assignment, and consume it."""

    def _rebalance(self) -> None:
        """Determine this member's assignment again, and consume it.

        :raises ConsumerStoppedException: the consumer is not running
        """
        if not self._running:
            raise self._stopped()
        member = self._consumer_id or "a new member"
        log.info("group %s: %s takes its partitions of %s", self._consumer_group, member, self._topic.name)
        self._update_member_assignment()

    # -- consuming -----------------------------------------------------------------------------------------------------

    def consume(self, block: bool = True, unblock_event: Any = None) -> Message | None:
        """Return the next message of the assigned partitions.

        :param block: whether to wait for one, `consumer_timeout_ms` at most
        :param unblock_event: ends the wait when it is set
        :returns: None if there is none (in time)
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: the consumer gets no assignment, or cannot fetch; raised once, and the consumer tries again
        :raises Exception: `post_rebalance_callback` has raised it: the consumer calls it again after a pause, and consumes
            nothing of the new assignment until it succeeds
        """
        message = self._at_once() if self._tracer is None else None
        if message is None:
            message = self._traced(self._consume)(block, unblock_event)
        return message

    def _consume(self, block: bool = True, unblock_event: Any = None) -> Message | None:
        """Return the next message, seen by no tracer; parameters and errors as of `consume`."""
        message = self._at_once()
        return self._consume_many(_consume, block, unblock_event) if message is None else message

    def _at_once(self) -> Message | None:
        """Return the next message if that needs no wait; coroutines try this before they wait in `consume`."""
        consumer = self._readable
        return None if consumer is None or self._worker_exceptions else consumer._at_once()

    @property
    def _readable(self) -> SimpleConsumer | None:
        """The internal consumer, while the application may take messages of it; asking takes no lock."""
        return self._consumer

    def consume_batch(
        self, max_messages: int = BATCH_MESSAGES, block: bool = True, unblock_event: Any = None
    ) -> list[Message]:
        """Return the next messages of the assigned partitions: those that are buffered; wait only for the first.

        For parameters see `SimpleConsumer.consume_batch`, for errors `consume`.

        :returns: an empty list if there is none (in time)
        """

        valid_int(max_messages, name="max_messages")

        def take(consumer: SimpleConsumer, wait: bool, unblock: Any) -> list[Message] | None:
            return consumer._consume_batch(max_messages, wait, unblock) or None

        return self._traced(self._consume_many)(take, block, unblock_event) or []

    def consume_arrow(
        self,
        max_messages: int = ARROW_MESSAGES,
        columns: Sequence[str] | None = None,
        *,
        max_bytes: int = ARROW_BYTES,
        block: bool = True,
        unblock_event: Any = None,
    ) -> pa.RecordBatch | None:
        """Return the next messages of the assigned partitions as Arrow columns; wait only for the first.

        For parameters, columns and errors see `SimpleConsumer.consume_arrow`, for more errors `consume`.

        :returns: None if there is no message (in time)
        """

        def take(consumer: SimpleConsumer, wait: bool, unblock: Any) -> Any:
            return consumer._consume_arrow(max_messages, columns, max_bytes, wait, unblock)

        found: pa.RecordBatch | None = self._traced(self._consume_many)(take, block, unblock_event)
        return found

    def _consume_many(
        self, take: Callable[[SimpleConsumer, bool, Any], T | None], block: bool, unblock_event: Any
    ) -> T | None:
        """Return the result of `take`, called with the internal consumer, whether to wait, and an event."""
        if self._worker_exceptions:
            self._raise_worker_exceptions()
        consumer = self._readable
        if consumer is not None:
            try:
                taken = take(consumer, False, unblock_event)
            except ConsumerStoppedException:  # it stopped, or is about to be replaced
                taken = None
            if taken is not None:
                return taken
        return self._consume_slowly(take, block, unblock_event)

    def _consume_slowly(
        self, take: Callable[[SimpleConsumer, bool, Any], T | None], block: bool, unblock_event: Any
    ) -> T | None:
        """Return the result of `take`; wait for an assignment if there is none at present."""
        timeout_ms = self._options.consumer_timeout_ms
        deadline = None if timeout_ms < 0 else self._handler.now() + timeout_ms / 1000
        unblock = unblock_event
        self._handler.breathe()  # a loop of calls that do not wait would keep a hub from the worker that joins
        while True:
            self._changed.clear()
            self._raise_worker_exceptions()
            if not self._running:
                if not self._starts.due:
                    raise self._stopped()
                if not self._start_within(deadline if block else self._handler.now()):
                    return None
                if deadline is not None:  # the start has taken a part of the time
                    unblock = _Deadline(self._handler, deadline, unblock_event)
            consumer = self._readable
            if not block:
                return None
            if consumer is not None:
                try:
                    return take(consumer, True, unblock)
                except ConsumerStoppedException:
                    log.debug("the internal consumer is being replaced")
            if deadline is not None:  # each internal consumer would wait for all of `consumer_timeout_ms`
                unblock = _Deadline(self._handler, deadline, unblock_event)
            if unblock_event is not None and unblock_event.is_set():
                return None
            remaining = 1.0 if deadline is None else min(1.0, deadline - self._handler.now())
            if remaining <= 0:
                return None
            if consumer is self._readable:
                self._changed.wait(min(remaining, 0.1) if unblock_event is not None else remaining)

    def _start_within(self, deadline: float | None) -> bool:
        """Start in a forked child; return False if the deadline came first: the next call waits for the same start."""
        if deadline is None:
            self.start()
            return True
        return self._starts.run_within(self.start, max(deadline - self._handler.now(), 0.0))

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until none comes for `consumer_timeout_ms`."""
        tracer = self._tracer
        records = self._messages()
        return records if tracer is None else tracer.each(self, records, self._options.consumer_group)

    def _messages(self) -> Iterator[Message]:
        take = unseen(self, GroupConsumer.consume)
        while True:
            message = take()
            if message is None:
                return
            yield message

    def _trace(self, tracer: RecordTracer | None) -> None:
        """Take up a tracer, or leave the present one; the client calls this."""
        self._tracer = tracer

    def _traced(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Return what the tracer makes of a call that returns messages; without a tracer that call."""
        tracer = self._tracer
        return read if tracer is None else tracer.reading(read, self._options.consumer_group)

    def _raise_worker_exceptions(self) -> None:
        """Raise the first error of a worker that was not raised yet."""
        if self._worker_exceptions:
            raise self._worker_exceptions.popleft()

    def _worker_failed(self, error: BaseException) -> None:
        """Report an error to `consume()`, even to a call that waits at present; an error that lasts is raised once."""
        consumer = self._consumer
        if consumer is not None and consumer._engine.running:  # `consume()` is at it, and gets the error from there
            if not consumer._engine.errors:
                consumer._engine.worker_failed(error)
        elif not self._worker_exceptions:
            self._worker_exceptions.append(error)
        self._changed.set()

    # -- the worker ----------------------------------------------------------------------------------------------------

    def _spawn_worker(self, leave: Callable[[], None], name: str) -> None:
        """Start the worker that follows the assignment until `stop()`, or until the application has dropped this consumer.

        :param leave: leaves the group for a consumer that was dropped; does not refer to it
        """
        tether = Tether(self._stopping)
        self._cluster.stop_at_close(tether)
        run = partial(_follow_assignment, weakref.ref(self), self._stopping, leave, os.getpid(), tether)
        self._worker = worker = OwnedWorker(self._handler, run, name)
        worker.start()

    @abstractmethod
    def _turn(self, stopping: Any) -> tuple[EventType, float] | None:
        """Do what is due for the assignment; return what to wait for, and for how long (s), or None to end the worker."""

    def _worker_ended(self, stopping: Any, error: BaseException) -> None:
        # another event: this is a greenlet of the process that this one was forked from
        if stopping is self._stopping and not stopping.is_set():
            self._end_by(error)

    def _end_by(self, error: BaseException) -> None:
        """End this consumer, in its own worker; `consume()` raises the reason.

        :param error: the reason, which may be the end of the worker, such as a callback's `sys.exit()`
        """
        raised = error
        if not isinstance(error, Exception):
            raised = ConsumerStoppedException(
                f"the consumer has ended and leaves its group: {type(error).__name__}{f' ({error})' if str(error) else ''} has "
                "ended its worker, which calls post_rebalance_callback; start() it again, or make another",
                topic=self._topic.name,
            )
            raised.__cause__ = error
        log.error("group %s: %s", self._consumer_group, raised)
        self._ended_by = raised
        self._stopping.set()
        self._worker_exceptions.append(raised)
        try:
            self._halt_or_report()
        finally:
            # Not before: once consume() raises that the consumer does not run, it raises no other errors, such as offsets
            # that were not committed.
            self._running = False
            try:
                self._forget_positions()
                self._leave()
            finally:
                self._changed.set()


def _consume(consumer: SimpleConsumer, wait: bool, unblock_event: Any) -> Message | None:
    return consumer._consume(wait, unblock_event)


def _follow_assignment(
    reference: weakref.ref[GroupConsumer], stopping: EventType, leave: Callable[[], None], pid: int, tether: Tether
) -> None:
    """Follow a consumer's assignment: the worker's main function. An error that ends the worker ends the consumer.

    The worker holds the consumer only while it does something, and leaves the group when the application has dropped it.

    :param stopping: set when the worker is to end
    :param leave: leaves the group; does not refer to the consumer
    :param pid: of the process that has started the worker
    :param tether: makes it check the consumer when the client is closed
    """
    try:
        while True:
            consumer = reference()
            if consumer is None:
                if not stopping.is_set() and pid == os.getpid():  # a forked child has a copy of a greenlet
                    leave()
                return
            consumer._here.is_worker = True
            waiting = consumer._turn(stopping)
            del consumer
            if waiting is None:
                return
            event, seconds = waiting
            tether.wake = event
            event.wait(min(seconds, OWNER_POLL_INTERVAL_S))
    except BaseException as error:
        consumer = reference()
        if consumer is not None:
            consumer._worker_ended(stopping, error)
            del consumer
        if isinstance(error, (KeyboardInterrupt, SystemExit)):  # perhaps a signal's, meant for the program
            raise
