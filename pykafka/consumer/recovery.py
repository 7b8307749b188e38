"""`Recovery`: fetching a partition again after an error: find its leader, correct its offset, attach it to a fetcher.

The first error starts the consumer's worker for this, which ends when nothing is left to do. It may block on metadata and
offsets, which a fetch worker shared with other consumers must not.

Each partition has a time of its own for the next attempt. The worker serves all partitions that are due together: it asks for
metadata once for all of them, after the pause and right before it is used.
"""

from __future__ import annotations

import logging
import weakref
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.common import OffsetType
from pykafka.consumer.fetcher import Fetcher
from pykafka.consumer.truncation import fetch_tells, find_truncations
from pykafka.exceptions import (
    FencedLeaderEpoch,
    InvalidMessageError,
    KafkaException,
    LeaderNotFoundError,
    LogTruncationError,
    OffsetOutOfRangeError,
    OffsetResetNeededError,
    ProtocolClientError,
    TopicRecreatedError,
    UnknownError,
    UnknownLeaderEpoch,
)
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.broker import Broker
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import Buffers, OwnedPartition
    from pykafka.consumer.fetchplan import LeaderHint
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.positions import Position
    from pykafka.consumer.sources import Sources
    from pykafka.handlers import Handler
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: Errors that Kafka does not call retriable; recovery retries them all the same before `consume()` raises them.
PASSING = (UnknownError, OffsetOutOfRangeError)
#: Errors that mean that the position is not in the log: it has to be moved.
LOST = (OffsetOutOfRangeError, LogTruncationError, TopicRecreatedError)
#: While an error lasts, pauses double from `fetch_error_backoff_ms` up to this (ms): Kafka's own retry.backoff.max.ms.
BACKOFF_MAX_MS = 1000
#: The worker serves now what is due within this part of `fetch_error_backoff_ms`: partitions that failed one after another
#: share a request for metadata.
TOGETHER = 0.2
#: A partition that fails joins others that are due after this part of its pause at the least: partitions that one answer
#: names fail one after another, and would each have a pause of another length.
JOIN = 0.6
#: How long to ask the brokers for the offset to begin at, before other partitions have their turn (ms).
RESET_TIMEOUT_MS = 1000
#: The longest wait of the worker at a time (s): it looks then whether its consumer is still there.
LOOK_S = 1.0


class Reader(Protocol):
    """The consumer whose partitions are looked after: `ConsumerEngine` documents the members."""

    @property
    def cluster(self) -> BaseCluster: ...
    @property
    def handler(self) -> Handler: ...
    @property
    def options(self) -> ConsumerOptions: ...
    @property
    def name(self) -> str: ...
    @property
    def running(self) -> bool: ...
    @property
    def buffers(self) -> Buffers: ...
    @property
    def sources(self) -> Sources: ...
    @property
    def errors(self) -> deque[BaseException]: ...
    def worker_failed(self, error: BaseException) -> None: ...
    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None: ...
    def redirected(self, owned: OwnedPartition, broker_id: int) -> None: ...
    def take_hint(self, owned: OwnedPartition, hint: LeaderHint) -> bool: ...
    def arrived(self) -> None: ...
    def tick(self) -> None: ...
    def find_offsets(
        self, wanted: Mapping[TopicPartition, Position], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]: ...


@dataclass(eq=False)
class _Case:
    """A partition that is not fetched.

    :param owned: the partition
    :param moves: how often it had been moved when it failed: if the application has moved it since, that stands
    :param error: the reason
    :param due: the time of the next attempt, of the handler's clock (s)
    :param waited: whether buffered messages had to be read first; then the same offset is tried once more
    """

    owned: OwnedPartition
    moves: int
    error: KafkaException
    due: float
    waited: bool = False

    @property
    def moved(self) -> bool:
        """Whether the application has moved it since, for example by `seek()`."""
        return self.owned.moves != self.moves


