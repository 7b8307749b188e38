"""`PolledMembership`: a membership that lives in the calls of its consumer, one worker at a time, for all protocols."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from pykafka.common import TopicPartition
from pykafka.groups.subscription import LOOK_S, Subscription, Topics, TopicWatch

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.groups.assignment_change import AssignmentChange, AssignmentHooks
    from pykafka.groups.heartbeat_sender import Activity
    from pykafka.handlers import Handler

log = logging.getLogger(__name__)

#: How often a call looks whether another worker still takes part in a rebalance (s).
TURN_S = 0.01

#: What a commit is to name when it is repeated, and the partitions of it that have been the member's without a break.
Renewed = tuple[tuple[int, str], Collection[TopicPartition]]


class Identity(Protocol):
    """The generation, or epoch, and member id that commits name; `pykafka.consumer.committed_offsets.Membership` is one."""

    generation_id: int
    member_id: str
    #: See `pykafka.consumer.committed_offsets.Membership`.
    renew: Callable[[tuple[int, str], Collection[TopicPartition]], Renewed | None] | None
    #: Likewise.
    may_commit: Callable[[], bool] | None
    #: Likewise.
    closing: bool
    #: Likewise.
    out: Callable[[tuple[int, str], KafkaException], object] | None


class PolledMembership(ABC):
    """The part of a membership that the application's calls see: `due`, `serve`, `leave`, one worker at a time.

    State: changes under `_serving`; `due` and `leave` may be called from any worker.
    """

    group_id: str
    member: Identity
    activity: Activity
    _handler: Handler
    _hooks: AssignmentHooks
    _handover: AssignmentChange
    _outlook: TopicWatch

    def _set_up_serving(self) -> None:
        self._selection: Subscription | None = None
        self._here = self._handler.local()
        self._serving = self._handler.Lock()

    def _serve_after_fork(self) -> None:
        self._here = self._handler.local()
        self._serving = self._handler.Lock()
        self._handover.after_fork()

    # -- what a protocol defines -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def due(self) -> bool:
        """Whether `serve` has something to do; costs no more than a look at the clock."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether the group has given this member its share, and no rebalance goes on as far as it knows."""

    @abstractmethod
    def _serve(self, deadline: float | None) -> None:
        """Take part in the group; errors as of `serve`."""

    @abstractmethod
    def abort(self) -> None:
        """End what another worker waits for in `serve`, and let nothing of it begin; call `close` next."""

    @abstractmethod
    def close(self, *, timeout_ms: int | None = None) -> None:
        """End heartbeats, and leave the group."""

    def _end_aside(self) -> None:  # noqa: B027 - most have no such worker
        """End a worker that takes part beside the application's calls."""

    @abstractmethod
    def _forget(self) -> None:
        """Begin anew, without a share."""

    # -- the application's side ------------------------------------------------------------------------------------------

    @property
    def topics(self) -> frozenset[str]:
        """The topics that this member reads now: those named, and those that its patterns have matched."""
        return frozenset() if self._selection is None else self._selection.topics

    @property
    def share(self) -> frozenset[TopicPartition]:
        """The partitions that the group has given to this member."""
        return self._handover.share

    @property
    def is_fenced(self) -> bool:
        """Whether brokers keep the group, and refuse what members commit that are out of it."""
        return True

    @property
    def holds(self) -> bool:
        """Whether the share that the hooks have is still this member's, as far as it knows; any worker may read it."""
        return not self._handover.is_broken

    @property
    def look_s(self) -> float:
        """How long a worker may wait before it reads `due` again (s)."""
        return LOOK_S

    @property
    def is_in_hook(self) -> bool:
        """Whether the caller is one of the hooks."""
        return self._enters_again

    def idle(self, waiting: bool) -> None:
        """Take a sign of life of the application.

        :param waiting: whether it waits for messages from now on; while it does, it counts as alive
        """
        self.activity.count += 1
        self.activity.waiting = [None] if waiting else []

    def subscribe(self, topics: Topics) -> None:
        """Read these topics, and no others: from the next `serve` on. Parameters and errors as of `Subscription`."""
        selection = Subscription(topics)
        if selection == self._selection:
            return
        self._selection = selection
        self._outlook.hurry()
        log.info("group %s: subscribed to %r", self.group_id, selection)
        self._hooks.attend()

    def serve(self, deadline: float | None) -> None:
        """Take part in the group: join if need be, and give the share to the hooks. A sign of life.

        It returns when this member has its share, when time is up or the hooks are called back (the next call goes on), or when
        another worker calls `leave`. A member that keeps its share through rebalances waits for nobody: the next calls look
        for the end of the rebalance. A hook that calls it gets nothing done.

        :param deadline: of the handler's clock (s); None: as long as it takes
        :raises FencedInstanceId: another member has this one's `group_instance_id`; each call raises it from then on
        :raises TopicAuthorizationFailed: the principal may not read a named topic; the member reads the others
        :raises KafkaException: the coordinator refuses for good; the next call tries again
        :raises Exception: a hook has raised it
        """
        if self._enters_again or not self._await_turn(deadline):
            return
        with self._serving:
            self._here.serves = True
            try:
                self._serve(deadline)
            finally:
                self._here.serves = False
        if self._handover.errors:
            raise self._handover.errors.popleft()

    def leave(self, timeout_ms: int | None = None) -> None:
        """Revoke the share, leave the group, and end the subscription; end a `serve` of another worker before.

        A static member does not leave: it is expected back within the session's time.

        :param timeout_ms: how long leaving may take; by default 5,000
        :raises Exception: a hook has raised it; the group was left all the same
        """
        self._selection = None
        try:
            if not self._enters_again:
                self.abort()
                self._await_turn(None)
                with self._serving:
                    self._end_aside()
                    self._relieve_here()
        finally:  # also after a timeout or Ctrl-C, and where a hook calls this
            self._end_aside()
            self.close(timeout_ms=timeout_ms)
            errors = self._handover.errors
            self._forget()
            if not self.member.closing:
                self.member.generation_id, self.member.member_id = -1, ""
        if errors:
            first = errors.popleft()
            for error in errors:
                first.add_note(f"besides: {error!r}")
            raise first

    def _relieve_here(self) -> None:
        self._here.serves = True
        try:
            self._handover.give_up()
        finally:
            self._here.serves = False

    # -- one worker at a time --------------------------------------------------------------------------------------------

    @property
    def _enters_again(self) -> bool:
        return getattr(self._here, "serves", False)

    def _await_turn(self, deadline: float | None) -> bool:
        """Wait while another worker serves; return whether there was time enough."""
        # not `acquire(timeout=...)`: Ctrl-C could come before the `try` behind it
        while self._serving.locked():
            if deadline is not None and self._handler.now() >= deadline:
                return False
            self._handler.sleep(TURN_S)
        return True
