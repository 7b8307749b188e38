"""Checks of groups: who owns a partition, and which offsets are committed by whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from pykafka.common import TopicPartition
from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.beginnings import Beginning, Beginnings
from pykafka.testing.checks.disturbances import late_ms
from pykafka.testing.checks.facts import Facts
from pykafka.testing.checks.offsets import CommittedOffsets, OffsetCommit, Owned, offset_of
from pykafka.testing.checks.order import may_begin_again
from pykafka.testing.checks.owners import Owners, generation_of
from pykafka.testing.history import (
    AbortTransaction,
    Assign,
    Assigned,
    BeginTransaction,
    Commit,
    Committed,
    CommitTransaction,
    Crash,
    OpenConsumer,
    Operation,
    Outcome,
    Owner,
    Place,
    Poll,
    Read,
    Revoked,
    Seek,
    Send,
)


def check_groups(facts: Facts) -> Iterator[Anomaly]:
    """Return what is wrong with owners, commits, first records and dead letters."""
    pass_over = _Groups(facts)
    for operation in facts.operations:
        yield from pass_over.take(operation)


class _Member:
    """A process as a member of its group.

    :param started: since when it is this one
    """

    def __init__(self, consumer: OpenConsumer, started: int) -> None:
        self.consumer = consumer
        self.started = started
        #: Whether its group assigns partitions to it.
        self.is_managed = False
        self.held: set[TopicPartition] = set()
        #: Of its last assignment; -1: it had none.
        self.generation = -1
        #: Behind the last record that it was given, or where it has gone by `seek`; by partition.
        self.next_offsets: dict[TopicPartition, int] = {}
        #: The poll of the last record that it was given, by partition.
        self.read: dict[TopicPartition, Operation] = {}
        #: Where it was in partitions that were revoked: it may go on there if it gets them again at once.
        self.former: dict[TopicPartition, Beginning] = {}
        #: The begin of the call by which it got each partition, unless it has gone elsewhere by `seek` since.
        self.came: dict[TopicPartition, Operation] = {}
        #: Its last acknowledged commit, by partition.
        self.committed: dict[TopicPartition, Operation] = {}
        self.in_transaction = False
        #: When the commit of its transaction was called first, and whether the outcome of a call is unknown.
        self.commit_begun: Operation | None = None
        self.is_unsure = False
        #: Partitions whose offsets are part of its transaction.
        self.sent: set[TopicPartition] = set()

        #: The last operation by which its position was forgotten, by partition, and of all partitions.
        self._forgotten: dict[TopicPartition, int] = {}
        self._all_forgotten = started

    def forget(self, operation: Operation, keys: Iterable[TopicPartition]) -> None:
        """Forget positions in partitions that were given up, or that it comes to anew."""
        for key in keys:
            self.next_offsets.pop(key, None)
            self.read.pop(key, None)
            self.committed.pop(key, None)
            self._forgotten[key] = operation.number

    def forget_all(self, operation: Operation) -> None:
        """Forget all positions."""
        self._all_forgotten = operation.number
        self.next_offsets.clear()
        self.read.clear()
        self.committed.clear()

    def commits(self, begun: Operation, ended: Operation, key: TopicPartition) -> None:
        """Note an acknowledged commit, unless the member has gone elsewhere since the call began."""
        if begun.number > max(self._all_forgotten, self._forgotten.get(key, -1)):
            self.committed[key] = ended


class _Committing:
    """A commit under way: what is judged when it has succeeded.

    :param problems: what would be wrong with it, by partition
    """

    def __init__(self, begun: Operation, problems: dict[TopicPartition, Anomaly]) -> None:
        self.begun = begun
        self.problems = problems


class _Groups:
    """One pass over a history, with the state of each member and of each partition of each group."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._members: dict[str, _Member] = {}
        self._owners = Owners(facts)
        self._offsets = CommittedOffsets()
        self._beginnings = Beginnings(facts, self._offsets)
        self._commits: dict[int, _Committing] = {}
        #: Groups that ZooKeeper keeps: brokers take commits of a former owner at any time.
        self._unfenced: set[str] = set()
        #: The owners that ZooKeeper has. Another member may be told of an assignment that it had before its session was ended.
        self._kept: dict[Owned, str] = {}
        #: Members whose sessions ZooKeeper has ended for no reason, and their partitions, until they know it.
        self._unaware: set[tuple[str, Owned]] = set()
        #: The calls of each process that have not ended, without sends, which may last longer than others.
        self._calls: dict[str, list[Operation]] = defaultdict(list)
        #: Who was assigned each partition last: a process, and since when it is that one.
        self._last: dict[Owned, tuple[str, int]] = {}

    def _member(self, process: str) -> _Member:
        if process not in self._members:
            self._members[process] = _Member(OpenConsumer(), -1)
        return self._members[process]

    def _restart(self, operation: Operation, consumer: OpenConsumer) -> None:
        former = self._member(operation.process)
        member = self._members[operation.process] = _Member(consumer, operation.number)
        # It is a member of the same group again, without a partition; unless it chooses some by `Assign`.
        member.is_managed = former.is_managed and former.consumer.group == consumer.group
        self._unaware = {one for one in self._unaware if one[0] != operation.process}
        self._beginnings.restart(operation.process)
        self._calls.pop(operation.process, None)

    def take(self, operation: Operation) -> Iterator[Anomaly]:
        """Take the next operation, and return what it shows."""
        action, process = operation.action, operation.process
        self._take_call(operation)
        match action:
            case OpenConsumer():
                self._restart(operation, action)
            case Crash():
                self._restart(operation, self._member(process).consumer)
            case BeginTransaction() | CommitTransaction() | AbortTransaction():
                self._take_transaction(operation)
            case Assign() | Seek():
                self._take_position(operation)
            case Poll() if operation.outcome is Outcome.OK:
                for read in action.reads:
                    if read.offsets:
                        yield from self._take_read(operation, read)
            case Owner():
                self._take_owner(action)
            case Assigned():
                self._learn(process, action)
                yield from self._take_assigned(operation, action)
            case Revoked():
                self._learn(process, action)
                self._take_revoked(operation, action)
            case Commit():
                yield from self._take_commit(operation, action)
            case Committed() if operation.outcome is Outcome.OK:
                yield from self._take_committed(operation, action)

    def _take_owner(self, action: Owner) -> None:
        owned = (action.group, action.partition)
        self._unfenced.add(action.group)
        if action.is_owner:
            self._kept[owned] = action.owner
        elif self._kept.get(owned) == action.owner:
            del self._kept[owned]
        if action.forced:
            self._unaware.add((action.owner, owned))

    def _learn(self, process: str, action: Assigned | Revoked) -> None:
        """Note that a member knows who owns partitions."""
        self._unaware -= {(process, (action.group, key)) for key in action.partitions}

    def _take_call(self, operation: Operation) -> None:
        calls = self._calls[operation.process]
        if operation.outcome is Outcome.INVOKE and not isinstance(operation.action, Send):
            calls.append(operation)
        elif operation.outcome not in (Outcome.INVOKE, Outcome.NOTE):
            calls[:] = [call for call in calls if call.number != operation.call]

    def _take_transaction(self, operation: Operation) -> None:
        member, outcome, process = self._member(operation.process), operation.outcome, operation.process
        member.in_transaction = isinstance(operation.action, BeginTransaction)
        if isinstance(operation.action, BeginTransaction):
            if outcome is Outcome.INVOKE:
                member.commit_begun, member.is_unsure = None, False
                member.sent.clear()
                self._offsets.abort_transaction(process, may_be_committed=True)
        elif isinstance(operation.action, CommitTransaction):
            member.commit_begun = member.commit_begun or operation
            member.is_unsure |= outcome is Outcome.UNKNOWN
            if outcome is Outcome.OK:
                self._offsets.end_transaction(member.commit_begun, operation)
        elif isinstance(operation.action, AbortTransaction):
            member.forget_all(operation)
            if outcome is Outcome.OK:
                self._offsets.abort_transaction(process, member.is_unsure)
                for key in member.sent:
                    self._beginnings.come(process, key, self._facts.begun[operation.call])

    def _take_position(self, operation: Operation) -> None:
        member, action, process = self._member(operation.process), operation.action, operation.process
        if isinstance(action, Assign):
            member.is_managed, member.generation = False, -1
            if operation.outcome in (Outcome.INVOKE, Outcome.NOTE):
                for key in action.partitions:
                    own = member.next_offsets.get(key)
                    former = Beginning(operation, own) if own is not None else self._beginnings.go(process, key)
                    self._beginnings.come(process, key, operation, former)
            member.forget_all(operation)
        elif isinstance(action, Seek) and operation.outcome in (Outcome.OK, Outcome.NOTE):
            key = TopicPartition(*action.place[:2])
            member.forget(operation, {key})
            member.next_offsets[key] = action.place.offset
            member.came.pop(key, None)
            self._beginnings.seek(member.consumer, process, key)

    def _take_read(self, operation: Operation, read: Read) -> Iterator[Anomaly]:
        member, key = self._member(operation.process), TopicPartition(read.topic, read.partition)
        goes_back = read.offsets[0] < member.next_offsets.get(key, 0)
        if goes_back and may_begin_again(self._facts, member.read.get(key, operation), operation, key, read.offsets[0]):
            member.committed.pop(key, None)  # so its commits go back, too
        member.next_offsets[key], member.read[key] = read.offsets[-1] + 1, operation
        if member.is_managed:
            yield from self._owners.read(operation, member.consumer, member.held, key)
        yield from self._beginnings.read(operation, member.consumer, read)

    def _take_assigned(self, operation: Operation, action: Assigned) -> Iterator[Anomaly]:
        process = operation.process
        member, since = self._member(process), (self._calls[process] or [operation])[0]
        member.is_managed, member.generation = True, action.generation
        added = set(action.partitions) - member.held
        member.forget(operation, added)
        member.held = set(action.partitions)
        for key in action.partitions:
            owned, this = (action.group, key), (process, member.started)
            if key in added:
                member.came[key] = since
                former = member.former.get(key) if self._last.get(owned) == this else None
                self._beginnings.come(process, key, since, former)
            self._last[owned] = this
        member.former.clear()
        yield from self._owners.assign(operation, action)

    def _take_revoked(self, operation: Operation, action: Revoked) -> None:
        member, process = self._member(operation.process), operation.process
        for key in action.partitions:
            came = self._beginnings.go(process, key)
            if action.lost:
                member.former.pop(key, None)
            elif key in member.next_offsets:
                member.former[key] = Beginning(operation, member.next_offsets[key])
            elif came is not None:
                member.former[key] = came
        member.held -= set(action.partitions)
        member.forget(operation, action.partitions)

    # Commits

    def _take_commit(self, operation: Operation, action: Commit) -> Iterator[Anomaly]:
        member = self._member(operation.process)
        if operation.outcome in (Outcome.INVOKE, Outcome.NOTE):
            problems = {
                TopicPartition(*place[:2]): one
                for place in action.offsets
                for one in islice(self._problems(operation, action.group, place), 1)  # the others follow from it
            }
            self._commits[operation.number] = _Committing(operation, problems)
            generation = -1 if action.group in self._unfenced else member.generation
            self._offsets.begin(operation, action.group, action.offsets, generation)
            if member.in_transaction:
                member.sent |= {TopicPartition(*place[:2]) for place in action.offsets}
        if operation.outcome is Outcome.FAIL:
            self._offsets.fail(operation)
        committing = self._commits.get(operation.call)
        if committing is None or operation.outcome not in (Outcome.OK, Outcome.NOTE):
            return
        for place in action.offsets:
            member.commits(committing.begun, operation, TopicPartition(*place[:2]))
        api = "TxnOffsetCommit" if member.in_transaction else "OffsetCommit"
        after_ms = late_ms(self._facts.operations, self._facts.disturbances, api, committing.begun, operation)
        self._offsets.succeed(operation, action.group, action.offsets, member.in_transaction, after_ms)
        named = {TopicPartition(*place[:2]) for place in action.offsets}  # what the call began with may be more
        for problem in (one for key, one in committing.problems.items() if key in named):
            yield found(problem.kind, problem.sentence, *problem.operations, operation)

    def _problems(self, operation: Operation, group: str, place: Place) -> Iterator[Anomaly]:
        """Return what is wrong with a commit of one partition, should it succeed."""
        key, process = TopicPartition(*place[:2]), operation.process
        member = self._member(process)
        what = f"{process} committed {place.offset} of {key} for group {group}"
        newest = self._owners.newest((group, key))
        if member.is_managed and key not in member.held:
            shown = [newest] if newest is not None else []
            yield found(Kind.COMMIT_AFTER_LOSS, f"{what}, though it had given the partition up", *shown, operation)
        elif (
            member.is_managed
            and newest is not None
            and process not in (newest.process, self._kept.get((group, key)))
            and (process, (group, key)) not in self._unaware
        ):
            sentence = f"{what}, though {newest.process} had the partition since generation {generation_of(newest)}"
            yield found(Kind.COMMIT_AFTER_LOSS, sentence, newest, operation)
        beyond = self._handed_to_nobody(process, group, key, place.offset)
        if beyond is not None and not self._facts.may_lose(key.topic):
            sentence = f"{what}, but the record at {beyond} was not handed out to it"
            yield found(Kind.COMMIT_BEYOND, sentence, operation)
        before = member.committed.get(key)
        if self._facts.may_lose(key.topic):
            return  # it may have been made anew
        if before is not None and (offset := offset_of(before, key)) > place.offset:
            sentence = f"{what} after {offset}, without a seek or a rebalance"
            yield found(Kind.COMMIT_WENT_BACK, sentence, before, operation)
        elif before is None:
            yield from self._before_all(operation, (group, key), place.offset, what)

    def _before_all(self, operation: Operation, owned: Owned, offset: int, what: str) -> Iterator[Anomaly]:
        """Return what is wrong with the first commit of a member: it is before all that the group may have had committed."""
        came = self._member(operation.process).came.get(owned[1])
        if (
            came is None
            or self._beginnings.are_commits_hidden(owned[0])
            or self._offsets.may_be_none(owned, came.number)
        ):
            return
        possible = list(self._offsets.possible(owned, came.number))
        if possible and offset < (least := min(possible, key=lambda one: one.offset)).offset:
            sentence = f"{what}, which had {least.offset} committed when the member came to the partition, or more"
            yield found(Kind.COMMIT_WENT_BACK, sentence, least.shown, came, operation)

    def _handed_to_nobody(self, process: str, group: str, key: TopicPartition, offset: int) -> int | None:
        """Return the offset of a record before `offset` that was handed out neither to the member nor to an earlier one."""
        log, member = self._facts.logs.get(key), self._member(process)
        if log is None:
            return None
        base = member.next_offsets.get(key)
        if base is None:
            base = max(self._offsets.highest((group, key)), self._beginnings.own(process, key))
        return log.between(base, offset, member.consumer.committed)

    def _may_be(self, commit: OffsetCommit, key: TopicPartition, offset: int) -> bool:
        """Return whether a commit may have committed an offset.

        One of all positions may be behind markers of transactions, too, which its program knows when it has ended.
        """
        if commit.ended is not None or offset < commit.offset:
            return commit.offset == offset
        log, consumer = self._facts.logs.get(key), self._member(commit.begun.process).consumer
        return log is None or log.between(commit.offset, offset, consumer.committed) is None

    def _take_committed(self, operation: Operation, action: Committed) -> Iterator[Anomaly]:
        for place in action.offsets:
            owned = action.group, TopicPartition(*place[:2])
            if self._facts.may_lose(place.topic) or self._offsets.may_be_none(owned, operation.call):
                continue  # the topic may have been made anew; before the first commit that is known, others may have made some
            possible = list(self._offsets.possible(owned, operation.call))
            causes = [commit for commit in possible if self._may_be(commit, owned[1], place.offset)]
            if causes and all(commit.ended is None for commit in causes):
                yield from self._shown_by(operation, causes, owned[1])
            elif not causes:
                offsets = " or ".join(map(str, sorted({commit.offset for commit in possible})))
                sentence = f"group {action.group} has {place.offset} committed for {place.topic}-{place.partition}"
                shown = [commit.shown for commit in possible]
                yield found(Kind.LOST_COMMIT, f"{sentence}, but {offsets} was acknowledged", *shown, operation)

    def _shown_by(self, operation: Operation, causes: list[OffsetCommit], key: TopicPartition) -> Iterator[Anomaly]:
        """Return what is wrong with commits without an answer, one of which has had its effect, as others see."""
        committing = [self._commits.get(commit.begun.number) for commit in causes]
        problems = [one.problems.get(key) for one in committing if one is not None]
        if len(problems) == len(causes) and all(problems):
            problem = problems[0]
            assert problem is not None
            yield found(problem.kind, problem.sentence, *problem.operations, operation)
