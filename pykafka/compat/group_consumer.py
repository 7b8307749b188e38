"""`GroupConsumer`: the base of consumers that share a topic's partitions, however they agree on the shares.

A member reads its share through an internal `SimpleConsumer`. The member replaces it when the share changes, and keeps it
when the share stays the same. A worker of the member changes shares, so a `consume()` that waits delays nothing: it goes on
waiting at the new internal consumer.
"""

from __future__ import annotations

import logging
import os
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pykafka.common import OffsetType
from pykafka.compat.carried_positions import CarriedPositions
from pykafka.compat.group_worker import InternalConsumers, UnraisedErrors, discard, look_after, wanted_positions
from pykafka.compat.options import GroupOptions, TopicConsumerOptions
from pykafka.compat.simple_consumer import BATCH_MESSAGES, SimpleConsumer
from pykafka.consumer.committed_offsets import may_commit_later
from pykafka.consumer.options import ARROW_BYTES, ARROW_MESSAGES, ConsumerOptions, valid_pairs
from pykafka.consumer.startrules import Position
from pykafka.exceptions import ConsumerStoppedException, KafkaException
from pykafka.handlers.start_once import StartOnce
from pykafka.metadata.lifecycle import Tether
from pykafka.utils import get_string, old_attributes
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long a change of shares waits until the application has dealt with the last messages (s).
HAND_WAIT_S = 1.0


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
class GroupConsumer(ABC):
    """A consumer of a share of a topic: the base of `BalancedConsumer` and `ManagedBalancedConsumer`.

    State: `_consumer` and `_positions` change under `_rebalancing_lock`, held for one attempt to change shares and for
    commits; `consume()` takes no lock.
    """

    def _configure(self, topic: TopicView, cluster: BaseCluster, given: dict[str, Any]) -> None:
        """Check and store the arguments of a constructor.

        :param given: {name: value} of the options
        :raises TypeError, ValueError: an argument is out of bounds; the error names it
        """
        self._group_options = group_options = GroupOptions.of(given)
        self._topic = topic
        self._cluster = cluster
        self._handler = cluster.handler
        #: The internal consumer's.
        self._options = ConsumerOptions.of({**given, "reset_offset_on_start": False})
        self._consumer_group = Name.of(group_options.consumer_group)
        self._membership_protocol = group_options.membership_protocol
        self._own = own = TopicConsumerOptions.of(given)
        self._internal = InternalConsumers(
            topic,
            cluster,
            self._options,
            own.deserializer,
            group_options.use_rdkafka,
            group_options.reset_offset_on_start,
        )
        self._group_instance_id: str | None = None
        self._left_to_parent: list[Any] = []
        self._starts = StartOnce(self._handler)
        self._begin_afresh()
        cluster.stop_at_close(self)
        self._handler.at_fork(self._after_fork)

    def _begin_afresh(self) -> None:
        #: The member's id; `_generation_id` goes with it where the brokers keep the group.
        number = uuid.UUID(int=self._handler.random.getrandbits(128), version=4)
        self._consumer_id = Name.of(f"{os.uname().nodename}:{number}")
        self._generation_id = -1
        self._rebalancing_lock = self._handler.RLock()
        self._changed = self._handler.Event()
        self._stopping = self._handler.Event()
        self._worker_exceptions = UnraisedErrors()
        self._consumer: SimpleConsumer | None = None
        self._positions = CarriedPositions(self._topic)
        self._midway = False
        self._running = False
        self._here = self._handler.local()
        #: The worker that looks after the share.
        self._worker: Any = None

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
        """Stop the consumer; auto-commit, where it is on, commits first: after an error not what the last call returned."""
        if exc_type is None:
            self.stop()
        else:
            self.stop_midway()

    def stop_midway(self) -> None:
        """Stop as `stop()` does, but commit nothing of what the last call returned: the application may not be done with it.

        A `with` block that ends by an error calls this, and so does the end of the interpreter.
        """
        self._midway = True
        try:
            self.stop()
        finally:
            self._midway = False

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group and take a share; a worker looks after it from then on.

        :raises KafkaException: the consumer could not get its share; the error says why
        """
        if not self._running:  # a start() that another worker makes has set it
            self._starts.run(self._start, self.stop)

    def _start(self) -> None:
        if self._running:
            return
        self._await_leaving()  # where a stop() was cut off
        self._stopping = self._handler.Event()
        self._worker_exceptions.clear()
        self._positions.forget_lost()
        self._running = True
        try:
            self._enter()
            self._rebalance()
        except BaseException:
            self._running = False
            self._stopping.set()
            try:
                self._halt_or_report()
            finally:
                self._forget_positions()
                self._leave()
            raise
        if not self._stopping.is_set():  # by the callback
            self._worker = self._start_worker()

    def stop(self) -> None:
        """Stop consuming, committing first where auto-commit is on; then leave the group, so that others can take over.

        :raises OffsetsNotCommitted: that commit failed, or an earlier one failed and no `consume()` has raised that; the
            consumer is stopped all the same
        """
        self._starts.stop()
        worker, self._worker = self._worker, None
        if getattr(self._here, "is_worker", False):  # called by the callback
            worker = None
        try:  # even if it does not run: a former stop() may have been cut off anywhere
            if self._running:
                self._running = False
                self._stopping.set()
                self._changed.set()
                self._interrupt()
            if worker is not None:  # else the worker has ended this consumer, or is about to
                worker.join(self._patience_s)
        finally:
            try:
                self._halt(self._midway)
            finally:
                self._forget_positions()
                self._leave()
        self._worker_exceptions.raise_uncommitted()

    @abstractmethod
    def _await_leaving(self) -> None:
        """Wait until this member has left the group, if it is leaving."""

    @abstractmethod
    def _enter(self) -> None:
        """Prepare to take part in the group."""

    @abstractmethod
    def _start_worker(self) -> Any:
        """Start the worker that looks after the share; see `_spawn_worker`."""

    @abstractmethod
    def _interrupt(self) -> None:
        """Wake the worker, so that it ends."""

    @property
    @abstractmethod
    def _patience_s(self) -> float:
        """The time that `stop()` waits for the worker (s)."""

    @abstractmethod
    def _update_member_assignment(self) -> None:
        """Determine this member's share, and consume it."""

    def _rebalance(self) -> None:
        """Determine this member's share again, and consume it.

        :raises ConsumerStoppedException: the consumer is not running
        """
        if not self._running:
            raise self._stopped()
        member = self._consumer_id or "a new member"
        log.info("group %s: %s takes its share of %s", self._consumer_group, member, self._topic.name)
        self._update_member_assignment()

    # -- the share -----------------------------------------------------------------------------------------------

    @property
    def topic(self) -> TopicView:
        """The topic this consumer reads a share of."""
        return self._topic

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions this consumer reads at present, by id."""
        consumer = self._consumer
        return consumer.partitions if consumer is not None else {}

    @property
    def _partitions(self) -> set[Partition]:
        return set(self.partitions.values())

    @property
    def held_offsets(self) -> dict[int, int]:
        """The offset last consumed of each partition, by id; -2 where nothing was consumed from its start on."""
        consumer = self._consumer
        return consumer.held_offsets if consumer is not None else {}

    # -- consuming -------------------------------------------------------------------------------------------------

    def consume(self, block: bool = True, unblock_event: Any = None) -> Message | None:
        """Return the next message of this consumer's share.

        :param block: whether to wait for one, `consumer_timeout_ms` at most
        :param unblock_event: ends the wait when it is set
        :returns: None where there is none (in time)
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: the consumer cannot get its share, or cannot fetch; raised once, and the consumer goes on
            trying
        :raises Exception: `post_rebalance_callback` has raised it: the consumer calls it again after a pause, and consumes
            nothing of the new share until it succeeds
        """
        if self._worker_exceptions:
            self._raise_worker_exceptions()
        consumer = self._consumer
        if consumer is not None:
            try:
                message = consumer.consume(block=False)
            except ConsumerStoppedException:  # it stopped, or is about to be replaced
                message = None
            if message is not None:
                return message
        return self._consume_slowly(lambda consumer, unblock: consumer.consume(True, unblock), block, unblock_event)

    def _at_once(self) -> Message | None:
        """Return the next message if that needs no wait, for coroutines, which try this before they wait in `consume`."""
        consumer = self._consumer
        return None if consumer is None or self._worker_exceptions else consumer._at_once()

    def consume_batch(
        self, max_messages: int = BATCH_MESSAGES, block: bool = True, unblock_event: Any = None
    ) -> list[Message]:
        """Return the next messages of this consumer's share: those that are buffered; wait only for the first.

        Parameters as `SimpleConsumer.consume_batch` has them, errors as `consume` has.

        :returns: an empty list where there is none (in time)
        """

        def take(consumer: SimpleConsumer, wait: bool, unblock: Any) -> list[Message] | None:
            return consumer.consume_batch(max_messages, wait, unblock) or None

        return self._consume_many(take, block, unblock_event) or []

    def consume_arrow(
        self,
        max_messages: int = ARROW_MESSAGES,
        columns: Sequence[str] | None = None,
        *,
        max_bytes: int = ARROW_BYTES,
        block: bool = True,
        unblock_event: Any = None,
    ) -> pa.RecordBatch | None:
        """Return the next messages of this consumer's share as Arrow columns; wait only for the first.

        Parameters, columns and errors as `SimpleConsumer.consume_arrow` has them, and errors as `consume` has.

        :returns: None where there is no message (in time)
        """

        def take(consumer: SimpleConsumer, wait: bool, unblock: Any) -> pa.RecordBatch | None:
            return consumer.consume_arrow(max_messages, columns, max_bytes=max_bytes, block=wait, unblock_event=unblock)

        return self._consume_many(take, block, unblock_event)

    def _consume_many(
        self, take: Callable[[SimpleConsumer, bool, Any], T | None], block: bool, unblock_event: Any
    ) -> T | None:
        if self._worker_exceptions:
            self._raise_worker_exceptions()
        consumer = self._consumer
        if consumer is not None:
            try:
                found = take(consumer, False, unblock_event)
            except ConsumerStoppedException:  # it stopped, or is about to be replaced
                found = None
            if found is not None:
                return found
        return self._consume_slowly(lambda consumer, unblock: take(consumer, True, unblock), block, unblock_event)

    def _consume_slowly(
        self, take: Callable[[SimpleConsumer, Any], T | None], block: bool, unblock_event: Any
    ) -> T | None:
        """Return the result of `take`; wait for a share if there is none at present."""
        timeout_ms = self._options.consumer_timeout_ms
        deadline = None if timeout_ms < 0 else self._handler.now() + timeout_ms / 1000
        unblock = unblock_event
        while True:
            self._changed.clear()
            self._raise_worker_exceptions()
            if not self._running:
                if not self._starts.due:
                    raise self._stopped()
                self.start()
            consumer = self._consumer
            if not block:
                return None
            if consumer is not None:
                try:
                    return take(consumer, unblock)
                except ConsumerStoppedException:
                    log.debug("the internal consumer is being replaced")
            if deadline is not None:  # each internal consumer would wait for all of `consumer_timeout_ms`
                unblock = _Deadline(self._handler, deadline, unblock_event)
            if unblock_event is not None and unblock_event.is_set():
                return None
            remaining = 1.0 if deadline is None else min(1.0, deadline - self._handler.now())
            if remaining <= 0:
                return None
            if consumer is self._consumer:
                self._changed.wait(min(remaining, 0.1) if unblock_event is not None else remaining)

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until none comes for `consumer_timeout_ms`."""
        while True:
            message = self.consume()
            if message is None:
                return
            yield message

    def _stopped(self) -> ConsumerStoppedException:
        return ConsumerStoppedException(
            "the consumer is not running; call start(), or make another", topic=self._topic.name
        )

    def _raise_worker_exceptions(self) -> None:
        """Raise the first error of a worker that was not raised yet."""
        self._worker_exceptions.raise_first()

    def _worker_failed(self, error: BaseException) -> None:
        """Report an error to `consume()`, even to a call that waits at present."""
        self._worker_exceptions.report(error, self._consumer)
        self._changed.set()

    # -- offsets ---------------------------------------------------------------------------------------------------

    def commit_offsets(self, partition_offsets: Iterable[tuple[Partition, int]] | None = None) -> None:
        """Commit how far this consumer's share was consumed; in a rebalance, what of it is still this consumer's.

        :param partition_offsets: as `SimpleConsumer.commit_offsets` has them
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: a partition is not in its share
        :raises OffsetsNotCommitted: some could not be committed after all retries, or were consumed before the partition
            went to another member, which has gone on from there; `.failures` has them
        """
        with self._rebalancing_lock:
            if partition_offsets is not None:
                partition_offsets = valid_pairs(partition_offsets, 0)
            if self._consumer is None and self._running:
                self._commit_midway(partition_offsets)
                return
            consumer = self._present("commit")
            if partition_offsets is not None:
                self._positions.check_not_stale(self._consumer_group, partition_offsets)
            consumer.commit_offsets(partition_offsets)

    def _commit_midway(self, pairs: Collection[tuple[Partition, int]] | None) -> None:
        if not self._still_owns():
            self._forget_positions()
        make = partial(self._get_internal_consumer, start=False)
        self._positions.commit_midway(self._consumer_group, pairs, make)

    def reset_offsets(self, partition_offsets: Iterable[tuple[Partition, Position]] | None = None) -> None:
        """Move partitions of this consumer's share, and commit the new positions.

        :param partition_offsets: as `SimpleConsumer.reset_offsets` has them
        :raises KafkaException: as `commit_offsets` does, or the brokers did not tell offsets
        """
        with self._rebalancing_lock:
            consumer = self._present("reset")
            moved = set(consumer.partitions)
            if partition_offsets is not None:
                partition_offsets = valid_pairs(partition_offsets, OffsetType.EARLIEST, or_time=True)
                moved = {partition.id for partition, _ in partition_offsets}
            consumer.reset_offsets(partition_offsets)
            self._positions.forget_lost(moved)  # an application that goes back on purpose may commit that

    def _present(self, what: str) -> SimpleConsumer:
        if self._consumer is None:
            if not self._running and not self._starts.due:
                raise self._stopped()
            raise KafkaException(
                f"there is nothing to {what}: the consumer holds no partitions at present; "
                "is it started, and its last rebalance done?",
                topic=self._topic.name,
            )
        return self._consumer

    # -- the internal consumer -------------------------------------------------------------------------------------

    def _setup_internal_consumer(self, partitions: Iterable[Partition] | None = None, start: bool = True) -> bool:
        """Consume these partitions, by the present internal consumer if it consumes the same ones already.

        Partitions of the former share go on where they were, the others where the group has committed.

        :param partitions: the new share; None for an empty one
        :param start: whether to start fetching
        :returns: whether the share changed
        :raises KafkaException: the brokers did not tell offsets
        :raises Exception: the callback has raised it; nothing of the share is consumed then
        """
        wanted = set(partitions or ())
        with self._rebalancing_lock:
            present = self._consumer
            if present is not None and present._engine.running and wanted == self._partitions:
                self._tell_membership(present)
                return False
            self._halt_or_report()
            consumer = self._get_internal_consumer(wanted, start=False)
            self._positions.give_to(consumer)
            try:
                if start:
                    consumer.start()
                self._call_back(consumer)
            except BaseException:
                # Nothing was consumed: the next attempt begins as this one did.
                discard(consumer)
                raise
            self._internal.start_over = False
            self._positions.begin(consumer)
            if self._stopping.is_set():  # by the callback, which cannot wait for the worker that runs it
                consumer.stop()
                return False
            self._consumer = consumer
        self._changed.set()
        return True

    def _get_internal_consumer(self, partitions: Iterable[Partition], start: bool = True) -> SimpleConsumer:
        """Make a `SimpleConsumer` of these partitions, or an `RdKafkaSimpleConsumer`."""
        consumer = self._internal.make(partitions, self._stopping)
        self._tell_membership(consumer)
        if start:
            consumer.start()
        return consumer

    def _tell_membership(self, consumer: SimpleConsumer) -> None:
        """Give the present generation to a consumer, for its commits."""
        if consumer._engine.commits is not None:
            consumer._engine.commits.consumer_id = self._consumer_id
        if self._generation_id >= 0:
            member = consumer._engine.membership
            member.generation_id, member.member_id = self._generation_id, get_string(self._consumer_id)
            member.group_instance_id = self._group_instance_id

    def _call_back(self, consumer: SimpleConsumer) -> None:
        """Call the user's callback for a new share, and go to the offsets that it returns.

        If it raises, nothing of the share is consumed: the callback has not said where to begin.
        """
        callback = self._group_options.post_rebalance_callback
        if callback is None:
            return
        offsets = callback(self, self._positions.old_offsets, consumer.held_offsets)
        if offsets:
            consumer.reset_offsets(wanted_positions(consumer, offsets))

    def _spawn_worker(self, leave: Callable[[], None], name: str) -> Any:
        """Start the worker that looks after the share until `stop()`, or until the application has dropped this consumer.

        :param leave: leaves the group for a consumer that was dropped; does not refer to it
        """
        tether = Tether(self._stopping)
        self._cluster.stop_at_close(tether)
        return self._handler.spawn(look_after, weakref.ref(self), self._stopping, leave, os.getpid(), tether, name=name)

    @abstractmethod
    def _turn(self, stopping: Any) -> tuple[EventType, float] | None:
        """Do what is due for the share; return what to wait for, and for how long (s), or None to end the worker."""

    def _worker_ended(self, stopping: Any, error: BaseException) -> None:
        # another event: this is a greenlet of the process that this one was forked from
        if stopping is self._stopping and not stopping.is_set():
            self._end_by(error)

    def _end_by(self, error: BaseException) -> None:
        """End this consumer, in its own worker; `consume()` raises the reason.

        :param error: the reason, which may be the end of the worker, such as a callback's `sys.exit()`
        """
        told = error
        if not isinstance(error, Exception):
            told = ConsumerStoppedException(
                f"the consumer has ended and leaves its group: {type(error).__name__}{f' ({error})' if str(error) else ''} has "
                "ended its worker, which calls post_rebalance_callback; start() it again, or make another",
                topic=self._topic.name,
            )
            told.__cause__ = error
        log.error("group %s: %s", self._consumer_group, told)
        self._stopping.set()
        self._worker_exceptions.append(told)
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

    @abstractmethod
    def _leave(self) -> None:
        """Leave the group, so that others can take over."""

    def _halt(self, midway: bool = True) -> None:
        """Stop consuming, and note the positions; commit if auto-commit is on and the share is still this member's.

        :param midway: whether the application may not be done with what the last call returned
        :raises OffsetsNotCommitted: that commit failed; consuming has stopped all the same
        """
        with self._rebalancing_lock:
            consumer, self._consumer = self._consumer, None
            if consumer is None:
                return
            engine = consumer._engine
            if not self._still_owns():
                left = {key.partition: offset for key, offset in engine.never_commit().items()}
                if left and self._options.auto_commit_enable:
                    text = "group %s: %s is not committed, as others may have these partitions by now"
                    log.warning(text, self._consumer_group, left)
            try:
                (consumer.stop_midway if midway else consumer.stop)()
            finally:
                self._worker_exceptions.extend(engine.errors)
                self._positions.take_from(consumer)

    def _still_owns(self) -> bool:
        """Return whether the share has been this member's all along, so that its positions may be committed.

        In groups that the brokers keep, the coordinator refuses commits of members that have lost their share.
        """
        return True

    def _await_hand(self, consumer: SimpleConsumer) -> None:
        """Return no messages for now, and wait a moment for the next call: then the application is done with the last ones.

        If no call comes, they are not committed, and the next owner of their partition gets them once more.
        """
        engine = consumer._engine
        engine.buffers.closed = True
        engine.await_borrowed()
        if not self._options.auto_commit_enable:
            return
        deadline = self._handler.now() + HAND_WAIT_S
        while engine.processed() != engine.positions() and self._handler.now() < deadline:
            if self._stopping.wait(0.005):
                return

    def _halt_or_report(self) -> None:
        """Stop consuming in the middle of a change of shares; `consume()` raises if a commit has failed for good.

        A commit that failed only for now, for example because the coordinator moves, costs no more than consuming again.
        """
        try:
            self._halt()
        except KafkaException as error:
            if may_commit_later(self._cluster, error):
                log.warning("group %s: %s; these messages are consumed again", self._consumer_group, error)
                return
            log.error("group %s: %s", self._consumer_group, error)
            self._worker_exceptions.append(error)

    def _forget_positions(self, kept: Iterable[int] = ()) -> None:
        """Continue partitions where the group has committed: other members may have consumed them meanwhile.

        :param kept: ids of the partitions that were this member's all the time
        """
        with self._rebalancing_lock:
            self._positions.forget(kept)
