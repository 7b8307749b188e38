"""`BeatWorker`: what a member sends to stay one, whatever its protocol."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pykafka.exceptions import KafkaException, SocketDisconnectedError
from pykafka.groups.heartbeat_thread import TOGETHER_S, Call, HeartbeatThread

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.node import Node

#: How long a member has nothing to send at a time, while it is none (s).
IDLE_S = 5.0
#: A heartbeat may go out with those of others when this part of its interval is left.
EARLY = 5
#: The longest pause before a heartbeat that failed is sent again (s).
RETRY_MAX_S = 1.0
#: The warning of a member whose session must have ended.
OVERDUE = (
    "group %s: the coordinator has taken no heartbeat of this member for longer than its session (%d ms), so other members may "
    "have its partitions; this member goes on trying: %s"
)


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
    def broker(self) -> Node: ...
    @property
    def group(self) -> str: ...


class Timer(Protocol):
    """The times at which heartbeats are due; `pykafka.groups.classic.heartbeat.Heartbeat` documents each member."""

    timeout: float
    interval: float
    last_send: float

    def ttl(self) -> float: ...
    def session_expired(self) -> bool: ...
    def sent_heartbeat(self) -> None: ...
    def received_heartbeat(self) -> None: ...
    def reset_session_timeout(self) -> None: ...


B = TypeVar("B", bound=Addressed)


class BeatWorker(ABC, Generic[B]):
    """All that one member sends to stay one: heartbeats, even while the application blocks its hub, and at last its leave.

    `HeartbeatThread`, the native thread of all members at a coordinator, asks it what is due: see `Beating` there.

    State: the application's workers set `_beat`, and the thread reads it; the rest is the thread's. It logs nothing, and takes
    no lock that a hub may hold.

    :param handler: the application's; the thread runs on its `native`
    :param heartbeat: the timer; the thread's own
    :param activity: the application's signs of life
    :param max_poll_interval_ms: without a sign of life for this long the member leaves (ms)
    :param notify: called after each piece of news, where events of the application's workers may be set
    """

    def __init__(
        self,
        handler: Handler,
        heartbeat: Timer,
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
        self._retry_at = 0.0
        self._seen = 0
        self._overdue = False
        self._active_at = 0.0
        self._pulse: HeartbeatThread | None = None
        handler.at_fork(self._after_fork)

    # -- what a protocol defines -------------------------------------------------------------------------------------

    @abstractmethod
    def _is_due(self) -> bool:
        """Return whether a heartbeat is to be sent now."""

    @abstractmethod
    def _ask(self, beat: B) -> Call:
        """Return a heartbeat, to be sent now."""

    @abstractmethod
    def _leave(self, beat: B) -> Call | None:
        """Return the request to leave the group, as the application takes no messages, or is gone; None if none is needed."""

    @abstractmethod
    def _failed(self, beat: B, error: KafkaException) -> None:
        """Tell that the coordinator could not be reached."""

    # -- the application's side --------------------------------------------------------------------------------------

    def _start(self, beat: B) -> None:
        """Take part in the pulse of the coordinator.

        :raises WorkerNotStartedError: the system cannot start a thread at present
        """
        before = self._pulse
        if before is None:
            self._active_at = self._native.now()
        try:
            pulse = HeartbeatThread.at(beat.broker, self._handler)
        except KafkaException as error:  # the coordinator has just left the cluster
            self._failed(beat, error)
            return
        self._pulse = pulse  # before it has the member: after Ctrl-C, too, `stop` finds it
        if before is not None and before is not pulse:
            before.remove(self, wait=False)
        if not pulse.add(self):
            self._failed(beat, SocketDisconnectedError("the broker has left the cluster", broker=beat.broker.address))

    def _look(self) -> None:
        """Ask the thread to look now whether something is due."""
        pulse = self._pulse
        if pulse is not None:
            pulse.add(self)

    @property
    def has_ended(self) -> bool:
        """Whether this member has no part in a pulse."""
        return self._pulse is None

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        pulse = self._pulse
        return pulse is not None and pulse.is_alive

    @property
    def is_beating(self) -> bool:
        """Whether heartbeats go out, or would if the coordinator could be reached."""
        return self._beat is not None and self._beat is not self._given_up

    def raise_error(self) -> None:
        """Raise the error that ended the thread, if one did, and have heartbeats go on.

        :raises BaseException: that error
        """
        pulse = self._pulse
        error = None if pulse is None or self._beat is None else pulse.error
        if error is not None:
            self._look()
            raise error

    def stop(self) -> None:
        """Send nothing more, until another start. With the last member the thread and its connection end."""
        self._beat = None
        pulse, self._pulse = self._pulse, None
        if pulse is not None:
            pulse.remove(self)

    def _after_fork(self) -> None:
        # Pulse and membership are the parent's.
        self._beat = self._pulse = None

    # -- the thread's side -------------------------------------------------------------------------------------------

    def step(self, now: float) -> Call | float | None:
        """Return what is due, as of `pykafka.groups.heartbeat_thread.Beating`."""
        beat = self._beat
        is_dropped = self.attendant is not None and self.attendant() is None
        if beat is None or beat is self._given_up:
            return None if is_dropped else IDLE_S
        if is_dropped:
            return self._leave(beat)
        signs = self._signs()
        if self._activity.waiting or signs != self._seen:
            self._seen = signs
            self._active_at = now
        left = self._active_at + self._max_poll_s - now
        if left <= 0:
            call = self._leave(beat)
            return IDLE_S if call is None else call
        if now < self._retry_at:
            return min(self._retry_at - now, left)
        if self._is_due():
            return self._ask(beat)
        return max(0.001, min(self.heartbeat.ttl(), left))

    def end(self, error: KafkaException) -> Call | None:
        """Return the last request, as of `pykafka.groups.heartbeat_thread.Beating`."""
        beat = self._beat
        if beat is None or beat is self._given_up:
            return None
        if self.attendant is not None and self.attendant() is None:
            return self._leave(beat)
        self._failed(beat, error)
        return None

    @property
    def _is_time(self) -> bool:
        """Whether the interval is over, or nearly so: the heartbeats of many members then go out together."""
        return self.heartbeat.ttl() <= min(TOGETHER_S, self.heartbeat.interval / EARLY)

    def _timeout(self, beat: B) -> float:
        return min(self.heartbeat.timeout, beat.broker.socket_timeout_ms / 1000)

    def _received(self) -> None:
        """Note that the coordinator has taken a heartbeat."""
        self.heartbeat.received_heartbeat()
        self._overdue = False

    def _is_overdue(self) -> bool:
        """Return whether the coordinator has taken no heartbeat for longer than the session: True once each time."""
        before, self._overdue = self._overdue, self.heartbeat.session_expired()
        return self._overdue and not before

    def _wait_to_retry(self) -> None:
        """Send the heartbeat that has failed again after a pause."""
        self._retry_at = self._native.now() + min(RETRY_MAX_S, self.heartbeat.interval)
        self.heartbeat.last_send = self._retry_at - self.heartbeat.interval

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
