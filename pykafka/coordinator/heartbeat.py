"""The times at which heartbeats are due, and the native thread that sends them."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from pykafka.coordinator.requests import heartbeat_request, leave_request
from pykafka.exceptions import (
    CorrelationIdError,
    FencedInstanceId,
    IllegalGeneration,
    KafkaException,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka.handlers import ThreadingHandler
from pykafka.protocol.schema import decode_response, encode_request

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType
    from pykafka.network.connection import BrokerConnection
    from pykafka.protocol.schema import Request

CLIENT_ID = "pykafka"
#: How long the thread waits at a time while there is nothing to send (s).
IDLE_S = 5.0
#: How long `stop` waits for the thread, which does not wait for anything then (s).
JOIN_S = 5.0
#: The longest pause before a heartbeat that failed is sent again (s).
RETRY_MAX_S = 1.0
#: The error codes after which there is no membership to keep alive.
ENDED = frozenset({IllegalGeneration.ERROR_CODE, UnknownMemberId.ERROR_CODE, FencedInstanceId.ERROR_CODE})


class Heartbeat:
    """The timer of heartbeats and of the session; it does no I/O.

    :param configs: session_timeout_ms; heartbeat_interval_ms; clock, a function that returns the time (s), by default
        the system's clock
    :raises ValueError: the interval is not shorter than the session timeout
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {"session_timeout_ms": 30000, "heartbeat_interval_ms": 3000}

    def __init__(self, **configs: Any) -> None:
        config = {name: configs.get(name, default) for name, default in self.DEFAULT_CONFIG.items()}
        self.timeout: float = config["session_timeout_ms"] / 1000
        self.interval: float = config["heartbeat_interval_ms"] / 1000
        if not 0 < self.interval < self.timeout:
            raise ValueError(
                f"heartbeat_interval_ms ({config['heartbeat_interval_ms']}) must be above 0 and below "
                f"session_timeout_ms ({config['session_timeout_ms']}): a third of it is customary"
            )
        self._clock: Callable[[], float] = configs.get("clock") or ThreadingHandler().now
        self.last_send = self.last_receive = self.last_reset = self._clock()

    def sent_heartbeat(self) -> None:
        """Note that a heartbeat goes out now."""
        self.last_send = self._clock()

    def received_heartbeat(self) -> None:
        """Note that the coordinator has answered a heartbeat now."""
        self.last_receive = self._clock()

    def ttl(self) -> float:
        """Return the time until the next heartbeat is due (s)."""
        since = max(self.last_send, self.last_reset)
        return max(0.0, since + self.interval - self._clock())

    def should_heartbeat(self) -> bool:
        """Return whether a heartbeat is due."""
        return self.ttl() == 0

    def since_last(self) -> float:
        """Return the time since the last heartbeat went out (s)."""
        return self._clock() - self.last_send

    def session_expired(self) -> bool:
        """Return whether the coordinator must have removed the member."""
        return self._clock() - max(self.last_receive, self.last_reset) > self.timeout

    def reset_session_timeout(self) -> None:
        """Start the session's time now."""
        self.last_reset = self._clock()


class Activity:
    """The signs of life of the application: any worker changes them, and the heartbeat thread reads them."""

    __slots__ = ("count", "waiting")

    def __init__(self) -> None:
        #: Grows with each call for messages; a lost increment between threads does no harm.
        self.count = 0
        #: One entry for each worker that waits for messages: such an application is alive.
        self.waiting: list[None] = []


class Attendant(Protocol):
    """The consumer of a member that takes part inside the application's calls."""

    @property
    def calls(self) -> int: ...
    def attend(self) -> object: ...
    def wake(self) -> object: ...


class Beat(NamedTuple):
    """The content of heartbeats and the broker that gets them: plain data, replaced as a whole."""

    broker: Broker
    group: str
    generation_id: int
    member_id: str
    instance_id: str | None
    version: int
    leave_version: int


class News(NamedTuple):
    """An event that the heartbeat thread reports to the member's workers."""

    generation_id: int
    member_id: str
    #: The error code of the coordinator's answer; 0 if it did not answer.
    code: int
    #: Address of the coordinator.
    broker: str
    #: Why it did not answer.
    error: KafkaException | None = None
    #: Whether the member has left because the application took no messages for too long.
    idle: bool = False


