"""Checks of groups: who owns a partition, and which offsets are committed by whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from pykafka.common import TopicPartition
from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import (
    AbortTransaction,
    Assign,
    Assigned,
    BeginTransaction,
    Commit,
    Committed,
    CommitTransaction,
    Crash,
    DeadLetter,
    OpenConsumer,
    Operation,
    Outcome,
    Place,
    Poll,
    Revoked,
    Seek,
)

#: A partition as a group knows it.
Owned = tuple[str, TopicPartition]


def check_groups(facts: Facts) -> Iterator[Anomaly]:
    """Return what is wrong with owners, commits and dead letters."""
    pass_over = _Groups(facts)
    for operation in facts.operations:
        yield from pass_over.take(operation)


class _Member:
    """A process as a member of its group.

    :param held: its partitions
    :param next_offsets: behind the last record that it was given, or where it has gone by `seek`; by partition
    :param committed: its last acknowledged commit, by partition
    """

    def __init__(self, consumer: OpenConsumer) -> None:
        self.consumer = consumer
        self.is_managed = False
        self.held: set[TopicPartition] = set()
        self.next_offsets: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, Operation] = {}
        self.in_transaction = False

    def forget(self, keys: set[TopicPartition]) -> None:
        """Forget positions in partitions that were given up, or that it comes to anew."""
        for key in keys:
            self.next_offsets.pop(key, None)
            self.committed.pop(key, None)


class _Committing:
    """A commit under way: what is judged when it has succeeded.

    :param problems: what would be wrong with it
    """

    def __init__(self, begun: Operation, problems: list[Anomaly]) -> None:
        self.begun = begun
        self.problems = problems


class _Possible:
    """The offsets that a group may have committed for a partition: the last acknowledged, and those of unknown outcome."""

    def __init__(self) -> None:
        self.of: dict[int, tuple[Operation, Operation | None]] = {}
        self.highest = 0
        self.changed = -1

    def ok(self, begun: Operation, ended: Operation, offset: int) -> None:
        """Take an acknowledged commit: those that had ended with success before it began are over."""
        over = [
            one
            for one, (_, end) in self.of.items()
            if end is not None and end.outcome is Outcome.OK and end.number < begun.number
        ]
        for one in over:
            del self.of[one]
        self.of[offset] = begun, ended
        self.changed = ended.number


class _Groups:
    """One pass over a history, with the state of each member and of each partition of each group."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._members: dict[str, _Member] = {}
        self._owners: dict[tuple[str, TopicPartition, int], Operation] = {}
        self._newest: dict[Owned, Operation] = {}
        self._commits: dict[int, _Committing] = {}
        self._possible: dict[Owned, _Possible] = defaultdict(_Possible)
        self._letters: dict[tuple[str, Place], Operation] = {}

    def _member(self, process: str) -> _Member:
        if process not in self._members:
            self._members[process] = _Member(OpenConsumer())
        return self._members[process]

    def take(self, operation: Operation) -> Iterator[Anomaly]:
        """Take the next operation, and return what it shows."""
        action, process = operation.action, operation.process
        match action:
            case OpenConsumer():
                self._members[process] = _Member(action)
            case Crash():
                self._members[process] = _Member(self._member(process).consumer)
            case BeginTransaction() | CommitTransaction() | AbortTransaction():
                self._take_transaction(operation)
            case Assign() | Seek():
                self._take_position(operation)
            case Poll() if operation.outcome is Outcome.OK:
                for read in action.reads:
                    if read.offsets:
                        key = TopicPartition(read.topic, read.partition)
                        self._member(process).next_offsets[key] = read.offsets[-1] + 1
            case Assigned():
                yield from self._take_assigned(operation, action)
            case Revoked():
                member = self._member(process)
                member.held -= set(action.partitions)
                member.forget(set(action.partitions))
            case Commit():
                yield from self._take_commit(operation, action)
            case Committed() if operation.outcome is Outcome.OK:
                yield from self._take_committed(operation, action)
            case DeadLetter() if operation.outcome in (Outcome.OK, Outcome.NOTE):
                before = self._letters.setdefault((action.group, action.place), operation)
                if before is not operation:
                    sentence = f"the record of {action.place} is in the topic for dead letters of {action.group} twice"
                    yield found(Kind.DEAD_LETTER_TWICE, sentence, before, operation)

    def _take_transaction(self, operation: Operation) -> None:
        member = self._member(operation.process)
        member.in_transaction = isinstance(operation.action, BeginTransaction)
        if isinstance(operation.action, AbortTransaction):
            member.forget(set(member.next_offsets) | set(member.committed))

    def _take_position(self, operation: Operation) -> None:
        member, action = self._member(operation.process), operation.action
        if isinstance(action, Assign):
            member.is_managed = False
            member.forget(set(member.next_offsets) | set(member.committed))
        elif isinstance(action, Seek) and operation.outcome in (Outcome.OK, Outcome.NOTE):
            key = TopicPartition(*action.place[:2])
            member.forget({key})
            member.next_offsets[key] = action.place.offset

    def _take_assigned(self, operation: Operation, action: Assigned) -> Iterator[Anomaly]:
        member = self._member(operation.process)
        member.is_managed = True
        member.forget(set(action.partitions) - member.held)
        member.held = set(action.partitions)
        for key in action.partitions:
            owner = self._owners.setdefault((action.group, key, action.generation), operation)
            if owner.process != operation.process:
                sentence = f"{owner.process} and {operation.process} both have {key} in generation {action.generation}"
                yield found(Kind.TWO_OWNERS, f"{sentence} of group {action.group}", owner, operation)
            newest = self._newest.get((action.group, key))
            if newest is None or _generation(newest) <= action.generation:
                self._newest[action.group, key] = operation

    # Commits

    def _take_commit(self, operation: Operation, action: Commit) -> Iterator[Anomaly]:
        if operation.outcome in (Outcome.INVOKE, Outcome.NOTE):
            problems = [
                one
                for place in action.offsets
                for one in islice(self._problems(operation, action.group, place), 1)  # the others follow from it
            ]
            self._commits[operation.number] = _Committing(operation, problems)
            for place in action.offsets:
                possible = self._possible[action.group, TopicPartition(*place[:2])]
                possible.of.setdefault(place.offset, (operation, None))
                possible.highest = max(possible.highest, place.offset)
        committing = self._commits.get(operation.call)
        if committing is None or operation.outcome not in (Outcome.OK, Outcome.NOTE):
            return
        member = self._member(operation.process)
        for place in action.offsets:
            key = TopicPartition(*place[:2])
            member.committed[key] = operation
            if not member.in_transaction:
                self._possible[action.group, key].ok(committing.begun, operation, place.offset)
        for problem in committing.problems:
            yield found(problem.kind, problem.sentence, *problem.operations, operation)

    def _problems(self, operation: Operation, group: str, place: Place) -> Iterator[Anomaly]:
        """Return what is wrong with a commit of one partition, should it succeed."""
        key, process = TopicPartition(*place[:2]), operation.process
        member = self._member(process)
        what = f"{process} committed {place.offset} of {key} for group {group}"
        newest = self._newest.get((group, key))
        if member.is_managed and key not in member.held:
            shown = [newest] if newest is not None else []
            yield found(Kind.COMMIT_AFTER_LOSS, f"{what}, though it had given the partition up", *shown, operation)
        elif member.is_managed and newest is not None and newest.process != process:
            sentence = f"{what}, though {newest.process} had the partition since generation {_generation(newest)}"
            yield found(Kind.COMMIT_AFTER_LOSS, sentence, newest, operation)
        beyond = self._handed_to_nobody(member, group, key, place.offset)
        if beyond is not None and not self._facts.may_lose(key.topic):
            sentence = f"{what}, but the record at {beyond} was not handed out to it"
            yield found(Kind.COMMIT_BEYOND, sentence, operation)
        before = member.committed.get(key)
        if self._facts.may_lose(key.topic):
            return  # it may have been made anew
        if before is not None and (offset := _offset_of(before, key)) > place.offset:
            sentence = f"{what} after {offset}, without a seek or a rebalance"
            yield found(Kind.COMMIT_WENT_BACK, sentence, before, operation)

    def _handed_to_nobody(self, member: _Member, group: str, key: TopicPartition, offset: int) -> int | None:
        """Return the offset of a record before `offset` that was handed out neither to the member nor to an earlier one."""
        log = self._facts.logs.get(key)
        if log is None:
            return None
        base = member.next_offsets.get(key)
        if base is None:
            base = self._possible[group, key].highest
        return log.between(base, offset, member.consumer.committed)

    def _take_committed(self, operation: Operation, action: Committed) -> Iterator[Anomaly]:
        for place in action.offsets:
            possible = self._possible[action.group, TopicPartition(*place[:2])]
            known = any(end is not None for _, end in possible.of.values()) and not self._facts.may_lose(place.topic)
            if known and possible.changed < operation.call and place.offset not in possible.of:
                shown = [end or begun for begun, end in possible.of.values()]
                offsets = " or ".join(map(str, sorted(possible.of)))
                sentence = f"group {action.group} has {place.offset} committed for {place.topic}-{place.partition}"
                yield found(Kind.LOST_COMMIT, f"{sentence}, but {offsets} was acknowledged", *shown, operation)


def _generation(operation: Operation) -> int:
    assert isinstance(operation.action, Assigned)
    return operation.action.generation


def _offset_of(operation: Operation, key: TopicPartition) -> int:
    assert isinstance(operation.action, Commit)
    return next(place.offset for place in operation.action.offsets if place[:2] == key)
