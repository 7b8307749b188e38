"""`TransactionalEngine`: the engine of a producer for any topic that takes messages within transactions only."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pykafka.common import TopicPartition
from pykafka.exceptions import ProducerPurgedError
from pykafka.producer.engine import ProducerEngine
from pykafka.producer.record_placement import KafkaProducerEngine, Partitioner
from pykafka.transactions.states import State
from pykafka.transactions.transactions import Transactions

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.options import KafkaProducerOptions
    from pykafka.transactions.states import TransactionalWindow


class TransactionalEngine(KafkaProducerEngine):
    """A `KafkaProducerEngine` whose accumulator is open within a transaction only."""

    def __init__(self, cluster: BaseCluster, options: KafkaProducerOptions, partitioner: Partitioner | None) -> None:
        super().__init__(cluster, options, partitioner)
        assert options.transactional_id is not None
        self.transactions = Transactions(
            self, options.transactional_id, options.transaction_timeout_ms, options.max_block_ms
        )
        self.transaction = self.transactions

    def _start(self) -> None:
        """Start the producer; it takes messages after `open`."""
        super()._start()
        with self.lock:
            self._reopen()

    def open(self) -> None:
        """Accept records: a transaction has begun. The caller holds the lock."""
        self._reopen()

    def _reopen(self) -> None:
        self.accumulator.closed = not self.transactions.status.accepts_records

    def check_running(self) -> None:
        """See `ProducerEngine`; raise if no transaction is open."""
        super().check_running()
        status = self.transactions.status
        if not status.accepts_records:
            raise status.refusal("produce()")

    def raise_failures(self) -> None:
        """See `ProducerEngine`; records are accepted after that if a transaction is open.

        :raises TransactionFatalError: the transaction of what has failed is lost; `stop()` raises it no more
        """
        status = self.transactions.status
        if status.state is State.FATAL:
            with self.lock:
                failed = self.completion.failures.take()
            if failed.count and self.running and not self.stopping:
                raise status.refusal("flush()")
            return
        super().raise_failures()

    @property
    def may_help(self) -> bool:
        """Whether all partitions with messages are in the transaction, or the brokers add them by themselves."""
        status = self.transactions.status
        return status.implicit or self.waiting_partitions() <= status.partitions

    def on_purge(self, count: int) -> None:
        """See `KafkaProducerEngine`; the transaction can only be aborted. A commit may wait for the messages."""
        with self.lock:
            self.transactions.status.fail(
                ProducerPurgedError(f"purge() has dropped {count} messages of the transaction")
            )

    def set_up(self) -> None:
        """Update all topics. None is dropped: its partitions' numbers continue in the same epoch."""
        ProducerEngine.set_up(self)

    def after_fork(self) -> None:
        """See `ProducerEngine`; the transactional id is the parent's."""
        super().after_fork()
        self.transactions.after_fork()

    def waiting_partitions(self) -> set[TopicPartition]:
        """Return the partitions that have messages to send."""
        with self.lock:
            return {
                TopicPartition(*queue.key)
                for owned in self.routing.owned_brokers.values()
                for queue in owned.active.values()
                if queue.waiting
            }

    def continue_numbers(self) -> bool:
        """Number on in the present epoch after an abort; return False if it is not known which batches brokers have."""
        with self.lock:
            windows = [cast("TransactionalWindow", queue.window) for queue in self.routing.queues.values()]
            is_known = not any(window.is_doubtful for window in windows)
            for window in windows if is_known else ():
                window.rewind()
            return is_known

    def drop_queued(self, error: KafkaException) -> int:
        """Fail the batches that are not in flight; return how many are in flight."""
        left: list[ProducerBatch] = []
        on_wire = 0
        with self.lock:
            for queue in self.routing.queues.values():
                for in_flight in list(queue.window.batches):
                    if in_flight.on_wire:
                        on_wire += 1
                    elif in_flight in queue.window.batches:
                        self.transactions.status.broken |= in_flight.numbered
                        left += [one.batch for one in queue.window.drop(in_flight)]
                left += self.take_unsent(queue)
        self.fail_dropped(left, error)
        return on_wire
