"""`ConsumerGroupHeartbeats`: what keeps a member in its group by ConsumerGroupHeartbeat (KIP-848)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from pykafka.exceptions import KafkaException, error_for
from pykafka.groups.classic.heartbeat import Heartbeat
from pykafka.groups.heartbeat_sender import Activity, BeatWorker
from pykafka.groups.heartbeat_thread import Call
from pykafka.groups.member_epoch import LEAVES, PAUSES, EpochMembership, Event, State, Verdict, verdict
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.node import Node

API = "ConsumerGroupHeartbeat"
#: The broker's own default interval and session (ms): until its first answer has told the interval.
INTERVAL_MS, SESSION_MS = 5000, 45_000
#: The pause before a member without partitions asks again (s); it doubles, up to the coordinator's interval.
FIRST_S = 0.1
#: How long a member waits for another one to release its instance id (s): longer than the brokers' default session.
UNRELEASED_S = 60.0
#: Partitions by the id of their topic.
Assignment = Mapping[UUID, tuple[int, ...]]


@dataclass(frozen=True)
class Wanted:
    """The subscription of a member, as its heartbeats tell it; replaced as a whole."""

    topics: tuple[str, ...]
    pattern: str | None = None


class Place(NamedTuple):
    """The coordinator, and what a member tells when it joins: plain data, replaced as a whole."""

    broker: Node
    group: str
    version: int
    instance_id: str | None
    rack: str | None
    rebalance_timeout_ms: int
    assignor: str | None


class Answer(NamedTuple):
    """The last answers of the coordinator, as one: replaced as a whole, so that any worker may read it."""

    #: How often the member has joined.
    join: int
    epoch: int
    assignment: Assignment
    #: The subscription that the coordinator had when it answered.
    wanted: Wanted


class News(NamedTuple):
    """An event that the thread reports to the member's workers."""

    join: int
    verdict: Verdict
    error: KafkaException | None
    #: Whether the member has left because the application took no messages for too long.
    idle: bool = False
    #: Whether the coordinator has taken no heartbeat for longer than the session, so that it must have removed the member.
    overdue: bool = False


@dataclass
class Told:
    """The coordinator's knowledge of the member, as far as it is certain."""

    wanted: Wanted | None = None
    owned: Assignment | None = None
    #: Of the present membership.
    assignment: Assignment = field(default_factory=dict)


