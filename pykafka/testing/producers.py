"""`ProducerStates`: what one log knows of its idempotent producers (KIP-98, KIP-360): epochs, sequence numbers, duplicates."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from pykafka.exceptions import InvalidProducerEpoch, OutOfOrderSequenceNumber, ProtocolClientError

if TYPE_CHECKING:
    from pykafka.protocol.records import RawBatch

#: How many batches of a producer a broker remembers, to know them again.
REMEMBERED = 5
_LAST_SEQUENCE = 2**31 - 1


class SequencedBatch(NamedTuple):
    """A batch that a broker would know again.

    :param first: its first sequence number
    :param last: its last sequence number
    :param offset: of its first record
    :param time_ms: its time (ms)
    """

    first: int
    last: int
    offset: int
    time_ms: int


class ProducerState:
    """The state of one producer id in a log.

    :param epoch: the latest one
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        #: The latest batches of that epoch.
        self.batches: deque[SequencedBatch] = deque(maxlen=REMEMBERED)
        #: When it wrote last (ms).
        self.last_ms = -1
        #: Of the coordinator that ended its last transaction; -1: none did.
        self.coordinator_epoch = -1

    def copied(self) -> ProducerState:
        """Return the same state, for another log."""
        other = ProducerState(self.epoch)
        other.batches.extend(self.batches)
        other.last_ms, other.coordinator_epoch = self.last_ms, self.coordinator_epoch
        return other

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record; -1: it has written none in that epoch."""
        return self.batches[-1].last if self.batches else -1


class ProducerStates:
    """The producers of one log, by their ids."""

    def __init__(self) -> None:
        self.by_id: dict[int, ProducerState] = {}

    def copied(self) -> ProducerStates:
        """Return the same producers, for another log."""
        other = ProducerStates()
        other.by_id = {producer_id: state.copied() for producer_id, state in self.by_id.items()}
        return other

    def duplicate(self, raw: RawBatch, remembered: int = REMEMBERED) -> SequencedBatch | None:
        """Return the batch that was written already, if this one is among the last ones of its producer.

        :param raw: the batch
        :param remembered: how many of the last ones count, five at most
        """
        state = self.by_id.get(raw.producer_id)
        if state is None or state.epoch != raw.producer_epoch:
            return None
        last = _last_of(raw)
        latest = list(state.batches)[-remembered:]
        return next((known for known in latest if known.first == raw.base_sequence and known.last == last), None)

    def check(self, raw: RawBatch, refused: type[ProtocolClientError] | None = None) -> None:
        """Check epoch and sequence number of a batch with a producer id.

        :param raw: the batch
        :param refused: raised for a producer that the log does not know, unless it begins at 0; None: it may write
        :raises ProtocolClientError: it must not be written
        """
        state = self.by_id.get(raw.producer_id)
        first = raw.base_sequence
        who = f"producer {raw.producer_id} with epoch {raw.producer_epoch}"
        if state is None:
            if refused is not None and first != 0:
                raise refused(f"{who} is not known here, and begins at sequence number {first}")
            return
        if raw.producer_epoch < state.epoch:
            raise InvalidProducerEpoch(f"{who} was replaced by a producer with epoch {state.epoch}")
        expected = 0
        if raw.producer_epoch == state.epoch and state.last_sequence < _LAST_SEQUENCE:
            expected = state.last_sequence + 1
        if first != expected:
            raise OutOfOrderSequenceNumber(f"{who} sent sequence number {first}; the next one is {expected}")

    def check_start(self, raw: RawBatch) -> None:
        """Check that a producer that the log does not know begins at 0, as in transactions of version 2 (KIP-890).

        :raises OutOfOrderSequenceNumber: it begins later
        """
        if raw.producer_id not in self.by_id and raw.base_sequence != 0:
            who = f"producer {raw.producer_id}"
            raise OutOfOrderSequenceNumber(
                f"{who} is not known here, and begins at sequence number {raw.base_sequence}"
            )

    def add(self, raw: RawBatch, offset: int, now_ms: int) -> None:
        """Note a batch that was written.

        :param raw: with a producer id
        :param offset: of its first record
        :param now_ms: when (ms)
        """
        state = self._of_epoch(raw.producer_id, raw.producer_epoch)
        state.batches.append(SequencedBatch(raw.base_sequence, _last_of(raw), offset, raw.max_timestamp))
        state.last_ms = now_ms

    def end_transaction(self, producer_id: int, epoch: int, coordinator_epoch: int, now_ms: int) -> None:
        """Note the marker that ended a transaction: its epoch counts from now on.

        :param producer_id: whose transaction
        :param epoch: of the marker
        :param coordinator_epoch: of the coordinator
        :param now_ms: when (ms)
        """
        state = self._of_epoch(producer_id, epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_ms = now_ms

    def forget_before(self, offset: int) -> None:
        """Forget producers without a record from an offset on, as brokers before 2.4 do when they delete those before it."""
        for producer_id, state in list(self.by_id.items()):
            while state.batches and _end_of(state.batches[0]) <= offset:
                state.batches.popleft()
            if not state.batches:
                del self.by_id[producer_id]

    def _of_epoch(self, producer_id: int, epoch: int) -> ProducerState:
        state = self.by_id.get(producer_id)
        if state is None:
            state = self.by_id[producer_id] = ProducerState(epoch)
        elif epoch != state.epoch:
            state.epoch = epoch
            state.batches.clear()
        return state


def _last_of(raw: RawBatch) -> int:
    # Sequence numbers begin at 0 again after the largest number of 32 bits.
    return (raw.base_sequence + raw.next_offset - raw.base_offset - 1) & _LAST_SEQUENCE


def _end_of(batch: SequencedBatch) -> int:
    """Return the offset behind its last record."""
    return batch.offset + (batch.last - batch.first) % (_LAST_SEQUENCE + 1) + 1
