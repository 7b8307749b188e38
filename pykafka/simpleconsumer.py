"""`SimpleConsumer`: all partitions of a topic, or those that are named, read by one consumer."""

from __future__ import annotations

import datetime
import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.common import OffsetType
from pykafka.consumer.aborted import isolation_number
from pykafka.consumer.batches import BatchConsumer
from pykafka.consumer.buffers import Buffers, OwnedPartition
from pykafka.consumer.growth import Growth
from pykafka.consumer.offsets import Committed, GroupOffsets, may_commit_later
from pykafka.consumer.options import (
    AUTO_COMMIT_TIMEOUT_MS,
    METADATA_MAX_AGE_MS,
    QUEUED_MAX_BYTES,
    ConsumerOptions,
    valid_pairs,
    valid_partitions,
)
from pykafka.consumer.recovery import Recovery
from pykafka.exceptions import ConsumerStoppedException, KafkaException, OffsetRequestFailedError
from pykafka.protocol import documented
from pykafka.utils import get_string, milliseconds
from pykafka.utils.error_handlers import valid_callable

if TYPE_CHECKING:
    from types import TracebackType

    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.partition import Partition, TopicView
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long stop() and rebalances wait for a consume_arrow() that is decoding (s).
LOANS_WAIT_S = 2.0
#: What a position can be given as: an OffsetType, a datetime, or the offset of the last message consumed.
Position = int | datetime.datetime

__all__ = ["OwnedPartition", "SimpleConsumer"]

#: How old a commit may be that auto-commit does not do again (s). Brokers forget it offsets.retention.minutes after it, by
#: default a day before Kafka 2.1 and a week since, unless (since 2.1) the group has members: see KIP-211.
COMMIT_AGAIN_S = 3600.0
#: How often the worker that commits looks whether its consumer is still there (s).
GONE_S = 1.0


