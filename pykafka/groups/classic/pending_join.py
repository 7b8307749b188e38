"""`PendingJoin`: the request of a classic member whose answer waits for the other members."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykafka.exceptions import ConsumerStoppedException, KafkaException, ResponseTimeoutError
from pykafka.handlers.interrupts import FinalSteps
from pykafka.network.requests import DRAIN_S
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.groups.coordinator_connection import CoordinatorConnection
    from pykafka.handlers import Worker
    from pykafka.network.channel import Channel
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node
    from pykafka.network.requests import RequestHandler

log = logging.getLogger(__name__)

R = TypeVar("R")
#: How often a call that waits for a JoinGroup or SyncGroup response checks for `wakeup()` (s): at first, and later, as many
#: members may wait for long.
WAKEUP_POLL_INTERVAL_S, WAKEUP_POLL_INTERVAL_MAX_S = 0.1, 0.5


class DeadlinePassed(ResponseTimeoutError):
    """The caller's deadline has passed before the answer; the next call waits for it."""


class _SentRequest(NamedTuple):
    coordinator: Node
    request: Any
    pending: InFlightRequest[Any]
    sent_at: float


class _Opening(NamedTuple):
    coordinator: Node
    name: str
    channel: Channel
    #: Connects it; None if it is connected.
    worker: Worker | None


