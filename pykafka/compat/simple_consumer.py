"""`SimpleConsumer`: a consumer of all partitions of a topic, or of some, without a group that shares them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from pykafka.common import OffsetType, TopicPartition
from pykafka.compat import messages
from pykafka.compat.blocking_engine import BlockingEngine, unseen
from pykafka.compat.deserializing import Deserializer, Deserializing
from pykafka.compat.options import TopicConsumerOptions
from pykafka.consumer.arrow_batches import ArrowBatches
from pykafka.consumer.buffers import OwnedPartition
from pykafka.consumer.options import (
    ARROW_BYTES,
    ARROW_MESSAGES,
    ConsumerOptions,
    OffsetReset,
    valid_pairs,
    valid_partitions,
)
from pykafka.consumer.startrules import Position
from pykafka.exceptions import KafkaException
from pykafka.health import EngineHealth, watching
from pykafka.metrics.listener import COMMIT_SYNC, COMMITTED_READ
from pykafka.utils import get_string, old_attributes
from pykafka.utils.error_handlers import valid_int
from pykafka.utils.name import Name
from pykafka.utils.option_table import collected

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from pykafka.compat.partition_errors import Handlers
    from pykafka.health.progress import Progress
    from pykafka.health.view import View
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView
    from pykafka.metrics.listener import ClientListener
    from pykafka.metrics.tracing import RecordTracer
    from pykafka.network.node import Node
    from pykafka.protocol.message import Message

__all__ = ["OwnedPartition", "SimpleConsumer"]

#: How many messages `consume_batch` returns by default: Kafka's own max.poll.records.
BATCH_MESSAGES = 500


@old_attributes(
    """
    _auto_commit_enable _auto_commit_interval_ms _auto_offset_reset _consumer_timeout_ms _deserializer
    _fetch_message_max_bytes _fetch_min_bytes _fetch_wait_max_ms _num_consumer_fetchers
    _offsets_channel_backoff_ms _offsets_commit_max_retries _queued_max_messages _reset_offset_on_fetch
    _reset_offset_on_start _worker_exception _consumer_group _consumer_id _default_error_handlers _generation_id
    _partitions_by_id _partitions_by_leader _running
    """
)
class SimpleConsumer(EngineHealth):
    """A consumer that does not share its topic: each of several such consumers gets every message.

    Messages come from the partitions in turn, those of one partition in order. Fetch workers, shared with other
    consumers of the same client, keep some buffered ahead of `consume()`.

    Without a group, `OffsetType.LATEST` counts only with `reset_offset_on_start=True`, or if offset 0 is no longer kept, as in
    PyKafka 2: otherwise the consumer begins at the first message. The name "latest" has it begin at the end.

    :param topic: to read
    :param cluster: that has it
    :param consumer_group: under which offsets are committed; None for none
    :param partitions: to read; by default all
    :param fetch_message_max_bytes: how much to fetch of a partition at a time (bytes)
    :param num_consumer_fetchers: connections and workers for each broker
    :param auto_commit_enable: commit regularly the messages that the calls before the last one have returned (consume
        in one worker), and at `stop()` all that were returned; after an error that ends the `with` block, all but those
        of the last call; repeat old commits every hour, since brokers forget them
    :param auto_commit_interval_ms: how often offsets are committed automatically (ms)
    :param queued_max_messages: for each partition; fetching pauses while more are buffered (messages)
    :param fetch_min_bytes: how much data the broker waits for (bytes)
    :param fetch_error_backoff_ms: pause before a partition that failed is fetched again (ms); it doubles while the
        error lasts
    :param fetch_wait_max_ms: how long the broker waits for `fetch_min_bytes` (ms)
    :param offsets_channel_backoff_ms: pause before the second attempt to commit or fetch offsets (ms); twice as long
        each time after that, up to a second
    :param offsets_commit_max_retries: attempts to commit or fetch offsets beyond the first
    :param auto_offset_reset: where to begin without a committed offset, or when the offset is no longer kept:
        `OffsetType.EARLIEST` ("earliest"), `OffsetType.LATEST` ("latest"), or "none", which has `consume()` raise
    :param consumer_timeout_ms: how long to wait for the next record before an iteration ends, or PyKafka 2's
        `consume()` returns None (ms); -1 for as long as it takes
    :param auto_start: start at once; else with `start()`
    :param reset_offset_on_start: begin at `auto_offset_reset` even if the group has committed offsets
    :param compacted_topic: accepted for old code; gaps between offsets are never a problem
    :param generation_id: of a group membership, for commits
    :param consumer_id: likewise
    :param deserializer: `(value, partition_key) -> (value, partition_key)`; what it raises comes as the cause of a
        `DeserializationError`
    :param reset_offset_on_fetch: whether `fetch_offsets()` moves the consumer to the committed offsets
    :param isolation_level: "read_uncommitted", or "read_committed" to leave out what transactions have not committed
    :param queued_max_bytes: of the consumer as a whole, unpacked; fetching pauses while this much is buffered (bytes)
    :param auto_commit_timeout_ms: how long auto-commit may fail (ms) with errors that pass by themselves (a coordinator
        that moves, a connection that breaks) before a call raises one; until then each is logged, and the next interval
        tries again
    :param metadata_max_age_ms: how often to ask for metadata (ms), which shows added partitions: they are read from
        their beginning, or where the group has committed; not if `partitions` are given
    :param client_rack: the rack, or zone, of this consumer: brokers with `broker.rack` and a `replica.selector.class`
        let it fetch from a replica there (KIP-392); None takes that of the client, "" fetches from leaders
    :param unpacked_max_bytes: what one compressed batch may unpack to (bytes); None: four times `queued_max_bytes`, and
        256 MiB at least
    """

    __module__ = "pykafka.simpleconsumer"  # its documented place

    def _build(self, topic: TopicView, cluster: BaseCluster, given: dict[str, Any]) -> None:
        own = TopicConsumerOptions.of(given)
        self._set_up(topic, cluster, ConsumerOptions.of(given), own.partitions, own.deserializer)
        self._engine.membership.generation_id = own.generation_id
        self._engine.membership.member_id = own.consumer_id
        self._engine.commits_start = True
        self._engine.on_start, self._engine.on_stop = watching(self, cluster)
        self._engine.begins_at_0 = self._engine.commits is None and not isinstance(given["auto_offset_reset"], str)
        if own.auto_start:
            self.start()

    @collected(_build, ConsumerOptions)
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
        auto_offset_reset: OffsetReset = OffsetType.EARLIEST,
        consumer_timeout_ms: int = -1,
        auto_start: bool = True,
        reset_offset_on_start: bool = False,
        compacted_topic: bool = False,
        generation_id: int = -1,
        consumer_id: str | bytes = b"",
        deserializer: Deserializer | None = None,
        reset_offset_on_fetch: bool = True,
        *,
        isolation_level: str = "read_uncommitted",
        queued_max_bytes: int = 64 * 1024 * 1024,
        auto_commit_timeout_ms: int = 5 * 60 * 1000,
        metadata_max_age_ms: int = 60 * 1000,
        client_rack: str | None = None,
        unpacked_max_bytes: int | None = None,
    ) -> None: ...

    #: What has listened to the consumer in whose place this one comes.
    _before: ClientListener | None = None
    _engine: BlockingEngine
    #: What reports of health have seen of it.
    _progress: Progress | None = None

    @classmethod
    def _of(
        cls,
        topic: TopicView,
        cluster: BaseCluster,
        options: ConsumerOptions,
        partitions: Iterable[Partition] | None,
        deserializer: Deserializer | None,
        before: ClientListener | None = None,
    ) -> Self:
        """Return a consumer that is not started, with settings that were checked before.

        :param before: what has listened to the consumer in whose place this one comes
        """
        consumer = cls.__new__(cls)
        consumer._before = before
        consumer._set_up(topic, cluster, options, partitions, deserializer)
        return consumer

    def _set_up(
        self,
        topic: TopicView,
        cluster: BaseCluster,
        options: ConsumerOptions,
        partitions: Iterable[Partition] | None,
        deserializer: Deserializer | None,
    ) -> None:
        self._topic = topic
        self._handler = cluster.handler
        self._cluster = cluster
        self._options = options
        chosen = None if partitions is None else valid_partitions(partitions, topic)
        self._engine = self._make_engine(options)
        if chosen is None:
            name = get_string(topic.name)
            self._engine.refresh([name])
            self._engine.whole_topics = {name: topic}
            self._engine.assign(topic.partitions.values())
        else:
            self._engine.assign(chosen)
        if self._engine.commits is not None:
            self._engine.commits.consumer_id = ""
        self._deserializing = None if deserializer is None else Deserializing(self._engine, deserializer)
        self._arrow = ArrowBatches(self._engine)
        self._buffers = self._engine.buffers  # close at hand: each message is taken from there
        self._trace(cluster.tracer)
        cluster.stop_at_close(self)
        cluster.handler.at_fork(self._after_fork)

    def _trace(self, tracer: RecordTracer | None) -> None:
        """Take up a tracer, or leave the present one; the client calls this."""
        #: Whether `consume()` returns messages as they are, and nothing sees them.
        self._plain = self._deserializing is None and tracer is None

    def _make_engine(self, options: ConsumerOptions) -> BlockingEngine:
        return BlockingEngine(self._cluster, options, get_string(self._topic.name), self, self._before)

    def _view_class(self) -> type[View]:
        from pykafka.compat.health import SimpleView

        return SimpleView

    def __repr__(self) -> str:
        return (
            f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} "
            f"(consumer_group={self._engine.options.consumer_group}, topic={self._topic.name})>"
        )

    def __enter__(self) -> SimpleConsumer:
        """Start the consumer, if it is not running."""
        if not self._engine.running:
            self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the consumer; auto-commit, where it is on, commits first: after an error not what the last call returned."""
        self._engine.left(self, exc)
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
        return {owned.partition_id: owned.partition for owned in self._engine.partitions.values()}

    @property
    def held_offsets(self) -> dict[int, int]:
        """The offset last consumed of each partition, by id; -2 where nothing was consumed from its start on."""
        return {
            owned.partition_id: owned.last_offset_consumed
            if owned.last_offset_consumed >= 0
            else int(OffsetType.EARLIEST)
            for owned in self._engine.partitions.values()
        }

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Ask the brokers where to begin, then start fetching; a stopped consumer goes on behind the last message consumed.

        With `reset_offset_on_start` it begins at `auto_offset_reset`, each time.

        :raises ConsumerStoppedException: another worker has called `stop()` meanwhile
        :raises KafkaException: the brokers did not tell offsets
        """
        self._engine.start()

    def stop(self) -> None:
        """Stop fetching; if auto-commit is on, commit all that was returned. Do nothing if the consumer is stopped.

        :raises OffsetsNotCommitted: that commit failed; the consumer is stopped all the same
        """
        self._engine.stop()

    def stop_midway(self) -> None:
        """Stop as `stop()` does, but commit nothing of what the last call returned: the application may not be done with it.

        A `with` block that ends by an error calls this, and so does the end of the interpreter.
        """
        self._engine.stop(midway=True)

    def _after_fork(self) -> None:
        self._engine.after_fork()
        self._buffers = self._engine.buffers
        if self._deserializing is not None:
            self._deserializing.after_fork()

    # -- consuming -------------------------------------------------------------------------------------------------

    def consume(self, block: bool = True, unblock_event: Any = None) -> Message | None:
        """Return the next message.

        :param block: whether to wait for one, `consumer_timeout_ms` at most
        :param unblock_event: ends the wait when it is set
        :returns: None where there is none (in time)
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: a partition cannot be fetched; raised once, and fetching goes on where it can
        :raises DeserializationError: the deserializer failed at a message; the next call goes on behind it
        :raises OffsetResetNeededError: `auto_offset_reset="none"`, and a partition has no offset to go on at; raised
            every second or two until the application names one, by `seek()` or `reset_offsets()`
        """
        message: Message | None = self._buffers.next() if self._plain else None
        if message is None:
            message = self._engine.traced(self._consume)(block, unblock_event)
        return message

    def _consume(self, block: bool = True, unblock_event: Any = None) -> Message | None:
        """Return the next message, seen by no tracer; parameters and errors as of `consume`."""
        if self._deserializing is not None:
            return self._deserializing.one(block, unblock_event)
        message: Message | None = self._buffers.next()
        return self._engine.next_slowly(block, unblock_event) if message is None else message

    def _at_once(self) -> Message | None:
        """Return the next message if that needs no wait, for coroutines, which try this before they wait in `consume`."""
        return self._buffers.next() if self._deserializing is None else None

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until none comes for `consumer_timeout_ms`."""
        return self._engine.each(self, self._messages())

    def _messages(self) -> Iterator[Message]:
        take, take_slowly = self._buffers.next, unseen(self, SimpleConsumer.consume)
        plain = self._deserializing is None
        while True:
            message = take() if plain else None
            if message is None and (message := take_slowly()) is None:
                return
            yield message

    def consume_batch(
        self, max_messages: int = BATCH_MESSAGES, block: bool = True, unblock_event: Any = None
    ) -> list[Message]:
        """Return the next messages: those that are buffered; wait only for the first.

        The messages of a partition are in order; those of several come one partition after another. On greenlets
        and asyncio it returns fewer messages when it is time to let the loop run.

        :param max_messages: the most to return
        :param block: whether to wait for the first, `consumer_timeout_ms` at most
        :param unblock_event: ends the wait when it is set
        :returns: an empty list where there is none (in time)
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: a partition cannot be fetched; raised once, and fetching goes on where it can
        """
        valid_int(max_messages, name="max_messages")
        batch: list[Message] = self._engine.traced(self._consume_batch)(max_messages, block, unblock_event)
        return batch

    def _consume_batch(self, max_messages: int, block: bool, unblock_event: Any) -> list[Message]:
        if self._deserializing is not None:
            return self._deserializing.many(max_messages, block, unblock_event)
        return self._engine.next_batch(max_messages, block, unblock_event)

    def consume_arrow(
        self,
        max_messages: int = ARROW_MESSAGES,
        columns: Sequence[str] | None = None,
        *,
        max_bytes: int = ARROW_BYTES,
        block: bool = True,
        unblock_event: Any = None,
    ) -> pa.RecordBatch | None:
        """Return the next messages as Arrow columns, with no Python object for each message; wait only for the first.

        The columns are those of the Spark source: key and value (binary), topic (string), partition (int32), offset
        (int64), timestamp (microseconds, UTC), timestampType (int32; 0 create time, 1 append time, -1 none) and
        headers (list of struct of key, value). Messages of a partition are in order; those of several come one
        partition after another.

        :param max_messages: the most rows to return
        :param columns: which, in the order wanted; by default all
        :param max_bytes: of those keys, values and headers that `columns` asks for; a single message may have more
        :param block: whether to wait for the first, `consumer_timeout_ms` at most
        :param unblock_event: ends the wait when it is set
        :returns: None where there is no message (in time)
        :raises ImportError: pyarrow is not installed (extra `arrow`)
        :raises ValueError: there is no such column, or the consumer has a deserializer, which cannot apply to columns
        :raises ConsumerStoppedException: the consumer is not running
        :raises KafkaException: a partition cannot be fetched; raised once, and fetching goes on where it can
        """
        read = self._engine.traced(self._consume_arrow)
        batch: pa.RecordBatch | None = read(max_messages, columns, max_bytes, block, unblock_event)
        return batch

    def _consume_arrow(self, max_messages: int, columns: Any, max_bytes: int, block: bool, unblock_event: Any) -> Any:
        valid_int(max_messages, name="max_messages")
        valid_int(max_bytes, name="max_bytes")
        if self._deserializing is not None:
            raise ValueError(
                "consume_arrow() returns bytes as they were sent: make the consumer without a deserializer, or use "
                "consume_batch()"
            )
        take = self._arrow.taker(max_messages, columns, max_bytes)
        self._engine.buffers.begin_call()
        batch = take()
        return self._engine.wait_for(take, block, unblock_event) if batch is None else batch

    # -- positions -------------------------------------------------------------------------------------------------

    def reset_offsets(self, partition_offsets: Iterable[tuple[Partition, Position]] | None = None) -> None:
        """Move partitions, and commit the new positions if there is a consumer group.

        :param partition_offsets: (partition, where) pairs; where is an OffsetType, a datetime (the first message that is
            not older, or the end), or the offset to hold, as `held_offsets` has it: the next message is the one after;
            by default all partitions go to `auto_offset_reset`. `seek()` names the next message itself.
        :raises KafkaException: a partition is not one of this consumer's, or the brokers did not tell offsets
        :raises ValueError: there is no position: no `partition_offsets`, and `auto_offset_reset` is "none"
        """
        if partition_offsets is None:
            wanted: dict[TopicPartition, Position] = dict.fromkeys(
                self._engine.partitions, self._engine.options.reset_position()
            )
        else:
            given = valid_pairs(partition_offsets, OffsetType.EARLIEST, or_time=True)
            wanted = {self._own(partition): position for partition, position in given}
        by_time = {
            key: position for key, position in wanted.items() if isinstance(position, datetime.datetime) or position < 0
        }
        self._engine.reset(by_time)
        for key, position in wanted.items():
            if key not in by_time and isinstance(position, int):
                self._engine.move(key, position + 1, position)
        if self._engine.commits is not None:
            self.commit_offsets()

    def seek(self, partition: Partition, offset: int) -> None:
        """Go to the message at `offset`, or the next one that exists.

        :param partition: one of this consumer's
        :param offset: 0 or more
        :raises KafkaException: the partition is not this consumer's
        :raises ValueError: the offset is negative
        """
        ((_, position),) = valid_pairs([(partition, offset)])
        if position < 0:
            raise ValueError(f"offset must be 0 or more, not {position}; reset_offsets() takes OffsetType and datetime")
        self._engine.move(self._own(partition), position, position - 1)

    def _own(self, partition: Partition) -> TopicPartition:
        key = TopicPartition(get_string(self._topic.name), partition.id)
        if key not in self._engine.partitions or partition.topic is not self._topic:
            raise KafkaException("this consumer does not read that partition", topic=key.topic, partition=key.partition)
        return key

    # -- committed offsets -----------------------------------------------------------------------------------------

    def commit_offsets(self, partition_offsets: Iterable[tuple[Partition, int]] | None = None) -> None:
        """Commit how far messages were consumed: all that was returned, whether the application is done with it or not.

        :param partition_offsets: (partition, offset of the next message to consume) pairs, committed as they are; by
            default behind what `consume()` has returned
        :raises KafkaException: there is no consumer group, or a partition is not this consumer's
        :raises OffsetsNotCommitted: some could not be committed after all retries; `.failures` has them
        """
        commits = self._engine.commits_of("commit_offsets()")
        offsets: Any = self._engine.positions
        if partition_offsets is not None:
            offsets = {self._own(partition): offset for partition, offset in valid_pairs(partition_offsets, 0)}
        with self._engine.timed(COMMIT_SYNC):
            commits.commit(offsets)

    def fetch_offsets(self) -> list[tuple[int, messages.OffsetFetchPartitionResponse]]:
        """Return what the group has committed for each partition, and go there, unless `reset_offset_on_fetch` is False.

        :returns: (partition id, OffsetFetchPartitionResponse) pairs; offset -1 where nothing is committed
        :raises KafkaException: there is no consumer group, or its coordinator did not tell offsets
        """
        engine = self._engine
        group = engine.commits_of("fetch_offsets()").group
        with engine.timed(COMMITTED_READ):
            found = group.fetch(engine.partitions)
        if engine.options.reset_offset_on_fetch:
            for key, committed in found.items():
                if committed.offset >= 0:
                    engine.move(key, committed.offset, committed.offset - 1)
        return [
            (key.partition, messages.OffsetFetchPartitionResponse(committed.offset, Name.of(committed.metadata), 0))
            for key, committed in found.items()
        ]

    # -- the reference's internals: overriding one has an effect for `_setup_fetch_workers` and `_auto_commit` only ----------

    @property
    def _partitions(self) -> dict[Partition, OwnedPartition]:
        """The state of each partition: the usage guide rewinds by its `last_offset_consumed`."""
        return {owned.partition: owned for owned in self._engine.partitions.values()}

    @property
    def generation_id(self) -> int:
        """The generation of the group membership that commits name; -1 for none."""
        return self._engine.membership.generation_id

    @generation_id.setter
    def generation_id(self, value: int) -> None:
        self._engine.membership.generation_id = value

    @property
    def consumer_id(self) -> str:
        """The id of the group member that commits name, a `Name`; empty for none."""
        return Name.of(self._engine.membership.member_id)

    @consumer_id.setter
    def consumer_id(self, value: str | bytes) -> None:
        self._engine.membership.member_id = get_string(value)
        if self._engine.commits is not None:
            self._engine.commits.consumer_id = self._engine.membership.member_id

    def fetch(self) -> None:
        """Fetch every partition that has room in its buffer now, without waiting for the answers.

        Fetch workers do so by themselves; a program need not call this.

        :raises ConsumerStoppedException: the consumer is not running
        """
        if not self._engine.running:
            raise self._engine.stopped()
        for owned in self._engine.partitions.values():
            if owned.wake is not None:
                owned.wake.set()

    def cleanup(self) -> None:
        """Stop fetching this consumer's partitions; commit nothing."""
        self._engine.detach_all()

    def _setup_fetch_workers(self) -> None:
        """Give each partition that is not being fetched to the fetch worker of its leader."""
        self._engine.attach_each()

    def _setup_autocommit_worker(self) -> None:
        """Start the worker that commits regularly.

        :raises KafkaException: there is no consumer group
        """
        self._engine.commits_of("auto_commit_enable").start()

    def _auto_commit(self) -> None:
        """Commit the messages of the calls before the last one, if they are not committed yet.

        `consume()` raises a failure that does not pass by itself, or has lasted for `auto_commit_timeout_ms`.
        """
        self._engine.commits_of("auto_commit_enable").auto_commit()

    def _raise_worker_exceptions(self) -> None:
        """Raise the first error of a worker that was not raised yet."""
        self._engine.raise_errors()

    def _update(self) -> None:
        """Update metadata, and fetch partitions from their present leaders.

        :raises NoBrokersAvailableError: no broker answered
        """
        engine = self._engine
        engine.cluster.update(sorted({key.topic for key in engine.partitions}))
        if engine.running:
            engine.detach_all()
            self._setup_fetch_workers()

    def _discover_group_coordinator(self) -> Node | None:
        """Look for the group's coordinator anew and return it; None without a consumer group."""
        commits = self._engine.commits
        return None if commits is None else commits.group.discover()

    def _discover_offset_manager(self) -> Node | None:
        """Look for the group's coordinator under its name of 2.0; see `_discover_group_coordinator`."""
        return self._discover_group_coordinator()

    def _build_default_error_handlers(self) -> Handlers:
        """Return handlers for `pykafka.utils.error_handlers.handle_partition_responses`, by error code.

        This client's fetch workers and commits do the same by themselves.
        """
        from pykafka.compat.partition_errors import default_handlers

        return default_handlers(self._engine, self._update, self._discover_group_coordinator)
