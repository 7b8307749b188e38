"""`ConsumerGroupHeartbeats`: the heartbeats of a member by ConsumerGroupHeartbeat (KIP-848)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from pykafka.exceptions import KafkaException, error_for
from pykafka.groups.heartbeat_sender import RETRY_MAX_S, Activity, Heartbeat, HeartbeatSender
from pykafka.groups.heartbeat_thread import Call
from pykafka.groups.member_epoch import LEAVES, PAUSES, EpochMembership, Event, State, Verdict, verdict
from pykafka.protocol.wire.consumer_groups import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.node import Node
    from pykafka.protocol.wire.consumer_groups import ConsumerGroupHeartbeatResponse

API = "ConsumerGroupHeartbeat"
#: The broker's own default interval and session (ms): until its first answer brings the interval.
INTERVAL_MS, SESSION_MS = 5000, 45_000
#: The pause before a member without partitions asks again (s); it doubles, up to the coordinator's interval.
FIRST_S = 0.1
#: How long a member waits for another one to release its instance id (s): longer than the brokers' default session.
UNRELEASED_S = 60.0
#: Partitions by the id of their topic.
Assignment = Mapping[UUID, tuple[int, ...]]


@dataclass(frozen=True)
class HeartbeatSubscription:
    """The subscription of a member in its heartbeats; replaced as a whole."""

    topics: tuple[str, ...]
    pattern: str | None = None


class ConsumerGroupTarget(NamedTuple):
    """The coordinator, and the content of a heartbeat that joins: plain data, replaced as a whole."""

    broker: Node
    group: str
    version: int
    instance_id: str | None
    rack: str | None
    rebalance_timeout_ms: int
    assignor: str | None


class Answer(NamedTuple):
    """The last answers of the coordinator, as one: replaced as a whole, so that any worker may read it."""

    #: The number of the join.
    join: int
    epoch: int
    assignment: Assignment
    #: The subscription that the coordinator had when it answered.
    subscription: HeartbeatSubscription


class Report(NamedTuple):
    """An event that the thread reports to the member's workers."""

    join: int
    verdict: Verdict
    error: KafkaException | None
    #: Whether the member has left because the application took no messages for too long.
    idle: bool = False
    #: Whether the coordinator has taken no heartbeat for longer than the session, so that it must have removed the member.
    overdue: bool = False


@dataclass
class CoordinatorView:
    """The state of the member that the coordinator certainly knows."""

    subscription: HeartbeatSubscription | None = None
    owned: Assignment | None = None
    #: Of the present membership.
    assignment: Assignment = field(default_factory=dict)


