"""`ShareConsumer`: a member of a share group (KIP-932), which acknowledges each record by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self

from pykafka.common import TopicPartition
from pykafka.consumer.options import unpacked, valid_topics
from pykafka.exceptions import ConsumerStoppedException, KafkaException, ResponseTimeoutError
from pykafka.handlers.interrupts import CloseOnce, SingleCaller
from pykafka.health import Viewed, watching
from pykafka.metadata.brokers import countdown
from pykafka.metadata.lifecycle import ClosedWithClient
from pykafka.metrics.listener import POLLED, WAITED
from pykafka.record import K, Record, V
from pykafka.serialization.reading import RecordReader, blames_registry
from pykafka.sharegroups.acquired_records import OPEN, Acknowledged, AcknowledgeType, AcquiredRecord, State
from pykafka.sharegroups.engine import ShareEngine
from pykafka.sharegroups.options import ShareConsumerOptions
from pykafka.utils.error_handlers import LONGEST_S, valid_int, valid_timeout
from pykafka.utils.hints import CONSUMER, unknown_option, with_hints
from pykafka.utils.option_table import collected, parameters_of

if TYPE_CHECKING:
    from types import TracebackType

    from pykafka.handlers.base import LockType
    from pykafka.health import Explanation, ShareConsumerHealth
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.metric import Metrics
    from pykafka.serialization import DeserializerLike
    from pykafka.serialization.reading import OnBadRecord
    from pykafka.sharegroups.options import OnAcknowledge
    from pykafka.sharegroups.share_health import ShareView

log = logging.getLogger(__name__)

#: How many records `poll` returns by default: Kafka's own max.poll.records.
POLL_RECORDS = 500
#: The states of records that a call has returned, and that have no acknowledgement but perhaps a renewal of their lock.
UNDECIDED = frozenset({State.DELIVERED, State.RENEWING, State.RENEWAL_SENT, State.LOST})
#: What `commit` returns: the error of each partition, None if the broker has taken all.
Committed = dict[TopicPartition, KafkaException | None]
OnCommit = Callable[[Committed], object]


@with_hints
class ShareConsumer(Viewed, Generic[K, V]):
    """A member of a share group: many members take records of the same partitions, and acknowledge each by itself (KIP-932).

    `client.share_consumer(...)` makes one; it needs Kafka 4.2 or later. A record that is taken is locked for its member; it
    comes again, to any member, when it is released or when its lock times out. Records come at least once, and in no order over
    members. One worker at a time may read (iteration, `one`, `poll`, `commit`); `accept`, `release`, `reject` and `renew` may
    come from any worker.

    :param cluster: that has the topics
    :param topics: names
    :param group: the share group, whose members take records of the same partitions
    :param acknowledgement: "implicit" accepts what a call has returned in the next call, and at `commit()` and
        `close()`; "explicit" leaves each record to `accept()`, `release()` or `reject()`
    :param on_acknowledge: called with an `Acknowledged(partition, offsets, error)` for each outcome, inside later calls
        of this consumer
    :param key_deserializer: makes keys of bytes: a function, or an object as kafka-python or confluent-kafka have them;
        None leaves bytes
    :param value_deserializer: makes values of bytes, as `key_deserializer` makes keys
    :param on_bad_record: what becomes of a record that cannot be deserialized: the call raises it and the record is
        released, it is rejected with a warning, or it is written to a topic for dead letters and accepted
    :param consumer_timeout_ms: how long an iteration waits for the next record before it ends (ms); -1 for as long as
        it takes
    :param acquire_mode: "batch_optimized" takes whole batches, so more records than `max_records` may come;
        "record_limit" never takes more (KIP-1206; Kafka 4.2 and later)
    :param max_records: how many records to acquire from a broker at a time
    :param fetch_min_bytes: how much data the broker waits for (bytes)
    :param fetch_max_wait_ms: how long the broker waits for `fetch_min_bytes` (ms); a `commit()` may wait as long behind
        a fetch
    :param fetch_max_bytes: how much to fetch from a broker at a time (bytes)
    :param client_rack: the rack, or zone, of this consumer, which the group's assignor gets; None takes that of the
        client
    :param unpacked_max_bytes: what one compressed batch may unpack to (bytes); None: four times `fetch_max_bytes`, and
        256 MiB at least
    :raises TypeError, ValueError: an option is out of bounds, by name
    :raises TopicNotFoundError: there is no such topic
    :raises KafkaException: the brokers cannot be reached
    """

    def _build(self, cluster: BaseCluster, topics: Iterable[str], given: dict[str, Any]) -> None:
        options = ShareConsumerOptions.of(given)
        if not options.group:
            raise ValueError("group must be the name of a share group")
        self._cluster = cluster
        self._handler = cluster.handler
        self._options = options
        self._reader = _Reader(
            options.key_deserializer,
            options.value_deserializer,
            options.on_bad_record,
            cluster.limiter,
            self._handler.offload,
        )
        rack = cluster.client_rack if options.client_rack is None else options.client_rack
        self._engine = ShareEngine(cluster, options, rack)
        # Records that the last call has returned, for implicit acknowledgement.
        self._delivered: list[AcquiredRecord] = []
        # Callbacks of `commit_async`, with the records they wait for.
        self._waiting_callbacks: list[tuple[list[AcquiredRecord], OnCommit]] = []
        self._reading = SingleCaller(self._handler)
        self._closing = self._closed = self._is_forked = False
        self._closure = CloseOnce(self._handler)
        on_start, self._on_stop = watching(self, cluster)
        self._at_close = ClosedWithClient(self)
        cluster.stop_at_close(self._at_close)
        self._handler.at_fork(self._after_fork)
        names = tuple(topics)
        if names:
            self.subscribe(*names)
        on_start()

    @collected(_build, ShareConsumerOptions, more=CONSUMER)
    def __init__(
        self,
        cluster: BaseCluster,
        topics: Iterable[str] = (),
        *,
        group: str,
        acknowledgement: str = "implicit",
        on_acknowledge: OnAcknowledge | None = None,
        key_deserializer: DeserializerLike[K] | None = None,
        value_deserializer: DeserializerLike[V] | None = None,
        on_bad_record: OnBadRecord = "raise",
        consumer_timeout_ms: int = -1,
        acquire_mode: str = "batch_optimized",
        max_records: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        client_rack: str | None = None,
        unpacked_max_bytes: int | None = None,
    ) -> None: ...

    @classmethod
    def make(cls, cluster: BaseCluster, topics: Iterable[Any], given: dict[str, Any]) -> Self:
        """Return a consumer, after a check of the options' names.

        :param given: arguments of the constructor
        """
        known = parameters_of(cls) - {"cluster", "topics"}
        if unknown := given.keys() - known:
            raise unknown_option("share_consumer()", unknown, known, {**ShareConsumerOptions.elsewhere(), **CONSUMER})
        if "group" not in given:
            raise TypeError("share_consumer() needs group=: the name of the share group")
        return cls(cluster, topics, **given)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} "
            f"(group={self._options.group!r}, topics={self._engine.topics})>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the consumer; after an error, what the last call returned is released, not accepted."""
        if exc is not None and self._cluster.tracer is not None:
            self._cluster.tracer.left(self, exc)
        self._close(midway=exc_type is not None)

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine is not None and not self._closure.complete:
            engine.abandon()

    # -- subscription ----------------------------------------------------------------------------------------------

    def subscribe(self, *topics: str, timeout: float | None = None) -> None:
        """Read these topics, instead of those before.

        :param topics: names, or a list of them; brokers know no patterns for share groups
        :param timeout: how long brokers may take to answer (s); None for the socket timeout of each
        :raises TopicNotFoundError: there is no such topic
        :raises KafkaException: the brokers refuse, or cannot be reached
        """
        self._check_open()
        names, pattern = valid_topics(unpacked(topics))
        if pattern is not None:
            raise ValueError("share groups read topics by name: brokers take no patterns (KIP-932)")
        found = self._cluster.topics
        longest_s = LONGEST_S if timeout is None else min(valid_timeout(timeout), LONGEST_S)
        left_ms = countdown(self._handler.now, round(longest_s * 1000))
        for name in names:
            if timeout is None:
                found[name]
            else:
                found.look_up(name, left_ms() or 1)
        self._engine.topics = list(names)
        self._engine.member.subscribe(names)

    def subscription(self) -> list[str]:
        """Return the names of the topics."""
        return sorted(self._engine.topics)

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this member takes records from at present; others may have them, too."""
        return self._engine.assignment

    @property
    def member_id(self) -> str:
        """The id of this member, for its life."""
        return self._engine.member_id

    @property
    def lock_timeout_ms(self) -> int | None:
        """How long acquired records are locked for this member (ms); None before the first ones."""
        return self._engine.lock_timeout_ms

    # -- reading ---------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Yield records until none comes for `consumer_timeout_ms`, or until `close()`.

        :raises ConsumerStoppedException: the consumer was closed before the iteration began
        """
        tracer = self._cluster.tracer
        return self._records() if tracer is None else tracer.each(self, self._records(), self._options.group)

    def _records(self) -> Iterator[Record[K, V]]:
        if self._closed:
            self._check_open()
        timeout_ms = self._options.consumer_timeout_ms
        timeout = None if timeout_ms < 0 else timeout_ms / 1000
        while True:
            try:
                found = self._read(1, timeout)
            except ConsumerStoppedException:
                if self._closed:
                    return
                raise
            if not found:
                return
            yield found[0]

    def one(self, timeout: float | None = None) -> Record[K, V] | None:
        """Return the next record.

        :param timeout: how long to wait for it (s); None for as long as it takes
        :returns: None if there is none in time
        :raises ConsumerStoppedException: the consumer is closed
        :raises KafkaException: the group or a broker refuses this consumer; while brokers, leaders or the coordinator are away,
            calls wait
        """
        found = self._reading_call(1, timeout)
        return found[0] if found else None

    def poll(self, max_records: int = POLL_RECORDS, timeout: float | None = None) -> list[Record[K, V]]:
        """Return the next records; wait only for the first.

        :param max_records: the most to return
        :param timeout: how long to wait for the first (s); None for as long as it takes; 0 does not wait
        :returns: an empty list if there is none in time
        :raises KafkaException: see `one`
        """
        return self._reading_call(valid_int(max_records, name="max_records"), timeout)

    @property
    def _reading_call(self) -> Callable[[int, float | None], list[Record[K, V]]]:
        tracer = self._cluster.tracer
        return self._read if tracer is None else tracer.reading(self._read, self._options.group)

    def _read(self, limit: int, timeout: float | None) -> list[Record[K, V]]:
        """Return the next records.

        After an interrupt, what was taken is read again: the next call would accept records that nobody has got.
        """
        taken: list[Record[K, V]] = []
        try:
            return self._await_records(limit, timeout, taken)
        except BaseException:
            if taken:
                self._delivered = []
                self._engine.put_back(taken)
            raise

    def _await_records(self, limit: int, timeout: float | None, taken: list[Record[K, V]]) -> list[Record[K, V]]:
        deadline = None if timeout is None else self._handler.now() + valid_timeout(timeout)
        with (turn := self._handler.Lock()):
            self._enter(turn)
            self._accept_delivered()
            engine = self._engine
            engine.caller, engine.called_at = self._handler.here(), self._handler.now()
            listener = engine.listener
            if listener is not None:
                listener.on_event(POLLED, f"share group {engine.options.group}")
            try:
                while True:
                    # An iteration over buffered records must not keep a hub or loop; an interrupt loses nothing here.
                    self._handler.breathe()
                    self._check_open()
                    self._run_callbacks()
                    engine.raise_error()
                    engine.assign_sessions(deadline)
                    found = self._take(limit, taken)
                    if not found:
                        engine.raise_ended()
                    left = None if deadline is None else deadline - self._handler.now()
                    if found or (left is not None and left <= 0):
                        if not found:
                            engine.set_wanting(True)  # a call that does not wait asks for the next one
                            self._handler.breathe()  # and a loop of such calls would keep a hub from asking
                        return found
                    engine.set_wanting(True)
                    began = self._handler.now()
                    engine.wait(left)
                    if listener is not None:
                        listener.on_event(WAITED, f"share group {engine.options.group}", self._handler.now() - began)
                    engine.arrived.clear()
            finally:
                engine.called_at = self._handler.now()
                if timeout != 0:
                    engine.set_wanting(False)

    def _take(self, limit: int, taken: list[Record[K, V]]) -> list[Record[K, V]]:
        """Return buffered records for the application.

        :param taken: gets all that leave the buffer
        """
        taken.clear()
        self._engine.take(limit, taken)
        if not taken:
            return []
        good = self._deserialized(taken) if self._reader.needed else taken
        self._delivered = [record._held() for record in good]
        return good

    def _deserialized(self, records: list[Record[Any, Any]]) -> list[Record[K, V]]:
        good: list[Record[Any, Any]] = []
        for index, record in enumerate(records):
            try:
                before = self._reader.skipped
                if self._reader.read_one(record):
                    good.append(record)
                else:
                    skipped = self._reader.skipped > before
                    self._engine.acknowledge(
                        record._held(), AcknowledgeType.REJECT if skipped else AcknowledgeType.ACCEPT
                    )
            except Exception as error:
                if good:
                    self._engine.put_back(records[index:])  # the next call meets it again
                    return good
                if blames_registry(error.__cause__):  # a release would count as a delivery, of which there are few
                    self._engine.put_back(records[index:])
                    raise
                self._engine.put_back(records[index + 1 :])
                self._engine.acknowledge(record._held(), AcknowledgeType.RELEASE)
                raise
        return good

    def _accept_delivered(self) -> None:
        """Accept the records that the last call has returned, unless they have another acknowledgement."""
        if self._options.acknowledgement == "implicit":
            for acquired in self._delivered:
                if acquired.state in UNDECIDED:
                    self._engine.acknowledge(acquired, AcknowledgeType.ACCEPT)
        self._delivered = []  # last: after an interrupt the next call accepts the rest

    # -- acknowledging ---------------------------------------------------------------------------------------------

    def accept(self, record: Record[Any, Any]) -> bool:
        """Accept a record: it was handled, and no member gets it again. `record.ack()` does the same.

        The acknowledgement goes with the next fetch, within a second, or by `commit()`; `on_acknowledge` gets the outcome.

        :param record: from this consumer
        :returns: whether that counts; False if the record is lost already, and comes again
        :raises ValueError: the record is not from this consumer
        :raises InvalidRecordState: it has another acknowledgement already
        """
        return self._engine.acknowledge(self._acquired(record), AcknowledgeType.ACCEPT)

    def release(self, record: Record[Any, Any]) -> bool:
        """Release a record: it comes again, to any member, until its deliveries are used up. `record.nack()` does the same.

        See `accept` for result and errors.

        :param record: from this consumer
        """
        return self._engine.acknowledge(self._acquired(record), AcknowledgeType.RELEASE)

    def reject(self, record: Record[Any, Any]) -> bool:
        """Reject a record: it cannot be handled, and no member gets it again.

        See `accept` for result and errors.

        :param record: from this consumer
        """
        return self._engine.acknowledge(self._acquired(record), AcknowledgeType.REJECT)

    def renew(self, record: Record[Any, Any]) -> bool:
        """Renew a record's lock, for work that takes longer than `lock_timeout_ms` (KIP-1222; Kafka 4.2 and later).

        See `accept` for result and errors; the record is still to be accepted, released or rejected.

        :param record: from this consumer
        :raises UnsupportedVersion: the broker that has given the record cannot
        """
        return self._engine.renew(self._acquired(record))

    def commit(self, timeout: float | None = None) -> Committed:
        """Send all acknowledgements, and wait for their outcome.

        :param timeout: how long to wait (s); None for the socket timeout of the client
        :returns: for each partition that had some, the first error, or None; InvalidRecordState if a lock had timed out,
            ResponseTimeoutError if no answer came in time
        """
        timeout_s = self._cluster.socket_timeout_ms / 1000 if timeout is None else valid_timeout(timeout)
        deadline = self._handler.now() + timeout_s
        with (turn := self._handler.Lock()):
            self._enter(turn)
            self._check_open()
            self._accept_delivered()
            failed = {one.partition: one.error for one in self._run_callbacks() if one.error is not None}
            waiting = self._engine.flush()
            engine = self._engine
            while any(acquired.state in OPEN for acquired in waiting) and self._handler.now() < deadline:
                engine.assign_sessions(deadline)
                engine.wait(max(0.0, deadline - self._handler.now()))
                engine.arrived.clear()
            self._run_callbacks()
            return {**failed, **_committed(waiting, failed)}

    def commit_async(self, on_commit: OnCommit | None = None) -> None:
        """Send all acknowledgements, and return at once.

        :param on_commit: called with what `commit` returns, inside a later call of this consumer
        """
        with (turn := self._handler.Lock()):
            self._enter(turn)
            self._check_open()
            self._accept_delivered()
            waiting = self._engine.flush()
            if on_commit is not None:
                self._waiting_callbacks.append((waiting, on_commit))

    def _run_callbacks(self) -> list[Acknowledged]:
        """Call the callbacks with new outcomes, and return these."""
        found = self._engine.take_outcomes()
        called = 0
        try:
            for one in found:
                called += 1
                self._report(one)
        except BaseException:  # of the function, or an interrupt
            self._engine.keep_outcomes(found[called:])
            raise
        for waiting, on_commit in list(self._waiting_callbacks):
            if not any(acquired.state in OPEN for acquired in waiting):
                self._waiting_callbacks.remove((waiting, on_commit))
                on_commit(_committed(waiting, {}))
        return found

    def _report(self, one: Acknowledged) -> None:
        if self._options.on_acknowledge is not None:
            self._options.on_acknowledge(one)
        elif one.error is not None:
            text = "share group %s: acknowledgements of %s failed, so these records may come again: %s"
            self._cluster.limiter.warn(log, str(one.partition), text, self._options.group, one.partition, one.error)

    def _acquired(self, record: Record[Any, Any]) -> AcquiredRecord:
        acquired = record._held()
        if not isinstance(acquired, AcquiredRecord) or acquired.owner is not self._engine:
            raise ValueError(f"{record!r} is not from this consumer")
        return acquired

    def metrics(self) -> Metrics:
        """Return the metrics of this consumer now, with Java's names; docs/metrics.md lists them. No broker is asked.

        The connections are those of the client, whose producers and consumers share them.
        """
        from pykafka.metrics.metric import Metrics

        return Metrics(self._engine.read_metrics())

    def health(self) -> ShareConsumerHealth:
        """Return the state of the consumer, without a request: membership, records, errors, and what is wrong.

        :returns: `pykafka.health.ShareConsumerHealth`; its `to_dict()` is for JSON
        """
        return self._view_class()(self, self._handler.here()).report()

    def explain(self) -> Explanation:
        """Return what keeps the consumer, and each of its partitions, from being read; `print()` shows a line for each."""
        return self._view_class()(self, self._handler.here()).explain()

    def _view_class(self) -> type[ShareView]:
        from pykafka.sharegroups.share_health import ShareView

        return ShareView

    @property
    def _is_open(self) -> bool:
        return not self._closing

    @property
    def _is_running(self) -> bool:
        return not self._closing

    # -- life ------------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """Accept what was returned if acknowledgement is implicit, send all acknowledgements, leave the group, and end.

        Records that were neither accepted nor rejected are released. A call that waits in another worker ends. If a timeout or
        a cancellation ends this call, call it again: it finishes what is left.

        :param timeout: how long this may take (s); None for the socket timeout of the client
        """
        self._close(midway=False, timeout=timeout)

    def _close(self, midway: bool, timeout: float | None = None) -> None:
        timeout_s = self._cluster.socket_timeout_ms / 1000 if timeout is None else valid_timeout(timeout)
        self._closing = True
        self._closure.run(partial(self._end, midway, timeout_s))

    def _end(self, midway: bool, timeout_s: float) -> None:
        self._engine.arrived.set()
        try:
            if midway:
                self._delivered = []
            self._accept_delivered()
            self._engine.stop(self._handler.now() + timeout_s)
        finally:
            self._closed = True
            self._on_stop()
        self._cluster.leave_to_owner(self._at_close)  # not after an interrupt: the client then finishes this
        self._run_callbacks()
        for waiting, on_commit in self._waiting_callbacks:
            on_commit(_committed(waiting, {}))
        self._waiting_callbacks = []

    def _enter(self, turn: LockType) -> None:
        if not self._reading.enter(turn):
            raise KafkaException(
                "another worker reads this share consumer: one worker at a time may call one(), poll(), commit() and the "
                "like; make a consumer for each"
            )

    def _check_open(self) -> None:
        if self._is_forked:
            raise ConsumerStoppedException(
                "the share consumer was made before this process was forked, and is its parent's; make another here"
            )
        if self._closing:
            raise ConsumerStoppedException("the share consumer is closed; make another")

    def _after_fork(self) -> None:
        # The membership and its locks are the parent's.
        self._closing = self._closed = self._is_forked = True
        self._closure = CloseOnce(self._handler, complete=True)


class _Reader(RecordReader):
    """The deserializers of a share consumer, which releases what it raises."""

    def _advice(self, record: Record[Any, Any]) -> str:
        return (
            '; the record was released, and comes again. Give on_bad_record="skip" to reject such, or DeadLetters(...)'
        )


def _committed(waiting: list[AcquiredRecord], failed: Committed | dict[TopicPartition, Any]) -> Committed:
    found: Committed = {}
    for acquired in waiting:
        error = acquired.error
        if acquired.state in OPEN:
            error = ResponseTimeoutError(
                "no answer to an acknowledgement in time: the broker may have taken it or not",
                topic=acquired.partition.topic,
                partition=acquired.partition.partition,
            )
        found[acquired.partition] = found.get(acquired.partition) or failed.get(acquired.partition) or error
    return found
