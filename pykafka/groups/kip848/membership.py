"""`ConsumerGroupMembership`: a member of a group of the next-generation protocol (KIP-848), whose broker assigns partitions."""

from __future__ import annotations

import logging
import uuid
import weakref
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    FencedInstanceId,
    KafkaException,
    ProtocolClientError,
    RebalanceInProgress,
    UnsupportedVersion,
    error_for,
)
from pykafka.groups.assignment_change import CooperativeAssignmentChange, Generation
from pykafka.groups.coordinator_connection import LEAVE_TIMEOUT_MS, CoordinatorConnection, check_instance_id
from pykafka.groups.heartbeat_sender import IDLE, OVERDUE, Activity
from pykafka.groups.kip848.heartbeats import (
    API,
    SESSION_MS,
    Answer,
    Assignment,
    ConsumerGroupHeartbeats,
    ConsumerGroupTarget,
    HeartbeatSubscription,
    Report,
)
from pykafka.groups.member_epoch import Verdict
from pykafka.groups.polled_membership import POLL_LOCK_INTERVAL_S, PolledMembership
from pykafka.groups.subscription import GroupTopics, TopicWatch
from pykafka.handlers.interrupts import FinalSteps
from pykafka.metrics.listener import JOINED, LEFT, REBALANCE_FAILED, REBALANCED
from pykafka.network.patience import Patience
from pykafka.protocol import wire
from pykafka.protocol.wire.consumer_groups import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.consumer.committed_offsets import Membership, Renewed
    from pykafka.groups.membership import AssignmentHooks
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

#: How often a call that waits for its first assignment checks whether it has to end (s).
WAIT_POLL_INTERVAL_S = 0.05
#: The pause before a member that has an assignment asks for its coordinator again (s).
FIND_AGAIN_S = 0.5
#: The first version of ConsumerGroupHeartbeat with patterns.
PATTERNS_SINCE = 1
#: The pause before the cluster is asked again about an unknown topic id (s).
UNKNOWN_ID_POLL_INTERVAL_S = 1.0

#: What to do about an error that the coordinator answers, by its class's name.
ADVICE = {
    "FencedInstanceId": "another member has taken this group_instance_id; give each member that runs at the same time one of "
    "its own",
    "UnreleasedInstanceId": "another member has this group_instance_id; stop it, or give this one another",
    "GroupIdNotFound": "the group has members of the classic protocol, or is no group of consumers, and the cluster's "
    'group.consumer.migration.policy does not let it change; give protocol="auto" or "classic", or stop the other members',
    "UnsupportedVersion": "the brokers keep no groups of this protocol (group.version is 0, or Kafka is older than 4.0); "
    'give protocol="auto" or "classic"',
    "UnsupportedAssignor": "give assignor= a name of the broker's group.consumer.assignors; by default "
    '"uniform" and "range"',
    "GroupMaxSizeReached": "raise the broker's group.consumer.max.size, or run fewer members",
    "InvalidRegularExpression": "SubscriptionPattern takes the syntax of RE2/J",
}


