"""`CoordinatorConnection`: which broker coordinates a group, and a member's connections to it: a shared one, and a lent one."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.exceptions import (
    ClientClosedError,
    ConsumerStoppedException,
    GroupCoordinatorNotAvailable,
    KafkaException,
    NotCoordinatorForGroup,
    ProtocolClientError,
    ResponseTimeoutError,
    SocketDisconnectedError,
    UnknownMemberId,
    UnsupportedVersion,
    error_for,
)
from pykafka.groups.classic.state import EVENT_OF_ERROR, MOVED
from pykafka.groups.group_requests import leave_request
from pykafka.metadata.internal_topics import OFFSETS, is_unavailable
from pykafka.network.channel import LENT, SHARED
from pykafka.protocol import wire
from pykafka.utils.backoff import Backoff

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request

log = logging.getLogger(__name__)

R = TypeVar("R")
#: Asks a coordinator to remove a member, by a deadline (s), and returns the error code of its answer.
LeaveOnce = Callable[["Node", float], int]
#: The longest pause before a request is tried again (ms): Kafka's own retry.backoff.max.ms.
RETRY_BACKOFF_MAX_MS = 1000
#: How long leaving may take (ms): a member that leaves is in a hurry, and the session times out by itself.
LEAVE_TIMEOUT_MS = 5000
#: How often a caller that waits for an answer looks whether it is still wanted (s).
LOOK_S = 0.1


class JoinConnections:
    """The connections for JoinGroup and SyncGroup: one member has one while it waits; `Broker.shared` has this object.

    A broker answers the requests of a connection one after another, and these only when all members have come. The connections
    that nobody has are kept for a moment (`pykafka.network.channel.LENT_IDLE_MS`): rebalances often come in pairs.

    State: `_free` changes by single steps, on any worker.

    :param broker: the coordinator
    """

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._free: deque[str] = deque()
        self._numbers = count(1)

    @classmethod
    def at(cls, broker: Node) -> JoinConnections:
        """Return what all members at a coordinator share.

        :raises KafkaException: the broker has left the cluster, or the client was closed
        """
        return broker.shared("lent connections", lambda: cls(broker))

    def borrow(self) -> str:
        """Return the name of a channel that is the caller's until it gives it back, or drops it."""
        while self._free:
            try:
                name = self._free.pop()
            except IndexError:  # another member has taken the last one
                break
            if self._broker.is_connected(name):
                return name
            self._broker.drop_channel(name)
        return f"{LENT}{next(self._numbers)}"

    def give_back(self, name: str) -> None:
        """Take a channel back on which no answer is due."""
        for _ in range(len(self._free)):  # the oldest, which were idle for too long
            try:
                oldest = self._free.popleft()
            except IndexError:
                break
            if self._broker.is_connected(oldest):
                self._free.appendleft(oldest)
                break
            self._broker.drop_channel(oldest)
        self._free.append(name)

    def stop(self) -> None:
        """Do nothing: the broker ends its connections itself."""

    def abandon(self) -> None:
        """Do nothing: the broker ends its connections itself."""


