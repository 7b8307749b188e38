"""`TaskTransaction`: the transaction of one task, which the driver commits when all tasks of the micro-batch are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    GroupAuthorizationFailed,
    InvalidTransactionTimeout,
    KafkaException,
    TopicAuthorizationFailed,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailed,
    TransactionFatalError,
    UnsupportedVersion,
)
from pykafka.spark.data_loss import log
from pykafka.spark.epochs import Plan, ProducerEpoch
from pykafka.spark.errors import FencedWriteError, SinkError
from pykafka.transactions.coordinator import Coordinator
from pykafka.transactions.faults import Fault, fault_of
from pykafka.transactions.states import TransactionalWindow, TransactionStatus, number_in_transaction
from pykafka.transactions.transactions import ADD_PARTITIONS_TIMEOUT_S, PRODUCE_EXPLICIT, PRODUCE_IMPLICIT

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.producer.accumulator import PartitionQueue
    from pykafka.producer.batch import ProducerBatch
    from pykafka.spark.options import TransactionOptions

#: How long a task that fails tries to abort its transaction (s); the driver aborts what is left.
ABORT_S = 5.0


def coordinator_of(cluster: BaseCluster, transactional_id: str, at: ProducerEpoch | None = None) -> Coordinator:
    """Return what asks the coordinator of a transactional id.

    :param at: the identity that requests name
    """
    status = TransactionStatus(transactional_id)
    if at is not None:
        status.producer_id, status.epoch, status.implicit = at.producer_id, at.epoch, at.implicit
    return Coordinator(cluster, status)


@contextmanager
def naming(options: TransactionOptions) -> Iterator[None]:
    """Raise the errors of a block that say what the cluster lacks or refuses with what to do about it.

    :raises SinkError: a right is lacking, the brokers are too old, or the timeout is too long for them
    """
    prefix = options.prefix
    try:
        yield
    except TransactionalIdAuthorizationFailed as error:
        raise SinkError(
            f"the principal may not use transactional ids that begin with {prefix!r} ('transactionalIdPrefix'): {error}. Allow "
            f"WRITE: kafka-acls --add --allow-principal User:NAME --operation WRITE --transactional-id {prefix} "
            "--resource-pattern-type prefixed"
        ) from error
    except GroupAuthorizationFailed as error:
        raise SinkError(
            f"the principal may not commit offsets of the group {prefix!r}, in which 'transactionalIdPrefix' records "
            f"micro-batches: {error}. Allow READ: kafka-acls --add --allow-principal User:NAME --operation READ --group "
            f"{prefix}"
        ) from error
    except TopicAuthorizationFailed as error:
        raise SinkError(
            f"the principal may not commit offsets of the topic {error.topic!r}, by which 'transactionalIdPrefix' records "
            f"micro-batches: {error}. Allow READ: kafka-acls --add --allow-principal User:NAME --operation READ --topic "
            f"{error.topic}",
            topic=error.topic,
        ) from error
    except InvalidTransactionTimeout as error:
        raise SinkError(
            f"the brokers do not allow transactions of {options.timeout_ms} ms: set 'kafka.transaction.timeout.ms' to what "
            f"their transaction.max.timeout.ms allows, or less: {error}"
        ) from error
    except UnsupportedVersion as error:
        raise SinkError(f"'transactionalIdPrefix' needs brokers of Kafka 3.0 or later: {error}") from error


class TaskTransaction:
    """The transaction of one attempt of a task, for the sender of its batches.

    State: the status and the added partitions; used by the task's worker alone.

    :param cluster: to write to
    :param transactional_id: of the attempt; what a former one of this id has left open is aborted
    :param options: of the write
    :param patience_s: how long requests are tried
    """

    def __init__(
        self, cluster: BaseCluster, transactional_id: str, options: TransactionOptions, patience_s: float
    ) -> None:
        self.transactional_id = transactional_id
        self._cluster = cluster
        self._options = options
        self._patience_s = patience_s
        self._status = TransactionStatus(transactional_id)
        self._coordinator = Coordinator(cluster, self._status)
        self._added: set[TopicPartition] = set()

    @property
    def at(self) -> ProducerEpoch:
        """The identity of the transaction."""
        return ProducerEpoch(self._status.producer_id, self._status.epoch, self._status.implicit)

    def begin(self, plan: Plan) -> None:
        """Begin the transaction, unless another driver has begun a micro-batch since the plan.

        :raises FencedWriteError: another one has
        :raises SinkError: the cluster refuses
        :raises KafkaException: no coordinator answered in time
        """
        deadline = self._cluster.handler.now() + self._patience_s
        with naming(self._options):
            found = coordinator_of(self._cluster, plan.prefix).describe(deadline)
            if (found.producer_id, found.producer_epoch) != (plan.at.producer_id, plan.at.epoch):
                raise fenced(plan.prefix)
            producer_id, epoch, implicit = self._coordinator.init(self._options.timeout_ms, deadline, False)
        self._status.producer_id, self._status.epoch, self._status.implicit = producer_id, epoch, implicit

    def abort(self) -> None:
        """Abort it, as far as that is possible in a moment: the next plan aborts what is left."""
        try:
            self._coordinator.end(False, self._cluster.handler.now() + ABORT_S)
        except KafkaException as error:
            log.info("transactional id %s: the abort is left to the driver: %s", self.transactional_id, error.again())

    # -- for the sender ----------------------------------------------------------------------------------------------

    @property
    def produce_ceiling(self) -> int:
        """The highest version of Produce that the batches may be sent by."""
        return PRODUCE_IMPLICIT if self._status.implicit else PRODUCE_EXPLICIT

    def make_window(self) -> TransactionalWindow:
        """Return the in-flight window of a partition."""
        return TransactionalWindow()

    def must_add(self, batches: Sequence[ProducerBatch]) -> bool:
        """Return whether partitions of some batches have to be added first; brokers do that in version 2 (KIP-890)."""
        if self._status.implicit:
            return False
        return not all((batch.topic, batch.partition_id) in self._added for batch in batches)

    def number(self, batches: Sequence[ProducerBatch], queue_of: Callable[[ProducerBatch], PartitionQueue]) -> None:
        """Give batches their numbers, and their partitions a place in the transaction.

        :raises TransactionError: they cannot be sent any more
        :raises KafkaException: their partitions could not be added in time; they may be later
        """
        if not self._status.implicit:
            self._add({TopicPartition(batch.topic, batch.partition_id) for batch in batches} - self._added)
        number_in_transaction(self._status, batches, queue_of)

    def _add(self, missing: set[TopicPartition]) -> None:
        if not missing:
            return
        try:
            self._coordinator.add_partitions(missing, self._cluster.handler.now() + ADD_PARTITIONS_TIMEOUT_S)
        except KafkaException as error:
            fault = fault_of(error)
            if fault in (Fault.RETRY, Fault.REFRESH):
                raise
            kind = TransactionFatalError if fault is Fault.FATAL else TransactionAbortableError
            raise kind(
                f"partitions cannot be added to the transaction {self.transactional_id!r}: {error}",
                topic=error.topic,
                partition=error.partition,
            ) from error
        self._added |= missing


def fenced(prefix: str) -> FencedWriteError:
    """Return the error of a run that another one has fenced."""
    return FencedWriteError(
        f"another run of this query has begun a micro-batch, or another query has 'transactionalIdPrefix' = {prefix!r}: this "
        "one writes no more. Give each query a prefix of its own, and run it once at a time"
    )