class ConsumerGroupMembership(PolledMembership):
    """The membership of a consumer whose group's coordinator assigns partitions.

    The heartbeat thread sends heartbeats; the application's calls read the answers, revoke partitions of other members, and add
    new ones. The consumer reads the other partitions meanwhile, and no call waits for other members.

    State: changes under `_polling`, one worker at a time; any worker may read `needs_poll` and call `leave`.

    :param cluster: that has the group
    :param hooks: the consumer
    :param identity: epoch and member id of its commits, which this changes
    :param configs: those of `DEFAULT_CONFIG`; others are ignored
    :raises ValueError: the `group_instance_id` is not one
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        "group_id": "",
        "group_instance_id": None,
        "max_poll_interval_ms": 300000,
        "retry_backoff_ms": 100,
        "metadata_max_age_ms": 60000,
        "assignor": None,
        "client_rack": "",
    }

    def __init__(self, cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, **configs: Any) -> None:
        self.config = config = dict[str, Any]()
        for name, default in self.DEFAULT_CONFIG.items():
            config[name] = configs.get(name, default)
        check_instance_id(config["group_instance_id"])
        self._cluster = cluster
        self._handler = cluster.handler
        self._hooks = hooks
        self.identity = identity
        self.group_id = config["group_id"]
        self.activity = Activity()
        self.connection = CoordinatorConnection(cluster, self.group_id, config["retry_backoff_ms"], identity.listener)
        # When the member asked to join, and when it began to take its last assignment, on the handler's clock (s).
        self._join_started = self._rebalance_started = 0.0
        #: Set when there may be reports.
        self.changed = self._handler.Event()
        self._topics = GroupTopics(cluster)
        self._topic_watch = TopicWatch(cluster, self.group_id, self._topics, config["metadata_max_age_ms"] / 1000)
        self._ids = TopicIds(cluster)
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")
        self._set_up_polling()
        self._forget()
        self._handler.at_fork(self._after_fork)

    def _forget(self) -> None:
        before: CooperativeAssignmentChange | None = getattr(self, "_change", None)
        member_id = str(uuid.UUID(int=self._handler.random.getrandbits(128), version=4))
        self._generation = Generation(member_id)
        self._change: CooperativeAssignmentChange = CooperativeAssignmentChange(
            self._hooks, self._generation, self._topics.is_missing, self.activity
        )
        if before is not None:
            before.end(self._change)
        self.heartbeats = self._new_heartbeats()
        self.identity.renew = self._renewed
        self.identity.out = self._commit_refused
        #: The answer whose assignment the hooks have.
        self._seen: Answer | None = None
        #: Whether this member has to join.
        self._is_out = True
        #: Why this member does not join again.
        self._ended_by: KafkaException | None = None
        self._find_at = 0.0
        self._owes_owned = False  # whether the heartbeats do not know yet which partitions are left
        self._topic_watch.forget()

    def _new_heartbeats(self) -> ConsumerGroupHeartbeats:
        heartbeats = ConsumerGroupHeartbeats(
            self._handler, self.member_id, self.activity, self.config["max_poll_interval_ms"], self._notifier()
        )
        heartbeats.hooks = weakref.ref(self._hooks)
        heartbeats.listener = self.identity.listener
        return heartbeats

    def _notifier(self) -> Callable[[], object]:
        # weak, as the heartbeat thread holds it: a consumer that the application has dropped has to leave its group
        reference = weakref.ref(self)

        def notify() -> None:
            membership = reference()
            if membership is not None:
                membership.changed.set()  # of this process: a fork makes another event

        return notify

    def _after_fork(self) -> None:
        # The member is the parent's; this process has to become one of its own.
        self._seen, self._ended_by, self._is_out = None, None, True
        self.connection.after_fork()
        self.changed = self._handler.Event()
        self.activity.waiting = []
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")
        self._generation.member_id = str(uuid.uuid4())  # the handler's random numbers are the parent's
        self._generation.generation_id, self._generation.breaks = -1, self._generation.breaks + 1
        self.heartbeats = self._new_heartbeats()
        self._leave_to_parent()

    # -- the application's side ----------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The epoch of this member; -1 while it is out of the group."""
        return self._generation.generation_id

    @property
    def member_id(self) -> str:
        """The member's id, for its life."""
        return self._generation.member_id

    @property
    def topics(self) -> frozenset[str]:
        """The topics that this member reads now: those named, and those that patterns have matched, here or at the broker."""
        subscription = self._subscription
        if subscription is None:
            return frozenset()
        given = {key.topic for key in self.assignment} if subscription.broker_pattern is not None else set()
        return subscription.topics | given

    @property
    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; costs no more than a look at the clock."""
        if self._subscription is None:
            return False
        heartbeats = self.heartbeats
        return (
            heartbeats.present is not self._seen
            or self._seen is None
            or bool(heartbeats.reports or self._change.errors)
            or self._change.pending is not None
            or self._change.is_unfinished
            or self._owes_owned
            or self._topic_watch.is_due()
        )

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and the coordinator knows that."""
        seen = self._seen
        return (
            seen is not None
            and self.heartbeats.present is seen
            and not self.heartbeats.reports
            and not self._ids.unknown
        )

    # -- taking part -----------------------------------------------------------------------------------------------------

    def _poll(self, deadline: float | None) -> None:
        if self._ended_by is not None:
            raise self._ended_by.again()
        try:
            self._participate(deadline)
        except FencedInstanceId as error:
            self._ended_by = error
            raise
        except KafkaException:
            if self._subscription is None:  # `leave` has ended it
                return
            raise

    def _participate(self, deadline: float | None) -> None:
        failures = 0
        while (subscription := self._subscription) is not None:
            self.changed.clear()
            self._handle_reports()
            self._check_topics(deadline)
            try:
                self._ensure_coordinator(deadline)
            except KafkaException as error:
                if not self.connection.may_try_again(error):
                    raise
                self.connection.mark_unknown(error)
                failures += 1
                late = self.assignment or (deadline is not None and self._handler.now() >= deadline)
                if late or self._hooks.wakeup_requested:
                    text = "group %s: the coordinator cannot be found: %s; trying again"
                    self._cluster.limiter.warn(log, self.group_id, text, self.group_id, error)
                    return
                self.connection.pause(failures, deadline)
                continue
            if subscription is self._subscription:
                self._reconcile(deadline)
            if self._may_return() or not self._wait(deadline):
                return

    def _may_return(self) -> bool:
        """Return whether a call need not wait: the member has an assignment, or the coordinator has none for it."""
        return bool(self.assignment) or (
            self._seen is not None and not self.heartbeats.reports and not self._ids.unknown
        )

    def _wait(self, deadline: float | None) -> bool:
        """Wait for reports; return False if the call has to end."""
        while True:
            left = (
                WAIT_POLL_INTERVAL_S if deadline is None else min(WAIT_POLL_INTERVAL_S, deadline - self._handler.now())
            )
            if left <= 0 or self._hooks.wakeup_requested or self.connection.closing or self._subscription is None:
                return False
            if self.changed.wait(left):
                return True

    def _handle_reports(self) -> None:
        """Change the membership as the reports of the heartbeat thread demand."""
        reports = self.heartbeats.reports
        while reports:
            report = reports[0]
            present = report.join == self.heartbeats.joins
            if present and report.verdict not in (Verdict.MOVED, Verdict.WAITS):
                self._out(report)  # a timeout or Ctrl-C may end this: then the next call does it again
            if reports and reports[0] is report:
                reports.popleft()
            if present:
                self._handle_report(report)

    def _handle_report(self, report: Report) -> None:
        error = report.error
        if report.overdue:
            log.warning(OVERDUE, self.group_id, SESSION_MS, error)
        elif report.idle:
            log.error(IDLE, self.group_id, self.config["max_poll_interval_ms"])
        elif report.verdict is Verdict.FENCED:
            log.warning("group %s: %s is out of the group, and joins again: %s", self.group_id, self.member_id, error)
        elif report.verdict is Verdict.MOVED:
            self.connection.mark_unknown(error)
        elif report.verdict is Verdict.WAITS:
            text = "group %s: another member has the group_instance_id %r: waiting until it leaves, or its session ends: %s"
            instance_id = self.config["group_instance_id"]
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, instance_id, error)
        elif error is not None:
            self._report(REBALANCE_FAILED, error)
            raise self._explained(error)

    def _report(self, kind: str, detail: object, seconds: float = 0.0) -> None:
        """Report a step to the listener of the client."""
        if self.identity.listener is not None:
            self.identity.listener.on_event(kind, f"group {self.group_id}", seconds, detail)

    def _out(self, report: Report) -> None:
        """Lose the assignment, and be out of the group until the next join."""
        self._report(LEFT, "max_poll_interval_ms is over" if report.idle else report.error)
        self._is_out = True
        self._generation.generation_id = -1
        self._generation.breaks += 1
        self._seen = None
        if report.idle or report.verdict is not Verdict.FENCED:
            self.heartbeats.set_target(None)
        self._change.prepare(self.topics)

    def _explained(self, error: KafkaException) -> KafkaException:
        advice = ADVICE.get(type(error).__name__)
        if advice is None or not isinstance(error, ProtocolClientError):
            return error.again()
        return error_for(error.ERROR_CODE, f"group {self.group_id}: {advice}", broker=error.broker, api=API)

    # -- the coordinator -------------------------------------------------------------------------------------------------

    def _ensure_coordinator(self, deadline: float | None) -> None:
        """Find the coordinator unless it is known, and send heartbeats there; join if this member is out."""
        coordinator = None if self.connection.is_unknown() else self.connection.coordinator
        target = self.heartbeats.target
        is_known = coordinator is not None and target is not None and target.broker is coordinator
        if self.connection.closing or (is_known and not self._is_out):
            return
        left_ms = self.connection.limit_ms(deadline)
        if coordinator is None and self.assignment:
            if self._handler.now() < self._find_at:
                return
            self._find_at = self._handler.now() + FIND_AGAIN_S
            left_ms = 0
        target = self._target_at(self.connection.find(left_ms), deadline)
        if self._is_out:
            self._join_started = self._handler.now()
            self.heartbeats.join()
            log.info("group %s: joining as %s", self.group_id, self.member_id)
        self.heartbeats.set_target(target)
        self._is_out = False  # not before: after an interrupt the next call joins

    def _target_at(self, broker: Node, deadline: float | None) -> ConsumerGroupTarget:
        config, subscription = self.config, self._subscription
        left_ms = self.connection.limit_ms(deadline)
        try:
            version = broker.api_version(ConsumerGroupHeartbeatRequest, timeout_ms=left_ms)
        except UnsupportedVersion as error:
            raise self._explained(error) from error
        if version < PATTERNS_SINCE and subscription is not None and subscription.broker_pattern is not None:
            raise UnsupportedVersion(
                f"group {self.group_id}: brokers match a SubscriptionPattern from Kafka 4.0 on; give a compiled pattern",
                broker=broker.address,
                api=API,
            )
        return ConsumerGroupTarget(
            broker,
            self.group_id,
            version,
            config["group_instance_id"],
            config["client_rack"] or None,
            config["max_poll_interval_ms"],
            config["assignor"],
        )

    # -- the assignment ----------------------------------------------------------------------------------------------------

    def _check_topics(self, deadline: float | None) -> None:
        """Check regularly whether topics have come or gone, and send the present subscription."""
        subscription = self._subscription
        if subscription is None:
            return
        if self._topic_watch.is_due():
            left_ms = (lambda: None) if deadline is None else partial(self.connection.left_ms, deadline)
            self._topic_watch.have_changed(subscription, left_ms)
            self._change.errors += self._topic_watch.refused(subscription)
        names = subscription.topics - self._topic_watch.refused_names
        present = HeartbeatSubscription(tuple(sorted(names)), subscription.broker_pattern)
        if present == self.heartbeats.subscription and not self._owes_owned:
            return
        self._owes_owned = True  # also for the next call, if an interrupt ends this one
        self.heartbeats.set_subscription(present)
        if self._generation.generation_id >= 0:
            # before the coordinator knows it; the coordinator assigns again what a new pattern of its matches
            self._change.prepare(names)
            self.heartbeats.set_owned(self._ids.assignment(self.assignment))
        self._owes_owned = False

    def _resumed(self) -> None:
        self._owes_owned = self._ids.unknown = True  # `_reconcile` looks again: the subscription may have come back

    def _reconcile(self, deadline: float | None) -> None:
        """Revoke what the coordinator has taken away, add what it has assigned, and send it the result."""
        change, answer = self._change, self.heartbeats.present
        if change.is_adding and not self.heartbeats.reports:
            self._assign_pending(change)  # a timeout or Ctrl-C has ended a hook
        is_new = answer is not self._seen or change.pending is not None or self._ids.unknown
        if answer is None or self.heartbeats.reports or not is_new:
            return
        left_ms = self.connection.limit_ms(deadline)
        keys, recreated = self._ids.keys(answer.assignment, 0 if self.assignment and left_ms is None else left_ms)
        subscription = self._subscription
        if subscription is None or change is not self._change:
            return
        if subscription.broker_pattern is None or answer.subscription != self.heartbeats.subscription:
            keys = frozenset(key for key in keys if key.topic in subscription.topics)
        self._generation.generation_id = answer.epoch
        self.identity.generation_id, self.identity.member_id = answer.epoch, self._generation.member_id
        change.lose_recreated(recreated)
        if keys != self.assignment or self._seen is None or change.pending is not None:
            if not self.heartbeats.claim(self._ids.assignment(self.assignment | keys), answer):
                self._reconcile(deadline)
                return
            log.info("group %s: the assignment of epoch %d: %s", self.group_id, answer.epoch, sorted(keys))
            self._rebalance_started = now = self._handler.now()
            if self._seen is None:
                self._report(JOINED, f"epoch {answer.epoch}, member {self.member_id}", now - self._join_started)
            change.pending = keys
            self._assign_pending(change)
        self._seen = answer

    def _assign_pending(self, change: CooperativeAssignmentChange) -> None:
        change.assign_pending()
        change.needs_rejoin = False
        if change is self._change:  # else a hook has left the group
            self.heartbeats.set_owned(self._ids.assignment(change.assignment))
        seconds = self._handler.now() - self._rebalance_started
        self._report(REBALANCED, f"epoch {self.generation}, member {self.member_id}", seconds)

    def _renewed(self, identity: tuple[int, str], keys: Collection[TopicPartition], deadline: float) -> Renewed | None:
        """Wait for the epoch that the coordinator has for this member, for a commit that named a former one.

        :param identity: that the commit named
        :param keys: its partitions
        :param deadline: of the wait, of the handler's clock (s)
        :returns: the identity for the next attempt, and those of `keys` that this member has had without a break; None: it is
            out of the group
        :raises RebalanceInProgress: it takes longer than that
        """
        change, generation = self._change, self._generation
        self.heartbeats.hurry()
        while True:
            answer = self.heartbeats.present
            if answer is None or change.is_lost or identity[1] != generation.member_id:
                return None
            if answer.epoch != identity[0]:
                self.identity.generation_id = answer.epoch
                return (answer.epoch, identity[1]), change.owned_since(keys, identity[0])
            if self._handler.now() >= deadline:
                raise RebalanceInProgress(
                    f"group {self.group_id}: the epoch of this member is not known; commit again later"
                )
            self._handler.sleep(POLL_LOCK_INTERVAL_S)

    def _commit_refused(self, identity: tuple[int, str], error: KafkaException) -> None:
        """Take the answer to a commit that this member is out of the group: the next call joins again.

        :param identity: that the commit named
        """
        if identity == (self._generation.generation_id, self._generation.member_id):
            self.heartbeats.commit_refused(error)

    # -- leaving -------------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """End a wait of another worker in `poll`, and let it begin none; call `close` next."""
        self.connection.closing = True
        self.changed.set()
        self.connection.drop_connection()

    def close(
        self, *, timeout_ms: int | None = None, leave_group: bool | None = None, wait: float | None = None
    ) -> None:
        """End heartbeats, and leave the group, as `AbstractCoordinator.close` does; the group expects a static member back."""
        if self.heartbeats.has_ended and not self.connection.closing:
            self._ending.wait(wait)
            return
        self.connection.closing = True
        within_ms = LEAVE_TIMEOUT_MS if timeout_ms is None else timeout_ms
        self._ending.take(partial(self._close, self.heartbeats, within_ms, leave_group), wait)

    def _close(self, heartbeats: ConsumerGroupHeartbeats, timeout_ms: int, leave_group: bool | None) -> None:
        deadline = self._handler.now() + timeout_ms / 1000
        try:
            target = heartbeats.target
            heartbeats.set_target(None)  # no join begins any more
            # Over two connections the broker may take the request to leave first, and then have a member that is gone.
            last_wait = deadline - timeout_ms / 2000
            while heartbeats.is_joining and heartbeats.is_alive and self._handler.now() < last_wait:
                self._handler.sleep(POLL_LOCK_INTERVAL_S)
            heartbeats.stop()
            if target is not None and heartbeats.may_be_member:
                request = heartbeats.leaving(target, leave_group)
                leave = partial(self._leave_once, request, target.version)
                if request is not None:
                    self.connection.leave_by(leave, self.member_id, self.connection.left_ms(deadline))
            self.connection.drop_connection()
            self.connection.coordinator = None
        finally:
            self.connection.closing = False

    def _leave_once(self, request: Any, version: int, coordinator: Node, deadline: float) -> int:
        return int(self.connection.call(request, coordinator, deadline, version=version).error_code)


