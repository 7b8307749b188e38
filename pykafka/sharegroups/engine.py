"""`ShareEngine`: the member, the share sessions and the acquired records of one share consumer."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.exceptions import InvalidRecordState, KafkaException, UnsupportedVersion
from pykafka.metadata.internal_topics import SHARES, is_unavailable
from pykafka.metrics.listener import ACKNOWLEDGED, FAILED, SHARE
from pykafka.metrics.sensors import Sensor
from pykafka.sharegroups.acquired_records import OPEN, Acknowledged, AcknowledgeType, AcquiredRecord, State, outcomes
from pykafka.sharegroups.acquired_records import Event as Change
from pykafka.sharegroups.member import ShareMember
from pykafka.sharegroups.session_worker import CLOSE_TIMEOUT_S, SessionWorker
from pykafka.utils.backoff import Backoff
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.metrics.metric import Metric
    from pykafka.record import Record
    from pykafka.sharegroups.member import Assignment
    from pykafka.sharegroups.options import ShareConsumerOptions

log = logging.getLogger(__name__)

#: The pauses between look-ups of leaders (ms).
LEADER_BACKOFF_MS, LEADER_BACKOFF_MAX_MS = 50, 1000
#: Maximum wait before leaders are checked again (s).
LEADER_POLL_INTERVAL_S = 0.5


class ShareEngine:
    """The parts of a share consumer beside its calls.

    State under `lock`: the buffer, the assignment, the sessions' partitions and records, and the outcomes not reported yet.

    :param cluster: that has the topics
    :param options: of the consumer
    """

    def __init__(self, cluster: BaseCluster, options: ShareConsumerOptions, rack: str | None) -> None:
        self.cluster = cluster
        self.handler = cluster.handler
        self.options = options
        self.lock = self.handler.Lock()
        #: Set when a record, an outcome or an error has come.
        self.arrived = self.handler.Event()
        #: Hears of records, polls and acknowledgements; None: nobody listens.
        self.listener: ClientListener | None = None
        if cluster.listener is not None:
            self.listener = cluster.listener.part(SHARE, (cluster.client_id, options.group), self)
        #: Records whose acknowledgement was sent, and those of them for which it has failed, by request.
        self.acknowledgements, self.failures = Sensor(), Sensor()
        self.made_at_ms = cluster.handler.time_ms()
        self.member = ShareMember(cluster, options.group, rack, self._assign, self.arrived.set, self.listener)
        self.topics: list[str] = []
        self._rack = rack or ""
        #: How long the broker keeps acquired records for this member (ms); None before the first ones.
        self.lock_timeout_ms: int | None = None
        self._buffer: deque[Record[Any, Any]] = deque()
        self._is_wanting = False
        self._assignment: Assignment = {}
        self._assigned_to: dict[tuple[TopicPartition, UUID], SessionWorker] = {}
        self._sessions: dict[int, SessionWorker] = {}
        self._errors: deque[KafkaException] = deque()
        self._outcomes: deque[Acknowledged] = deque()
        # Why partitions of the assignment are not read at present, and since when (s of the handler's clock): by single steps.
        self._trouble: dict[TopicPartition, tuple[KafkaException, float]] = {}
        #: When the application has called last for records (s, of the handler's clock); None: it has not yet.
        self.called_at: float | None = None
        #: What stands for the worker that has called last, as of `Handler.here`.
        self.caller: object = None
        self._changed = False
        self._seen: int | None = None
        self._backoff = Backoff(LEADER_BACKOFF_MS, LEADER_BACKOFF_MAX_MS, self.handler.random)
        self._next_attempt, self._attempts = 0.0, 0

    def read_metrics(self) -> list[Metric]:
        """Return the metrics of now."""
        from pykafka.sharegroups.share_metrics import read_share

        return read_share(self).metrics

    # -- what session workers call ---------------------------------------------------------------------------------

    @property
    def member_id(self) -> str:
        """The member's id."""
        return self.member.member_id

    @property
    def wants_records(self) -> bool:
        """Whether the application waits for records."""
        return self._is_wanting and not self._buffer

    def on_acquired(self, records: list[Record[Any, Any]], lock_timeout_ms: int) -> None:
        """Buffer records for the application."""
        with self.lock:
            self._buffer.extend(records)
            self.lock_timeout_ms = lock_timeout_ms
        self.arrived.set()

    def on_acknowledged(self, acquired: Collection[AcquiredRecord], error: KafkaException | None) -> None:
        """Keep the outcome of acknowledgements for the application."""
        if acquired:
            with self.lock:
                self._outcomes.extend(outcomes(acquired, error))
            if self.listener is not None:
                now = self.handler.now()
                self.acknowledgements.record(len(acquired), now)
                if error is not None:
                    self.failures.record(len(acquired), now)
                text = f"{len(acquired)} records" + ("" if error is None else f": {type(error).__name__}")
                self.listener.on_event(ACKNOWLEDGED, f"share group {self.options.group}", 0.0, text)
            if self.cluster.tracer is not None:
                self.cluster.tracer.acknowledged(acquired, error)
        self.arrived.set()

    def on_fetched(self, keys: Iterable[TopicPartition]) -> None:
        """Note that brokers have answered fetches of partitions."""
        for key in keys if self._trouble else ():
            self._trouble.pop(key, None)

    def _note_trouble(self, key: TopicPartition, error: KafkaException) -> None:
        before = self._trouble.get(key)
        self._trouble[key] = error.again(), self.handler.now() if before is None else before[1]

    def on_leader_lost(self, worker: SessionWorker, keys: Iterable[TopicPartition], error: KafkaException) -> None:
        """Look up the leaders of partitions again."""
        log.info("share group %s: broker %d: %s", self.options.group, worker.broker.id, error)
        if self.listener is not None:
            self.listener.on_event(FAILED, f"share group {self.options.group}", 0.0, error)
        if is_unavailable(error):
            self.cluster.internal_topics.waits(SHARES, f"share group {self.options.group}")
        with self.lock:
            for key in keys:
                self._note_trouble(key, error)
                id_ = worker.wanted.pop(key, None)
                if id_ is not None:
                    self._assigned_to.pop((key, id_), None)
            self._seen = self.cluster.generation
            self._changed = True
        self.arrived.set()

    def metric_labels(self) -> dict[str, str]:
        """Return the labels of the consumer's metrics at brokers (KIP-714)."""
        return {"client_rack": self._rack, "group_id": self.options.group or "", "group_member_id": self.member_id}

    def failed(self, error: KafkaException) -> None:
        """Keep an error for the application."""
        with self.lock:
            self._errors.append(error.again())
        self.arrived.set()

    def _assign(self, assignment: Assignment) -> None:
        with self.lock:
            self._assignment = assignment
            self._changed = True
            self._attempts, self._next_attempt = 0, 0.0
        self.arrived.set()

    # -- partitions and their leaders: the application's worker --------------------------------------------------------

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that this member fetches from."""
        with self.lock:
            return sorted(key for key, _ in self._assigned_to)

    def assign_sessions(self, deadline: float | None) -> None:
        """Assign each partition to the session of its leader, as far as leaders are known.

        :param deadline: of the call (s); None for none
        """
        if not self._changed or self.handler.now() < self._next_attempt:
            return
        try:
            self._changed = False
            complete = self._assign_sessions(None if deadline is None else left_ms(deadline, self.handler.now(), 1))
        except BaseException as error:
            self._changed = True  # also after an error that the call raises, or an interrupt: the next call tries again
            if not isinstance(error, KafkaException) or not self.cluster.may_pass(error):
                raise
            self.cluster.limiter.warn(log, self.options.group, "share group %s: %s", self.options.group, error)
            complete = False
        if complete:
            self._attempts = 0
        else:
            self._attempts += 1
            self._changed = True
            self._next_attempt = self.handler.now() + self._backoff.seconds(self._attempts)

    def wait(self, left: float | None) -> None:
        """Wait until something arrives, or leaders have to be looked up again.

        That is not at the end of a short call: its lookup would have no time, again and again.

        :param left: the time that the call has left (s); None: it has no end
        """
        most = LEADER_POLL_INTERVAL_S if left is None else min(left, LEADER_POLL_INTERVAL_S)
        if self._changed:
            most = min(most, max(self._next_attempt - self.handler.now(), 0.0))
        self.arrived.wait(most)

    def _assign_sessions(self, left_ms: int | None) -> bool:
        seen = self._seen
        if seen is not None:
            self.cluster.refresh(seen, self.topics, left_ms)
            # Not before: an interrupt or an error would leave the partitions to their former leaders.
            if self._seen == seen:
                self._seen = None
        names = {self.cluster.topic_id(name): name for name in self.topics}
        with self.lock:
            assignment = dict(self._assignment)
        if any(id_ not in names for id_ in assignment):
            self.cluster.refresh_older(LEADER_POLL_INTERVAL_S, self.topics, left_ms)
            names = {self.cluster.topic_id(name): name for name in self.topics}
        # No set: in virtual time the order of what follows is that of the assignment.
        wanted = {
            (TopicPartition(names[id_], number), id_): None
            for id_, numbers in assignment.items()
            if id_ in names
            for number in numbers
        }
        with self.lock:
            for gone in [one for one in self._assigned_to if one not in wanted]:
                self._assigned_to.pop(gone).wanted.pop(gone[0], None)
            for key in self._trouble.keys() - {key for key, _ in wanted}:
                self._trouble.pop(key, None)
            lacking = [one for one in wanted if one not in self._assigned_to]
        complete = all(id_ in names for id_ in assignment)
        if lacking:
            self.cluster.find_leaders([(key.topic, key.partition) for key, _ in lacking], left_ms)
        for key, id_ in lacking:
            try:
                broker = self.cluster.leader(key.topic, key.partition, left_ms)
            except KafkaException as error:
                log.info("share group %s: %s", self.options.group, error)
                self._note_trouble(key, error)
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
        worker.start()  # also one whose start an interrupt has prevented
        with self.lock:
            worker.wanted[key] = id_
            self._assigned_to[key, id_] = worker
        worker.wake.set()

    # -- for reports: these take no lock --------------------------------------------------------------------------------

    @property
    def sessions(self) -> list[SessionWorker]:
        """The sessions with leaders."""
        return list(self._sessions.copy().values())

    @property
    def trouble(self) -> dict[TopicPartition, tuple[KafkaException, float]]:
        """Why partitions of the assignment are not read at present, and since when (s of the handler's clock)."""
        return self._trouble.copy()

    @property
    def pending_errors(self) -> list[KafkaException]:
        """The errors that the next calls raise, in order."""
        first = self.member.error
        return [*([] if first is None else [first]), *self._errors.copy()]

    @property
    def waiting_s(self) -> float:
        """For how long the call that is under way has lasted, or since when the last one has begun (s)."""
        return 0.0 if self.called_at is None else self.handler.now() - self.called_at

    @property
    def buffered(self) -> int:
        """How many records are acquired, and not handed out."""
        return len(self._buffer)

    # -- records: the application's worker -------------------------------------------------------------------------

    def set_wanting(self, wanting: bool) -> None:
        """Set whether the application waits for records."""
        if wanting and not self._is_wanting:
            self._is_wanting = True
            for worker in list(self._sessions.values()):
                worker.wake.set()
        self._is_wanting = wanting

    def take(self, limit: int, found: list[Record[Any, Any]]) -> None:
        """Take buffered records, delivered now; those whose lock has timed out are dropped, as others may have them.

        :param limit: the most to take
        :param found: gets them; after an interrupt, `put_back` needs those that it has
        """
        with self.lock:
            now = self.handler.now()
            while self._buffer and len(found) < limit:
                record = self._buffer[0]
                acquired = _acquired(record)
                if acquired.state is State.BUFFERED:
                    if acquired.expires_at > now:
                        found.append(record)
                        acquired.apply(Change.DELIVER)
                    else:
                        acquired.session_records.lose(acquired)
                self._buffer.popleft()  # last, so that an interrupt loses none

    def put_back(self, records: Collection[Record[Any, Any]]) -> None:
        """Put records back into the buffer."""
        with self.lock:
            for record in reversed(list(records)):
                acquired = _acquired(record)
                if acquired.state is State.DELIVERED:
                    acquired.apply(Change.PUT_BACK)
                    self._buffer.appendleft(record)

    def acknowledge(self, acquired: AcquiredRecord, kind: AcknowledgeType) -> bool:
        """Acknowledge a record; any worker may call this.

        :returns: whether it counts; False if the record was lost, which is reported as an outcome, too
        :raises InvalidRecordState: it has another acknowledgement already
        """
        with self.lock:
            if acquired.state is State.LOST:
                error = acquired.error or InvalidRecordState(
                    f"the acquisition lock of offset {acquired.offset} has timed out",
                    topic=acquired.partition.topic,
                    partition=acquired.partition.partition,
                )
                self._outcomes.extend(outcomes([acquired], error))
                return False
            is_new = acquired.session_records.acknowledge(acquired, kind)
            if is_new and self.cluster.tracer is not None:  # in the lock: the outcome comes after that
                self.cluster.tracer.acknowledging(acquired, kind.name.lower(), self.options.group)
        return True

    def renew(self, acquired: AcquiredRecord) -> bool:
        """Renew a record's lock; see `acknowledge` for errors and result."""
        # Other brokers need not know, and may be down. The one that has given the record has said which versions it speaks.
        holders = [
            worker for worker in list(self._sessions.values()) if worker.session_records is acquired.session_records
        ]
        if not all(worker.may_renew for worker in holders):
            raise UnsupportedVersion("brokers renew locks from Kafka 4.2 on (KIP-1222)", api="ShareAcknowledge")
        counts = self.acknowledge(acquired, AcknowledgeType.RENEW)
        self.flush()
        return counts

    # -- outcomes --------------------------------------------------------------------------------------------------

    def flush(self) -> list[AcquiredRecord]:
        """Make the sessions send acknowledgements; return the records whose acknowledgement has no response yet."""
        with self.lock:
            waiting = [
                acquired
                for worker in self._sessions.values()
                for acquired in worker.session_records
                if acquired.state in OPEN
            ]
            for worker in self._sessions.values():
                worker.flushing = True
        for worker in list(self._sessions.values()):
            worker.wake.set()
        return waiting

    def take_outcomes(self) -> list[Acknowledged]:
        """Return the outcomes that were not reported yet."""
        with self.lock:
            found = list(self._outcomes)
            self._outcomes.clear()
        return found

    def keep_outcomes(self, outcomes: Sequence[Acknowledged]) -> None:
        """Keep outcomes that were taken, and not reported, for the next call."""
        with self.lock:
            self._outcomes.extendleft(reversed(outcomes))

    def raise_error(self) -> None:
        """Raise the next error of the group or of a broker.

        :raises KafkaException: the group or a broker refuses this consumer
        """
        error = self.member.take_error()
        if error is None and self._errors:
            error = self._errors.popleft()
        if error is not None:
            raise error

    def raise_ended(self) -> None:
        """Raise why a worker has ended: without it, a call would wait for records that do not come.

        :raises KafkaException: a worker has ended by an error
        """
        ended = [(f"reads from broker {number}", one.worker_error) for number, one in self._sessions.copy().items()]
        for work, error in [*ended, ("sends heartbeats", self.member.worker_error)]:
            if error is not None:
                raise KafkaException(
                    f"share group {self.options.group}: the worker that {work} has ended by {type(error).__name__}: {error}; "
                    "close the share consumer and make another"
                ) from error

    # -- the end ---------------------------------------------------------------------------------------------------

    def stop(self, deadline: float) -> None:
        """Send acknowledgements, end the sessions, which releases all other records, and leave the group.

        :param deadline: until when (s)
        """
        self._is_wanting = False
        workers = list(self._sessions.values())
        for worker in workers:
            worker.stop()
        now = self.handler.now()
        for worker in workers:
            worker.join(now + max(0.0, deadline - now - min(CLOSE_TIMEOUT_S, (deadline - now) / 3)))
        self.member.leave(deadline)
        with self.lock:
            self._buffer.clear()

    def abandon(self) -> None:
        """End soon, without waiting: the consumer was dropped."""
        self._is_wanting = False
        for worker in list(self._sessions.values()):
            worker.stop()
        self.member.abandon()


def _acquired(record: Record[Any, Any]) -> AcquiredRecord:
    acquired: AcquiredRecord = record._held()
    return acquired
