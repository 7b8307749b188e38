"""`BaseCoordinator`: a member of a group that the brokers keep, whatever the group is for."""

from __future__ import annotations

import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pykafka.coordinator.heartbeat import Activity, Beat, Heartbeat, HeartbeatSender, News
from pykafka.coordinator.link import LEAVE_TIMEOUT_MS, GroupLink
from pykafka.coordinator.metrics import GroupCoordinatorMetrics, Metrics
from pykafka.coordinator.requests import STATIC_SINCE, check_instance_id, encoded, join_request, sync_request
from pykafka.coordinator.state import EVENT_OF_ERROR, MOVED, Event, Membership, State
from pykafka.exceptions import (
    ConsumerStoppedException,
    FencedInstanceId,
    KafkaException,
    MemberIdRequired,
    NotCoordinatorForGroup,
    ProtocolClientError,
    ResponseTimeoutError,
    UnsupportedVersion,
    error_for,
)
from pykafka.handlers.ending import Ending
from pykafka.network.channel import group_channel
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.network.channel import PendingResponse

log = logging.getLogger(__name__)

__all__ = ["BaseCoordinator", "GroupCoordinatorMetrics", "HeartbeatTask"]


class Asked(NamedTuple):
    """A request that is on its way, and whose answer more than one call may wait for."""

    coordinator: Broker
    request: Any
    pending: PendingResponse[Any]


class TimeIsUp(ResponseTimeoutError):
    """Tell that the caller wants its turn back before the answer is there; the next call goes on waiting for it."""