class Recovery:
    """The repair of one consumer's partitions that cannot be fetched.

    State: `_failed` and `_worker` change under `_lock`; the rest belongs to the worker.

    :param reader: the consumer, held weakly, so that a dropped one can be freed
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = weakref.ref(reader)
        self._handler = reader.handler
        self._pauses = Backoff(max(reader.options.fetch_error_backoff_ms, 1), BACKOFF_MAX_MS, self._handler.random)
        self._lock = self._handler.Lock()
        self._wake = self._handler.Event()
        # The partitions to look after, how often each had been moved, and its error; None: it only moves to another broker.
        self._failed: deque[tuple[OwnedPartition, int, KafkaException | None]] = deque()
        self._worker: Any = None
        self._cases: dict[OwnedPartition, _Case] = {}
        # {average length of a pause (s): the latest time at which partitions with such a pause are due}.
        self._due: dict[float, float] = {}
        # How often in a row each partition has failed.
        self._failures: dict[OwnedPartition, int] = {}
        # The error reported last: a broker's error comes once for each of its partitions, and consume() raises it once.
        self._told: weakref.ref[KafkaException] | None = None

    def failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Take over a partition that has failed; return at once."""
        self._take(owned, error)

    def reattach(self, owned: OwnedPartition) -> None:
        """Fetch a partition from the broker that it is to be fetched from now; return at once."""
        fetcher = owned.fetcher
        if fetcher is not None:
            fetcher.detach(owned)
        self._take(owned, None)

    def _take(self, owned: OwnedPartition, error: KafkaException | None) -> None:
        with self._lock:
            self._failed.append((owned, owned.moves, error))
            self._start()
        self._wake.set()

    def revive(self) -> None:
        """Start the worker again if it could not be started, or an error has ended it."""
        if self._worker is None and (self._failed or self._cases):
            with self._lock:
                self._start()

    def _start(self) -> None:
        """Start the worker if there is none; the caller holds the lock."""
        if self._worker is not None:
            return
        try:
            self._worker = self._handler.spawn(self._run, name="pykafka.Recovery")
        except RuntimeError as error:  # the system cannot start a thread at present; consume() tries again
            log.error("no worker can be started to fetch partitions again, for now: %s", error)

    def moved(self) -> None:
        """Wake the worker: the application has moved a partition, perhaps one that only the application could move."""
        self._wake.set()

    def join(self) -> None:
        """Wait for the worker to end; set the consumer's `running` to False before."""
        self._wake.set()
        worker = self._worker
        if worker is not None:
            worker.join(5.0)

    def is_recreated(self, owned: OwnedPartition) -> bool:
        """Return whether metadata has another topic under the name of the one that a partition's position is of."""
        reader = self._reader()
        known = None if reader is None else reader.cluster.topic_id(owned.key.topic)
        return None not in (known, owned.topic_id) and known != owned.topic_id

    def attach(self, owned: OwnedPartition) -> None:
        """Attach a partition to the fetcher of its broker: its leader, or a closer replica; if there is none, take it over.

        This does no I/O: the worker asks the leader whether its log has what was fetched, if that may be necessary.
        """
        broker = self._broker_of(owned)
        if broker is None:
            return
        if self._is_unsure(owned) and not (broker.knows_versions and fetch_tells(broker)):
            self._take(owned, None)
        else:
            self._attach_to(broker, owned)

    def _attach_all(self, parts: Collection[OwnedPartition]) -> None:
        """Attach partitions, as `attach` does, but ask leaders about their logs; the worker calls this."""
        by_broker: dict[Broker, list[OwnedPartition]] = defaultdict(list)
        for owned in parts:
            broker = self._broker_of(owned)
            if broker is not None:
                by_broker[broker].append(owned)
        for broker, group in by_broker.items():
            errors: Mapping[OwnedPartition, KafkaException] = {}
            unsure = [owned for owned in group if self._is_unsure(owned)]
            if unsure:
                try:
                    errors = {} if fetch_tells(broker) else find_truncations(broker, unsure)
                except KafkaException as error:
                    errors = dict.fromkeys(unsure, error)
            for owned in group:
                if owned in errors:
                    self.failed(owned, errors[owned])
                else:
                    self._attach_to(broker, owned)

    def _is_unsure(self, owned: OwnedPartition) -> bool:
        """Return whether the leader may be asked if its log has what was fetched. Replicas answer that to nobody."""
        reader = self._reader()
        at_leader = reader is None or reader.sources.of(owned.key).broker_id is None
        return at_leader and owned.lineage.before(owned.fetch_offset) >= 0

    def _broker_of(self, owned: OwnedPartition) -> Broker | None:
        """Return the broker to fetch a partition from; None if it is being fetched, or has failed."""
        reader = self._reader()
        if reader is None or not reader.running or owned.fetcher is not None:
            return None
        if owned.position < 0:
            self.failed(owned, OffsetResetNeededError(topic=owned.key.topic, partition=owned.partition_id))
            return None
        if self.is_recreated(owned):
            self.failed(owned, _recreated(owned, reader.cluster.topic_id(owned.key.topic)))
            return None
        if owned.topic_id is None:
            owned.topic_id = reader.cluster.topic_id(owned.key.topic)
        owned.leader_epoch = reader.cluster.leader_epoch(*owned.key)
        source = reader.sources.of(owned.key)
        if source.broker_id is None:
            broker = owned.partition.leader
        else:
            broker = reader.cluster.brokers.get(source.broker_id)
        if broker is None:
            self.failed(
                owned,
                LeaderNotFoundError(
                    "no broker leads the partition at present"
                    if source.broker_id is None
                    else f"the leader names broker {source.broker_id} as a closer replica, and metadata does not",
                    topic=owned.key.topic,
                    partition=owned.partition_id,
                ),
            )
        return broker

    def _attach_to(self, broker: Broker, owned: OwnedPartition) -> None:
        reader = self._reader()
        if reader is None or not reader.running or owned.fetcher is not None:
            return
        rack = reader.sources.of(owned.key).rack
        try:
            fetcher = Fetcher.of(broker, self._handler, reader.options.fetch_settings(owned.partition_id, rack))
            fetcher.attach(owned, _WeakSubscriber(reader))
        except KafkaException as error:
            self.failed(owned, error)

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:
            reader = self._reader()
            if reader is not None and reader.running:
                told = f"the worker that fetches partitions again has ended by {type(error).__name__}: {error}"
                reader.worker_failed(KafkaException(told, topic=reader.name))
            del reader
            with self._lock:
                self._worker = None
            raise

    def _step(self) -> bool:
        """Serve the partitions that are due, or wait until one is; return False if nothing is left to do."""
        self._wake.clear()
        reader = self._reader()
        live = reader is not None and reader.running
        with self._lock:
            new = list(self._failed)
            self._failed.clear()
            if not live:
                self._cases = {}
            if not live or not (new or self._cases):
                self._worker = None
                return False
        assert reader is not None
        self._admit(reader, new)
        if not self._cases:
            return True
        soon = self._handler.now() + TOGETHER * self._pauses.first_ms / 1000
        due = [case for case in self._cases.values() if case.due <= soon or case.moved]
        if due:
            self._serve(reader, due)
            return True
        del reader
        next_due = min(case.due for case in self._cases.values())
        self._wake.wait(min(max(next_due - self._handler.now(), 0.0), LOOK_S))
        return True

    def _admit(self, reader: Reader, new: Iterable[tuple[OwnedPartition, int, KafkaException | None]]) -> None:
        """Decide when to try each failed partition again, and whether `consume()` raises its error."""
        nowhere = []
        ready = []
        for owned, moves, error in new:
            if error is None:
                if owned not in self._cases:
                    ready.append(owned)
                continue
            if reader.sources.failed(owned.key, self._handler.now()):
                # The leader decides, also about an offset that a replica lacks: it has all that replicas have.
                log.info("partition %s: %s; fetching from its leader", owned.key, error)
                ready.append(owned)
                continue
            lasts = owned.trouble_since is not None
            failures = self._failures[owned] = self._failures.get(owned, 0) + 1 if lasts else 1
            # An offset is corrected at once, and so is a leader epoch; if it is wrong again before anything was fetched, the
            # broker contradicts itself, and there is no need to hurry.
            at_once = isinstance(error, (*LOST, FencedLeaderEpoch)) and not lasts
            due = self._handler.now() if at_once else self._due_after(failures)
            self._cases[owned] = _Case(owned, moves, error, due)
            if not isinstance(error, LOST) and not _is_nowhere(error):
                self._judge(reader, owned, error)
            if _is_nowhere(error):
                nowhere.append(self._cases[owned])
        self._attach_all(ready)
        self._ask_the_user(reader, nowhere)

    def _due_after(self, failures: int) -> float:
        """Return when to try a partition that has failed so often in a row; together with others, if possible."""
        now, pause = self._handler.now(), self._pauses.plain_seconds(failures)
        if self._due.get(pause, 0.0) < now + JOIN * pause:
            self._due[pause] = now + self._pauses.seconds(failures)
        return self._due[pause]

    def _serve(self, reader: Reader, due: list[_Case]) -> None:
        """Fetch partitions again, each as its error demands."""
        if any(_wants_metadata(case) for case in due):
            self._refresh(reader, {case.owned.key.topic for case in due})
        for case in due:
            if isinstance(case.error, LOST) and self.is_recreated(case.owned):
                case.error = _recreated(case.owned, reader.cluster.topic_id(case.owned.key.topic))
        lost = []
        ready = []
        for case in due:
            if case.moved or not isinstance(case.error, LOST):
                ready.append(case)
            elif _has_unread(case.owned):
                case.waited = True
                case.due = self._handler.now() + self._pauses.first_ms / 1000
            elif case.waited:
                ready.append(case)
            else:
                lost.append(case)
        self._close(ready)
        if lost:
            self._reset(reader, lost)

    def _close(self, cases: Collection[_Case]) -> None:
        """Attach partitions again: their cases are over."""
        for case in cases:
            del self._cases[case.owned]
            if case.moved:  # the application names a position of the topic that there is now
                case.owned.topic_id = None
        self._attach_all([case.owned for case in cases])

    def _refresh(self, reader: Reader, topics: Collection[str]) -> None:
        cluster = reader.cluster
        try:
            cluster.refresh(cluster.generation, topics)
        except KafkaException as error:
            # one line for each reason: when no broker can be reached, every consumer of the client logs that
            names = ", ".join(sorted(topics))
            cluster.limiter.warn(log, type(error).__name__, "no metadata for %s: %s", names, error)

    def _judge(self, reader: Reader, owned: OwnedPartition, error: KafkaException) -> None:
        """Decide whether `consume()` raises an error: it does not pass by itself, or has lasted."""
        now = self._handler.now()
        if owned.trouble_since is None:
            owned.trouble_since = now
        lasting = now - owned.trouble_since > reader.cluster.socket_timeout_ms / 1000
        # Kafka calls a wrong checksum retriable, but the application wants to know of it. A new leader of 0.9 answers
        # UNKNOWN_SERVER_ERROR until it knows that the records were committed. A broker that has left the cluster, or moved, is
        # closed; that is not worth an error.
        may_pass = reader.cluster.may_pass(error) and not isinstance(error, InvalidMessageError)
        if not lasting and (may_pass or type(error) in PASSING):
            log.info("partition %d: %s; trying again", owned.partition_id, error)
            return
        owned.trouble_since = now
        told = self._told is not None and self._told() is error
        # An application that does not consume meanwhile gets one error, not one for each attempt.
        known = any(
            type(one) is type(error) and (one.topic, one.partition) == (error.topic, error.partition)
            for one in reader.errors
            if isinstance(one, KafkaException)
        )
        if not told and not known:
            self._told = weakref.ref(error)
            reader.worker_failed(error)

    def _again(self, case: _Case) -> None:
        """Try a partition again after another pause."""
        failures = self._failures[case.owned] = self._failures.get(case.owned, 0) + 1
        case.due = self._due_after(failures)

    def _reset(self, reader: Reader, lost: list[_Case]) -> None:
        """Move partitions whose positions are not in the log (any more).

        They go to `auto_offset_reset`; where a log was cut, to the offset from which on it differs; in a topic that was made
        anew, to its start. If the application moves a partition meanwhile, for example by `seek()`, that stands.
        """
        reset = reader.options.auto_offset_reset
        if isinstance(reset, str):
            self._ask_the_user(reader, lost)
            return
        by_leader: dict[Any, list[_Case]] = defaultdict(
            list
        )  # a leader that does not answer delays its own partitions alone
        cut = []
        for case in lost:
            if isinstance(case.error, LogTruncationError) and case.error.divergent_offset is not None:
                self._go_back(reader, case, case.error.divergent_offset)
                cut.append(case)
                continue
            if isinstance(case.error, TopicRecreatedError):
                self._note_trouble(case.owned)
                log.warning(
                    "topic %s was deleted and made anew (its id was %s and is %s now): this consumer goes from offset %d of "
                    "partition %d to the start of the new one",
                    *(case.owned.key.topic, case.error.old_id, case.error.new_id, case.owned.position),
                    case.owned.partition_id,
                )
            else:
                self._judge(reader, case.owned, case.error)
                log.warning("%s; going to auto_offset_reset", case.error)
            by_leader[case.owned.partition.leader].append(case)
        self._close(cut)
        for cases in by_leader.values():
            wanted: dict[TopicPartition, Position] = {
                case.owned.key: OffsetType.EARLIEST if isinstance(case.error, TopicRecreatedError) else reset
                for case in cases
            }
            try:
                offsets = reader.find_offsets(wanted, timeout_ms=RESET_TIMEOUT_MS)
            except KafkaException as problem:
                for case in cases:
                    self._judge(reader, case.owned, problem)
                    self._again(case)
                continue
            for case in cases:
                offset = offsets[case.owned.key]
                log.debug("%s goes to offset %d: auto_offset_reset", case.owned.key, offset)
                if reader.buffers.move(case.owned, offset, offset - 1, case.moves):
                    case.owned.topic_id = None
            self._close(cases)

    def _go_back(self, reader: Reader, case: _Case, divergent: int) -> None:
        """Move a partition whose log was cut to where the leader's log begins to differ from what was read."""
        owned = case.owned
        position = owned.position
        start = min(divergent, position)
        self._note_trouble(owned)
        if reader.buffers.move(owned, start, start - 1, case.moves, owned.lineage.until(start)) and start < position:
            log.warning(
                "%s: offsets %d to %d (%d of them), which this consumer has read, are lost: the leader's log differs from "
                "offset %d on, as after an unclean leader election. The consumer goes from offset %d back to %d",
                *(owned.key, start, position - 1, position - start, start, position, start),
            )

    def _note_trouble(self, owned: OwnedPartition) -> None:
        if owned.trouble_since is None:
            owned.trouble_since = self._handler.now()

    def _ask_the_user(self, reader: Reader, cases: list[_Case]) -> None:
        """Report to `consume()` that the application must name the next position; until then try the offset now and then."""
        kinds = (OffsetResetNeededError, TopicRecreatedError)
        known = {(one.topic, one.partition) for one in reader.errors if isinstance(one, kinds)}
        errors = reset_needed(reader, [case.owned for case in cases if case.owned.key not in known])
        for case in cases:
            needed = errors.get(case.owned.key)
            if needed is not None:
                error: KafkaException = needed
                if isinstance(case.error, TopicRecreatedError):
                    error = case.error.again()
                elif isinstance(case.error, LogTruncationError):
                    where = needed.offset, case.error.divergent_offset, needed.earliest, needed.latest
                    error = LogTruncationError(*where, **needed.context)
                elif isinstance(case.error, OffsetOutOfRangeError):
                    error.__cause__ = case.error.again()
                self._judge(reader, case.owned, error)
            if isinstance(case.error, LOST):
                case.error = OffsetResetNeededError(topic=case.owned.key.topic, partition=case.owned.partition_id)
                self._again(case)


