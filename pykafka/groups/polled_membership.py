"""`PolledMembership`: the part of a membership that all protocols share: it lives in the calls of its consumer."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pykafka.groups.assignment_change import RevocationUnfinished
from pykafka.groups.subscription import TOPICS_POLL_INTERVAL_S, Subscription, Topics, TopicWatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pykafka.common import TopicPartition
    from pykafka.consumer.committed_offsets import Membership
    from pykafka.groups.assignment_change import AssignmentChange
    from pykafka.groups.heartbeat_sender import Activity
    from pykafka.groups.membership import AssignmentHooks
    from pykafka.handlers import Handler

log = logging.getLogger(__name__)

#: How often a call checks whether the `poll` of another worker has ended (s).
POLL_LOCK_INTERVAL_S = 0.01


class PolledMembership(ABC):
    """A `GroupMembership` whose work is done inside `poll`, by one worker at a time.

    State: changes under `_polling`; any worker may read `needs_poll` and call `leave`.
    """

    group_id: str
    identity: Membership
    activity: Activity
    _handler: Handler
    _hooks: AssignmentHooks
    _change: AssignmentChange
    _topic_watch: TopicWatch
    _subscription: Subscription | None = None
    # What the last `leave` was asked; see its parameter.
    _leave_group: bool | None = None

    def _set_up_polling(self) -> None:
        """Make the lock and the mark of the worker that polls: at first, and after a fork."""
        self._local = self._handler.local()
        self._polling = self._handler.Lock()

    def _leave_to_parent(self) -> None:
        """Take part as another member than the parent's, in a forked child; until it has joined, commits have no names."""
        self._set_up_polling()
        self._change.after_fork()
        self.identity.generation_id, self.identity.member_id = -1, ""

    # -- what a protocol defines -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def needs_poll(self) -> bool:
        """Whether `poll` has something to do; costs no more than a look at the clock."""

    @property
    @abstractmethod
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and no rebalance is under way as far as it knows."""

    @abstractmethod
    def _poll(self, deadline: float | None) -> None:
        """Take part in the group; for errors see `poll`."""

    def _resumed(self) -> None:  # noqa: B027 - most find out by themselves
        """Take up again what `poll` has left to finish a revocation."""

    @abstractmethod
    def abort(self) -> None:
        """End a wait of another worker in `poll`, and let it begin none; call `close` next."""

    @abstractmethod
    def close(
        self, *, timeout_ms: int | None = None, leave_group: bool | None = None, wait: float | None = None
    ) -> None:
        """End heartbeats, and leave the group.

        :param wait: how long to wait for that (s), which goes on without this call; None for as long as it takes
        """

    @property
    def _is_joining_in_background(self) -> bool:
        """Whether a worker joins beside the application's calls; most protocols have none."""
        return False

    def _end_background_join(self) -> None:  # noqa: B027 - most have no such worker
        """End a worker that joins beside the application's calls."""

    @abstractmethod
    def _forget(self) -> None:
        """Forget the membership, which has no assignment then."""

    # -- the application's side ------------------------------------------------------------------------------------------

    @property
    def topics(self) -> frozenset[str]:
        """The topics that this member reads now: those named, and those that its patterns have matched."""
        subscription = self._subscription  # once: `leave`, on another worker, takes it away
        return frozenset() if subscription is None else subscription.topics

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the group has assigned to this member."""
        return self._change.assignment

    @property
    def fences_commits(self) -> bool:
        """Whether brokers keep the group, and refuse the commits of members that are out of it."""
        return True

    @property
    def owns_assignment(self) -> bool:
        """Whether the hooks' assignment is still this member's, as far as it knows; any worker may read it."""
        return not self._change.is_lost

    @property
    def next_poll_s(self) -> float:
        """How long a worker may wait before it reads `needs_poll` again (s)."""
        return TOPICS_POLL_INTERVAL_S

    @property
    def in_callback(self) -> bool:
        """Whether the caller is one of the hooks."""
        return getattr(self._local, "polls", False)

    def awaiting(self) -> AbstractContextManager[None]:
        """Count the application as alive in this context, as it waits for messages."""
        return self.activity.awaiting()

    def subscribe(self, topics: Topics) -> None:
        """Read these topics, and no others, from the next `poll` on. Parameters and errors: see `Subscription`."""
        subscription = Subscription(topics)
        if subscription == self._subscription:
            return
        self._subscription = subscription
        self._topic_watch.hurry()
        log.info("group %s: subscribed to %r", self.group_id, subscription)
        self._hooks.request_poll()

    def poll(self, deadline: float | None) -> None:
        """Take part in the group: join if need be, and give the assignment to the hooks.

        It returns when this member has its assignment, at the deadline or at `wakeup()` (the next call continues), or when
        another worker calls `leave`. A member that keeps its assignment through rebalances does not wait for other members:
        the next calls notice the end of the rebalance. If a hook calls this, nothing happens.

        The application counts as alive until this returns, except while a hook runs (`max_poll_interval_ms`).

        :param deadline: of the handler's clock (s); None: as long as it takes
        :raises FencedInstanceId: another member has this one's `group_instance_id`; each call raises it from then on
        :raises TopicAuthorizationFailed: the principal may not read a named topic; the member reads the others
        :raises KafkaException: the coordinator refuses for good; the next call tries again
        :raises Exception: a hook has raised it
        """
        self.activity.count += 1
        if self.in_callback or not self._await_poll(deadline):
            return
        self._take_part(partial(self._resume, deadline))
        if self._change.errors:
            raise self._change.errors.popleft()

    def enforce_rebalance(self, reason: str) -> None:
        """Log that the member cannot make its group rebalance: in most protocols it cannot."""
        log.warning(
            "group %s: enforce_rebalance() has no effect: with this protocol members cannot make a group rebalance, as "
            'no member assigns for the others; it is for protocol="classic"',
            self.group_id,
        )

    def leave(self, timeout_ms: int | None = None, *, leave_group: bool | None = None) -> None:
        """Revoke the assignment, leave the group, and end the subscription; end a `poll` of another worker before.

        By default a static member does not leave: the group expects it back within the session timeout.

        :param timeout_ms: how long leaving may take; by default 5,000
        :param leave_group: whether to tell the coordinator; None: unless the member is static
        :raises Exception: a hook has raised it; the group was left all the same
        """
        self._subscription, self._leave_group = None, leave_group
        joins, wait = False, None
        try:
            if not self.in_callback:
                # If the group rebalances, the last commit needs the new generation: that join has to end first.
                joins = self._is_joining_in_background
                if not joins:
                    self.abort()
                if self._await_poll(None):
                    self._take_part(self._revoke_all)
                else:  # as if the listener had left the group
                    self._hooks.give_up_all()
        except BaseException as failure:
            wait = _wait_after(failure)
            raise
        finally:  # also after a timeout or Ctrl-C, and if a hook calls this
            try:
                if joins:
                    self.abort()
                self._end_background_join()
            except BaseException as failure:
                wait = _wait_after(failure)
                raise
            finally:  # an interrupt of these waits must not keep the member in its group, where nobody would end it
                self.close(timeout_ms=timeout_ms, leave_group=leave_group, wait=wait)
            errors = self._change.errors
            self._forget()
            if not self.identity.closing:
                self.identity.generation_id, self.identity.member_id = -1, ""
        if errors:
            first = errors.popleft()
            for error in errors:
                first.add_note(f"besides: {error!r}")
            raise first

    def _take_part(self, step: Callable[[], object]) -> None:
        """Make a step that may wait for the group, and call the hooks."""
        with self._polling:
            self._local.polls = True
            try:
                with self.activity.awaiting():
                    step()
            finally:
                self._local.polls = False

    def _resume(self, deadline: float | None) -> None:
        """Finish the revocation that the last call has begun, then take part in the group."""
        with suppress(RevocationUnfinished):  # the next call finishes it
            self._change.resume(self._resumed)
            self._poll(deadline)

    def _revoke_all(self) -> None:
        change = self._change
        for revoke in (change.resume, change.revoke_all):
            try:
                revoke()
            except RevocationUnfinished:
                self._hooks.await_revocation()
                change.resume()

    def _await_poll(self, deadline: float | None) -> bool:
        """Wait until no other worker polls; return False if the deadline comes first.

        :param deadline: of the handler's clock (s); None, for `leave`: until the listener is held up
        """
        # not `acquire(timeout=...)`: Ctrl-C could come before the `try` behind it
        while self._polling.locked():
            if self._hooks.is_held_up if deadline is None else self._handler.now() >= deadline:
                return False
            self._handler.sleep(POLL_LOCK_INTERVAL_S)
        return True


def _wait_after(error: BaseException) -> float | None:
    """Return how long a call that has failed waits until its member has left (s): not at all if it was interrupted."""
    return None if isinstance(error, Exception) else 0.0