class BaseCoordinator(GroupLink, ABC):
    """Be one member of a group, by dealing with the broker that coordinates it.

    A member registers with what it has to say (`group_protocols`); one of them is made leader and shares out
    (`_perform_assignment`); each is told its share (`_on_join_complete`). Heartbeats go out from a native thread from
    then on. When the others are to find shares anew, `need_rejoin` says so, and `ensure_active_group` joins again.

    State: one worker at a time joins, syncs and closes; any may ask `need_rejoin`.

    :param client: a KafkaClient, or a Cluster
    :param metrics: where measurements go; None for nowhere
    :param configs: as `DEFAULT_CONFIG` has them; others are left alone
    :raises ValueError: the heartbeat interval is not shorter than the session timeout, or the `group_instance_id` is none
    """

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
        super().__init__(client, {name: configs.get(name, default) for name, default in self.DEFAULT_CONFIG.items()})
        check_instance_id(self.config["group_instance_id"])
        self.membership = Membership()
        self.activity = Activity()
        #: Set when there may be news; see `sender.shares_events`.
        self.changed = self._handler.Event()
        self.heartbeat = Heartbeat(clock=self._handler.native.now, **self.config)
        self.sender = HeartbeatSender(
            self._handler, self.heartbeat, self.activity, self.config["max_poll_interval_ms"], self.changed.set
        )
        self.heartbeat_task = HeartbeatTask(self)
        #: What waits for its answer, for this call or the next.
        self._asked: Asked | None = None
        self._join_started = 0.0
        #: What each member is to get, where this one is the leader.
        self._shares: dict[str, bytes] = {}
        #: Whether `_on_join_prepare` was called for the rebalance that is under way.
        self._prepared = False
        #: When the caller wants its turn back, of the handler's clock (s).
        self._deadline: float | None = None
        self._metrics = GroupCoordinatorMetrics(self.heartbeat, metrics, self.config["metric_group_prefix"])
        self._ending = Ending(self._handler, f"pykafka.Leaving.{self.group_id}")
        self._handler.at_fork(self._after_fork)

    def _after_fork(self) -> None:
        # The member is the parent's; this process has to become one of its own.
        self.membership.apply(Event.LEFT)
        self.coordinator = None
        self.connection_id = uuid.uuid4()
        self._asked = None
        self._prepared = False
        self.activity.waiting = []
        self.changed = self._handler.Event()
        self.sender.notify = self.changed.set
        self._closing = False
        self._ending = Ending(self._handler, f"pykafka.Leaving.{self.group_id}")

    # -- what a kind of group defines --------------------------------------------------------------------------------

    @abstractmethod
    def protocol_type(self) -> str:
        """Return the kind of the group's members, such as "consumer"."""

    @abstractmethod
    def group_protocols(self) -> Sequence[tuple[str, Any]]:
        """Return (name, metadata) of each way to share out that this member knows, the best first.

        Metadata is bytes, or has `encode()`. The coordinator takes one that all members know.
        """

    def _on_join_prepare(self, generation: int, member_id: str) -> None:
        """Be told that the present share, if there is one, is about to be void: the time to commit."""

    @abstractmethod
    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, Any]:
        """Share out, as the leader: return what each member gets, as bytes or with `encode()`.

        :param leader_id: this member
        :param protocol: name of the one that was taken
        :param members: (member id, metadata) pairs
        """

    @abstractmethod
    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        """Be told this member's share, as the leader's `_perform_assignment` made it."""

    # -- being a member ------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The group's generation that this member belongs to; -1 for none."""
        return self.membership.generation_id

    @property
    def member_id(self) -> str:
        """The id that the coordinator has given this member; empty for none."""
        return self.membership.member_id

    def need_rejoin(self) -> bool:
        """Return whether there is a share to be had that this member has not.

        :raises FencedInstanceId: another member has taken this one's `group_instance_id`; once
        """
        self._take_news()
        return self.membership.state is not State.STABLE

    def request_rejoin(self) -> None:
        """Have the shares found anew at the next occasion: what there is to share has changed."""
        if self.membership.state is State.STABLE:
            self.membership.apply(Event.REBALANCE)

    def ensure_active_group(self, timeout_ms: int | None = None) -> None:
        """Join, and join again, until this member has its share.

        :param timeout_ms: after which to give up; None tries for as long as it takes
        :raises ProtocolClientError: the coordinator refuses for good
        :raises ResponseTimeoutError: not in time
        """
        self.activity.count += 1
        self._deadline = deadline = None if timeout_ms is None else self._handler.now() + timeout_ms / 1000
        while self.need_rejoin():
            if not self._prepared:
                self._on_join_prepare(self.generation, self.member_id)
                self._prepared = True
            try:
                self.ensure_coordinator_known(None if deadline is None else self._left_ms(deadline))
                self.join_and_sync(deadline)
                self._prepared = False
            except TimeIsUp as error:
                raise self._too_late(timeout_ms, error) from error
            except KafkaException as error:
                if not self.may_try_again(error):
                    raise
                if deadline is not None and self._handler.now() > deadline:
                    raise self._too_late(timeout_ms, error) from error
                log.info("group %s: %s; joining again", self.group_id, error)
                self._pause()

    def _too_late(self, timeout_ms: int | None, error: KafkaException) -> ResponseTimeoutError:
        return ResponseTimeoutError(
            f"group {self.group_id}: not a member within {timeout_ms} ms ({error}); the next call goes on with it"
        )

    def join_and_sync(self, deadline: float | None = None) -> None:
        """Join once, and be told the share; `_on_join_complete` has it.

        :param deadline: of the handler's clock (s): what is not answered by then is waited for by the next call
        :raises KafkaException: it did not come to that; `may_try_again` knows about it
        """
        if not self._waits_for(State.SYNCING, wire.SyncGroupRequest):
            joined = self.join(deadline)
            self._shares = {}
            if joined.leader == joined.member_id:
                members = [(member.member_id, bytes(member.metadata)) for member in joined.members]
                shares = self._perform_assignment(joined.leader, joined.protocol_name or "", members)
                self._shares = {member: encoded(assignment) for member, assignment in shares.items()}
        share = self.sync(self._shares, deadline)
        self._on_join_complete(self.generation, self.member_id, self.membership.protocol, share)

    def join(self, deadline: float | None = None) -> wire.JoinGroupResponse:
        """Join once, and return the answer, in which the leader finds all members; `sync` is to follow.

        :param deadline: as for `join_and_sync`
        :raises KafkaException: it failed; `may_try_again` knows about it
        """
        self._take_news()
        self.ensure_coordinator_known(None if deadline is None else self._left_ms(deadline))
        coordinator = self.coordinator
        if self._closing or coordinator is None:
            raise ConsumerStoppedException(f"group {self.group_id}: the member is being closed")
        try:
            version = self._join_version(coordinator)
            protocols = self.group_protocols()
            request = join_request(self.config, version, self.member_id, self.protocol_type(), protocols)
            asked = self._asked
            same = asked is not None and getattr(asked.request, "protocols", None) == request.protocols
            if not same or not self._waits_for(State.JOINING, wire.JoinGroupRequest):
                self._begin_join(request)
            response = self._ask_to_join(coordinator, request, version, deadline)
        except TimeIsUp:
            raise
        except KafkaException as error:
            self._failed(error)
            raise
        self._still(State.JOINING)
        self._check(response.error_code, "JoinGroup", coordinator)
        self.membership.apply(
            Event.JOINED,
            response.generation_id,
            response.member_id,
            response.protocol_name or request.protocols[0].name,
        )
        self._metrics.joined(self._handler.now() - self._join_started)
        self._send_heartbeats()
        return response

    def _begin_join(self, request: wire.JoinGroupRequest) -> None:
        if self.membership.state in {State.JOINING, State.SYNCING}:  # where a former attempt has ended
            self.membership.apply(Event.FAILED)
        self._forget_asked()
        self.request_rejoin()
        self.membership.apply(Event.JOIN)
        self._join_started = self._handler.now()
        log.info("group %s: joining as %s", self.group_id, request.member_id or "a new member")

    def _ask_to_join(
        self, coordinator: Broker, request: wire.JoinGroupRequest, version: int, deadline: float | None
    ) -> wire.JoinGroupResponse:
        """Return the answer to a request to join: again with the member id that is given where one is insisted on."""
        while True:
            if self._asked is None:
                patience = request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms
                self._ask(coordinator, request, version, self._cluster.socket_timeout_ms + patience)
            response: wire.JoinGroupResponse = self._answer(deadline)
            if response.error_code != MemberIdRequired.ERROR_CODE:
                return response
            # Noted at once: with it this member leaves, however the join ends.
            self._still(State.JOINING)
            self.membership.apply(Event.NAMED, member_id=response.member_id)
            request.member_id = response.member_id

    # -- what it waits for -------------------------------------------------------------------------------------------------

    def _ask(self, coordinator: Broker, request: Any, version: int, patience_ms: int) -> None:
        """Send what `_answer` waits for, over a connection of the member's own and never over a second one.

        A member that stops ends the connection on which it waits for the others: that must not make it join again.
        """
        if self._closing:
            raise ConsumerStoppedException(f"group {self.group_id}: the member is being closed")
        channel = group_channel(self.connection_id)
        try:
            pending = coordinator.send(request, channel, timeout_ms=patience_ms, version=version)
        except BaseException:
            coordinator.drop_channel(channel)  # it may be on its way all the same
            raise
        self._asked = Asked(coordinator, request, pending)

    def _answer(self, deadline: float | None) -> Any:
        """Return the answer to what was asked.

        :raises TimeIsUp: it has not come by the deadline; it may be waited for again
        :raises KafkaException: none will come
        """
        asked = self._asked
        if asked is None:
            raise ConsumerStoppedException(f"group {self.group_id}: the member was closed meanwhile")
        try:
            if deadline is None:
                response = asked.pending.get_when_due()
            else:
                response = asked.pending.get(max(0.0, deadline - self._handler.now()))
        except ResponseTimeoutError as error:
            if deadline is not None and not asked.pending.future.done:
                raise TimeIsUp(f"{type(asked.request).__name__}: {error}", broker=asked.coordinator.address) from error
            self._asked = None
            raise
        except KafkaException:
            self._asked = None
            raise
        self._asked = None
        return response

    def _waits_for(self, state: State, request_cls: type[Any]) -> bool:
        """Return whether an earlier call, whose time was up, has asked what is to be asked now."""
        asked = self._asked
        return (
            self.membership.state is state
            and asked is not None
            and isinstance(asked.request, request_cls)
            and asked.coordinator is self.coordinator
        )

    def _forget_asked(self) -> None:
        """Have what is asked next not wait behind what nobody waits for any more."""
        asked, self._asked = self._asked, None
        if asked is not None and not asked.pending.future.done:
            asked.coordinator.drop_channel(group_channel(self.connection_id))

    def _learn_member_id(self, timeout_ms: int) -> None:
        """Wait for the id that this member is about to be given, where it has asked for one, without which it cannot leave.

        Brokers from 2.2 on give it at once, older ones when the whole group has joined.
        """
        asked = self._asked
        static = self.config["group_instance_id"] is not None
        if asked is None or static or self.member_id or not isinstance(asked.request, wire.JoinGroupRequest):
            return
        try:
            response = asked.pending.get(timeout_ms / 1000)
        except KafkaException as error:
            log.warning(
                "group %s: the coordinator did not tell this member's id (%s), so it cannot leave: the others wait for "
                "its session's end",
                self.group_id,
                error,
            )
            return
        if response.member_id and self.membership.state in {State.JOINING, State.STALE}:
            self.membership.apply(Event.NAMED, member_id=response.member_id)

    def _join_version(self, coordinator: Broker) -> int:
        version = coordinator.api_version(wire.JoinGroupRequest)
        if version < STATIC_SINCE and self.config["group_instance_id"] is not None:
            raise UnsupportedVersion(
                "group_instance_id needs brokers of Kafka 2.3 or later; without it the member works here, and each of "
                "its restarts is a rebalance",
                broker=coordinator.address,
                api="JoinGroup",
            )
        return version

    def sync(self, shares: Mapping[str, bytes], deadline: float | None = None) -> bytes:
        """Be told this member's share, as bytes.

        :param shares: of all members, from the leader; nothing from the others
        :param deadline: as for `join_and_sync`
        :raises KafkaException: it failed; `may_try_again` knows about it
        """
        coordinator = self.coordinator
        if coordinator is None:
            self._failed(None)
            raise NotCoordinatorForGroup(f"group {self.group_id}: the coordinator was lost before the share was known")
        self._still(State.SYNCING)
        started = self._handler.now()
        patience = self._cluster.socket_timeout_ms + self.config["session_timeout_ms"]
        try:
            if not self._waits_for(State.SYNCING, wire.SyncGroupRequest):
                self._forget_asked()
                version = coordinator.api_version(wire.SyncGroupRequest)
                request = sync_request(self.config, version, self.membership, self.protocol_type(), shares)
                self._ask(coordinator, request, version, patience)
            response: wire.SyncGroupResponse = self._answer(deadline)
        except TimeIsUp:
            raise
        except KafkaException as error:
            self._failed(error)
            raise
        self._still(State.SYNCING)
        self._check(response.error_code, "SyncGroup", coordinator)
        self.membership.apply(Event.SYNCED)
        # Heartbeats before this moment may have been told of the very rebalance that ends here.
        self.sender.news.clear()
        self._send_heartbeats(restart=False)
        self._metrics.synced(self._handler.now() - started)
        log.info("group %s: %s has its share of generation %d", self.group_id, self.member_id, self.generation)
        return bytes(response.assignment)

    def _still(self, state: State) -> None:
        """Make sure that nobody has closed this member while it waited for an answer.

        :raises ConsumerStoppedException: somebody has
        """
        if self.membership.state is not state:
            raise ConsumerStoppedException(f"group {self.group_id}: the member was closed meanwhile")

    # -- what went wrong -----------------------------------------------------------------------------------------------

    def _check(self, code: int, api: str, coordinator: Broker) -> None:
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
        """Draw the conclusions of an error code that the coordinator answered.

        :param code: not 0
        """
        event = Event.LOST if code == FencedInstanceId.ERROR_CODE else EVENT_OF_ERROR.get(code, Event.FAILED)
        if event in {Event.OUTDATED, Event.LOST}:
            self.sender.beat(None)
        self.membership.apply(event)
        if code in MOVED:
            self.coordinator_dead(error_for(code))

    def _failed(self, error: BaseException | None) -> None:
        self.membership.apply(Event.FAILED)
        if self._closing:  # which ended the connection; the coordinator is there, and is told of the end
            return
        if isinstance(error, KafkaException) and not isinstance(error, (ProtocolClientError, UnsupportedVersion)):
            self.coordinator_dead(error)

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
        """Draw the conclusions of what the heartbeat's thread had to tell."""
        while self.sender.news:
            news = self.sender.news.popleft()
            # while joining or syncing, the answer to that tells more
            settled = self.membership.state in {State.STABLE, State.STALE}
            if settled and self.membership.is_present(news.generation_id, news.member_id):
                self._take(news)
        latency, self.sender.latency = self.sender.latency, 0.0
        if latency:
            self._metrics.answered(latency)
        if self.membership.state is State.STABLE and self.coordinator_unknown() and not self._closing:
            self._find_again()

    def _take(self, news: News) -> None:
        if news.idle:
            log.error(
                "group %s: the application took no messages for %d ms, so this member has left; call consume() more "
                "often, or raise max_poll_interval_ms",
                self.group_id,
                self.config["max_poll_interval_ms"],
            )
            self.membership.apply(Event.LEFT)
            return
        if news.code == 0 or news.code in MOVED:
            self.coordinator_dead(news.error or error_for(news.code))
            return
        log.info("group %s: the answer to a heartbeat is error %d", self.group_id, news.code)
        self.handle_error(news.code)
        if news.code == FencedInstanceId.ERROR_CODE:
            raise self._explained(news.code, news.broker, "Heartbeat")

    def _find_again(self) -> None:
        """Have heartbeats go to whoever coordinates the group now; where that is not known yet, the next call tries."""
        try:
            self.ensure_coordinator_known(0)
            self._send_heartbeats(restart=False)
        except KafkaException as error:
            if not self.may_try_again(error):
                raise
            self.coordinator_dead(error)
            self._cluster.limiter.warn(log, self.group_id, "group %s: %s", self.group_id, error)

    # -- the end -------------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Have a `join` or `sync` that waits in another worker fail now, and none begin: for who is about to `close`."""
        self._closing = True
        self._learn_member_id(LEAVE_TIMEOUT_MS)
        self._drop_connection()

    def close(self, *, timeout_ms: int | None = None) -> None:
        """End heartbeats, leave the group, and forget generation and member id; joining again begins anew.

        A static member does not leave: it is expected back within the session timeout.

        What ends this call, as a greenlet's timeout may, does not keep the member from leaving.

        :param timeout_ms: how long leaving may take; by default 5,000
        """
        nothing = self.membership.state is State.UNJOINED and not self.member_id and self.sender.has_ended
        if nothing and not self._closing:
            self.await_closed()
            return
        self._closing = True
        self._ending.take(partial(self._close, LEAVE_TIMEOUT_MS if timeout_ms is None else timeout_ms))

    def await_closed(self) -> None:
        """Wait until the member has left, where a `close` that did not wait for it has begun with that."""
        self._ending.wait()

    def _close(self, patience_ms: int) -> None:
        try:
            self.sender.stop()
            self._learn_member_id(patience_ms)
            member_id = self.member_id
            self.membership.apply(Event.LEFT)
            self._asked, self._prepared = None, False
            self._drop_connection()  # a request to join that waits there would hold up what comes behind it
            if self.config["group_instance_id"] is None:
                self._leave(member_id, patience_ms)
            self._drop_connection()
            self.coordinator = None
        finally:
            self._closing = False


class HeartbeatTask:
    """Turns a coordinator's heartbeats on and off.

    :param coordinator: whose
    """

    def __init__(self, coordinator: BaseCoordinator) -> None:
        self._coordinator = coordinator

    def disable(self) -> None:
        """Send none, until `reset`."""
        self._coordinator.sender.beat(None)

    def reset(self) -> None:
        """Send them for the present membership, which begins now as far as timeouts go."""
        if self._coordinator.membership.state in {State.SYNCING, State.STABLE, State.STALE}:
            self._coordinator._send_heartbeats()
