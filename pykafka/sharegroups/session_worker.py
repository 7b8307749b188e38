"""`SessionWorker`: one worker for each broker that leads partitions of a share consumer, with its share session.

It fetches while the application waits for records, and sends acknowledgements: with the next fetch, by a request of their own
if a call waits for the outcome, or within a second. It has its own connection, because a fetch may wait at the broker.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    IncompleteResponseError,
    InvalidShareSessionEpoch,
    KafkaException,
    NotLeaderForPartition,
    ShareSessionNotFound,
    TopicRecreatedError,
    UnknownError,
    error_for,
)
from pykafka.handlers.interrupts import OwnedWorker
from pykafka.protocol import wire
from pykafka.protocol.records import scan
from pykafka.protocol.wire.share_groups import AcknowledgementBatch
from pykafka.record import Record
from pykafka.sharegroups.acquired_records import (
    PORTION,
    AcknowledgeType,
    AcquiredRange,
    AcquiredRecord,
    AcquiredRecords,
    Owner,
    Sent,
    portions,
)
from pykafka.sharegroups.member import error_of_worker
from pykafka.utils.compression import unpacked_limit

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, LockType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.channel import Channel
    from pykafka.network.node import Node
    from pykafka.protocol.records import RawBatch
    from pykafka.sharegroups.options import ShareConsumerOptions


log = logging.getLogger(__name__)

#: How long acknowledgements wait for a fetch (s).
ACKNOWLEDGE_DELAY_S = 1.0
#: The pause after a retriable error (s).
RETRY_PAUSE_S = 0.5
#: How long the end of a connection may take (s).
CLOSE_TIMEOUT_S = 1.2
#: KIP-1222: brokers of 4.2 and later know the renewal of locks.
RENEWS_FROM = 2

P = TypeVar("P", bound=Hashable)
#: The epoch of a request that opens a session, and of one that ends it.
FIRST_EPOCH = 0
FINAL_EPOCH = -1
#: After the highest epoch comes the one after the first.
LAST_EPOCH = 2**31 - 1
#: The errors of an answer that mean that the session is over.
SESSION_ERRORS = frozenset(kind.ERROR_CODE for kind in (ShareSessionNotFound, InvalidShareSessionEpoch))
RecordsByOffset = dict[int, "Record[Any, Any]"]


class Port(Protocol):
    """The engine, as its session workers see it."""

    handler: Handler
    lock: LockType
    options: ShareConsumerOptions
    listener: ClientListener | None
    cluster: BaseCluster

    @property
    def member_id(self) -> str: ...
    @property
    def wants_records(self) -> bool: ...  # whether the application waits for records
    def acknowledge(self, acquired: AcquiredRecord, kind: AcknowledgeType) -> bool: ...
    def on_acquired(self, records: list[Record[Any, Any]], lock_timeout_ms: int) -> None: ...
    def on_acknowledged(self, acquired: Collection[AcquiredRecord], error: KafkaException | None) -> None: ...
    def on_fetched(self, keys: Iterable[TopicPartition]) -> None: ...
    def on_leader_lost(self, worker: SessionWorker, keys: Iterable[TopicPartition], error: KafkaException) -> None: ...
    def failed(self, error: KafkaException) -> None: ...


class _PlannedRequest(NamedTuple):
    """One request: which acknowledgements go with it, and what it fetches; None for nothing."""

    sent: dict[TopicPartition, Sent]
    fetched: dict[TopicPartition, UUID] | None
    final: bool = False


class SessionWorker:
    """The share session with one broker.

    State: `wanted`, `session_records` and `flushing` change under the engine's lock; the session is the worker's own.

    :param engine: that has the records
    :param broker: leads the partitions
    """

    def __init__(self, engine: Port, broker: Node) -> None:
        self._engine = engine
        self.broker = broker
        self._handler = engine.handler
        number = self._handler.random.getrandbits(128)
        self._channel = f"share:{uuid.UUID(int=number, version=4)}"
        #: The partitions to fetch, and the ids of their topics.
        self.wanted: dict[TopicPartition, UUID] = {}
        #: The id of each topic that this worker ever fetched from, for acknowledgements.
        self._ids: dict[str, UUID] = {}
        self.session_records = AcquiredRecords()
        #: Whether a call waits for outcomes.
        self.flushing = False
        self.wake = self._handler.Event()
        self._session: ShareSession[tuple[TopicPartition, UUID]] = ShareSession()
        self._stopping = False
        # How many requests in a row had no answer.
        self._failures = 0
        self._lost_at = -math.inf  # when the broker did not know the last session (s)
        self._worker = OwnedWorker(self._handler, self._run, f"pykafka.ShareSession.{broker.id}")

    # -- the application's side ------------------------------------------------------------------------------------

    @property
    def may_renew(self) -> bool:
        """Whether the broker renews locks, as far as this is known: asking it is the worker's."""
        broker = self.broker
        return not broker.knows_versions or (
            broker.api_version(wire.ShareAcknowledgeRequest, timeout_ms=0) >= RENEWS_FROM
        )

    @property
    def worker_error(self) -> BaseException | None:
        """The error that has ended the worker, so that its partitions are not read; None while it runs, or was stopped."""
        return None if self._stopping else error_of_worker(self._worker)

    @property
    def connection(self) -> Channel | None:
        """The channel of the session; None before its first request. This takes no lock."""
        return self.broker.find_channel(self._channel)

    def start(self) -> None:
        """Start the worker, unless that was done; who calls this knows the session before, so that it can stop it."""
        if not self._worker.is_started:
            self._worker = worker = OwnedWorker(self._handler, self._run, self._worker.name)
            worker.start()

    def stop(self) -> None:
        """Send acknowledgements, and end the session; call `join` next."""
        self._stopping = True
        self.wake.set()

    def join(self, deadline: float) -> None:
        """Wait until the worker has ended, but not beyond a deadline (s); then end its connection."""
        worker = self._worker
        left = deadline - self._handler.now()
        # ending a connection on which nothing comes takes time, too
        if not worker.join(max(0.0, left - min(CLOSE_TIMEOUT_S, left / 2))):
            self.broker.drop_channel(self._channel, drain_s=0.0)  # the time for answers is over
            # Until it has said so of the acknowledgements under way.
            worker.join(max(0.0, deadline - self._handler.now()))

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            idle = False
            while (planned := self._next_request(idle)) is not None or not self._stopping:
                if planned is None:
                    idle = not self.wake.wait(ACKNOWLEDGE_DELAY_S)
                    self.wake.clear()
                    continue
                idle = False
                self._send(planned)
                if planned.final:
                    break
            self._lose(self._over())  # who accepts a record from now on learns that it comes again
        except BaseException as error:
            failure = KafkaException(f"the worker of a share session ended by {type(error).__name__}: {error}")
            if self._engine.cluster.listener is not None:
                self._engine.cluster.listener.on_fatal(failure)
            self._lose(failure)
            self._engine.failed(failure)
            raise
        finally:
            self.broker.drop_channel(self._channel)

    def _next_request(self, idle: bool) -> _PlannedRequest | None:
        """Return the next request; None for none."""
        with self._engine.lock:
            session_records, wanted = self.session_records, dict(self.wanted)
            if self._stopping:
                return _PlannedRequest(session_records.take_due(), None, final=True) if self._session.is_open else None
            due = session_records.due
            if due and not self._session.is_open:
                self.flushing = False
                return _PlannedRequest(session_records.take_due(), None)
            apart = session_records.renews or any(key not in wanted for key in due)
            wants_records = self._engine.wants_records and bool(wanted)
            if due and (self.flushing or apart or (idle and not wants_records)):
                self.flushing = False
                return _PlannedRequest(session_records.take_due(), None)
            self.flushing = False
            return _PlannedRequest(session_records.take_due(), wanted) if wants_records else None

    def _send(self, planned: _PlannedRequest) -> None:
        expected = {key: sent for key, sent in planned.sent.items() if sent.batches}
        try:
            if planned.fetched is not None:
                self._fetch(planned.fetched, expected)
            elif self._session.is_open:
                self._acknowledge(expected, planned.final)
            else:
                self._complete(expected, self._over())
            self._failures = 0
        except KafkaException as error:
            self._complete(expected, error)
            self._lose(error)
            self._failures += 1
            if not planned.final:
                self._engine.on_leader_lost(self, list(self.wanted), error)
                if self._failures > 1 and not self._stopping:  # a connection may be made, and lost, at once
                    self._handler.sleep(RETRY_PAUSE_S)

    def _over(self) -> ShareSessionNotFound:
        text = "the share session that had these records is over, and others may have them by now"
        return ShareSessionNotFound(text, broker=self.broker.address)

    def _complete(
        self, sent: Mapping[TopicPartition, Sent], error: KafkaException | None, expires_at: float = 0.0
    ) -> None:
        for one in sent.values():
            acquired: list[AcquiredRecord] = []
            try:
                for at in range(0, len(one.acquired), PORTION):
                    self._handler.breathe()
                    with self._engine.lock:
                        portion = one._replace(acquired=one.acquired[at : at + PORTION])
                        acquired += self.session_records.on_response(portion, error, expires_at)
            finally:
                self._engine.on_acknowledged(acquired, error)

    def _lose(self, error: KafkaException) -> None:
        """Begin another session: what the last one had, others may have."""
        self._session.failed()
        with self._engine.lock:
            session_records, self.session_records = self.session_records, AcquiredRecords()
            acknowledged = session_records.lose_all(error)
        self._engine.on_acknowledged(acknowledged, error)

    # -- fetching --------------------------------------------------------------------------------------------------

    def _fetch(self, wanted: dict[TopicPartition, UUID], sent: dict[TopicPartition, Sent]) -> None:
        options = self._engine.options
        if self._session.may_linger:
            self._end_former()
        for key, id_ in wanted.items():
            if self._ids.get(key.topic, id_) != id_:
                self._leave(key.topic, id_, sent)
            self._ids[key.topic] = id_
        step = self._session.fetch(dict.fromkeys(wanted.items()))
        request = wire.ShareFetchRequest(
            group_id=options.group,
            member_id=self._engine.member_id,
            share_session_epoch=step.epoch,
            max_wait_ms=options.fetch_max_wait_ms,
            min_bytes=options.fetch_min_bytes,
            max_bytes=options.fetch_max_bytes,
            max_records=options.max_records,
            batch_size=options.max_records,
            share_acquire_mode=int(options.acquire_mode == "record_limit"),
            topics=_topics(wire.ShareFetchRequest.Topic, step.added, sent, self._ids),
            forgotten_topics_data=[
                wire.ShareFetchRequest.ForgottenTopic(topic_id=id_, partitions=[key.partition])
                for key, id_ in step.forgotten
            ],
        )
        asked_at = self._handler.now()
        timeout_ms = options.fetch_max_wait_ms + self.broker.socket_timeout_ms
        response = self.broker.call(request, self._channel, timeout_ms=timeout_ms)
        if not self._check_response(response.error_code, response.error_message, sent, "ShareFetch"):
            return
        expires_at = asked_at + response.acquisition_lock_timeout_ms / 1000
        parts = self._partitions(response)
        errors = {key: (part.acknowledge_error_code, part.acknowledge_error_message) for key, part in parts.items()}
        self._complete_each(sent, errors, expires_at, "ShareFetch")
        self._engine.on_fetched([key for key in wanted if key not in parts or not parts[key].error_code])
        for key, part in parts.items():
            self._take(key, part, expires_at, response.acquisition_lock_timeout_ms)

    def _leave(self, topic: str, id_: UUID, sent: dict[TopicPartition, Sent]) -> None:
        """Lose the records of a topic that another one of its name has replaced, which has the same offsets.

        :param id_: of the new topic
        :param sent: what is to be acknowledged; this leaves the former topic out
        """
        text = "the topic was deleted and recreated, and these records were of the old one: leave them"
        error = TopicRecreatedError(text, self._ids[topic], id_, topic=topic)
        self._complete({key: sent.pop(key) for key in list(sent) if key.topic == topic}, error)
        with self._engine.lock:
            acknowledged = self.session_records.lose_all(error, topic)
        self._engine.on_acknowledged(acknowledged, error)

    def _end_former(self) -> None:
        """End the session that was lost: a broker that has it yet would keep its records locked beside the next session.

        If the broker refuses that by a retriable error, this tries again within the socket timeout.
        """
        request = wire.ShareAcknowledgeRequest(
            group_id=self._engine.options.group,
            member_id=self._engine.member_id,
            share_session_epoch=FINAL_EPOCH,
            topics=[],
        )
        deadline = self._handler.now() + self.broker.socket_timeout_ms / 1000
        while True:
            response = self.broker.call(request, self._channel)
            if response.error_code in {0, ShareSessionNotFound.ERROR_CODE}:
                break
            error = self._error(response.error_code, response.error_message, None, "ShareAcknowledge")
            log.info("share group %s: the lost session was not ended: %s", self._engine.options.group, error)
            # the fetch that follows raises an error that no other attempt ends, such as a missing right
            if self._stopping or error is None or not error.retriable or self._handler.now() >= deadline:
                break
            self._handler.sleep(RETRY_PAUSE_S)
        self._session.may_linger = False

    def _take(
        self,
        key: TopicPartition,
        part: wire.ShareFetchResponse.Topic.Partition,
        expires_at: float,
        lock_timeout_ms: int,
    ) -> None:
        error = self._error(part.error_code, part.error_message, key, "ShareFetch")
        if error is None:
            options = self._engine.options
            limit = unpacked_limit(options.unpacked_max_bytes, options.fetch_max_bytes)
            found, error = read(key, part, self._handler, limit)
            rest = AcknowledgeType.GAP if error is None else AcknowledgeType.RELEASE
            records: list[Record[Any, Any]] = []
            ranges = [(one.first_offset, one.last_offset, one.delivery_count) for one in part.acquired_records]
            for portion in portions(ranges, found):
                self._handler.breathe()
                with self._engine.lock:
                    records += add_acquired(self._engine, self.session_records, key, portion, found, expires_at, rest)
            if records:
                if self._engine.listener is not None:
                    size = 0 if part.records is None else len(part.records)
                    self._engine.listener.on_records(*key, len(records), size, self._handler.now())
                self._engine.on_acquired(records, lock_timeout_ms)
            if error is not None:
                self._engine.failed(error.with_context(broker=self.broker.address, **key._asdict(), api="ShareFetch"))
        else:
            self._engine.on_leader_lost(self, [key], error)
            if not (error.retriable or getattr(error, "stale", False) or isinstance(error, NotLeaderForPartition)):
                self._engine.failed(error)

    # -- acknowledging ---------------------------------------------------------------------------------------------

    def _acknowledge(self, sent: dict[TopicPartition, Sent], final: bool) -> None:
        renews = any(acquired.kind is AcknowledgeType.RENEW for one in sent.values() for acquired in one.acquired)
        request = wire.ShareAcknowledgeRequest(
            group_id=self._engine.options.group,
            member_id=self._engine.member_id,
            share_session_epoch=FINAL_EPOCH if final else self._session.acknowledge(),
            is_renew_ack=renews,
            topics=_topics(wire.ShareAcknowledgeRequest.Topic, [], sent, self._ids),
        )
        asked_at = self._handler.now()
        response = self.broker.call(request, self._channel)
        if not self._check_response(response.error_code, response.error_message, sent, "ShareAcknowledge"):
            return
        expires_at = asked_at + response.acquisition_lock_timeout_ms / 1000
        errors = {key: (part.error_code, part.error_message) for key, part in self._partitions(response).items()}
        self._complete_each(sent, errors, expires_at, "ShareAcknowledge")
        if final:
            self._session.failed()

    def _partitions(self, response: Any) -> dict[TopicPartition, Any]:
        names = {id_: name for name, id_ in self._ids.items()}
        return {
            TopicPartition(names.get(topic.topic_id, ""), part.partition_index): part
            for topic in response.responses
            for part in topic.partitions
        }

    def _complete_each(
        self,
        sent: Mapping[TopicPartition, Sent],
        errors: Mapping[TopicPartition, tuple[int, str | None]],
        expires_at: float,
        api: str,
    ) -> None:
        """Complete the acknowledgements of each partition by its error code and message in a response."""
        for key, acknowledgements in sent.items():
            missing = IncompleteResponseError(
                broker=self.broker.address, topic=key.topic, partition=key.partition, api=api
            )
            error = self._error(*errors[key], key, api) if key in errors else missing
            self._complete({key: acknowledgements}, error, expires_at)

    # -- errors ----------------------------------------------------------------------------------------------------

    def _check_response(self, code: int, message: str | None, sent: dict[TopicPartition, Sent], api: str) -> bool:
        """Return whether an answer has no error of its own; deal with one."""
        if not code:
            return True
        error = error_for(code, message, broker=self.broker.address, api=api)
        self._complete(sent, error)
        self._lose(error)
        if code in SESSION_ERRORS:
            log.info("share group %s: %s; another session begins", self._engine.options.group, error)
            self._end_former()  # now: if the application does not poll, no fetch follows
            if self._handler.now() - self._lost_at < RETRY_PAUSE_S and not self._stopping:  # the one before, too
                self._handler.sleep(RETRY_PAUSE_S)
            self._lost_at = self._handler.now()
            return False
        self._engine.on_leader_lost(self, list(self.wanted), error)
        if error.retriable or code == UnknownError.ERROR_CODE:  # so brokers answer for topics that were just deleted
            self._handler.sleep(RETRY_PAUSE_S)
        else:
            self._engine.failed(error)
        return False

    def _error(self, code: int, message: str | None, key: TopicPartition | None, api: str) -> KafkaException | None:
        if not code:
            return None
        where = {} if key is None else key._asdict()
        return error_for(code, message, broker=self.broker.address, api=api, **where)


