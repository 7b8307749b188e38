"""`HeartbeatSender`: the heartbeats of one member, for all group protocols, and their timer, `Heartbeat`."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar

from pykafka.exceptions import KafkaException, SocketDisconnectedError
from pykafka.groups.heartbeat_thread import TOGETHER_S, Call, HeartbeatThread
from pykafka.handlers import ThreadingHandler
from pykafka.metrics.listener import HEARTBEAT

if TYPE_CHECKING:
    from pykafka.groups.membership import AssignmentHooks
    from pykafka.handlers import Handler
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.node import Node

P = ParamSpec("P")
R = TypeVar("R")

#: The pause before a sender without a membership is asked for requests again (s).
IDLE_S = 5.0
#: A heartbeat may go out with those of other members when this part of its interval is left.
EARLY = 5
#: The longest pause before a heartbeat that failed is sent again (s).
RETRY_MAX_S = 1.0
#: The error of a member that the application has left idle, and the warning of one whose session must have ended.
IDLE = (
    "group %s: the application took no messages for %d ms, so this member has left the group; read more often, or raise "
    "max_poll_interval_ms"
)
OVERDUE = (
    "group %s: the coordinator has taken no heartbeat of this member for longer than its session (%d ms), so other members may "
    "have its partitions; this member continues to try: %s"
)


class Activity:
    """The signs of life of the application: any worker changes them, and the heartbeat thread reads them."""

    __slots__ = ("count", "waiting")

    def __init__(self) -> None:
        #: Grows with each call for messages; a lost increment between threads does no harm.
        self.count = 0
        #: One entry for each worker that waits for messages, or for the group: such an application is alive.
        self.waiting: list[None] = []

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """Count the application as alive in this context: it waits for messages, or for the group."""
        self.count += 1
        try:
            self.waiting = [None]
            yield
        finally:
            self.count += 1
            self.waiting = []

    def run_callback(self, callback: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a callback of an application that waits: meanwhile it does not count as waiting."""
        before, self.waiting = self.waiting, []
        self.count += len(before)
        try:
            return callback(*args, **kwargs)
        finally:
            self.waiting = before


