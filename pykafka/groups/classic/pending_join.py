"""`PendingJoin`: the request that a member has sent and whose answer more than one call may wait for."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykafka.exceptions import ConsumerStoppedException, KafkaException, ResponseTimeoutError
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.groups.coordinator_connection import CoordinatorConnection
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node

log = logging.getLogger(__name__)

R = TypeVar("R")

#: How often a call that waits for the answer looks whether the application wants it to end (s): at first, and later, as
#: many members may wait for long.
LOOK_S, LOOK_MAX_S = 0.1, 0.5
#: How long a call whose time is up may still take to connect (ms): with less, one that does not wait would never connect.
CONNECT_MS = 2000


class TimeIsUp(ResponseTimeoutError):
    """The caller's time is up before the answer is there; the next call goes on waiting for it."""


class _Asked(NamedTuple):
    coordinator: Node
    request: Any
    pending: InFlightRequest[Any]


class PendingJoin:
    """The JoinGroup or SyncGroup request of a member that is on its way: at most one at a time.

    It belongs to the member, not to the call that has sent it: a call whose time is up leaves it to the next one.

    :param link: to the coordinator
    """

    def __init__(self, link: CoordinatorConnection) -> None:
        self._link = link
        self._asked: _Asked | None = None
        #: Tells whether a call that waits for the answer is to end at once; None: nothing but its deadline ends it.
        self.interrupted: Callable[[], bool] | None = None

    @property
    def is_open(self) -> bool:
        """Whether an answer is due."""
        return self._asked is not None

    def of(self, kind: type[R]) -> R | None:
        """Return the request, if it is of a kind and was sent to the broker that coordinates the group now.

        :param kind: the request's class
        """
        asked = self._asked
        if asked is None or asked.coordinator is not self._link.coordinator or not isinstance(asked.request, kind):
            return None
        return asked.request

    def send(
        self, coordinator: Node, request: Any, version: int, patience_ms: int, deadline: float | None = None
    ) -> None:
        """Send a request, over a connection that is lent to the member for it, and never over a second one.

        A member that stops ends the connection on which it waits for the others: that must not make it join again.

        :param patience_ms: how long the answer may take
        :param deadline: of the handler's clock (s), for connecting; there is always time enough for a slow login
        :raises KafkaException: the request could not be sent, or the member is being closed
        """
        if self._link.closing:
            raise ConsumerStoppedException(f"group {self._link.group_id}: the member is being closed")
        channel = self._link.borrow(coordinator)
        try:
            if deadline is not None:
                coordinator.channel(channel).open(self._link.left_ms(deadline, CONNECT_MS))
            pending = coordinator.send(request, channel, timeout_ms=patience_ms, version=version)
        except BaseException:
            self._link.drop_connection()  # it may be on its way all the same
            raise
        self._asked = _Asked(coordinator, request, pending)

    def answer(self, deadline: float | None) -> Any:
        """Wait for the answer and return it.

        :param deadline: of the handler's clock (s); None waits for as long as the request has patience
        :raises TimeIsUp: it has not come by the deadline, or the call is to end; it may be waited for again
        :raises KafkaException: none will come
        """
        asked = self._asked
        if asked is None:
            raise ConsumerStoppedException(f"group {self._link.group_id}: the member was closed meanwhile")
        try:
            if self._is_interrupted(asked, deadline):
                response = asked.pending.get(timeout=0.0)
            elif deadline is None:
                response = asked.pending.get_when_due()
            else:
                response = asked.pending.get(timeout=max(0.0, deadline - self._link.handler.now()))
        except ResponseTimeoutError as error:
            if not asked.pending.done and (deadline is not None or self._wanted_back):
                raise TimeIsUp(f"{type(asked.request).__name__}: {error}", broker=asked.coordinator.address) from error
            self._end(asked)
            raise
        except KafkaException:
            self._end(asked)
            raise
        self._asked = None
        self._link.give_back()
        return response

    def _end(self, asked: _Asked) -> None:
        """Wait no more for an answer that cannot come, or cannot be read."""
        if self._asked is asked:
            self._asked = None
            self._link.drop_connection()

    @property
    def _wanted_back(self) -> bool:
        return self.interrupted is not None and self.interrupted()

    def _is_interrupted(self, asked: _Asked, deadline: float | None) -> bool:
        """Wait until the answer is there or due, or the time is up; return True if the call is to end before."""
        pending, now = asked.pending, self._link.handler.now
        began = now()
        while self.interrupted is not None and not pending.done:
            if self.interrupted():
                return True
            tick = min(LOOK_MAX_S, max(LOOK_S, (now() - began) / 4))
            left = min(pending.deadline, math.inf if deadline is None else deadline) - now()
            if left <= 0 or pending.wait(min(left, tick)):
                return False
        return False

    def forget(self) -> None:
        """Wait for the answer no more; the connection is left alone."""
        self._asked = None

    def drop(self) -> None:
        """Wait for the answer no more, and end the connection: the next request must not wait behind this one."""
        asked, self._asked = self._asked, None
        if asked is not None and not asked.pending.done:
            self._link.drop_connection()

    def member_id(self, timeout_ms: int) -> str:
        """Wait for the member id that the answer to a JoinGroup request brings: without it the member cannot leave.

        Brokers from 2.2 on answer with it at once, older ones when the whole group has joined.

        :param timeout_ms: how long to wait
        :returns: empty if no such answer is due, or it did not come
        """
        asked = self._asked
        if asked is None or not isinstance(asked.request, wire.JoinGroupRequest):
            return ""
        try:
            response = asked.pending.get(timeout=timeout_ms / 1000)
        except KafkaException as error:
            log.warning(
                "group %s: the coordinator did not tell this member's id (%s), so it cannot leave: the other members wait "
                "until its session ends",
                self._link.group_id,
                error,
            )
            return ""
        return str(response.member_id)