class ConsumerGroupHeartbeats(HeartbeatSender[ConsumerGroupTarget]):
    """The heartbeats of one member; for parameters see `HeartbeatSender`.

    State: the application's workers set the target, `subscription`, `owned` and `joins`; the thread changes the membership,
    `answer` and `reports`. After the coordinator has dropped the member, the thread sends nothing until `join`: first the
    hooks have to lose the assignment.

    :param member_id: made by the client
    """

    def __init__(
        self, handler: Handler, member_id: str, activity: Activity, max_poll_ms: int, notify: Callable[[], object]
    ) -> None:
        timer = Heartbeat(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=INTERVAL_MS, clock=handler.native.now)
        super().__init__(handler, timer, activity, max_poll_ms, notify)
        self.membership = EpochMembership(member_id)
        self.subscription = HeartbeatSubscription(())
        #: The partitions that the hooks have.
        self.owned: Assignment = {}
        #: The join that the application wants; the thread's is that of `_joined`.
        self.joins = 0
        self._joined = 0
        #: Whether the answer to a request to join is due.
        self.is_joining = False
        self.answer: Answer | None = None
        self.reports: deque[Report] = deque()
        self._view = CoordinatorView()
        # How many heartbeats in a row have meaning no partition for this member.
        self._empty_answers = 0
        self._unreleased_since: float | None = None
        # Whether the coordinator may have this member although it is out here: its instance id is then its set_owned's.
        self._may_be_known = False
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
        self._wake_thread()

    def set_subscription(self, subscription: HeartbeatSubscription) -> None:
        """Subscribe to other topics."""
        self.subscription = subscription
        self._wake_thread()

    def set_owned(self, owned: Assignment) -> None:
        """Send the coordinator at once the partitions that the member has."""
        self.owned = owned
        self._wake_thread()

    def claim(self, owned: Assignment, answer: Answer) -> bool:
        """Report partitions as the member's, before the hooks get them; return False if the coordinator has answered since.

        A slow `on_assigned` may read them already: a report without them, after a revocation, would give them to others.

        :param answer: which assigns them
        """
        before, self.owned = self.owned, owned
        if self.present is not answer:  # which the thread may have acknowledged, without these
            self.owned = before
            return False
        return True

    def hurry(self) -> None:
        """Send a heartbeat now."""
        self._hurried = True
        self._wake_thread()

    def commit_refused(self, error: KafkaException) -> None:
        """Take the answer to a commit that the member is out of the group, as if it were that to a heartbeat."""
        if verdict(getattr(error, "ERROR_CODE", 0), error.retriable, is_member=True) is Verdict.FENCED:
            self._dropped = True
            self.reports.append(Report(self.joins, Verdict.FENCED, error))
            self._request_poll()
            self._notify()
        else:  # the coordinator says more to a heartbeat
            self.hurry()

    @property
    def target(self) -> ConsumerGroupTarget | None:
        """Where heartbeats go."""
        return self._target

    @property
    def present(self) -> Answer | None:
        """The last answer, while the member is in the group."""
        answer = self.answer
        out = answer is None or answer.join != self.joins or self.membership.state is not State.MEMBER
        return None if out else answer

    @property
    def is_waiting_for_instance(self) -> bool:
        """Whether another member has the instance id, and this one waits until it is released."""
        return self._unreleased_since is not None

    @property
    def may_be_member(self) -> bool:
        """Whether the coordinator may have this member: it is one, or an answer to its joining has not come."""
        return self.membership.state is State.MEMBER or self._joined < self.joins

    def leaving(self, target: ConsumerGroupTarget, leave_group: bool | None) -> ConsumerGroupHeartbeatRequest | None:
        """Return the request by which the member leaves, or a static one pauses; None: it ends without one.

        :param leave_group: whether it leaves (KIP-1092); None: unless it is static
        """
        is_static = target.instance_id is not None
        if leave_group is False and not is_static:  # the session times out instead: a pause is for static members
            return None
        return _request(target, self.membership.member_id, PAUSES if is_static and not leave_group else LEAVES)

    def stop(self) -> None:
        """Stop sending; see `HeartbeatSender.stop`."""
        super().stop()
        self.is_joining = False  # the answer to a join that is under way is not read any more

    def _after_fork(self) -> None:
        super()._after_fork()
        self.reports.clear()
        self.answer = None
        self.is_joining = False

    # -- the thread's side -------------------------------------------------------------------------------------------

    def _needs_heartbeat(self) -> bool:
        if self._dropped:
            self._dropped = False
            self._fence(self._joined)
        if self.membership.state is not State.MEMBER:
            return self._joined < self.joins and (super()._needs_heartbeat() or self._view.subscription is None)
        changed = self._view.subscription != self.subscription or self._view.owned != self.owned
        return changed or self._hurried or super()._needs_heartbeat()

    def _heartbeat_call(self, target: ConsumerGroupTarget) -> Call | None:
        if self._releases:
            return self._release_instance(target)
        join, subscription, owned = self.joins, self.subscription, self.owned
        joins = self.membership.state is not State.MEMBER
        self.is_joining = joins
        # Read after that store: `ConsumerGroupMembership.close` first removes the target, and then waits for the end of a join.
        if self._target is None:
            self.is_joining = False
            return None
        self._hurried = False
        self.heartbeat.sent_heartbeat()
        request = _request(target, self.membership.member_id, self.membership.epoch)
        view = CoordinatorView() if joins else self._view
        if view.subscription is None or view.owned is None:
            _introduce(request, target)
        if view.subscription != subscription:
            request.subscribed_topic_names = list(subscription.topics)
            request.subscribed_topic_regex = (subscription.pattern or "") if target.version else None
        if view.owned != owned:
            request.topic_partitions = []
            for id_, parts in owned.items():
                of_topic = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=id_, partitions=list(parts))
                request.topic_partitions.append(of_topic)

        def answered(response: ConsumerGroupHeartbeatResponse) -> None:
            if response.error_code:
                self._refused(target, join, response)
            else:
                self._answered(join, subscription, owned, response)
            self.is_joining = False

        def failed(error: KafkaException) -> None:
            self._may_be_known |= joins
            self._failed(target, error, join)

        return Call(request, target.version, self._timeout(target), answered, failed)

    def _failed(self, target: ConsumerGroupTarget, error: KafkaException, join: int | None = None) -> None:
        self.is_joining = False
        # The coordinator may not have it: the next heartbeat has all fields, and a lost assignment comes again.
        self._view = CoordinatorView(assignment=self._view.assignment)
        self._wait_for_coordinator()
        self._report_refusal(self.joins if join is None else join, Verdict.MOVED, error)

    def _wait_for_coordinator(self) -> None:
        """Ask again after a pause; if the member joins, after a short one at first, twice as long each time."""
        joins = self.membership.state is not State.MEMBER
        self._wait_to_retry(min(RETRY_MAX_S, FIRST_S * 2.0 ** min(self._failures, 10)) if joins else None)

    def _answered(
        self,
        join: int,
        subscription: HeartbeatSubscription,
        owned: Assignment,
        response: ConsumerGroupHeartbeatResponse,
    ) -> None:
        before = assignment = self._view.assignment if self.membership.state is State.MEMBER else {}
        if response.assignment is not None:
            assignment = {}
            for topic in response.assignment.topic_partitions:
                assignment[topic.topic_id] = tuple(topic.partitions)
        self.membership.apply(Event.ANSWERED, response.member_epoch)
        self._joined, self._unreleased_since, self._may_be_known = join, None, False
        revoked: dict[UUID, tuple[int, ...]] = {}
        for id_, parts in before.items():
            revoked[id_] = tuple({*parts}.difference(assignment.get(id_, ())))
        # The coordinator waits for a report without the revoked partitions, also if no report had them yet.
        self._view = CoordinatorView(subscription, None if _lacks(owned, revoked) else owned, assignment)
        interval = max(response.heartbeat_interval_ms, 1) / 1000
        # The coordinator may assign, or match a pattern, only after its first answer, so that the next one brings the result.
        self._empty_answers = 0 if assignment else self._empty_answers + 1
        self.heartbeat.interval = (
            interval if assignment else min(interval, FIRST_S * 2.0 ** min(self._empty_answers, 10))
        )
        self._received()
        answer = Answer(join, response.member_epoch, assignment, subscription)
        if answer != self.answer or _lacks(owned, assignment):
            self.answer = answer
            self._request_poll()
            self._native.post(self._notify)
        else:
            self._request_poll()

    def _refused(self, target: ConsumerGroupTarget, join: int, response: ConsumerGroupHeartbeatResponse) -> None:
        code = response.error_code
        error = error_for(code, response.error_message, broker=target.broker.address, api=API)
        meaning = verdict(code, error.retriable, self.membership.state is State.MEMBER)
        if meaning is Verdict.WAITS and self._may_be_known:
            self._releases = True
        elif meaning is Verdict.WAITS:
            now = self._native.now()
            self._unreleased_since = self._unreleased_since or now
            if now - self._unreleased_since > UNRELEASED_S:
                meaning, self._unreleased_since = Verdict.REFUSED, None
        self._view = CoordinatorView(assignment=self._view.assignment)
        if meaning is Verdict.MOVED:
            self._wait_for_coordinator()
        elif meaning is Verdict.WAITS:
            self._wait_to_retry()
        else:
            joins = self.membership.state is not State.MEMBER
            self._fence(join)
            if meaning is Verdict.FENCED and joins:
                self._wait_for_coordinator()
        self._report_refusal(join, meaning, error)

    def _fence(self, join: int) -> None:
        self._joined = join
        self._empty_answers = 0
        self._may_be_known = self.membership.state is State.MEMBER
        self._view = CoordinatorView(assignment=self._view.assignment)
        self.membership.apply(Event.FENCED)
        self.heartbeat.interval = FIRST_S

    def _release_instance(self, target: ConsumerGroupTarget) -> Call:
        """Return a request that releases the instance id, if this member has it: the answer to an earlier join was lost."""

        def released(_: object) -> None:
            self._releases = self._may_be_known = False

        def failed(error: KafkaException) -> None:
            self._failed(target, error)

        request = _request(target, self.membership.member_id, PAUSES)
        return Call(request, target.version, self._timeout(target), released, failed)

    def _leave_call(self, target: ConsumerGroupTarget) -> Call | None:
        join = self.joins
        if self.membership.state is not State.MEMBER:
            self._left(target, join, None)
            return None

        def left(_: object) -> None:
            self._left(target, join, None)

        def failed(error: KafkaException) -> None:  # the session times out instead
            self._left(target, join, error)

        # Also a static member: the other members need not wait for it.
        request = _request(target, self.membership.member_id, LEAVES)
        return Call(request, target.version, self._timeout(target), left, failed)

    def _left(self, target: ConsumerGroupTarget, join: int, error: KafkaException | None) -> None:
        self._ended = target
        self._joined = join
        self._view = CoordinatorView()
        self.membership.apply(Event.FENCED)
        self._report(join, Verdict.FENCED, error, idle=True)

    def _report_refusal(self, join: int, meaning: Verdict, error: KafkaException) -> None:
        is_member = self.membership.state is State.MEMBER
        self._report(join, meaning, error)
        if is_member and self._is_overdue():
            self._report(join, Verdict.MOVED, error, overdue=True)

    def _report(
        self, join: int, meaning: Verdict, error: KafkaException | None, *, idle: bool = False, overdue: bool = False
    ) -> None:
        self.reports.append(Report(join, meaning, error, idle, overdue))
        self._request_poll()
        self._native.post(self._notify)


def _lacks(owned: Assignment, assignment: Assignment) -> bool:
    """Return whether the member, by its own heartbeat, does not have all of its assignment.

    If it has unsubscribed from a topic and subscribed to it again, the same assignment brings the topic back.
    """
    return any(not set(partitions).issubset(owned.get(id_, ())) for id_, partitions in assignment.items())


def _request(target: ConsumerGroupTarget, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=target.group, member_id=member_id, member_epoch=epoch, instance_id=target.instance_id
    )


def _introduce(request: Any, target: ConsumerGroupTarget) -> None:
    """Set the fields that do not change while the member lives."""
    request.rack_id = target.rack
    request.rebalance_timeout_ms = target.rebalance_timeout_ms
    request.server_assignor = target.assignor
