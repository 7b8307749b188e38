"""`AbstractCoordinator`: one member of a group of the classic protocol, whatever the group is for."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pykafka.exceptions import (
    ConsumerStoppedException,
    FencedInstanceId,
    KafkaException,
    MemberIdRequired,
    NotCoordinatorForGroup,
    ProtocolClientError,
    RebalanceInProgress,
    UnsupportedVersion,
    error_for,
)
from pykafka.groups.classic.heartbeat import ENDED, ClassicHeartbeats, HeartbeatTarget, Report, encoded, leave_request
from pykafka.groups.classic.pending_join import DeadlinePassed, PendingJoin
from pykafka.groups.classic.state import EVENT_OF_ERROR, Event, MemberState, State
from pykafka.groups.coordinator_connection import LEAVE_TIMEOUT_MS, MOVED, CoordinatorConnection, check_instance_id
from pykafka.groups.heartbeat_sender import IDLE, OVERDUE, Activity, Heartbeat
from pykafka.handlers.interrupts import FinalSteps
from pykafka.metrics.listener import FAILED, JOINED, LEFT, REBALANCE_FAILED, REBALANCED, SYNCED
from pykafka.network.authentication import is_answer
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.groups.classic.static_member import StaticMember
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

#: The first version of JoinGroup with static members (KIP-345).
STATIC_SINCE = 5


class AbstractCoordinator(ABC):
    """One member of a group, from joining to leaving: as Java's class of this name, with template methods.

    A member joins with its metadata (`group_protocols`). The coordinator makes one member the leader, which computes all
    assignments (`_perform_assignment`), and sends each member its own (`_on_join_complete`). From then on the heartbeat thread
    sends heartbeats. When the group rebalances, `need_rejoin` returns True, and `join_until_stable` joins again.

    State: one worker at a time joins, syncs and closes; any may call `need_rejoin`.

    :param cluster: that has the group
    :param configs: those of `DEFAULT_CONFIG`; others are ignored
    :raises ValueError: the heartbeat interval is not shorter than the session timeout, or the `group_instance_id` is illegal
    """

    #: Whether the metadata of members names topics, and their assignments are of topics.
    has_topics: ClassVar[bool] = True
    #: Hears of the steps of the membership; None: nobody listens.
    listener: ClientListener | None = None
    _leave_group: bool | None = None
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        "group_id": "",
        "group_instance_id": None,
        "session_timeout_ms": 30000,
        "heartbeat_interval_ms": 3000,
        "max_poll_interval_ms": 300000,
        "retry_backoff_ms": 100,
        "metadata_max_age_ms": 60000,
    }

    def __init__(self, cluster: BaseCluster, **configs: Any) -> None:
        self.config: dict[str, Any] = {**self.DEFAULT_CONFIG, **configs}
        config = self.config
        self._cluster = cluster
        self._handler = cluster.handler
        self.group_id: str = config["group_id"]
        self.listener = config.pop("events", None) or cluster.listener
        self.connection = CoordinatorConnection(cluster, self.group_id, config["retry_backoff_ms"], self.listener)
        self.membership = MemberState()
        self.activity = Activity()
        #: Set when there may be reports.
        self.changed = self._handler.Event()
        self.heartbeat = Heartbeat(clock=self._handler.native.now, **config)
        self.sender = ClassicHeartbeats(
            self._handler, self.heartbeat, self.activity, config["max_poll_interval_ms"], self.changed.set
        )
        self.sender.listener = self.listener
        self.pending_join = PendingJoin(self.connection)
        self._static_member: StaticMember | None = None
        if config["group_instance_id"] is not None:
            check_instance_id(config["group_instance_id"])
            from pykafka.groups.classic.static_member import StaticMember  # loaded by static members alone

            self._static_member = StaticMember(self)
        self._refreshed_at = self._handler.now()
        #: When the present join began, of the handler's clock (s).
        self.join_started = 0.0
        # Since when the member wants an assignment, 0 if it has one; and since when it waits for it in this generation (s).
        self._rebalancing_since = self._joined_at = 0.0
        #: Each member's assignment, if this one is the leader.
        self._assignments: Mapping[str, Any] = {}
        #: The `group_instance_id` of each static member, if this one is the leader.
        self.instance_ids: dict[str, str] = {}
        #: Whether `_on_join_prepare` was called for the present rebalance.
        self._prepared = False
        #: Why it joins again (KIP-800), for the coordinator's log; None if the group knows.
        self.join_reason: str | None = None
        #: The caller's deadline, of the handler's clock (s).
        self._deadline: float | None = None
        self._failures = 0  # of joins in a row, over all calls
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")
        self._handler.at_fork(self._after_fork)

    def _after_fork(self) -> None:
        # The member is the parent's; this process has to become one of its own.
        self.connection.after_fork()
        self._forget_membership()
        self.activity.waiting = []
        self.changed = self._handler.Event()
        self.sender.notify = self.changed.set
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")

    def _forget_membership(self) -> None:
        self.membership.apply(Event.LEFT)
        self.pending_join.forget()
        if self._static_member is not None:
            self._static_member.forget()
        self._prepared, self._rebalancing_since = False, 0.0

    # -- what a kind of group defines --------------------------------------------------------------------------------

    @abstractmethod
    def protocol_type(self) -> str:
        """Return the kind of the group's members, such as "consumer"."""

    @abstractmethod
    def group_protocols(self) -> Sequence[tuple[str, Any]]:
        """Return (name, metadata) of each assignor that this member knows, the best first.

        Metadata is bytes, or has `encode()`. The coordinator chooses a name that all members know.
        """

    def _on_join_prepare(self, generation: int, member_id: str) -> None:  # noqa: B027 - some groups commit nothing
        """Commit the consumed messages; called before a rebalance revokes the present assignment, if there is one."""

    @abstractmethod
    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, Any]:
        """Return each member's assignment, as bytes or with `encode()`; called if this member is the leader.

        :param leader_id: this member
        :param protocol: name of the assignor that the coordinator has chosen
        :param members: (member id, metadata) pairs
        """

    @abstractmethod
    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        """Take this member's assignment, as the leader's `_perform_assignment` made it."""

    def _refresh(self) -> None:
        self._cluster.refresh(self._cluster.generation)

    # -- being a member ------------------------------------------------------------------------------------------------

    @property
    def coordinator(self) -> Node | None:
        """The broker that coordinates the group; None if that is not known."""
        return self.connection.coordinator

    @property
    def generation(self) -> int:
        """The generation of the group that this member belongs to; -1 for none."""
        return self.membership.generation_id

    @property
    def member_id(self) -> str:
        """The id that the coordinator has given this member; empty for none."""
        return self.membership.member_id

    def refresh_if_old(self) -> None:
        """Refresh metadata every `metadata_max_age_ms`: the leader has to assign new partitions too."""
        now = self._handler.now()
        if now - self._refreshed_at > self.config["metadata_max_age_ms"] / 1000:
            self._refreshed_at = now
            self._refresh()

    def need_rejoin(self) -> bool:
        """Return whether this member has to join again to have an assignment.

        :raises FencedInstanceId: another member has taken this one's `group_instance_id`; once
        """
        self._handle_reports()
        return self.membership.state is not State.STABLE

    def request_rejoin(self) -> None:
        """Join again at the next occasion, so that the leader computes new assignments."""
        if self.membership.state is State.STABLE:
            self.membership.apply(Event.REBALANCE)

    def join_until_stable(self, deadline: float | None) -> KafkaException | None:
        """Join, again if need be, until this member has its assignment.

        :param deadline: of the handler's clock (s); None tries for as long as it takes
        :returns: why this member has no assignment yet, if the deadline came first; the next call continues
        :raises ProtocolClientError: the coordinator refuses for good
        """
        self._deadline = deadline
        while self.need_rejoin():
            if not self._prepared:
                self._on_join_prepare(self.membership.generation_id, self.membership.member_id)
                self._prepared = True
                continue  # it may have left the group
            try:
                self.join_and_sync(deadline)
                self._prepared, self._failures = False, 0
            except DeadlinePassed as error:
                return error
            except KafkaException as error:
                if not self.connection.may_try_again(error):
                    raise
                if self.pending_join.interrupted() or (deadline is not None and self._handler.now() > deadline):
                    return error
                log.info("group %s: %s; joining again", self.group_id, error)
                # that others join, or have joined, is no failure
                self._failures = 1 if isinstance(error, RebalanceInProgress) else self._failures + 1
                if not self.connection.pause(self._failures, deadline):
                    return error
        return None

    def join_and_sync(self, deadline: float | None = None) -> None:
        """Join once, get the assignment, and give it to `_on_join_complete`.

        :param deadline: of the handler's clock (s): the next call waits for a response that has not come by then
        :raises KafkaException: it failed; `CoordinatorConnection.may_try_again` decides whether to try again
        """
        if self.membership.state is not State.SYNCING or self.pending_join.of(wire.SyncGroupRequest) is None:
            joined = self.join(deadline)
            self._assignments = {}
            if joined.leader == joined.member_id:
                members = [(member.member_id, bytes(member.metadata)) for member in joined.members]
                ids = ((member.member_id, member.group_instance_id) for member in joined.members)
                self.instance_ids = {member: instance for member, instance in ids if instance is not None}
                self._assignments = self._perform_assignment(joined.leader, joined.protocol_name or "", members)
        try:
            assignment = self.sync(self._assignments, deadline)
            present = self.membership
            self._on_join_complete(present.generation_id, present.member_id, present.protocol, assignment)
        except BaseException:  # an interrupt, or an assignor's error: this member has not taken its assignment
            self.request_rejoin()
            raise

    def join(self, deadline: float | None = None) -> wire.JoinGroupResponse:
        """Join once, and return the response, in which the leader finds all members; call `sync` next.

        :param deadline: as for `join_and_sync`
        :raises KafkaException: it failed; `CoordinatorConnection.may_try_again` decides whether to try again
        """
        self._handle_reports()
        coordinator = self.connection.find(self.connection.limit_ms(deadline))
        if self.connection.closing:
            raise ConsumerStoppedException(f"group {self.group_id}: the member is being closed")
        try:
            if self._static_member is not None:
                self._static_member.leave(coordinator, deadline)
            request, version = self._join_request(coordinator, deadline)
            joining = self.membership.state is State.JOINING
            sent = self.pending_join.of(wire.JoinGroupRequest) if joining else None
            # an answer to a request without member id has one: the group waits for that member
            is_named = sent is not None and (bool(sent.member_id) or self._static_member is not None)
            if sent is None or (is_named and sent.protocols != request.protocols):
                if self._static_member is not None and self.has_topics:
                    self._static_member.before_join(coordinator, request, deadline)
                self._begin_join(request, deadline)
            response = self._send_join(coordinator, request, version, deadline)
        except KafkaException as error:
            self._failed(error)
            raise
        self._check_state(State.JOINING)
        self.check_answer(response.error_code, "JoinGroup", coordinator)
        protocol = response.protocol_name or request.protocols[0].name
        self.membership.apply(Event.JOINED, response.generation_id, response.member_id, protocol)
        if self._static_member is not None:
            self._static_member.joined(response.generation_id)
        self._joined_at = self._handler.now()
        text = f"generation {response.generation_id}, member {response.member_id}, led by {response.leader}, {protocol}"
        log.debug("group %s: %s", self.group_id, text)
        self._report(JOINED, text, self._joined_at - self.join_started)
        self.send_heartbeats(deadline=deadline)
        return response

    def _join_request(self, coordinator: Node, deadline: float | None) -> tuple[wire.JoinGroupRequest, int]:
        """Return the request to join, and its version."""
        config = self.config
        try:
            version = coordinator.api_version(wire.JoinGroupRequest, timeout_ms=self.connection.limit_ms(deadline))
        except UnsupportedVersion as error:
            text = (
                f"group {self.group_id}: brokers keep groups from Kafka 0.9 on; read without a group here, or let ZooKeeper "
                'keep the group (client.consumer(..., protocol="zookeeper"), get_balanced_consumer)'
            )
            raise UnsupportedVersion(text, broker=coordinator.address, api="JoinGroup") from error
        if version < STATIC_SINCE and config["group_instance_id"] is not None:
            text = (
                "group_instance_id needs brokers of Kafka 2.3 or later; without it the member works here, and each of "
                "its restarts is a rebalance"
            )
            raise UnsupportedVersion(text, broker=coordinator.address, api="JoinGroup")
        request = wire.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=config["session_timeout_ms"],
            rebalance_timeout_ms=max(config["max_poll_interval_ms"], config["session_timeout_ms"]),
            member_id=self.membership.member_id,
            group_instance_id=config["group_instance_id"],
            protocol_type=self.protocol_type(),
            protocols=[
                wire.JoinGroupRequest.Protocol(name=name, metadata=encoded(metadata))
                for name, metadata in self.group_protocols()
            ],
            reason=self.join_reason,
        )
        return request, version

    def _begin_join(self, request: wire.JoinGroupRequest, deadline: float | None) -> None:
        self.pending_join.drop(deadline)
        if self.membership.state in {State.JOINING, State.SYNCING}:  # if a former attempt has ended
            self.membership.apply(Event.FAILED)
        self.request_rejoin()
        self.membership.apply(Event.JOIN)
        self.join_started = self._handler.now()
        self._rebalancing_since = self._rebalancing_since or self.join_started
        log.info("group %s: joining as %s", self.group_id, request.member_id or "a new member")

    def _send_join(
        self, coordinator: Node, request: wire.JoinGroupRequest, version: int, deadline: float | None
    ) -> wire.JoinGroupResponse:
        """Return the response to a request to join; send it again with the id that its, or a former one's, response has."""
        while True:
            if self.pending_join.sent is None:
                timeout_ms = request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms
                timeout_ms += self._cluster.socket_timeout_ms
                self.pending_join.send(coordinator, request, version, timeout_ms, deadline)
            sent = self.pending_join.of(wire.JoinGroupRequest)
            response: wire.JoinGroupResponse = self.pending_join.answer(deadline, self._note_id)
            is_former = sent is not None and sent.protocols != request.protocols and not response.error_code
            if response.error_code != MemberIdRequired.ERROR_CODE and not is_former:
                return response
            self._check_state(State.JOINING)
            request.member_id = response.member_id

    def _learn_member_id(self, timeout_ms: int, leaves: bool) -> bool:
        """If the member leaves, wait for its id, which the coordinator is about to give it; return whether it can leave."""
        if not leaves or self.membership.member_id or (self._static_member and self._static_member.is_joining()):
            return leaves
        self._note_id(self.pending_join.member_id(timeout_ms))
        return bool(self.membership.member_id)

    def _note_id(self, member_id: str) -> None:
        # At once: with it this member leaves, however the join ends.
        if member_id and self.membership.state in {State.JOINING, State.STALE}:
            self.membership.apply(Event.NAMED, member_id=member_id)

    def sync(self, assignments: Mapping[str, Any], deadline: float | None = None) -> bytes:
        """Return this member's assignment, as bytes.

        :param assignments: of all members, from the leader, as bytes or with `encode()`; empty from the others
        :param deadline: as for `join_and_sync`
        :raises KafkaException: it failed; `CoordinatorConnection.may_try_again` decides whether to try again
        """
        coordinator = self.connection.coordinator
        if coordinator is None:
            self._failed(None)
            raise NotCoordinatorForGroup(f"group {self.group_id}: the coordinator was lost before the assignment came")
        self._check_state(State.SYNCING)
        timeout_ms = self._cluster.socket_timeout_ms + self.config["session_timeout_ms"]
        try:
            if self.pending_join.of(wire.SyncGroupRequest) is None:
                self.pending_join.drop()
                version = coordinator.api_version(wire.SyncGroupRequest, None, self.connection.limit_ms(deadline))
                request = self._sync_request(assignments, version)
                self.pending_join.send(coordinator, request, version, timeout_ms, deadline)
            response: wire.SyncGroupResponse = self.pending_join.answer(deadline)
        except KafkaException as error:
            self._failed(error)
            raise
        self._check_state(State.SYNCING)
        self.check_answer(response.error_code, "SyncGroup", coordinator)
        assignment = bytes(response.assignment)
        if self._static_member is not None:
            self._static_member.check(assignment)
        self.membership.apply(Event.SYNCED)
        # Answers to earlier heartbeats may report the very rebalance that ends here.
        self.sender.reports.clear()
        now = self._handler.now()
        text = f"generation {self.membership.generation_id}"
        self._report(SYNCED, text, now - self._joined_at)
        self._report(REBALANCED, text, now - (self._rebalancing_since or self.join_started))
        self._rebalancing_since = 0.0
        self.send_heartbeats(restart=False, deadline=deadline)
        log.info("group %s: %s has its assignment of %s", self.group_id, self.membership.member_id, text)
        return assignment

    def _sync_request(self, assignments: Mapping[str, Any], version: int) -> wire.SyncGroupRequest:
        return wire.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.membership.generation_id,
            member_id=self.membership.member_id,
            group_instance_id=self.config["group_instance_id"] if version >= 3 else None,
            protocol_type=self.protocol_type(),
            protocol_name=self.membership.protocol,
            assignments=[
                wire.SyncGroupRequest.Assignment(member_id=member, assignment=encoded(assignment))
                for member, assignment in assignments.items()
            ],
        )

    def _check_state(self, state: State) -> None:
        """Check that this member was not closed while it waited for a response.

        :raises ConsumerStoppedException: it was
        """
        if self.membership.state is not state:
            raise ConsumerStoppedException(f"group {self.group_id}: the member was closed meanwhile")

    def _report(self, kind: str, detail: object, seconds: float = 0.0) -> None:
        """Report a step to the listener of the client."""
        if self.listener is not None:
            self.listener.on_event(kind, f"group {self.group_id}", seconds, detail)

    # -- errors --------------------------------------------------------------------------------------------------------

    def check_answer(self, code: int, api: str, coordinator: Node) -> None:
        """Change the membership as the error code of a response demands, and raise its error; 0 is none.

        :raises ProtocolClientError: the code is not 0
        """
        if code:
            self.handle_error(code)
            error = self._explained(code, coordinator.address, api)
            self._report(REBALANCE_FAILED, error)
            raise error

    def _explained(self, code: int, address: str, api: str) -> ProtocolClientError:
        if code != FencedInstanceId.ERROR_CODE:
            return error_for(code, broker=address, api=api)
        text = (
            f"group {self.group_id}: another member has joined as {self.config['group_instance_id']!r}, so this one is "
            "out; give each member that runs at the same time a group_instance_id of its own"
        )
        return error_for(code, text, broker=address, api=api)

    def handle_error(self, code: int) -> None:
        """Change the membership as an error code of the coordinator demands.

        :param code: not 0
        """
        event = Event.LOST if code == FencedInstanceId.ERROR_CODE else EVENT_OF_ERROR.get(code, Event.FAILED)
        if event in {Event.OUTDATED, Event.LOST}:
            self.sender.set_target(None)
        self.membership.apply(event)
        if code in MOVED:
            self.connection.mark_unknown(error_for(code))

    def _failed(self, error: KafkaException | None) -> None:
        if isinstance(error, DeadlinePassed):  # the request is on its way
            return
        self.membership.apply(Event.FAILED)
        if self.connection.closing:  # which ended the connection; the coordinator is there, and this member leaves
            return
        if error is not None:
            self._report(REBALANCE_FAILED, error)
            if not is_answer(error):
                self.connection.mark_unknown(error)

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def send_heartbeats(self, restart: bool = True, deadline: float | None = None) -> None:
        """Send heartbeats for the present membership.

        :param restart: whether its session timeout begins now
        :param deadline: for asking the coordinator for its versions, if it has to be asked (s)
        """
        coordinator, limit_ms = self.connection.coordinator, self.connection.limit_ms(deadline)
        if coordinator is None:
            return
        target = HeartbeatTarget(
            coordinator,
            self.group_id,
            self.membership.generation_id,
            self.membership.member_id,
            self.config["group_instance_id"],
            coordinator.api_version(wire.HeartbeatRequest, timeout_ms=limit_ms),
            coordinator.api_version(wire.LeaveGroupRequest, timeout_ms=limit_ms),
        )
        self.sender.set_target(target, restart)

    def _handle_reports(self) -> None:
        """Change the membership as the reports of the heartbeat thread demand."""
        reports = self.sender.reports
        while reports:
            report = reports.popleft()
            # while the member joins or syncs, the response says more; that to SyncGroup may have waited to be read
            state, is_out = self.membership.state, report.idle or report.code in ENDED
            counts = state in {State.STABLE, State.STALE} or (state is State.SYNCING and is_out)
            if counts and self.membership.is_present(report.generation_id, report.member_id):
                self._handle_report(report)
        if self.membership.state is State.STABLE and self.connection.is_unknown() and not self.connection.closing:
            self._find_again()

    def _handle_report(self, report: Report) -> None:
        if report.idle:
            log.error(IDLE, self.group_id, self.config["max_poll_interval_ms"])
            self.membership.apply(Event.LEFT)
            self._report(LEFT, "max_poll_interval_ms is over")
            return
        if report.overdue:
            why = report.error or error_for(report.code, broker=report.broker, api="Heartbeat")
            log.warning(OVERDUE, self.group_id, self.config["session_timeout_ms"], why)
            return
        if report.code == 0 or report.code in MOVED:
            self.connection.mark_unknown(report.error or error_for(report.code))
            return
        log.info("group %s: the coordinator answered a heartbeat with %s", self.group_id, error_for(report.code).text)
        kind = FAILED if report.code == RebalanceInProgress.ERROR_CODE else LEFT
        self._report(kind, error_for(report.code))
        self.handle_error(report.code)
        if report.code == FencedInstanceId.ERROR_CODE:
            raise self._explained(report.code, report.broker, "Heartbeat")

    def _find_again(self) -> None:
        """Send heartbeats to the new coordinator of the group; if it is not known yet, the next call tries again."""
        try:
            self.connection.find(0)
            self.send_heartbeats(restart=False, deadline=self._handler.now())
        except KafkaException as error:
            if not self.connection.may_try_again(error):
                raise
            self.connection.mark_unknown(error)
            self._cluster.limiter.warn(log, self.group_id, "group %s: %s", self.group_id, error)

    # -- leaving -------------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """End a `join` or `sync` that waits in another worker by an error, and let none begin; call `close` next."""
        self.connection.closing = True
        leaves = self._static_member is None if self._leave_group is None else self._leave_group
        self._learn_member_id(LEAVE_TIMEOUT_MS, leaves)
        self.connection.drop_connection()

    def close(
        self, *, timeout_ms: int | None = None, leave_group: bool | None = None, wait: float | None = None
    ) -> None:
        """End heartbeats, leave the group, and forget generation and member id; the member may join again.

        By default a static member does not leave: the group expects it back within the session timeout. If a greenlet's
        timeout ends this call, the member leaves all the same.

        :param timeout_ms: how long leaving may take; by default 5,000
        :param leave_group: whether to tell the coordinator (KIP-1092); None: unless the member is static
        :param wait: how long to wait for that (s), which goes on without this call; None for as long as it takes
        """
        if self._has_left and not self.connection.closing:
            self._ending.wait(wait)  # an earlier `close` may have been cut off while the member left
            return
        self.connection.closing = True
        leaves = self._static_member is None if leave_group is None else leave_group
        self._ending.take(partial(self._close, LEAVE_TIMEOUT_MS if timeout_ms is None else timeout_ms, leaves), wait)

    @property
    def _has_left(self) -> bool:
        return self.membership.state is State.UNJOINED and not self.membership.member_id and self.sender.has_ended

    def _close(self, timeout_ms: int, leaves: bool) -> None:
        try:
            if self._has_left:  # by an earlier call, which was cut off
                return
            self.sender.stop()
            leaves = self._learn_member_id(timeout_ms, leaves)
            member_id, instance_id = self.membership.member_id, self.config["group_instance_id"]
            self._forget_membership()
            self.connection.drop_connection()  # a request to join that waits there would hold up the request to leave
            if leaves:
                self.connection.leave_by(partial(self._leave_once, member_id), member_id or instance_id, timeout_ms)
            self.connection.drop_connection()
            self.connection.coordinator = None
        finally:
            self.connection.closing = False

    def _leave_once(self, member_id: str, coordinator: Node, deadline: float) -> int:
        version = coordinator.api_version(wire.LeaveGroupRequest, timeout_ms=self.connection.left_ms(deadline))
        request = leave_request(self.group_id, member_id, version, self.config["group_instance_id"])
        response = self.connection.call(request, coordinator, deadline, version=version)
        codes = [response.error_code, *(member.error_code for member in response.members)]
        return next((code for code in codes if code), 0)