def _topics(
    kind: type[Any],
    added: Iterable[tuple[TopicPartition, UUID]],
    sent: Mapping[TopicPartition, Sent],
    ids: Mapping[str, UUID],
) -> list[Any]:
    """Return partitions to fetch and to acknowledge, by topic."""
    parts: dict[UUID, dict[int, Any]] = {}
    for key, id_ in added:
        parts.setdefault(id_, {})[key.partition] = kind.Partition(partition_index=key.partition)
    for key, one in sent.items():
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[int(what)])
            for first, last, what in one.batches
        ]
        part = parts.setdefault(ids[key.topic], {}).setdefault(
            key.partition, kind.Partition(partition_index=key.partition)
        )
        part.acknowledgement_batches = batches
    return [kind(topic_id=id_, partitions=list(found.values())) for id_, found in parts.items()]


class Step(NamedTuple, Generic[P]):
    """The content of a fetch: its epoch, the partitions to name, and those to remove."""

    epoch: int
    added: list[P]
    forgotten: list[P]


class ShareSession(Generic[P]):
    """The session with one broker. One worker owns it."""

    def __init__(self) -> None:
        self._epoch = FIRST_EPOCH
        self._known: dict[P, None] = {}
        #: Whether the broker may have a lost session yet, for which no request has ended it.
        self.may_linger = False

    @property
    def is_open(self) -> bool:
        """Whether the broker has a session, as far as this member knows."""
        return self._epoch != FIRST_EPOCH

    def fetch(self, wanted: Collection[P]) -> Step[P]:
        """Return the next fetch; without a session it opens one.

        :param wanted: the partitions to fetch
        """
        added = [one for one in wanted if one not in self._known]
        forgotten = [one for one in self._known if one not in wanted]
        step = Step(self._epoch, added, forgotten)
        self._known = dict.fromkeys(wanted)
        self._advance()
        return step

    def acknowledge(self) -> int:
        """Return the epoch of a request that only acknowledges; the session has to be open."""
        epoch = self._epoch
        self._advance()
        return epoch

    def failed(self) -> None:
        """Start a new session: this one is over, or it is not known whether a request reached the broker."""
        self.may_linger = self.may_linger or self.is_open
        self._epoch = FIRST_EPOCH
        self._known = {}

    def _advance(self) -> None:
        self._epoch = FIRST_EPOCH + 1 if self._epoch == LAST_EPOCH else self._epoch + 1


