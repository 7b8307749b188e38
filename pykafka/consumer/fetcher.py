"""One fetch worker for each broker and each distinct set of fetch settings, shared by all consumers of the client.

A round: choose what to ask for, send it, and while the broker works on it, check, decompress and hand out the answer
before. A partition that has enough buffered is left out until it is read, and so are all of a consumer that has enough
bytes. What is compressed is unpacked only where there is room for it, and kept as it came until then. Two consumers of one
partition share a request while they stand at the same offset, and take turns while they do not.

The worker owns the list of its partitions and what it has fetched of them; what becomes of errors is for the consumers, who get
them by `Subscriber.fetch_failed` and attach the partition again when they have dealt with it.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pykafka.common import TopicPartition
from pykafka.consumer.aborted import AbortedTransactions
from pykafka.exceptions import (
    IncompleteResponseError,
    KafkaException,
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

#: No answer is larger than this, whatever the number of partitions (bytes): Kafka's own fetch.max.bytes.
RESPONSE_MAX_BYTES = 50 * 1024 * 1024
#: A batch larger than this is checked and decompressed off the hub (bytes).
OFFLOAD_FROM = 16 * 1024
#: While a partition waits to be read, others are polled this shortly at first (ms), so that it can join again soon.
SHORT_WAIT_MS = 5
#: What is less than this part of an answer is copied out of it.
SMALL_PART = 4
#: How long stop() waits for the worker, who has nothing left to wait for then (s).
JOIN_TIMEOUT_S = 5.0
#: How often consumers are told that time has passed (s).
TICK_S = 0.5


@dataclass(frozen=True)
class FetchSettings:
    """What must be equal for consumers to share a fetch worker.

    :param max_wait_ms: how long the broker may wait for data
    :param min_bytes: how much data the broker waits for
    :param isolation_level: 0 reads all, 1 only what was committed
    :param slot: which of several workers of the same settings
    """

    max_wait_ms: int = 100
    min_bytes: int = 1
    isolation_level: int = 0
    slot: int = 0

    @property
    def channel(self) -> str:
        """The name of the connection that these settings use."""
        return f"fetch:{self.max_wait_ms}:{self.min_bytes}:{self.isolation_level}:{self.slot}"


class Subscriber(Protocol):
    """Who hears of a partition's errors: the consumer."""

    def is_gone(self) -> bool:
        """Return whether nobody can read what is fetched any more."""

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Deal with an error of a partition, which is detached from its fetcher. Must not block."""

    def arrived(self) -> None:
        """Take note that there is something to read."""

    def tick(self) -> None:
        """Take note that time has passed, every second or so. Must not block."""


class _Member(NamedTuple):
    owned: OwnedPartition
    subscriber: Subscriber


class _Asked(NamedTuple):
    """Who asked for a partition in a request, at which offset and in which epoch."""

    offset: int
    members: list[tuple[_Member, int]]


class _Fetched(NamedTuple):
    """What came for a partition: its batches, not yet opened, and the base offsets of those that were never committed."""

    asked: _Asked
    batches: list[RawBatch]
    aborted: set[int]


class _Coming(NamedTuple):
    """What was fetched of a partition and not handed over yet: from which offset on, and how much."""

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


def _apart(records: memoryview) -> memoryview | bytes:
    # A small part of a large answer would keep all of it in memory for as long as it is not read.
    whole = memoryview(records.obj).nbytes
    return bytes(records) if SMALL_PART * len(records) < whole else records


class Fetcher:
    """Fetch from one broker for all who want something from it.

    :param broker: the leader
    :param handler: supplies the worker
    :param settings: shared by all partitions here
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
            if self._worker is None:  # first, since the system may start no thread: then nothing is attached
                self._worker = self._handler.spawn(self._run, name=f"pykafka.Fetcher.{self._broker.id}")
            owned.fetcher = self
            owned.wake = self.wake
            owned.paused = False
            self._members.append(_Member(owned, subscriber))
        self.wake.set()

    def detach(self, owned: OwnedPartition) -> None:
        """Fetch a partition no more; what is on its way for it is dropped."""
        with self._lock:
            self._members = [member for member in self._members if member.owned is not owned]
            self._let_go(owned)

    def _let_go(self, owned: OwnedPartition) -> None:
        """Leave a partition to others, who fetch again what was not handed over; the caller holds the lock."""
        if owned.fetcher is self:
            owned.fetcher = None
        self._kept.pop(owned, None)
        self._fed.discard(owned)
        coming = self._coming.pop(owned, None)
        if coming is not None:
            owned.buffers.rewind(owned, coming.epoch, coming.offset)

    def stop(self) -> None:
        """End the worker; consumers that are still attached look for the leader anew."""
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
        # Also where the client is closed: its consumers were stopped before.
        return SocketDisconnectedError("the broker left, or moved to another address", broker=self._broker.address)

    def abandon(self) -> None:
        """End without touching a lock or a socket: in a forked child, where the worker is a copy, or when forsaken."""
        self._stopped = True
        self._members = []

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        flight: tuple[Plan, PendingResponse[wire.FetchResponse]] | None = None
        while not self._stopped:
            try:
                self._hand_over_kept()
                self._tick()
                if flight is None:
                    flight = self._send(self._plan())
                if flight is None:
                    if not self._wait():
                        return
                    continue
                plan, pending = flight
                flight = None
                fetched = self._read(plan, pending.get())
                try:
                    flight = self._send(self._plan())
                finally:  # what has come is the consumers', also where nothing more will
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

    def _tick(self) -> None:
        """Tell each consumer that time has passed."""
        now = self._handler.now()
        if now < self._tick_at:
            return
        self._tick_at = now + TICK_S
        for subscriber in {member.owned.buffers: member.subscriber for member in list(self._members)}.values():
            subscriber.tick()

    def _wait(self) -> bool:
        """Wait until a partition can be fetched; False when there is none left and the worker should end."""
        with self._lock:
            if not self._members:
                self._worker = None
                return False
        self.wake.wait(self._broker.muted_for(self._settings.channel) or 1.0)
        self.wake.clear()
        return True

    def _plan(self) -> Plan:
        """Choose what to ask for: each partition that has room, at one offset each."""
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
                asked = plan.setdefault(owned.key, _Asked(offset, []))
                if asked.offset != offset:
                    later.append(member)
                    continue
                asked.members.append((member, epoch))
                chosen.append(member)
                if limited:
                    least = min(least, room[buffers])
                else:
                    room[buffers] -= owned.max_bytes
            # who was left out comes first next time
            self._held_back = bool(later)
            self._members = later + chosen
            self._answer_max_bytes = least
        return plan

    def _forget_gone(self) -> None:
        # A consumer that nobody holds any more cannot say so itself: its finalizer may run anywhere, also in a worker that
        # holds a lock which saying it would take.
        gone = {member.owned for member in self._members if member.subscriber.is_gone()}
        if gone:
            self._members = [member for member in self._members if member.owned not in gone]
            for owned in gone:
                self._let_go(owned)

    def _rooms(self) -> dict[Buffers, int]:
        """Find out how much each consumer has room for (bytes); the caller holds the lock."""
        rooms: dict[Buffers, int] = {}
        for member in self._members:
            buffers = member.owned.buffers
            if buffers not in rooms:
                rooms[buffers] = 0 if buffers.wait_for_room(self.wake) else buffers.max_bytes - buffers.nbytes
        for owned, coming in self._coming.items():
            if owned.buffers in rooms:
                rooms[owned.buffers] -= coming.nbytes
        # What is compressed takes more room than is known: no answer is to fill all of it.
        return {buffers: min(room, max(buffers.max_bytes // 4, 1)) for buffers, room in rooms.items()}

    def _next_fetch(self, owned: OwnedPartition) -> tuple[int, int] | None:
        coming = self._coming.get(owned)
        found: tuple[int, int] | None = owned.buffers.next_fetch(owned, 0 if coming is None else coming.messages)
        return found

    def _send(self, plan: Plan) -> tuple[Plan, PendingResponse[wire.FetchResponse]] | None:
        if not plan:
            return None
        settings = self._settings
        wait = settings.max_wait_ms
        if self._held_back:
            wait = min(wait, self._short_wait_ms)
            self._short_wait_ms = min(self._short_wait_ms * 2, max(settings.max_wait_ms, SHORT_WAIT_MS))
        else:
            self._short_wait_ms = SHORT_WAIT_MS
        by_topic: dict[str, list[wire.FetchRequest.Topic.Partition]] = defaultdict(list)
        for (topic, partition), asked in plan.items():
            size = max(member.owned.max_bytes for member, _ in asked.members)
            by_topic[topic].append(
                wire.FetchRequest.Topic.Partition(
                    partition=partition, fetch_offset=asked.offset, partition_max_bytes=size
                )
            )
        request = wire.FetchRequest(
            max_wait_ms=wait,
            min_bytes=settings.min_bytes,
            max_bytes=self._answer_max_bytes,
            isolation_level=settings.isolation_level,
            topics=[wire.FetchRequest.Topic(topic=topic, partitions=parts) for topic, parts in by_topic.items()],
        )
        return plan, self._broker.send(request, settings.channel, timeout_ms=wait + self._broker.socket_timeout_ms)

    def _read(self, plan: Plan, response: wire.FetchResponse) -> list[_Fetched]:
        """Find out how far the answer goes, so that the next request can be sent before it is worked on."""
        if response.error_code:
            raise error_for(response.error_code, broker=self._broker.address, api="Fetch")
        if response.throttle_time_ms > 0 and not response.responses:
            return []  # all partitions are left out, since they would be more than the quota allows
        fetched = []
        for topic in response.responses:
            for part in topic.partitions:
                asked = plan.pop(TopicPartition(topic.topic, part.partition_index), None)
                if asked is None:
                    continue
                context: dict[str, Any] = {
                    "broker": self._broker.address,
                    "topic": topic.topic,
                    "partition": part.partition_index,
                    "api": "Fetch",
                }
                if part.error_code:
                    self._fail(asked, error_for(part.error_code, **context))
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
        """Return the base offsets of batches that a consumer of committed messages is not to see."""
        if not self._settings.isolation_level:
            return set()
        aborted = AbortedTransactions(part.aborted_transactions)
        return {batch.base_offset for batch in batches if aborted.drops(batch)}

    def _advance(self, asked: _Asked, batches: list[RawBatch]) -> None:
        count = sum(max(batch.count, 1) for batch in batches)
        nbytes = sum(batch.size for batch in batches)
        with self._lock:
            for member, epoch in asked.members:
                owned = member.owned
                if owned.fetcher is self and owned.buffers.advance(owned, epoch, batches[-1].next_offset):
                    self._coming[owned] = _Coming(epoch, asked.offset, count, nbytes)
                    self._fed.add(owned)

    def _enlarge(self, asked: _Asked, needed: int) -> None:
        """A message is larger than what was asked for: brokers before 0.10.1 cut it off."""
        for member, _ in asked.members:
            owned = member.owned
            owned.max_bytes = max(needed, owned.max_bytes * 2)
            log.info(
                "partition %d: fetching %d bytes at a time for a large message", owned.partition_id, owned.max_bytes
            )

    def _publish(self, fetched: list[_Fetched]) -> None:
        """Check and decompress what came, and hand it to the consumers."""
        for asked, batches, aborted in fetched:
            for member, epoch in asked.members:
                self._hand_over(_Kept(member, epoch, asked.offset, deque(batches), aborted))

    def _hand_over_kept(self) -> None:
        """Go on handing over where there was no room before."""
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
            self._fail(_Asked(kept.wanted, [(member, kept.epoch)]), error)

    def _open_some(self, kept: _Kept, readers: list[BatchReader]) -> None:
        """Check and unpack batches into `readers`, up to the first one for which there is no room."""
        owned = kept.member.owned
        room = owned.buffers.max_bytes - owned.buffers.nbytes
        while kept.batches:
            batch = kept.batches[0]
            if batch.codec and room <= 0:
                return
            # what has no messages takes offsets all the same
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

    def _fail(self, asked: _Asked, error: KafkaException) -> None:
        for member, epoch in asked.members:
            with self._lock:
                current = member.owned.epoch == epoch and member in self._members
                if current:
                    self._members.remove(member)
                    self._let_go(member.owned)
            if current:
                member.subscriber.fetch_failed(member.owned, error)

    def _fail_all(self, error: KafkaException) -> None:
        """The connection is gone, or the broker refuses: every consumer finds out where to go on."""
        if self._stopped:
            return
        if not isinstance(error, ProtocolClientError):
            self._broker.forget_versions()
        with self._lock:
            members, self._members = self._members, []
            for member in members:
                self._let_go(member.owned)
        for member in members:
            member.subscriber.fetch_failed(member.owned, error)
