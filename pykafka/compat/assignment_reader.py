"""`AssignmentReader`: reads a member's partitions by an internal `SimpleConsumer`, and replaces it when they change."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.common import OffsetType
from pykafka.compat.options import GroupOptions, TopicConsumerOptions
from pykafka.compat.position_transfer import PositionTransfer
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.consumer.committed_offsets import may_commit_later
from pykafka.consumer.options import ConsumerOptions, valid_pairs
from pykafka.exceptions import ConsumerStoppedException, KafkaException, ShareLostError
from pykafka.handlers.start_once import StartOnce
from pykafka.utils import get_string
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from pykafka.consumer.startrules import Position
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView
    from pykafka.metrics.listener import ClientListener

log = logging.getLogger(__name__)

#: How long a change of the assignment waits until the application has processed the last messages (s).
PROCESSED_TIMEOUT_S = 1.0


class AssignmentReader:
    """The internal consumer of a `GroupConsumer`, which replaces it when its assignment changes.

    State: `_consumer` and `_positions` change under `_rebalancing_lock`, held for one attempt to change the assignment and for
    commits.
    """

    def _configure(self, topic: TopicView, cluster: BaseCluster, given: dict[str, Any]) -> None:
        """Check and store the arguments of a constructor.

        :param given: {name: value} of the options
        :raises TypeError, ValueError: an argument is out of bounds; the error names it
        """
        self._group_options = GroupOptions.of(given)
        self._topic = topic
        self._cluster = cluster
        self._handler = cluster.handler
        #: The internal consumer's.
        self._options = ConsumerOptions.of({**given, "reset_offset_on_start": False})
        self._consumer_group = Name.of(self._group_options.consumer_group)
        self._membership_protocol = self._group_options.membership_protocol
        self._own = TopicConsumerOptions.of(given)
        #: Whether the first assignment, which is not read yet, begins at `auto_offset_reset`.
        self._starts_over = self._group_options.reset_offset_on_start
        self._group_instance_id: str | None = None
        #: What listens to each internal consumer in turn; None before the first, and if nobody listens.
        self._listener: ClientListener | None = None
        self._starts = StartOnce(self._handler)

    def _begin_afresh(self) -> None:
        self._consumer_id = Name.of("")
        self._generation_id = -1
        self._rebalancing_lock = self._handler.RLock()
        self._changed = self._handler.Event()
        self._stopping = self._handler.Event()
        # Set except while a function of the application runs under `_rebalancing_lock`; its name; and of a worker, `calls`:
        # whether it is inside of one.
        self._no_call = self._handler.Event()
        self._no_call.set()
        self._called = ""
        self._here = self._handler.local()
        #: Errors that `consume()` has still to raise, each once; any worker adds one.
        self._worker_exceptions: deque[BaseException] = deque()
        self._consumer: SimpleConsumer | None = None
        self._positions = PositionTransfer(self._topic)
        self._running = False

    # -- the assignment ------------------------------------------------------------------------------------------------

    @property
    def topic(self) -> TopicView:
        """The topic whose partitions this consumer shares with its group."""
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
        """The offset last consumed of each partition, by id; -2 if nothing was consumed from its start on."""
        consumer = self._consumer
        return consumer.held_offsets if consumer is not None else {}

    def _setup_internal_consumer(self, partitions: Iterable[Partition] | None = None, start: bool = True) -> bool:
        """Consume these partitions, by the present internal consumer if it consumes the same ones already.

        Partitions of the former assignment continue where they were, the others where the group has committed.

        :param partitions: the new assignment; None for an empty one
        :param start: whether to start fetching
        :returns: whether the assignment changed
        :raises KafkaException: the brokers did not report offsets
        :raises Exception: the callback has raised it; nothing of the assignment is consumed then
        """
        wanted = set(partitions or ())
        stopping = self._stopping
        with self._rebalancing_lock:
            present = self._consumer
            if present is not None and present._engine.running and wanted == self._partitions:
                self._set_membership(present)
                return False
            self._halt_or_report()
            consumer = self._get_internal_consumer(wanted, start=False)
            self._positions.give_to(consumer)
            try:
                if start:
                    consumer.start()
                self._call_back(consumer, stopping)
            except BaseException:
                # Nothing was consumed: the next attempt begins as this one did.
                consumer._engine.discard()
                raise
            self._starts_over = False
            self._positions.begin(consumer)
            if stopping.is_set():  # by the callback, which may have started this consumer again
                consumer._engine.discard()
                return False
            self._consumer = consumer
        self._changed.set()
        return True

    def _get_internal_consumer(self, partitions: Iterable[Partition], start: bool = True) -> SimpleConsumer:
        """Make a `SimpleConsumer` of these partitions, or an `RdKafkaSimpleConsumer`."""
        kind = SimpleConsumer
        if self._group_options.use_rdkafka:
            from pykafka.compat.rdkafka.classes import RdKafkaSimpleConsumer

            kind = RdKafkaSimpleConsumer
        options = replace(self._options, reset_offset_on_start=self._starts_over)
        consumer = kind._of(
            self._topic, self._cluster, options, sorted(partitions), self._own.deserializer, self._listener
        )
        self._listener = consumer._engine.listener
        consumer._engine.owner_stopping = self._stopping
        # its last commit needs the membership, so closing the client must not stop it by itself
        self._cluster.leave_to_owner(consumer)
        self._set_membership(consumer)
        if start:
            consumer.start()
        return consumer

    def _set_membership(self, consumer: SimpleConsumer) -> None:
        """Give the present generation to a consumer, for its commits."""
        if consumer._engine.commits is not None:
            consumer._engine.commits.consumer_id = self._consumer_id
        if self._generation_id >= 0:
            member = consumer._engine.membership
            member.generation_id, member.member_id = self._generation_id, get_string(self._consumer_id)
            member.group_instance_id = self._group_instance_id

    @contextmanager
    def _calling(self, name: str, stopping: EventType) -> Iterator[None]:
        """Note that a function of the application runs: `stop()` does not wait for it without limit.

        :param stopping: set when this consumer stops: nothing is called then
        :raises ConsumerStoppedException: it does
        """
        inside, self._here.calls = getattr(self._here, "calls", False), True
        try:
            self._called = name
            self._no_call.clear()
            if stopping.is_set():  # not before: a `stop()` that comes now finds the call
                raise self._stopped()
            yield
        finally:
            self._here.calls = inside
            if not inside:
                self._no_call.set()

    def _await_call(self, seconds: float) -> bool:
        """Wait until no function of the application holds `_rebalancing_lock`; return whether that was in time.

        Inside of one there is nothing to wait for.
        """
        return getattr(self._here, "calls", False) or self._no_call.wait(seconds)

    def _call_back(self, consumer: SimpleConsumer, stopping: EventType) -> None:
        """Call the user's callback for a new assignment, and go to the offsets that it returns.

        If it raises, nothing of the assignment is consumed: the callback has not said where to begin.

        :raises TypeError: it has not returned a mapping
        :raises KafkaException: it names partitions that are not assigned
        """
        callback = self._group_options.post_rebalance_callback
        if callback is None:
            return
        with self._calling("post_rebalance_callback", stopping):
            offsets = callback(self, self._positions.old_offsets, consumer.held_offsets)
        if not offsets:
            return
        if not isinstance(offsets, Mapping):
            raise TypeError(f"post_rebalance_callback must return {{partition id: offset}} or None, not {offsets!r}")
        partitions = consumer.partitions
        strangers = [id_ for id_ in offsets if id_ not in partitions]
        if strangers:
            raise KafkaException(
                f"post_rebalance_callback names partitions {strangers}, which are not in the new assignment: "
                f"{sorted(partitions)}",
                topic=self._topic.name,
            )
        consumer.reset_offsets([(partitions[id_], offset) for id_, offset in offsets.items()])

    # -- stopping ------------------------------------------------------------------------------------------------------

    def _halt(self, midway: bool = True) -> None:
        """Stop consuming, and note the positions; commit if auto-commit is on and this member still owns its partitions.

        :param midway: whether the application may still process the messages of its last call
        :raises OffsetsNotCommitted: that commit failed; consuming has stopped all the same. That ZooKeeper has lost sight of
            this member meanwhile is no error, as it is none before
        """
        with self._rebalancing_lock:
            consumer, self._consumer = self._consumer, None
            if consumer is None:
                return
            engine = consumer._engine
            if not self._still_owns():
                left = {key.partition: offset for key, offset in engine.never_commit().items()}
                if left and self._options.auto_commit_enable:
                    text = "group %s: %s is not committed, as other members may have these partitions by now"
                    log.warning(text, self._consumer_group, left)
            try:
                (consumer.stop_midway if midway else consumer.stop)()
            except ShareLostError as error:
                if engine.membership.may_commit is None:  # the group is not in ZooKeeper
                    raise
                log.warning("group %s: %s", self._consumer_group, error)
            finally:
                self._worker_exceptions.extend(engine.errors)
                self._positions.take_from(consumer)

    def _halt_or_report(self) -> None:
        """Stop consuming amid a change of the assignment; `consume()` raises if a commit has failed for good.

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

    def _still_owns(self) -> bool:
        """Return whether the partitions have been this member's all along, so that its positions may be committed.

        In groups that the brokers keep, the coordinator refuses the commits of members that are out of the group.
        """
        return True

    def _await_processed(self, consumer: SimpleConsumer) -> None:
        """Return no messages for now, and wait a moment for the next call: it means that the last ones are processed.

        If no call comes, they are not committed, and the next owner of their partition gets them once more.
        """
        engine = consumer._engine
        engine.buffers.closed = True
        engine.await_borrowed()
        if not self._options.auto_commit_enable:
            return
        deadline = self._handler.now() + PROCESSED_TIMEOUT_S
        while engine.processed() != engine.positions() and self._handler.now() < deadline:
            if self._stopping.wait(0.005):
                return

    def _forget_positions(self, kept: Iterable[int] = ()) -> None:
        """Continue partitions where the group has committed: other members may have consumed them meanwhile.

        :param kept: ids of the partitions that were this member's all the time
        """
        with self._rebalancing_lock:
            self._positions.forget(kept)

    # -- offsets -------------------------------------------------------------------------------------------------------

    def commit_offsets(self, partition_offsets: Iterable[tuple[Partition, int]] | None = None) -> None:
        """Commit how far this consumer has consumed its partitions; in a rebalance, those that are still its own.

        :param partition_offsets: see `SimpleConsumer.commit_offsets`
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: a partition is not assigned to this consumer
        :raises OffsetsNotCommitted: some could not be committed after all retries, or were consumed before the partition
            went to another member, which has continued from there; `.failures` has them
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
        """Move partitions of this consumer, and commit the new positions.

        :param partition_offsets: see `SimpleConsumer.reset_offsets`
        :raises KafkaException: as `commit_offsets` does, or the brokers did not report offsets
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

    def _stopped(self) -> ConsumerStoppedException:
        return ConsumerStoppedException(
            "the consumer is not running; call start(), or make another", topic=self._topic.name
        )
