"""`CoordinatorConnection`: which broker coordinates a group, and a member's requests to it."""

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
    IllegalGeneration,
    KafkaException,
    NotCoordinatorForGroup,
    ProtocolClientError,
    RebalanceInProgress,
    RequestTimedOut,
    ResponseTimeoutError,
    SocketDisconnectedError,
    UnknownMemberId,
    UnsupportedVersion,
    error_for,
)
from pykafka.metadata.internal_topics import OFFSETS, is_unavailable
from pykafka.metrics.listener import COORDINATOR, FAILED, LEFT
from pykafka.network.channel import LENT, SHARED
from pykafka.utils import is_legal_name
from pykafka.utils.backoff import Backoff
from pykafka.utils.error_handlers import QUICK_ANSWER_MS, left_ms

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.in_flight import InFlightRequest
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
#: How often a caller that waits for an answer checks whether it still needs it (s).
ANSWER_POLL_INTERVAL_S = 0.1
#: The error codes after which the member has to find its coordinator again.
MOVED = frozenset(kind.ERROR_CODE for kind in (GroupCoordinatorNotAvailable, NotCoordinatorForGroup, RequestTimedOut))
#: The error codes, besides retriable ones, after which the member may join again.
REJOIN = frozenset({IllegalGeneration.ERROR_CODE, UnknownMemberId.ERROR_CODE, RebalanceInProgress.ERROR_CODE})


def check_instance_id(instance_id: object) -> None:
    """Check that brokers accept a `group_instance_id`; None means that the member is not static.

    :raises ValueError: they do not
    """
    if instance_id is not None and not (isinstance(instance_id, str) and is_legal_name(instance_id)):
        raise ValueError(
            f"group_instance_id must be 1 to 249 letters, digits, dots, underscores or hyphens, not {instance_id!r}"
        )


class JoinConnections:
    """A pool of connections for JoinGroup and SyncGroup: one member has one while it waits; `Node.shared` has this object.

    A broker answers the requests of a connection one after another, and these only when all members have joined. Free
    connections are kept for a moment (`pykafka.network.channel.LENT_IDLE_MS`): rebalances often come in pairs.

    State: `_free` changes by single steps, on any worker.

    :param broker: the coordinator
    """

    #: They are the broker's channels.
    connection_count = 0

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._free: deque[str] = deque()
        self._numbers = count(1)

    @classmethod
    def at(cls, broker: Node) -> JoinConnections:
        """Return the pool of all members at a coordinator.

        :raises KafkaException: the broker has left the cluster, or the client was closed
        """
        return broker.shared("lent connections", partial(cls, broker))

    def acquire(self) -> str:
        """Return the name of a channel that is the caller's until it releases it, or drops it."""
        while self._free:
            try:
                name = self._free.pop()
            except IndexError:  # another member has taken the last one
                break
            if self._broker.is_connected(name):
                return name
            self._broker.drop_channel(name)
        return f"{LENT}{next(self._numbers)}"

    def release(self, name: str) -> None:
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

    def stop(self, drain_s: float = 0.0) -> None:
        """Do nothing: the broker ends its connections itself."""

    def abandon(self) -> None:
        """Do nothing: the broker ends its connections itself."""