def read(
    key: TopicPartition,
    part: wire.ShareFetchResponse.Topic.Partition,
    handler: Handler,
    max_unpacked: int,
) -> tuple[RecordsByOffset, KafkaException | None]:
    """Return the records of the acquired batches by offset, and the error of the bytes behind them.

    :param handler: runs what takes long elsewhere, or lets other workers of a hub or loop run
    :param max_unpacked: what a batch may unpack to (bytes)
    """
    ranges = [(record.first_offset, record.last_offset) for record in part.acquired_records]
    found: RecordsByOffset = {}
    if ranges and part.records is not None:
        try:
            for batch in scan(bytes(part.records))[0]:
                if any(first < batch.next_offset and batch.base_offset <= last for first, last in ranges):
                    _read(found, key, batch, handler, max_unpacked)
        except KafkaException as failure:
            return found, failure
    return found, None


def add_acquired(
    owner: Owner,
    session_records: AcquiredRecords,
    key: TopicPartition,
    acquired_range: AcquiredRange,
    found: RecordsByOffset,
    expires_at: float,
    rest: AcknowledgeType,
) -> list[Record[Any, Any]]:
    """Add the records that this member has acquired to those of the session, and return them. The caller holds the lock.

    Offsets without a record (ends of transactions, compacted ones) are acknowledged as gaps.

    :param owner: takes what the application decides
    :param expires_at: when the locks end (s)
    :param rest: what becomes of offsets behind the last record: released, if bytes are no records
    """
    good = []
    at, last, delivery_count, offsets = acquired_range
    for offset in offsets:
        if offset > at:
            session_records.acknowledge_range(key, at, offset - 1, AcknowledgeType.GAP)
        acquired = AcquiredRecord(owner, session_records, key, offset, delivery_count, expires_at)
        session_records.add(acquired)
        found[offset]._set_ack(acquired)
        good.append(found[offset])
        at = offset + 1
    if at <= last:
        session_records.acknowledge_range(key, at, last, rest)
    return good


def _read(found: RecordsByOffset, key: TopicPartition, batch: RawBatch, handler: Handler, max_unpacked: int) -> None:
    large = batch.size > 64 * 1024
    reader = handler.offload(batch.open, max_unpacked=max_unpacked) if large else batch.open(max_unpacked=max_unpacked)
    reader.topic = key.topic
    reader.partition_id = key.partition
    reader.leader_epoch = batch.leader_epoch
    while (record := reader.next_record()) is not None:
        found[record.offset] = record
        if not len(found) % PORTION:
            handler.breathe()
