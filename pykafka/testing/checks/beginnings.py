"""`Beginnings`: a consumer that comes to a partition begins at the committed offset of its group, or at the start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from pykafka.common import TopicPartition
from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.facts import Facts
from pykafka.testing.checks.offsets import CommittedOffsets, Owned
from pykafka.testing.history import OpenConsumer, Operation, Read


@dataclass(frozen=True, slots=True)
class Beginning:
    """A consumer that comes to a partition, and has read nothing of it yet.

    :param since: before this operation it has not looked its position up
    :param own: the position that it had before, if it may go on there
    """

    since: Operation
    own: int | None


class Beginnings:
    """Judges the first record that each consumer gets of each partition that it comes to.

    It has to be the first one at or behind an offset that the group may have had committed while the consumer looked it up. If
    members commit by themselves, that offset is not known: then a member may pass over no record that its group has not
    been given.
    """

    def __init__(self, facts: Facts, offsets: CommittedOffsets) -> None:
        self._facts = facts
        self._offsets = offsets
        self._waiting: dict[tuple[str, TopicPartition], Beginning] = {}
        opened = [one.action for one in facts.operations if isinstance(one.action, OpenConsumer)]
        self._automatic = {action.group for action in opened if action.auto_commit}
        self._given: dict[Owned, set[int]] = defaultdict(set)
        self._frontiers: dict[tuple[Owned, bool], int] = defaultdict(int)
        self._jumped: set[Owned] = set()

    def come(self, process: str, key: TopicPartition, since: Operation, former: Beginning | None = None) -> None:
        """Note that a consumer comes to a partition, and looks up where to begin.

        :param since: when the call began that leads it there
        :param former: where it may go on instead, as it has lost nothing meanwhile
        """
        self._waiting[process, key] = former or Beginning(since, None)

    def go(self, process: str, key: TopicPartition) -> Beginning | None:
        """Note that a consumer has left a partition, or goes elsewhere; return how it came, if it has read nothing yet."""
        return self._waiting.pop((process, key), None)

    def own(self, process: str, key: TopicPartition) -> int:
        """Return the position at which a consumer may go on in a partition that it has come back to; 0 for none."""
        beginning = self._waiting.get((process, key))
        return 0 if beginning is None or beginning.own is None else beginning.own

    def are_commits_hidden(self, group: str) -> bool:
        """Return whether members of a group commit by themselves, which the history does not show."""
        return group in self._automatic

    def restart(self, process: str) -> None:
        """Note that a process begins anew."""
        for one in [one for one in self._waiting if one[0] == process]:
            del self._waiting[one]

    def seek(self, consumer: OpenConsumer, process: str, key: TopicPartition) -> None:
        """Note that a program has chosen a position: what its group has passed over is its own choice from now on."""
        self.go(process, key)
        if consumer.group:
            self._jumped.add((consumer.group, key))

    def read(self, operation: Operation, consumer: OpenConsumer, read: Read) -> Iterator[Anomaly]:
        """Take what a poll has returned of one partition, and return what is wrong with the first record."""
        key = TopicPartition(read.topic, read.partition)
        beginning = self._waiting.pop((operation.process, key), None)
        if beginning is not None and not consumer.latest and not self._facts.may_lose(key.topic):
            if consumer.group in self._automatic:
                yield from self._after_all_given(operation, consumer, key, read.offsets[0])
            else:
                yield from self._at_committed(operation, consumer, key, read.offsets[0], beginning)
        if consumer.group in self._automatic:
            self._given[consumer.group, key].update(read.offsets)

    def _at_committed(
        self, operation: Operation, consumer: OpenConsumer, key: TopicPartition, first: int, beginning: Beginning
    ) -> Iterator[Anomaly]:
        owned, log, low = (consumer.group, key), self._facts.logs[key], beginning.since.number
        shown: dict[int, Operation | None] = {}
        if consumer.group:
            shown = {commit.offset: commit.shown for commit in self._offsets.possible(owned, low)}
        if not consumer.group or self._offsets.may_be_none(owned, low):
            shown.setdefault(0, None)
        if beginning.own is not None:
            shown.setdefault(beginning.own, None)
        before = [offset for offset in shown if offset <= first]
        skipped = log.between(max(before), first, consumer.committed) if before else None
        if before and skipped is None:
            return
        where = f"the start of {key}" if set(shown) == {0} else f"{' or '.join(map(str, sorted(shown)))} of {key}"
        what = f"{operation.process} had to begin at {where}, but began at {first}"
        operations = [one for one in shown.values() if one is not None]
        if skipped is None:
            yield found(Kind.BEGAN_BEFORE, what, *operations, beginning.since, operation)
        else:
            yield self._behind(f"{what}, behind", key, skipped, *operations, beginning.since, operation)

    def _after_all_given(
        self, operation: Operation, consumer: OpenConsumer, key: TopicPartition, first: int
    ) -> Iterator[Anomaly]:
        owned, log = (consumer.group, key), self._facts.logs[key]
        if owned in self._jumped:
            return
        given, frontier = self._given[owned], self._frontiers[owned, consumer.committed]
        while (following := log.between(frontier, inf, consumer.committed)) is not None and following in given:
            frontier = following + 1
        self._frontiers[owned, consumer.committed] = frontier
        skipped = log.between(frontier, first, consumer.committed)
        if skipped is not None:
            what = f"{operation.process} began at {first} of {key}, but no member of {consumer.group} was given"
            yield self._behind(what, key, skipped, operation)

    def _behind(self, what: str, key: TopicPartition, skipped: int, *shown: Operation) -> Anomaly:
        value = self._facts.logs[key].values[skipped]
        sends = [sent.shown for sent in self._facts.sends.get(value, ())]
        return found(Kind.BEGAN_BEHIND, f"{what} value {value} at {skipped}", *sends, *shown)