class CoordinatorConnection:
    """The connections of one member to the broker that coordinates its group.

    Short requests use a connection that all members of this client share at that broker: `call`. Requests that the broker
    holds back use one of this member's own meanwhile: `acquire`.

    State: any worker of the member may set `coordinator`; `_acquired` changes by single steps.

    :param cluster: that has the group
    :param group_id: the group
    :param retry_backoff_ms: pause before a request is tried again (ms); twice as long each time after that, up to a second
    :param listener: hears of the coordinator, and that the member has left; by default that of the client
    """

    def __init__(
        self, cluster: BaseCluster, group_id: str, retry_backoff_ms: int, listener: ClientListener | None = None
    ) -> None:
        self.listener = listener or cluster.listener
        self.cluster = cluster
        self.handler = cluster.handler
        self.group_id = group_id
        self.coordinator: Node | None = None
        #: Set while the member is being closed: calls that wait for the coordinator end then.
        self.closing = False
        self._pauses = Backoff(retry_backoff_ms, RETRY_BACKOFF_MAX_MS, cluster.handler.random)
        #: The connection that this member has, as (broker, name of the channel); none or one.
        self._acquired: list[tuple[Node, str]] = []

    def after_fork(self) -> None:
        """Leave coordinator and connection to the parent process."""
        self.coordinator = None
        self._acquired = []
        self.closing = False

    # -- the coordinator -------------------------------------------------------------------------------------------

    def is_unknown(self) -> bool:
        """Return whether the coordinator has to be found; one that has left the cluster, or has a successor, is forgotten.

        One that is cut off from the controller goes on to answer heartbeats; a commit, which it refuses, finds its successor.
        """
        broker = self.coordinator
        if broker is not None and self.cluster.brokers.get(broker.id) is not broker:
            self.mark_unknown(f"{broker.address} has left the cluster or moved")
        elif broker is not None and self.cluster.coordinators.has_successor(self.group_id, broker):
            self.mark_unknown("another worker has found its successor")
        return self.coordinator is None

    def mark_unknown(self, error: Any) -> None:
        """Forget which broker coordinates the group.

        :param error: why, for the log
        """
        if isinstance(error, KafkaException) and is_unavailable(error):
            self.cluster.internal_topics.waits(OFFSETS, f"group {self.group_id}")
        if self.coordinator is not None:
            log.info("group %s: coordinator %s is given up: %s", self.group_id, self.coordinator.address, error)
            if self.listener is not None:
                self.listener.on_event(COORDINATOR, f"group {self.group_id}", 0.0, error)
            self.drop_connection()
            self._forget(error)

    def _forget(self, error: object) -> None:
        self.cluster.coordinators.refused(self.group_id, self.coordinator, error)
        self.cluster.coordinators.forget(self.group_id, self.coordinator)
        self.coordinator = None

    def find(self, timeout_ms: int | None = None) -> Node:
        """Return the broker that coordinates the group; ask for it unless it is known.

        With a time limit its versions are known then, too, so that callers need not wait for them.

        :param timeout_ms: for how long to try; by default the client's socket timeout
        :raises KafkaException: it was not found
        """
        known = None if self.is_unknown() else self.coordinator
        if known is not None and timeout_ms is None:
            return known
        limit_ms = self.cluster.socket_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.handler.now() + limit_ms / 1000
        tries = 0
        while True:
            within_ms = None if timeout_ms is None else left_ms(deadline, self.handler.now(), 0)
            try:
                found = self._ask_for_coordinator(within_ms) if known is None else known
                if within_ms is not None:
                    found.connect_within(min(self.left_ms(deadline), self.cluster.socket_timeout_ms))
                return found
            except (ClientClosedError, UnsupportedVersion):
                raise
            except KafkaException as error:
                is_quick = timeout_ms is not None and timeout_ms <= QUICK_ANSWER_MS  # the next call finds out more
                if is_quick or not error.retriable or self.closing or self.handler.now() > deadline:
                    raise
                log.info("group %s: %s; asking again", self.group_id, error)
                if self.listener is not None:
                    self.listener.on_event(FAILED, f"group {self.group_id}", 0.0, error)
            known = None
            tries += 1
            self.pause(tries, None if timeout_ms is None else deadline)

    def _ask_for_coordinator(self, timeout_ms: int | None = None) -> Node:
        """Ask for the group's coordinator, unless another member of this client knows it; see `get_group_coordinator`."""
        began = self.handler.now()
        broker = self.coordinator = self.cluster.coordinators.find(self.cluster, self.group_id, timeout_ms)
        if self.listener is not None:
            self.listener.on_event(COORDINATOR, f"group {self.group_id}", self.handler.now() - began, broker.address)
        log.info("group %s: coordinated by %s", self.group_id, broker.address)
        return broker

    # -- trying again ----------------------------------------------------------------------------------------------

    def pause(self, failures: int, deadline: float | None = None) -> bool:
        """Wait after so many failures in a row, but not beyond a deadline (s); return False if that has ended it."""
        seconds = self._pauses.seconds(failures)
        left = seconds if deadline is None else max(0.0, deadline - self.handler.now())
        self.handler.sleep(min(seconds, left))
        return seconds <= left

    def left_ms(self, deadline: float, least: int = QUICK_ANSWER_MS) -> int:
        """Return the time left until a deadline (ms); one that has passed leaves time for one quick answer."""
        return left_ms(deadline, self.handler.now(), least)

    def limit_ms(self, deadline: float | None) -> int | None:
        """Return the time left until a deadline (ms), as `left_ms` does; None without a deadline."""
        return None if deadline is None else self.left_ms(deadline)

    def may_try_again(self, error: KafkaException) -> bool:
        """Return whether joining again may help against an error of `join` or `sync`."""
        if self.closing or self.cluster.closed:
            return False
        if isinstance(error, ProtocolClientError):
            return error.ERROR_CODE in REJOIN or error.retriable
        return self.cluster.may_pass(error)

    # -- short requests ------------------------------------------------------------------------------------------------

    def call(
        self,
        request: Request[R],
        broker: Node,
        deadline: float | None = None,
        *,
        version: int | None = None,
        is_needed: Callable[[], bool] = lambda: True,
        kept: list[InFlightRequest[R]] | None = None,
    ) -> R:
        """Send a short request over the connection that all members share, and return the answer.

        A caller whose time is up leaves that connection open. One that turns out to be closed is replaced once.

        :param request: one that the broker answers at once
        :param broker: the coordinator
        :param deadline: of the handler's clock (s); by default the client's socket timeout counts alone
        :param version: of the API; by default the highest that both sides have
        :param is_needed: called regularly while this waits; False ends the wait
        :param kept: has the sent request while its answer is due: if this call ends before, the next one with the same list, at
            the same broker, waits for that answer; by default the answer is given up
        :raises ResponseTimeoutError: no answer in time
        :raises ConsumerStoppedException: the answer is not needed any more
        :raises SocketDisconnectedError: the broker cannot be reached
        """
        was_up = broker.is_connected(SHARED)
        try:
            return self._call_once(request, broker, deadline, version, is_needed, kept)
        except ResponseTimeoutError:
            raise
        except SocketDisconnectedError:
            if not was_up:
                raise
            return self._call_once(request, broker, deadline, version, is_needed, kept)

    def _call_once(
        self,
        request: Request[R],
        broker: Node,
        deadline: float | None,
        version: int | None,
        is_needed: Callable[[], bool],
        kept: list[InFlightRequest[R]] | None,
    ) -> R:
        now = self.handler.now
        kept = [] if kept is None else kept
        if not kept:
            if deadline is not None and not broker.is_connected(SHARED):
                broker.channel(SHARED).open(self.left_ms(deadline))
            if deadline is not None and now() + broker.throttled_for(SHARED) > deadline:
                raise ResponseTimeoutError("the broker throttles this client for longer", broker=broker.address)
            kept.append(broker.send(request, SHARED, version=version, until=deadline))
        pending = kept[0]
        while not pending.done:
            left = min(pending.deadline, math.inf if deadline is None else deadline) - now()
            if not is_needed():
                raise ConsumerStoppedException(f"group {self.group_id}: the member is being closed")
            if left <= 0:
                break
            pending.wait(min(left, ANSWER_POLL_INTERVAL_S))
        if not pending.done and now() < pending.deadline:
            api = type(request).__name__
            raise ResponseTimeoutError("no answer in the time that was left for it", broker=broker.address, api=api)
        kept.clear()
        return pending.get_when_due()

    # -- the connection for slow requests --------------------------------------------------------------------------------

    def acquire(self, broker: Node) -> str:
        """Return the name of the channel for a request that the broker holds back; call `release` or `drop_connection`."""
        self.drop_connection()
        name = JoinConnections.at(broker).acquire()
        self._acquired.append((broker, name))
        return name

    def holds(self, broker: Node, name: str) -> bool:
        """Return whether a channel is still this member's own."""
        return (broker, name) in self._acquired

    def release(self) -> None:
        """Give this member's connection back to the pool: the answer has come."""
        acquired = self._pop()
        if acquired is not None:
            JoinConnections.at(acquired[0]).release(acquired[1])

    def drop_connection(self) -> None:
        """End this member's own connection, if it has one: it waits for no answer any more, which other members may hold up."""
        acquired = self._pop()
        if acquired is not None:
            acquired[0].drop_channel(acquired[1], drain_s=0.0)

    def _pop(self) -> tuple[Node, str] | None:
        try:
            return self._acquired.pop()
        except IndexError:
            return None

    # -- leaving ---------------------------------------------------------------------------------------------------

    def leave_by(self, once: LeaveOnce, member_id: str, timeout_ms: int) -> None:
        """Ask the present coordinator to remove a member; if that fails, the session times out.

        :param once: asks a coordinator, by a deadline (s), and returns the error code of its answer
        :param member_id: the member, for the log
        :param timeout_ms: for how long to try
        """
        began = self.handler.now()
        deadline = began + timeout_ms / 1000
        for tries in count(1):
            try:
                self._leave_at(once, deadline)
                log.info("group %s: %s has left", self.group_id, member_id)
                if self.listener is not None:
                    self.listener.on_event(LEFT, f"group {self.group_id}", self.handler.now() - began, member_id)
                return
            except KafkaException as error:
                passing = not isinstance(error, ProtocolClientError) or error.ERROR_CODE in MOVED or error.retriable
                if not passing or self.cluster.closed or self.handler.now() > deadline:
                    level = logging.INFO if isinstance(error, UnknownMemberId) else logging.WARNING
                    text = "group %s: leaving failed, so the other members wait until the session ends: %s"
                    log.log(level, text, self.group_id, error)
                    if self.listener is not None:
                        self.listener.on_event(LEFT, f"group {self.group_id}", self.handler.now() - began, error)
                    return
                log.info("group %s: leaving: %s; trying again", self.group_id, error)
                self.drop_connection()
                self._forget(error)
            self.pause(tries, deadline)

    def _leave_at(self, once: LeaveOnce, deadline: float) -> None:
        coordinator = None if self.is_unknown() else self.coordinator
        if coordinator is None:
            coordinator = self._ask_for_coordinator(self.left_ms(deadline))
        code = once(coordinator, max(deadline, self.handler.now() + ANSWER_POLL_INTERVAL_S))
        if code:
            raise error_for(code, broker=coordinator.address, api="LeaveGroup")
