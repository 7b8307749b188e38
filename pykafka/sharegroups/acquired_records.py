"""`AcquiredRecords`: the records that a share session has acquired, and their acknowledgements. No I/O.

The caller holds the engine's lock.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from pykafka.common import TopicPartition
from pykafka.exceptions import InvalidRecordState, KafkaException

#: How many records are dealt with before other workers of a hub or loop may run.
PORTION = 250


class AcknowledgeType(enum.IntEnum):
    """An acknowledgement of a record, by Kafka's number."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class State(enum.Enum):
    """The state of an acquired record."""

    BUFFERED = "is buffered"
    DELIVERED = "was delivered, and not acknowledged"
    DUE = "waits to be acknowledged"
    SENT = "is being acknowledged"
    RENEWING = "waits to be renewed"
    RENEWAL_SENT = "is being renewed"
    DONE = "was acknowledged"
    LOST = "was lost"


class Event(enum.Enum):
    """An event that changes the state."""

    DELIVER = "deliver"
    PUT_BACK = "put back"
    ACKNOWLEDGE = "acknowledge"
    RENEW = "renew"
    SEND = "send"
    CONFIRM = "confirm"
    LOSE = "lose"


TABLE: dict[State, dict[Event, State]] = {
    State.BUFFERED: {Event.DELIVER: State.DELIVERED, Event.ACKNOWLEDGE: State.DUE, Event.LOSE: State.LOST},
    State.DELIVERED: {
        Event.PUT_BACK: State.BUFFERED,
        Event.ACKNOWLEDGE: State.DUE,
        Event.RENEW: State.RENEWING,
        Event.LOSE: State.LOST,
    },
    # an acknowledgement that was not sent yet may be changed
    State.DUE: {Event.ACKNOWLEDGE: State.DUE, Event.SEND: State.SENT, Event.LOSE: State.LOST},
    State.SENT: {Event.CONFIRM: State.DONE, Event.LOSE: State.LOST},
    State.RENEWING: {
        Event.ACKNOWLEDGE: State.DUE,
        Event.RENEW: State.RENEWING,
        Event.SEND: State.RENEWAL_SENT,
        Event.LOSE: State.LOST,
    },
    State.RENEWAL_SENT: {
        Event.ACKNOWLEDGE: State.DUE,
        Event.RENEW: State.RENEWAL_SENT,
        Event.CONFIRM: State.DELIVERED,
        Event.LOSE: State.LOST,
    },
    State.DONE: {},
    State.LOST: {Event.LOSE: State.LOST},
}
#: The states of records whose acknowledgement has no response yet.
OPEN = frozenset({State.DUE, State.SENT, State.RENEWING, State.RENEWAL_SENT})


class Owner(Protocol):
    """The engine, which takes acknowledgements from any worker."""

    def acknowledge(self, acquired: AcquiredRecord, kind: AcknowledgeType) -> bool: ...


class AcquiredRecord:
    """One acquired record, to which `Record` refers.

    :param owner: takes the application's acknowledgement
    :param session_records: of the session that acquired it
    :param partition: the record's
    :param offset: the record's
    :param delivery_count: how often it was delivered, this time included
    :param expires_at: when the acquisition lock ends (s)
    """

    __slots__ = (
        "delivery_count",
        "error",
        "expires_at",
        "kind",
        "session_records",
        "offset",
        "owner",
        "partition",
        "state",
        "trace",
    )

    def __init__(
        self,
        owner: Owner,
        session_records: AcquiredRecords,
        partition: TopicPartition,
        offset: int,
        delivery_count: int,
        expires_at: float,
    ) -> None:
        self.owner = owner
        self.session_records = session_records
        self.partition = partition
        self.offset = offset
        self.delivery_count = delivery_count
        self.expires_at = expires_at
        self.state = State.BUFFERED
        self.kind = AcknowledgeType.GAP
        self.error: KafkaException | None = None
        #: Of the client's tracer, if there is one.
        self.trace: Any = None

    def apply(self, event: Event) -> None:
        """Change the state.

        :raises InvalidRecordState: the event cannot come in this state
        """
        following = TABLE[self.state].get(event)
        if following is None:
            raise InvalidRecordState(
                f"offset {self.offset} {self.state.value}, so nothing can {event.value} it any more",
                topic=self.partition.topic,
                partition=self.partition.partition,
            )
        self.state = following

    def acknowledge(self) -> bool:
        """Accept the record: `Record.ack()`."""
        return self.owner.acknowledge(self, AcknowledgeType.ACCEPT)

    def refuse(self, error: BaseException | None = None) -> bool:
        """Release the record: `Record.nack()`."""
        return self.owner.acknowledge(self, AcknowledgeType.RELEASE)


class Acknowledged(NamedTuple):
    """The outcome of acknowledgements of one partition.

    :param partition: the records'
    :param offsets: theirs
    :param error: None if the broker has taken the acknowledgements
    """

    partition: TopicPartition
    offsets: tuple[int, ...]
    error: KafkaException | None


class Batch(NamedTuple):
    """A range of offsets with the same acknowledgement."""

    first: int
    last: int
    kind: AcknowledgeType


class Sent(NamedTuple):
    """Acknowledgements of one partition in flight."""

    batches: list[Batch]
    acquired: list[AcquiredRecord]


