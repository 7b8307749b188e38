"""`Fetcher`: one fetch worker for each broker and each distinct set of fetch settings, shared by all consumers of the client.

A round: choose partitions, send the request, and while the broker works on it, check, decompress and hand out the answer
before. A partition that has enough buffered is left out until its messages are read, and so are all partitions of a consumer
that has enough bytes. The worker unpacks compressed batches only where there is room, and keeps them as they came until then.
Two consumers of one partition share a request while they are at the same offset, and take turns otherwise.

The worker owns the list of its partitions, and what it has fetched of them. Errors go to the consumers, by
`Subscriber.fetch_failed`; they attach the partition again when they have dealt with the error.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

from pykafka.common import TopicPartition
from pykafka.consumer.aborted import AbortedTransactions
from pykafka.consumer.fetchsession import (
    FINAL_EPOCH,
    NO_SESSION,
    SESSION_ERRORS,
    SESSIONS_FROM,
    FetchSession,
    Request,
    Step,
)
from pykafka.consumer.lineage import NO_EPOCH, Start
from pykafka.consumer.truncation import FETCH_TELLS_FROM
from pykafka.exceptions import (
    FencedLeaderEpoch,
    IncompleteResponseError,
    KafkaException,
    LogTruncationError,
    NotLeaderForPartition,
    ProtocolClientError,
    SocketDisconnectedError,
    error_for,
)
from pykafka.protocol import wire
from pykafka.protocol.records import scan

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.consumer.buffers import Buffers, OwnedPartition
    from pykafka.handlers import Handler, Worker
    from pykafka.network.channel import PendingResponse
    from pykafka.protocol.records import BatchReader, RawBatch

log = logging.getLogger(__name__)

#: The largest answer, whatever the number of partitions (bytes): Kafka's own fetch.max.bytes.
RESPONSE_MAX_BYTES = 50 * 1024 * 1024
#: A batch larger than this is checked and decompressed off the hub (bytes).
OFFLOAD_FROM = 16 * 1024
#: While a partition waits to be read, requests for others wait this long at first (ms), so that it can join again soon.
SHORT_WAIT_MS = 5
#: Records that are less than this part (one in four) of an answer are copied out of it.
SMALL_PART = 4
#: How long stop() waits for the worker, which does not wait for anything then (s).
JOIN_TIMEOUT_S = 5.0
#: From this version on Fetch names topics by id, and the highest version that the client uses for that.
IDS_FROM = 13
IDS_CEILING = 18
NO_ID = UUID(int=0)
#: The errors beside which brokers name the leader.
HINTED = (NotLeaderForPartition.ERROR_CODE, FencedLeaderEpoch.ERROR_CODE)
#: How often the worker calls each consumer's `tick` (s).
TICK_S = 0.5


@dataclass(frozen=True)
class FetchSettings:
    """The settings that must be equal for consumers to share a fetch worker.

    :param max_wait_ms: how long the broker may wait for data (ms)
    :param min_bytes: how much data the broker waits for (bytes)
    :param isolation_level: 0 reads all, 1 only what was committed
    :param slot: the number of the worker, among several with the same settings
    :param rack: of the consumers; the broker may name a replica there
    """

    max_wait_ms: int = 100
    min_bytes: int = 1
    isolation_level: int = 0
    slot: int = 0
    rack: str = ""

    @property
    def channel(self) -> str:
        """The name of the connection that these settings use."""
        name = f"fetch:{self.max_wait_ms}:{self.min_bytes}:{self.isolation_level}:{self.slot}"
        return f"{name}:{self.rack}" if self.rack else name


class Subscriber(Protocol):
    """The consumer of a partition, as far as the fetcher knows it."""

    def is_gone(self) -> bool:
        """Return whether the application has dropped the consumer, so that nothing can read its messages."""

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Deal with an error of a partition, which is detached from its fetcher. Must not block."""

    def redirected(self, owned: OwnedPartition, broker_id: int) -> None:
        """Fetch a partition from the replica that its leader has named; it is detached from its fetcher. Must not block."""

    def take_hint(self, owned: OwnedPartition, hint: LeaderHint) -> bool:
        """Fetch a partition from the leader that its former one has named, if that is news; return whether it is.

        The partition is detached from its fetcher. Must not block.
        """

    def arrived(self) -> None:
        """Wake the application: there is something to read."""

    def tick(self) -> None:
        """Do what is due by time; called every second or so. Must not block."""


