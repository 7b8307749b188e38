"""When heartbeats are due, and the native thread that sends them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

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
#: How long `stop` waits for the thread, which has nothing left to wait for then (s).
JOIN_S = 5.0
#: The longest pause before a heartbeat that failed is sent again (s).
RETRY_MAX_S = 1.0
#: The codes after which there is no membership to keep alive.
ENDED = frozenset({IllegalGeneration.ERROR_CODE, UnknownMemberId.ERROR_CODE, FencedInstanceId.ERROR_CODE})


class Heartbeat:
    """When the next heartbeat is due, and when the session has ended. Keeps time, and does nothing.

    :param configs: session_timeout_ms; heartbeat_interval_ms; clock, a function that tells the time (s), by default
        the system's
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
        """Note that one goes out now."""
        self.last_send = self._clock()

    def received_heartbeat(self) -> None:
        """Note that one is answered now."""
        self.last_receive = self._clock()

    def ttl(self) -> float:
        """Return how long it is until the next one is due (s)."""
        since = max(self.last_send, self.last_reset)
        return max(0.0, since + self.interval - self._clock())

    def should_heartbeat(self) -> bool:
        """Return whether one is due."""
        return self.ttl() == 0

    def since_last(self) -> float:
        """Return how long ago the last one was sent (s)."""
        return self._clock() - self.last_send

    def session_expired(self) -> bool:
        """Return whether the coordinator must have given the member up."""
        return self._clock() - max(self.last_receive, self.last_reset) > self.timeout

    def reset_session_timeout(self) -> None:
        """Begin a session now."""
        self.last_reset = self._clock()


class Activity:
    """Whether the application still takes messages; changed by any worker, read by the heartbeat's thread."""

    __slots__ = ("count", "waiting")

    def __init__(self) -> None:
        #: Grows with each call; a lost increment between threads does no harm.
        self.count = 0
        #: One entry for each worker that waits for messages: waiting is no idleness.
        self.waiting: list[None] = []


class Beat(NamedTuple):
    """What heartbeats say, and to whom; plain data, exchanged as a whole."""

    broker: Broker
    group: str
    generation_id: int
    member_id: str
    instance_id: str | None
    version: int
    leave_version: int


class News(NamedTuple):
    """What the heartbeat's thread has to tell of a membership."""

    generation_id: int
    member_id: str
    #: The error code that the coordinator answered; 0 where it did not answer.
    code: int
    #: Address of the coordinator.
    broker: str
    #: Why it did not answer.
    error: KafkaException | None = None
    #: Whether the application did not take messages for too long, and the member left for it.
    idle: bool = False


class HeartbeatSender:
    """Sends heartbeats from a native thread, over a connection of its own, whatever becomes of the application's hub.

    State: `_beat` is set by the application's workers and read by the thread; `news`, `latency` and the rest are written
    by the thread. Nothing here logs, and no lock is taken that a hub may hold.

    :param handler: the application's; the thread runs on its `native`
    :param heartbeat: when to send; the thread's own
    :param activity: whether the application takes messages
    :param max_poll_interval_ms: without any for this long the member leaves
    :param notify: called with each piece of news where workers and thread can share events; else None
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
        #: Whether events of the application's may be set here; if not, workers look at `news` every now and then.
        self.shares_events = self._native is handler
        self.notify = notify
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
        #: Whether the member has left, the application having taken no messages for too long.
        self.idle = False
        self._left_to_parent: tuple[Any, ...] = ()
        handler.at_fork(self._after_fork)

    # -- the application's side --------------------------------------------------------------------------------------

    def beat(self, beat: Beat | None, restart: bool = True) -> None:
        """Send this from now on, or nothing.

        When the application last took messages is not touched: joining again is this client's doing, not the
        application's.

        :param restart: whether a session begins; not for one that another coordinator takes over
        """
        if beat is not None and restart:
            self.heartbeat.reset_session_timeout()
            self.idle = False
        self._retry_at = 0.0
        self._beat = beat
        if beat is not None and self._worker is None:
            self._active_at = self._native.now()
            self._stopping = self._native.Event()  # another: a thread that stop() has not waited out heeds the old one
            self._worker = self._native.spawn(self._run, self._stopping, name=f"pykafka.Heartbeat.{beat.group}")
        self._wake.set()

    @property
    def active_again(self) -> bool:
        """Whether the application has taken messages, or waits for some, since the thread last looked."""
        return bool(self._activity.waiting) or self._activity.count != self._seen

    @property
    def has_ended(self) -> bool:
        """Whether there is no thread."""
        return self._worker is None

    def stop(self) -> None:
        """End the thread and its connection; `beat` starts another."""
        self._beat = None
        self.idle = False
        worker, self._worker = self._worker, None
        self._stopping.set()  # also where none is known of: Ctrl-C may have come while it was started
        self._wake.set()
        if worker is None:
            return
        connection = self._connection
        if connection is not None:
            connection.disconnect()
        # Looked after, not joined: that would hold a hub up for the moment that the thread needs.
        deadline = self._handler.now() + JOIN_S
        while worker.is_alive() and self._handler.now() < deadline:
            self._handler.sleep(0.005)

    def _after_fork(self) -> None:
        # Thread, connection and membership are the parent's, and nobody may ever let go of its locks.
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
        """Do what is due, and return for how long nothing will be (s)."""
        beat = self._beat
        if beat is None or beat is self._given_up:
            return IDLE_S
        now = self._native.now()
        if self._activity.waiting or self._activity.count != self._seen:
            self._seen = self._activity.count
            self._active_at = now
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
            # A rebalance is no end: the member is one until it has had time to join again.
            self.heartbeat.received_heartbeat()
        elif code in ENDED:
            self._given_up = beat
        if code:
            self._tell(beat, code)

    def _leave(self, beat: Beat) -> None:
        """Leave for an application that takes no messages, so that others can have its share."""
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
        if self.shares_events:
            self.notify()

    def _call(self, beat: Beat, request: Request[Any], version: int) -> Any:
        timeout = min(self.heartbeat.timeout, beat.broker.socket_timeout_ms / 1000)
        connection = self._connection
        if connection is None or not connection.connected or self._connected_to is not beat.broker:
            self._disconnect()
            connection = beat.broker.new_connection(self._native)
            connection.connect(round(timeout * 1000))
            self._connection, self._connected_to = connection, beat.broker
        self._correlation_id = (self._correlation_id + 1) % 2**31
        connection.send(encode_request(request, version, self._correlation_id, CLIENT_ID), timeout)
        correlation_id, response = decode_response(type(request), version, connection.receive(timeout), None)
        if correlation_id != self._correlation_id:
            raise CorrelationIdError(
                f"an answer to request {correlation_id} came where {self._correlation_id} was due",
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
