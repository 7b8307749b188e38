"""`ClassicMembership`: a member of a group of the classic protocol that reads many topics, by names or by patterns.

`MemberAssignors`: what it sends when it joins, and the assignments that it makes as the leader.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from pykafka.common import TopicPartition
from pykafka.exceptions import FencedInstanceId, InconsistentGroupProtocol, KafkaException, RebalanceInProgress
from pykafka.groups.assignment_change import AssignmentChange, CooperativeAssignmentChange, EagerAssignmentChange
from pykafka.groups.assignors import assignors_of
from pykafka.groups.assignors.abstract import by_topic, readers_of
from pykafka.groups.classic.coordinator import AbstractCoordinator
from pykafka.groups.classic.state import State
from pykafka.groups.coordinator_connection import LEAVE_TIMEOUT_MS
from pykafka.groups.options import CONSUMER_GROUP_HEARTBEAT, READY_SINCE
from pykafka.groups.polled_membership import PolledMembership
from pykafka.groups.subscription import GroupTopics, TopicWatch
from pykafka.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    assignment_bytes,
)

if TYPE_CHECKING:
    from pykafka.consumer.committed_offsets import Membership, Renewed
    from pykafka.groups.assignors.abstract import AbstractPartitionAssignor, Racks
    from pykafka.groups.membership import AssignmentHooks
    from pykafka.handlers import Handler
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)
#: A logger of its own, so that applications can silence it.
advice = logging.getLogger(f"{__name__}.advice")
ADVICE = (
    "group %s: this member uses the classic protocol, and the brokers have the next-generation one (KIP-848), whose "
    'rebalances do not stop the members: leave protocol= out, or give "auto" if a configuration names the group; to silence '
    'this line, logging.getLogger("%s").setLevel(logging.WARNING)'
)
#: The mark of a client (`Cluster.kept`) that has had this advice.
ADVISED = "next_protocol_advised"
#: The longest reason that brokers get (characters): Java's limit.
REASON_MAX = 255

#: The version of a member's metadata that has its owned partitions, their generation, and its rack.
WHOLE_VERSION = 3


class MemberAssignors:
    """The assignors of a member, and the topics that it has assigned as the leader.

    State: belongs to the worker that joins.

    :param cluster: that has the topics
    :param group_id: the group, for errors
    :param assignors: those that the member knows, the best first
    :raises ValueError: there are none
    """

    def __init__(
        self,
        cluster: BaseCluster,
        group_id: str,
        assignors: Iterable[AbstractPartitionAssignor | type[AbstractPartitionAssignor]],
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._assignors: dict[str, AbstractPartitionAssignor | type[AbstractPartitionAssignor]] = {}
        #: Whether all of them are cooperative.
        self.cooperative = True
        for assignor in assignors:
            self._assignors[assignor.name] = assignor
            self.cooperative = self.cooperative and assignor.cooperative
        if not self._assignors:
            raise ValueError("assignors must name one at least, such as RangePartitionAssignor")
        self.topics = GroupTopics(cluster)
        #: This member's last assignment, and its generation.
        self._last: tuple[Collection[TopicPartition], int] = ((), -1)

    def protocols(
        self, topics: Iterable[str], rack: str = "", owned: Collection[TopicPartition] = (), enforced: bool = False
    ) -> Sequence[tuple[str, bytes]]:
        """Return the name of each assignor, the best first, with the metadata that names this member's topics.

        :param rack: of this member; empty for none
        :param owned: the partitions that a cooperative member reads while it joins
        :param enforced: whether to name this member's generation: metadata that changes makes the group rebalance
        """
        names = frozenset(topics)
        protocols = []
        for name, assignor in self._assignors.items():
            subscription = assignor.metadata(names)
            if (data := assignor.user_data(*self._last)) is not None:
                subscription.user_data = data
            # librdkafka, as the leader, crashes if a cooperative member owns "unknown"
            if rack or assignor.cooperative or enforced:
                subscription.version, subscription.rack_id = WHOLE_VERSION, rack or None
            if owned and assignor.cooperative:
                subscription.owned_partitions = by_topic(owned)
            if enforced or (owned and assignor.cooperative):
                subscription.generation_id = self._last[1]
            protocols.append((name, bytes(subscription.get_bytes())))
        return protocols

    def assign(
        self,
        protocol: str,
        members: Sequence[tuple[str, bytes]],
        timeout_ms: int | None = None,
        instance_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> Mapping[str, bytes]:
        """Return each member's assignment of all topics that members subscribe to.

        :param protocol: the assignor that the coordinator has chosen
        :param members: (member id, metadata) pairs
        :param timeout_ms: for asking about unknown topics (ms); by default each broker has the socket timeout
        :param instance_ids: {member id: `group_instance_id`} of static members
        :raises InconsistentGroupProtocol: this member does not know the assignor
        """
        subscriptions: dict[str, ConsumerProtocolSubscription] = {}
        has_racks = False
        for member, metadata in members:
            subscription = subscriptions[member] = ConsumerProtocolSubscription.from_bytestring(metadata)
            subscription.group_instance_id = instance_ids.get(member)
            has_racks = has_racks or bool(subscription.rack_id)
        topics = list(readers_of(subscriptions))
        if None in map(self._cluster.topic_metadata, topics):
            self._cluster.update(topics, timeout_ms)
        partitions: dict[str, list[int]] = {}
        self.topics.assigned_topics = {}
        for name in topics:
            partitions[name] = self.topics.ids(name)
            self.topics.assigned_topics[name] = len(partitions[name])
        racks = self._racks(topics, timeout_ms) if has_racks else {}
        found = {}
        for member, assignment in self._named(protocol).assign_near(partitions, subscriptions, racks).items():
            found[member] = assignment_bytes(assignment)
        return found

    def _racks(self, topics: list[str], timeout_ms: int | None) -> Racks:
        """Return the racks of the replicas of each partition, also those that are down; nothing if brokers do not answer."""
        try:
            metadata = self._cluster.ask_metadata(topics, timeout_ms)
        except KafkaException as error:
            log.info("group %s: assigns without regard to racks: %s", self._group_id, error)
            return {}
        racks = {broker.node_id: broker.rack for broker in metadata.brokers}
        return {
            TopicPartition(topic.name, part.partition_index): frozenset(
                rack for node in part.replica_nodes if (rack := racks.get(node))
            )
            for topic in metadata.topics
            if topic.name
            for part in topic.partitions
        }

    def accept(
        self, protocol: str, content: bytes, generation: int = -1, topics: Collection[str] | None = None
    ) -> list[TopicPartition]:
        """Return an assignment as partitions, without those of topics that the member does not subscribe to.

        :param protocol: the assignor that has made it, which is called with it
        :param content: of the SyncGroup response
        :param generation: of the group
        :param topics: the subscription that the member joined with; None for any
        """
        assignment = ConsumerProtocolAssignment.from_bytestring(content)
        self._named(protocol).on_assignment(assignment)
        keys: list[TopicPartition] = []
        foreign = set()
        for topic, ids in assignment.partition_assignment:
            for id_ in ids:
                if topics is None or topic in topics:
                    keys.append(TopicPartition(topic, id_))
                else:
                    foreign.add(topic)
        if foreign:
            text = "group %s: the leader assigned topics %s, which this member does not subscribe to; it does not read them"
            self._cluster.limiter.warn(log, self._group_id, text, self._group_id, ", ".join(sorted(foreign)))
        self._last = keys, generation
        return keys

    def _named(self, name: str) -> AbstractPartitionAssignor | type[AbstractPartitionAssignor]:
        assignor = self._assignors.get(name)
        if assignor is None:
            raise InconsistentGroupProtocol(
                f"group {self._group_id} has the assignor {name!r}, and this member knows "
                f"{', '.join(sorted(self._assignors))}; give it that assignor by assignors="
            )
        return assignor


class BackgroundJoin:
    """One attempt to take part in a rebalance, by a worker of its own, until the member has its assignment or is out.

    From `start` until `done`, the membership belongs to that worker.

    :param handler: supplies the worker
    :param join: called with this object; returns soon after `cancelled` is set
    :param on_end: called on that worker at its end
    :param name: of the worker
    """

    def __init__(
        self, handler: Handler, join: Callable[[BackgroundJoin], None], on_end: Callable[[], object], name: str
    ) -> None:
        self._handler = handler
        self._join = join
        self._on_end = on_end
        self._name = name
        self._ended = handler.Event()
        # Whether the worker has begun, under `_lock`.
        self._begun = False
        self._lock = handler.Lock()
        #: Set by the member that leaves, or could not start the worker.
        self.cancelled = False
        #: The error that has ended it; None: the member has its assignment, or is out.
        self.error: Exception | None = None

    def start(self) -> None:
        """Start the worker.

        :raises RuntimeError: the system cannot start a thread at present
        """
        try:
            self._handler.spawn(self._run, name=self._name)
        except BaseException:  # after an interrupt the worker may run all the same
            with self._lock:
                self.cancelled = self.cancelled or not self._begun
            raise

    def cancel(self) -> None:
        """Keep the worker from its start, or end it soon."""
        with self._lock:
            self.cancelled = True

    @property
    def done(self) -> bool:
        """Whether the worker has ended."""
        return self._ended.is_set() or (self.cancelled and not self._begun)

    def wait(self, seconds: float) -> bool:
        """Wait until the worker has ended; return False if the time (s) is up before."""
        return self.done or self._ended.wait(seconds)

    def _run(self) -> None:
        with self._lock:
            if self.cancelled:
                return
            self._begun = True
        try:
            self._join(self)
        except Exception as error:  # noqa: BLE001 - `poll` raises it in a call of the application
            self.error = error
        finally:
            self._ended.set()
            self._on_end()


class ClassicMembership(AbstractCoordinator, PolledMembership):
    """The membership of a consumer of many topics.

    The application's calls read `needs_poll`, and call `poll`, which takes part in rebalances, and alone calls the hooks. Eager
    members revoke the whole assignment before each rebalance. Cooperative ones, whose assignors all are, keep it: a worker of
    their own, `BackgroundJoin`, joins and syncs meanwhile. The heartbeat thread sends heartbeats beside both.

    State: changes under `_polling`, one worker at a time; any worker may read `needs_poll` and call `leave`. While
    `_background` is not done, the base class's state is that worker's.

    :param cluster: that has the group
    :param hooks: the consumer
    :param identity: generation and member id of its commits, which this changes
    :param configs: as for `AbstractCoordinator`; `assignor`: one, or several, the best first; `client_rack`
    :raises TypeError, ValueError: one of the configs is wrong
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        **AbstractCoordinator.DEFAULT_CONFIG,
        "assignor": "range",
        "client_rack": "",
    }

    def __init__(self, cluster: BaseCluster, hooks: AssignmentHooks, identity: Membership, **configs: Any) -> None:
        super().__init__(cluster, events=identity.listener, **configs)
        self._hooks = hooks
        self.identity = identity
        self._assignors = MemberAssignors(cluster, self.group_id, assignors_of(self.config["assignor"], "assignor"))
        self._topics = self._assignors.topics
        self._topic_watch = TopicWatch(cluster, self.group_id, self._topics, self.config["metadata_max_age_ms"] / 1000)
        self._kind = CooperativeAssignmentChange if self._assignors.cooperative else EagerAssignmentChange
        self.sender.hooks = weakref.ref(hooks)
        self.pending_join.interrupted = lambda: self._background is None and hooks.wakeup_requested
        self._background: BackgroundJoin | None = None
        self._set_up_polling()
        self._forget()

    def _forget(self) -> None:
        before = getattr(self, "_change", None)
        self._change: AssignmentChange = self._kind(
            self._hooks, self.membership, self._topics.is_missing, self.activity
        )
        if before is not None:
            before.end(self._change)
        self.identity.renew = self._renewed if self._change.cooperative else None
        self.identity.out = self.sender.commit_refused
        self._joined_for: frozenset[str] = frozenset()
        #: Why this member does not join again.
        self._ended_by: KafkaException | None = None
        self._topic_watch.forget()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._ended_by = None
        self._background = None
        self._leave_to_parent()

    # -- the application's side ----------------------------------------------------------------------------------------

    @property
    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; costs no more than a look at the clock."""
        if self._subscription is None:
            return False
        change, background = self._change, self._background
        if background is not None:
            return background.done or bool(change.errors)
        return (
            self.membership.state is not State.STABLE
            or bool(self.sender.reports)
            or change.pending is not None
            or change.needs_rejoin
            or bool(change.errors)
            or self._topic_watch.is_due()
        )

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and no rebalance is under way as far as it knows."""
        change = self._change
        stable = self.membership.state is State.STABLE and self._background is None
        return stable and change.pending is None and not change.needs_rejoin

    def enforce_rebalance(self, reason: str) -> None:
        """Make the group rebalance from the next `poll` on (KIP-568); do nothing if one is under way.

        The coordinator rebalances for the leader, and for other members if their metadata has changed: so it changes.

        :param reason: for the coordinator's log
        """
        if self._subscription is None or not self.is_stable:
            return
        self.join_reason = reason[:REASON_MAX]
        self._change.needs_rejoin = True
        self._wake_hooks()

    # -- taking part -----------------------------------------------------------------------------------------------------

    def _poll(self, deadline: float | None) -> None:
        if self._ended_by is not None:
            raise self._ended_by.again()
        background = self._background
        if background is not None and not background.done:
            return
        self._deadline = deadline
        try:
            late = self._participate(deadline)
        except FencedInstanceId as error:  # joining again would put out the member that has taken its place
            self._ended_by = error
            self._change.revoke_all()
            raise
        except KafkaException:
            if self._subscription is None:  # `leave` has ended it
                return
            raise
        if late is not None:
            text = "group %s: not a member yet: %s"
            self._cluster.limiter.warn(log, self.group_id, text, self.group_id, late, level=logging.INFO)

    def _participate(self, deadline: float | None) -> KafkaException | None:
        """Take part until the hooks have this member's assignment, or `BackgroundJoin` joins meanwhile.

        :returns: why this member has no assignment yet, if the deadline came first
        """
        background, self._background = self._background, None
        if background is not None and background.error is not None:
            raise background.error
        subscription = self._subscription
        if subscription is not None and self._topic_watch.is_due():  # topics or partitions may have come or gone
            self.refresh_if_old()
            if self._topic_watch.have_changed(subscription, self._left_ms):
                self.request_rejoin()
            self._change.errors += self._topic_watch.refused(subscription)
        while True:
            if self._change.cooperative and self._joins_in_background():
                return None
            late = self.join_until_stable(deadline)
            if late is not None:
                return late
            self._assign_pending()
            if not self.need_rejoin():
                return None

    def _joins_in_background(self) -> bool:
        """Give the hooks what a cooperative member has got; if it has to rejoin, start a `BackgroundJoin`, and return True."""
        rejoins = self.need_rejoin()
        while self._change.pending is not None and self.membership.generation_id >= 0:
            self._assign_pending()  # also before another rebalance: the member joins with all partitions that it owns
            rejoins = self.need_rejoin()
        if not rejoins:
            return False
        self._change.prepare(self.topics)
        return bool(self.assignment) and self._start_background_join()

    def _assign_pending(self) -> None:
        """Give the hooks the new assignment, but for topics that were unsubscribed since this member joined."""
        change, topics = self._change, self.topics
        if change.pending is not None and topics != self._joined_for:
            change.pending = frozenset(key for key in change.pending if key.topic in topics)
        change.assign_pending()

    def _start_background_join(self) -> bool:
        """Join and sync by a worker; return whether it has started."""
        self._deadline = None
        self._background = background = BackgroundJoin(
            self._handler, self._join_in_background, self._wake_hooks, f"pykafka.Joining.{self.group_id}"
        )
        try:
            background.start()
        except RuntimeError as error:
            log.error("group %s: no worker can join, so reading waits for the rebalance: %s", self.group_id, error)
            self._background = None
            return False
        return True

    def _wake_hooks(self) -> None:
        self._hooks.request_poll()
        self._hooks.wake()

    def _join_in_background(self, background: BackgroundJoin) -> None:
        failures = 0
        while self.membership.state is not State.STABLE:
            try:
                self.connection.find()
                self._handle_reports()
                if self._is_over(background):
                    return
                self.join_and_sync()
            except KafkaException as error:
                if background.cancelled:
                    return
                if not self.connection.may_try_again(error):
                    raise
                if self._is_over(background):
                    return
                log.info("group %s: %s; joining again", self.group_id, error)
                failures = 1 if isinstance(error, RebalanceInProgress) else failures + 1
                self.connection.pause(failures)

    def _is_over(self, background: BackgroundJoin) -> bool:
        """Return whether to join no more: `poll` has to report the assignment lost if the member is out of the group."""
        return background.cancelled or self.membership.generation_id < 0

    @property
    def _is_joining_in_background(self) -> bool:
        return self._background is not None

    def _end_background_join(self) -> None:
        """End the worker that joins; `abort` has ended what it waits for."""
        background, self._background = self._background, None
        if background is not None:
            background.cancel()
            background.wait(LEAVE_TIMEOUT_MS / 1000)

    def _renewed(self, identity: tuple[int, str], keys: Collection[TopicPartition], deadline: float) -> Renewed | None:
        """Wait for the end of a rebalance in which this member keeps its assignment, for a commit that was refused meanwhile.

        :param identity: that the commit named
        :param keys: its partitions
        :param deadline: of the wait, of the handler's clock (s)
        :returns: the identity for the next attempt, and those of `keys` that this member has had without a break; None: it is
            out of the group
        :raises RebalanceInProgress: it takes longer than that
        """
        background, change = self._background, self._change
        # The coordinator may wait for a member that was killed, until its session ends: so the commit waits all of its time.
        if background is not None and not background.wait(max(deadline - self._handler.now(), 0.0)):
            raise RebalanceInProgress(f"group {self.group_id}: the rebalance is not over; commit again later")
        now = self.identity.generation_id, self.identity.member_id
        if not isinstance(change, CooperativeAssignmentChange) or now == identity or now[1] != identity[1]:
            return None
        return None if change.is_lost else (now, change.owned_since(keys, identity[0]))

    def need_rejoin(self) -> bool:
        """Return whether this member has to join again: the group rebalances, or this member's topics have changed."""
        if self._subscription is None:
            return False
        if self._joined_for != self._subscription.topics or self._change.needs_rejoin:
            self.request_rejoin()
        return super().need_rejoin()

    # -- what a group of consumers has -----------------------------------------------------------------------------------

    def protocol_type(self) -> str:
        """Return the kind of the group's members: "consumer"."""
        return "consumer"

    def group_protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the name of each assignor, the best first, with the metadata that names this member's topics."""
        topics, leaves = self.topics, self._subscription is None  # in this order: `leave` may come between
        if not leaves:  # else a worker joins for the last commit, until which this member needs what it owns
            self._joined_for = topics
        change = self._change
        change.needs_rejoin = False
        owned = change.assignment if change.cooperative else ()
        enforced = self.join_reason is not None
        return self._assignors.protocols(self._joined_for, self.config["client_rack"], owned, enforced)

    def _on_join_prepare(self, generation: int, member_id: str) -> None:
        self._change.prepare(self.topics)

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, bytes]:
        return self._assignors.assign(protocol, members, self._left_ms(), self.instance_ids)

    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        pending = frozenset(self._assignors.accept(protocol, member_assignment, generation, self._joined_for))
        self.identity.generation_id, self.identity.member_id = generation, member_id
        self._change.pending = pending
        self.join_reason = None
        if ADVISED not in self._cluster.kept:
            self._advise()
        log.info("group %s: the assignment of generation %d: %s", self.group_id, generation, sorted(pending))

    def _advise(self) -> None:
        """Log once a client that its brokers have the next protocol (KIP-1274), unless "auto" has chosen this one."""
        coordinator = self.connection.coordinator
        if coordinator is None or "chosen" in self.config:
            return
        self._cluster.kept[ADVISED] = True
        ranges = coordinator.versions.found or {}
        if ranges.get(CONSUMER_GROUP_HEARTBEAT, (0, 0))[1] >= READY_SINCE:
            advice.info(ADVICE, self.group_id, advice.name)

    # -- metadata --------------------------------------------------------------------------------------------------------

    def _left_ms(self) -> int | None:
        return None if self._deadline is None else self.connection.left_ms(self._deadline)

    def _refresh(self) -> None:
        # the topics of other members too, which this one has assigned as the leader
        names = {*self.topics, *self._topics.assigned_topics}
        try:
            self._cluster.refresh_older(self.config["metadata_max_age_ms"] / 1000, names, self._left_ms())
        except KafkaException as error:
            self._cluster.limiter.warn(log, self.group_id, "group %s: no metadata: %s", self.group_id, error)