class AcquiredRecords:
    """The records of one share session, from its opening to its end."""

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, dict[int, AcquiredRecord]] = {}
        self._due: dict[TopicPartition, dict[int, AcquiredRecord]] = {}
        self._gaps: dict[TopicPartition, list[Batch]] = {}

    def __iter__(self) -> Iterator[AcquiredRecord]:
        for acquired in list(self._by_partition.values()):
            yield from list(acquired.values())

    @property
    def count(self) -> int:
        """How many records the session has; this may be read without the lock."""
        return sum(len(acquired) for acquired in self._by_partition.copy().values())

    @property
    def due(self) -> list[TopicPartition]:
        """The partitions with acknowledgements to send."""
        return list({key: None for key, found in [*self._due.items(), *self._gaps.items()] if found})

    @property
    def renews(self) -> bool:
        """Whether a record waits to be renewed."""
        return any(acquired.kind is AcknowledgeType.RENEW for due in self._due.values() for acquired in due.values())

    def add(self, acquired: AcquiredRecord) -> None:
        """Add a record that the session has acquired."""
        self._by_partition.setdefault(acquired.partition, {})[acquired.offset] = acquired

    def acknowledge_range(self, partition: TopicPartition, first: int, last: int, kind: AcknowledgeType) -> None:
        """Acknowledge offsets without a record for the application."""
        self._gaps.setdefault(partition, []).append(Batch(first, last, kind))

    def acknowledge(self, acquired: AcquiredRecord, kind: AcknowledgeType) -> bool:
        """Add a record's acknowledgement to the next request; return False if the same was sent before.

        :raises InvalidRecordState: it has another acknowledgement already
        """
        if acquired.state in {State.SENT, State.DONE} and acquired.kind is kind:
            return False
        acquired.apply(Event.RENEW if kind is AcknowledgeType.RENEW else Event.ACKNOWLEDGE)
        if acquired.state is not State.RENEWAL_SENT:
            acquired.kind = kind
            self._due.setdefault(acquired.partition, {})[acquired.offset] = acquired
        return True

    def take_due(self) -> dict[TopicPartition, Sent]:
        """Return the acknowledgements for a request."""
        taken = {}
        for partition in self.due:
            due = self._due.pop(partition, {})
            acquired = [due[offset] for offset in sorted(due)]
            batches = _batches(acquired) + self._gaps.pop(partition, [])
            for record in acquired:
                record.apply(Event.SEND)
            taken[partition] = Sent(sorted(batches), acquired)
        return taken

    def on_response(self, sent: Sent, error: KafkaException | None, expires_at: float) -> list[AcquiredRecord]:
        """Process the response for a partition; return the records that it answers for.

        :param error: None if the broker has taken them
        :param expires_at: when the locks of renewed records end (s)
        """
        acknowledged = []
        for acquired in sent.acquired:
            if acquired.state not in {State.SENT, State.RENEWAL_SENT}:
                continue  # accepted while its renewal was on its way: that is answered later
            acknowledged.append(acquired)
            if error is not None:
                acquired.error = error
                self.lose(acquired)
            else:
                acquired.expires_at = expires_at
                acquired.apply(Event.CONFIRM)
                if acquired.kind is not AcknowledgeType.RENEW:
                    self._forget(acquired)
        return acknowledged

    def lose(self, acquired: AcquiredRecord) -> None:
        """Remove a record that other members may have acquired by now."""
        self._due.get(acquired.partition, {}).pop(acquired.offset, None)
        acquired.apply(Event.LOSE)
        self._forget(acquired)

    def lose_all(self, error: KafkaException, topic: str | None = None) -> list[AcquiredRecord]:
        """Remove records, and return those that were being acknowledged.

        :param error: why they are lost
        :param topic: the name of one that is gone; None: the session is over, so all are lost
        """
        acknowledged = []
        for acquired in self:
            if topic not in (None, acquired.partition.topic):
                continue
            if acquired.state in OPEN:
                acknowledged.append(acquired)
            acquired.error = error
            self.lose(acquired)
        for key in self.due:
            if topic in (None, key.topic):
                self._due.pop(key, None)
                self._gaps.pop(key, None)
        return acknowledged

    def _forget(self, acquired: AcquiredRecord) -> None:
        self._by_partition.get(acquired.partition, {}).pop(acquired.offset, None)


class AcquiredRange(NamedTuple):
    """A range of acquired offsets, and those of them that have a record."""

    first: int
    last: int
    delivery_count: int
    offsets: list[int]


def portions(ranges: Iterable[tuple[int, int, int]], found: Collection[int]) -> Iterator[AcquiredRange]:
    """Yield acquired ranges again, of PORTION records at most each.

    :param ranges: first and last offset, and how often these were delivered
    :param found: the offsets that have a record
    """
    offsets = sorted(found)
    for first, last, delivery_count in ranges:
        begin, end, at = bisect_left(offsets, first), bisect_right(offsets, last), first
        while end - begin > PORTION:
            portion = offsets[begin : begin + PORTION]
            yield AcquiredRange(at, portion[-1], delivery_count, portion)
            begin, at = begin + PORTION, portion[-1] + 1
        yield AcquiredRange(at, last, delivery_count, offsets[begin:end])


def _batches(acquired: list[AcquiredRecord]) -> list[Batch]:
    batches: list[Batch] = []
    first = last = -1
    kind: AcknowledgeType | None = None
    for one in acquired:
        if one.offset != last + 1 or one.kind is not kind:
            if kind is not None:
                batches.append(Batch(first, last, kind))
            first, kind = one.offset, one.kind
        last = one.offset
    return batches if kind is None else [*batches, Batch(first, last, kind)]


def outcomes(acquired: Collection[AcquiredRecord], error: KafkaException | None) -> list[Acknowledged]:
    """Return the outcome of acknowledgements for each partition."""
    by: dict[TopicPartition, list[int]] = {}
    for one in acquired:
        by.setdefault(one.partition, []).append(one.offset)
    return [Acknowledged(partition, tuple(sorted(offsets)), error) for partition, offsets in by.items()]
