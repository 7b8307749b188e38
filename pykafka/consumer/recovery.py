"""Getting a partition fetched again after an error: find its leader, set its offset right, attach it.

A consumer's worker for this runs only while there is something to do: the first error starts it. It may block on metadata
and offsets, which a fetch worker shared with other consumers must not.

Each partition has a time of its own at which it is tried next. The worker serves all that are due together: it asks for
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
from pykafka.exceptions import (
    InvalidMessageError,
    KafkaException,
    LeaderNotFoundError,
    OffsetOutOfRangeError,
    OffsetResetNeededError,
    ProtocolClientError,
    UnknownError,
)
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import Buffers, OwnedPartition
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.positions import Position
    from pykafka.handlers import Handler
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: What Kafka does not call retriable, and is tried again all the same before anybody hears of it.
PASSING = (UnknownError, OffsetOutOfRangeError)
#: Where an error lasts, pauses double from `fetch_error_backoff_ms` up to this (ms): Kafka's own retry.backoff.max.ms.
BACKOFF_MAX_MS = 1000
#: What is due within this part of `fetch_error_backoff_ms` is served now: partitions that failed one after another share
#: a request for metadata.
TOGETHER = 0.2
#: A partition that fails joins others that are due after this part of its pause at the least: partitions that one answer
#: names fail one after another, and would each have a pause of another length.
JOIN = 0.6
#: How long the brokers are asked for the offset to begin at, before other partitions have their turn (ms).
RESET_TIMEOUT_MS = 1000
#: How long the worker waits at a time (s): one whose reader is gone ends.
LOOK_S = 1.0


class Reader(Protocol):
    """The consumer whose partitions are looked after: an engine, which says what each member does."""

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
    def errors(self) -> deque[BaseException]: ...
    def worker_failed(self, error: BaseException) -> None: ...
    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None: ...
    def arrived(self) -> None: ...
    def tick(self) -> None: ...
    def find_offsets(
        self, wanted: Mapping[TopicPartition, Position], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]: ...


@dataclass(eq=False)
class _Case:
    """A partition that is not fetched.

    :param owned: the partition
    :param moves: how often it had been moved when it failed: who moves it since has the last word
    :param error: why
    :param due: when it is tried next, of the handler's clock (s)
    :param waited: whether what was buffered had to be read first; then the offset is tried once more as it is
    """

    owned: OwnedPartition
    moves: int
    error: KafkaException
    due: float
    waited: bool = False

    @property
    def moved(self) -> bool:
        """Whether it was moved elsewhere since, as by `seek()`."""
        return self.owned.moves != self.moves


class Recovery:
    """Looks after the partitions of one consumer that cannot be fetched.

    State: `_failed` and `_worker` change under `_lock`; the rest belongs to the worker.

    :param reader: the consumer, held weakly, so that a forgotten one can go
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = weakref.ref(reader)
        self._handler = reader.handler
        self._pauses = Backoff(max(reader.options.fetch_error_backoff_ms, 1), BACKOFF_MAX_MS, self._handler.random)
        self._lock = self._handler.Lock()
        self._wake = self._handler.Event()
        self._failed: deque[tuple[OwnedPartition, int, KafkaException]] = deque()
        self._worker: Any = None
        self._cases: dict[OwnedPartition, _Case] = {}
        # When partitions are due whose pause has this length on average (s): the latest such time.
        self._due: dict[float, float] = {}
        # How often in a row each partition has failed.
        self._failures: dict[OwnedPartition, int] = {}
        # What was told last: an error of the broker comes once for each of its partitions, and is to be raised once.
        self._told: weakref.ref[KafkaException] | None = None

    def failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Take a partition into care; returns at once."""
        with self._lock:
            self._failed.append((owned, owned.moves, error))
            self._start()
        self._wake.set()

    def revive(self) -> None:
        """Start the worker again where it could not be started, or was ended by what no worker can deal with."""
        if self._worker is None and (self._failed or self._cases):
            with self._lock:
                self._start()

    def _start(self) -> None:
        """Start the worker where there is none; the caller holds the lock."""
        if self._worker is not None:
            return
        try:
            self._worker = self._handler.spawn(self._run, name="pykafka.Recovery")
        except RuntimeError as error:  # no thread can be started at present; consume() has it tried again
            log.error("nobody can look after partitions that are not fetched, for now: %s", error)

    def moved(self) -> None:
        """Take note that a partition was moved elsewhere, perhaps one that nobody but the user could move."""
        self._wake.set()

    def join(self) -> None:
        """Wait for the worker to end; the consumer's `running` was taken back before."""
        self._wake.set()
        worker = self._worker
        if worker is not None:
            worker.join(5.0)

    def attach(self, owned: OwnedPartition) -> None:
        """Attach a partition to its leader's fetcher, or take it into care where it has none."""
        reader = self._reader()
        if reader is None or not reader.running or owned.fetcher is not None:
            return
        if owned.position < 0:
            self.failed(owned, OffsetResetNeededError(topic=owned.key.topic, partition=owned.partition_id))
            return
        leader = owned.partition.leader
        if leader is None:
            self.failed(
                owned,
                LeaderNotFoundError(
                    "no broker leads the partition at present", topic=owned.key.topic, partition=owned.partition_id
                ),
            )
            return
        try:
            fetcher = Fetcher.of(leader, self._handler, reader.options.fetch_settings(owned.partition_id))
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
                told = f"the worker that has partitions fetched again ended by {type(error).__name__}: {error}"
                reader.worker_failed(KafkaException(told, topic=reader.name))
            del reader
            with self._lock:
                self._worker = None
            raise

    def _step(self) -> bool:
        """Serve what is due, or wait until something is; False where there is nothing left to do."""
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
        soon = self._handler.now() + TOGETHER * self._pauses.first_ms / 1000
        due = [case for case in self._cases.values() if case.due <= soon or case.moved]
        if due:
            self._serve(reader, due)
            return True
        del reader
        next_due = min(case.due for case in self._cases.values())
        self._wake.wait(min(max(next_due - self._handler.now(), 0.0), LOOK_S))
        return True

    def _admit(self, reader: Reader, new: Iterable[tuple[OwnedPartition, int, KafkaException]]) -> None:
        """Decide when each partition that has failed is tried again, and who is to hear of it."""
        for owned, moves, error in new:
            lasts = owned.trouble_since is not None
            failures = self._failures[owned] = self._failures.get(owned, 0) + 1 if lasts else 1
            # An offset is found anew at once; where it is wrong again before anything could be fetched, the broker is at
            # odds with itself, and there is no need to hurry.
            at_once = isinstance(error, OffsetOutOfRangeError) and not lasts
            due = self._handler.now() if at_once else self._due_after(failures)
            self._cases[owned] = _Case(owned, moves, error, due)
            if not isinstance(error, OffsetOutOfRangeError) and not _is_nowhere(error):
                self._judge(reader, owned, error)
        self._ask_the_user(reader, [self._cases[owned] for owned, _, error in new if _is_nowhere(error)])

    def _due_after(self, failures: int) -> float:
        """Return when a partition is tried that has failed so often in a row; together with others, where it can be."""
        now, pause = self._handler.now(), self._pauses.plain_seconds(failures)
        if self._due.get(pause, 0.0) < now + JOIN * pause:
            self._due[pause] = now + self._pauses.seconds(failures)
        return self._due[pause]

    def _serve(self, reader: Reader, due: list[_Case]) -> None:
        """Have partitions fetched again, each as its error wants it."""
        if any(_is_stale(case.error) for case in due):
            self._refresh(reader, {case.owned.key.topic for case in due})
        lost = []
        for case in due:
            if case.moved or not isinstance(case.error, OffsetOutOfRangeError):
                self._attach(case)
            elif _has_unread(case.owned):
                case.waited = True
                case.due = self._handler.now() + self._pauses.first_ms / 1000
            elif case.waited:
                self._attach(case)
            else:
                lost.append(case)
        if lost:
            self._reset(reader, lost)

    def _attach(self, case: _Case) -> None:
        del self._cases[case.owned]
        self.attach(case.owned)

    def _refresh(self, reader: Reader, topics: Collection[str]) -> None:
        cluster = reader.cluster
        try:
            cluster.refresh(cluster.generation, topics)
        except KafkaException as error:
            # one a reason: where no broker can be reached, every consumer of the client says so
            names = ", ".join(sorted(topics))
            cluster.limiter.warn(log, type(error).__name__, "no metadata for %s: %s", names, error)

    def _judge(self, reader: Reader, owned: OwnedPartition, error: KafkaException) -> None:
        """Decide whether whoever consumes must hear of an error: what does not pass by itself, or has not for long."""
        now = self._handler.now()
        if owned.trouble_since is None:
            owned.trouble_since = now
        lasting = now - owned.trouble_since > reader.cluster.socket_timeout_ms / 1000
        # A checksum that does not match here is retriable to Kafka, but whoever consumes wants to know. And a new leader
        # of 0.9 answers UNKNOWN_SERVER_ERROR until it knows that what is fetched has been committed. A broker that has left
        # the cluster, or moved, is closed; that is no news.
        may_pass = reader.cluster.may_pass(error) and not isinstance(error, InvalidMessageError)
        if not lasting and (may_pass or type(error) in PASSING):
            log.info("partition %d: %s; trying again", owned.partition_id, error)
            return
        owned.trouble_since = now
        told = self._told is not None and self._told() is error
        # Who does not consume meanwhile need not be told each time.
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
        """Offsets are not kept (any more): go where `auto_offset_reset` says, these partitions alone.

        Whoever moves a partition meanwhile, as by `seek()`, has the last word.
        """
        reset = reader.options.auto_offset_reset
        if isinstance(reset, str):
            self._ask_the_user(reader, lost)
            return
        by_leader: dict[Any, list[_Case]] = defaultdict(list)  # one that does not answer holds up its own alone
        for case in lost:
            self._judge(reader, case.owned, case.error)
            log.warning("%s; going to auto_offset_reset", case.error)
            by_leader[case.owned.partition.leader].append(case)
        for cases in by_leader.values():
            try:
                offsets = reader.find_offsets({case.owned.key: reset for case in cases}, timeout_ms=RESET_TIMEOUT_MS)
            except KafkaException as problem:
                for case in cases:
                    self._judge(reader, case.owned, problem)
                    self._again(case)
                continue
            for case in cases:
                offset = offsets[case.owned.key]
                reader.buffers.move(case.owned, offset, offset - 1, case.moves)
                self._attach(case)

    def _ask_the_user(self, reader: Reader, cases: list[_Case]) -> None:
        """Say that nobody else can tell where to go on; until then look now and then whether the offset is there again."""
        known = {(one.topic, one.partition) for one in reader.errors if isinstance(one, OffsetResetNeededError)}
        errors = reset_needed(reader, [case.owned for case in cases if case.owned.key not in known])
        for case in cases:
            error = errors.get(case.owned.key)
            if error is not None:
                if isinstance(case.error, OffsetOutOfRangeError):
                    error.__cause__ = case.error.again()
                self._judge(reader, case.owned, error)
            if isinstance(case.error, OffsetOutOfRangeError):
                case.error = OffsetResetNeededError(topic=case.owned.key.topic, partition=case.owned.partition_id)
                self._again(case)