class PendingJoin:
    """The JoinGroup or SyncGroup request of a member whose answer is due: at most one at a time.

    It belongs to the member, not to the call that has sent it: after a deadline the next call waits for the same answer.

    :param connection: to the coordinator
    """

    def __init__(self, connection: CoordinatorConnection) -> None:
        self._connection = connection
        #: The request whose answer is due; None for none.
        self.sent: _SentRequest | None = None
        # The member's own connection while it is made, or throttled, before a request was sent on it.
        self._opening: _Opening | None = None
        #: Returns whether a call that waits for the answer has to end at once; by default only its deadline ends it.
        self.interrupted: Callable[[], bool] = lambda: False
        self._after_fork()
        connection.handler.at_fork(self._after_fork)

    def _after_fork(self) -> None:
        """Leave to the parent process what it sends."""
        connection = self._connection
        # Sends the first request of a member.
        self._sending = FinalSteps(connection.handler, f"pykafka.FirstJoin.{connection.group_id}")

    def of(self, kind: type[R]) -> R | None:
        """Return the request, if it is of a kind and was sent to the present coordinator of the group.

        :param kind: the request's class
        """
        sent = self.sent
        if sent is None or sent.coordinator is not self._connection.coordinator or not isinstance(sent.request, kind):
            return None
        return sent.request

    def send(
        self, coordinator: Node, request: Any, version: int, timeout_ms: int, deadline: float | None = None
    ) -> None:
        """Send a request, over a connection of the member's own, and never over a second one.

        A member that stops ends the connection on which it waits for the others: that must not make it join again.

        A first request to join goes out by a worker: if an interrupt ended its connection, it could have arrived all the same.
        Then the coordinator would wait for a member whose id nobody knows, and with it the group, until a session's end.

        :param timeout_ms: how long the answer may take
        :param deadline: of the handler's clock (s), for connecting, and for the end of throttling
        :raises DeadlinePassed: the connection is not ready by then; the next call continues to make it
        :raises KafkaException: the request could not be sent, or the member is being closed
        """
        if self._connection.closing:
            raise ConsumerStoppedException(f"group {self._connection.group_id}: the member is being closed")
        is_first = isinstance(request, wire.JoinGroupRequest) and not request.member_id
        sending = False
        try:
            name, requests = self._ready(coordinator, deadline)
            send = partial(
                coordinator.send,
                request,
                name,
                timeout_ms=timeout_ms,
                version=version,
                connection=requests,
                until=deadline,
            )
            step = partial(self._send, coordinator, request, send)
            sending = is_first
            if is_first:
                self._sending.take(step)
            else:
                step()
        except DeadlinePassed:
            raise
        except BaseException as error:
            if sending and not isinstance(error, KafkaException):  # an interrupt: `sent` has it soon
                raise
            self._opening = None
            self._connection.drop_connection()  # it may be on its way all the same
            raise

    def _send(self, coordinator: Node, request: Any, send: Callable[[], InFlightRequest[Any]]) -> None:
        if self._connection.closing:
            raise ConsumerStoppedException(f"group {self._connection.group_id}: the member is being closed")
        pending = send()
        self.sent = _SentRequest(coordinator, request, pending, self._connection.handler.now())

    def _left(self, deadline: float) -> float:
        return max(deadline - self._connection.handler.now(), 0.0)

    def _ready(self, coordinator: Node, deadline: float | None) -> tuple[str, RequestHandler | None]:
        """Return the name of a channel, and its connection, which takes a request now.

        It has all of its time to connect, whatever the deadline is. Without a deadline the request connects: then this returns
        no connection.

        :raises DeadlinePassed: the deadline, or `interrupted`, came first
        :raises SocketDisconnectedError: the connection cannot be made, or `drop_connection` has ended it
        """
        opening, connection = self._opening, self._connection
        if opening is None or opening.coordinator is not coordinator or not connection.holds(*opening[:2]):
            name = connection.acquire(coordinator)
            if deadline is None:
                return name, None
            channel, worker = coordinator.channel(name), None
            if not channel.connected:
                worker_name = f"pykafka.JoinConnection.{coordinator.address}"
                worker = connection.handler.spawn(_connect, channel, name=worker_name)
            opening = self._opening = _Opening(coordinator, name, channel, worker)
        while (left := self._not_ready_for(opening)) > 0:
            now = connection.handler.now()
            interrupted = self.interrupted()
            if interrupted or (deadline is not None and now >= deadline):
                text = "the call ended before the connection was ready; the next one continues to wait for it"
                raise DeadlinePassed(text, broker=coordinator.address)
            left = min(left, WAKEUP_POLL_INTERVAL_S, math.inf if deadline is None else deadline - now)
            if opening.worker is not None and opening.worker.is_alive():
                opening.worker.join(left)
            else:
                connection.handler.sleep(left)
        self._opening = None
        # This raises why it is not connected; the channel of this name may be another one by now, if this one was dropped.
        return opening.name, opening.channel.open(connection.limit_ms(deadline))

    def _not_ready_for(self, opening: _Opening) -> float:
        """Return how long a connection is not ready for at least (s)."""
        if opening.worker is not None and opening.worker.is_alive():
            return WAKEUP_POLL_INTERVAL_S
        return opening.coordinator.throttled_for(opening.name)

    def answer(self, deadline: float | None, note_id: Callable[[str], object] = str) -> Any:
        """Wait for the answer and return it.

        :param deadline: of the handler's clock (s); None waits until the request times out
        :param note_id: called with the id in the answer to a request to join without one, before an interrupt can lose it
        :raises DeadlinePassed: it has not come by the deadline, or `interrupted` ends the call; the next call waits for it
        :raises KafkaException: none will come
        """
        sent = self.sent
        if sent is None:
            raise ConsumerStoppedException(f"group {self._connection.group_id}: the member was closed meanwhile")
        try:
            if self._is_interrupted(sent, deadline):
                response = sent.pending.get(timeout=0.0)
            elif deadline is None:
                response = sent.pending.get_when_due()
            else:
                response = sent.pending.get(timeout=self._left(deadline))
        except ResponseTimeoutError as error:
            interrupted = self.interrupted()
            # not `done`: the answer may have come since, and it has the id that the member leaves with
            if sent.pending.error is None and (deadline is not None or interrupted):
                api = type(sent.request).__name__
                raise DeadlinePassed(f"{api}: {error}", broker=sent.coordinator.address) from error
            self._end(sent)
            raise
        except KafkaException:
            self._end(sent)
            raise
        if isinstance(sent.request, wire.JoinGroupRequest) and not sent.request.member_id:
            note_id(response.member_id)
        self._connection.release()
        self.sent = None
        return response

    def _end(self, sent: _SentRequest) -> None:
        """Wait no more for an answer that cannot come, or cannot be read."""
        if self.sent is sent:
            self.sent = None
            self._connection.drop_connection()

    def _is_interrupted(self, sent: _SentRequest, deadline: float | None) -> bool:
        """Wait for the answer, its time limit or the deadline; return True if `interrupted` ends the call before."""
        pending, now = sent.pending, self._connection.handler.now
        began = now()
        while not pending.done:
            if self.interrupted():
                return True
            pause_s = min(WAKEUP_POLL_INTERVAL_MAX_S, max(WAKEUP_POLL_INTERVAL_S, (now() - began) / 4))
            left = min(pending.deadline, math.inf if deadline is None else deadline) - now()
            if left <= 0 or pending.wait(min(left, pause_s)):
                return False
        return False

    def forget(self) -> None:
        """Wait for the answer no more; the connection stays open."""
        self.sent = None

    def drop(self, deadline: float | None = None) -> None:
        """Wait for the answer no more, and end the connection: the next request must not wait behind this one.

        Nor may it overtake this one on its own connection. So this waits for the answer until the request is a second old. A
        first request to join stays, as its answer has the id that the member needs to leave.

        :param deadline: of the call, of the handler's clock (s)
        :raises DeadlinePassed: it comes first; the request is still the present one
        """
        if not self._sending.wait(None if deadline is None else self._left(deadline)):
            raise DeadlinePassed("the call ended while its former request was sent")
        sent = self.sent
        if sent is None:
            return
        former = self.of(wire.JoinGroupRequest)
        if former is not None and not former.member_id and former.group_instance_id is None:
            return
        settled_at = sent.sent_at + DRAIN_S
        interrupted = self._is_interrupted(sent, settled_at if deadline is None else min(settled_at, deadline))
        if not sent.pending.done and (interrupted or self._connection.handler.now() < settled_at):
            raise DeadlinePassed("the call ended while its former request was new", broker=sent.coordinator.address)
        self.sent = None
        if not sent.pending.done:
            self._connection.drop_connection()

    def member_id(self, timeout_ms: int) -> str:
        """Wait for the member id in the answer to a JoinGroup request: without it the member cannot leave.

        Brokers from 2.2 on answer with it at once, older ones when the whole group has joined.

        :param timeout_ms: how long to wait
        :returns: empty if no such answer is due, or it did not come
        """
        ends = self._connection.handler.now() + timeout_ms / 1000
        self._sending.wait(timeout_ms / 1000)
        sent = self.sent
        if sent is None or not isinstance(sent.request, wire.JoinGroupRequest):
            return ""
        try:
            response = sent.pending.get(timeout=self._left(ends))
        except KafkaException as error:
            log.warning(
                "group %s: the coordinator has not sent this member's id (%s), so it cannot leave: the other members wait "
                "until its session ends",
                self._connection.group_id,
                error,
            )
            return ""
        return str(response.member_id)


def _connect(channel: Channel) -> None:
    """Connect a channel, in a worker of its own; the caller that waits for it raises the channel's error."""
    try:
        channel.open()
    except KafkaException as error:
        log.debug("no connection for a JoinGroup or SyncGroup request: %s", error)
