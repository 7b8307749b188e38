"""`BaseCoordinator`: the membership of a group that the brokers keep, whatever the group is for."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pykafka.compat.coordinator.metrics import GroupCoordinatorMetrics, Metrics
from pykafka.exceptions import (
    ConsumerStoppedException,
    FencedInstanceId,
    KafkaException,
    MemberIdRequired,
    NotCoordinatorForGroup,
    ProtocolClientError,
    RebalanceInProgress,
    ResponseTimeoutError,
    UnsupportedVersion,
    error_for,
)
from pykafka.groups.classic.heartbeat import Activity, Beat, Heartbeat, HeartbeatSender, News, PolledHeartbeats
from pykafka.groups.classic.pending_join import PendingJoin, TimeIsUp
from pykafka.groups.classic.state import EVENT_OF_ERROR, MOVED, Event, MemberState, State
from pykafka.groups.classic.static_member import Comeback
from pykafka.groups.coordinator_connection import LEAVE_TIMEOUT_MS, CoordinatorConnection
from pykafka.groups.group_requests import STATIC_SINCE, check_instance_id, encoded, join_request, sync_request
from pykafka.groups.heartbeat_sender import OVERDUE
from pykafka.handlers.interrupts import FinalSteps
from pykafka.network.authentication import is_answer
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

R = TypeVar("R")

__all__ = ["BaseCoordinator", "GroupCoordinatorMetrics", "HeartbeatTask"]


class BaseCoordinator(PolledHeartbeats):
    """One member of a group, from joining to leaving.

    A member joins with its metadata (`group_protocols`). The coordinator makes one member the leader, which shares out
    (`_perform_assignment`), and tells each its share (`_on_join_complete`). From then on heartbeats go out from a native
    thread. When the group rebalances, `need_rejoin` returns True, and `ensure_active_group` joins again.

    State: one worker at a time joins, syncs and closes; any may ask `need_rejoin`.

    :param client: a KafkaClient, or a Cluster
    :param metrics: the receiver of measurements; None for none
    :param configs: those of `DEFAULT_CONFIG`; others are ignored
    :raises ValueError: the heartbeat interval is not shorter than the session timeout, or the `group_instance_id` is not one
    """

    #: How the application reads, for the log.
    reading_call: ClassVar[str] = "poll()"
    #: Whether the metadata of members names topics, and their assignments are of topics.
    has_topics: ClassVar[bool] = False
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        "group_id": "kafka-python-default-group",
        "group_instance_id": None,
        "session_timeout_ms": 30000,
        "heartbeat_interval_ms": 3000,
        "max_poll_interval_ms": 300000,
        "retry_backoff_ms": 100,
        "metadata_max_age_ms": 60000,
        "api_version": (0, 9),
        "metric_group_prefix": "",
    }

    def __init__(self, client: Any, metrics: Metrics | None = None, **configs: Any) -> None:
        self.config = config = {name: configs.get(name, default) for name, default in self.DEFAULT_CONFIG.items()}
        check_instance_id(config["group_instance_id"])
        self._cluster: BaseCluster = getattr(client, "cluster", client)
        self._handler = self._cluster.handler
        self.group_id: str = config["group_id"]
        self.link = CoordinatorConnection(self._cluster, self.group_id, config["retry_backoff_ms"])
        self.membership = MemberState()
        self.activity = Activity()
        #: Set when there may be news.
        self.changed = self._handler.Event()
        self.heartbeat = Heartbeat(clock=self._handler.native.now, **self.config)
        self.sender = HeartbeatSender(
            self._handler, self.heartbeat, self.activity, self.config["max_poll_interval_ms"], self.changed.set
        )
        self.heartbeat_task = HeartbeatTask(self)
        self.open_request = PendingJoin(self.link)
        self._comeback = Comeback(self)
        self._refreshed_at = self._handler.now()
        self._join_started = 0.0
        #: Each member's share, if this one is the leader.
        self._shares: dict[str, bytes] = {}
        #: The `group_instance_id` of each static member, where this one is the leader.
        self.instance_ids: dict[str, str] = {}
        #: Whether `_on_join_prepare` was called for the present rebalance.
        self._prepared = False
        #: The caller's deadline, of the handler's clock (s).
        self._deadline: float | None = None
        self._metrics = GroupCoordinatorMetrics(self.heartbeat, metrics, self.config["metric_group_prefix"])
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")
        self._handler.at_fork(self._after_fork)

    def _after_fork(self) -> None:
        # The member is the parent's; this process has to become one of its own.
        self.membership.apply(Event.LEFT)
        self.link.after_fork()
        self.open_request.forget()
        self._comeback.forget()
        self._prepared = False
        self.activity.waiting = []
        self.changed = self._handler.Event()
        self.sender.notify = self.changed.set
        self._ending = FinalSteps(self._handler, f"pykafka.Leaving.{self.group_id}")

    # -- what a kind of group defines --------------------------------------------------------------------------------

    @abstractmethod
    def protocol_type(self) -> str:
        """Return the kind of the group's members, such as "consumer"."""

    @abstractmethod
    def group_protocols(self) -> Sequence[tuple[str, Any]]:
        """Return (name, metadata) of each way to share out that this member knows, the best first.

        Metadata is bytes, or has `encode()`. The coordinator chooses a name that all members know.
        """

    def _on_join_prepare(self, generation: int, member_id: str) -> None:
        """Commit what was consumed; called before a rebalance takes the present share away, if there is one."""

    @abstractmethod
    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, Any]:
        """Return each member's share, as bytes or with `encode()`; called where this member is the leader.

        :param leader_id: this member
        :param protocol: name of the one that the coordinator has chosen
        :param members: (member id, metadata) pairs
        """

    @abstractmethod
    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        """Take this member's share, as the leader's `_perform_assignment` made it."""

    # -- the coordinator -----------------------------------------------------------------------------------------------

    @property
    def coordinator(self) -> Node | None:
        """The broker that coordinates the group; None if that is not known."""
        return self.link.coordinator

    def coordinator_unknown(self) -> bool:
        """Return whether the coordinator is to be looked for; one that has left the cluster is forgotten."""
        return self.link.is_unknown()

    def coordinator_dead(self, error: Any) -> None:
        """Forget which broker coordinates the group.

        :param error: why, for the log
        """
        self.link.lose(error)

    def ensure_coordinator_known(self, timeout_ms: int | None = None) -> None:
        """Find out which broker coordinates the group, unless that is known.

        :param timeout_ms: how long to go on trying; by default the client's socket timeout
        :raises KafkaException: it could not be found out
        """
        self.link.find(timeout_ms)

    def refresh_if_old(self) -> None:
        """Refresh metadata every `metadata_max_age_ms`: new partitions have to be shared out too."""
        now = self._handler.now()
        if now - self._refreshed_at > self.config["metadata_max_age_ms"] / 1000:
            self._refreshed_at = now
            self._refresh()

    def _refresh(self) -> None:
        self._cluster.refresh(self._cluster.generation)

    # -- being a member ------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The generation of the group that this member belongs to; -1 for none."""
        return self.membership.generation_id

    @property
    def member_id(self) -> str:
        """The id that the coordinator has given this member; empty for none."""
        return self.membership.member_id

    def need_rejoin(self) -> bool:
        """Return whether this member has to join again to have a share.

        :raises FencedInstanceId: another member has taken this one's `group_instance_id`; once
        """
        self._take_news()
        return self.membership.state is not State.STABLE

    def request_rejoin(self) -> None:
        """Join again at the next occasion, so that the leader shares out anew."""
        if self.membership.state is State.STABLE:
            self.membership.apply(Event.REBALANCE)

    def ensure_active_group(self, timeout_ms: int | None = None) -> None:
        """Join, again if need be, until this member has its share.

        :param timeout_ms: how long to try; None tries for as long as it takes
        :raises ProtocolClientError: the coordinator refuses for good
        :raises ResponseTimeoutError: not in time
        """
        error = self.take_part(None if timeout_ms is None else self._handler.now() + timeout_ms / 1000)
        if error is not None:
            raise ResponseTimeoutError(
                f"group {self.group_id}: not a member within {timeout_ms} ms ({error}); the next call goes on with it"
            ) from error

    def take_part(self, deadline: float | None) -> KafkaException | None:
        """Join, again if need be, until this member has its share.

        :param deadline: of the handler's clock (s); None tries for as long as it takes
        :returns: why this member has no share yet, where the deadline came first; the next call goes on
        :raises ProtocolClientError: the coordinator refuses for good
        """
        self.activity.count += 1
        self._deadline = deadline
        failures = 0
        while self.need_rejoin():
            if not self._prepared:
                self._on_join_prepare(self.generation, self.member_id)
                self._prepared = True
                continue  # it may have left the group
            try:
                self.link.find(None if deadline is None else self.link.left_ms(deadline))
                self.join_and_sync(deadline)
                self._prepared = False
            except TimeIsUp as error:
                return error
            except KafkaException as error:
                if not self.link.may_try_again(error):
                    raise
                if deadline is not None and self._handler.now() > deadline:
                    return error
                log.info("group %s: %s; joining again", self.group_id, error)
                # that others join, or have joined, is no failure
                failures = 1 if isinstance(error, RebalanceInProgress) else failures + 1
                self.link.pause(failures, deadline)
        return None

    def join_and_sync(self, deadline: float | None = None) -> None:
        """Join once, get the share, and give it to `_on_join_complete`.

        :param deadline: of the handler's clock (s): the next call goes on waiting for what is not answered by then
        :raises KafkaException: it failed; `CoordinatorConnection.may_try_again` tells whether to try again
        """
        if self._asked(State.SYNCING, wire.SyncGroupRequest) is None:
            joined = self.join(deadline)
            self._shares = {}
            if joined.leader == joined.member_id:
                members = [(member.member_id, bytes(member.metadata)) for member in joined.members]
                static = {member.member_id: member.group_instance_id for member in joined.members}
                self.instance_ids = {member: id_ for member, id_ in static.items() if id_ is not None}
                shares = self._perform_assignment(joined.leader, joined.protocol_name or "", members)
                self._shares = {member: encoded(assignment) for member, assignment in shares.items()}
        share = self.sync(self._shares, deadline)
        self._on_join_complete(self.generation, self.member_id, self.membership.protocol, share)

    def join(self, deadline: float | None = None) -> wire.JoinGroupResponse:
        """Join once, and return the answer, in which the leader finds all members; call `sync` next.

        :param deadline: as for `join_and_sync`
        :raises KafkaException: it failed; `CoordinatorConnection.may_try_again` tells whether to try again
        """
        self._take_news()
        self.link.find(None if deadline is None else self.link.left_ms(deadline))
        coordinator = self.coordinator
        if self.link.closing or coordinator is None:
            raise ConsumerStoppedException(f"group {self.group_id}: the member is being closed")
        try:
            self._comeback.leave(coordinator, deadline)
            version = self._join_version(coordinator)
            protocols = self.group_protocols()
            request = join_request(self.config, version, self.member_id, self.protocol_type(), protocols)
            asked = self._asked(State.JOINING, wire.JoinGroupRequest)
            if asked is None or asked.protocols != request.protocols:
                if self.has_topics:
                    self._comeback.ask(coordinator, request, deadline)
                self._begin_join(request)
            response = self._ask_to_join(coordinator, request, version, deadline)
        except TimeIsUp:
            raise
        except KafkaException as error:
            self._failed(error)
            raise
        self._still(State.JOINING)
        self.check_answer(response.error_code, "JoinGroup", coordinator)
        self.membership.apply(
            Event.JOINED,
            response.generation_id,
            response.member_id,
            response.protocol_name or request.protocols[0].name,
        )
        self._comeback.joined(response.generation_id)
        log.debug(
            "group %s: generation %d: %s is a member, %s leads, assignor %s",
            self.group_id,
            response.generation_id,
            response.member_id,
            response.leader,
            self.membership.protocol,
        )
        self._metrics.joined(self._handler.now() - self._join_started)
        self._send_heartbeats()
        return response

    def _begin_join(self, request: wire.JoinGroupRequest) -> None:
        if self.membership.state in {State.JOINING, State.SYNCING}:  # where a former attempt has ended
            self.membership.apply(Event.FAILED)
        self.open_request.drop()
        self.request_rejoin()
        self.membership.apply(Event.JOIN)
        self._join_started = self._handler.now()
        log.info("group %s: joining as %s", self.group_id, request.member_id or "a new member")

    def _ask_to_join(
        self, coordinator: Node, request: wire.JoinGroupRequest, version: int, deadline: float | None
    ) -> wire.JoinGroupResponse:
        """Return the answer to a request to join; send it again with the member id where the coordinator insists on one."""
        while True:
            if not self.open_request.is_open:
                patience = request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms
                patience += self._cluster.socket_timeout_ms
                self.open_request.send(coordinator, request, version, patience, deadline)
            response: wire.JoinGroupResponse = self.open_request.answer(deadline)
            if response.error_code != MemberIdRequired.ERROR_CODE:
                return response
            # Noted at once: with it this member leaves, however the join ends.
            self._still(State.JOINING)
            self.membership.apply(Event.NAMED, member_id=response.member_id)
            request.member_id = response.member_id

    def _asked(self, state: State, kind: type[R]) -> R | None:
        """Return the request of an earlier call whose time was up, if this call is to wait for its answer."""
        return self.open_request.of(kind) if self.membership.state is state else None

    def _learn_member_id(self, timeout_ms: int) -> None:
        """Wait for the id that this member is about to be given, if it has none yet: it leaves with it."""
        if self.config["group_instance_id"] is not None or self.member_id:
            return
        member_id = self.open_request.member_id(timeout_ms)
        if member_id and self.membership.state in {State.JOINING, State.STALE}:
            self.membership.apply(Event.NAMED, member_id=member_id)

    def _join_version(self, coordinator: Node) -> int:
        try:
            version = coordinator.api_version(wire.JoinGroupRequest)
        except UnsupportedVersion as error:
            raise UnsupportedVersion(
                f"group {self.group_id}: brokers keep groups from Kafka 0.9 on; read without a group here, or let ZooKeeper "
                'keep the group (client.consumer(..., protocol="zookeeper"), get_balanced_consumer)',
                broker=coordinator.address,
                api="JoinGroup",
            ) from error
        if version < STATIC_SINCE and self.config["group_instance_id"] is not None:
            raise UnsupportedVersion(
                "group_instance_id needs brokers of Kafka 2.3 or later; without it the member works here, and each of "
                "its restarts is a rebalance",
                broker=coordinator.address,
                api="JoinGroup",
            )
        return version

    def sync(self, shares: Mapping[str, bytes], deadline: float | None = None) -> bytes:
        """Return this member's share, as bytes.

        :param shares: of all members, from the leader; empty from the others
        :param deadline: as for `join_and_sync`
        :raises KafkaException: it failed; `CoordinatorConnection.may_try_again` tells whether to try again
        """
        coordinator = self.coordinator
        if coordinator is None:
            self._failed(None)
            raise NotCoordinatorForGroup(f"group {self.group_id}: the coordinator was lost before the share was known")
        self._still(State.SYNCING)
        started = self._handler.now()
        patience = self._cluster.socket_timeout_ms + self.config["session_timeout_ms"]
        try:
            if self._asked(State.SYNCING, wire.SyncGroupRequest) is None:
                self.open_request.drop()
                version = coordinator.api_version(wire.SyncGroupRequest)
                request = sync_request(self.config, version, self.membership, self.protocol_type(), shares)
                self.open_request.send(coordinator, request, version, patience, deadline)
            response: wire.SyncGroupResponse = self.open_request.answer(deadline)
        except TimeIsUp:
            raise
        except KafkaException as error:
            self._failed(error)
            raise
        self._still(State.SYNCING)
        self.check_answer(response.error_code, "SyncGroup", coordinator)
        self._comeback.check(bytes(response.assignment))
        self.membership.apply(Event.SYNCED)
        # Answers to earlier heartbeats may tell of the very rebalance that ends here.
        self.sender.news.clear()
        self._send_heartbeats(restart=False)
        self._metrics.synced(self._handler.now() - started)
        log.info("group %s: %s has its share of generation %d", self.group_id, self.member_id, self.generation)
        return bytes(response.assignment)

    def _still(self, state: State) -> None:
        """Check that this member was not closed while it waited for an answer.

        :raises ConsumerStoppedException: it was
        """
        if self.membership.state is not state:
            raise ConsumerStoppedException(f"group {self.group_id}: the member was closed meanwhile")

    # -- what went wrong -----------------------------------------------------------------------------------------------

    def check_answer(self, code: int, api: str, coordinator: Node) -> None:
        """Change the membership as the error code of an answer demands, and raise its error; 0 is none.

        :raises ProtocolClientError: the code is not 0
        """
        if code:
            self.handle_error(code)
            raise self._explained(code, coordinator.address, api)

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
            self.sender.beat(None)
        self.membership.apply(event)
        if code in MOVED:
            self.link.lose(error_for(code))

    def _failed(self, error: BaseException | None) -> None:
        self.membership.apply(Event.FAILED)
        if self.link.closing:  # which ended the connection; the coordinator is there, and this member is about to leave
            return
        if isinstance(error, KafkaException) and not is_answer(error):
            self.link.lose(error)

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def _send_heartbeats(self, restart: bool = True) -> None:
        coordinator = self.coordinator
        if coordinator is None:
            return
        self.sender.beat(
            Beat(
                coordinator,
                self.group_id,
                self.generation,
                self.member_id,
                self.config["group_instance_id"],
                coordinator.api_version(wire.HeartbeatRequest),
                coordinator.api_version(wire.LeaveGroupRequest),
            ),
            restart,
        )

    def _take_news(self) -> None:
        """Change the membership as the news of the heartbeat's thread demands."""
        while self.sender.news:
            news = self.sender.news.popleft()
            # while the member joins or syncs, the answer to that request tells more
            settled = self.membership.state in {State.STABLE, State.STALE}
            if settled and self.membership.is_present(news.generation_id, news.member_id):
                self._take(news)
        latency, self.sender.latency = self.sender.latency, 0.0
        if latency:
            self._metrics.answered(latency)
        if self.membership.state is State.STABLE and self.link.is_unknown() and not self.link.closing:
            self._find_again()

    def _take(self, news: News) -> None:
        if news.idle:
            log.error(
                "group %s: the application took no messages for %d ms, so this member has left the group; call %s more often, "
                "or raise max_poll_interval_ms",
                self.group_id,
                self.config["max_poll_interval_ms"],
                self.reading_call,
            )
            self.membership.apply(Event.LEFT)
            return
        if news.overdue:
            why = news.error or error_for(news.code, broker=news.broker, api="Heartbeat")
            log.warning(OVERDUE, self.group_id, self.config["session_timeout_ms"], why)
            return
        if news.code == 0 or news.code in MOVED:
            self.link.lose(news.error or error_for(news.code))
            return
        log.info("group %s: the coordinator answered a heartbeat with %s", self.group_id, error_for(news.code).text)
        self.handle_error(news.code)
        if news.code == FencedInstanceId.ERROR_CODE:
            raise self._explained(news.code, news.broker, "Heartbeat")

    def _find_again(self) -> None:
        """Send heartbeats to the broker that coordinates the group now; if that is not known yet, the next call tries again."""
        try:
            self.link.find(0)
            self._send_heartbeats(restart=False)
        except KafkaException as error:
            if not self.link.may_try_again(error):
                raise
            self.link.lose(error)
            self._cluster.limiter.warn(log, self.group_id, "group %s: %s", self.group_id, error)

    # -- leaving -------------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """End a `join` or `sync` that waits in another worker by an error, and let none begin; call `close` next."""
        self.link.closing = True
        self._learn_member_id(LEAVE_TIMEOUT_MS)
        self.link.drop_connection()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """End heartbeats, leave the group, and forget generation and member id; joining again begins anew.

        A static member does not leave: it is expected back within the session timeout.

        If a greenlet's timeout ends this call, the member leaves all the same.

        :param timeout_ms: how long leaving may take; by default 5,000
        """
        nothing = self.membership.state is State.UNJOINED and not self.member_id and self.sender.has_ended
        if nothing and not self.link.closing:
            self.await_closed()
            return
        self.link.closing = True
        self._ending.take(partial(self._close, LEAVE_TIMEOUT_MS if timeout_ms is None else timeout_ms))

    def await_closed(self) -> None:
        """Wait until the member has left, if an earlier `close` was cut off while it left."""
        self._ending.wait()

    def _close(self, patience_ms: int) -> None:
        try:
            self.sender.stop()
            self._learn_member_id(patience_ms)
            member_id = self.member_id
            self.membership.apply(Event.LEFT)
            self.open_request.forget()
            self._comeback.forget()
            self._prepared = False
            self.link.drop_connection()  # a request to join that waits there would hold up the request to leave
            if self.config["group_instance_id"] is None:
                self.link.leave(member_id, patience_ms)
            self.link.drop_connection()
            self.link.coordinator = None
        finally:
            self.link.closing = False


class HeartbeatTask:
    """The switch of a coordinator's heartbeats.

    :param coordinator: that sends them
    """

    def __init__(self, coordinator: BaseCoordinator) -> None:
        self._coordinator = coordinator

    def disable(self) -> None:
        """Send none, until `reset`."""
        self._coordinator.sender.beat(None)

    def reset(self) -> None:
        """Send them for the present membership; its timeouts begin now."""
        if self._coordinator.membership.state in {State.SYNCING, State.STABLE, State.STALE}:
            self._coordinator._send_heartbeats()