def reset_needed(reader: Reader, parts: Iterable[OwnedPartition]) -> dict[TopicPartition, OffsetResetNeededError]:
    """Return the error for each partition that only the user can say where to go on with."""
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
    """Return the offsets there are of each partition, as (first, behind the last); nothing where they cannot be had."""
    found: list[dict[TopicPartition, int]] = []
    for end in (OffsetType.EARLIEST, OffsetType.LATEST):
        try:
            found.append(reader.find_offsets(dict.fromkeys(keys, end), timeout_ms=RESET_TIMEOUT_MS))
        except KafkaException as error:
            log.info("the range of %s is not known: %s", ", ".join(map(str, keys)), error)
            return {}
    return {key: (found[0][key], found[1][key]) for key in keys}


def _is_nowhere(error: KafkaException) -> bool:
    return isinstance(error, OffsetResetNeededError)


def _is_stale(error: KafkaException) -> bool:
    """Return whether an error says that metadata is out of date."""
    if isinstance(error, (OffsetOutOfRangeError, OffsetResetNeededError)):
        return False
    return not isinstance(error, ProtocolClientError) or error.invalid_metadata


def _has_unread(owned: OwnedPartition) -> bool:
    return owned.messages > 0 or owned.loan > 0


class _WeakSubscriber:
    """Passes on what a fetcher says while its reader is there; the fetcher does not keep the consumer alive."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Reader) -> None:
        self._reader = weakref.ref(reader)

    def is_gone(self) -> bool:
        return self._reader() is None

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        reader = self._reader()
        if reader is not None:
            reader.fetch_failed(owned, error)

    def arrived(self) -> None:
        reader = self._reader()
        if reader is not None:
            reader.arrived()

    def tick(self) -> None:
        reader = self._reader()
        if reader is not None:
            reader.tick()
