"""`BeatWorker`: the native thread of a member's heartbeats, whatever its protocol."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pykafka.exceptions import CorrelationIdError
from pykafka.protocol.schema import decode_response, encode_request

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.coordinator.heartbeat import Heartbeat
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


class Addressed(Protocol):
    """The content of heartbeats: a new object whenever it changes."""

    @property
    def broker(self) -> Broker: ...
    @property
    def group(self) -> str: ...


B = TypeVar("B", bound=Addressed)


class BeatWorker(ABC, Generic[B]):
    """The native thread that sends heartbeats over a connection of its own, even while the application blocks its hub.

    State: the application's workers set `_beat`, and the thread reads it; the rest is the thread's. The thread logs nothing,
    and takes no lock that a hub may hold.

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
        self._beat: B | None = None
        self._given_up: B | None = None
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
        self._left_to_parent: tuple[Any, ...] = ()
        handler.at_fork(self._after_fork)

    # -- what a protocol defines -------------------------------------------------------------------------------------

    @abstractmethod
    def _is_due(self) -> bool:
        """Return whether a heartbeat is to be sent now."""

    @abstractmethod
    def _send(self, beat: B) -> None:
        """Send one heartbeat, and take its answer."""

    @abstractmethod
    def _leave(self, beat: B) -> None:
        """Leave the group because the application takes no messages, or is gone."""

    # -- the application's side --------------------------------------------------------------------------------------

    def _start(self, group: str) -> None:
        """Start the thread, if there is none."""
        if self._worker is None:
            self._active_at = self._native.now()
            self._stopping = self._native.Event()  # a new one: a thread that is still ending heeds the old one
            self._worker = self._native.spawn(self._run, self._stopping, name=f"pykafka.Heartbeat.{group}")

    @property
    def has_ended(self) -> bool:
        """Whether there is no thread."""
        return self._worker is None

    def stop(self) -> None:
        """End the thread and its connection; it can be started again."""
        self._beat = None
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
        if self._is_due():
            self._send(beat)
        return max(0.001, min(self.heartbeat.ttl(), left))

    def _wait_to_retry(self) -> None:
        """Send the heartbeat that has failed again after a pause."""
        self._disconnect()
        self._retry_at = self._native.now() + min(RETRY_MAX_S, self.heartbeat.interval)
        self.heartbeat.last_send = self._retry_at - self.heartbeat.interval

    def _is_muted(self) -> bool:
        """Wait while the broker throttles this member; return whether the thread is to end."""
        muted_for = self._muted_until - self._native.now()
        return muted_for > 0 and self._stopping.wait(muted_for)

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

    def _call(self, broker: Broker, request: Request[Any], version: int) -> Any:
        timeout = min(self.heartbeat.timeout, broker.socket_timeout_ms / 1000)
        connection = self._connection
        # No worker reads between heartbeats, so that nobody has noticed if the broker found the connection idle.
        lost = connection is None or not connection.connected or connection.login_due or connection.is_hung_up
        if connection is None or lost or self._connected_to is not broker:
            self._disconnect()
            connection = broker.new_connection(self._native)
            connection.connect(round(timeout * 1000))
            self._connection, self._connected_to = connection, broker
        self._correlation_id = (self._correlation_id + 1) % 2**31
        connection.send(encode_request(request, version, self._correlation_id, CLIENT_ID), timeout)
        correlation_id, response = decode_response(type(request), version, connection.receive(timeout), None)
        if correlation_id != self._correlation_id:
            raise CorrelationIdError(
                f"the coordinator answered request {correlation_id} where the answer to {self._correlation_id} was due",
                broker=broker.address,
            )
        if response.throttle_time_ms > 0 and version in type(response).early_versions:
            self._muted_until = self._native.now() + response.throttle_time_ms / 1000
        return response

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._muted_until = 0.0
        if connection is not None:
            connection.disconnect()
