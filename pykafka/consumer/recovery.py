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
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.simpleconsumer import SimpleConsumer

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
#: How long the worker waits at a time (s): one whose consumer is gone ends.
LOOK_S = 1.0


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

    :param consumer: held weakly, so that a forgotten consumer can go
    """

    def __init__(self, consumer: SimpleConsumer) -> None:
        self._consumer = weakref.ref(consumer)
        self._handler = consumer._handler
        self._pauses = Backoff(max(consumer._options.fetch_error_backoff_ms, 1), BACKOFF_MAX_MS, self._handler.random)
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
        """Wait for the worker to end; the consumer's `_running` was taken back before."""
        self._wake.set()
        worker = self._worker
        if worker is not None:
            worker.join(5.0)

    def attach(self, owned: OwnedPartition) -> None:
        """Attach a partition to its leader's fetcher, or take it into care where it has none."""
        consumer = self._consumer()
        if consumer is None or not consumer._running or owned.fetcher is not None:
            return
        if owned.position < 0:
            self.failed(owned, OffsetResetNeededError(topic=consumer.topic.name, partition=owned.partition_id))
            return
        leader = owned.partition.leader
        if leader is None:
            self.failed(
                owned,
                LeaderNotFoundError(
                    "no broker leads the partition at present", topic=consumer.topic.name, partition=owned.partition_id
                ),
            )
            return
        try:
            fetcher = Fetcher.of(leader, self._handler, consumer._options.fetch_settings(owned.partition_id))
            fetcher.attach(owned, _WeakSubscriber(consumer))
        except KafkaException as error:
            self.failed(owned, error)

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:
            consumer = self._consumer()
            if consumer is not None and consumer._running:
                told = f"the worker that has partitions fetched again ended by {type(error).__name__}: {error}"
                consumer._worker_failed(KafkaException(told, topic=consumer.topic.name))
            del consumer
            with self._lock:
                self._worker = None
            raise

    def _step(self) -> bool:
        """Serve what is due, or wait until something is; False where there is nothing left to do."""
        self._wake.clear()
        consumer = self._consumer()
        live = consumer is not None and consumer._running
        with self._lock:
            new = list(self._failed)
            self._failed.clear()
            if not live:
                self._cases = {}
            if not live or not (new or self._cases):
                self._worker = None
                return False
        assert consumer is not None
        self._admit(consumer, new)
        soon = self._handler.now() + TOGETHER * self._pauses.first_ms / 1000
        due = [case for case in self._cases.values() if case.due <= soon or case.moved]
        if due:
            self._serve(consumer, due)
            return True
        del consumer
        next_due = min(case.due for case in self._cases.values())
        self._wake.wait(min(max(next_due - self._handler.now(), 0.0), LOOK_S))
        return True

    def _admit(self, consumer: SimpleConsumer, new: Iterable[tuple[OwnedPartition, int, KafkaException]]) -> None:
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
                self._judge(consumer, owned, error)
        self._ask_the_user(consumer, [self._cases[owned] for owned, _, error in new if _is_nowhere(error)])

    def _due_after(self, failures: int) -> float:
        """Return when a partition is tried that has failed so often in a row; together with others, where it can be."""
        now, pause = self._handler.now(), self._pauses.plain_seconds(failures)
        if self._due.get(pause, 0.0) < now + JOIN * pause:
            self._due[pause] = now + self._pauses.seconds(failures)
        return self._due[pause]

    def _serve(self, consumer: SimpleConsumer, due: list[_Case]) -> None:
        """Have partitions fetched again, each as its error wants it."""
        if any(_is_stale(case.error) for case in due):
            self._refresh(consumer)
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
            self._reset(consumer, lost)

    def _attach(self, case: _Case) -> None:
        del self._cases[case.owned]
        self.attach(case.owned)

    def _refresh(self, consumer: SimpleConsumer) -> None:
        cluster, name = consumer._cluster, consumer.topic.name
        try:
            cluster.refresh(cluster.generation, [name])
        except KafkaException as error:
            # one a reason: where no broker can be reached, every consumer of the client says so
            cluster.limiter.warn(log, type(error).__name__, "no metadata for %s: %s", name, error)

    def _judge(self, consumer: SimpleConsumer, owned: OwnedPartition, error: KafkaException) -> None:
        """Decide whether whoever consumes must hear of an error: what does not pass by itself, or has not for long."""
        now = self._handler.now()
        if owned.trouble_since is None:
            owned.trouble_since = now
        lasting = now - owned.trouble_since > consumer._cluster.socket_timeout_ms / 1000
        # A checksum that does not match here is retriable to Kafka, but whoever consumes wants to know. And a new leader
        # of 0.9 answers UNKNOWN_SERVER_ERROR until it knows that what is fetched has been committed. A broker that has left
        # the cluster, or moved, is closed; that is no news.
        may_pass = consumer._cluster.may_pass(error) and not isinstance(error, InvalidMessageError)
        if not lasting and (may_pass or type(error) in PASSING):
            log.info("partition %d: %s; trying again", owned.partition_id, error)
            return
        owned.trouble_since = now
        told = self._told is not None and self._told() is error
        # Who does not consume meanwhile need not be told each time.
        known = any(
            type(one) is type(error) and one.partition == error.partition
            for one in consumer._worker_exceptions
            if isinstance(one, KafkaException)
        )
        if not told and not known:
            self._told = weakref.ref(error)
            consumer._worker_failed(error)

    def _again(self, case: _Case) -> None:
        """Try a partition again after another pause."""
        failures = self._failures[case.owned] = self._failures.get(case.owned, 0) + 1
        case.due = self._due_after(failures)

    def _reset(self, consumer: SimpleConsumer, lost: list[_Case]) -> None:
        """Offsets are not kept (any more): go where `auto_offset_reset` says, these partitions alone.

        Whoever moves a partition meanwhile, as by `seek()`, has the last word.
        """
        reset = consumer._options.auto_offset_reset
        if isinstance(reset, str):
            self._ask_the_user(consumer, lost)
            return
        by_leader: dict[Any, list[_Case]] = defaultdict(list)  # one that does not answer holds up its own alone
        for case in lost:
            self._judge(consumer, case.owned, case.error)
            log.warning("%s; going to auto_offset_reset", case.error)
            by_leader[case.owned.partition.leader].append(case)
        for cases in by_leader.values():
            try:
                offsets = consumer._find_offsets(
                    {case.owned.partition_id: reset for case in cases}, timeout_ms=RESET_TIMEOUT_MS
                )
            except KafkaException as problem:
                for case in cases:
                    self._judge(consumer, case.owned, problem)
                    self._again(case)
                continue
            for case in cases:
                offset = offsets[case.owned.partition_id]
                consumer._buffers.move(case.owned, offset, offset - 1, case.moves)
                self._attach(case)

    def _ask_the_user(self, consumer: SimpleConsumer, cases: list[_Case]) -> None:
        """Say that nobody else can tell where to go on; until then look now and then whether the offset is there again."""
        known = {one.partition for one in consumer._worker_exceptions if isinstance(one, OffsetResetNeededError)}
        untold = [case.owned for case in cases if case.owned.partition_id not in known]
        errors = {error.partition: error for error in reset_needed(consumer, untold)}
        for case in cases:
            error = errors.get(case.owned.partition_id)
            if error is not None:
                if isinstance(case.error, OffsetOutOfRangeError):
                    error.__cause__ = case.error.again()
                self._judge(consumer, case.owned, error)
            if isinstance(case.error, OffsetOutOfRangeError):
                case.error = OffsetResetNeededError(topic=consumer.topic.name, partition=case.owned.partition_id)
                self._again(case)


