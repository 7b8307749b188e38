"""The times at which heartbeats are due, and the native thread that sends those of the classic protocol."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pykafka.coordinator.beating import IDLE_S, JOIN_S, RETRY_MAX_S, Activity, Attendant, BeatWorker
from pykafka.coordinator.requests import heartbeat_request, leave_request
from pykafka.exceptions import FencedInstanceId, IllegalGeneration, KafkaException, RebalanceInProgress, UnknownMemberId
from pykafka.handlers import ThreadingHandler

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.handlers import Handler

__all__ = ["IDLE_S", "JOIN_S", "RETRY_MAX_S", "Activity", "Attendant", "Beat", "Heartbeat", "HeartbeatSender", "News"]

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


class HeartbeatSender(BeatWorker[Beat]):
    """The native thread that sends the heartbeats of a member of the classic protocol; parameters as of `BeatWorker`.

    State: the thread writes `news`, `latency` and the rest.
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
        """
        if beat is not None and restart:
            self.heartbeat.reset_session_timeout()
            self.idle = False
        self._retry_at = 0.0
        self._beat = beat
        if beat is not None:
            self._start(beat.group)
        self._wake.set()

    @property
    def active_again(self) -> bool:
        """Whether there was a sign of life since the thread last looked."""
        return bool(self._activity.waiting) or self._signs() != self._seen

    def stop(self) -> None:
        """End the thread and its connection; `beat` starts another."""
        self.idle = False
        super().stop()

    def _after_fork(self) -> None:
        super()._after_fork()
        self.news.clear()
        self.idle = False

    # -- the thread's side -------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        return self.heartbeat.should_heartbeat()

    def _send(self, beat: Beat) -> None:
        request = heartbeat_request(beat.group, beat.generation_id, beat.member_id, beat.instance_id, beat.version)
        started = self._native.now()
        self.heartbeat.sent_heartbeat()
        try:
            code = self._call(beat.broker, request, beat.version).error_code
        except KafkaException as error:
            self._wait_to_retry()
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
        if self._is_muted():
            return
        request = leave_request(beat.group, beat.member_id, beat.leave_version, beat.instance_id)
        error = None
        try:
            self._call(beat.broker, request, beat.leave_version)
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
