"""`TransactionalLane`: the batches of one partition of a transactional producer. No I/O."""

from __future__ import annotations

from typing import TypeVar

from pykafka.exceptions import InvalidProducerEpoch, InvalidProducerIdMapping, KafkaException, ProducerFenced
from pykafka.producer.idempotence import Flight, Lane, Verdict

T = TypeVar("T")


class TransactionalLane(Lane[T]):
    """A lane whose epoch is the coordinator's: it never raises it, and numbers nothing anew.

    A gap in the numbers that only another epoch would mend (`stuck`) is for the transaction's abort to mend.
    """

    def __init__(self) -> None:
        super().__init__()
        #: Whether a gap keeps all later batches of this epoch from being stored.
        self.stuck = False

    @property
    def wants_id(self) -> bool:
        """Never: `follow` brings it."""
        return False

    def follow(self, producer_id: int, epoch: int) -> None:
        """Number from 0 on where producer id or epoch are others than before."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.adopt(producer_id, epoch)
            self.stuck = self._hole = False

    def _renumber(self) -> None:
        self._hole = False
        self.stuck = True
        for flight in self.window:
            flight.passed = flight.broken = False

    def _judge(self, flight: Flight[T], error: KafkaException) -> Verdict:
        if isinstance(error, (InvalidProducerEpoch, ProducerFenced, InvalidProducerIdMapping)):
            return Verdict.FAILED
        return super()._judge(flight, error)