class TopicIds:
    """The ids and names of the topics of one member.

    State: belongs to the worker that polls.

    :param cluster: that has them
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster
        self._names: dict[UUID, str] = {}
        self._ids: dict[str, UUID] = {}
        self._ask_at = 0.0
        # Asks for calls whose own time is too short.
        self._patience = Patience(cluster.handler, "names of topics")
        #: Whether the last assignment had topics that the cluster does not know (yet).
        self.unknown = False

    def keys(self, assignment: Assignment, timeout_ms: int | None) -> tuple[frozenset[TopicPartition], set[str]]:
        """Return the partitions of an assignment without those of unknown topics, and the topics that have a new id.

        :param timeout_ms: for asking the cluster; by default each broker has the socket timeout
        """
        lacking = assignment.keys() - self._names.keys()
        if lacking and timeout_ms is not None and self._patience.wait(timeout_ms / 1000):
            lacking = assignment.keys() - self._names.keys()
        if lacking and self._patience.is_over:
            self._ask(lacking, timeout_ms)
        unknown = False
        keys: list[TopicPartition] = []
        recreated: set[str] = set()
        for id_, parts in assignment.items():
            name = self._names.get(id_)
            if name is None:
                unknown = True
                continue
            if self._ids.get(name, id_) != id_:
                recreated.add(name)
            self._ids[name] = id_
            for part in parts:
                keys.append(TopicPartition(name, part))
        self.unknown = unknown  # once: other workers read it
        return frozenset(keys), recreated

    def assignment(self, keys: Collection[TopicPartition]) -> Assignment:
        """Return partitions as heartbeats have them."""
        by_id: dict[UUID, list[int]] = {}
        for topic, part in sorted(keys):
            by_id.setdefault(self._ids[topic], []).append(part)
        return {id_: tuple(parts) for id_, parts in by_id.items()}

    def _ask(self, ids: Collection[UUID], timeout_ms: int | None) -> None:
        now = self._cluster.handler.now()
        if self.unknown and now < self._ask_at:
            return
        self._ask_at = now + UNKNOWN_ID_POLL_INTERVAL_S
        topics: list[wire.MetadataRequest.Topic] = []
        for id_ in ids:
            topics.append(wire.MetadataRequest.Topic(topic_id=id_, name=None))
        request = wire.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        try:
            self._learn(request, timeout_ms)
        except KafkaException as error:
            log.info("the names of the topics %s are not known: %s", ", ".join(map(str, ids)), error)
            self._patience.take_over(error, timeout_ms, self._learn, request)

    def _learn(self, request: wire.MetadataRequest, timeout_ms: int | None) -> None:
        response = self._cluster.call(request, within_ms=timeout_ms)
        for topic in response.topics:
            if topic.name and not topic.error_code:
                self._names[topic.topic_id] = topic.name