class LeaderHint(NamedTuple):
    """The leader that a broker has named beside its error (KIP-951).

    :param leader_id: the number of its broker
    :param leader_epoch: its epoch
    :param endpoints: addresses that came with it: {broker number: (host, port)}
    """

    leader_id: int
    leader_epoch: int
    endpoints: Mapping[int, tuple[str, int]]


class _Member(NamedTuple):
    owned: OwnedPartition
    subscriber: Subscriber


class _Asked(NamedTuple):
    """A partition of a request, and the members that want it, each with its epoch.

    :param offset: to fetch from
    :param log_epoch: the leader epoch of the record before that
    :param leader_epoch: of the leader that the client knows
    :param topic_id: of the topic
    """

    offset: int
    log_epoch: int
    leader_epoch: int
    topic_id: UUID | None
    members: list[tuple[_Member, int]]

    @property
    def max_bytes(self) -> int:
        """How much to fetch (bytes)."""
        if len(self.members) == 1:
            return self.members[0][0].owned.max_bytes
        return max(member.owned.max_bytes for member, _ in self.members)

    def is_shared_by(self, owned: OwnedPartition, offset: int) -> bool:
        """Return whether the answer serves another consumer of the partition, too."""
        return (offset, owned.lineage.before(offset), owned.topic_id) == (self.offset, self.log_epoch, self.topic_id)


class _Fetched(NamedTuple):
    """The answer for a partition: its batches, not yet opened, and the base offsets of those that were never committed."""

    asked: _Asked
    batches: list[RawBatch]
    aborted: set[int]


class _Coming(NamedTuple):
    """The fetched part of a partition that is not handed over yet: its first offset, and its size."""

    epoch: int
    offset: int
    messages: int
    nbytes: int


class _Kept(NamedTuple):
    """Batches of a partition that are handed over one after another, as there is room."""

    member: _Member
    epoch: int
    wanted: int  # the first offset that was asked for
    batches: deque[RawBatch]
    aborted: set[int]


Plan = dict[TopicPartition, _Asked]


class _Flight(NamedTuple):
    """A request whose answer is to come.

    :param plan: its partitions, also those that the session has and the request does not name
    :param full: whether the answer has all of them
    """

    plan: Plan
    full: bool
    pending: PendingResponse[wire.FetchResponse]


def _apart(records: memoryview) -> memoryview | bytes:
    # A small part of a large answer would keep all of it in memory for as long as it is not read.
    whole = memoryview(records.obj).nbytes
    return bytes(records) if SMALL_PART * len(records) < whole else records