class ConsumerGroupHeartbeats(BeatWorker[Place]):
    """The heartbeats of one member; parameters as of `BeatWorker`.

    State: the application's workers set the place, `wanted` and `owned`, and how often the member has joined; the thread
    changes the membership, `answer` and `news`. After the coordinator has dropped the member, the thread sends nothing until
    `join`: first the application has to give up its share.

    :param member_id: made by the client
    """

    def __init__(
        self, handler: Handler, member_id: str, activity: Activity, max_poll_ms: int, notify: Callable[[], object]
    ) -> None:
        timer = Heartbeat(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=INTERVAL_MS, clock=handler.native.now)
        super().__init__(handler, timer, activity, max_poll_ms, notify)
        self.membership = EpochMembership(member_id)
        self.wanted = Wanted(())
        #: What the hooks have.
        self.owned: Assignment = {}
        #: The join that the application wants; the thread's is that of `_joined`.
        self.joins = 0
        self._joined = 0
        self.answer: Answer | None = None
        self.news: deque[News] = deque()
        self._told = Told()
        # How many heartbeats in a row have found no partition for this member.
        self._waits = 0
        self._unreleased_since: float | None = None
        # Whether the coordinator may have this member although it is out here: its instance id is then its own's.
        self._unsure = False
        # Whether to release the instance id before the next join.
        self._releases = False
        self._hurried = False
        # Whether the answer to a commit was that the member is out.
        self._dropped = False

    # -- the application's side --------------------------------------------------------------------------------------

    def join(self) -> None:
        """Join, again if need be, without any partition."""
        self.owned = {}
        self.joins += 1
        self._look()

    def beat(self, place: Place | None) -> None:
        """Send heartbeats there from now on; None for nowhere. This is no sign of life of the application."""
        self._retry_at = 0.0
        self._beat = place
        if place is not None:
            self._start(place)

    def want(self, wanted: Wanted) -> None:
        """Subscribe to other topics."""
        self.wanted = wanted
        self._look()

    def own(self, owned: Assignment) -> None:
        """Tell the coordinator at once which partitions the member has."""
        self.owned = owned
        self._look()

    def hurry(self) -> None:
        """Send a heartbeat now."""
        self._hurried = True
        self._look()

    def commit_refused(self, error: KafkaException) -> None:
        """Take the answer to a commit that the member is out of the group, as if it were that to a heartbeat."""
        if verdict(getattr(error, "ERROR_CODE", 0), error.retriable, is_member=True) is Verdict.FENCED:
            self._dropped = True
            self.news.append(News(self.joins, Verdict.FENCED, error))
            self._have_attended()
            self._notify()
        else:  # the coordinator says more to a heartbeat
            self.hurry()

    @property
    def place(self) -> Place | None:
        """Where heartbeats go."""
        return self._beat

    @property
    def present(self) -> Answer | None:
        """The last answer, while the member is in the group."""
        answer = self.answer
        out = answer is None or answer.join != self.joins or self.membership.state is not State.MEMBER
        return None if out else answer

    @property
    def may_be_member(self) -> bool:
        """Whether the coordinator may have this member: it is one, or an answer to its joining has not come."""
        return self.membership.state is State.MEMBER or self._joined < self.joins

    def leaving(self, place: Place) -> wire.ConsumerGroupHeartbeatRequest:
        """Return the request by which the member leaves; a static one is expected back."""
        return _request(place, self.membership.member_id, LEAVES if place.instance_id is None else PAUSES)

    def _after_fork(self) -> None:
        super()._after_fork()
        self.news.clear()
        self.answer = None

    # -- the thread's side -------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        if self._dropped:
            self._dropped = False
            self._fence(self._joined)
        if self.membership.state is not State.MEMBER:
            return self._joined < self.joins and (self._is_time or self._told.wanted is None)
        changed = self._told.wanted != self.wanted or self._told.owned != self.owned
        return changed or self._hurried or self._is_time

    def _ask(self, place: Place) -> Call:
        if self._releases:
            return self._release_instance(place)
        join, wanted, owned = self.joins, self.wanted, self.owned
        joins = self.membership.state is not State.MEMBER
        self._hurried = False
        self.heartbeat.sent_heartbeat()
        request = _request(place, self.membership.member_id, self.membership.epoch)
        told = Told() if joins else self._told
        if told.wanted is None or told.owned is None:
            _introduce(request, place)
        if told.wanted != wanted:
            request.subscribed_topic_names = list(wanted.topics)
            request.subscribed_topic_regex = (wanted.pattern or "") if place.version else None
        if told.owned != owned:
            request.topic_partitions = [
                wire.ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=id_, partitions=list(parts))
                for id_, parts in owned.items()
            ]

        def answered(response: wire.ConsumerGroupHeartbeatResponse) -> None:
            if response.error_code:
                self._refused(place, join, response)
            else:
                self._answered(join, wanted, owned, response)

        def failed(error: KafkaException) -> None:
            self._unsure |= joins
            self._failed(place, error, join)

        return Call(request, place.version, self._timeout(place), answered, failed)

    def _failed(self, beat: Place, error: KafkaException, join: int | None = None) -> None:
        # Whether the coordinator has it is unknown: all is told again, and an assignment that was lost comes again.
        self._told = Told(assignment=self._told.assignment)
        self._wait_to_retry()
        self._tell_refusal(self.joins if join is None else join, Verdict.MOVED, error)

    def _answered(
        self, join: int, wanted: Wanted, owned: Assignment, response: wire.ConsumerGroupHeartbeatResponse
    ) -> None:
        assignment = self._told.assignment if self.membership.state is State.MEMBER else {}
        if response.assignment is not None:
            assignment = {one.topic_id: tuple(one.partitions) for one in response.assignment.topic_partitions}
        self.membership.apply(Event.ANSWERED, response.member_epoch)
        self._joined, self._unreleased_since, self._unsure = join, None, False
        self._told = Told(wanted, owned, assignment)
        interval = max(response.heartbeat_interval_ms, 1) / 1000
        # The coordinator may share out, or match a pattern, only after its first answer, and tell of it with the next one.
        self._waits = 0 if assignment else self._waits + 1
        self.heartbeat.interval = interval if assignment else min(interval, FIRST_S * 2.0 ** min(self._waits, 10))
        self._received()
        answer = Answer(join, response.member_epoch, assignment, wanted)
        if answer != self.answer or _lacks(owned, assignment):
            self.answer = answer
            self._have_attended()
            self._native.post(self._notify)
        else:
            self._have_attended()

    def _refused(self, place: Place, join: int, response: wire.ConsumerGroupHeartbeatResponse) -> None:
        code = response.error_code
        error = error_for(code, response.error_message, broker=place.broker.address, api=API)
        found = verdict(code, error.retriable, self.membership.state is State.MEMBER)
        if found is Verdict.WAITS and self._unsure:
            self._releases = True
        elif found is Verdict.WAITS:
            now = self._native.now()
            self._unreleased_since = self._unreleased_since or now
            if now - self._unreleased_since > UNRELEASED_S:
                found, self._unreleased_since = Verdict.REFUSED, None
        self._told = Told(assignment=self._told.assignment)
        if found in (Verdict.MOVED, Verdict.WAITS):
            self._wait_to_retry()
        else:
            self._fence(join)
        self._tell_refusal(join, found, error)

    def _fence(self, join: int) -> None:
        self._joined = join
        self._waits = 0
        self._unsure = self.membership.state is State.MEMBER
        self._told = Told(assignment=self._told.assignment)
        self.membership.apply(Event.FENCED)
        self.heartbeat.interval = FIRST_S

    def _release_instance(self, place: Place) -> Call:
        """Return a request that releases the instance id, if this member has it: the answer to an earlier join was lost."""

        def released(_: object) -> None:
            self._releases = self._unsure = False

        def failed(error: KafkaException) -> None:
            self._failed(place, error)

        request = _request(place, self.membership.member_id, PAUSES)
        return Call(request, place.version, self._timeout(place), released, failed)

    def _leave(self, beat: Place) -> Call | None:
        join = self.joins
        if self.membership.state is not State.MEMBER:
            self._left(beat, join, None)
            return None

        def left(_: object) -> None:
            self._left(beat, join, None)

        def failed(error: KafkaException) -> None:  # the session times out instead
            self._left(beat, join, error)

        # Also a static member: the members that work are not to wait for it.
        request = _request(beat, self.membership.member_id, LEAVES)
        return Call(request, beat.version, self._timeout(beat), left, failed)

    def _left(self, beat: Place, join: int, error: KafkaException | None) -> None:
        self._given_up = beat
        self._joined = join
        self._told = Told()
        self.membership.apply(Event.FENCED)
        self._tell(join, Verdict.FENCED, error, idle=True)

    def _tell_refusal(self, join: int, found: Verdict, error: KafkaException) -> None:
        is_member = self.membership.state is State.MEMBER
        self._tell(join, found, error)
        if is_member and self._is_overdue():
            self._tell(join, Verdict.MOVED, error, overdue=True)

    def _tell(
        self, join: int, found: Verdict, error: KafkaException | None, *, idle: bool = False, overdue: bool = False
    ) -> None:
        self.news.append(News(join, found, error, idle, overdue))
        self._have_attended()
        self._native.post(self._notify)


def _lacks(owned: Assignment, assignment: Assignment) -> bool:
    """Return whether the member, by its own word, does not have all of its assignment.

    If it has given up a topic and subscribed to it again, the assignment that has not changed is news to it.
    """
    return any(not set(partitions).issubset(owned.get(id_, ())) for id_, partitions in assignment.items())


def _request(place: Place, member_id: str, epoch: int) -> wire.ConsumerGroupHeartbeatRequest:
    return wire.ConsumerGroupHeartbeatRequest(
        group_id=place.group, member_id=member_id, member_epoch=epoch, instance_id=place.instance_id
    )


def _introduce(request: Any, place: Place) -> None:
    """Tell what does not change while the member lives."""
    request.rack_id = place.rack
    request.rebalance_timeout_ms = place.rebalance_timeout_ms
    request.server_assignor = place.assignor