class SimpleConsumer(BatchConsumer):
    """Read a topic without sharing it: several of these each get every message.

    Messages come from the partitions in turn, those of one partition in order. Fetch workers, shared with other
    consumers of the same client, keep some buffered ahead of `consume()`.

    :param topic: to read
    :param cluster: that has it
    :param consumer_group: under which offsets are committed; None for none
    :param partitions: to read; by default all
    :param fetch_message_max_bytes: how much to fetch of a partition at a time (bytes)
    :param num_consumer_fetchers: connections and workers for each broker
    :param auto_commit_enable: commit regularly what the calls before the last one have returned (one worker is to consume),
        and at `stop()` all that was returned; what the last call gave is not committed where an error ends the `with` block;
        what does not change is committed again every hour, as brokers forget old commits
    :param auto_commit_interval_ms: how often
    :param queued_max_messages: for each partition; fetching pauses while more are buffered
    :param fetch_min_bytes: how much data the broker waits for
    :param fetch_error_backoff_ms: pause before a partition that failed is fetched again
    :param fetch_wait_max_ms: how long the broker waits for that much data
    :param offsets_channel_backoff_ms: pause between attempts to commit or fetch offsets
    :param offsets_commit_max_retries: attempts beyond the first
    :param auto_offset_reset: where to begin without a committed offset, or when the offset is no longer kept:
        `OffsetType.EARLIEST` ("earliest"), `OffsetType.LATEST` ("latest"), or "none", which has `consume()` raise
    :param consumer_timeout_ms: how long `consume()` waits before it returns None; -1 for as long as it takes
    :param auto_start: start at once; else with `start()`
    :param reset_offset_on_start: begin at `auto_offset_reset` whatever is committed
    :param compacted_topic: accepted for old code; gaps between offsets are never a problem
    :param generation_id: of a group membership, for commits
    :param consumer_id: likewise
    :param deserializer: `(value, partition_key) -> (value, partition_key)`; what it raises comes as the cause of a
        `DeserializationError`
    :param reset_offset_on_fetch: whether `fetch_offsets()` moves the consumer to what is committed
    :param isolation_level: "read_uncommitted", or "read_committed" to leave out what transactions have not committed
    :param queued_max_bytes: of the consumer as a whole, unpacked; fetching pauses while this much is buffered
    :param auto_commit_timeout_ms: how long auto-commit may fail for what passes by itself (a coordinator that moves, a
        connection that breaks) before `consume()` raises it; until then it is logged, and tried again at the next interval
    :param metadata_max_age_ms: how often metadata is asked for: partitions that the topic has got since are read by then,
        from their beginning, or where the group has committed; not where `partitions` are given
    """

    def __init__(
        self,
        topic: TopicView,
        cluster: BaseCluster,
        consumer_group: str | bytes | None = None,
        partitions: Iterable[Partition] | None = None,
        fetch_message_max_bytes: int = 1024 * 1024,
        num_consumer_fetchers: int = 1,
        auto_commit_enable: bool = False,
        auto_commit_interval_ms: int = 60 * 1000,
        queued_max_messages: int = 2000,
        fetch_min_bytes: int = 1,
        fetch_error_backoff_ms: int = 500,
        fetch_wait_max_ms: int = 100,
        offsets_channel_backoff_ms: int = 1000,
        offsets_commit_max_retries: int = 5,
        auto_offset_reset: int | str = OffsetType.EARLIEST,
        consumer_timeout_ms: int = -1,
        auto_start: bool = True,
        reset_offset_on_start: bool = False,
        compacted_topic: bool = False,
        generation_id: int = -1,
        consumer_id: str | bytes = b"",
        deserializer: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        reset_offset_on_fetch: bool = True,
        *,
        isolation_level: str = "read_uncommitted",
        queued_max_bytes: int = QUEUED_MAX_BYTES,
        auto_commit_timeout_ms: int = AUTO_COMMIT_TIMEOUT_MS,
        metadata_max_age_ms: int = METADATA_MAX_AGE_MS,
    ) -> None:
        self._options = ConsumerOptions.checked(
            consumer_group=get_string(consumer_group, "consumer_group") if consumer_group is not None else None,
            fetch_message_max_bytes=fetch_message_max_bytes,
            num_consumer_fetchers=num_consumer_fetchers,
            auto_commit_enable=auto_commit_enable,
            auto_commit_interval_ms=auto_commit_interval_ms,
            queued_max_messages=queued_max_messages,
            fetch_min_bytes=fetch_min_bytes,
            fetch_error_backoff_ms=fetch_error_backoff_ms,
            fetch_wait_max_ms=fetch_wait_max_ms,
            offsets_channel_backoff_ms=offsets_channel_backoff_ms,
            offsets_commit_max_retries=offsets_commit_max_retries,
            auto_offset_reset=auto_offset_reset,
            consumer_timeout_ms=consumer_timeout_ms,
            reset_offset_on_start=reset_offset_on_start,
            reset_offset_on_fetch=reset_offset_on_fetch,
            isolation_level=isolation_level,
            queued_max_bytes=queued_max_bytes,
            auto_commit_timeout_ms=auto_commit_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
        )
        self._topic = topic
        self._cluster = cluster
        self._handler = cluster.handler
        self._deserializer = valid_callable(deserializer, "deserializer")
        self._arrived = self._handler.Event()
        self._stopping = self._handler.Event()
        self._buffers = Buffers(self._handler, topic.name, queued_max_bytes)
        self._reads_all = partitions is None
        if self._reads_all:
            self._refresh_metadata()
        chosen = topic.partitions.values() if partitions is None else valid_partitions(partitions, topic)
        self._partitions_by_id: dict[int, OwnedPartition] = {
            partition.id: self._own_anew(partition) for partition in chosen
        }
        #: The partitions that were added to the topic, as far as that is known: read from their beginning.
        self._added: frozenset[int] = frozenset()
        self._generation_id = generation_id
        self._consumer_id = get_string(consumer_id, "consumer_id")
        self._group_offsets: GroupOffsets | None = None
        if self._options.consumer_group is not None:
            self._group_offsets = GroupOffsets(
                cluster,
                self._options.consumer_group,
                topic.name,
                self._options.offsets_channel_backoff_ms,
                self._options.offsets_commit_max_retries,
                generation_id,
                self._consumer_id,
            )
        #: Set when whoever owns this consumer stops, and waits for `start()` to end.
        self._owner_stopping: EventType | None = None
        #: Of a consumer that shares the topic: whether its partitions are its own still, where it can tell; others may have
        #: committed further otherwise.
        self._may_commit: Callable[[], bool] | None = None
        #: How long leaders may be sought when offsets are to be found out (ms); None for the socket timeout.
        self._search_timeout_ms: int | None = None
        self._recovery = Recovery(self)
        self._growth = Growth(self, metadata_max_age_ms / 1000)
        self._worker_exceptions: deque[BaseException] = deque()
        self._committed: dict[int, int] = {}
        #: When that was done, or found out to be in other hands; nothing where it was found committed.
        self._committed_at: dict[int, float] = {}
        self._committing = self._handler.Lock()  # held while the coordinator is asked
        self._autocommit_worker: Any = None
        #: Since when auto-commit has failed; None while it does not.
        self._uncommitted_since: float | None = None
        self._midway = False
        self._done_at_stop: dict[int, int] = {}
        self._running = False
        self._restart = False
        self._left_to_parent: list[Any] = []
        cluster.stop_at_close(self)
        self._handler.at_fork(self._after_fork)
        if auto_start:
            self.start()

    def __repr__(self) -> str:
        return (
            f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} "
            f"(consumer_group={self._options.consumer_group}, topic={self._topic.name})>"
        )

    def __enter__(self) -> SimpleConsumer:
        """Start the consumer, if it is not running."""
        if not self._running:
            self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the consumer, committing first where auto-commit is on: after an error without what was in hand."""
        if exc_type is None:
            self.stop()
        else:
            self.stop_midway()

    # Documented, and nothing to do: fetch workers notice by themselves. C, as in BrokerConnection.
    __del__ = object.__init__

    # -- what it reads ---------------------------------------------------------------------------------------------

    @property
    def topic(self) -> TopicView:
        """The topic this consumer reads."""
        return self._topic

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions this consumer reads, by id."""
        return {id_: owned.partition for id_, owned in self._partitions_by_id.items()}

    @property
    def held_offsets(self) -> dict[int, int]:
        """The offset last consumed of each partition, by id; -2 where nothing was consumed from its start on."""
        return {
            id_: owned.last_offset_consumed if owned.last_offset_consumed >= 0 else int(OffsetType.EARLIEST)
            for id_, owned in self._partitions_by_id.items()
        }

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Find out where to begin, then start fetching; a stopped consumer goes on after what it consumed last.

        With `reset_offset_on_start` it begins at `auto_offset_reset`, each time.

        :raises KafkaException: offsets could not be found out
        """
        if self._running:
            return
        self._stopping = self._handler.Event()  # another: a worker that stop() has not waited out heeds the old one
        self._worker_exceptions.clear()
        self._set_positions()
        self._running = True
        self._buffers.closed = False
        self._setup_fetch_workers()
        if self._options.auto_commit_enable:
            self._setup_autocommit_worker()

    def _after_fork(self) -> None:
        # Workers are threads that this child has not got, or greenlets that it has got a copy of; locks may be held by
        # nobody. The next consume() starts afresh, after what was consumed last.
        self._left_to_parent.append(
            (self._buffers, self._recovery, self._growth, self._stopping, self._committing, self._partitions_by_id)
        )
        self._restart = self._running
        self._running = False
        self._buffers.closed = True
        self._buffers = Buffers(self._handler, self._topic.name, self._options.queued_max_bytes)
        self._arrived = self._handler.Event()
        self._stopping = self._handler.Event()
        self._recovery = Recovery(self)
        self._growth = Growth(self, self._options.metadata_max_age_ms / 1000)
        self._committing = self._handler.Lock()
        self._put_off = ()
        self._autocommit_worker = None
        self._partitions_by_id = {id_: owned.copy_into(self._buffers) for id_, owned in self._partitions_by_id.items()}

    def stop(self) -> None:
        """Stop fetching, and commit all that was returned where auto-commit is on; does nothing when it is stopped.

        :raises OffsetsNotCommitted: that commit failed; the consumer is stopped all the same
        """
        self._restart = False
        if not self._running:
            return
        self._running = False
        self._buffers.closed = True
        self._stopping.set()
        self._arrived.set()
        self.cleanup()
        self._recovery.join()
        self._growth.join()
        self.cleanup()  # what it has attached meanwhile
        self._await_loans()
        if self._autocommit_worker is not None:
            self._autocommit_worker.join(self._cluster.socket_timeout_ms / 1000)
            self._autocommit_worker = None
        self._done_at_stop = self._done()
        offsets = self._done_at_stop if self._midway else self._positions()
        for id_, owned in self._partitions_by_id.items():
            self._move(id_, owned.position, owned.last_offset_consumed)
        if self._options.auto_commit_enable and self._options.consumer_group is not None:
            self._commit_at_stop(offsets)

    def _commit_at_stop(self, offsets: Mapping[int, int]) -> None:
        """Commit what has not been committed yet: where a group has moved on meanwhile, there is nothing to fail."""
        # a cluster that does not answer is not asked for ever
        deadline = self._handler.now() + self._cluster.socket_timeout_ms / 1000
        if (left := self._uncommitted(offsets)) and self._owns():
            self._commit(left, lambda: self._handler.now() < deadline and self._owns())

    def _owns(self) -> bool:
        return self._may_commit is None or self._may_commit()

    def _uncommitted(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Return those of some offsets that this consumer has not committed last."""
        return {id_: offset for id_, offset in offsets.items() if self._committed.get(id_) != offset}

    def stop_midway(self) -> None:
        """Stop as `stop()` does, but commit nothing of what the last call returned: it may not have been dealt with.

        Leaving a `with` block by an error does this, and so does the end of the interpreter.
        """
        self._midway = True
        try:
            self.stop()
        finally:
            self._midway = False

    def _await_loans(self) -> None:
        """Wait until what `consume_arrow()` has under way is counted; the buffers are closed, so that no more begins."""
        deadline = self._handler.now() + LOANS_WAIT_S
        while any(owned.loan for owned in self._partitions_by_id.values()) and self._handler.now() < deadline:
            self._handler.sleep(0.001)

    # -- consuming -------------------------------------------------------------------------------------------------

    def consume(self, block: bool = True, unblock_event: Any = None) -> Message | None:
        """Return the next message.

        :param block: whether to wait for one, `consumer_timeout_ms` at most
        :param unblock_event: ends the wait when it is set
        :returns: None where there is none (in time)
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: what keeps it from fetching; raised once, fetching goes on where it can
        :raises DeserializationError: the deserializer failed at a message; the next call goes on behind it
        :raises OffsetResetNeededError: `auto_offset_reset="none"`, and a partition has no offset to go on at; again
            every second or two until somebody says where, by `seek()` or `reset_offsets()`
        """
        if self._deserializer is not None:
            return self._consume_one_deserialized(block, unblock_event)
        message = self._buffers.next()
        if message is None:
            message = self._consume_slowly(block, unblock_event)
        return message

    def _consume_slowly(self, block: bool, unblock_event: Any) -> Message | None:
        return self._wait_for(self._buffers.next, block, unblock_event)

    def _wait_for(self, take: Callable[[], T | None], block: bool, unblock_event: Any) -> T | None:
        """Find out why there is nothing to take: the consumer stopped, a worker failed, or nothing came yet; wait if asked.

        :param take: gives what is there, or None
        """
        timeout_ms = self._options.consumer_timeout_ms
        deadline = None if timeout_ms < 0 else self._handler.now() + timeout_ms / 1000
        while True:
            self._raise_worker_exceptions()
            if self._restart:
                self._restart = False
                self.start()
            if not self._running:
                raise ConsumerStoppedException(
                    "the consumer is not running; call start(), or make another", topic=self._topic.name
                )
            self._arrived.clear()
            found = take()
            if found is not None or not block:
                return found
            if unblock_event is not None and unblock_event.is_set():
                return None
            if self._worker_exceptions:
                continue
            # without a limit of the caller's, stop() and a worker's error still end the wait: both set the event
            remaining = 1.0 if deadline is None else min(1.0, deadline - self._handler.now())
            if unblock_event is not None:
                remaining = min(remaining, 0.1)
            if remaining <= 0:
                return None
            self._recovery.revive()
            self._arrived.wait(remaining)

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until none comes for `consumer_timeout_ms`."""
        take = self._buffers.next
        plain = self._deserializer is None
        while True:
            message = take() if plain else None
            if message is None:
                message = self.consume()
                if message is None:
                    return
            yield message

    def _raise_worker_exceptions(self) -> None:
        """Raise what went wrong in a worker, once."""
        if self._worker_exceptions:
            raise self._worker_exceptions.popleft()

    def _worker_failed(self, error: BaseException) -> None:
        self._worker_exceptions.append(error)
        self._arrived.set()

    # -- what fetchers say (never blocks) --------------------------------------------------------------------------------

    def arrived(self) -> None:
        """Wake `consume()`: there is something to read."""
        self._arrived.set()

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Have a partition that could not be fetched looked after."""
        self._recovery.failed(owned, error)

    def tick(self) -> None:
        """Have new partitions looked for, where it is time to."""
        if self._reads_all:
            self._growth.tick()

    # -- partitions that are added to the topic -------------------------------------------------------------------------

    def _own_anew(self, partition: Partition) -> OwnedPartition:
        options = self._options
        return OwnedPartition(partition, self._buffers, options.queued_max_messages, options.fetch_message_max_bytes)

    def _refresh_metadata(self) -> None:
        try:
            self._cluster.refresh_older(self._options.metadata_max_age_ms / 1000, [self._topic.name])
        except KafkaException as error:  # what is known of the topic will do for now
            about, text = type(error).__name__, "no metadata for %s: %s"
            self._cluster.limiter.warn(log, about, text, self._topic.name, error)

    def _unread_partitions(self) -> set[int]:
        """Return the ids of partitions that the topic has got since."""
        return self._topic.partitions.keys() - self._partitions_by_id.keys()

    def _read_added(self) -> None:
        """Read the partitions that the topic has got since, too.

        :raises KafkaException: where to begin could not be found out
        """
        stopping = self._stopping
        added = {id_: self._own_anew(self._topic.partitions[id_]) for id_ in self._unread_partitions()}
        if not added:
            return
        self._added |= added.keys()
        for id_, offset in self._beginnings(list(added)).items():
            self._buffers.move(added[id_], offset, offset - 1)
        if stopping.is_set():
            return
        log.info("topic %s has got partitions %s: they are read, too", self._topic.name, sorted(added))
        self._partitions_by_id = {**self._partitions_by_id, **added}  # another dict: readers take no lock
        self._fetch_added(added.values())

    def _fetch_added(self, added: Iterable[OwnedPartition]) -> None:
        for owned in added:
            self._recovery.attach(owned)

    # -- positions -------------------------------------------------------------------------------------------------

    def _set_positions(self) -> None:
        """Find out where each partition begins that has no position yet: as committed, else as `auto_offset_reset` says."""
        options = self._options
        reset = options.auto_offset_reset
        if options.reset_offset_on_start and not isinstance(reset, str):
            self._reset(dict.fromkeys(self._partitions_by_id, reset))
            if self._group_offsets is not None:
                self.commit_offsets()
            return
        missing = [id_ for id_, owned in self._partitions_by_id.items() if owned.position < 0]
        for id_, offset in self._beginnings(missing).items():
            self._move(id_, offset, offset - 1)

    def _beginnings(self, ids: list[int]) -> dict[int, int]:
        """Find out where to begin: as committed, else as `auto_offset_reset` says; added partitions at their beginning.

        :raises KafkaException: it could not be found out
        """
        found: dict[int, int] = {}
        if self._group_offsets is not None and ids:
            owner = self._owner_stopping
            committed = self._group_offsets.fetch(ids, lambda: owner is None or not owner.is_set())
            found = {id_: committed[id_].offset for id_ in ids if committed[id_].offset >= 0}
            if (
                self._generation_id >= 0
            ):  # a group with members keeps its offsets; others' expire, and stop() renews them
                self._committed.update(found)
        missing = [id_ for id_ in ids if id_ not in found]
        wanted: dict[int, Position] = {id_: OffsetType.EARLIEST for id_ in missing if id_ in self._added}
        reset = self._options.auto_offset_reset
        if not isinstance(reset, str):  # else consume() raises that nobody has said where to begin
            wanted |= dict.fromkeys((id_ for id_ in missing if id_ not in wanted), reset)
        found.update(self._find_offsets(wanted))
        return found

    def _reset(self, wanted: Mapping[int, Position]) -> None:
        """Move partitions to where an OffsetType or a time says."""
        for id_, offset in self._find_offsets(wanted).items():
            self._move(id_, offset, offset - 1)

    def _find_offsets(self, wanted: Mapping[int, Position], timeout_ms: int | None = None) -> dict[int, int]:
        """Find out which offset an OffsetType or a time means, for each partition.

        :param timeout_ms: how long leaders may be sought; by default the socket timeout
        :raises KafkaException: it could not be found out
        """
        if not wanted:
            return {}
        name = self._topic.name
        level = isolation_number(self._options.isolation_level)
        found = self._cluster.list_offsets(
            {(name, id_): milliseconds(position) for id_, position in wanted.items()},
            timeout_ms=timeout_ms or self._search_timeout_ms,
            isolation_level=level,
        )
        late = [id_ for id_ in wanted if found[name, id_].offset < 0]
        beyond = {
            (name, id_): OffsetType.EARLIEST if found[name, id_].by_segment else OffsetType.LATEST for id_ in late
        }
        ends = {}
        if beyond:
            patience_ms = timeout_ms or self._search_timeout_ms
            ends = self._cluster.list_offsets(beyond, timeout_ms=patience_ms, isolation_level=level)
        offsets = {id_: ends[name, id_].offset if id_ in late else found[name, id_].offset for id_ in wanted}
        for id_, offset in offsets.items():
            if offset < 0:
                raise OffsetRequestFailedError("the broker names no offset", topic=name, partition=id_)
        return offsets

    def _move(self, id_: int, position: int, last_offset_consumed: int) -> None:
        owned = self._partitions_by_id[id_]
        self._buffers.move(owned, position, last_offset_consumed)
        if owned.wake is not None:
            owned.wake.set()
        self._recovery.moved()

    def reset_offsets(self, partition_offsets: Iterable[tuple[Partition, Position]] | None = None) -> None:
        """Move partitions, and commit where they are then if there is a consumer group.

        :param partition_offsets: (partition, where) pairs; where is an OffsetType, a datetime (the first message that is
            not older, or the end), or the offset to hold, as `held_offsets` has it: the next message is the one after;
            by default all partitions go to `auto_offset_reset`. `seek()` names the next message itself.
        :raises KafkaException: a partition is not one of this consumer's, or offsets could not be found out
        :raises ValueError: nothing says where: no `partition_offsets`, and `auto_offset_reset` is "none"
        """
        if partition_offsets is None:
            wanted: dict[int, Position] = dict.fromkeys(self._partitions_by_id, self._options.reset_position())
        else:
            given = valid_pairs(partition_offsets, OffsetType.EARLIEST, or_time=True)
            wanted = {self._own(partition): position for partition, position in given}
        by_time = {
            id_: position for id_, position in wanted.items() if isinstance(position, datetime.datetime) or position < 0
        }
        self._reset(by_time)
        for id_, position in wanted.items():
            if id_ not in by_time and isinstance(position, int):
                self._move(id_, position + 1, position)
        if self._group_offsets is not None:
            self.commit_offsets()

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on with the message at `offset`, or the next there is.

        :param partition: one of this consumer's
        :param offset: 0 or more
        :raises KafkaException: the partition is not this consumer's
        :raises ValueError: the offset is negative
        """
        ((_, position),) = valid_pairs([(partition, offset)])
        if position < 0:
            raise ValueError(f"offset must be 0 or more, not {position}; reset_offsets() takes OffsetType and datetime")
        self._move(self._own(partition), position, position - 1)

    def _own(self, partition: Partition) -> int:
        if partition.id not in self._partitions_by_id or partition.topic is not self._topic:
            raise KafkaException(
                "this consumer does not read that partition", topic=self._topic.name, partition=partition.id
            )
        return partition.id

    # -- committed offsets -----------------------------------------------------------------------------------------

    def commit_offsets(self, partition_offsets: Iterable[tuple[Partition, int]] | None = None) -> None:
        """Commit how far messages were consumed, to the group's coordinator: all that was returned, done with or not.

        :param partition_offsets: (partition, offset of the next message to consume) pairs, committed as they are; by
            default behind what `consume()` has returned
        :raises KafkaException: there is no consumer group, or a partition is not this consumer's
        :raises OffsetsNotCommitted: some could not be committed after all retries; `.failures` has them
        """
        if self._group_offsets is None:
            raise KafkaException(
                "commit_offsets() needs a consumer group; give the consumer consumer_group=", topic=self._topic.name
            )
        if partition_offsets is None:
            self._commit(self._positions)
        else:
            self._commit({self._own(partition): offset for partition, offset in valid_pairs(partition_offsets, 0)})

    def _commit(
        self,
        offsets: Mapping[int, int] | Callable[[], Mapping[int, int]],
        go_on: Callable[[], bool] | None = None,
    ) -> None:
        # One at a time, or what one tries again later would overwrite what another has committed since.
        with self._committing:
            if self._group_offsets is None:
                return
            self._note_committed(self._group_offsets.commit(offsets, "pykafka", go_on))
            self._uncommitted_since = None

    def _note_committed(self, committed: Mapping[int, int]) -> None:
        self._committed.update(committed)
        self._committed_at.update(dict.fromkeys(committed, self._handler.now()))
        for id_, offset in committed.items():
            self._buffers.committed(self._partitions_by_id[id_], offset)

    def _done(self) -> dict[int, int]:
        """Return where each partition stands without what the last call returned, which may not be dealt with yet."""
        found = {id_: self._buffers.done(owned) for id_, owned in self._partitions_by_id.items()}
        return {id_: offset for id_, offset in found.items() if offset >= 0}

    def _positions(self) -> dict[int, int]:
        return {id_: owned.position for id_, owned in self._partitions_by_id.items() if owned.position >= 0}

    def fetch_offsets(self) -> list[tuple[int, documented.OffsetFetchPartitionResponse]]:
        """Return what the group has committed for each partition, and move there unless told otherwise.

        :returns: (partition id, OffsetFetchPartitionResponse) pairs; offset -1 where nothing is committed
        :raises KafkaException: there is no consumer group, or it could not be found out
        """
        if self._group_offsets is None:
            raise KafkaException(
                "fetch_offsets() needs a consumer group; give the consumer consumer_group=", topic=self._topic.name
            )
        found: dict[int, Committed] = self._group_offsets.fetch(list(self._partitions_by_id))
        if self._options.reset_offset_on_fetch:
            for id_, committed in found.items():
                if committed.offset >= 0:
                    self._move(id_, committed.offset, committed.offset - 1)
        return [
            (id_, documented.OffsetFetchPartitionResponse(committed.offset, committed.metadata, 0))
            for id_, committed in found.items()
        ]

    def _setup_autocommit_worker(self) -> None:
        """Start the worker that commits regularly."""
        if self._options.consumer_group is None:
            raise KafkaException(
                "auto_commit_enable needs a consumer group; give the consumer consumer_group=", topic=self._topic.name
            )
        self._autocommit_worker = self._handler.spawn(
            _commit_regularly,
            weakref.ref(self),
            self._stopping,
            self._options.auto_commit_interval_ms / 1000,
            name=f"pykafka.AutoCommit.{self._topic.name}",
        )

    def _auto_commit(self) -> None:
        """Commit what the calls before the last one have returned, where that is more than was committed.

        A failure is raised by `consume()` where it does not pass by itself, or has not for `auto_commit_timeout_ms`.
        """
        if not self._uncommitted(self._done()) or not self._owns():
            return
        stopping = self._stopping
        began = self._handler.now()
        try:
            self._commit(self._done, lambda: not stopping.is_set() and self._owns())
        except KafkaException as error:
            if stopping.is_set():  # stop() commits
                return
            if self._uncommitted_since is None:
                self._uncommitted_since = began
            if self._commit_may_pass(error):
                return
            self._cluster.limiter.warn(log, self._topic.name, "auto-commit failed: %s", error, level=logging.ERROR)
            self._uncommitted_since = None
            self._worker_failed(error)

    def _commit_held(self) -> None:
        """Commit again what was committed long ago and still holds, before the brokers forget it.

        Where somebody else has moved the group meanwhile, that stands. What fails is tried again at the next interval.
        """
        stopping, group_offsets = self._stopping, self._group_offsets
        if group_offsets is None or not self._held() or not self._owns():
            return
        try:
            with self._committing:
                held = self._held()
                found = group_offsets.fetch(list(held), lambda: not stopping.is_set())
                ours = {id_: offset for id_, offset in held.items() if found[id_].offset in (offset, -1)}
                self._committed_at.update(dict.fromkeys(held, self._handler.now()))
                try:
                    self._note_committed(group_offsets.commit(ours, "pykafka", lambda: not stopping.is_set()))
                except BaseException:
                    for id_ in ours:
                        self._committed_at.pop(id_, None)
                    raise
        except KafkaException as error:
            if not stopping.is_set():
                group = self._options.consumer_group
                text = "group %s: what is committed could not be committed again: %s; it is tried again"
                self._cluster.limiter.warn(log, f"{group} {self._topic.name}", text, group, error)

    def _held(self) -> dict[int, int]:
        """Return what is committed, still holds, and was last committed long ago, or nobody knows when."""
        since = self._handler.now() - COMMIT_AGAIN_S
        return {
            id_: offset
            for id_, offset in self._done().items()
            if self._committed.get(id_) == offset and self._committed_at.get(id_, since) <= since
        }

    def _commit_may_pass(self, error: KafkaException) -> bool:
        """Return whether the next auto-commit may well succeed, and say now and then that this one did not."""
        if not may_commit_later(self._cluster, error):
            return False
        now = self._handler.now()
        lasted = now - (self._uncommitted_since or now)
        if lasted >= self._options.auto_commit_timeout_ms / 1000:
            return False
        text = "auto-commit has failed for %.0f s: %s; it is tried again"
        self._cluster.limiter.warn(log, f"{self._options.consumer_group} {self._topic.name}", text, lasted, error)
        return True


def _commit_regularly(consumer: weakref.ref[SimpleConsumer], stopping: EventType, interval_s: float) -> None:
    """Commit every so often while the consumer runs; the worker's main function, which does not keep it alive."""
    left = interval_s
    while not stopping.wait(min(left, GONE_S)):
        found = consumer()
        if found is None:
            return
        left -= GONE_S
        if left <= 0:
            found._auto_commit()
            found._commit_held()
            left = interval_s
        del found
