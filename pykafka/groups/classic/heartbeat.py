"""The times at which heartbeats are due, and those of the classic protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pykafka.exceptions import FencedInstanceId, IllegalGeneration, KafkaException, RebalanceInProgress, UnknownMemberId
from pykafka.groups.group_requests import heartbeat_request, leave_request
from pykafka.groups.heartbeat_sender import Activity, Attendant, BeatWorker
from pykafka.groups.heartbeat_thread import Call
from pykafka.handlers import ThreadingHandler

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.node import Node
    from pykafka.protocol.wire import HeartbeatResponse

__all__ = ["Activity", "Attendant", "Beat", "Heartbeat", "HeartbeatSender", "News", "PolledHeartbeats"]

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


class Beat(NamedTuple):
    """The content of heartbeats and the broker that gets them: plain data, replaced as a whole."""

    broker: Node
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
    #: Whether the coordinator has taken no heartbeat for longer than the session, so that it must have removed the member.
    overdue: bool = False


class HeartbeatSender(BeatWorker[Beat]):
    """The heartbeats of a member of the classic protocol; parameters as of `BeatWorker`.

    State: the thread of its pulse writes `news`, `latency` and the rest.
    """

    def __init__(
        self,
        handler: Handler,
        heartbeat: Heartbeat,
        activity: Activity,
        max_poll_interval_ms: int,
        notify: Callable[[], object],
    ) -> None:
        self._told: tuple[Beat, int] | None = None
        self.news: deque[News] = deque()
        #: How long the last heartbeat took (s).
        self.latency = 0.0
        #: Whether the member has left because the application took no messages for too long.
        self.idle = False
        super().__init__(handler, heartbeat, activity, max_poll_interval_ms, notify)

    # -- the application's side --------------------------------------------------------------------------------------

    def beat(self, beat: Beat | None, restart: bool = True) -> None:
        """Send these heartbeats from now on.

        This is no sign of life of the application: this client joins again by itself.

        :param beat: the heartbeats; None for none
        :param restart: whether a session begins; False if another coordinator takes the session over
        :raises WorkerNotStartedError: the system cannot start a thread at present
        """
        if beat is not None and restart:
            self.heartbeat.reset_session_timeout()
            self.idle = False
        self._retry_at = 0.0
        self._beat = beat
        if beat is not None:
            self._start(beat)

    @property
    def active_again(self) -> bool:
        """Whether there was a sign of life since the pulse last looked."""
        return bool(self._activity.waiting) or self._signs() != self._seen

    def commit_refused(self, identity: tuple[int, str], error: KafkaException) -> None:
        """Take the answer to a commit that the member is out of the group, as if it were that to a heartbeat.

        Any worker of the application may call this.

        :param identity: generation and member id that the commit has named
        """
        code = getattr(error, "ERROR_CODE", 0)
        self.news.append(News(*identity, code, error.broker or ""))
        self._have_attended()
        self._notify()

    def stop(self) -> None:
        """Send nothing more; `beat` begins again."""
        self.idle = False
        super().stop()

    def _after_fork(self) -> None:
        super()._after_fork()
        self.news.clear()
        self.idle = False

    # -- the thread's side -------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        return self._is_time

    def _ask(self, beat: Beat) -> Call:
        started = self._native.now()
        self.heartbeat.sent_heartbeat()
        request = heartbeat_request(beat.group, beat.generation_id, beat.member_id, beat.instance_id, beat.version)

        def answered(response: HeartbeatResponse) -> None:
            self._answered(beat, response.error_code, started)

        return Call(request, beat.version, self._timeout(beat), answered, partial(self._failed, beat))

    def _answered(self, beat: Beat, code: int, started: float) -> None:
        self.latency = self._native.now() - started
        if code in {0, RebalanceInProgress.ERROR_CODE}:
            # A member stays one during a rebalance, until it has had time to join again.
            self._received()
        elif code in ENDED:
            self._given_up = beat
        elif self._is_overdue():
            self._tell(beat, code, overdue=True)
        if code:
            self._tell(beat, code)
        self._have_attended()

    def _failed(self, beat: Beat, error: KafkaException) -> None:
        self._wait_to_retry()
        self._tell(beat, 0, error)
        if self._is_overdue():
            self._tell(beat, 0, error, overdue=True)

    def _leave(self, beat: Beat) -> Call:
        request = leave_request(beat.group, beat.member_id, beat.leave_version, beat.instance_id)

        def left(_: object) -> None:
            self._left(beat, None)

        # where it fails, the session times out instead
        return Call(request, beat.leave_version, self._timeout(beat), left, partial(self._left, beat))

    def _left(self, beat: Beat, error: KafkaException | None) -> None:
        self._given_up = beat
        self.idle = True
        self._tell(beat, 0, error, idle=True)

    def _tell(
        self, beat: Beat, code: int, error: KafkaException | None = None, *, idle: bool = False, overdue: bool = False
    ) -> None:
        if self._told is not None and self._told[0] is beat and self._told[1] == code and not idle and not overdue:
            return
        self._told = (beat, code)
        self.news.append(News(beat.generation_id, beat.member_id, code, beat.broker.address, error, idle, overdue))
        self._have_attended()
        self._native.post(self._notify)


class PolledHeartbeats(ABC):
    """A member whose program looks after its heartbeats by calls of kafka-python 1.4; they go out without that."""

    activity: Activity
    heartbeat: Heartbeat
    sender: HeartbeatSender

    @abstractmethod
    def _take_news(self) -> None:
        """Change the membership as the news of the heartbeat's thread demands."""

    def poll_heartbeat(self) -> None:
        """Note that the application is alive, and raise the error that ended the thread of heartbeats, if one did.

        A program that has joined by `ensure_active_group()` calls this, or that again, within each `max_poll_interval_ms`:
        otherwise the member leaves the group. After an error heartbeats go on: the next call raises it no more.

        :raises FencedInstanceId: another member has taken this one's `group_instance_id`; once
        """
        self.activity.count += 1
        self._take_news()
        self.sender.raise_error()

    def time_to_next_heartbeat(self) -> float:
        """Return the time until the next heartbeat is due (s): 0 for one that is due, infinite while this is no member."""
        return self.heartbeat.ttl() if self.sender.is_beating else inf
