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
  refused. It knows nothing after an unclean election, or if the producer has been silent for a day.

Hence: batches are numbered when they are first sent, and keep their numbers. Until the first batch of an epoch is
acknowledged, and whenever something has to be sent again, one batch is under way at a time, oldest first; else five. A
batch is `outcome_unknown` when it may have been written without a response that says so. A recreated topic has a new
log, which knows nothing of the producer: what it takes proves nothing about batches that were refused because the topic was
gone (`topic_missing`). What follows a batch that was given up
gets new numbers in a new epoch, after all uncertain ones have been asked about by sending them under their old numbers. Those
that the broker refuses then are sent anew; a log that has forgotten the producer may have them (`doubted`).

So an acknowledged batch does not prove that an uncertain one before it is written: that one is asked about (`overtaken`). If
the broker refuses it then, either it is written and no longer remembered, or the later batch was taken without it, and its
outcome stays unknown. If the log has no room for it (`skipped`), it is sent anew. Just as many records as are uncertain prove
nothing: they may be of others, in a log that has forgotten the producer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Any

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
    RETRY = "retry"
    #: The same, but it was refused only for the sake of another one: not an attempt of its own.
    RETRY_IN_ORDER = "retry in order"
    #: It is too large: `split` it.
    SPLIT = "split"
    #: No sending again helps; it has left the window.
    FAILED = "failed"


class InFlightBatch:
    """One batch on its way.

    :param batch: the caller's batch
    :param count: messages in it
    """

    def __init__(self, batch: Any, count: int) -> None:
        self.batch = batch
        self.count = count
        self.producer_id = -1
        self.epoch = -1
        #: Number of its first message; -1 while it has none.
        self.sequence = -1
        #: Sent, and not answered.
        self.on_wire = False
        #: The broker may have written it without a response that says so.
        self.outcome_unknown = False
        # Uncertain for no other reason than that the topic was not there: it is in no log that takes what is behind it.
        self.topic_missing = False
        # Uncertain, and refused under its old number: written, and others after it; or not written at all.
        self.bypassed = False
        # Its number does not follow on what the broker has.
        self.broken = False
        # Part of a batch that may have been written whole, which the broker would not know by its parts.
        self.halved = False
        # Uncertain, and a later one was acknowledged before it was asked about.
        self.overtaken = False
        # The same, and the log has no room for it before the later one: it took that without regard to numbers.
        self.skipped = False
        #: Taken for not written, which no answer has proven: it is sent anew, and of unknown outcome if it is given up.
        self.doubted = False
        #: Refused for its form alone, and not written: it is sent again in another one.
        self.reshaped = False

    @property
    def numbered(self) -> bool:
        """Whether it has sequence numbers."""
        return self.sequence >= 0

    @property
    def may_be_written(self) -> bool:
        """Whether the broker may have it, if it is given up now."""
        return self.outcome_unknown or self.doubted or self.on_wire

    @property
    def superseded(self) -> bool:
        """Whether a new log, in which it is not, has taken one that was behind it."""
        return self.topic_missing and not self.outcome_unknown


