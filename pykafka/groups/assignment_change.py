"""`AssignmentChange`: from one assignment of a member to the next one, eager or cooperative, by calls of its hooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.groups.heartbeat_sender import Activity
    from pykafka.groups.membership import AssignmentHooks


class RevocationUnfinished(BaseException):
    """The call has to end before the commit of revoked partitions is made: the next `poll` calls the same hook again."""


@dataclass(eq=False)
class Generation:
    """The membership as far as its assignment depends on it; the worker that polls changes it."""

    member_id: str = ""
    #: The generation, or epoch; -1 for none.
    generation_id: int = -1
    #: How often the member was out of the group, or has missed a generation, so that others may have had its assignment.
    breaks: int = 0


class AssignmentChange(ABC):
    """The assignment of a member as its hooks know it, and the calls that lead to the next one.

    State: belongs to the worker that polls; others may read `assignment` and `since`, which are replaced, never changed.

    :param hooks: the consumer
    :param membership: of the member
    :param is_missing: returns whether the cluster has just answered that a topic does not exist
    :param activity: of the application, whose time the hooks take
    """

    #: Whether the member keeps its assignment while the group rebalances.
    cooperative = False

    def __init__(
        self, hooks: AssignmentHooks, membership: Generation, is_missing: Callable[[str], bool], activity: Activity
    ) -> None:
        self._hooks = hooks
        self._membership = membership
        self._is_missing = is_missing
        self._activity = activity
        #: The partitions that the hooks have.
        self.assignment: frozenset[TopicPartition] = frozenset()
        #: A new assignment, until the hooks have all of it.
        self.pending: frozenset[TopicPartition] | None = None
        #: Since which generation each partition has been this member's without a break; for cooperative members.
        self.since: Mapping[TopicPartition, int] = {}
        #: Whether partitions went to other members with the last assignment, so that the group has to rebalance again.
        self.needs_rejoin = False
        #: The errors of hooks that `poll` has still to raise.
        self.errors: deque[Exception] = deque()
        #: Whether the member has left the group.
        self.ended = False
        # Finishes the revocation whose commit was not made when its call had to end, or that an interrupt has ended behind
        # the hook; None: there is none. It may be called again.
        self._unfinished: Callable[[], object] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether others may have had the assignment, because the member was out of the group, or missed a generation."""
        return self._membership.generation_id < 0

    @abstractmethod
    def prepare(self, topics: Collection[str]) -> None:
        """Revoke partitions before the member joins, if the protocol needs it.

        :param topics: those that it reads now
        """

    @abstractmethod
    def assign_pending(self) -> None:
        """Give the hooks the new assignment, if there is one."""

    @abstractmethod
    def revoke_all(self) -> None:
        """Revoke the whole assignment, or report it lost if it may be another member's by now."""

    @property
    def is_unfinished(self) -> bool:
        """Whether another call has begun a revocation, so that `resume` has to come before any other change."""
        return self._unfinished is not None

    def resume(self, then: Callable[[], object] = lambda: None) -> None:
        """Finish the revocation that another call has begun, if there is one.

        :param then: called at its end; after an interrupt, `resume` calls it again
        """
        if self._unfinished is not None:
            self._unfinished()
            then()
            self._unfinished = None

    def after_fork(self) -> None:
        """Forget what belongs to the parent process."""
        self._unfinished = None

    def end(self, successor: AssignmentChange) -> None:
        """Call no hook any more, as one of them has left the group; `successor` gets the errors of that one."""
        self.ended = True
        self.errors = successor.errors

    def _lose(self, keys: Collection[TopicPartition]) -> None:
        if keys:
            self._call(self._hooks.on_lost, sorted(keys))
            self._forget(keys)

    def _forget(self, keys: Collection[TopicPartition]) -> None:
        self.assignment -= set(keys)
        self.since = {key: generation for key, generation in self.since.items() if key in self.assignment}

    def _missing(self, keys: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return the partitions of deleted topics: the coordinator takes no commits for them."""
        return frozenset(key for key in keys if self._is_missing(key.topic))

    def _revoke(
        self,
        hook: Callable[[Collection[TopicPartition]], object],
        keys: Collection[TopicPartition],
        done: Callable[[], object],
    ) -> None:
        """Call a hook that revokes partitions, and then `done`; if the call has to end before, `resume` does so."""
        self._try_to_revoke(hook, keys, done)
        self._unfinished = None

    def _try_to_revoke(
        self,
        hook: Callable[[Collection[TopicPartition]], object],
        keys: Collection[TopicPartition],
        done: Callable[[], object],
    ) -> None:
        try:
            self._call(hook, sorted(keys))
        except RevocationUnfinished:
            self._unfinished = partial(self._try_to_revoke, hook, keys, done)
            raise
        self._unfinished = done  # not the hook again, if an interrupt comes now
        done()

    def _call(self, hook: Callable[..., object], *keys: Collection[TopicPartition]) -> None:
        if self.ended:
            return
        try:
            self._activity.run_callback(hook, *keys)
        except Exception as error:  # noqa: BLE001 - the application's listener; `poll` raises it at its end
            self.errors.append(error)


class EagerAssignmentChange(AssignmentChange):
    """The change of a member that revokes its whole assignment before each rebalance."""

    def __init__(
        self, hooks: AssignmentHooks, membership: Generation, is_missing: Callable[[str], bool], activity: Activity
    ) -> None:
        super().__init__(hooks, membership, is_missing, activity)
        #: The partitions that were revoked and not lost, and by which member of which generation.
        self._kept: frozenset[TopicPartition] = frozenset()
        self._kept_as = ("", -1)

    def prepare(self, topics: Collection[str]) -> None:
        """Revoke the whole assignment."""
        self.revoke_all()

    def revoke_all(self) -> None:
        """Revoke the whole assignment, or report it lost if it may be another member's by now."""
        self.pending = None
        if not self.assignment:
            return
        membership = self._membership
        self._lose(self.assignment if membership.generation_id < 0 else self._missing(self.assignment))
        if self.assignment:
            kept, kept_as = self.assignment, (membership.member_id, membership.generation_id)
            self._revoke(self._hooks.on_revoked_all, kept, partial(self._keep, kept, kept_as))

    def _keep(self, kept: frozenset[TopicPartition], kept_as: tuple[str, int]) -> None:
        self.assignment, self._kept, self._kept_as = frozenset(), kept, kept_as

    def assign_pending(self) -> None:
        """Give the hooks the new assignment, if there is one."""
        keys = self.pending
        if keys is None:
            return
        member_id, generation = self._kept_as
        membership = self._membership
        # In a generation that this member joined without getting its assignment, others may have had these partitions.
        missed_nothing = member_id == membership.member_id and membership.generation_id in {generation, generation + 1}
        kept = keys & self._kept if missed_nothing else frozenset()
        self.assignment = keys
        self._call(self._hooks.on_assigned, sorted(keys), sorted(kept))
        self.pending = None
        self._kept = frozenset()

    def after_fork(self) -> None:
        """Keep no positions: they are the parent's."""
        super().after_fork()
        self._kept = frozenset()


class CooperativeAssignmentChange(AssignmentChange):
    """The change of a member that keeps its partitions through a rebalance (KIP-429), and takes the differences."""

    cooperative = True

    def __init__(
        self, hooks: AssignmentHooks, membership: Generation, is_missing: Callable[[str], bool], activity: Activity
    ) -> None:
        super().__init__(hooks, membership, is_missing, activity)
        #: The partitions of the `on_added` that runs, or was interrupted; None for none.
        self._added: frozenset[TopicPartition] | None = None
        #: How many breaks the membership had at the last assignment.
        self._breaks = membership.breaks

    @property
    def is_lost(self) -> bool:
        """Whether others may have had the assignment, because the member was out of the group, or missed a generation."""
        return super().is_lost or self._membership.breaks != self._breaks

    @property
    def is_adding(self) -> bool:
        """Whether a timeout or Ctrl-C has ended the hook that adds the pending partitions, so that it has to run again."""
        return self._added is not None

    def prepare(self, topics: Collection[str]) -> None:
        """Report lost partitions, and revoke topics that the member no longer reads."""
        if self._membership.generation_id < 0:
            self._reset()
        else:
            self._revoke_part(frozenset(key for key in self.assignment if key.topic not in topics))
            self._lose(self._missing(self.assignment))

    def assign_pending(self) -> None:
        """Revoke partitions of other members, then add new ones, if there is a new assignment."""
        keys = self.pending
        if keys is None:
            return
        if self.is_lost and self.assignment:
            self._lose(self.assignment)
        self._breaks = self._membership.breaks
        if gone := self.assignment - keys:
            self.needs_rejoin = True
            self._revoke_part(gone)
        # with those of a hook that a timeout or Ctrl-C has ended; the assignment may be another one by now
        self._added = keys & ((self._added or frozenset()) | (keys - self.assignment))
        generation = self._membership.generation_id
        since = dict.fromkeys(keys, generation)
        for key in keys & self.since.keys():
            since[key] = self.since[key]
        self.assignment, self.since = keys, since
        self._call(self._hooks.on_added, sorted(self._added))
        self.pending = self._added = None

    def revoke_all(self) -> None:
        """Revoke the whole assignment, or report it lost if it may be another member's by now."""
        if self.is_lost:
            self._reset()
            return
        self.pending = self._added = None
        self._lose(self._missing(self.assignment))
        if self.assignment:
            self._revoke(self._hooks.on_revoked_all, self.assignment, partial(self._forget, self.assignment))

    def owned_since(self, keys: Collection[TopicPartition], generation: int) -> set[TopicPartition]:
        """Return which partitions have been this member's without a break since a generation; any worker may call this."""
        since = self.since
        return set() if self.is_lost else {key for key in keys if since.get(key, generation + 1) <= generation}

    def lose_recreated(self, topics: Collection[str]) -> None:
        """Report partitions of recreated topics as lost: positions of the deleted topics are not valid in the new ones."""
        if topics:
            self._lose(frozenset(key for key in self.assignment if key.topic in topics))

    def _reset(self) -> None:
        self.pending = self._added = None
        self.needs_rejoin = False
        self._lose(self.assignment)
        self._breaks = self._membership.breaks

    def _revoke_part(self, gone: frozenset[TopicPartition]) -> None:
        """Revoke a part of the assignment that is still this member's."""
        self._lose(self._missing(gone))
        if left := gone & self.assignment:
            self._revoke(self._hooks.on_revoked, left, partial(self._forget, left))
