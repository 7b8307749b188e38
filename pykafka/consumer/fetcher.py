"""`Fetcher`: one fetch worker for each broker and each distinct set of fetch settings, shared by all consumers of the client.

A round: choose partitions, send the request, and while the broker works on it, check, decompress and deliver the answer
before. A partition that has enough buffered is left out until its messages are read, and so are all partitions of a consumer
that has enough bytes. The worker unpacks compressed batches only where there is room, and keeps them as they came until then.
Two consumers of one partition share a request while they are at the same offset, and take turns otherwise.

`FetchablePartitions` has the partitions, and chooses; `FetchRequests` and `AnswerReader` have the requests and answers,
without I/O; `CompletedFetches` keeps fetched batches until they are delivered. `Fetcher` has the worker and the errors:
these go to the consumers, by `FetchingConsumer.fetch_failed`; they attach the partition again when it can be
fetched.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from pykafka.consumer.fetch_plan import Asked, Member, Plan
from pykafka.consumer.fetch_request import IDS_CEILING, IDS_FROM, SESSION_ERRORS, FetchRequests
from pykafka.consumer.fetch_response import AnswerReader
from pykafka.consumer.fetched_batches import CompletedFetches, Kept
from pykafka.exceptions import KafkaException, ProtocolClientError, SocketDisconnectedError, error_for
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.network.requests import DRAIN_S
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import Buffers, OwnedPartition
    from pykafka.consumer.fetch_request import FetchSettings
    from pykafka.consumer.fetch_response import Fetched
    from pykafka.consumer.fetching_consumer import FetchingConsumer
    from pykafka.consumer.leader_epochs import CurrentLeader
    from pykafka.handlers import Handler, Worker
    from pykafka.handlers.base import EventType
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node
    from pykafka.network.requests import RequestHandler


#: The largest answer, whatever the number of partitions (bytes): Kafka's own fetch.max.bytes.
RESPONSE_MAX_BYTES = 50 * 1024 * 1024

log = logging.getLogger(__name__)

#: How long stop() waits for the worker, which does not wait for anything then (s).
JOIN_TIMEOUT_S = 5.0
#: An answer with less records (bytes) goes to the consumers before the next request is sent; the broker is not kept waiting for
#: long by it.
SMALL_ANSWER = 16 * 1024
#: How often the worker calls each consumer's `tick` (s), and checks the answer that it reads itself.
CONSUMER_POLL_INTERVAL_S = 0.5


class FetchablePartitions:
    """The partitions of one fetcher, which holds its lock for each call that changes them.

    :param completed: what the fetcher has fetched of them
    :param wake: set when a consumer without room has some again
    """

    def __init__(self, completed: CompletedFetches, wake: EventType) -> None:
        self._completed = completed
        self._wake = wake
        self.members: dict[OwnedPartition, Member] = {}
        # The plan of all members, as long as they are the same.
        self._plan: Plan | None = None

    def add(self, member: Member) -> None:
        """Add a partition."""
        self._plan = None
        self.members[member.owned] = member

    def remove(self, owned: OwnedPartition) -> None:
        """Remove a partition, if it is here."""
        self._plan = None
        self.members.pop(owned, None)

    def take(self, member: Member) -> bool:
        """Remove a member; return whether it was here."""
        if self.members.get(member.owned) != member:
            return False
        self.remove(member.owned)
        return True

    def take_all(self) -> list[Member]:
        """Remove all members, and return them; this is one step, which needs no lock."""
        members, self.members = self.members, {}
        self._plan = None
        return list(members.values())

    def take_gone(self) -> list[OwnedPartition]:
        """Remove the partitions of consumers that the application has dropped, and return them.

        A dropped consumer cannot detach itself: its finalizer may run anywhere, even in a worker that holds the lock which that
        would take.
        """
        gone = []
        for owned, consumer in list(self.members.values()):
            if consumer() is None:
                self.remove(owned)
                gone.append(owned)
        return gone

    def unchanged(self) -> Plan | None:
        """Return the last plan, if it has all members and nothing has changed since."""
        plan, completed = self._plan, self._completed
        if plan is None or completed.coming or completed.kept or completed.fed or not plan.is_current():
            return None
        return plan

    def plan(self, limited: bool) -> Plan:
        """Choose the partitions to ask for: each that has room, at one offset each.

        :param limited: whether the broker limits the whole answer; those before 0.10.1 know a limit for each partition alone
        """
        partitions: dict[TopicPartition, Asked] = {}
        later, chosen = [], []
        buffered, room = self._rooms()
        least, has_ids = RESPONSE_MAX_BYTES, True
        fed, self._completed.fed = self._completed.fed, set()
        members = list(self.members.values())
        if fed:  # an answer is filled in the order of the request
            members.sort(key=lambda member: member.owned in fed)
        for member in members:
            owned, buffers = member.owned, member.owned.buffers
            at = None if room[buffers] <= 0 else self._completed.next_fetch(owned)
            if at is None or not _ask(partitions, member, *at):
                later.append(member)
                continue
            chosen.append(member)
            has_ids = has_ids and owned.topic_id is not None
            if limited:
                least = min(least, room[buffers])
            else:
                room[buffers] -= owned.max_bytes
        if later or fed:  # partitions that were left out come first next time
            self.members = {member.owned: member for member in (*later, *chosen)}
        plan = Plan(partitions, least, bool(later), has_ids, tuple(buffered.items()))
        self._plan = None if later else plan
        return plan

    def _rooms(self) -> tuple[dict[Buffers, int], dict[Buffers, int]]:
        """Return how much each consumer has buffered, and how much it has room for (bytes)."""
        buffered: dict[Buffers, int] = {}
        rooms: dict[Buffers, int] = {}
        for member in self.members.values():
            buffers = member.owned.buffers
            if buffers not in rooms:
                buffered[buffers] = nbytes = buffers.nbytes
                rooms[buffers] = 0 if buffers.wait_for_room(self._wake) else buffers.max_bytes - nbytes
        for owned, coming in self._completed.coming.items():
            if owned.buffers in rooms:
                rooms[owned.buffers] -= coming.nbytes
        for buffers, room in rooms.items():
            # Compressed batches will take an unknown amount of room: no answer may fill all of it.
            rooms[buffers] = min(room, max(buffers.max_bytes // 4, 1))
        return buffered, rooms


def _ask(partitions: dict[TopicPartition, Asked], member: Member, epoch: int, offset: int) -> bool:
    """Add a member to a plan; return False if another consumer's offset of the same partition is asked for."""
    owned = member.owned
    asked = partitions.get(owned.key)
    if asked is None:
        before = owned.leader_epochs.before(offset)
        members = [(member, epoch)]
        partitions[owned.key] = Asked(offset, before, owned.leader_epoch, owned.max_bytes, owned.topic_id, members)
        return True
    if not asked.is_shared_by(owned, offset):
        return False
    asked.members.append((member, epoch))
    if owned.max_bytes > asked.max_bytes:
        partitions[owned.key] = asked._replace(max_bytes=owned.max_bytes)
    return True