class InFlightWindow:
    """The batches of one partition from their first sending to their acknowledgement, oldest first.

    Without numbers (`begin(..., numbered=False)`) one batch is under way at a time. The caller brings a producer id
    (`adopt`) if there is none, and guards each call with a lock of its own.
    """

    def __init__(self) -> None:
        self.batches: deque[InFlightBatch] = deque()
        self.producer_id = -1
        self.epoch = -1
        #: A producer id that brokers refuse, or whose epochs are used up: another one is wanted.
        self.spent_id = -1
        #: Whether batches go without numbers, as the topic cannot store them.
        self.plain = False
        #: How many batches are sent and not answered.
        self.on_wire = 0
        self._sequence = 0
        self._acknowledged = False
        self._hole = False

    @property
    def numbers(self) -> bool:
        """Whether batches have had numbers here: none goes without from then on, unless the topic cannot store them."""
        return self.has_numbered and not self.plain

    @property
    def has_numbered(self) -> bool:
        """Whether batches have had numbers here, by which brokers may know those that begin again."""
        return self.producer_id >= 0 or self.spent_id >= 0 or any(in_flight.numbered for in_flight in self.batches)

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Number from 0 on under this id, as InitProducerId gave it."""
        self.producer_id, self.epoch = producer_id, epoch
        self._sequence = 0
        self._acknowledged = False

    def forgo(self) -> None:
        """Send without numbers from now on; what is still to be sent loses its own once nothing else is on the wire."""
        self.plain = True
        if self.on_wire <= 1:
            self._strip()

    def resume(self, in_flight: InFlightBatch) -> bool:
        """Number again from this batch on, which is about to be sent; return False while others have to be sent again.

        It is the first one of an epoch: brokers know the numbers of the former.
        """
        if len(self.batches) > 1 or in_flight.outcome_unknown:
            return False
        self.plain = False
        self._renumber()
        return True

    # -- sending -----------------------------------------------------------------------------------------------------

    @property
    def recovering(self) -> bool:
        """Whether a batch has to be sent again, before which no new one may go."""
        return len(self.batches) > self.on_wire

    def may_begin(self, numbered: bool = True) -> bool:
        """Return whether a batch that was never sent may go now."""
        if len(self.batches) > self.on_wire:  # `recovering`
            return False
        if self._hole or self.producer_id < 0:  # those of the former id come first: they may be refused, and go again
            return not self.batches
        return self.on_wire < (IN_FLIGHT if numbered and self._acknowledged and not self.plain else 1)

    def begin(self, batch: Any, count: int) -> InFlightBatch:
        """Add a batch that is about to be sent for the first time; `may_begin` has said that it may."""
        if self.plain:
            self._strip()
        elif self._hole:
            self._renumber()
        in_flight = InFlightBatch(batch, count)
        self.batches.append(in_flight)
        in_flight.on_wire = True
        self.on_wire += 1
        return in_flight

    def next_retry(self) -> InFlightBatch | None:
        """Return the batch to send again now, taken to be on its way; None if there is none, or others come first."""
        in_flight = self.peek_retry()
        if in_flight is not None:
            in_flight.on_wire = True
            self.on_wire += 1
        return in_flight

    def peek_retry(self) -> InFlightBatch | None:
        """Return the batch that `next_retry` would give; it may have new numbers coming."""
        if self.on_wire or not self.batches:
            return None
        if self.plain:
            self._strip()
            return self.batches[0]
        if not self._hole and not any(in_flight.broken or in_flight.bypassed for in_flight in self.batches):
            return self.batches[0]
        # One that is not written proves nothing of those behind it: its log may be another.
        for in_flight in self.batches:
            if in_flight.outcome_unknown and not in_flight.bypassed and in_flight.numbered:
                return in_flight
        self._renumber()
        return self.batches[0]

    def number(self, in_flight: InFlightBatch) -> None:
        """Give a batch its numbers, just before it is sent; one that has some keeps them."""
        if in_flight.sequence >= 0:
            return
        # whatever was sent without numbers: this is not known by them
        in_flight.doubted = in_flight.doubted or in_flight.outcome_unknown
        in_flight.outcome_unknown = in_flight.topic_missing = False
        in_flight.producer_id, in_flight.epoch, in_flight.sequence = self.producer_id, self.epoch, self._sequence
        self._sequence = (self._sequence + in_flight.count) & SEQUENCE_MAX

    def _finish(self, in_flight: InFlightBatch) -> None:
        if in_flight.on_wire:
            in_flight.on_wire = False
            self.on_wire -= 1

    def _renumber(self) -> None:
        """Begin a new epoch; what is still to be sent gets new numbers in it."""
        self._hole = False
        for in_flight in self.batches:
            in_flight.doubted = in_flight.doubted or in_flight.outcome_unknown
            in_flight.producer_id = in_flight.epoch = in_flight.sequence = -1
            in_flight.outcome_unknown = in_flight.topic_missing = in_flight.bypassed = in_flight.broken = (
                in_flight.halved
            ) = in_flight.overtaken = in_flight.skipped = False
        if self.producer_id < 0:
            return
        if self.epoch >= EPOCH_MAX:
            self._spend()
        else:
            self.adopt(self.producer_id, self.epoch + 1)

    def _strip(self) -> None:
        """Take the numbers from all batches, of which at most one is on the wire; what is uncertain stays so."""
        self._hole = self._acknowledged = False
        for in_flight in self.batches:
            in_flight.producer_id = in_flight.epoch = in_flight.sequence = -1
            in_flight.topic_missing = in_flight.bypassed = in_flight.broken = in_flight.halved = False
            in_flight.overtaken = in_flight.skipped = False

    def _spend(self) -> None:
        self.spent_id = self.producer_id
        self.producer_id = self.epoch = -1

    # -- answers -----------------------------------------------------------------------------------------------------

    def unsent(self, in_flight: InFlightBatch) -> None:
        """Take back a batch of which no byte has left."""
        self._finish(in_flight)

    def acknowledge(self, in_flight: InFlightBatch) -> bool:
        """Take out the oldest batch, which is written; return False if others are before it, for `on_result` to judge."""
        if not self.batches or self.batches[0] is not in_flight:
            return False
        if in_flight.on_wire:
            in_flight.on_wire = False
            self.on_wire -= 1
        self.batches.popleft()
        if in_flight.sequence >= 0 and in_flight.epoch == self.epoch and in_flight.producer_id == self.producer_id:
            self._acknowledged = True
        return True

    def on_result(
        self, in_flight: InFlightBatch, error: KafkaException | None, room: int | None = None
    ) -> list[tuple[InFlightBatch, Verdict]]:
        """Take the outcome of a batch and say what is to be done; also about others that it concerns.

        :param error: what the broker answered, or what kept the answer from coming; None is success
        :param room: how many messages the log may have between this batch and those acknowledged before; None: unknown
        """
        self._finish(in_flight)
        if error is None or isinstance(error, DuplicateSequenceNumber):
            return self._delivered(in_flight, room)
        verdict = self._judge(in_flight, error)
        left = self.drop(in_flight) if verdict is Verdict.FAILED else [in_flight]
        return [(other, verdict) for other in left]

    def _delivered(self, in_flight: InFlightBatch, room: int | None) -> list[tuple[InFlightBatch, Verdict]]:
        if self.batches[0] is not in_flight:
            self._overtake(in_flight, room)
        self.batches.remove(in_flight)
        if in_flight.numbered and (in_flight.producer_id, in_flight.epoch) == (self.producer_id, self.epoch):
            self._acknowledged = True
        return [(in_flight, Verdict.DELIVERED)]

    def _overtake(self, in_flight: InFlightBatch, room: int | None) -> None:
        """Note what has to be asked about before a batch that was acknowledged: that does not prove it."""
        for other in self.batches:
            if other is in_flight:
                break
            if not (in_flight.numbered and other.numbered) or other.overtaken:  # by one before this
                continue
            if other.topic_missing:  # this log is new: that goes behind, under other numbers
                other.outcome_unknown, other.broken = False, True
            elif other.outcome_unknown and (other.producer_id, other.epoch) == (in_flight.producer_id, in_flight.epoch):
                other.overtaken = True
                other.skipped = room is not None and other.count > room
                other.bypassed &= other.skipped

    def _judge(self, in_flight: InFlightBatch, error: KafkaException) -> Verdict:
        if in_flight.reshaped:
            return Verdict.RETRY_IN_ORDER
        if isinstance(error, (OutOfOrderSequenceNumber, UnknownProducerId)) and in_flight.numbered:
            return self._refused(in_flight, isinstance(error, UnknownProducerId))
        if isinstance(error, (InvalidProducerEpoch, ProducerFenced, InvalidProducerIdMapping)) and in_flight.numbered:
            if in_flight.producer_id == self.producer_id:
                self._spend()
            in_flight.broken = True
            # under a new id an uncertain one might be written twice
            return Verdict.FAILED if in_flight.outcome_unknown else Verdict.RETRY
        if isinstance(error, TopicRecreatedError):  # what may have been written went with the former topic
            in_flight.outcome_unknown = in_flight.topic_missing = in_flight.bypassed = in_flight.doubted = False
            return Verdict.FAILED
        kind = kind_of(error)
        if kind is Kind.TOO_LARGE and in_flight.count > 1:
            return Verdict.SPLIT
        if kind in (Kind.TOO_LARGE, Kind.FINAL, Kind.FINAL_OPEN):
            in_flight.outcome_unknown |= kind is Kind.FINAL_OPEN
            return Verdict.FAILED
        in_flight.topic_missing = isinstance(error, GONE) and (in_flight.topic_missing or not in_flight.outcome_unknown)
        in_flight.outcome_unknown |= kind is not Kind.NOT_READY
        return Verdict.RETRY

    def _refused(self, in_flight: InFlightBatch, forgotten: bool) -> Verdict:
        """Judge a batch whose number does not follow on the broker's last one."""
        for other in self.batches:
            if other is in_flight:
                break
            if not other.bypassed and (other.outcome_unknown or not (in_flight.outcome_unknown or other.superseded)):
                return Verdict.RETRY_IN_ORDER
        if forgotten:
            for other in self.batches:
                other.doubted = other.doubted or other.outcome_unknown
                other.outcome_unknown = other.topic_missing = other.bypassed = other.halved = False
        if in_flight.halved or (in_flight.outcome_unknown and in_flight.overtaken and not in_flight.skipped):
            in_flight.outcome_unknown = True
            return Verdict.FAILED
        if in_flight.outcome_unknown:
            in_flight.bypassed = True
            return Verdict.RETRY_IN_ORDER
        in_flight.broken = True
        return Verdict.RETRY

    def drop(self, in_flight: InFlightBatch) -> list[InFlightBatch]:
        """Take out a batch that is given up: those behind it do not follow on what the broker has.

        :returns: what has left the window: this batch, after those whose outcome only its response could show
        """
        self._finish(in_flight)
        left = []
        if in_flight.outcome_unknown:
            left = [other for other in self.batches if other.bypassed and other is not in_flight]
            for other in left:
                self._finish(other)
                self.batches.remove(other)
        in_flight.outcome_unknown = in_flight.outcome_unknown or in_flight.doubted
        if in_flight.numbered:
            at = self.batches.index(in_flight)
            if at + 1 < len(self.batches):
                self.batches[at + 1].broken = True
            else:
                self._hole = True
        self.batches.remove(in_flight)
        return [*left, in_flight]

    def split(self, in_flight: InFlightBatch, parts: Iterable[tuple[Any, int]]) -> list[InFlightBatch]:
        """Put several batches in the place of one, to be sent under its numbers.

        :param parts: (batch, messages in it) each, with as many messages together
        """
        self._finish(in_flight)
        at = self.batches.index(in_flight)
        del self.batches[at]
        found: list[InFlightBatch] = []
        sequence = in_flight.sequence
        for batch, count in parts:
            part = InFlightBatch(batch, count)
            part.producer_id, part.epoch, part.sequence = in_flight.producer_id, in_flight.epoch, sequence
            part.outcome_unknown, part.topic_missing, part.broken = (
                in_flight.outcome_unknown,
                in_flight.topic_missing,
                in_flight.broken,
            )
            part.halved = in_flight.outcome_unknown or in_flight.halved
            part.overtaken, part.skipped, part.doubted = in_flight.overtaken, in_flight.skipped, in_flight.doubted
            if in_flight.numbered:
                sequence = (sequence + count) & SEQUENCE_MAX
            self.batches.insert(at + len(found), part)
            found.append(part)
        return found
