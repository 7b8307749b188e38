"""`AssignmentChange`: the share of a member as its hooks know it, eager or cooperative; and `AssignmentHooks` themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pykafka.common import TopicPartition


class Standing(Protocol):
    """The membership as its share depends on it; `pykafka.groups.classic.state.Membership` is one."""

    #: The generation, or epoch; -1 for none.
    generation_id: int
    member_id: str
    #: How often the member was out of the group, or has missed a generation, so that others may have had its share.
    breaks: int


class AssignmentHooks(Protocol):
    """The consumer that reads what its member is given: the hooks run on the worker that calls `Subscriber.serve`.

    A hook that raises an `Exception` counts as run: `serve` raises the exception when the rebalance has come to its end.
    After any other exception (gevent.Timeout, KeyboardInterrupt) the next `serve` runs the same hook again.
    """

    @property
    def calls(self) -> int:
        """A number that grows with each call of the application: its sign of life; any thread may read it."""

    @property
    def is_called_back(self) -> bool:
        """Whether a call that takes part in a rebalance is to end now, and the next one is to go on with it."""

    def attend(self) -> object:
        """Read `Subscriber.due` at the next call of the application, also one that waits now.

        Any thread may call this, also the one of heartbeats beside a hub: it may only store.
        """

    def wake(self) -> object:
        """End the wait of a call of the application, so that it reads `Subscriber.due`; called where events may be set."""

    def revoke(self, keys: Collection[TopicPartition]) -> object:
        """Stop reading the whole share, which is still this member's; commit it, and keep its positions for `assign`."""

    def assign(self, keys: Collection[TopicPartition], kept: Collection[TopicPartition]) -> object:
        """Read a new share.

        :param keys: all of it
        :param kept: those that no other member can have had since `revoke`: they go on where they were
        """

    def release(self, gone: Collection[TopicPartition]) -> object:
        """Stop reading a part of the share, which is still this member's; commit it, and forget its positions.

        :param gone: never empty; the rest of the share is read on meanwhile
        """

    def extend(self, added: Collection[TopicPartition]) -> object:
        """Read partitions besides the present share.

        :param added: what is new; perhaps none: then the share is as it should be
        """

    def lose(self, keys: Collection[TopicPartition]) -> object:
        """Stop reading partitions, and forget their positions: others may read them, or their topic was deleted."""


