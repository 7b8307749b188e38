"""`InFlightWindow`: the batches of one partition that are in flight, in order, with their sequence numbers.

A table without I/O (KIP-98, KIP-360), for `LeaderRequests`. A broker remembers, for each producer id and partition,
the epoch and the sequence numbers of the last batches: it takes a batch whose first number follows on the last one, knows
one of the last batches again, and refuses any other with OUT_OF_ORDER_SEQUENCE_NUMBER. Found by trying brokers 0.11 to 4.3:

- 4.3 knows the last five batches again, 0.11 and a broker that was restarted only the last one; what is older is refused
  with the same number as a gap.
- A batch of a higher epoch that begins at 0 is taken, whatever came before, and fences what older epochs have under way.
  The epoch of a producer without transactions is its own to raise: InitProducerId ignores the one it is shown, and gives
  another id.
- A broker that knows nothing of the producer takes any first number (from 2.5 on), so also one behind a batch that it has
  refused: where the log has no room for that one, the later one proves nothing (`skipped`). The embedded brokers look at
  no numbers.

Hence: batches are numbered when they are first sent, and keep their numbers. Until the first batch of an epoch is
acknowledged, and whenever something has to be sent again, one batch is under way at a time, oldest first; else five. A
batch is `uncertain` when it may have been written without our having been told. A topic that was made anew has a new log, which
knows nothing of the producer: what it takes proves nothing about batches that were refused because the topic was gone
(`absent`). What follows a batch that was given up
gets new numbers in a new epoch, after all uncertain ones have been asked about by sending them under their old numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Generic, TypeVar

from pykafka.exceptions import (
    DuplicateSequenceNumber,
    InconsistentTopicId,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaException,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TopicRecreatedError,
    UnknownProducerId,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.producer.retry_policy import Kind, kind_of

T = TypeVar("T")

#: Numbered batches of a partition that may be unanswered: as many as brokers since 1.0 know again.
IN_FLIGHT = 5
#: Sequence numbers run from 0 to this, then from 0 again.
SEQUENCE_MAX = 2**31 - 1
#: The last epoch of a producer id; after it, another id is needed.
EPOCH_MAX = 2**15 - 1
#: The topic is not there: when it is again, it may be another one.
GONE = (UnknownTopicOrPartition, UnknownTopicId, InconsistentTopicId)


class Verdict(Enum):
    """The next step for a batch after its response."""

    #: It is written; its messages are acknowledged.
    DELIVERED = "delivered"
    #: Send it again, at its turn, if `retrying.counts` leaves it a try.
    RESEND = "resend"
    #: The same, but it was refused only for the sake of another one: not an attempt of its own.
    RESEND_IN_ORDER = "resend in order"
    #: It is too large: `split` it.
    SPLIT = "split"
    #: No sending again helps; it has left the lane.
    FAILED = "failed"


class InFlightBatch(Generic[T]):
    """One batch on its way.

    :param item: the caller's batch
    :param count: messages in it
    """

    __slots__ = (
        "absent",
        "broken",
        "count",
        "epoch",
        "halved",
        "item",
        "on_wire",
        "passed",
        "producer_id",
        "reshaped",
        "sequence",
        "skipped",
        "uncertain",
    )

    def __init__(self, item: T, count: int) -> None:
        self.item = item
        self.count = count
        self.producer_id = -1
        self.epoch = -1
        #: Number of its first message; -1 while it has none.
        self.sequence = -1
        #: Sent, and not answered.
        self.on_wire = False
        #: The broker may have written it without our having been told.
        self.uncertain = False
        # Uncertain for no other reason than that the topic was not there: it is in no log that takes what is behind it.
        self.absent = False
        # Uncertain, and refused under its old number: written, and others after it; or not written at all.
        self.passed = False
        # Its number does not follow on what the broker has.
        self.broken = False
        # Part of a batch that may have been written whole, which the broker would not know by its parts.
        self.halved = False
        # Uncertain, and the log has no room for it before a later one: it took that without regard to numbers.
        self.skipped = False
        #: Refused for its form alone, and not written: it is sent again in another one.
        self.reshaped = False

    @property
    def numbered(self) -> bool:
        """Whether it has sequence numbers."""
        return self.sequence >= 0

    @property
    def overtaken(self) -> bool:
        """Whether a new log, in which it is not, has taken one that was behind it."""
        return self.absent and not self.uncertain


class InFlightWindow(Generic[T]):
    """The batches of one partition from their first sending to their acknowledgement, oldest first.

    Without numbers (`launch(..., numbered=False)`) one batch is under way at a time. The caller brings a producer id
    (`adopt`) where `wants_id`, and guards each call with a lock of its own.
    """

    def __init__(self) -> None:
        self.window: deque[InFlightBatch[T]] = deque()
        self.producer_id = -1
        self.epoch = -1
        #: A producer id that brokers refuse, or whose epochs are used up: another one is wanted.
        self.spent_id = -1
        #: Whether batches go without numbers, as the topic cannot store them.
        self.plain = False
        self._sequence = 0
        self._on_wire = 0
        self._acknowledged = False
        self._hole = False

    @property
    def wants_id(self) -> bool:
        """Whether a producer id is needed before the next batch can be numbered."""
        return self.producer_id < 0 and not self.plain

    @property
    def numbers(self) -> bool:
        """Whether batches have had numbers here: none goes without from then on, unless the topic cannot store them."""
        return self.has_numbered and not self.plain

    @property
    def has_numbered(self) -> bool:
        """Whether batches have had numbers here, by which brokers may know those that begin anew."""
        return self.producer_id >= 0 or self.spent_id >= 0 or any(flight.numbered for flight in self.window)

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Number from 0 on under this id, as InitProducerId gave it."""
        self.producer_id, self.epoch = producer_id, epoch
        self._sequence = 0
        self._acknowledged = False

    def forgo(self) -> None:
        """Send without numbers from now on; what is still to be sent loses its own once nothing else is on the wire."""
        self.plain = True
        if self._on_wire <= 1:
            self._strip()

    def resume(self, flight: InFlightBatch[T]) -> bool:
        """Number again from this batch on, which is about to be sent; return False while others have to be sent again.

        It is the first one of an epoch: brokers know the numbers of the former.
        """
        if len(self.window) > 1 or flight.uncertain:
            return False
        self.plain = False
        self._renumber()
        return True

    # -- sending -----------------------------------------------------------------------------------------------------

    @property
    def on_wire(self) -> int:
        """How many batches are sent and not answered."""
        return self._on_wire

    @property
    def recovering(self) -> bool:
        """Whether a batch has to be sent again, before which no new one may go."""
        return len(self.window) > self._on_wire

    def may_launch(self, numbered: bool = True) -> bool:
        """Return whether a batch that was never sent may go now."""
        if self.recovering:
            return False
        if self._hole:
            return not self.window
        return self._on_wire < (IN_FLIGHT if numbered and self._acknowledged and not self.plain else 1)

    def launch(self, item: T, count: int) -> InFlightBatch[T]:
        """Add a batch that is about to be sent for the first time; `may_launch` has said that it may."""
        if self.plain:
            self._strip()
        elif self._hole:
            self._renumber()
        flight = InFlightBatch(item, count)
        self.window.append(flight)
        self._take_off(flight)
        return flight

    def resend(self) -> InFlightBatch[T] | None:
        """Return the batch to send again now, taken to be on its way; None where there is none, or others come first."""
        flight = self.next_to_resend()
        if flight is not None:
            self._take_off(flight)
        return flight

    def next_to_resend(self) -> InFlightBatch[T] | None:
        """Return the batch that `resend` would give; it may have new numbers coming."""
        if self._on_wire or not self.window:
            return None
        if self.plain:
            self._strip()
            return self.window[0]
        if not self._hole and not any(flight.broken or flight.passed for flight in self.window):
            return self.window[0]
        for flight in self.window:
            if flight.overtaken:
                continue  # what is behind it may be written
            if not flight.uncertain:
                break  # not written, hence nothing behind it either
            if not flight.passed and flight.numbered:
                return flight
        self._renumber()
        return self.window[0]

    def number(self, flight: InFlightBatch[T]) -> None:
        """Give a batch its numbers, just before it is sent; one that has some keeps them."""
        if flight.numbered:
            return
        flight.uncertain = flight.absent = False  # whatever was sent without numbers: this is not known by them
        flight.producer_id, flight.epoch, flight.sequence = self.producer_id, self.epoch, self._sequence
        self._sequence = (self._sequence + flight.count) & SEQUENCE_MAX

    def _take_off(self, flight: InFlightBatch[T]) -> None:
        flight.on_wire = True
        self._on_wire += 1

    def _land(self, flight: InFlightBatch[T]) -> None:
        if flight.on_wire:
            flight.on_wire = False
            self._on_wire -= 1

    def _renumber(self) -> None:
        """Begin a new epoch; what is still to be sent gets new numbers in it."""
        self._hole = False
        for flight in self.window:
            flight.producer_id = flight.epoch = flight.sequence = -1
            flight.uncertain = flight.absent = flight.passed = flight.broken = flight.halved = flight.skipped = False
        if self.producer_id < 0:
            return
        if self.epoch >= EPOCH_MAX:
            self._spend()
        else:
            self.adopt(self.producer_id, self.epoch + 1)

    def _strip(self) -> None:
        """Take the numbers from all batches, of which at most one is on the wire; what is uncertain stays so."""
        self._hole = self._acknowledged = False
        for flight in self.window:
            flight.producer_id = flight.epoch = flight.sequence = -1
            flight.absent = flight.passed = flight.broken = flight.halved = flight.skipped = False

    def _spend(self) -> None:
        self.spent_id = self.producer_id
        self.producer_id = self.epoch = -1

    # -- answers -----------------------------------------------------------------------------------------------------

    def unsent(self, flight: InFlightBatch[T]) -> None:
        """Take back a batch of which no byte has left."""
        self._land(flight)

    def answered(
        self, flight: InFlightBatch[T], error: KafkaException | None, room: int | None = None
    ) -> list[tuple[InFlightBatch[T], Verdict]]:
        """Take the outcome of a batch and say what is to be done; about others too, of which it tells.

        :param error: what the broker answered, or what kept the answer from coming; None is success
        :param room: how many messages the log may have between this batch and those acknowledged before; None: unknown
        """
        self._land(flight)
        if error is None or isinstance(error, DuplicateSequenceNumber):
            if room is not None and self.window[0] is not flight:
                self._skip(flight, room)
            return self._delivered(flight)
        verdict = self._judge(flight, error)
        left = self.drop(flight) if verdict is Verdict.FAILED else [flight]
        return [(other, verdict) for other in left]

    def _skip(self, flight: InFlightBatch[T], room: int) -> None:
        """Note what a batch that was acknowledged cannot prove to be written, as there is no room for it in the log.

        A broker that has lost what it knew of the producer (by an unclean election, or after a day), or does not look at
        numbers, takes a batch behind one that it has refused. Those are asked about by sending them under their old numbers.
        """
        before = []
        for other in self.window:
            if other is flight:
                break
            if other.uncertain and other.numbered and other.epoch == flight.epoch:
                before.append(other)
        if sum(other.count for other in before) > room:
            for other in before:
                other.skipped = True

    def _delivered(self, flight: InFlightBatch[T]) -> list[tuple[InFlightBatch[T], Verdict]]:
        # Brokers take no number before those below it: what was uncertain is written too.
        found = []
        for other in list(self.window) if self.window[0] is not flight else ():
            if other is flight:
                break
            if flight.numbered and other.absent:  # this log is new: that goes behind, under other numbers
                other.uncertain, other.broken = False, True
            elif other.skipped:
                continue
            elif flight.numbered and other.uncertain and other.numbered and other.epoch == flight.epoch:
                self._land(other)  # it may be on its way again
                self.window.remove(other)
                found.append((other, Verdict.DELIVERED))
        self.window.remove(flight)
        if flight.numbered and (flight.producer_id, flight.epoch) == (self.producer_id, self.epoch):
            self._acknowledged = True
        found.append((flight, Verdict.DELIVERED))
        return found

    def _judge(self, flight: InFlightBatch[T], error: KafkaException) -> Verdict:
        if flight.reshaped:
            return Verdict.RESEND_IN_ORDER
        if isinstance(error, (OutOfOrderSequenceNumber, UnknownProducerId)) and flight.numbered:
            return self._refused(flight, isinstance(error, UnknownProducerId))
        if isinstance(error, (InvalidProducerEpoch, ProducerFenced, InvalidProducerIdMapping)) and flight.numbered:
            if flight.producer_id == self.producer_id:
                self._spend()
            flight.broken = True
            # under a new id an uncertain one might be written twice
            return Verdict.FAILED if flight.uncertain else Verdict.RESEND
        if isinstance(error, TopicRecreatedError):  # what may have been written went with the former topic
            flight.uncertain = flight.absent = flight.passed = False
            return Verdict.FAILED
        kind = kind_of(error)
        if kind is Kind.TOO_LARGE and flight.count > 1:
            return Verdict.SPLIT
        if kind in (Kind.TOO_LARGE, Kind.FINAL, Kind.FINAL_OPEN):
            flight.uncertain |= kind is Kind.FINAL_OPEN
            return Verdict.FAILED
        flight.absent = isinstance(error, GONE) and (flight.absent or not flight.uncertain)
        flight.uncertain |= kind is not Kind.NOT_READY
        return Verdict.RESEND

    def _refused(self, flight: InFlightBatch[T], forgotten: bool) -> Verdict:
        """Judge a batch whose number does not follow on the broker's last one."""
        for other in self.window:
            if other is flight:
                break
            if not other.passed and not other.overtaken:
                return Verdict.RESEND_IN_ORDER
        if forgotten:
            for other in self.window:
                other.uncertain = other.absent = other.passed = other.halved = False
        if flight.halved:
            flight.uncertain = True
            return Verdict.FAILED
        if flight.uncertain:
            flight.passed = True
            return Verdict.RESEND_IN_ORDER
        flight.broken = True
        return Verdict.RESEND

    def drop(self, flight: InFlightBatch[T]) -> list[InFlightBatch[T]]:
        """Take out a batch that is given up: those behind it do not follow on what the broker has.

        :returns: what has left the lane: this batch, after those whose fate only it could have told
        """
        self._land(flight)
        left = []
        if flight.uncertain:
            left = [other for other in self.window if other.passed and other is not flight]
            for other in left:
                self._land(other)
                self.window.remove(other)
        if flight.numbered:
            at = self.window.index(flight)
            if at + 1 < len(self.window):
                self.window[at + 1].broken = True
            else:
                self._hole = True
        self.window.remove(flight)
        return [*left, flight]

    def split(self, flight: InFlightBatch[T], parts: Iterable[tuple[T, int]]) -> list[InFlightBatch[T]]:
        """Put several batches in the place of one, to be sent under its numbers.

        :param parts: (batch, messages in it) each, with as many messages together
        """
        self._land(flight)
        at = self.window.index(flight)
        del self.window[at]
        found: list[InFlightBatch[T]] = []
        sequence = flight.sequence
        for item, count in parts:
            part = InFlightBatch(item, count)
            part.producer_id, part.epoch, part.sequence = flight.producer_id, flight.epoch, sequence
            part.uncertain, part.absent, part.broken = flight.uncertain, flight.absent, flight.broken
            part.halved = flight.uncertain or flight.halved
            part.skipped = flight.skipped
            if flight.numbered:
                sequence = (sequence + count) & SEQUENCE_MAX
            self.window.insert(at + len(found), part)
            found.append(part)
        return found