class Fetcher:
    """The fetch worker of one broker, for all consumers with the same settings.

    :param broker: the leader, or a replica of partitions that are fetched from there
    :param handler: supplies the worker
    :param settings: those of all its partitions
    """

    def __init__(self, broker: Broker, handler: Handler, settings: FetchSettings) -> None:
        self._broker = broker
        self._handler = handler
        self._settings = settings
        self._lock = handler.Lock()
        self._members: list[_Member] = []
        self._coming: dict[OwnedPartition, _Coming] = {}
        self._kept: dict[OwnedPartition, _Kept] = {}
        self._fed: set[OwnedPartition] = set()
        self._session: FetchSession[tuple[TopicPartition, UUID | None], tuple[int, int, int, int]] = FetchSession()
        self._answer_max_bytes = RESPONSE_MAX_BYTES
        self._held_back = False
        self._short_wait_ms = SHORT_WAIT_MS
        self._stopped = False
        self._tick_at = 0.0
        self._worker: Worker | None = None
        self.wake = handler.Event()

    @classmethod
    def of(cls, broker: Broker, handler: Handler, settings: FetchSettings) -> Fetcher:
        """Return the fetcher of a broker and settings that all consumers of the client share."""
        return broker.shared(("fetch", settings), lambda: cls(broker, handler, settings))

    def attach(self, owned: OwnedPartition, subscriber: Subscriber) -> None:
        """Fetch a partition from its `fetch_offset` on."""
        with self._lock:
            if self._stopped:
                raise self._parted()
            if self._worker is None:  # first: if the system cannot start a thread, nothing is attached
                self._worker = self._handler.spawn(self._run, name=f"pykafka.Fetcher.{self._broker.id}")
            owned.fetcher = self
            owned.wake = self.wake
            owned.paused = False
            self._members.append(_Member(owned, subscriber))
        self.wake.set()

    def detach(self, owned: OwnedPartition) -> None:
        """Stop fetching a partition; drop what is on its way for it."""
        with self._lock:
            self._members = [member for member in self._members if member.owned is not owned]
            self._let_go(owned)

    def _let_go(self, owned: OwnedPartition) -> None:
        """Release a partition: its next fetcher fetches again what was not handed over. The caller holds the lock."""
        if owned.fetcher is self:
            owned.fetcher = None
        self._kept.pop(owned, None)
        self._fed.discard(owned)
        coming = self._coming.pop(owned, None)
        if coming is not None:
            owned.buffers.rewind(owned, coming.epoch, coming.offset)

    def stop(self) -> None:
        """End the worker; consumers that are still attached look for the leader again."""
        with self._lock:
            self._stopped = True
            members, self._members = self._members, []
            for member in members:
                self._let_go(member.owned)
        self.wake.set()
        self._broker.channel(self._settings.channel).close(self._parted())
        worker = self._worker
        if worker is not None:
            worker.join(JOIN_TIMEOUT_S)
        for member in members:
            member.subscriber.fetch_failed(member.owned, self._parted())

    def _parted(self) -> SocketDisconnectedError:
        # Also when the client is closed: its consumers were stopped before.
        return SocketDisconnectedError("the broker left, or moved to another address", broker=self._broker.address)

    def abandon(self) -> None:
        """End without a lock or a socket: in a forked child, where the worker is a copy, or when the client was dropped."""
        self._stopped = True
        self._members = []

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        flight: _Flight | None = None
        session: FetchSession[Any, Any] | None = None
        while session is None and not self._stopped:
            try:
                self._hand_over_kept()
                self._tick()
                if flight is None:
                    flight = self._send(self._plan())
                if flight is None:
                    session = self._leave()
                    if session is None:
                        self._wait()
                    continue
                landed, flight = flight, None
                fetched = self._read(landed.plan, landed.pending.get(), landed.full)
                try:
                    flight = self._send(self._plan())
                finally:  # the consumers get what has come, even if nothing more will
                    self._publish(fetched)
            except KafkaException as error:
                flight = None
                self._fail_all(error)
            except BaseException as error:
                log.exception("fetch worker of broker %d ended by an error", self._broker.id)
                self._fail_all(
                    KafkaException(
                        f"the fetch worker ended by {type(error).__name__}: {error}", broker=self._broker.address
                    )
                )
                with self._lock:
                    self._worker = None
                raise
        if session is not None:  # an error of this is not one of the worker that may have come after this one
            self._end_session(session)

    def _tick(self) -> None:
        """Call each consumer's `tick`."""
        now = self._handler.now()
        if now < self._tick_at:
            return
        self._tick_at = now + TICK_S
        for subscriber in {member.owned.buffers: member.subscriber for member in list(self._members)}.values():
            subscriber.tick()

    def _leave(self) -> FetchSession[Any, Any] | None:
        """Where no partition is left, let the next one have another worker and session; return the present session then."""
        with self._lock:
            if self._members:
                return None
            self._worker = None
            session, self._session = self._session, FetchSession()
            return session

    def _wait(self) -> None:
        """Wait until a partition can be fetched."""
        self.wake.wait(self._broker.muted_for(self._settings.channel) or 1.0)
        self.wake.clear()

    def _end_session(self, session: FetchSession[Any, Any]) -> None:
        """Tell the broker that nothing more is fetched, so that other clients can have the session's place."""
        channel = self._settings.channel
        if not session.is_open or self._stopped or self._broker.muted_for(channel):
            return
        if not self._broker.channel(channel).connected:  # a connect may wait, and a broker that is down has no sessions
            return
        request = wire.FetchRequest(session_id=session.id, session_epoch=FINAL_EPOCH, min_bytes=0)
        try:
            self._broker.send(request, channel)
        except KafkaException as error:  # then the broker ends it in time
            log.debug("broker %d: the fetch session was not ended: %s", self._broker.id, error)

    def _plan(self) -> Plan:
        """Choose the partitions to ask for: each that has room, at one offset each."""
        plan: Plan = {}
        if not self._members or self._broker.muted_for(self._settings.channel):
            return plan
        # Brokers before 0.10.1 know no limit for a whole answer, only one for each partition.
        limited = self._broker.api_version(wire.FetchRequest) >= 3
        with self._lock:
            self._forget_gone()
            later, chosen = [], []
            room = self._rooms()
            least = RESPONSE_MAX_BYTES
            if self._fed:  # an answer is filled in the order of the request
                self._members.sort(key=lambda member: member.owned in self._fed)
                self._fed.clear()
            for member in self._members:
                owned, buffers = member.owned, member.owned.buffers
                at = None if room[buffers] <= 0 or owned in self._kept else self._next_fetch(owned)
                if at is None:
                    later.append(member)
                    continue
                epoch, offset = at
                asked = plan.get(owned.key)
                if asked is None:
                    before = owned.lineage.before(offset)
                    asked = plan[owned.key] = _Asked(offset, before, owned.leader_epoch, owned.topic_id, [])
                elif not asked.is_shared_by(owned, offset):
                    later.append(member)
                    continue
                asked.members.append((member, epoch))
                chosen.append(member)
                if limited:
                    least = min(least, room[buffers])
                else:
                    room[buffers] -= owned.max_bytes
            # partitions that were left out come first next time
            self._held_back = bool(later)
            self._members = later + chosen
            self._answer_max_bytes = least
        return plan

    def _forget_gone(self) -> None:
        # A consumer that the application has dropped cannot detach itself: its finalizer may run anywhere, even in a worker
        # that holds the lock which that would take.
        gone = {member.owned for member in self._members if member.subscriber.is_gone()}
        if gone:
            self._members = [member for member in self._members if member.owned not in gone]
            for owned in gone:
                self._let_go(owned)

    def _rooms(self) -> dict[Buffers, int]:
        """Return how much each consumer has room for (bytes); the caller holds the lock."""
        rooms: dict[Buffers, int] = {}
        for member in self._members:
            buffers = member.owned.buffers
            if buffers not in rooms:
                rooms[buffers] = 0 if buffers.wait_for_room(self.wake) else buffers.max_bytes - buffers.nbytes
        for owned, coming in self._coming.items():
            if owned.buffers in rooms:
                rooms[owned.buffers] -= coming.nbytes
        # Compressed batches will take an unknown amount of room: no answer may fill all of it.
        return {buffers: min(room, max(buffers.max_bytes // 4, 1)) for buffers, room in rooms.items()}

    def _next_fetch(self, owned: OwnedPartition) -> tuple[int, int] | None:
        coming = self._coming.get(owned)
        found: tuple[int, int] | None = owned.buffers.next_fetch(owned, 0 if coming is None else coming.messages)
        return found

    def _send(self, plan: Plan) -> _Flight | None:
        if not plan:
            return None
        settings = self._settings
        wait = settings.max_wait_ms
        if self._held_back:
            wait = min(wait, self._short_wait_ms)
            self._short_wait_ms = min(self._short_wait_ms * 2, max(settings.max_wait_ms, SHORT_WAIT_MS))
        else:
            self._short_wait_ms = SHORT_WAIT_MS
        known = all(asked.topic_id is not None for asked in plan.values())
        version = self._broker.api_version(wire.FetchRequest, IDS_CEILING if known else None)
        by_id = version >= IDS_FROM
        tells = version >= FETCH_TELLS_FROM
        # A session by name knows nothing of ids: a name that is fetched on and forgotten in one request is forgotten.
        wanted = {
            (key, asked.topic_id if by_id else None): (
                asked.offset,
                asked.log_epoch,
                asked.leader_epoch,
                asked.max_bytes,
            )
            for key, asked in plan.items()
        }
        if version >= SESSIONS_FROM:
            sent = self._session.next(wanted, by_id)
        else:
            sent = Request(Step(NO_SESSION, FINAL_EPOCH), wanted, {}, full=True)
        by_topic: dict[tuple[str, UUID | None], list[wire.FetchRequest.Topic.Partition]] = defaultdict(list)
        for ((topic, partition), id_), (offset, log_epoch, leader_epoch, size) in sent.named.items():
            by_topic[topic, id_].append(
                wire.FetchRequest.Topic.Partition(
                    partition=partition,
                    current_leader_epoch=leader_epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=log_epoch if tells else NO_EPOCH,
                    partition_max_bytes=size,
                )
            )
        forgotten: dict[tuple[str, UUID | None], list[int]] = defaultdict(list)
        for (topic, partition), id_ in sent.forgotten:
            forgotten[topic, id_].append(partition)
        request = wire.FetchRequest(
            max_wait_ms=wait,
            min_bytes=settings.min_bytes,
            max_bytes=self._answer_max_bytes,
            isolation_level=settings.isolation_level,
            session_id=sent.step.session_id,
            session_epoch=sent.step.epoch,
            forgotten_topics_data=[
                wire.FetchRequest.ForgottenTopic(topic=topic, topic_id=id_ or NO_ID, partitions=ids)
                for (topic, id_), ids in forgotten.items()
            ],
            topics=[
                wire.FetchRequest.Topic(topic=topic, topic_id=id_ or NO_ID, partitions=parts)
                for (topic, id_), parts in by_topic.items()
            ],
            rack_id=settings.rack,
        )
        timeout_ms = wait + self._broker.socket_timeout_ms
        pending = self._broker.send(request, settings.channel, timeout_ms=timeout_ms, version=version)
        return _Flight(plan, sent.full, pending)

    def _read(self, plan: Plan, response: wire.FetchResponse, full: bool) -> list[_Fetched]:
        """Read how far the answer goes, so that the next request can go out before the answer is unpacked.

        :param full: whether the answer has to have all partitions of the plan, also those without news
        """
        if response.error_code in SESSION_ERRORS and self._session.refused():
            log.debug("broker %d has ended the fetch session: error %d", self._broker.id, response.error_code)
            return []
        if response.error_code:
            raise error_for(response.error_code, broker=self._broker.address, api="Fetch")
        self._session.answered(response.session_id)
        if response.throttle_time_ms > 0 and not response.responses:
            return []  # the broker has left out all partitions, since they would exceed the quota
        fetched = []
        names = {asked.topic_id: key.topic for key, asked in plan.items()}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for part in topic.partitions:
                asked = plan.pop(TopicPartition(name, part.partition_index), None)
                if asked is None:
                    continue
                context: dict[str, Any] = {
                    "broker": self._broker.address,
                    "topic": name,
                    "partition": part.partition_index,
                    "api": "Fetch",
                }
                if part.error_code:
                    self._fail(asked, error_for(part.error_code, **context), self._hint(part, response))
                    continue
                if part.diverging_epoch.end_offset >= 0:
                    self._fail_as_cut(asked, part.diverging_epoch, context)
                    continue
                if part.preferred_read_replica >= 0 and not part.records and self._settings.rack:
                    self._redirect(asked, part.preferred_read_replica)
                    continue
                try:
                    batches, needed = scan(_apart(part.records)) if part.records is not None else ([], 0)
                    aborted = self._find_aborted(batches, part)
                except KafkaException as error:
                    self._fail(asked, error.with_context(**context))
                    continue
                batches = [batch for batch in batches if batch.next_offset > asked.offset]
                if batches:
                    fetched.append(_Fetched(asked, batches, aborted))
                    self._advance(asked, batches)
                elif needed:
                    self._enlarge(asked, needed)
                else:  # nothing new, from an offset that is right
                    for member, _ in asked.members:
                        member.owned.trouble_since = None
        for asked in plan.values():
            if not full:  # nothing new, as above
                for member, _ in asked.members:
                    member.owned.trouble_since = None
                continue
            owned = asked.members[0][0].owned
            self._fail(
                asked,
                IncompleteResponseError(
                    broker=self._broker.address,
                    topic=owned.key.topic,
                    partition=owned.partition_id,
                    api="Fetch",
                ),
            )
        return fetched

    def _find_aborted(self, batches: list[RawBatch], part: wire.FetchResponse.Topic.Partition) -> set[int]:
        """Return the base offsets of batches that a consumer of committed messages must not see."""
        if not self._settings.isolation_level:
            return set()
        aborted = AbortedTransactions(part.aborted_transactions)
        return {batch.base_offset for batch in batches if aborted.drops(batch)}

    def _advance(self, asked: _Asked, batches: list[RawBatch]) -> None:
        count = sum(max(batch.count, 1) for batch in batches)
        nbytes = sum(batch.size for batch in batches)
        starts: list[Start] = []
        for batch in batches:
            if not starts or batch.leader_epoch != starts[-1].epoch:
                starts.append(Start(batch.base_offset, batch.leader_epoch))
        with self._lock:
            for member, epoch in asked.members:
                owned = member.owned
                if owned.fetcher is self and owned.buffers.advance(owned, epoch, batches[-1].next_offset, starts):
                    self._coming[owned] = _Coming(epoch, asked.offset, count, nbytes)
                    self._fed.add(owned)

    def _enlarge(self, asked: _Asked, needed: int) -> None:
        """Ask for more from now on: a message is larger than the limit, and brokers before 0.10.1 cut it off."""
        for member, _ in asked.members:
            owned = member.owned
            owned.max_bytes = max(needed, owned.max_bytes * 2)
            log.info(
                "partition %d: fetching %d bytes at a time for a large message", owned.partition_id, owned.max_bytes
            )

    def _publish(self, fetched: list[_Fetched]) -> None:
        """Check and decompress the answer, and hand it to the consumers."""
        for asked, batches, aborted in fetched:
            for member, epoch in asked.members:
                self._hand_over(_Kept(member, epoch, asked.offset, deque(batches), aborted))

    def _hand_over_kept(self) -> None:
        """Hand over what was kept, as far as there is room now."""
        for kept in list(self._kept.values()):
            if not kept.member.owned.buffers.wait_for_room(self.wake):
                with self._lock:
                    self._kept.pop(kept.member.owned, None)
                self._hand_over(kept)

    def _hand_over(self, kept: _Kept) -> None:
        """Hand over the batches of a partition while there is room, and keep the rest."""
        member, owned = kept.member, kept.member.owned
        error: KafkaException | None = None
        readers: list[BatchReader] = []
        try:
            self._open_some(kept, readers)
        except KafkaException as problem:
            error = problem.with_context(
                broker=self._broker.address,
                topic=owned.key.topic,
                partition=owned.partition_id,
                api="Fetch",
            )
        with self._lock:
            coming = self._coming.get(owned)
            if coming is None or coming.epoch != kept.epoch or not owned.buffers.put(owned, kept.epoch, readers):
                return
            owned.trouble_since = None
            if kept.batches:
                offset = readers[-1].next_offset if readers else coming.offset
                nbytes = sum(batch.size for batch in kept.batches)
                self._coming[owned] = coming._replace(offset=offset, nbytes=nbytes)
                if error is None:
                    self._kept[owned] = kept
            else:
                del self._coming[owned]
        if readers:
            member.subscriber.arrived()
        if error is not None:
            self._fail_members([(member, kept.epoch)], error)

    def _open_some(self, kept: _Kept, readers: list[BatchReader]) -> None:
        """Check and unpack batches into `readers`, up to the first one without room."""
        owned = kept.member.owned
        room = owned.buffers.max_bytes - owned.buffers.nbytes
        while kept.batches:
            batch = kept.batches[0]
            if batch.codec and room <= 0:
                return
            # a batch without messages takes offsets all the same
            reader = batch.skip() if batch.base_offset in kept.aborted else self._open(batch)
            reader.partition_id = owned.partition_id
            reader.partition = owned.partition
            reader.skip_to(kept.wanted)
            kept.batches.popleft()
            readers.append(reader)
            room -= reader.nbytes

    def _open(self, batch: RawBatch) -> BatchReader:
        return self._handler.offload(batch.open) if batch.end - batch.start >= OFFLOAD_FROM else batch.open()

    # -- errors ----------------------------------------------------------------------------------------------------

    def _fail(self, asked: _Asked, error: KafkaException, hint: LeaderHint | None = None) -> None:
        self._fail_members(asked.members, error, hint)

    def _fail_members(
        self, members: list[tuple[_Member, int]], error: KafkaException, hint: LeaderHint | None = None
    ) -> None:
        for member in self._take_out(members):
            if hint is None or not member.subscriber.take_hint(member.owned, hint):
                member.subscriber.fetch_failed(member.owned, error)

    def _hint(self, part: wire.FetchResponse.Topic.Partition, response: wire.FetchResponse) -> LeaderHint | None:
        """Return the leader that the answer names beside an error, if there is one and it is another broker."""
        leader = part.current_leader
        if part.error_code not in HINTED or leader.leader_id < 0 or leader.leader_epoch < 0:
            return None
        if leader.leader_id == self._broker.id and part.error_code != FencedLeaderEpoch.ERROR_CODE:
            return None
        endpoints = {node.node_id: (node.host, node.port) for node in response.node_endpoints}
        return LeaderHint(leader.leader_id, leader.leader_epoch, endpoints)

    def _fail_as_cut(
        self, asked: _Asked, diverging: wire.FetchResponse.Topic.Partition.EpochEndOffset, context: dict[str, Any]
    ) -> None:
        """Tell consumers that the broker's log differs from what they have fetched."""
        lineage = asked.members[0][0].owned.lineage
        divergent = lineage.divergence(diverging.epoch, diverging.end_offset)
        self._fail(asked, LogTruncationError(asked.offset, divergent, **context))

    def _redirect(self, asked: _Asked, broker_id: int) -> None:
        """Give a partition to the replica that the broker has named."""
        for member in self._take_out(asked.members):
            member.subscriber.redirected(member.owned, broker_id)

    def _take_out(self, members: list[tuple[_Member, int]]) -> list[_Member]:
        """Detach members, except those that have moved since; return them."""
        found = []
        for member, epoch in members:
            with self._lock:
                if member.owned.epoch == epoch and member in self._members:
                    self._members.remove(member)
                    self._let_go(member.owned)
                    found.append(member)
        return found

    def _fail_all(self, error: KafkaException) -> None:
        """Give an error to all consumers: the connection is gone, or the broker refuses. Each finds out where to go on."""
        if self._stopped:
            return
        self._session.failed()
        if not isinstance(error, ProtocolClientError):
            self._broker.forget_versions()
        with self._lock:
            members, self._members = self._members, []
            for member in members:
                self._let_go(member.owned)
        for member in members:
            member.subscriber.fetch_failed(member.owned, error)
