"""`ShareEngine`: the member, the share sessions and the acquired records of one share consumer."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.exceptions import InvalidRecordState, KafkaException, UnsupportedVersion
from pykafka.metadata.internal_topics import SHARES, is_unavailable
from pykafka.sharegroups.acquired_records import OPEN, Acknowledged, AcquiredRecords, Kind, State, outcomes
from pykafka.sharegroups.acquired_records import Event as Change
from pykafka.sharegroups.member import ShareMember
from pykafka.sharegroups.session_worker import ENDING_S, SessionWorker
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.metadata.cluster import BaseCluster
    from pykafka.record import Record
    from pykafka.sharegroups.member import Assignment
    from pykafka.sharegroups.options import ShareConsumerOptions

log = logging.getLogger(__name__)

#: The pauses before leaders are looked for again (ms).
LOOK_AGAIN_MS, LOOK_AGAIN_MAX_MS = 50, 1000
#: How long a wait lasts at most before it looks at leaders again (s).
LOOK_S = 0.5


class ShareEngine:
    """The parts of a share consumer beside its calls.

    State under `lock`: the buffer, the assignment, the sessions' partitions and ledgers, and the outcomes not told yet.

    :param cluster: that has the topics
    :param options: of the consumer
    """

    def __init__(self, cluster: BaseCluster, options: ShareConsumerOptions, rack: str | None) -> None:
        self.cluster = cluster
        self.handler = cluster.handler
        self.options = options
        self.lock = self.handler.Lock()
        #: Set when something has come that a waiting call looks for.
        self.arrived = self.handler.Event()
        self.member = ShareMember(cluster, options.group, rack, self._assign, self.arrived.set)
        self.topics: list[str] = []
        #: How long the broker keeps acquired records for this member (ms); None before the first ones.
        self.lock_timeout_ms: int | None = None
        self._buffer: deque[Record[Any, Any]] = deque()
        self._wanting = False
        self._assignment: Assignment = {}
        self._led: dict[tuple[TopicPartition, UUID], SessionWorker] = {}
        self._sessions: dict[int, SessionWorker] = {}
        self._errors: deque[KafkaException] = deque()
        self._outcomes: deque[Acknowledged] = deque()
        self._changed = False
        self._seen: int | None = None
        self._backoff = Backoff(LOOK_AGAIN_MS, LOOK_AGAIN_MAX_MS, self.handler.random)
        self._look_at, self._looks = 0.0, 0
        self._stopping = False

    # -- what session workers call ---------------------------------------------------------------------------------

    @property
    def member_id(self) -> str:
        """The member's id."""
        return self.member.member_id

    @property
    def hungry(self) -> bool:
        """Whether the application waits for records."""
        return self._wanting and not self._buffer

    def took(self, records: list[Record[Any, Any]], lock_timeout_ms: int) -> None:
        """Take records for the application."""
        with self.lock:
            self._buffer.extend(records)
            self.lock_timeout_ms = lock_timeout_ms
        self.arrived.set()

    def told(self, held: Collection[AcquiredRecords], error: KafkaException | None) -> None:
        """Take the outcome of acknowledgements."""
        if held:
            with self.lock:
                self._outcomes.extend(outcomes(held, error))
        self.arrived.set()

    def unled(self, worker: SessionWorker, keys: Iterable[TopicPartition], error: KafkaException) -> None:
        """Look for the leaders of partitions again."""
        log.info("share group %s: broker %d: %s", self.options.group, worker.broker.id, error)
        if is_unavailable(error):
            self.cluster.internal_topics.waits(SHARES, f"share group {self.options.group}")
        with self.lock:
            for key in keys:
                id_ = worker.wanted.pop(key, None)
                if id_ is not None:
                    self._led.pop((key, id_), None)
            self._seen = self.cluster.generation
            self._changed = True
        self.arrived.set()

    def failed(self, error: KafkaException) -> None:
        """Take an error for the application."""
        with self.lock:
            self._errors.append(error.again())
        self.arrived.set()

    def _assign(self, assignment: Assignment) -> None:
        with self.lock:
            self._assignment = assignment
            self._changed = True
            self._looks, self._look_at = 0, 0.0
        self.arrived.set()

    # -- partitions and their leaders: the application's worker --------------------------------------------------------

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that this member fetches from."""
        with self.lock:
            return sorted(key for key, _ in self._led)

    def direct(self, deadline: float | None) -> None:
        """Give each assigned partition to the session of its leader, as far as leaders are known.

        :param deadline: of the call (s); None for none
        """
        if not self._changed or self.handler.now() < self._look_at:
            return
        self._changed = False
        left_ms = None if deadline is None else max(1, round((deadline - self.handler.now()) * 1000))
        try:
            complete = self._direct(left_ms)
        except KafkaException as error:
            if not self.cluster.may_pass(error):
                raise
            self.cluster.limiter.warn(log, self.options.group, "share group %s: %s", self.options.group, error)
            complete = False
        except BaseException:
            self._changed = True
            raise
        if complete:
            self._looks = 0
        else:
            self._looks += 1
            self._changed = True
            self._look_at = self.handler.now() + self._backoff.seconds(self._looks)

    def _direct(self, left_ms: int | None) -> bool:
        seen, self._seen = self._seen, None
        if seen is not None:
            self.cluster.refresh(seen, self.topics, left_ms)
        names = {self.cluster.topic_id(name): name for name in self.topics}
        with self.lock:
            assignment = dict(self._assignment)
        if any(id_ not in names for id_ in assignment):
            self.cluster.refresh_older(LOOK_S, self.topics, left_ms)
            names = {self.cluster.topic_id(name): name for name in self.topics}
        wanted = {
            (TopicPartition(names[id_], number), id_)
            for id_, numbers in assignment.items()
            if id_ in names
            for number in numbers
        }
        with self.lock:
            for gone in self._led.keys() - wanted:
                self._led.pop(gone).wanted.pop(gone[0], None)
            lacking = [one for one in wanted if one not in self._led]
        complete = all(id_ in names for id_ in assignment)
        if lacking:
            self.cluster.find_leaders([(key.topic, key.partition) for key, _ in lacking], left_ms)
        for key, id_ in lacking:
            try:
                broker = self.cluster.leader(key.topic, key.partition, left_ms)
            except KafkaException as error:
                log.info("share group %s: %s", self.options.group, error)
                self._seen, complete = self.cluster.generation, False
                continue
            self._give(broker, key, id_)
        return complete

    def _give(self, broker: Any, key: TopicPartition, id_: UUID) -> None:
        worker = self._sessions.get(broker.id)
        if worker is None or worker.broker is not broker:
            if worker is not None:
                worker.stop()
            worker = self._sessions[broker.id] = SessionWorker(self, broker)
        with self.lock:
            worker.wanted[key] = id_
            self._led[key, id_] = worker
        worker.wake.set()

    # -- records: the application's worker -------------------------------------------------------------------------

    def want(self, wanting: bool) -> None:
        """Note whether the application waits for records."""
        if wanting and not self._wanting:
            self._wanting = True
            for worker in list(self._sessions.values()):
                worker.wake.set()
        self._wanting = wanting

    def take(self, limit: int) -> list[Record[Any, Any]]:
        """Return buffered records, delivered now; those whose lock has timed out are dropped, as others may have them."""
        found: list[Record[Any, Any]] = []
        with self.lock:
            now = self.handler.now()
            while self._buffer and len(found) < limit:
                record = self._buffer.popleft()
                held = _held(record)
                if held.state is not State.BUFFERED:
                    continue
                if held.expires_at <= now:
                    held.ledger.lose(held)
                    continue
                held.apply(Change.DELIVER)
                found.append(record)
        return found

    def give_back(self, records: Collection[Record[Any, Any]]) -> None:
        """Put records back that the application did not get."""
        with self.lock:
            for record in reversed(list(records)):
                held = _held(record)
                if held.state is State.DELIVERED:
                    held.apply(Change.GIVE_BACK)
                    self._buffer.appendleft(record)

    def decide(self, held: AcquiredRecords, kind: Kind) -> bool:
        """Note what became of a record; any worker may call this.

        :returns: whether it counts; False if the record was lost, which is an outcome, too
        :raises InvalidRecordState: something else became of it already
        """
        with self.lock:
            if held.state is State.LOST:
                error = held.error or InvalidRecordState(
                    f"the acquisition lock of offset {held.offset} has timed out",
                    topic=held.partition.topic,
                    partition=held.partition.partition,
                )
                self._outcomes.extend(outcomes([held], error))
                return False
            held.ledger.decide(held, kind)
        return True

    def renew(self, held: AcquiredRecords) -> bool:
        """Renew a record's lock; errors and result as of `decide`."""
        if not all(worker.may_renew for worker in list(self._sessions.values())):
            raise UnsupportedVersion("brokers renew locks from Kafka 4.2 on (KIP-1222)", api="ShareAcknowledge")
        counts = self.decide(held, Kind.RENEW)
        self.flush()
        return counts

    # -- outcomes --------------------------------------------------------------------------------------------------

    def flush(self) -> list[AcquiredRecords]:
        """Make the sessions send what is due; return the records that brokers have still to answer for."""
        with self.lock:
            waiting = [held for worker in self._sessions.values() for held in worker.ledger if held.state in OPEN]
            for worker in self._sessions.values():
                worker.flushing = True
        for worker in list(self._sessions.values()):
            worker.wake.set()
        return waiting

    def take_outcomes(self) -> list[Acknowledged]:
        """Return the outcomes that nobody was told of."""
        with self.lock:
            found = list(self._outcomes)
            self._outcomes.clear()
        return found

    def look(self) -> None:
        """Raise an error that the application has to know.

        :raises KafkaException: the group or a broker refuses this consumer
        """
        error = self.member.take_error()
        if error is None and self._errors:
            error = self._errors.popleft()
        if error is not None:
            raise error

    # -- the end ---------------------------------------------------------------------------------------------------

    def stop(self, deadline: float) -> None:
        """Send what is due, end the sessions, which releases all other records, and leave the group.

        :param deadline: until when (s)
        """
        self._stopping = True
        self._wanting = False
        workers = list(self._sessions.values())
        for worker in workers:
            worker.stop()
        now = self.handler.now()
        for worker in workers:
            worker.join(now + max(0.0, deadline - now - min(ENDING_S, (deadline - now) / 3)))
        self.member.leave(deadline)
        with self.lock:
            self._buffer.clear()

    def abandon(self) -> None:
        """End soon, without waiting: the consumer was dropped."""
        self._wanting = False
        for worker in list(self._sessions.values()):
            worker.stop()
        self.member.abandon()


def _held(record: Record[Any, Any]) -> AcquiredRecords:
    held: AcquiredRecords = record._held()
    return held
