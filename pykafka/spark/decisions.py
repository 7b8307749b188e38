"""`Decisions`: the driver's part of micro-batches in transactions: it fences, decides, commits, and repairs after a crash."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pykafka.admin.transactions import TransactionsAdmin, TransactionState
from pykafka.common import OffsetAndMetadata
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.exceptions import (
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaException,
    ProducerFenced,
    UnsupportedVersion,
)
from pykafka.spark import session
from pykafka.spark.data_loss import log, warn
from pykafka.spark.epochs import (
    Part,
    Plan,
    Prepared,
    ProducerEpoch,
    Record,
    decided,
    is_task_of,
    marker_of,
)
from pykafka.spark.errors import SinkError, UnknownOutcomeError
from pykafka.spark.task_transaction import coordinator_of, fenced, naming
from pykafka.transactions.coordinator import Groups

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.spark.options import TransactionOptions, WriteOptions
    from pykafka.transactions.coordinator import Coordinator

BACKOFF_MS, RETRIES = 100, 60
#: How long the driver asks all brokers for transactions that will never end (ms).
LEFTOVERS_MS = 5_000
#: How long a failed write tries to abort what its tasks have left (s).
ABORT_S = 20.0
#: The group has no members: TxnOffsetCommit names none.
NOBODY = (-1, "", None)
#: What a coordinator answers of a transaction that is not as it was prepared.
ENDED_BY_OTHERS = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState)
ABORTED = (TransactionState.COMPLETE_ABORT, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE)
#: By how much a coordinator raises the epoch, at most, when it aborts a transaction that has run out, or is fenced.
FENCED_BY = 2


class Decisions:
    """The driver's part in the micro-batches of one transactionalIdPrefix. It has no state of its own.

    :param options: of the write
    :param patience_s: how long requests are tried; by default as long as batches of rows
    """

    def __init__(self, options: WriteOptions, patience_s: float | None = None) -> None:
        assert options.transactions is not None
        self._write = options
        self._options: TransactionOptions = options.transactions
        self._prefix = options.transactions.prefix
        self._marker = marker_of(options.topic)
        self._patience_s = options.delivery_timeout_ms / 1000 if patience_s is None else patience_s

    # -- before the tasks --------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Fence other drivers and their tasks, and complete what was decided; return what the tasks need to know.

        :raises SinkError: the cluster refuses; a former micro-batch can be neither committed nor repeated
        :raises KafkaException: no coordinator answered in time
        """
        cluster = session.cluster_for(self._write.client)
        with naming(self._options):
            at = self._taken_over(cluster)
            if self._write.topic is not None and cluster.find_topic(self._write.topic) is None:
                cluster.wait_for_topic(self._write.topic)
            record = self._last(cluster)
            if record is not None and record.decided and not record.lost:
                missing = self._completed(cluster, record)
                record = replace(record, decided=missing, lost=bool(missing))
                at = self._recorded(cluster, at, record)
            self._abort_leftovers(cluster)
        return Plan(self._prefix, at, record)

    def _taken_over(self, cluster: BaseCluster) -> ProducerEpoch:
        """Fence other drivers: they decide no more."""
        coordinator, deadline = coordinator_of(cluster, self._prefix), self._deadline(cluster)
        at = ProducerEpoch(*coordinator.init(self._options.timeout_ms, deadline, False))
        if at.epoch > 0 and not at.implicit and coordinator.takes_late_offsets(deadline):  # of a driver that died
            try:
                coordinator_of(cluster, self._prefix, at).refuse_late((), (self._prefix,), deadline)
            except ENDED_BY_OTHERS as error:
                raise fenced(self._prefix) from error
        return at

    def _last(self, cluster: BaseCluster) -> Record | None:
        offsets = GroupOffsets(cluster, self._prefix, BACKOFF_MS, RETRIES).fetch([self._marker])
        found = offsets[self._marker]
        return None if found.offset < 0 else Record.parse(found.offset, found.metadata)

    def _completed(self, cluster: BaseCluster, record: Record) -> tuple[Prepared, ...]:
        """Commit what was decided; return the transactions that the brokers have aborted."""
        missing: list[Prepared] = []
        for one in record.decided:
            try:
                self._commit_one(cluster, one)
            except ENDED_BY_OTHERS as error:
                if not self._is_aborted(cluster, one):
                    raise self._unknown(record, one, error) from error
                missing.append(one)
        if missing:
            tasks = ", ".join(str(one.task) for one in missing)
            warn(
                f"micro-batch {record.epoch} was decided, and the transactions of tasks {tasks} ran out "
                f"before they were committed ('kafka.transaction.timeout.ms' = {self._options.timeout_ms}): these tasks write "
                "their rows again"
            )
        else:
            log.info("micro-batch %d was decided before, and is committed", record.epoch)
        return tuple(missing)

    def _commit_one(self, cluster: BaseCluster, one: Prepared) -> None:
        coordinator_of(cluster, one.transactional_id(self._prefix), one.at).end(True, self._deadline(cluster))

    def _is_aborted(self, cluster: BaseCluster, one: Prepared) -> bool:
        """Return whether the coordinator proves that it has aborted a transaction: no other has begun since."""
        coordinator = coordinator_of(cluster, one.transactional_id(self._prefix))
        found = coordinator.describe(self._deadline(cluster))
        return (
            TransactionState.of(found.transaction_state) in ABORTED
            and found.producer_id == one.at.producer_id
            and one.at.epoch <= found.producer_epoch <= one.at.epoch + FENCED_BY
        )

    def _unknown(self, record: Record, one: Prepared, error: KafkaException) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f"micro-batch {record.epoch} was decided, and it is unknown whether the transaction "
            f"{one.transactional_id(self._prefix)!r} of task {one.task} was committed, as another has begun since: {error}. "
            "Look whether its rows are there. To write the whole micro-batch again, with rows that come twice, give another "
            f"'transactionalIdPrefix', and 'transactionsFrom' = {record.epoch}"
        )

    # -- after the tasks ---------------------------------------------------------------------------------------------

    def commit(self, parts: Sequence[Part]) -> None:
        """Decide on a micro-batch, and commit the transactions of its tasks.

        :raises FencedWriteError: another driver has begun; nothing is decided
        :raises SinkError: a transaction has ended before; nothing is decided
        :raises KafkaException: no coordinator answered in time; the next plan completes what was decided
        """
        prepared = decided(parts)
        if prepared is None:
            log.info("micro-batch %d is committed already", parts[0].epoch)
            return
        cluster = session.cluster_for(self._write.client)
        query, epoch, at = parts[0].query, parts[0].epoch, parts[0].plan.at
        with naming(self._options):
            for one in prepared:
                self._check_open(cluster, one)
            if prepared:
                at = self._recorded(cluster, at, Record(query, epoch, prepared))
            for one in prepared:
                try:
                    self._commit_one(cluster, one)
                except ENDED_BY_OTHERS as error:
                    raise SinkError(
                        f"micro-batch {epoch} was decided, and the transaction of task {one.task} has ended before it could be "
                        f"committed: {error}. The next start repeats its rows if it can"
                    ) from error
            self._recorded(cluster, at, Record(query, epoch))
            self._abort_leftovers(cluster)

    def _check_open(self, cluster: BaseCluster, one: Prepared) -> None:
        coordinator = coordinator_of(cluster, one.transactional_id(self._prefix))
        found = coordinator.describe(self._deadline(cluster))
        there = (TransactionState.of(found.transaction_state), found.producer_id, found.producer_epoch)
        if there != (TransactionState.ONGOING, one.at.producer_id, one.at.epoch):
            raise SinkError(
                f"the transaction of task {one.task} is not open any more ({found.transaction_state}): the micro-batch took "
                f"longer than 'kafka.transaction.timeout.ms' = {self._options.timeout_ms}, or another attempt of the task has "
                "begun since. Nothing of it is committed"
            )

    def clean(self) -> None:
        """Abort what a failed write has left; what was decided is committed."""
        try:
            self.plan()
        except KafkaException as error:
            warn(
                f"the transactions that the failed write has left are aborted at the next start, or by brokers: {error}"
            )

    # -- requests ----------------------------------------------------------------------------------------------------

    def _deadline(self, cluster: BaseCluster) -> float:
        return cluster.handler.now() + self._patience_s

    def _recorded(self, cluster: BaseCluster, at: ProducerEpoch, record: Record) -> ProducerEpoch:
        """Commit a record in a transaction of the driver's own, which no other driver can; return its next identity."""
        coordinator, deadline = coordinator_of(cluster, self._prefix, at), self._deadline(cluster)
        offsets = {self._marker: OffsetAndMetadata(record.epoch + 1, record.text())}
        group = GroupOffsets(cluster, self._prefix, BACKOFF_MS, RETRIES)
        where = Groups(self._prefix, group.coordinator_by, group.forget_coordinator)
        try:
            if not at.implicit:
                coordinator.add_offsets(self._prefix, deadline)
            coordinator.commit_offsets(where, NOBODY, offsets, {}, deadline)
            producer_id, epoch = coordinator.end(True, deadline)
            if (
                producer_id < 0 and coordinator.unanswered
            ):  # a late request would count for the next record's transaction
                return self._renewed(cluster, coordinator, deadline)
        except ENDED_BY_OTHERS as error:
            raise fenced(self._prefix) from error
        return at if producer_id < 0 else replace(at, producer_id=producer_id, epoch=epoch)

    def _renewed(self, cluster: BaseCluster, coordinator: Coordinator, deadline: float) -> ProducerEpoch:
        """Take a new epoch, and have brokers refuse offsets that come late: the next plan would wait for their end."""
        has_sent_offsets = coordinator.has_unanswered_offsets
        at = ProducerEpoch(*coordinator.init(self._options.timeout_ms, deadline, True))
        if has_sent_offsets and not at.implicit:
            coordinator_of(cluster, self._prefix, at).refuse_late((), (self._prefix,), deadline)
        return at

    def _abort_leftovers(self, cluster: BaseCluster) -> None:
        """Abort what attempts of tasks have left open, and that will not be committed: read_committed readers wait for it."""
        found = TransactionsAdmin(cluster).list_transactions(
            states=TransactionState.ONGOING, timeout_ms=LEFTOVERS_MS, raise_errors=False
        )
        for error in found.errors.values():
            if isinstance(error, UnsupportedVersion):
                raise error
            # As of a broker that is gone: what its successor has is aborted by the next plan.
            log.info("not all open transactions could be listed: %s", error.again())
        ids = [one.transactional_id for one in found if is_task_of(self._prefix, one.transactional_id)]
        for transactional_id in ids:
            log.info("transactional id %s: what an attempt has left is aborted", transactional_id)
            coordinator_of(cluster, transactional_id).init(self._options.timeout_ms, self._deadline(cluster), False)


def parts_of(messages: Collection[object]) -> list[Part]:
    """Return the parts of tasks among the messages of tasks; None stands for a task that failed."""
    return [part for message in messages if isinstance(part := getattr(message, "part", None), Part)]