def reset_needed(consumer: SimpleConsumer, parts: Iterable[OwnedPartition]) -> list[OffsetResetNeededError]:
    """Return for partitions that only the user can say where to go on with what to tell him."""
    stuck = {owned.partition_id: owned for owned in parts}
    ranges = _ranges(consumer, stuck)
    return [
        OffsetResetNeededError(
            owned.position if owned.position >= 0 else None,
            *ranges.get(id_, (None, None)),
            topic=consumer.topic.name,
            partition=id_,
        )
        for id_, owned in stuck.items()
    ]


def _ranges(consumer: SimpleConsumer, ids: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return the offsets there are of each partition, as (first, behind the last); nothing where they cannot be had."""
    found: list[dict[int, int]] = []
    for end in (OffsetType.EARLIEST, OffsetType.LATEST):
        try:
            found.append(consumer._find_offsets(dict.fromkeys(ids, end), timeout_ms=RESET_TIMEOUT_MS))
        except KafkaException as error:
            log.info("the range of %s is not known: %s", consumer.topic.name, error)
            return {}
    return {id_: (found[0][id_], found[1][id_]) for id_ in found[0]}


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
    """Passes on what a fetcher says while its consumer is there; the fetcher does not keep the consumer alive."""

    __slots__ = ("_consumer",)

    def __init__(self, consumer: SimpleConsumer) -> None:
        self._consumer = weakref.ref(consumer)

    def is_gone(self) -> bool:
        return self._consumer() is None

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        consumer = self._consumer()
        if consumer is not None:
            consumer.fetch_failed(owned, error)

    def arrived(self) -> None:
        consumer = self._consumer()
        if consumer is not None:
            consumer.arrived()

    def tick(self) -> None:
        consumer = self._consumer()
        if consumer is not None:
            consumer.tick()