class AssignmentChange(ABC):
    """The share of a member, and how the hooks are relieved of it and given another.

    State: belongs to the worker that serves; others may read `share` and `since`, which are replaced, never changed.

    :param hooks: the consumer
    :param membership: of the member
    :param is_missing: tells whether the cluster has just said that a topic does not exist
    """

    #: Whether the member goes on with its share while the group rebalances.
    cooperative = False

    def __init__(self, hooks: AssignmentHooks, membership: Standing, is_missing: Callable[[str], bool]) -> None:
        self._hooks = hooks
        self._membership = membership
        self._is_missing = is_missing
        #: The partitions that the hooks have been given and not been relieved of.
        self.share: frozenset[TopicPartition] = frozenset()
        #: A new share, until the hooks have been given all of it.
        self.pending: frozenset[TopicPartition] | None = None
        #: Since which generation each partition has been this member's without a break; for cooperative members.
        self.since: Mapping[TopicPartition, int] = {}
        #: Whether something went to others with the last share, so that the group has to share out again.
        self.joins_again = False
        #: What hooks have raised, and `serve` has still to raise.
        self.errors: deque[Exception] = deque()
        #: Whether the member has left the group.
        self.ended = False

    @property
    def is_broken(self) -> bool:
        """Whether others may have had the share, because the member was out of the group, or missed a generation."""
        return self._membership.generation_id < 0

    @abstractmethod
    def prepare(self, topics: Collection[str]) -> None:
        """Relieve the hooks of what must go before the member joins.

        :param topics: those that it reads now
        """

    @abstractmethod
    def hand_over(self) -> None:
        """Give the hooks the new share, if there is one."""

    @abstractmethod
    def give_up(self) -> None:
        """Relieve the hooks of all of the share: in good order if it is still this member's, else as lost."""

    def after_fork(self) -> None:  # noqa: B027 - most have nothing that only the parent process can go on with
        """Forget what only the parent process can go on with."""

    def end(self, successor: AssignmentChange) -> None:
        """Call no hook any more: one of them has left the group; `successor` has what that one raises."""
        self.ended = True
        self.errors = successor.errors

    def _lose(self, keys: Collection[TopicPartition]) -> None:
        if keys:
            self._call(self._hooks.lose, sorted(keys))
            self._forget(keys)

    def _forget(self, keys: Collection[TopicPartition]) -> None:
        self.share -= set(keys)
        self.since = {key: generation for key, generation in self.since.items() if key in self.share}

    def _missing(self, keys: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return the partitions of topics that are gone: the coordinator takes no commits for them."""
        return frozenset(key for key in keys if self._is_missing(key.topic))

    def _call(self, hook: Callable[..., object], *keys: Collection[TopicPartition]) -> None:
        if self.ended:
            return
        try:
            hook(*keys)
        except Exception as error:  # noqa: BLE001 - the application's listener; `serve` raises it at its end
            self.errors.append(error)


class EagerHandover(AssignmentChange):
    """The share of a member that gives all of it up before each rebalance."""

    def __init__(self, hooks: AssignmentHooks, membership: Standing, is_missing: Callable[[str], bool]) -> None:
        super().__init__(hooks, membership, is_missing)
        #: The partitions that the hooks were relieved of in good order, and as which member of which generation.
        self._kept: frozenset[TopicPartition] = frozenset()
        self._kept_as = ("", -1)

    def prepare(self, topics: Collection[str]) -> None:
        """Relieve the hooks of all of the share."""
        self.give_up()

    def give_up(self) -> None:
        """Relieve the hooks of all of the share: in good order if it is still this member's, else as lost."""
        self.pending = None
        if not self.share:
            return
        membership = self._membership
        self._lose(self.share if membership.generation_id < 0 else self._missing(self.share))
        if self.share:
            kept, kept_as = self.share, (membership.member_id, membership.generation_id)
            self._call(self._hooks.revoke, sorted(kept))
            self.share, self._kept, self._kept_as = frozenset(), kept, kept_as

    def hand_over(self) -> None:
        """Give the hooks the new share, if there is one."""
        keys = self.pending
        if keys is None:
            return
        member_id, generation = self._kept_as
        membership = self._membership
        # In a generation that this member joined without getting its share, others may have had these partitions.
        missed_nothing = member_id == membership.member_id and membership.generation_id in {generation, generation + 1}
        kept = keys & self._kept if missed_nothing else frozenset()
        self.share = keys
        self._call(self._hooks.assign, sorted(keys), sorted(kept))
        self.pending = None
        self._kept = frozenset()

    def after_fork(self) -> None:
        """Keep no positions: they are the parent's."""
        self._kept = frozenset()


class CooperativeHandover(AssignmentChange):
    """The share of a member that keeps what stays through a rebalance (KIP-429), and changes it by differences."""

    cooperative = True

    def __init__(self, hooks: AssignmentHooks, membership: Standing, is_missing: Callable[[str], bool]) -> None:
        super().__init__(hooks, membership, is_missing)
        #: What the hooks are being given besides what they have; None while they are not.
        self._added: frozenset[TopicPartition] | None = None
        #: How many breaks the membership had when the share was taken.
        self._breaks = membership.breaks

    @property
    def is_broken(self) -> bool:
        """Whether others may have had the share, because the member was out of the group, or missed a generation."""
        return super().is_broken or self._membership.breaks != self._breaks

    def prepare(self, topics: Collection[str]) -> None:
        """Relieve the hooks of what is lost, and of topics that the member no longer reads."""
        if self._membership.generation_id < 0:
            self._begin_anew()
        else:
            self._relieve(frozenset(key for key in self.share if key.topic not in topics))
            self._lose(self._missing(self.share))

    def hand_over(self) -> None:
        """Relieve the hooks of what goes to others, then give them what is new, if there is a new share."""
        keys = self.pending
        if keys is None:
            return
        if self.is_broken and self.share:
            self._lose(self.share)
        self._breaks = self._membership.breaks
        if gone := self.share - keys:
            self.joins_again = True
            self._relieve(gone)
        if self._added is None:  # else a timeout or Ctrl-C has ended the hook, which runs again
            self._added = keys - self.share
        generation = self._membership.generation_id
        self.share, self.since = keys, {key: self.since.get(key, generation) for key in keys}
        self._call(self._hooks.extend, sorted(self._added))
        self.pending = self._added = None

    def give_up(self) -> None:
        """Relieve the hooks of all of the share: in good order if it is still this member's, else as lost."""
        if self.is_broken:
            self._begin_anew()
            return
        self.pending = self._added = None
        self._lose(self._missing(self.share))
        if self.share:
            self._call(self._hooks.revoke, sorted(self.share))
            self._forget(self.share)

    def owned_since(self, keys: Collection[TopicPartition], generation: int) -> set[TopicPartition]:
        """Return which partitions have been this member's without a break since a generation; any worker may call this."""
        since = self.since
        return set() if self.is_broken else {key for key in keys if since.get(key, generation + 1) <= generation}

    def lose_remade(self, topics: Collection[str]) -> None:
        """Lose partitions of topics that were deleted and made anew: their positions mean nothing in the new ones."""
        if topics:
            self._lose(frozenset(key for key in self.share if key.topic in topics))

    def _begin_anew(self) -> None:
        self.pending = self._added = None
        self.joins_again = False
        self._lose(self.share)
        self._breaks = self._membership.breaks

    def _relieve(self, gone: frozenset[TopicPartition]) -> None:
        """Relieve the hooks of a part of the share that is still this member's."""
        self._lose(self._missing(gone))
        if left := gone & self.share:
            self._call(self._hooks.release, sorted(left))
            self._forget(left)
