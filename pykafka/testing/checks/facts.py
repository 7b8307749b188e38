"""`Facts`: what several checks ask of a history: sends, transactions, polls, and which records exist."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pykafka.common import TopicPartition
from pykafka.testing.checks.disturbances import Disturbances
from pykafka.testing.history import (
    AbortTransaction,
    Acquire,
    BeginTransaction,
    CommitTransaction,
    Deleted,
    Handled,
    OpenConsumer,
    OpenProducer,
    OpenTopic,
    Operation,
    Outcome,
    Place,
    Poll,
    Send,
)


class Transaction:
    """A transaction of a process, and what became of it."""

    def __init__(self, begun: Operation) -> None:
        self.begun = begun
        #: When the commit was called first; None: never.
        self.commit_begun: Operation | None = None
        #: The commit that has succeeded.
        self.committed_by: Operation | None = None
        self._is_unsure = False
        #: Whether its records are committed; None: that is not known.
        self.took_effect: bool | None = False

    def note(self, operation: Operation) -> None:
        """Take one step of a commit or an abort."""
        if isinstance(operation.action, CommitTransaction):
            if operation.outcome is Outcome.INVOKE:
                self.commit_begun = self.commit_begun or operation
                self.took_effect = None
            elif operation.outcome is Outcome.OK:
                self.took_effect = True
                self.committed_by = operation
            elif operation.outcome is Outcome.FAIL:
                self.took_effect = None if self._is_unsure else False
            else:
                self._is_unsure = True
        elif operation.outcome is Outcome.OK:
            self.took_effect = False


@dataclass(slots=True)
class Sent:
    """One send, with its end.

    :param action: with the partition and the offset, if they are known
    """

    begun: Operation
    action: Send
    producer: OpenProducer
    transaction: Transaction | None
    ended: Operation | None = None

    @property
    def failed(self) -> bool:
        """Whether it certainly had no effect."""
        return self.ended is not None and self.ended.outcome is Outcome.FAIL

    @property
    def acknowledged(self) -> bool:
        """Whether it has succeeded."""
        return self.ended is not None and self.ended.outcome is Outcome.OK

    @property
    def shown(self) -> Operation:
        """The operation that shows it best."""
        return self.ended or self.begun

    @property
    def place(self) -> Place | None:
        """Where its record is; None: not known."""
        action = self.action
        if action.partition is None or action.offset is None:
            return None
        return Place(action.topic, action.partition, action.offset)

    def may_be_in(self, topic: str, partition: int) -> bool:
        """Return whether its record can be in a partition: that which the program or the acknowledgement names, if one does."""
        named = self.begun.action.partition if isinstance(self.begun.action, Send) else None
        known = self.action.partition if named is None else named
        return topic == self.action.topic and known in (None, partition)

    def is_committed(self) -> bool:
        """Return whether those who read committed records have to see it, as far as its transaction goes."""
        return self.transaction is None or self.transaction.took_effect is True

    def cannot_be_read(self, committed: bool) -> bool:
        """Return whether no reader may see it.

        :param committed: by one that reads committed records alone
        """
        aborted = committed and self.transaction is not None and self.transaction.took_effect is False
        return self.failed or aborted


class Polled(NamedTuple):
    """One value that a poll has returned."""

    operation: Operation
    consumer: OpenConsumer
    place: Place
    value: int


@dataclass(slots=True)
class Log:
    """The records of a partition that are known to exist: their offsets, sorted.

    :param all: of all records
    :param committed: of those that are not in transactions which were aborted or whose end is not known
    """

    all: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    values: dict[int, int] = field(default_factory=dict)

    def between(self, low: int, high: float, committed: bool) -> int | None:
        """Return the first offset at or after `low` and before `high` that a reader has to see; None: there is none."""
        offsets = self.committed if committed else self.all
        index = bisect_left(offsets, low)
        return offsets[index] if index < len(offsets) and offsets[index] < high else None

    def before(self, high: int, committed: bool) -> int | None:
        """Return the last offset before `high` that a reader has to see."""
        offsets = self.committed if committed else self.all
        index = bisect_left(offsets, high)
        return offsets[index - 1] if index else None


class Facts:
    """The facts that a history has of sends, transactions, polls and topics, found in one pass."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = list(operations)
        #: The faults and changes, which several checks ask for.
        self.disturbances = Disturbances(self.operations)
        self.begun: dict[int, Operation] = {}
        self.ended: dict[int, Operation] = {}
        self.topics: dict[str, OpenTopic] = {}
        self.sends: dict[int, list[Sent]] = defaultdict(list)
        self.polled: list[Polled] = []
        #: The places and values of records that members of groups were given to share, or have handled.
        self.given: list[tuple[Place, int, Operation]] = []
        self.deleted: dict[TopicPartition, int] = {}
        self._deletions: dict[TopicPartition, list[Operation]] = defaultdict(list)
        self._by_call: dict[int, Sent] = {}
        self._readers: dict[int, OpenConsumer] = {}
        self._producers: dict[str, OpenProducer] = {}
        self._consumers: dict[str, OpenConsumer] = {}
        self._transactions: dict[str, Transaction] = {}
        for operation in self.operations:
            self._take(operation)
        self._resolve()
        self.logs = self._make_logs(self.deleted)
        # With what was deleted, too.
        self._whole_logs = self._make_logs({}) if self.deleted else self.logs

    def _take(self, operation: Operation) -> None:
        action, process = operation.action, operation.process
        if operation.outcome is Outcome.INVOKE:
            self.begun[operation.number] = operation
        elif operation.outcome is not Outcome.NOTE:
            self.ended[operation.call] = operation
        match action:
            case Send():
                self._take_send(operation, action)
            case Poll() if operation.outcome is Outcome.OK:
                self._take_poll(operation, action)
            case Acquire() if operation.outcome is Outcome.OK and action.values:
                self.given += [
                    (place, value, operation) for place, value in zip(action.places, action.values, strict=True)
                ]
            case Handled():
                self.given.append((action.place, action.value, operation))
            case BeginTransaction() if operation.outcome is not Outcome.FAIL:
                if operation.outcome in (Outcome.INVOKE, Outcome.NOTE):
                    self._transactions[process] = Transaction(operation)
            case CommitTransaction() | AbortTransaction():
                if process in self._transactions:
                    self._transactions[process].note(operation)
                    if operation.outcome is Outcome.OK:
                        del self._transactions[process]
            case OpenTopic():
                self.topics[action.topic] = action
            case OpenProducer():
                self._producers[process] = action
                self._transactions.pop(process, None)
            case OpenConsumer():
                self._consumers[process] = action
            case Deleted():
                key = TopicPartition(*action.place[:2])
                self.deleted[key] = max(action.place.offset, self.deleted.get(key, 0))
                self._deletions[key].append(operation)

    def _take_send(self, operation: Operation, action: Send) -> None:
        if operation.outcome is Outcome.INVOKE:
            producer = self._producers.get(operation.process) or OpenProducer()
            sent = Sent(operation, action, producer, self._transactions.get(operation.process))
            self._by_call[operation.number] = sent
            self.sends[action.value].append(sent)
        elif operation.call in self._by_call:
            sent = self._by_call[operation.call]
            sent.ended, sent.action = operation, action

    def is_durable(self, send: Operation) -> bool:
        """Return whether a send is of a producer whose acknowledged records survive.

        :param send: its begin
        """
        return send.number in self._by_call and self._by_call[send.number].producer.durable

    def reads_committed(self, poll: Operation) -> bool:
        """Return whether the consumer of a poll reads committed records alone."""
        return self._readers[poll.number].committed

    def _take_poll(self, operation: Operation, action: Poll) -> None:
        consumer = self._readers[operation.number] = self._consumers.get(operation.process) or OpenConsumer()
        for topic, partition, offsets, values in action.reads:
            for offset, value in zip(offsets, values, strict=True):
                self.polled.append(Polled(operation, consumer, Place(topic, partition, offset), value))

    def _resolve(self) -> None:
        """A transaction of unknown end one record of which was read as committed is committed."""
        for polled in self.polled:
            if polled.consumer.committed:
                for sent in self.origins(polled.value, polled.place):
                    if sent.transaction is not None and sent.transaction.took_effect is None:
                        sent.transaction.took_effect = True

    def origins(self, value: int, place: Place) -> list[Sent]:
        """Return the sends that a record may come from.

        That is the one with its offset; or else those of unknown offset that went to its partition, or may have; or else all.
        """
        sends = self.sends.get(value, [])
        exact = [sent for sent in sends if sent.place == place]
        return exact or [sent for sent in sends if sent.place is None and sent.may_be_in(*place[:2])] or sends

    def may_lose(self, topic: str) -> bool:
        """Return whether acknowledged records of a topic may go."""
        return topic in self.topics and self.topics[topic].may_lose

    def has_deleted(self, topic: str) -> bool:
        """Return whether records of a topic were deleted: then one whose offset is not known may be gone."""
        return any(key.topic == topic for key in self.deleted)

    def passed_over(self, key: TopicPartition, low: int, high: int, committed: bool, poll: Operation) -> int | None:
        """Return the first offset at or after `low` and before `high` that a poll has passed over, though it was there by then.

        :param poll: its end
        """
        for deletion in self._deletions.get(key, ()):
            if deletion.number < poll.number and isinstance(deletion.action, Deleted):
                low = max(low, deletion.action.place.offset)
        return self._whole_logs[key].between(low, high, committed)

    def _make_logs(self, deleted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Log]:
        logs: dict[TopicPartition, Log] = defaultdict(Log)
        every: dict[TopicPartition, set[int]] = defaultdict(set)
        committed: dict[TopicPartition, set[int]] = defaultdict(set)
        for sent, place, value, is_read, of_committed in self._appearances():
            key = TopicPartition(*place[:2])
            logs[key].values.setdefault(place.offset, value)
            if place.offset < deleted.get(key, 0) or (sent is not None and sent.failed):
                continue
            if not is_read and sent is not None and not sent.producer.durable:
                continue  # an acknowledgement that promises nothing; those who read it show that it was there
            every[key].add(place.offset)
            if sent is None or sent.is_committed() or (of_committed and not sent.cannot_be_read(True)):
                committed[key].add(place.offset)
        superseded = self._superseded()
        for key, log in logs.items():
            log.all = sorted(every[key] - superseded[key])
            log.committed = sorted(committed[key] - superseded[key])
        return logs

    def _appearances(self) -> Iterator[tuple[Sent | None, Place, int, bool, bool]]:
        """Return where each value has appeared, whether a poll shows it, and whether it was one of committed records."""
        for value, sends in self.sends.items():
            for sent in sends:
                if sent.acknowledged and sent.place is not None:
                    yield sent, sent.place, value, False, False
        for polled in self.polled:
            origins = self.origins(polled.value, polled.place)
            yield (origins[0] if origins else None), polled.place, polled.value, True, polled.consumer.committed

    def _superseded(self) -> dict[TopicPartition, set[int]]:
        """Return the offsets that compaction may take away: of keys with a later record there that was not aborted."""
        gone: dict[TopicPartition, set[int]] = defaultdict(set)
        if not any(topic.compacted for topic in self.topics.values()):
            return gone
        newest: dict[tuple[TopicPartition, str], int] = {}
        places = {
            (place, sent.action.key)
            for sent, place, *_ in self._appearances()
            if sent is not None and not sent.cannot_be_read(True)
        }
        for place, key in sorted(places):
            if key and place.topic in self.topics and self.topics[place.topic].compacted:
                partition = TopicPartition(*place[:2])
                if (before := newest.get((partition, key))) is not None:
                    gone[partition].add(before)
                newest[partition, key] = place.offset
        return gone

    def is_gone(self, place: Place) -> bool:
        """Return whether a record may be gone: deleted, or its key has a later one in a compacted topic."""
        key = TopicPartition(*place[:2])
        offsets = self.logs[key].all
        index = bisect_right(offsets, place.offset) - 1
        return index < 0 or offsets[index] != place.offset