class HeartbeatSender:
    """The native thread that sends heartbeats over a connection of its own, even while the application blocks its hub.

    State: the application's workers set `_beat`, and the thread reads it; the thread writes `news`, `latency` and the rest.
    The thread logs nothing, and takes no lock that a hub may hold.

    :param handler: the application's; the thread runs on its `native`
    :param heartbeat: the timer; the thread's own
    :param activity: the application's signs of life
    :param max_poll_interval_ms: without a sign of life for this long the member leaves (ms)
    :param notify: called after each piece of news, where events of the application's workers may be set
    """

    def __init__(
        self,
        handler: Handler,
        heartbeat: Heartbeat,
        activity: Activity,
        max_poll_interval_ms: int,
        notify: Callable[[], object],
    ) -> None:
        self._handler = handler
        self._native = handler.native
        self.heartbeat = heartbeat
        self._activity = activity
        self._max_poll_s = max_poll_interval_ms / 1000
        self.notify = notify
        #: The consumer, for members that live in its calls: held weakly, and when it is gone, so is the member.
        self.attendant: weakref.ref[Attendant] | None = None
        self._beat: Beat | None = None
        self._given_up: Beat | None = None
        self._told: tuple[Beat, int] | None = None
        self.news: deque[News] = deque()
        #: How long the last heartbeat took (s).
        self.latency = 0.0
        self._connection: BrokerConnection | None = None
        self._connected_to: Broker | None = None
        self._correlation_id = 0
        self._retry_at = 0.0
        self._muted_until = 0.0
        self._seen = 0
        self._active_at = 0.0
        self._wake = self._native.Event()
        self._stopping = self._native.Event()
        self._worker: Any = None
        #: Whether the member has left because the application took no messages for too long.
        self.idle = False
        self._left_to_parent: tuple[Any, ...] = ()
        handler.at_fork(self._after_fork)

    # -- the application's side --------------------------------------------------------------------------------------

    def beat(self, beat: Beat | None, restart: bool = True) -> None:
        """Send these heartbeats from now on.

        This is no sign of life of the application: this client joins again by itself.

        :param beat: the heartbeats; None for none
        :param restart: whether a session begins; False if another coordinator takes the session over
        """
        if beat is not None and restart:
            self.heartbeat.reset_session_timeout()
            self.idle = False
        self._retry_at = 0.0
        self._beat = beat
        if beat is not None and self._worker is None:
            self._active_at = self._native.now()
            self._stopping = self._native.Event()  # a new one: a thread that is still ending heeds the old one
            self._worker = self._native.spawn(self._run, self._stopping, name=f"pykafka.Heartbeat.{beat.group}")
        self._wake.set()

    @property
    def active_again(self) -> bool:
        """Whether there was a sign of life since the thread last looked."""
        return bool(self._activity.waiting) or self._signs() != self._seen

    @property
    def has_ended(self) -> bool:
        """Whether there is no thread."""
        return self._worker is None

    def stop(self) -> None:
        """End the thread and its connection; `beat` starts another."""
        self._beat = None
        self.idle = False
        worker, self._worker = self._worker, None
        self._stopping.set()  # even without a known thread: Ctrl-C may have come while it was started
        self._wake.set()
        if worker is None:
            return
        connection = self._connection
        if connection is not None:
            connection.disconnect()
        # Polled, not joined: a join would block a hub for the moment that the thread needs.
        deadline = self._handler.now() + JOIN_S
        while worker.is_alive() and self._handler.now() < deadline:
            self._handler.sleep(0.005)

    def _after_fork(self) -> None:
        # Thread, connection and membership are the parent's, and its locks may stay locked in this process.
        self._left_to_parent = (self._connection, self._wake, self._stopping)
        self._connection = self._connected_to = self._beat = self._worker = None
        self._wake, self._stopping = self._native.Event(), self._native.Event()
        self.news.clear()
        self.idle = False

    # -- the thread's side -------------------------------------------------------------------------------------------

    def _run(self, stopping: EventType) -> None:
        try:
            while stopping is self._stopping and not stopping.is_set():
                self._wake.clear()
                self._wake.wait(self._step())
        finally:
            self._disconnect()

    def _step(self) -> float:
        """Do what is due, and return the time until something else is (s)."""
        beat = self._beat
        if beat is None or beat is self._given_up:
            return IDLE_S
        now = self._native.now()
        signs = self._signs()
        if self._activity.waiting or signs != self._seen:
            self._seen = signs
            self._active_at = now
        if self.attendant is not None and self.attendant() is None:
            self._leave(beat)
            self._stopping.set()
            return 0.0
        left = self._active_at + self._max_poll_s - now
        if left <= 0:
            self._leave(beat)
            return IDLE_S
        wait_until = max(self._retry_at, self._muted_until)
        if now < wait_until:
            return min(wait_until - now, left)
        if self.heartbeat.should_heartbeat():
            self._send(beat)
        return max(0.001, min(self.heartbeat.ttl(), left))

    def _send(self, beat: Beat) -> None:
        request = heartbeat_request(beat.group, beat.generation_id, beat.member_id, beat.instance_id, beat.version)
        started = self._native.now()
        self.heartbeat.sent_heartbeat()
        try:
            code = self._call(beat, request, beat.version).error_code
        except KafkaException as error:
            self._disconnect()
            self._retry_at = self._native.now() + min(RETRY_MAX_S, self.heartbeat.interval)
            self.heartbeat.last_send = self._retry_at - self.heartbeat.interval
            self._tell(beat, 0, error)
            return
        self.latency = self._native.now() - started
        if code in {0, RebalanceInProgress.ERROR_CODE}:
            # A member stays one during a rebalance, until it has had time to join again.
            self.heartbeat.received_heartbeat()
        elif code in ENDED:
            self._given_up = beat
        if code:
            self._tell(beat, code)
        self._have_attended()

    def _leave(self, beat: Beat) -> None:
        """Leave the group because the application takes no messages, so that other members get its share."""
        muted_for = self._muted_until - self._native.now()
        if muted_for > 0 and self._stopping.wait(muted_for):
            return
        request = leave_request(beat.group, beat.member_id, beat.leave_version, beat.instance_id)
        error = None
        try:
            self._call(beat, request, beat.leave_version)
        except KafkaException as failure:
            error = failure  # the session times out instead
        self._disconnect()
        self._given_up = beat
        self.idle = True
        self._tell(beat, 0, error, idle=True)

    def _tell(self, beat: Beat, code: int, error: KafkaException | None = None, idle: bool = False) -> None:
        if self._told is not None and self._told[0] is beat and self._told[1] == code and not idle:
            return
        self._told = (beat, code)
        self.news.append(News(beat.generation_id, beat.member_id, code, beat.broker.address, error, idle))
        self._have_attended()
        self._native.post(self._notify)

    def _notify(self) -> None:
        self.notify()
        attendant = None if self.attendant is None else self.attendant()
        if attendant is not None:
            attendant.wake()

    def _have_attended(self) -> None:
        attendant = None if self.attendant is None else self.attendant()
        if attendant is not None:
            attendant.attend()

    def _signs(self) -> int:
        """Return a number that changes with each sign of life of the application."""
        attendant = None if self.attendant is None else self.attendant()
        return self._activity.count + (0 if attendant is None else attendant.calls)

    def _call(self, beat: Beat, request: Request[Any], version: int) -> Any:
        timeout = min(self.heartbeat.timeout, beat.broker.socket_timeout_ms / 1000)
        connection = self._connection
        # No worker reads between heartbeats, so that nobody has noticed if the broker found the connection idle.
        lost = connection is None or not connection.connected or connection.login_due or connection.is_hung_up
        if connection is None or lost or self._connected_to is not beat.broker:
            self._disconnect()
            connection = beat.broker.new_connection(self._native)
            connection.connect(round(timeout * 1000))
            self._connection, self._connected_to = connection, beat.broker
        self._correlation_id = (self._correlation_id + 1) % 2**31
        connection.send(encode_request(request, version, self._correlation_id, CLIENT_ID), timeout)
        correlation_id, response = decode_response(type(request), version, connection.receive(timeout), None)
        if correlation_id != self._correlation_id:
            raise CorrelationIdError(
                f"the coordinator answered request {correlation_id} where the answer to {self._correlation_id} was due",
                broker=beat.broker.address,
            )
        if response.throttle_time_ms > 0 and version in type(response).early_versions:
            self._muted_until = self._native.now() + response.throttle_time_ms / 1000
        return response

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._muted_until = 0.0
        if connection is not None:
            connection.disconnect()