def reset_needed(reader: Reader, parts: Iterable[OwnedPartition]) -> dict[TopicPartition, OffsetResetNeededError]:
    """Return the error for each partition whose next position only the application can name."""
    stuck = {owned.key: owned for owned in parts}
    ranges = _ranges(reader, stuck)
    return {
        key: OffsetResetNeededError(
            owned.position if owned.position >= 0 else None,
            *ranges.get(key, (None, None)),
            topic=key.topic,
            partition=key.partition,
        )
        for key, owned in stuck.items()
    }


def _ranges(reader: Reader, keys: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Return each partition's offsets as (first, behind the last); an empty dict if the brokers do not tell them."""
    found: list[dict[TopicPartition, int]] = []
    for end in (OffsetType.EARLIEST, OffsetType.LATEST):
        try:
            found.append(reader.find_offsets(dict.fromkeys(keys, end), timeout_ms=RESET_TIMEOUT_MS))
        except KafkaException as error:
            log.info("the range of offsets of %s is not known: %s", ", ".join(map(str, keys)), error)
            return {}
    return {key: (found[0][key], found[1][key]) for key in keys}


def _recreated(owned: OwnedPartition, now: UUID | None) -> TopicRecreatedError:
    return TopicRecreatedError(
        f"the topic was deleted and made anew (its id was {owned.topic_id} and is {now} now), and offset {owned.position} was "
        'of the old one; auto_offset_reset is "none": say where to go on, by seek() or reset_offsets()',
        owned.topic_id,
        now,
        topic=owned.key.topic,
        partition=owned.partition_id,
    )


def _is_nowhere(error: KafkaException) -> bool:
    return isinstance(error, OffsetResetNeededError) and not isinstance(error, LOST)


def _wants_metadata(case: _Case) -> bool:
    """Return whether metadata is to be asked for before a partition is served."""
    error = case.error
    if isinstance(error, (OffsetOutOfRangeError, LogTruncationError)):
        # The log may be that of a topic that was made anew; ids tell.
        return case.owned.topic_id is not None and not case.moved and not _has_unread(case.owned)
    if isinstance(error, (OffsetResetNeededError, TopicRecreatedError)):
        return False
    return not isinstance(error, ProtocolClientError) or error.invalid_metadata or isinstance(error, UnknownLeaderEpoch)


def _has_unread(owned: OwnedPartition) -> bool:
    return owned.messages > 0 or owned.loan > 0


class _WeakSubscriber:
    """The fetcher's view of a consumer: it forwards calls while the consumer is there, and does not keep it alive."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Reader) -> None:
        self._reader = weakref.ref(reader)

    def is_gone(self) -> bool:
        return self._reader() is None

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        reader = self._reader()
        if reader is not None:
            reader.fetch_failed(owned, error)

    def redirected(self, owned: OwnedPartition, broker_id: int) -> None:
        reader = self._reader()
        if reader is not None:
            reader.redirected(owned, broker_id)

    def take_hint(self, owned: OwnedPartition, hint: LeaderHint) -> bool:
        reader = self._reader()
        return reader is not None and reader.take_hint(owned, hint)

    def arrived(self) -> None:
        reader = self._reader()
        if reader is not None:
            reader.arrived()

    def tick(self) -> None:
        reader = self._reader()
        if reader is not None:
            reader.tick()