class _InFlightFetch(NamedTuple):
    """A request whose answer is to come.

    :param plan: what was asked for, also partitions that the session has and the request does not name
    :param full: whether the answer has all of them
    """

    plan: Plan
    full: bool
    pending: InFlightRequest[wire.FetchResponse]


class Fetcher:
    """The fetch worker of one broker, for all consumers with the same settings.

    :param broker: the leader, or a replica of partitions that are fetched from there
    :param handler: supplies the worker
    :param settings: those of all its partitions
    """

    #: Its connection is a channel of the broker's.
    connection_count = 0

    def __init__(self, broker: Node, handler: Handler, settings: FetchSettings) -> None:
        self._broker = broker
        self._handler = handler
        self._settings = settings
        self._lock = handler.Lock()
        self.wake = handler.Event()
        self._completed = CompletedFetches(handler, self._lock, self.wake)
        self._fetchable = FetchablePartitions(self._completed, self.wake)
        self._requests = FetchRequests(settings)
        self._answers = AnswerReader(broker.id, broker.address, settings)
        self._stopped = False
        # Whether the last answer has announced throttling, or there is none.
        self._is_throttled = True
        # The last empty answer: its bytes behind the correlation id, and what they say.
        self._empty: tuple[bytes | None, wire.FetchResponse] = (None, wire.FetchResponse())
        self._channel_name = settings.channel
        self._tick_at = 0.0
        self._worker: Worker | None = None
        # The connection that the worker reads itself.
        self._turn: RequestHandler | None = None

    @property
    def broker(self) -> Node:
        """The broker that it fetches from."""
        return self._broker

    @property
    def names_topics(self) -> bool:
        """Whether its last request has names of topics, as those to brokers before 3.1, and not their ids."""
        return self._requests.version < IDS_FROM

    @property
    def channel_name(self) -> str:
        """The name of the channel of its requests."""
        return self._channel_name

    def attach(self, owned: OwnedPartition, consumer: weakref.ref[FetchingConsumer]) -> None:
        """Fetch a partition from its `fetch_offset` on."""
        with self._lock:
            if self._stopped:
                raise self._parted()
            if not is_at_work(self._worker):
                # first: if the system cannot start a thread, nothing is attached
                self._worker = worker = OwnedWorker(self._handler, self._run, f"pykafka.Fetcher.{self._broker.id}")
                worker.start()
            owned.fetcher = self
            owned.wake = self.wake
            owned.buffer_full = False
            self._fetchable.add(Member(owned, consumer))
        self.wake.set()

    def detach(self, owned: OwnedPartition) -> None:
        """Stop fetching a partition; drop its records in flight."""
        with self._lock:
            self._fetchable.remove(owned)
            self._let_go(owned)

    def _let_go(self, owned: OwnedPartition) -> None:
        """Release a partition: its next fetcher fetches undelivered records again. The caller holds the lock."""
        if owned.fetcher is self:
            owned.fetcher = None
        self._completed.drop(owned)

    def stop(self, drain_s: float = DRAIN_S) -> None:
        """End the worker; consumers that are still attached look for the leader again.

        :param drain_s: how long to wait for an answer on its way (s)
        """
        with self._lock:
            self._stopped = True
            members = self._fetchable.take_all()
            for member in members:
                self._let_go(member.owned)
        self.wake.set()
        self._broker.channel(self._settings.channel).close(self._parted(), drain_s)
        worker = self._worker
        if worker is not None:
            worker.join(JOIN_TIMEOUT_S)
        self._report(members, self._parted())

    def _parted(self) -> SocketDisconnectedError:
        # Also when the client is closed: its consumers were stopped before.
        return SocketDisconnectedError("the broker left, or moved to another address", broker=self._broker.address)

    def abandon(self) -> None:
        """End without a lock or a socket: in a forked child, whose worker is a copy, or when the client was dropped."""
        self._stopped = True
        self._fetchable.take_all()

    # -- the worker ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        in_flight: _InFlightFetch | None = None
        left: FetchRequests | None = None
        while left is None and not self._stopped:
            try:
                if self._completed.kept:
                    for kept in self._completed.kept_with_room():
                        self._deliver(kept)
                if self._handler.now() >= self._tick_at:
                    self._tick()
                if in_flight is None:
                    in_flight = self._send(self._plan())
                if in_flight is None:
                    self._leave_turn()
                    left = self._leave()
                    if left is None:
                        self._wait()
                    continue
                answered, in_flight = in_flight, None
                fetched = self._read(answered.plan, self._await(answered.pending), answered.full)
                if not fetched:
                    continue
                if sum([batch.size for one in fetched for batch in one.batches]) < SMALL_ANSWER:
                    self._publish(fetched)
                    in_flight = self._send(self._plan())
                    continue
                try:
                    in_flight = self._send(self._plan())
                finally:  # the consumers get the received records, even if no more will come
                    self._publish(fetched)
            except KafkaException as error:
                in_flight = None
                self._fail_all(error)
            except BaseException as error:
                self._leave_turn()  # before another worker may begin
                if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
                    log.exception("fetch worker of broker %d ended by an error", self._broker.id)
                else:
                    log.info(
                        "fetch worker of broker %d was ended from outside (%s), as at the end of its event loop",
                        self._broker.id,
                        type(error).__name__,
                    )
                text = f"the fetch worker ended by {type(error).__name__}: {error}"
                failure = KafkaException(text, broker=self._broker.address)
                if self._broker.listener is not None:
                    self._broker.listener.on_fatal(failure)
                self._fail_all(failure)
                with self._lock:
                    self._worker = None
                raise
        if left is None:
            self._leave_turn()
        else:  # an error of this is not one of the worker that may have come after this one
            self._end_session(left)

    def _await(self, pending: InFlightRequest[wire.FetchResponse]) -> wire.FetchResponse:
        """Return an answer, read by this worker where it has the turn to; empty ones are decoded once for each session."""
        if self._turn is not None:
            self._turn.read_until(lambda: pending.done, CONSUMER_POLL_INTERVAL_S)
        if pending.done and pending.error is None and pending.log is None and pending.response[4:] == self._empty[0]:
            return self._empty[1]
        response = pending.get()
        if not response.responses:
            self._empty = bytes(pending.response[4:]), response
        return response

    def _take_turn(self) -> RequestHandler | None:
        """Take the turn to read the connection, on which no other worker sends: waking this one for each answer costs more.

        :returns: the connection that this worker reads; None if another worker reads, or there is none, or it has ended
        """
        requests = self._broker.channel(self._channel_name).requests
        if requests is not self._turn:
            self._leave_turn()
        if self._turn is None and requests is not None and requests.help_read(lasting=True):
            self._turn = requests
        return self._live_turn()

    def _live_turn(self) -> RequestHandler | None:
        turn = self._turn
        return None if turn is None or turn.error is not None else turn

    def _leave_turn(self) -> None:
        held, self._turn = self._turn, None
        if held is not None:
            held.leave()

    def _tick(self) -> None:
        """Call each consumer's `tick`."""
        self._tick_at = self._handler.now() + CONSUMER_POLL_INTERVAL_S
        consumers = {}
        for owned, ref in list(self._fetchable.members.values()):
            consumers[owned.buffers] = ref
        for ref in consumers.values():
            if (consumer := ref()) is not None:
                consumer.tick()

    def _leave(self) -> FetchRequests | None:
        """Where no partition is left, let the next one have another worker and session; return those of the present then."""
        with self._lock:
            if self._fetchable.members:
                return None
            self._worker = None
            left, self._requests = self._requests, FetchRequests(self._settings)
            return left

    def _wait(self) -> None:
        """Wait until a partition can be fetched."""
        self.wake.wait(self._broker.throttled_for(self._channel_name) or 1.0)
        self.wake.clear()

    def _end_session(self, left: FetchRequests) -> None:
        """End the session at the broker, so that other clients can have its place."""
        channel = self._settings.channel
        if not left.session.is_open or self._stopped or self._broker.throttled_for(channel):
            return
        if not self._broker.channel(channel).connected:  # a connect may wait, and a broker that is down has no sessions
            return
        try:
            self._broker.send(left.last(), channel)
        except KafkaException as error:  # then the broker ends it in time
            log.debug("broker %d: the fetch session was not ended: %s", self._broker.id, error)

    def _plan(self) -> Plan | None:
        """Choose the partitions to ask for; None: there are none, or the broker throttles this client."""
        if not self._fetchable.members or (self._is_throttled and self._broker.throttled_for(self._channel_name)):
            return None
        with self._lock:
            unchanged = self._fetchable.unchanged()
        if unchanged is not None:
            return unchanged
        # Brokers before 0.10.1 know no limit for a whole answer, only one for each partition.
        limited = self._broker.api_version(wire.FetchRequest) >= 3
        with self._lock:
            for owned in self._fetchable.take_gone():
                self._let_go(owned)
            return self._fetchable.plan(limited)

    def _send(self, plan: Plan | None) -> _InFlightFetch | None:
        if plan is None or not plan.partitions:
            return None
        requests, turn, request, full = self._requests, self._live_turn(), None, False
        if plan is requests.plan and turn is not None:  # on the connection of the last request: in its version, too
            request = requests.repeat()
        if request is None:
            version = self._broker.api_version(wire.FetchRequest, IDS_CEILING if plan.has_ids else None)
            turn = self._take_turn()
            request, full = requests.next(plan, version)
        pending = self._broker.send(
            request,
            self._channel_name,
            timeout_ms=request.max_wait_ms + self._broker.socket_timeout_ms,
            version=requests.version,
            connection=turn,
        )
        return _InFlightFetch(plan, full, pending)

    def _read(self, plan: Plan, response: wire.FetchResponse, full: bool) -> list[Fetched]:
        """Read an answer, and do what it says of each partition; return what is to be delivered.

        :param full: whether the answer has to have all partitions of the plan, also those without news
        """
        session = self._requests.session
        if response.error_code in SESSION_ERRORS and session.refused():
            log.debug("broker %d has ended the fetch session: error %d", self._broker.id, response.error_code)
            return []
        if response.error_code:
            raise error_for(response.error_code, broker=self._broker.address, api="Fetch")
        session.answered(response.session_id)
        self._is_throttled = response.throttle_time_ms > 0
        if response.throttle_time_ms > 0 and not response.responses:
            # The broker has left out all partitions, since they would exceed the quota. That time is none of trouble.
            for member, _ in (asking for asked in plan.partitions.values() for asking in asked.members):
                # read once: a fetcher that has the partition by now may end the trouble
                since = member.owned.trouble_since
                if since is not None:
                    member.owned.trouble_since = since + response.throttle_time_ms / 1000
            return []
        if not response.responses and not full:
            self._mark_as_fetched(plan.partitions.values())
            return []
        answer = self._answers.read(plan.partitions, response, full)
        for fetched in answer.fetched:
            self._completed.advance(fetched, self)
        self._mark_as_fetched(answer.unchanged)
        for asked, needed in answer.cut_off:
            _enlarge(asked, needed)
        for asked, broker_id in answer.redirected:
            self._redirect(asked, broker_id)
        for asked, error, leader in answer.failed:
            self._fail(asked.members, error, leader)
        return answer.fetched

    @staticmethod
    def _mark_as_fetched(asked: Iterable[Asked]) -> None:
        """End the trouble of partitions that have nothing new."""
        for one in asked:
            for member, _ in one.members:
                member.owned.trouble_since = None

    def _publish(self, answer: list[Fetched]) -> None:
        """Check and decompress the answer, and deliver it to the consumers."""
        for asked, batches, aborted in answer:
            for member, epoch in asked.members:
                self._deliver(Kept(member, epoch, asked.offset, deque(batches), aborted))

    def _deliver(self, kept: Kept) -> None:
        """Deliver the batches of a partition while there is room, and keep the rest."""
        error = self._completed.deliver(kept)
        if error is not None:
            key = kept.member.owned.key
            error = error.with_context(
                broker=self._broker.address, topic=key.topic, partition=key.partition, api="Fetch"
            )
            self._fail([(kept.member, kept.epoch)], error)

    # -- errors ----------------------------------------------------------------------------------------------------

    def _fail(
        self, members: list[tuple[Member, int]], error: KafkaException, leader: CurrentLeader | None = None
    ) -> None:
        self._report(self._take_out(members), error, leader)

    @staticmethod
    def _report(members: list[Member], error: KafkaException, leader: CurrentLeader | None = None) -> None:
        """Report an error of partitions, which are detached, to their consumers."""
        for owned, ref in members:
            consumer = ref()
            if consumer is not None and (leader is None or not consumer.take_current_leader(owned, leader)):
                consumer.fetch_failed(owned, error)

    def _redirect(self, asked: Asked, broker_id: int) -> None:
        """Give a partition to the replica that the broker has named."""
        for member in self._take_out(asked.members):
            if (consumer := member.consumer()) is not None:
                consumer.redirected(member.owned, broker_id)

    def _take_out(self, members: list[tuple[Member, int]]) -> list[Member]:
        """Detach members, except those that have moved since; return them."""
        found = []
        for member, epoch in members:
            with self._lock:
                if member.owned.epoch == epoch and self._fetchable.take(member):
                    self._let_go(member.owned)
                    found.append(member)
        return found

    def _fail_all(self, error: KafkaException) -> None:
        """Give an error to all consumers: the connection is gone, or the broker refuses. Each finds its next leader."""
        if self._stopped:
            return
        self._requests.session.failed()
        self._is_throttled = True
        if not isinstance(error, ProtocolClientError):
            self._broker.forget_versions()
        with self._lock:
            members = self._fetchable.take_all()
            for member in members:
                self._let_go(member.owned)
        self._report(members, error)


def _enlarge(asked: Asked, needed: int) -> None:
    """Ask for more from now on: a message is larger than the limit, and brokers before 0.10.1 cut it off."""
    for member, _ in asked.members:
        owned = member.owned
        owned.max_bytes = max(needed, owned.max_bytes * 2)
        log.info("partition %d: fetching %d bytes at a time for a large message", owned.partition_id, owned.max_bytes)
