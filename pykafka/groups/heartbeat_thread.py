"""`HeartbeatThread`: the heartbeats of all members of a client at one coordinator, over one connection."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pykafka.exceptions import (
    CorrelationIdError,
    KafkaException,
    ResponseTimeoutError,
    SocketDisconnectedError,
)
from pykafka.handlers.interrupts import OwnedWorker
from pykafka.metrics.listener import CONNECTED, CONNECTION, DISCONNECTED, FAILED, REFUSED, UNREACHABLE
from pykafka.network.channel import LOGIN_REFUSED
from pykafka.network.requests import LENGTH_BYTES
from pykafka.protocol.schema import decode_response, encode_request

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType
    from pykafka.network.connection import BrokerConnection
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request

CLIENT_ID = "pykafka"
#: How often the worker checks for new members and overdue answers while it waits for an answer (s).
ANSWER_POLL_INTERVAL_S = 0.1
#: The pause after the coordinator could not be reached (s).
RETRY_S = 1.0
#: Requests that are due within this time go out together (s), if their members agree: fewer wake-ups.
TOGETHER_S = 1.0
#: How long the worker waits before it reads more answers if many are due (s): then it reads several at once.
GATHER_S = 0.01
GATHER_FROM = 20
#: How long the last requests to a closed coordinator may take (s).
LAST_TIMEOUT_S = 1.0
#: How long to wait for the end of the worker (s).
END_TIMEOUT_S = 5.0
#: How often to check for it (s).
END_POLL_INTERVAL_S = 0.005


class Call(NamedTuple):
    """A request of one member, and the callbacks for its answer."""

    request: Request[Any]
    version: int
    #: For connecting and for the answer (s).
    timeout: float
    answered: Callable[[Any], object]
    failed: Callable[[KafkaException], object]


class HeartbeatMember(Protocol):
    """A member, as its heartbeat thread calls it; no method logs or waits."""

    def step(self, now: float) -> Call | float | None:
        """Return the request that is due, or the time until one is (s); None: the thread forgets this member.

        While a request is in flight, the thread does not ask the member for another.
        """

    def end(self, error: KafkaException) -> Call | None:
        """Return the last request, if there is one, since the connection is closed for good by the client."""


class HeartbeatThread:
    """The heartbeats of a client's members whose groups one broker coordinates; `Node.shared` has it.

    The worker sends the requests that are due, and does not wait for one answer before it sends the next request. It begins
    with the first member and ends with the last one. So a coordinator that hangs delays only its own groups, and a member
    costs neither a thread nor a connection.

    State: `_members` and `_inbox` change by single steps, on any worker: a signal's handler or a hub can wait for no lock. A
    worker holds `_running` from its start until its end; no other worker waits for it. The rest is in `_Run`, which is the
    worker's own.

    :param handler: the application's; the worker runs on its `native`
    :param broker: the coordinator
    """

    def __init__(self, handler: Handler, broker: Node) -> None:
        self._handler = handler
        self._native = handler.native
        self._broker = broker
        self._members: dict[HeartbeatMember, None] = {}
        self._inbox: deque[HeartbeatMember] = deque()
        self._wake = self._native.Event()
        self._running = self._native.Lock()
        self._run: _Run | None = None
        self._worker: Any = None
        self._over = False

    @classmethod
    def at(cls, broker: Node, handler: Handler) -> HeartbeatThread:
        """Return the thread of all members at a coordinator.

        :raises KafkaException: the broker has left the cluster, or the client was closed
        """
        return broker.shared("heartbeats", partial(cls, handler, broker))

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_alive(self) -> bool:
        """Whether the worker runs."""
        worker = self._worker
        return worker is not None and worker.is_alive()

    @property
    def connection_count(self) -> int:
        """The number of connections that are up: 1 or 0."""
        run = self._run
        return int(run is not None and run.is_connected)

    @property
    def error(self) -> BaseException | None:
        """The error that ended the worker; None if none did, or another worker runs by now."""
        worker = self._worker
        return None if worker is None or worker.is_alive() else worker.error

    # -- the application's side --------------------------------------------------------------------------------------

    def add(self, member: HeartbeatMember) -> bool:
        """Ask a member for requests, now and later; return False if this thread has ended for good.

        :raises WorkerNotStartedError: the system cannot start a thread at present
        """
        if self._over:
            return False
        self._members[member] = None
        self._inbox.append(member)
        self._start()
        self._wake.set()
        return True

    def remove(self, member: HeartbeatMember, wait: bool = True) -> None:
        """Stop asking a member, and end the worker and its connection with the last one.

        :param wait: until it has ended
        """
        self._members.pop(member, None)
        if self._members:
            return
        self._cut()
        if wait:
            self._await_end(END_TIMEOUT_S)

    def stop(self, drain_s: float = LAST_TIMEOUT_S) -> None:
        """End for good: the broker has left the cluster, or the client is closed. Members get that error.

        :param drain_s: how long the last requests may take (s)
        """
        self._over = True
        self._wake.set()
        self._await_end(drain_s)
        self._cut()
        self._await_end(END_TIMEOUT_S)

    def abandon(self) -> None:
        """End soon, as by `stop`, without waiting."""
        self._over = True
        self._wake.set()

    def _cut(self) -> None:
        run = self._run
        if run is not None:
            run.cut()
        self._wake.set()

    def _await_end(self, seconds: float) -> None:
        # Polled, not joined: a join would block a hub for the moment that the thread needs.
        deadline = self._handler.now() + seconds
        while self.is_alive and (self._over or not self._members) and self._handler.now() < deadline:
            self._handler.sleep(END_POLL_INTERVAL_S)

    def _start(self) -> None:
        if not self._running.acquire(False):
            return
        worker = None
        try:
            run = self._run = _Run(self._native, self._broker, self._members, self._inbox, self._wake)
            name = f"pykafka.Heartbeats.{self._broker.address}"
            self._worker = worker = OwnedWorker(self._native, partial(self._main, run), name)
            worker.start()
        except BaseException:  # Ctrl-C may come when the thread is there already, which goes on
            if worker is None or not worker.is_started:
                self._running.release()
            raise

    # -- the thread's side -------------------------------------------------------------------------------------------

    def _main(self, run: _Run) -> None:
        while True:
            try:
                while self._members:
                    if self._over:
                        run.finish()
                    else:
                        run.turn()
            except BaseException:
                run.close()
                self._inbox.extend(list(self._members))  # the next worker asks all of them
                self._running.release()
                raise
            run.close()
            self._running.release()
            # a member that was added meanwhile could not acquire it
            if not self._members or not self._running.acquire(False):
                return


class _InFlight(NamedTuple):
    """A request whose answer is due."""

    number: int
    member: HeartbeatMember
    call: Call
    deadline: float
    sent_bytes: int


class _Run:
    """The worker's state: when each member is due, the connection, and the requests in flight.

    :param native: supplies sockets and clock
    :param broker: the coordinator
    :param members: of the thread
    :param inbox: members that the worker asks at once
    :param wake: set when there are some
    """

    def __init__(
        self,
        native: Handler,
        broker: Node,
        members: dict[HeartbeatMember, None],
        inbox: deque[HeartbeatMember],
        wake: EventType,
    ) -> None:
        self._native = native
        self._broker = broker
        self._members = members
        self._inbox = inbox
        self._wake = wake
        self._heap: list[tuple[float, int, HeartbeatMember]] = []
        self._due: dict[HeartbeatMember, float] = {}
        self._order = count()
        self._in_flight: deque[_InFlight] = deque()
        self._number = 0
        self._connection: BrokerConnection | None = None
        #: Whether the connection is up, as far as the worker knows.
        self.is_connected = False
        self._listener = None if broker.listener is None else broker.listener.part(CONNECTION, (broker.id, "heartbeat"))
        self._resume_at = 0.0
        self._checked_at = 0.0

    def cut(self) -> None:
        """End connection and connecting, by any worker: the thread notices."""
        connection = self._connection
        if connection is not None:
            connection.give_up()

    def close(self) -> None:
        """End the connection, and forget all."""
        self._disconnect("no member needs the connection any more")
        self._in_flight.clear()
        self._heap.clear()
        self._due.clear()

    def turn(self) -> None:
        """Send the requests that are due; then wait for an answer, or until others are due."""
        self._wake.clear()
        self._take_inbox()
        pause = self._send_due()
        if self._in_flight:
            self._read(min(pause, ANSWER_POLL_INTERVAL_S))
        else:
            self._wake.wait(pause)

    def finish(self) -> None:
        """Send the members' last requests, and forget them."""
        error = SocketDisconnectedError(
            "the coordinator has left the cluster, or the client was closed", broker=self._broker.address
        )
        calls = [(member, call) for member in list(self._members) if (call := member.end(error)) is not None]
        if calls:
            self._send([(member, call._replace(timeout=min(call.timeout, LAST_TIMEOUT_S))) for member, call in calls])
            while self._in_flight:
                self._read(ANSWER_POLL_INTERVAL_S)
        self._members.clear()

    # -- what is due ---------------------------------------------------------------------------------------------------

    def _take_inbox(self) -> None:
        now = self._native.now()
        in_flight = {request.member for request in self._in_flight} if self._in_flight else ()
        while self._inbox:
            member = self._inbox.popleft()
            if member not in in_flight:
                self._schedule(member, now)

    def _schedule(self, member: HeartbeatMember, at: float) -> None:
        self._due[member] = at
        heapq.heappush(self._heap, (at, next(self._order), member))

    def _send_due(self) -> float:
        """Send all requests that are due, and return the time until others are (s)."""
        now = self._native.now()
        if self._resume_at > now:
            return self._resume_at - now
        if self._in_flight and (self._connection is None or self._connection.login_due):
            return ANSWER_POLL_INTERVAL_S  # after their answers the next connection logs in again
        heap = self._heap
        calls: list[tuple[HeartbeatMember, Call]] = []
        if heap and heap[0][0] <= now:
            waits: list[tuple[HeartbeatMember, float]] = []
            while heap and heap[0][0] <= now + TOGETHER_S:
                at, _, member = heapq.heappop(heap)
                if self._due.get(member) != at:
                    continue  # it has another entry, which comes sooner
                del self._due[member]
                if member not in self._members:
                    continue
                step = member.step(now)
                if step is None:
                    self._members.pop(member, None)
                elif isinstance(step, Call):
                    calls.append((member, step))
                else:
                    waits.append((member, now + step))
            for member, at in waits:
                self._schedule(member, at)
        if calls:
            self._send(calls)
        return max(0.001, heap[0][0] - now) if heap else TOGETHER_S

    # -- requests and answers ------------------------------------------------------------------------------------------

    def _send(self, calls: list[tuple[HeartbeatMember, Call]]) -> None:
        timeout = calls[0][1].timeout
        for _, call in calls:
            timeout = min(timeout, call.timeout)
        try:
            connection = self._connected(timeout)
            deadline = self._native.now()
            buffers: list[Any] = []
            in_flight: list[_InFlight] = []
            for member, call in calls:
                self._number = (self._number + 1) % 2**31
                frame = encode_request(call.request, call.version, self._number, CLIENT_ID)
                buffers += frame
                size = sum(map(len, frame))
                in_flight.append(_InFlight(self._number, member, call, deadline + call.timeout, size))
            self._in_flight += in_flight
            calls = []
            connection.send(buffers, timeout)
            if self._listener is not None:
                now = self._native.now()
                for request in in_flight:
                    self._listener.on_request(type(request.call.request), request.sent_bytes, now)
        except KafkaException as error:
            self._break(error)
            self._resume_at = self._native.now() + RETRY_S
            for member, call in calls:
                self._fail(member, call, error)

    def _connected(self, timeout: float) -> BrokerConnection:
        connection = self._connection
        if connection is not None:
            # No worker reads between heartbeats, and so none has noticed if the broker has closed an idle connection.
            if connection.connected and (self._in_flight or not (connection.login_due or connection.is_hung_up)):
                return connection
            self._disconnect("the connection was replaced: the broker has closed it, or its login has to be renewed")
        connection = self._connection = self._broker.new_connection(self._native)
        if not self._members:  # all were removed meanwhile, and `cut` may have ended the former one
            connection.give_up()
        began = self._native.now()
        try:
            connection.connect(max(1, round(timeout * 1000)))
        except KafkaException as error:
            if self._listener is not None:
                kind = REFUSED if isinstance(error, LOGIN_REFUSED) else UNREACHABLE
                self._listener.on_event(kind, error.broker or self._broker.address, 0.0, error)
            raise
        self.is_connected = True
        if self._listener is not None:
            self._listener.on_event(CONNECTED, connection.address, self._native.now() - began, "heartbeat")
        return connection

    def _read(self, patience: float) -> None:
        connection = self._connection
        if len(self._in_flight) >= GATHER_FROM:
            self._native.sleep(GATHER_S)
        try:
            if connection is None:
                raise SocketDisconnectedError("the connection is gone", broker=self._broker.address)
            # and those that have arrived already
            self._take(connection.receive(patience))
            for _ in range(len(self._in_flight)):
                self._take(connection.receive(0.0))
        except ResponseTimeoutError:
            pass
        except KafkaException as error:
            self._break(error)
            return
        now = self._native.now()
        if now - self._checked_at >= ANSWER_POLL_INTERVAL_S:
            self._checked_at = now
            for request in self._in_flight:
                if request.deadline <= now:
                    text = "no answer to a heartbeat in time; the broker may be overloaded, or the network be slow"
                    self._break(ResponseTimeoutError(text, broker=self._broker.address))
                    break

    def _take(self, frame: memoryview) -> None:
        number, member, call, deadline, sent = self._in_flight[0]
        answered, response = decode_response(type(call.request), call.version, frame, None)
        if answered != number:
            raise CorrelationIdError(
                f"the coordinator answered request {answered} when the answer to {number} was due",
                broker=self._broker.address,
            )
        self._in_flight.popleft()
        now = self._native.now()
        if self._listener is not None:
            seconds = now - (deadline - call.timeout)
            self._listener.on_answer(type(call.request), sent, LENGTH_BYTES + len(frame), seconds, now)
        throttled_ms = getattr(response, "throttle_time_ms", 0)
        if throttled_ms > 0 and call.version in type(response).early_versions:
            self._resume_at = max(self._resume_at, now + throttled_ms / 1000)
        if member in self._members:
            call.answered(response)
            self._schedule(member, now)

    def _break(self, error: KafkaException) -> None:
        """End the connection, and report that to the members whose requests are in flight."""
        self._disconnect(error)
        in_flight, self._in_flight = self._in_flight, deque()
        for request in in_flight:
            self._fail(request.member, request.call, error)

    def _disconnect(self, why: KafkaException | str) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        was_up, self.is_connected = self.is_connected, False
        connection.disconnect()
        if was_up and self._listener is not None:
            self._listener.on_event(DISCONNECTED, self._broker.address, 0.0, why)

    def _fail(self, member: HeartbeatMember, call: Call, error: KafkaException) -> None:
        if member in self._members:
            if self._listener is not None:
                self._listener.on_event(FAILED, f"heartbeat at {self._broker.address}", 0.0, error)
            call.failed(error)
            self._schedule(member, self._native.now())