class Heartbeat:
    """The timer of heartbeats and of the session; it does no I/O.

    :param configs: session_timeout_ms; heartbeat_interval_ms; clock, a function that returns the time (s), by default
        the system's clock
    :raises ValueError: the interval is not shorter than the session timeout
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {"session_timeout_ms": 30000, "heartbeat_interval_ms": 3000}

    def __init__(self, **configs: Any) -> None:
        config = {**self.DEFAULT_CONFIG, **configs}
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


class Target(Protocol):
    """The coordinator and the content of heartbeats: a new object whenever they change."""

    @property
    def broker(self) -> Node: ...
    @property
    def group(self) -> str: ...


T = TypeVar("T", bound=Target)


class HeartbeatSender(ABC, Generic[T]):
    """The heartbeats of one member, also while the application blocks its hub, and its leave if the application hangs.

    `HeartbeatThread`, the native thread of all members at a coordinator, asks it for requests: see `HeartbeatMember` there.

    State: the application's workers set `_target`, and the thread reads it; the rest is the thread's. It logs nothing, and
    takes no lock that a hub may hold.

    :param handler: the application's; the thread runs on its `native`
    :param heartbeat: the timer; the thread's own
    :param activity: the application's signs of life
    :param max_poll_interval_ms: without a sign of life for this long the member leaves (ms)
    :param notify: called after each report, where events of the application's workers may be set
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
        #: The consumer, for members that live in its calls: held weakly; after its end the member leaves.
        self.hooks: weakref.ref[AssignmentHooks] | None = None
        #: Hears of each heartbeat that the coordinator has taken; None: nobody listens.
        self.listener: ClientListener | None = None
        self._target: T | None = None
        #: The target after whose last answer the member is out of the group.
        self._ended: T | None = None
        self._retry_at = 0.0
        # How many heartbeats in a row the coordinator has not taken.
        self._failures = 0
        self._polls_seen = 0
        self._overdue = False
        self._active_at = 0.0
        self._thread: HeartbeatThread | None = None
        handler.at_fork(self._after_fork)

    # -- what a protocol defines -------------------------------------------------------------------------------------

    def _needs_heartbeat(self) -> bool:
        """Return whether the interval is over, or nearly so: the heartbeats of many members then go out together."""
        return self.heartbeat.ttl() <= min(TOGETHER_S, self.heartbeat.interval / EARLY)

    @abstractmethod
    def _heartbeat_call(self, target: T) -> Call | None:
        """Return the next heartbeat; None: the member has been stopped meanwhile."""

    @abstractmethod
    def _leave_call(self, target: T) -> Call | None:
        """Return the request to leave the group, as the application hangs or has ended; None if the member is out already."""

    @abstractmethod
    def _failed(self, target: T, error: KafkaException) -> None:
        """Report that the coordinator could not be reached."""

    # -- the application's side --------------------------------------------------------------------------------------

    def set_target(self, target: T | None) -> None:
        """Set the membership whose heartbeats the coordinator's thread sends; None: it sends none.

        :raises WorkerNotStartedError: the system cannot start a thread at present
        """
        if self._failures < 2:  # coordinators that refuse one after the other are not asked without a pause
            self._retry_at = 0.0
        self._target = target
        if target is None:
            return
        before = self._thread
        if before is None:
            self._active_at = self._native.now()
        try:
            thread = HeartbeatThread.at(target.broker, self._handler)
        except KafkaException as error:  # the coordinator has just left the cluster
            self._failed(target, error)
            return
        self._thread = thread  # before it has the member: after Ctrl-C, too, `stop` finds it
        if before is not None and before is not thread:
            before.remove(self, wait=False)
        if not thread.add(self):
            self._failed(
                target, SocketDisconnectedError("the broker has left the cluster", broker=target.broker.address)
            )

    def _wake_thread(self) -> None:
        """Make the thread ask for a request now."""
        thread = self._thread
        if thread is not None:
            thread.add(self)

    @property
    def has_ended(self) -> bool:
        """Whether no thread sends for this member."""
        return self._thread is None

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        thread = self._thread
        return thread is not None and thread.is_alive

    @property
    def is_sending(self) -> bool:
        """Whether heartbeats go out, or would if the coordinator could be reached."""
        return self._target is not None and self._target is not self._ended

    def raise_error(self) -> None:
        """Raise the error that ended the thread, if one did, and start another thread.

        :raises BaseException: that error
        """
        thread = self._thread
        error = None if thread is None or self._target is None else thread.error
        if error is not None:
            self._wake_thread()
            raise error

    def stop(self) -> None:
        """Stop sending. The thread and its connection end with the last member."""
        self._target = None
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.remove(self)

    def _after_fork(self) -> None:
        # Thread and membership are the parent's.
        self._target = self._thread = None

    # -- the thread's side -------------------------------------------------------------------------------------------

    def step(self, now: float) -> Call | float | None:
        """See `pykafka.groups.heartbeat_thread.HeartbeatMember`."""
        target = self._target
        is_dropped = self.hooks is not None and self.hooks() is None
        if target is None or target is self._ended:
            return None if is_dropped else IDLE_S
        if is_dropped:
            return self._leave_call(target)
        polls = self._polls()
        if self._activity.waiting or polls != self._polls_seen:
            self._polls_seen = polls
            self._active_at = now
        left = self._active_at + self._max_poll_s - now
        if left <= 0:
            call = self._leave_call(target)
            return IDLE_S if call is None else call
        if now < self._retry_at:
            return min(self._retry_at - now, left)
        if self._needs_heartbeat():
            call = self._heartbeat_call(target)
            return IDLE_S if call is None else call
        return max(0.001, min(self.heartbeat.ttl(), left))

    def end(self, error: KafkaException) -> Call | None:
        """See `pykafka.groups.heartbeat_thread.HeartbeatMember`."""
        target = self._target
        if target is None or target is self._ended:
            return None
        if self.hooks is not None and self.hooks() is None:
            return self._leave_call(target)
        self._failed(target, error)
        return None

    def _timeout(self, target: T) -> float:
        return min(self.heartbeat.timeout, target.broker.socket_timeout_ms / 1000)

    def _received(self) -> None:
        """Note that the coordinator has taken a heartbeat."""
        heartbeat, target = self.heartbeat, self._target
        heartbeat.received_heartbeat()
        self._overdue, self._failures = False, 0
        if self.listener is not None and target is not None:
            self.listener.on_event(HEARTBEAT, f"group {target.group}", heartbeat.last_receive - heartbeat.last_send)

    def _is_overdue(self) -> bool:
        """Return whether the coordinator has taken no heartbeat for longer than the session: True once each time."""
        before, self._overdue = self._overdue, self.heartbeat.session_expired()
        return self._overdue and not before

    def _wait_to_retry(self, pause: float | None = None) -> None:
        """Send the failed heartbeat again after a pause, which a new target ends if it is the first one.

        :param pause: (s); by default the interval, but a second at most
        """
        self._failures += 1
        self._retry_at = self._native.now() + (min(RETRY_MAX_S, self.heartbeat.interval) if pause is None else pause)
        self.heartbeat.last_send = self._retry_at - self.heartbeat.interval

    def _notify(self) -> None:
        self.notify()
        hooks = None if self.hooks is None else self.hooks()
        if hooks is not None:
            hooks.wake()

    def _request_poll(self) -> None:
        hooks = None if self.hooks is None else self.hooks()
        if hooks is not None:
            hooks.request_poll()

    def _polls(self) -> int:
        """Return a number that changes with each sign of life of the application."""
        hooks = None if self.hooks is None else self.hooks()
        return self._activity.count + (0 if hooks is None else hooks.poll_count)
