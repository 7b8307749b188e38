"""`TransactionalLane`: the batches of one partition of a transactional producer. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.exceptions import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaException,
    ProducerFenced,
    TransactionAbortableError,
)
from pykafka.producer.in_flight_window import Flight, Lane, Verdict

if TYPE_CHECKING:
    from pykafka.producer.accumulator import PartitionQueue
    from pykafka.producer.batch import MessageBatch
    from pykafka.transactions.states import Ledger

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


def number_in_transaction(
    ledger: Ledger, batches: Iterable[MessageBatch], queue_of: Callable[[MessageBatch], PartitionQueue]
) -> None:
    """Give batches their numbers in the present epoch, under the producer's lock where several workers send.

    :param ledger: that has producer id and epoch
    :param queue_of: returns the queue of the partition of each
    :raises TransactionAbortableError: the numbers of a partition have a gap
    """
    for batch in batches:
        lane: Any = queue_of(batch).lane
        lane.follow(ledger.producer_id, ledger.epoch)
        if lane.stuck:
            raise TransactionAbortableError(
                "a batch of this partition was lost, and the numbers of what follows have a gap; abort the transaction",
                topic=batch.topic,
                partition=batch.partition_id,
            )
        lane.number(batch.flight)
