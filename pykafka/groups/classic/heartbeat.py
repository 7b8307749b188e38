"""`ClassicHeartbeats`: the heartbeats of a member of the classic protocol, and what it reports of their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.exceptions import FencedInstanceId, IllegalGeneration, KafkaException, RebalanceInProgress, UnknownMemberId
from pykafka.groups.coordinator_connection import MOVED
from pykafka.groups.heartbeat_sender import Activity, Heartbeat, HeartbeatSender
from pykafka.groups.heartbeat_thread import Call
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.node import Node

#: The error codes after which there is no membership to keep alive.
ENDED = frozenset({IllegalGeneration.ERROR_CODE, UnknownMemberId.ERROR_CODE, FencedInstanceId.ERROR_CODE})


class HeartbeatTarget(NamedTuple):
    """The content of heartbeats and the broker that gets them: plain data, replaced as a whole."""

    broker: Node
    group: str
    generation_id: int
    member_id: str
    instance_id: str | None
    version: int
    leave_version: int


class Report(NamedTuple):
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


class ClassicHeartbeats(HeartbeatSender[HeartbeatTarget]):
    """The heartbeats of a member of the classic protocol; for parameters see `HeartbeatSender`.

    State: the heartbeat thread writes `reports`, `latency` and the rest.
    """

    def __init__(
        self,
        handler: Handler,
        heartbeat: Heartbeat,
        activity: Activity,
        max_poll_interval_ms: int,
        notify: Callable[[], object],
    ) -> None:
        self._reported: tuple[HeartbeatTarget, int] | None = None
        self.reports: deque[Report] = deque()
        #: How long the last heartbeat took (s), for measurements.
        self.latency = 0.0
        #: Whether the member has left because the application took no messages for too long.
        self.idle = False
        super().__init__(handler, heartbeat, activity, max_poll_interval_ms, notify)

    # -- the application's side --------------------------------------------------------------------------------------

    def set_target(self, target: HeartbeatTarget | None, restart: bool = True) -> None:
        """Send these heartbeats; this is no sign of life of the application, as the client rejoins by itself.

        :param target: None for no heartbeats
        :param restart: whether a session begins; False if another coordinator takes the session over
        :raises WorkerNotStartedError: the system cannot start a thread at present
        """
        if target is not None and restart:
            self.heartbeat.reset_session_timeout()
            self.idle = False
        super().set_target(target)

    @property
    def active_again(self) -> bool:
        """Whether there was a sign of life since the thread last checked."""
        return bool(self._activity.waiting) or self._polls() != self._polls_seen

    def commit_refused(self, identity: tuple[int, str], error: KafkaException) -> None:
        """Take the answer to a commit that the member is out of the group, as if it were that to a heartbeat.

        Any worker of the application may call this.

        :param identity: generation and member id that the commit has named
        """
        code = getattr(error, "ERROR_CODE", 0)
        self.reports.append(Report(*identity, code, error.broker or ""))
        self._request_poll()
        self._notify()

    def stop(self) -> None:
        """Stop sending; `set_target` starts it."""
        self.idle = False
        super().stop()

    def _after_fork(self) -> None:
        super()._after_fork()
        self.reports.clear()
        self.idle = False

    # -- the thread's side -------------------------------------------------------------------------------------------

    def _heartbeat_call(self, target: HeartbeatTarget) -> Call:
        started = self._native.now()
        self.heartbeat.sent_heartbeat()
        request = wire.HeartbeatRequest(
            group_id=target.group,
            generation_id=target.generation_id,
            member_id=target.member_id,
            group_instance_id=target.instance_id if target.version >= 3 else None,
        )

        def answered(response: wire.HeartbeatResponse) -> None:
            self._answered(target, response.error_code, started)

        return Call(request, target.version, self._timeout(target), answered, partial(self._failed, target))

    def _answered(self, target: HeartbeatTarget, code: int, started: float) -> None:
        self.latency = self._native.now() - started
        if code in {0, RebalanceInProgress.ERROR_CODE}:
            # A member stays one during a rebalance, until it has had time to join again.
            self._received()
        elif code in ENDED:
            self._ended = target
        if code:
            self._report(target, code)
            if code != RebalanceInProgress.ERROR_CODE and code not in ENDED and self._is_overdue():
                self._report(target, code, overdue=True)
        self._request_poll()

    def _failed(self, target: HeartbeatTarget, error: KafkaException) -> None:
        self._wait_to_retry()
        self._report(target, 0, error)
        if self._is_overdue():
            self._report(target, 0, error, overdue=True)

    def _leave_call(self, target: HeartbeatTarget) -> Call:
        request = leave_request(target.group, target.member_id, target.leave_version, target.instance_id)

        def left(_: object) -> None:
            self._left(target, None)

        # if it fails, the session times out instead
        return Call(request, target.leave_version, self._timeout(target), left, partial(self._left, target))

    def _left(self, target: HeartbeatTarget, error: KafkaException | None) -> None:
        self._ended = target
        self.idle = True
        self._report(target, 0, error, idle=True)

    def _report(
        self,
        target: HeartbeatTarget,
        code: int,
        error: KafkaException | None = None,
        *,
        idle: bool = False,
        overdue: bool = False,
    ) -> None:
        before = self._reported  # by identity: a new target begins new reports
        is_repeat = before is not None and before[0] is target and before[1] == code and not (idle or overdue)
        # The member may have looked for another coordinator in vain: the next report makes it look again.
        if is_repeat and (self.reports or not (code == 0 or code in MOVED)):
            return
        self._reported = (target, code)
        identity = target.generation_id, target.member_id
        self.reports.append(Report(*identity, code, target.broker.address, error, idle, overdue))
        self._request_poll()
        self._native.post(self._notify)


def leave_request(group: str, member_id: str, version: int, instance_id: str | None = None) -> wire.LeaveGroupRequest:
    """Return a LeaveGroup request for one member."""
    if version >= 3:  # several at once, since then
        member = wire.LeaveGroupRequest.Member(member_id=member_id, group_instance_id=instance_id)
        return wire.LeaveGroupRequest(group_id=group, members=[member])
    return wire.LeaveGroupRequest(group_id=group, member_id=member_id)


def encoded(content: Any) -> bytes:
    """Return content as bytes; it is bytes-like, or has `encode()`."""
    return bytes(content) if isinstance(content, (bytes, bytearray, memoryview)) else bytes(content.encode())
