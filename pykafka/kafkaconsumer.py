"""`KafkaConsumer`: a consumer of any topics: by names, by a pattern, or of named partitions."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Never, Self

from pykafka.common import SubscriptionPattern, TopicPartition
from pykafka.consumer.assignment import KNOWN_WITHIN_S
from pykafka.consumer.commit_calls import Committing
from pykafka.consumer.commits import LaterCommits
from pykafka.consumer.engine import ConsumerEngine
from pykafka.consumer.options import ARROW_BYTES, ARROW_MESSAGES, KafkaConsumerOptions, unpacked, valid_topics
from pykafka.consumer.record_pipeline import RecordPipeline
from pykafka.consumer.seek_calls import Seeking, valid_keys
from pykafka.consumer.startrules import StartRules
from pykafka.exceptions import ConsumerStoppedException, KafkaException
from pykafka.groups.assignment_follower import AssignmentFollower
from pykafka.groups.options import SubscriberOptions
from pykafka.handlers.interrupts import CloseOnce, SingleCaller
from pykafka.health import ConsumerHealthCalls, watching
from pykafka.metadata.lifecycle import ClosedWithClient
from pykafka.metrics.listener import POLLED
from pykafka.parallel.consuming import InParallel
from pykafka.record import K, Record, V
from pykafka.utils.error_handlers import valid_bool, valid_int, valid_timeout
from pykafka.utils.hints import CONSUMER, POLL, unknown_option, with_hints
from pykafka.utils.option_table import collected, optional, parameters_of

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from pykafka.consumer.arrow_batches import ArrowTables
    from pykafka.consumer.options import ConsumerInterceptor
    from pykafka.consumer.startrules import Reset
    from pykafka.kafkaproducer import KafkaProducer
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.serialization import DeserializerLike
    from pykafka.serialization.reading import OnBadRecord

log = logging.getLogger(__name__)

_TABLES = (KafkaConsumerOptions, SubscriberOptions)
#: How many records `poll` and `batches` return by default: Kafka's own max.poll.records.
POLL_RECORDS = 500


@with_hints
class KafkaConsumer(Seeking, Committing, InParallel[K, V], ConsumerHealthCalls, Generic[K, V]):
    """A consumer of topics, of topics whose names match a pattern, or of partitions.

    `client.consumer(...)` makes one. Records come from the partitions in turn, those of one partition in order; fetch workers,
    shared with other consumers of the same client, keep some buffered. One worker at a time may read (iteration, `one`,
    `poll`, `batches`, `arrow`): a second one is refused by name. All other calls may come from any worker.

    :param cluster: that has the topics
    :param topics: names; or one pattern, which whole names have to match: a compiled one, a text that begins with "^", or a
        `SubscriptionPattern` for the broker
    :param group: the group that offsets are committed for, whose members divide the topics; None for none
    :param auto_offset_reset: where to begin without a committed offset, and when the offset is no longer kept: the
        first message, the end, an error, or the first message that is not older than a duration (KIP-1106)
    :param start: separate rules for partitions without a commit, new partitions, and offsets out of range; None follows
        `auto_offset_reset`
    :param auto_commit: commit regularly the records that the calls before the last one have returned, and at `close()`
        all that were returned; after an error that ends the `with` block, all but those of the last call
    :param auto_commit_interval_ms: how often offsets are committed automatically (ms)
    :param auto_commit_timeout_ms: how long auto-commit may fail (ms) with errors that pass by themselves (a coordinator
        that moves, a connection that breaks) before a call raises one; until then each is logged, and the next interval
        tries again
    :param listener: called when the group gives partitions to this member, or takes them away
    :param key_deserializer: makes keys of bytes: a function, or an object as kafka-python or confluent-kafka have them;
        None leaves bytes
    :param value_deserializer: makes values of bytes, as `key_deserializer` makes keys
    :param on_bad_record: what becomes of a record that cannot be deserialized: the call raises it and the consumer
        stays there, it is skipped with a warning, or it is written to a topic for dead letters
    :param interceptors: objects with `on_consume(records)`, which may replace them, or `on_commit(offsets)`; one after
        another
    :param session_timeout_ms: the coordinator removes a member without a heartbeat for this long (ms); brokers have
        limits for it
    :param heartbeat_interval_ms: how often heartbeats go out (ms); below the session timeout
    :param max_poll_interval_ms: a member that takes no message for this long loses its partitions (ms)
    :param protocol: how the member takes part: "classic", by JoinGroup; "consumer", the next-generation protocol, in
        which the broker assigns (KIP-848; Kafka 4.0 and later); "zookeeper", by which members agree through ZooKeeper
        (for brokers before 0.9); "auto" takes "consumer" if brokers, group and options permit it, and "zookeeper" if
        brokers keep no groups
    :param assignor: how the group shares out partitions: "range", "roundrobin", "sticky" (KIP-54), "cooperative-sticky"
        (KIP-429) or an assignor of your own; several, the best first: the best that all members know. With
        `protocol="consumer"` a name of the broker's: "uniform" or "range". None: "range", or what the broker has by
        default
    :param group_instance_id: makes a static member (KIP-345; Kafka 2.3 and later): `close()` does not leave the group,
        and a consumer that starts with the same id within the session timeout gets the same partitions, without a
        rebalance
    :param zookeeper_hosts: "host:port,host:port/chroot" of the ZooKeeper that keeps the group, for
        `protocol="zookeeper"` and "auto"; None takes that of the client
    :param consumer_timeout_ms: how long to wait for the next record before an iteration ends, or PyKafka 2's
        `consume()` returns None (ms); -1 for as long as it takes
    :param isolation_level: "read_uncommitted", or "read_committed" to leave out what transactions have not committed
    :param fetch_min_bytes: how much data the broker waits for (bytes)
    :param fetch_max_wait_ms: how long the broker waits for `fetch_min_bytes` (ms)
    :param max_partition_fetch_bytes: how much to fetch of a partition at a time (bytes)
    :param queued_max_messages: for each partition; fetching pauses while more are buffered (messages)
    :param queued_max_bytes: of the consumer as a whole, unpacked; fetching pauses while this much is buffered (bytes)
    :param metadata_max_age_ms: how often to ask for metadata (ms), which shows added partitions, and of new topics that
        a pattern matches; partitions of `assign()` stay as they are
    :param client_rack: the rack, or zone, of this consumer: brokers with `broker.rack` and a `replica.selector.class`
        let it fetch from a replica there (KIP-392); None takes that of the client, "" fetches from leaders
    :param unpacked_max_bytes: what one compressed batch may unpack to (bytes); None: four times `queued_max_bytes`, and
        256 MiB at least
    :raises TypeError, ValueError: an option is out of bounds, by name
    :raises TopicNotFoundError: there is no such topic
    :raises KafkaException: the brokers refuse, or cannot be reached
    """

    _follower: AssignmentFollower

    def _build(self, cluster: BaseCluster, topics: Iterable[Any], given: dict[str, Any]) -> None:
        self._set_up(cluster, KafkaConsumerOptions.of(given), SubscriberOptions.of(given), given["listener"])
        self._begin(tuple(topics))

    @classmethod
    def make(cls, cluster: BaseCluster, topics: Iterable[Any], given: dict[str, Any]) -> Self:
        """Return a consumer with the client's configuration for options that are not given.

        :param given: arguments of the constructor
        """
        known = parameters_of(cls) - {"cluster", "topics"}
        if unknown := given.keys() - known:
            meant = {name: ours for table in _TABLES for name, ours in table.elsewhere().items()}
            raise unknown_option("consumer()", unknown, known, {**meant, **CONSUMER})
        configuration = cluster.defaults.get("consumer", {})
        options = KafkaConsumerOptions.configured(given, configuration)
        consumer = cls.__new__(cls)
        consumer._set_up(cluster, options, SubscriberOptions.of({**configuration, **given}), given.get("listener"))
        consumer._begin(tuple(topics))
        return consumer

    @collected(_build, *_TABLES, more=CONSUMER)
    def __init__(
        self,
        cluster: BaseCluster,
        topics: Iterable[str | re.Pattern[str] | SubscriptionPattern] = (),
        *,
        group: str | None = None,
        auto_offset_reset: Reset = "earliest",
        start: StartRules | None = None,
        auto_commit: bool = False,
        auto_commit_interval_ms: int = 5000,
        auto_commit_timeout_ms: int = 5 * 60 * 1000,
        listener: Any = None,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
        on_bad_record: OnBadRecord = "raise",
        interceptors: Sequence[ConsumerInterceptor] = (),
        session_timeout_ms: int = 30 * 1000,
        heartbeat_interval_ms: int = 3000,
        max_poll_interval_ms: int = 5 * 60 * 1000,
        protocol: str = "auto",
        assignor: str | type[Any] | Sequence[str | type[Any]] | None = None,
        group_instance_id: str | None = None,
        zookeeper_hosts: str | None = None,
        consumer_timeout_ms: int = -1,
        isolation_level: str = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 100,
        max_partition_fetch_bytes: int = 1024 * 1024,
        queued_max_messages: int = 2000,
        queued_max_bytes: int = 64 * 1024 * 1024,
        metadata_max_age_ms: int = 60 * 1000,
        client_rack: str | None = None,
        unpacked_max_bytes: int | None = None,
    ) -> None: ...

    def _set_up(
        self,
        cluster: BaseCluster,
        options: KafkaConsumerOptions,
        members: SubscriberOptions,
        listener: Any,
    ) -> None:
        self._cluster = cluster
        self._handler = cluster.handler
        self._options = options
        self._subscribed: tuple[tuple[str, ...], re.Pattern[str] | SubscriptionPattern | None] = ((), None)
        self._closing = self._closed = False
        self._closure = CloseOnce(self._handler)
        self._engine = ConsumerEngine(cluster, options, StartRules.of(options.reset, options.start))
        self._buffers = self._engine.buffers  # close at hand: each record is taken from there
        self._pipeline = RecordPipeline(
            self._engine,
            options.key_deserializer,
            options.value_deserializer,
            options.on_bad_record,
            options.interceptors,
        )
        interceptors = self._pipeline.interceptors
        if self._engine.commits is not None and interceptors is not None and interceptors.see_commits:
            self._engine.commits.on_commit = interceptors.committed
        self._arrow: ArrowTables | None = None
        self._later = later = LaterCommits(self._handler, self._engine.worker_failed)
        self._follower = AssignmentFollower(self._engine, listener, members, later.join)
        self._reading = SingleCaller(self._handler)
        self._here = cluster.handler.here
        self._engine.on_start, self._engine.on_stop = watching(self, cluster)
        self._at_close = ClosedWithClient(self)
        cluster.stop_at_close(self._at_close)
        self._handler.at_fork(self._after_fork)

    def _begin(self, topics: tuple[Any, ...]) -> None:
        try:
            self._engine.start()
            if topics:
                valid_topics(topics)
                self._subscribe(topics, None)
        except BaseException:
            self._close(midway=True)
            raise

    def __repr__(self) -> str:
        names, pattern = self._subscribed
        what = repr(pattern.pattern) if pattern is not None else repr(list(names) or self.assignment())
        group = self._options.consumer_group
        return f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} (group={group}, {what})>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the consumer; auto-commit, where it is on, commits first: after an error not what the last call returned."""
        self._engine.left(self, exc)
        self._close(midway=exc_type is not None)

    # -- what is read ----------------------------------------------------------------------------------------------

    def subscribe(
        self, *topics: str | re.Pattern[str] | SubscriptionPattern | Collection[str], timeout: float | None = None
    ) -> None:
        """Read topics as a whole, instead of what was read before: those that stay keep their positions.

        With `group=` this consumer becomes a member of the group, in the next call that reads; topics may come later.

        :param topics: names, a list of them, or one pattern, as of the constructor; partitions and topics that appear are
            read within `metadata_max_age_ms`
        :param timeout: how long brokers may take to answer (s); None for the socket timeout of each. A partition whose leader
            is away is not waited for
        :raises TopicNotFoundError: there is no such topic
        :raises TopicAuthorizationFailed: an ACL denies the topic
        :raises KafkaException: the brokers refuse, or cannot be reached
        """
        self._check_open()
        self._subscribe(unpacked(topics), timeout)

    def _subscribe(self, wanted: tuple[Any, ...], timeout: float | None) -> None:
        deadline = self._engine.call_deadline(timeout)
        names, pattern = valid_topics(wanted)
        if self._options.consumer_group is not None:
            self._follower.subscribe(wanted)
            self._subscribed = names, pattern
            return
        if isinstance(pattern, SubscriptionPattern):
            raise ValueError(
                "SubscriptionPattern needs group=: the coordinator of a group matches it; give a compiled pattern"
            )
        self._engine.read_whole(names, pattern, None if timeout is None else deadline)
        self._subscribed = names, pattern
        self._await_starts(list(self._engine.partitions), deadline, once=True)

    def assign(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> None:
        """Read these partitions, instead of what was read before: those that stay keep their positions.

        :param partitions: any, of any topics; none to read nothing
        :param timeout: as of `subscribe`
        :raises TopicNotFoundError: there is no such topic
        :raises TopicAuthorizationFailed: an ACL denies the topic
        :raises UnknownTopicOrPartition: there is no such partition, also after some seconds: brokers may learn of it late
        :raises KafkaException: the brokers refuse, or cannot be reached
        """
        self._check_open()
        deadline = self._engine.call_deadline(timeout)
        keys = valid_keys(partitions)
        found = self._engine.find(keys, None if timeout is None else deadline, KNOWN_WITHIN_S)
        left = None if timeout is None else max(deadline - self._handler.now(), 0.0)
        self.unsubscribe(keeping=keys, timeout=left)
        self._engine.assign(found)
        self._await_starts(keys, deadline, once=True)

    def unsubscribe(self, *, keeping: Collection[TopicPartition] = (), timeout: float | None = None) -> None:
        """Read nothing any more; a member leaves its group.

        :param keeping: partitions that are read on
        :param timeout: how long the last commits may take (s); None for the socket timeout of the client; leaving the group
            takes up to 5 s besides
        :raises OffsetsNotCommitted: auto-commit is on, and the last commit failed; the group is left all the same
        """
        self._check_open()
        commits, deadline = self._engine.commits, self._engine.deadline(timeout)
        before = math.inf if commits is None else commits.until
        self._subscribed = (), None
        try:
            if commits is not None:
                commits.until = min(before, deadline)
            self._follower.leave(keeping=keeping)
        finally:
            if commits is not None:
                commits.until = before
            self._engine.forget_topics(keeping)  # also after an interrupt: the member has left, and others read them

    def subscription(self) -> list[str]:
        """Return the names of the topics that are read as a whole; none for partitions of `assign()`."""
        membership = self._follower.membership
        return sorted(self._engine.whole_topics if membership is None else membership.topics)

    # -- reading ---------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Yield records until none comes for `consumer_timeout_ms`, or until `close()`.

        :raises ConsumerStoppedException: the consumer was closed before the iteration began
        """
        return self._engine.each(self, self._records())

    def _records(self) -> Iterator[Record[K, V]]:
        self._check_reads()
        take = self._buffers.next
        plain = self._pipeline.plain
        timeout_ms = self._options.consumer_timeout_ms
        timeout = None if timeout_ms < 0 else timeout_ms / 1000
        if self._source is not None and self._reading.locked() and not self._run_reads():
            raise self._read_by_another()  # also while records are buffered
        record: Record[K, V] | None = None
        before = self._buffers.calls
        while True:
            try:
                record = take() if plain else None
            except KafkaException:
                raise
            except BaseException:  # Ctrl-C: `record` is still the one before, which the application has seen
                self._undo(before, record)
                raise
            if record is None:
                try:
                    record = self._read(self._take_one, timeout)
                except ConsumerStoppedException:
                    if self._closed:
                        return
                    raise
                if record is None:
                    return
                take = self._buffers.next
            yield record

    def one(self, timeout: float | None = None) -> Record[K, V] | None:
        """Return the next record.

        :param timeout: how long to wait for it (s); None for as long as it takes
        :returns: None where there is none in time
        :raises ConsumerStoppedException: the consumer is closed
        :raises OffsetResetNeededError: the rules say "raise", and a partition has no offset to go on at; raised every second or
            two until the application names one, by `seek()`
        :raises KafkaException: a partition cannot be fetched, and that does not pass by itself; raised once, and fetching goes
            on where it can. While brokers, leaders or the coordinator are away, calls wait, and log a warning every ten seconds
        """
        found: Record[K, V] | None = self._engine.traced(self._read)(self._take_one, timeout)
        return found

    def poll(
        self, max_records: int = POLL_RECORDS, timeout: float | None = None, **elsewhere: Never
    ) -> list[Record[K, V]]:
        """Return the next records: those that are buffered; wait only for the first.

        Records of a partition are in order; those of several come one partition after another. On greenlets and
        asyncio it returns fewer records when it is time to let the loop run.

        :param max_records: the most to return
        :param timeout: how long to wait for the first (s); None for as long as it takes; 0 does not wait
        :param elsewhere: none: the error for `timeout_ms` and the like says what to write here
        :returns: an empty list where there is none in time
        :raises ConsumerStoppedException: the consumer is closed
        :raises KafkaException: as of `one`
        """
        if elsewhere:
            raise unknown_option("poll()", elsewhere, ["max_records", "timeout"], POLL)
        if isinstance(max_records, float) or max_records == 0:
            raise (TypeError if isinstance(max_records, float) else ValueError)(
                f"max_records must be an int above 0, not {max_records!r}: write poll(timeout={max_records!r}) for seconds"
            )
        valid_int(max_records, name="max_records")
        found: list[Record[K, V]] | None = self._engine.traced(self._read)(
            lambda: self._take_many(max_records), timeout, begins=True
        )
        return found or []

    def batches(self, max_records: int = POLL_RECORDS) -> Iterator[list[Record[K, V]]]:
        """Yield lists of records, as `poll` returns them, until none comes for `consumer_timeout_ms`, or until `close()`.

        :param max_records: the most in a list
        :raises ConsumerStoppedException: the consumer was closed before the iteration began
        """
        self._check_reads()
        timeout_ms = self._options.consumer_timeout_ms
        timeout = None if timeout_ms < 0 else timeout_ms / 1000
        while True:
            try:
                found = self.poll(max_records, timeout)
            except ConsumerStoppedException:
                if self._closed:
                    return
                raise
            if not found:
                return
            yield found

    def arrow(
        self,
        max_records: int = ARROW_MESSAGES,
        columns: Sequence[str] | None = None,
        *,
        max_bytes: int = ARROW_BYTES,
        timeout: float | None = None,
    ) -> pa.Table | None:
        """Return the next records as a `pyarrow.Table`, with no Python object for each record; wait only for the first.

        The columns: key and value (binary), topic (string), partition (int32), offset (int64), timestamp (microseconds, UTC),
        timestampType (int32; 0 create time, 1 append time, -1 none) and headers (list of struct of key, value). Records of a
        partition are in order. Interceptors do not see these records.

        :param max_records: the most rows to return
        :param columns: which, in the order wanted; by default all
        :param max_bytes: of keys, values and headers; a single record may have more
        :param timeout: how long to wait for the first (s); None for as long as it takes; 0 does not wait
        :returns: None where there is no record in time
        :raises ImportError: pyarrow is not installed (extra `arrow`)
        :raises ValueError: there is no such column, or the consumer has a deserializer, which cannot apply to columns
        :raises KafkaException: as of `one`
        """
        valid_int(max_records, name="max_records")
        valid_int(max_bytes, name="max_bytes")
        if self._pipeline.reader.needed:
            raise ValueError(
                "arrow() returns bytes as they were sent: make the consumer without deserializers, or use poll()"
            )
        if self._arrow is None:
            from pykafka.consumer.arrow_batches import ArrowTables

            self._arrow = ArrowTables(self._engine)
        take = self._arrow.taker(max_records, columns, max_bytes)
        found: pa.Table | None = self._engine.traced(self._read)(take, timeout, begins=True)
        return found

    def _take_one(self) -> Any:
        """Return the next record that is buffered and for the application."""
        while (record := self._buffers.next()) is not None and not self._pipeline.plain:
            record = self._pipeline.one(record)
            if record is not None:
                break
        return record

    def _take_many(self, max_records: int) -> list[Any] | None:
        """Return buffered records for the application, at least one; None where there is none."""
        while records := self._buffers.take(max_records):
            if self._pipeline.plain or (records := self._pipeline.many(records)):
                return records
        return None

    def _at_once(self) -> Record[K, V] | None:
        """Return the next record if it is buffered as it is, for coroutines, which try this before they wait in `one`."""
        record: Record[K, V] | None = self._buffers.next() if self._pipeline.plain else None
        return record

    def _read(self, take: Any, timeout: float | None, begins: bool = False) -> Any:
        """Return what `take` returns; wait until it returns something, and take part in the group meanwhile.

        After an interrupt, what was taken is read again: between the last step here and the caller's assignment there is none
        at which Python looks for signals.

        :param take: takes what is buffered, and never waits; None for nothing
        :param timeout: (s); None for none
        :param begins: what the calls before have returned counts as done; else `take` sees to that
        """
        deadline = None if timeout is None else self._handler.now() + valid_timeout(timeout)
        before: int | None = None
        engine, follower = self._engine, self._follower
        try:
            with (turn := self._handler.Lock()):
                if not (self._reading.enter(turn) or self._run_reads()):
                    raise self._read_by_another()
                self._reader, before = self._here(), self._buffers.calls
                if begins:
                    self._buffers.begin_call()
                if engine.listener is not None and begins:
                    engine.listener.on_event(POLLED, "consumer")
                while True:
                    if follower.membership is not None:
                        follower.poll(deadline)
                    elif self._buffers.held:
                        self._buffers.held = follower.leaves_elsewhere  # a listener may read
                    engine.look()
                    found = None if follower.leaves_elsewhere else take()
                    if found is not None or (follower.wakeup_requested and self._take_wakeup()):
                        return found
                    if not begins and engine.listener is not None:  # iteration waits
                        begins = True
                        engine.listener.on_event(POLLED, "consumer")
                    if not (engine.await_records if follower.membership is None else follower.wait)(deadline):
                        return found
        except KafkaException:  # whoever raises it has given back what it took
            raise
        except BaseException:
            if before is not None:
                self._undo(before)
            raise

    def _undo(self, before: int, given: Record[K, V] | None = None) -> None:
        """Go back to what the present call has taken, which does not reach the application.

        :param before: what `calls` of the buffers was: after that the call has begun to take
        :param given: a record that has reached it all the same
        """
        buffers = self._buffers
        for key, owned in list(self._engine.partitions.items()):
            if before < owned.taken_in == buffers.calls:
                start = owned.taken_from
                if given is None or (given.topic, given.partition, given.offset) != (*key, start):
                    self._engine.move(key, start, start - 1)

    def _read_by_another(self) -> KafkaException:
        return KafkaException(
            "another worker reads this consumer, or a listener of it wants to: one worker at a time may call one(), poll() "
            "and the like; make a consumer for each, or use consumer.parallel()",
            topic=self._engine.name,
        )

    def _letter_producer(self) -> KafkaProducer[bytes, bytes]:
        """Return the producer of dead letters for `parallel(dead_letters="a topic")`."""
        from pykafka.kafkaproducer import KafkaProducer

        return KafkaProducer.make(self._cluster, {})

    # -- life ------------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None, *, leave_group: bool | None = None) -> None:
        """Commit what was returned if auto-commit is on, leave the group, and end; do nothing if the consumer is closed.

        A call that waits in another worker ends: an iteration without an error, others by ConsumerStoppedException. Calls after
        that raise ConsumerStoppedException, iterations as well. If a timeout or a cancellation ends this call, call it again:
        it finishes what is left.

        :param timeout: how long all commits may take, those of `commit_async()` first (s); None for the socket timeout of the
            client; leaving the group takes up to 5 s besides. Half of it may pass until a listener's method returns that
            another worker has called: then the member leaves without it
        :param leave_group: True: leave for good, also as a static member; False: send nothing, so that the group keeps the
            member until its session ends (KIP-1092); None: static members stay, others leave
        :raises OffsetsNotCommitted: the last commit failed; the consumer is closed all the same
        """
        self._close(midway=False, timeout=timeout, leave_group=optional(valid_bool)(leave_group, "leave_group"))

    def _close(self, midway: bool, timeout: float | None = None, leave_group: bool | None = None) -> None:
        self._closing = True
        self._closure.run(partial(self._end, midway, timeout, leave_group))

    def _end(self, midway: bool, timeout: float | None, leave_group: bool | None) -> None:
        self._end_run()
        if timeout is None:
            timeout = self._cluster.socket_timeout_ms / 1000
        deadline = self._engine.stop_by = self._engine.deadline(timeout)
        self._engine.membership.closing = True
        if self._engine.commits is not None:
            self._engine.commits.until = deadline
        try:
            if not self._later.join(deadline):
                log.warning("commits of commit_async() were not all made before close()")
            self._follower.leave(midway, leave_group=leave_group)
        finally:
            self._closed = True  # not before: a listener may commit
            self._engine.stop(midway)

    def _check_reads(self) -> None:
        """Raise an error if the consumer is closed; while it is being closed, a listener may call it."""
        if self._closed:
            raise self._engine.stopped()

    def _check_open(self) -> None:
        if self._closing:
            raise self._engine.stopped()

    def _after_fork(self) -> None:
        self._engine.after_fork()
        self._closure = CloseOnce(self._handler, self._closure.complete)
        self._buffers = self._engine.buffers
        self._later.after_fork()
        self._follower.after_fork()
        self._reading = SingleCaller(self._handler)
