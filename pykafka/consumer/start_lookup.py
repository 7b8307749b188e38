"""`StartLookup`: the search for the offsets at which partitions begin, by a worker, so that no call waits for brokers."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pykafka.consumer.background_worker import BackgroundWorker
from pykafka.consumer.failed_partitions import ErrorsToRaise, may_lead_no_more
from pykafka.exceptions import KafkaException
from pykafka.metrics.listener import FAILED
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.fetching_consumer import FetchingConsumer, Wanted
    from pykafka.consumer.leader_epochs import LeaderEpochs


log = logging.getLogger(__name__)

#: Pauses before partitions whose start could not be found are tried again: the first and the longest (ms).
FIRST_MS = 100
LONGEST_MS = 1000
#: How long the first search for a start may take, in which partitions of all brokers are (ms): a silent one delays the others.
SEARCH_MS = 1000
#: How many brokers are asked again at a time, each by a worker.
MOST_WORKERS = 16


class _Wanted(NamedTuple):
    """A partition that waits for its start: one of these for each time that it begins to wait.

    :param position: how its start is named
    :param moves: how often it had been moved then
    """

    owned: OwnedPartition
    position: Wanted
    moves: int


@dataclass
class _Leader:
    """A leader that was asked in vain.

    :param limit_ms: how long the next search may take: longer after each that was cut off, as the broker may be slow
    :param due: when it may begin (s)
    """

    limit_ms: int = 2 * SEARCH_MS
    due: float = 0.0
    failures: int = 0
    is_asked: bool = False


class StartLookup(BackgroundWorker):
    """The partitions of one consumer that wait for their start.

    All partitions that come are looked for together, in a short time. Those without an answer are looked for again by a worker
    for each leader, so that a silent leader holds up no other, and a slow one has the time that it needs. `join` does not wait
    for these workers: they end with their answer, or with the connection, and do nothing for a consumer that has stopped.

    State: `_wanted`, `_tried`, `_leaders` and `_astray` change under `_lock`, `ErrorsToRaise` under `_judging`.

    :param consumer: held weakly, so that a dropped one can be freed
    """

    worker_name = "pykafka.StartLookup"
    purpose = "looks where partitions begin"

    def __init__(self, consumer: FetchingConsumer) -> None:
        super().__init__(consumer)
        self._errors_to_raise = ErrorsToRaise(self._handler.now)
        self._judging = self._handler.Lock()
        self._pauses = Backoff(FIRST_MS, LONGEST_MS, self._handler.random)
        self._wanted: dict[TopicPartition, _Wanted] = {}
        #: Those of them that were looked for in vain, and why.
        self._tried: dict[TopicPartition, KafkaException] = {}
        # By the number of the broker; None: partitions without a leader.
        self._leaders: dict[int | None, _Leader] = {}
        # The topics whose leaders gave no offset, and the generation of metadata by then.
        self._astray: tuple[int, set[str]] = (0, set())

    def begin(self, wanted: Iterable[tuple[OwnedPartition, Wanted]]) -> None:
        """Find where partitions begin, and fetch them from there; return at once. Until then they have no position.

        :param wanted: partitions that no fetcher has, each with the name of its start; read while no start is stored
        """
        begun: set[TopicPartition] = set()
        with self._lock:
            self.is_stranded = True
            for owned, position in wanted:
                begun.add(owned.key)
                # Here, so that recovery never sees one without a position that does not wait.
                if owned.position >= 0 or position is not None:
                    owned.buffers.move(owned, -1, -1)
                self._wanted[owned.key] = _Wanted(owned, position, owned.moves)
                self._tried.pop(owned.key, None)
            self._start()
        self._drop_answered(begun)
        self._wake.set()

    def forget(self, keys: Collection[TopicPartition]) -> list[TopicPartition]:
        """Do not look for these partitions any more; return those that were waiting."""
        self._drop_answered(keys)
        with self._lock:
            return [key for key in keys if self._wanted.pop(key, None) is not None]

    def _drop_answered(self, keys: Collection[TopicPartition]) -> None:
        consumer = self._consumer()
        if consumer is not None:
            consumer.errors.drop_answered(keys)

    def waiting(self, keys: Collection[TopicPartition] | None = None) -> list[TopicPartition]:
        """Return the partitions, of these or of all, whose start is not known yet."""
        with self._lock:
            return [key for key in (self._wanted if keys is None else keys) if key in self._wanted]

    def untried(self, keys: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions, of these, whose start is not known, and was not looked for in vain either."""
        with self._lock:
            return [key for key in self._wanted if key in keys and key not in self._tried]

    def in_vain(self) -> list[TopicPartition]:
        """Return the partitions whose start was looked for, and is not known yet."""
        with self._lock:
            return [key for key in self._wanted if key in self._tried]

    def error_of(self, key: TopicPartition) -> KafkaException | None:
        """Return why the start of a partition is not known yet; None if it is, or was not looked for. This needs no lock."""
        return self._tried.get(key) if key in self._wanted else None

    def wanted(self) -> dict[TopicPartition, Wanted]:
        """Return what is waited for, so that a forked child continues it; this needs no lock."""
        return {key: one.position for key, one in list(self._wanted.items())}

    # -- the worker ------------------------------------------------------------------------------------------------

    def _is_left(self) -> bool:
        """Return whether a partition waits for its start."""
        return bool(self._wanted)

    def _step(self) -> bool:
        """Look for all that is wanted; return False if nothing is left to do."""
        self._wake.clear()
        consumer = self._consumer()
        with self._lock:
            if consumer is None or not consumer.running:
                self._wanted.clear()
            fresh = dict(self._wanted)
            if not fresh:
                self._worker = None
                return False
            late = {}
            for key in self._tried:
                if key in fresh:
                    late[key] = fresh.pop(key)
        assert consumer is not None
        if fresh and self._search(consumer, fresh, SEARCH_MS):
            return True  # those without an answer are late now
        pause_s = self._ask_again(consumer, late)
        del consumer
        if not fresh:
            self._wake.wait(pause_s)
        return True

    def _search(self, consumer: FetchingConsumer, wanted: Mapping[TopicPartition, _Wanted], limit_ms: int) -> bool:
        """Look for starts, and begin where they are; return whether some have none."""
        positions = {}
        for key, one in wanted.items():
            positions[key] = one.position
        starts, errors = consumer.find_starts(positions, limit_ms)
        if errors:
            astray = {key.topic for key, error in errors.items() if may_lead_no_more(error)}
            with self._lock:
                self._astray = consumer.cluster.generation, self._astray[1] | astray
            consumer.give_up_gone([wanted[key].owned for key in errors if key in wanted])
        for key, one in wanted.items():
            if consumer.partitions.get(key) is not one.owned:
                self._drop(one)
            elif key in errors:
                if self._wanted.get(key) is not one:  # the application has named another start since
                    continue
                with self._judging:
                    self._errors_to_raise.judge(consumer, one.owned, errors[key])
                self._try_again(one, errors[key])
                if consumer.listener is not None:
                    consumer.listener.on_event(FAILED, f"start of {key.topic}/{key.partition}", 0.0, errors[key])
            else:
                self._apply(consumer, one, starts.get(key))
        consumer.arrived()
        return bool(errors)

    def _ask_again(self, consumer: FetchingConsumer, late: Mapping[TopicPartition, _Wanted]) -> float:
        """Ask each leader again that is due; return how long to wait until the next one is (s)."""
        by_leader: dict[int | None, dict[TopicPartition, _Wanted]] = {}
        for key, one in late.items():
            by_leader.setdefault(_leader_of(consumer, key), {})[key] = one
        pause_s, now = LONGEST_MS / 1000, self._handler.now()
        with self._lock:
            for id_, leader in list(self._leaders.items()):
                if id_ not in by_leader and not leader.is_asked:
                    del self._leaders[id_]
        for id_, keys in by_leader.items():
            first = _Leader(due=now + self._pauses.seconds(1))
            leader = self._leaders.setdefault(id_, first)
            asked = sum(one.is_asked for one in self._leaders.values())
            if leader.is_asked or asked >= MOST_WORKERS:
                continue
            if leader.due > now:
                pause_s = min(pause_s, leader.due - now)
                continue
            leader.is_asked = True
            try:
                self._handler.spawn(self._ask_leader, leader, keys, name=self.worker_name)
            except RuntimeError:  # the system cannot start a thread at present
                self._ask_leader(leader, keys)
        return pause_s

    def _ask_leader(self, leader: _Leader, keys: Mapping[TopicPartition, _Wanted]) -> None:
        """Look once more for partitions of one leader."""
        consumer = self._consumer()
        try:
            if consumer is None or not consumer.running:
                return
            began = self._handler.now()
            self._refresh(consumer)
            failed = self._search(consumer, keys, leader.limit_ms)
            if failed and self._handler.now() - began >= leader.limit_ms / 1000:
                leader.limit_ms = min(2 * leader.limit_ms, consumer.cluster.socket_timeout_ms)
            leader.failures = leader.failures + 1 if failed else 0
            leader.due = self._handler.now() + (self._pauses.seconds(leader.failures + 1) if failed else 0.0)
        except Exception as error:
            if consumer is not None and consumer.running:
                text = f"the worker that {self.purpose} has ended by {type(error).__name__}: {error}"
                failure = KafkaException(text, topic=consumer.name)
                if consumer.cluster.listener is not None:
                    consumer.cluster.listener.on_fatal(failure)
                consumer.worker_failed(failure)
            leader.due = self._handler.now() + LONGEST_MS / 1000
            raise
        finally:
            leader.is_asked = False
            del consumer
            self._wake.set()

    def _refresh(self, consumer: FetchingConsumer) -> None:
        """Ask for metadata of the topics whose leaders gave no offset before."""
        with self._lock:
            (seen, topics), self._astray = self._astray, (0, set())
        if topics:
            try:
                consumer.cluster.refresh(seen, sorted(topics), LONGEST_MS)
            except KafkaException as error:
                names = ", ".join(sorted(topics))
                consumer.cluster.limiter.warn(log, type(error).__name__, "no metadata for %s: %s", names, error)

    def _try_again(self, one: _Wanted, error: KafkaException) -> None:
        with self._lock:
            if self._wanted.get(one.owned.key) is one:
                self._tried[one.owned.key] = error.again()

    def _drop(self, one: _Wanted) -> None:
        """Look no more for a partition that is read no more; it may have come back meanwhile, and wait for another start."""
        with self._lock:
            if self._wanted.get(one.owned.key) is one:
                del self._wanted[one.owned.key]

    def _apply(self, consumer: FetchingConsumer, one: _Wanted, start: tuple[int, LeaderEpochs] | None) -> None:
        """Fetch a partition from its start on; one that was moved meanwhile stays where it is."""
        owned = one.owned
        with self._lock:
            if self._wanted.get(owned.key) is not one:  # it has gone and come back, or is to go elsewhere
                return
            if owned.moves != one.moves and owned.position < 0:
                self._wanted[owned.key] = one._replace(moves=owned.moves)
                return
            del self._wanted[owned.key]
            if start is not None and consumer.buffers.move(owned, start[0], start[0] - 1, one.moves, start[1]):
                owned.topic_id = None  # it is an offset of the topic that there is now
                consumer.start_found(owned, start[0])
        owned.trouble_since = None
        consumer.begin(owned)


def _leader_of(consumer: FetchingConsumer, key: TopicPartition) -> int | None:
    try:
        return consumer.cluster.known_leader(*key).id
    except KafkaException:
        return None
