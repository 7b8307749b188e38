"""`AcquiredRecords` and `Ledger`: the records that a share session has acquired, and what became of them. No I/O.

The owner of a ledger holds a lock around each call.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol

from pykafka.common import TopicPartition
from pykafka.exceptions import InvalidRecordState, KafkaException


class Kind(enum.IntEnum):
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
    GIVE_BACK = "give back"
    DECIDE = "acknowledge"
    RENEW = "renew"
    SEND = "send"
    CONFIRM = "confirm"
    LOSE = "lose"


TABLE: dict[State, dict[Event, State]] = {
    State.BUFFERED: {Event.DELIVER: State.DELIVERED, Event.DECIDE: State.DUE, Event.LOSE: State.LOST},
    State.DELIVERED: {
        Event.GIVE_BACK: State.BUFFERED,
        Event.DECIDE: State.DUE,
        Event.RENEW: State.RENEWING,
        Event.LOSE: State.LOST,
    },
    # what was not sent yet may be changed
    State.DUE: {Event.DECIDE: State.DUE, Event.SEND: State.SENT, Event.LOSE: State.LOST},
    State.SENT: {Event.CONFIRM: State.DONE, Event.LOSE: State.LOST},
    State.RENEWING: {
        Event.DECIDE: State.DUE,
        Event.RENEW: State.RENEWING,
        Event.SEND: State.RENEWAL_SENT,
        Event.LOSE: State.LOST,
    },
    State.RENEWAL_SENT: {
        Event.DECIDE: State.DUE,
        Event.RENEW: State.RENEWAL_SENT,
        Event.CONFIRM: State.DELIVERED,
        Event.LOSE: State.LOST,
    },
    State.DONE: {},
    State.LOST: {Event.LOSE: State.LOST},
}
#: The states of records that a broker has still to answer for.
OPEN = frozenset({State.DUE, State.SENT, State.RENEWING, State.RENEWAL_SENT})


class Owner(Protocol):
    """The object that takes decisions from any worker: the engine."""

    def decide(self, held: AcquiredRecords, kind: Kind) -> bool: ...


class AcquiredRecords:
    """One acquired record: what `Record` refers to.

    :param owner: takes what the application decides
    :param ledger: of the session that acquired it
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
        "ledger",
        "offset",
        "owner",
        "partition",
        "state",
    )

    def __init__(
        self,
        owner: Owner,
        ledger: Ledger,
        partition: TopicPartition,
        offset: int,
        delivery_count: int,
        expires_at: float,
    ) -> None:
        self.owner = owner
        self.ledger = ledger
        self.partition = partition
        self.offset = offset
        self.delivery_count = delivery_count
        self.expires_at = expires_at
        self.state = State.BUFFERED
        self.kind = Kind.GAP
        self.error: KafkaException | None = None

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
        return self.owner.decide(self, Kind.ACCEPT)

    def refuse(self, error: BaseException | None = None) -> bool:
        """Release the record: `Record.nack()`."""
        return self.owner.decide(self, Kind.RELEASE)


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
    """Offsets that follow each other, and what became of all of them."""

    first: int
    last: int
    kind: Kind


class Sent(NamedTuple):
    """Acknowledgements of one partition on their way."""

    batches: list[Batch]
    held: list[AcquiredRecords]


class Ledger:
    """The records of one share session, from its opening to its end."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, dict[int, AcquiredRecords]] = {}
        self._due: dict[TopicPartition, dict[int, AcquiredRecords]] = {}
        self._gaps: dict[TopicPartition, list[Batch]] = {}

    def __iter__(self) -> Iterator[AcquiredRecords]:
        for held in list(self._held.values()):
            yield from list(held.values())

    @property
    def due(self) -> list[TopicPartition]:
        """The partitions with something to acknowledge."""
        return list({key: None for key, found in [*self._due.items(), *self._gaps.items()] if found})

    @property
    def renews(self) -> bool:
        """Whether a record waits to be renewed."""
        return any(held.kind is Kind.RENEW for due in self._due.values() for held in due.values())

    def add(self, held: AcquiredRecords) -> None:
        """Take a record that the session has acquired."""
        self._held.setdefault(held.partition, {})[held.offset] = held

    def fill(self, partition: TopicPartition, first: int, last: int, kind: Kind) -> None:
        """Acknowledge offsets without a record for the application."""
        self._gaps.setdefault(partition, []).append(Batch(first, last, kind))

    def decide(self, held: AcquiredRecords, kind: Kind) -> None:
        """Note what became of a record, for the next request.

        :raises InvalidRecordState: something else became of it already
        """
        if held.state in {State.SENT, State.DONE} and held.kind is kind:
            return
        held.apply(Event.RENEW if kind is Kind.RENEW else Event.DECIDE)
        if held.state is not State.RENEWAL_SENT:
            held.kind = kind
            self._due.setdefault(held.partition, {})[held.offset] = held

    def take_due(self, only: Collection[TopicPartition] | None = None) -> dict[TopicPartition, Sent]:
        """Return what a request has to say.

        :param only: of these partitions; None for all
        """
        taken = {}
        for partition in self.due:
            if only is None or partition in only:
                found = self._due.pop(partition, {})
                held = [found[offset] for offset in sorted(found)]
                batches = _batches(held) + self._gaps.pop(partition, [])
                for one in held:
                    one.apply(Event.SEND)
                taken[partition] = Sent(sorted(batches), held)
        return taken

    def answered(self, sent: Sent, error: KafkaException | None, expires_at: float) -> list[AcquiredRecords]:
        """Process the answer for a partition; return the records whose acknowledgement it was.

        :param error: None if the broker has taken them
        :param expires_at: when the locks of renewed records end (s)
        """
        told = []
        for held in sent.held:
            if held.state not in {State.SENT, State.RENEWAL_SENT}:
                continue  # accepted while its renewal was on its way: that is answered later
            told.append(held)
            if error is not None:
                held.error = error
                self.lose(held)
            else:
                held.expires_at = expires_at
                held.apply(Event.CONFIRM)
                if held.kind is not Kind.RENEW:
                    self._forget(held)
        return told

    def lose(self, held: AcquiredRecords) -> None:
        """Forget a record that others may have by now."""
        self._due.get(held.partition, {}).pop(held.offset, None)
        held.apply(Event.LOSE)
        self._forget(held)

    def lose_all(self, error: KafkaException) -> list[AcquiredRecords]:
        """Forget all records, as the session is over; return those that were being acknowledged."""
        told = []
        for held in self:
            if held.state in OPEN:
                told.append(held)
            held.error = error
            self.lose(held)
        self._due, self._gaps = {}, {}
        return told

    def _forget(self, held: AcquiredRecords) -> None:
        self._held.get(held.partition, {}).pop(held.offset, None)


def _batches(held: list[AcquiredRecords]) -> list[Batch]:
    batches: list[Batch] = []
    for one in held:
        last = batches[-1] if batches else None
        if last is not None and last.last + 1 == one.offset and last.kind is one.kind:
            batches[-1] = last._replace(last=one.offset)
        else:
            batches.append(Batch(one.offset, one.offset, one.kind))
    return batches


def outcomes(held: Collection[AcquiredRecords], error: KafkaException | None) -> list[Acknowledged]:
    """Return the outcome of acknowledgements for each partition."""
    by: dict[TopicPartition, list[int]] = {}
    for one in held:
        by.setdefault(one.partition, []).append(one.offset)
    return [Acknowledged(partition, tuple(sorted(offsets)), error) for partition, offsets in by.items()]