class CoordinatorConnection:
    """The ways of one member to the broker that coordinates its group.

    Short requests go over a connection that all members of this client share at that broker: `call`. Requests that the broker
    holds back go over one that is lent to this member meanwhile: `borrow`.

    State: `coordinator` may be set by any worker of the member; `_lent` changes by single steps.

    :param cluster: that has the group
    :param group_id: the group
    :param retry_backoff_ms: pause before a request is tried again (ms); twice as long each time after that, up to a second
    """

    def __init__(self, cluster: BaseCluster, group_id: str, retry_backoff_ms: int) -> None:
        self.cluster = cluster
        self.handler = cluster.handler
        self.group_id = group_id
        self.coordinator: Node | None = None
        #: Set while the member is being closed: what waits for the coordinator gives up then.
        self.closing = False
        self._pauses = Backoff(retry_backoff_ms, RETRY_BACKOFF_MAX_MS, cluster.handler.random)
        #: The connection that this member has, as (broker, name of the channel); none or one.
        self._lent: list[tuple[Node, str]] = []

    def after_fork(self) -> None:
        """Leave coordinator and connection to the parent process."""
        self.coordinator = None
        self._lent = []
        self.closing = False

    # -- the coordinator -------------------------------------------------------------------------------------------

    def is_unknown(self) -> bool:
        """Return whether the coordinator is to be looked for; one that has left the cluster is forgotten."""
        broker = self.coordinator
        if broker is not None and self.cluster.brokers.get(broker.id) is not broker:
            self.lose(f"{broker.address} has left the cluster or moved")
        return self.coordinator is None

    def lose(self, error: Any) -> None:
        """Forget which broker coordinates the group.

        :param error: why, for the log
        """
        if isinstance(error, KafkaException) and is_unavailable(error):
            self.cluster.internal_topics.waits(OFFSETS, f"group {self.group_id}")
        if self.coordinator is not None:
            log.info("group %s: coordinator %s is given up: %s", self.group_id, self.coordinator.address, error)
            self.drop_connection()
            self._forget()

    def _forget(self) -> None:
        self.cluster.coordinators.forget(self.group_id, self.coordinator)
        self.coordinator = None

    def find(self, timeout_ms: int | None = None) -> None:
        """Find out which broker coordinates the group, unless that is known.

        :param timeout_ms: how long to go on trying; by default the client's socket timeout
        :raises KafkaException: it could not be found out
        """
        if not self.is_unknown():
            return
        patience = self.cluster.socket_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.handler.now() + patience / 1000
        for tries in count(1):
            left_ms = None if timeout_ms is None else max(0, round((deadline - self.handler.now()) * 1000))
            try:
                self._ask_for_coordinator(left_ms)
                return
            except (ClientClosedError, UnsupportedVersion):
                raise
            except KafkaException as error:
                if not error.retriable or self.closing or self.handler.now() > deadline:
                    raise
                log.info("group %s: %s; asking again", self.group_id, error)
            self.pause(tries)

    def found(self, timeout_ms: int | None = None) -> Node:
        """Return the coordinator; parameters and errors as of `find`."""
        self.find(timeout_ms)
        coordinator = self.coordinator
        if coordinator is None:
            raise GroupCoordinatorNotAvailable(f"group {self.group_id}: the coordinator was lost a moment ago")
        return coordinator

    def _ask_for_coordinator(self, timeout_ms: int | None = None) -> None:
        """Ask which broker coordinates the group, unless another member of this client knows; as `get_group_coordinator`."""
        self.coordinator = self.cluster.coordinators.find(self.cluster, self.group_id, timeout_ms)
        log.info("group %s: coordinated by %s", self.group_id, self.coordinator.address)

    # -- trying again ----------------------------------------------------------------------------------------------

    def pause(self, failures: int, deadline: float | None = None) -> None:
        """Wait after so many failures in a row, but not beyond a deadline (s)."""
        seconds = self._pauses.seconds(failures)
        if deadline is not None:
            seconds = max(0.0, min(seconds, deadline - self.handler.now()))
        self.handler.sleep(seconds)

    def left_ms(self, deadline: float, least: int = 100) -> int:
        """Return the time left until a deadline (ms); one that has passed leaves time for one answer that is quick."""
        return max(least, int((deadline - self.handler.now()) * 1000))

    def may_try_again(self, error: KafkaException) -> bool:
        """Return whether joining again may help against an error of `join` or `sync`."""
        if self.closing or self.cluster.closed:
            return False
        if isinstance(error, ProtocolClientError):
            return error.ERROR_CODE in EVENT_OF_ERROR or error.retriable
        return self.cluster.may_pass(error)

    @property
    def channel(self) -> str:
        """The name of the channel that all members of this client share at a coordinator; see `call`."""
        return SHARED

    # -- connections ---------------------------------------------------------------------------------------------------

    def call(
        self,
        request: Request[R],
        broker: Node,
        deadline: float | None = None,
        *,
        version: int | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> R:
        """Send a short request over the connection that all members share, and return the answer.

        A caller whose time is up leaves that connection alone. One that turns out to be closed is replaced once.

        :param request: one that the broker answers at once
        :param broker: the coordinator
        :param deadline: of the handler's clock (s); by default the client's socket timeout counts alone
        :param version: of the API; by default the highest that both sides speak
        :param wanted: asked every now and then while this waits; False ends it
        :raises ResponseTimeoutError: no answer in time
        :raises ConsumerStoppedException: it is not wanted any more
        :raises SocketDisconnectedError: the broker cannot be reached
        """
        was_up = broker.is_connected(SHARED)
        try:
            return self._call_once(request, broker, deadline, version, wanted)
        except ResponseTimeoutError:
            raise
        except SocketDisconnectedError:
            if not was_up:
                raise
            return self._call_once(request, broker, deadline, version, wanted)

    def _call_once(
        self,
        request: Request[R],
        broker: Node,
        deadline: float | None,
        version: int | None,
        wanted: Callable[[], bool],
    ) -> R:
        now = self.handler.now
        if deadline is not None and not broker.is_connected(SHARED):
            broker.channel(SHARED).open(self.left_ms(deadline))
        if deadline is not None and now() + broker.throttled_for(SHARED) > deadline:
            raise ResponseTimeoutError("the broker throttles this client for longer", broker=broker.address)
        pending = broker.send(request, SHARED, version=version)
        while not pending.done:
            left = min(pending.deadline, math.inf if deadline is None else deadline) - now()
            if not wanted():
                raise ConsumerStoppedException(f"group {self.group_id}: the member is being closed")
            if left <= 0:
                break
            pending.wait(min(left, LOOK_S))
        if not pending.done and now() < pending.deadline:
            api = type(request).__name__
            raise ResponseTimeoutError("no answer in the time that was left for it", broker=broker.address, api=api)
        return pending.get_when_due()

    def error(self, code: int, message: str | None, api: str) -> ProtocolClientError:
        """Return the error that the coordinator has answered.

        :param message: its own words; None for none
        """
        address = None if self.coordinator is None else self.coordinator.address
        return error_for(code, message, broker=address, api=api)

    def borrow(self, broker: Node) -> str:
        """Return the name of the channel for a request that the broker holds back; call `give_back` or `drop_connection`."""
        self.drop_connection()
        name = JoinConnections.at(broker).borrow()
        self._lent.append((broker, name))
        return name

    def give_back(self) -> None:
        """Give the lent connection back: the answer is there."""
        lent = self._take_lent()
        if lent is not None:
            JoinConnections.at(lent[0]).give_back(lent[1])

    def drop_connection(self) -> None:
        """End the connection that is lent to this member, where there is one: nobody is to wait for its answer."""
        lent = self._take_lent()
        if lent is not None:
            lent[0].drop_channel(lent[1])

    def _take_lent(self) -> tuple[Node, str] | None:
        try:
            return self._lent.pop()
        except IndexError:
            return None

    # -- leaving ---------------------------------------------------------------------------------------------------

    def leave(self, member_id: str, timeout_ms: int) -> None:
        """Ask the coordinator, wherever it is by now, to remove a member; if that fails, the session times out.

        :param member_id: the member; empty for none
        :param timeout_ms: for how long to try
        """
        if member_id:
            self.leave_by(partial(self._leave_once, member_id), member_id, timeout_ms)

    def leave_by(self, once: LeaveOnce, member_id: str, timeout_ms: int) -> None:
        """Ask the coordinator, wherever it is by now, to remove a member; if that fails, the session times out.

        :param once: asks a coordinator, by a deadline (s), and returns the error code of its answer
        :param member_id: the member, for the log
        :param timeout_ms: for how long to try
        """
        deadline = self.handler.now() + timeout_ms / 1000
        for tries in count(1):
            try:
                self._leave_at(once, deadline)
                log.info("group %s: %s has left", self.group_id, member_id)
                return
            except KafkaException as error:
                passing = not isinstance(error, ProtocolClientError) or error.ERROR_CODE in MOVED or error.retriable
                if not passing or self.cluster.closed or self.handler.now() > deadline:
                    level = logging.INFO if isinstance(error, UnknownMemberId) else logging.WARNING
                    text = "group %s: leaving failed, so the other members wait until the session ends: %s"
                    log.log(level, text, self.group_id, error)
                    return
                log.info("group %s: leaving: %s; trying again", self.group_id, error)
                self.drop_connection()
                self._forget()
            self.pause(tries)

    def _leave_at(self, once: LeaveOnce, deadline: float) -> None:
        if self.is_unknown():
            self._ask_for_coordinator(self.left_ms(deadline))
        coordinator = self.coordinator
        if coordinator is None:
            raise NotCoordinatorForGroup(f"group {self.group_id}: the coordinator was lost a moment ago")
        code = once(coordinator, max(deadline, self.handler.now() + LOOK_S))
        if code:
            raise error_for(code, broker=coordinator.address, api="LeaveGroup")

    def _leave_once(self, member_id: str, coordinator: Node, deadline: float) -> int:
        version = coordinator.api_version(wire.LeaveGroupRequest)
        request = leave_request(self.group_id, member_id, version)
        response = self.call(request, coordinator, deadline, version=version)
        codes = [response.error_code, *(member.error_code for member in response.members)]
        return next((code for code in codes if code), 0)
