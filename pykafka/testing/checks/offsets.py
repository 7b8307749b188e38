"""`CommittedOffsets`: which offsets a group may have committed at a moment, as far as the history can say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from pykafka.common import TopicPartition
from pykafka.testing.history import Commit, Operation, Place

#: A partition as a group knows it.
Owned = tuple[str, TopicPartition]


@dataclass(eq=False, slots=True)
class OffsetCommit:
    """A commit of one offset of a partition.

    :param begun: before it the commit had no effect
    :param generation: of the member; -1: it is no member
    :param ended: by when it had its effect; None: that is not known
    :param replaced: the number of the operation from which on it is certain that a later commit has replaced it
    :param late_ms: for how long after `ended` a first request of the call may still have its effect (ms)
    """

    begun: Operation
    offset: int
    generation: int
    ended: Operation | None = None
    replaced: int | None = None
    late_ms: int = 0

    @property
    def shown(self) -> Operation:
        """The operation that shows it best."""
        return self.ended or self.begun

    def came_before(self, other: OffsetCommit) -> bool:
        """Return whether its effect, if it had one, was certainly before that of another one.

        A commit without an answer may have its effect much later; but not once another member has the partition in a later
        generation.
        """
        ended, begun = self.ended, other.begun
        if ended is not None and ended.number < begun.number and ended.time_ms + self.late_ms <= begun.time_ms:
            return True
        return self.begun.process != other.begun.process and other.generation > self.generation >= 0


class CommittedOffsets:
    """The commits of all groups, in the order of the history."""

    def __init__(self) -> None:
        self._current: dict[Owned, list[OffsetCommit]] = defaultdict(list)
        self._replaced: dict[Owned, list[OffsetCommit]] = defaultdict(list)
        #: By call: its begin, the generation of its member, and what it may have committed so far as is known.
        self._by_call: dict[int, tuple[Operation, int, list[tuple[Owned, OffsetCommit]]]] = {}
        self._first: dict[Owned, int] = {}
        self._highest: dict[Owned, int] = {}
        #: By process: commits that take effect with its transaction.
        self._in_transaction: dict[str, list[tuple[Owned, OffsetCommit]]] = defaultdict(list)

    def begin(self, operation: Operation, group: str, places: tuple[Place, ...], generation: int) -> None:
        """Take the begin of a commit."""
        found = []
        for place in places:
            owned = group, TopicPartition(*place[:2])
            commit = OffsetCommit(operation, place.offset, generation)
            self._current[owned].append(commit)
            self._highest[owned] = max(place.offset, self._highest.get(owned, 0))
            found.append((owned, commit))
        self._by_call[operation.number] = operation, generation, found

    def succeed(
        self, operation: Operation, group: str, places: tuple[Place, ...], in_transaction: bool, late_ms: int
    ) -> None:
        """Take the end of a commit that was acknowledged.

        :param places: what was committed; a program that commits all of its positions knows it only now. Of what the call began
            with and is not here, it may have been committed
        :param in_transaction: it takes effect when its transaction does
        :param late_ms: for how long after it a first request of the call may still have its effect (ms)
        """
        begun, generation, found = self._by_call.pop(operation.call, (operation, -1, []))
        by_owned = dict(found)
        certain = {(group, TopicPartition(*place[:2])) for place in places}
        for place in places:
            owned = group, TopicPartition(*place[:2])
            commit = by_owned.get(owned)
            if commit is not None:
                commit.offset = place.offset
            else:
                commit = OffsetCommit(begun, place.offset, generation)
                self._current[owned].append(commit)
                found.append((owned, commit))
            self._highest[owned] = max(place.offset, self._highest.get(owned, 0))
        for _, commit in found:
            commit.late_ms = late_ms
        if in_transaction:
            self._in_transaction[operation.process] += found
        else:
            self._settle([one for one in found if one[0] in certain], operation)
            for owned, commit in found:
                if owned not in certain:
                    commit.ended = operation  # it replaces nothing

    def fail(self, operation: Operation) -> None:
        """Take the end of a commit that had no effect."""
        _, _, found = self._by_call.pop(operation.call, (operation, -1, []))
        for owned, commit in found:
            self._drop(owned, commit)

    def _drop(self, owned: Owned, commit: OffsetCommit) -> None:
        """Forget a commit that had no effect."""
        self._current[owned].remove(commit)
        others = *self._current[owned], *self._replaced[owned]
        self._highest[owned] = max((one.offset for one in others), default=0)

    def end_transaction(self, begun: Operation, ended: Operation) -> None:
        """Take the commit of a transaction, with all its offsets."""
        found = self._in_transaction.pop(ended.process, [])
        for _, commit in found:
            commit.begun = begun
        self._settle(found, ended)

    def abort_transaction(self, process: str, may_be_committed: bool) -> None:
        """Take the abort of a transaction: its offsets are not committed.

        :param may_be_committed: an earlier attempt to commit it has no clear outcome
        """
        for owned, commit in self._in_transaction.pop(process, []):
            if not may_be_committed:
                self._drop(owned, commit)

    def _settle(self, found: list[tuple[Owned, OffsetCommit]], ended: Operation) -> None:
        for owned, commit in found:
            commit.ended = ended
            self._first.setdefault(owned, ended.number)
            current = self._current[owned]
            for former in [one for one in current if one is not commit and one.came_before(commit)]:
                former.replaced = ended.number
                current.remove(former)
                self._replaced[owned].append(former)

    def highest(self, owned: Owned) -> int:
        """Return the highest offset that a program has tried to commit, without those that certainly failed; 0 for none."""
        return self._highest.get(owned, 0)

    def possible(self, owned: Owned, low: int) -> Iterator[OffsetCommit]:
        """Return the commits that may have counted at some moment since an operation.

        :param low: the number of that operation
        """
        yield from self._current.get(owned, ())
        for commit in reversed(self._replaced.get(owned, ())):
            assert commit.replaced is not None
            if commit.replaced < low:
                return
            yield commit

    def may_be_none(self, owned: Owned, low: int) -> bool:
        """Return whether the group may have had no offset at some moment since an operation."""
        return self._first.get(owned, low) >= low


def offset_of(operation: Operation, key: TopicPartition) -> int:
    """Return the offset that a commit has for a partition."""
    assert isinstance(operation.action, Commit)
    return next(place.offset for place in operation.action.offsets if place[:2] == key)
