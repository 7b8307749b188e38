"""`ProducerView`: a producer's state as its engine keeps it: its report, and why its oldest message is not out. No request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.common import TopicPartition
from pykafka.handlers.whereabouts import stack_of
from pykafka.health.explanation import Reason, Why, connecting, problem_of, reason_of_error, silent
from pykafka.health.report import Problem, ProducerHealth
from pykafka.health.view import Stalled, View

if TYPE_CHECKING:
    from pykafka.producer.accumulator import PartitionQueue
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.engine import ProducerEngine

#: A message of this age that is not out counts as late (s); one that lingers longer only after that.
LATE_S = 5.0


class Oldest(NamedTuple):
    """The oldest batch of a partition, and what knows of it."""

    batch: ProducerBatch
    queue: PartitionQueue
    on_wire: bool


class ProducerView(View):
    """A producer as reports see it. It takes no lock of the handler's, so that a native thread may use it.

    :param producer: a `KafkaProducer`, or one of PyKafka 2
    """

    def __init__(self, producer: Any, _: object = None) -> None:
        self.engine: ProducerEngine = producer._engine
        self._transactions: Any = getattr(producer, "_transactions", None)  # PyKafka 2 has none
        self.now: float = self.engine.handler.now()
        self.oldest = self._find_oldest()

    @property
    def name(self) -> str:
        """The producer's name, for texts."""
        named = "" if self._transactions is None else f", transactional id {self._transactions.transactional_id!r}"
        return f"producer to {self.engine.name}{named}"

    @property
    def age(self) -> float | None:
        """The age of the oldest message (s); None if there is none."""
        oldest = min(self.oldest, key=_created, default=None)
        return None if oldest is None else max(self.now - oldest.batch.created, 0.0)

    def _find_oldest(self) -> list[Oldest]:
        """Return the oldest batch of each partition that has one. Copies of queues are single steps."""
        found = []
        for owner in list(self.engine.routing.owned_brokers.values()):
            for queue in list(owner.active.values()):
                in_flight = queue.window.batches.copy()
                first = in_flight[0].batch if in_flight else None  # None: it is complete by now
                if first is not None:
                    found.append(Oldest(first, queue, bool(in_flight[0].on_wire)))
                    continue
                closed, batch = queue.closed_batches.copy(), queue.open
                if closed:
                    found.append(Oldest(closed[0], queue, False))
                elif batch is not None and batch.count:
                    found.append(Oldest(batch, queue, False))
        return found

    def report(self) -> ProducerHealth:
        """Return the report of the producer."""
        engine, oldest = self.engine, min(self.oldest, key=_created, default=None)
        owners = list(engine.routing.owned_brokers.values())
        transactions = self._transactions
        return ProducerHealth(
            problems=tuple(self._problems()),
            name=engine.name,
            queued_messages=sum(owner.broker_queue.messages for owner in owners),
            queued_bytes=sum(owner.broker_queue.bytes for owner in owners),
            buffer_limit_bytes=engine.buffer_pool.limit,
            oldest_s=self.age,
            oldest_partition=None if oldest is None else about(oldest),
            transactional_id=None if transactions is None else transactions.transactional_id,
            transaction=None if transactions is None else transactions.status.state.name.lower(),
        )

    def _problems(self) -> list[Problem]:
        whole = self.whole()
        found = [] if whole is None or whole.is_fine else [problem_of(whole, "the producer", None)]
        for oldest in self.oldest:
            age = self.now - oldest.batch.created
            if age < LATE_S + self.engine.options.linger_s:
                continue
            reason = self.reason(oldest)
            if not reason.is_fine and (whole is None or reason.text != whole.text):
                found.append(problem_of(reason, about(oldest), age))
        return found

    def stalls(self, threshold_s: float) -> Iterable[tuple[object, Stalled]]:
        """Return the partitions whose oldest message is so old (s), beyond what it may linger."""
        for oldest in self.oldest:
            seconds = self.now - oldest.batch.created
            if seconds >= threshold_s + self.engine.options.linger_s:
                reason = self.reason(oldest)
                if self.engine.completion.callbacks.full and (whole := self.whole()) is not None:
                    reason = whole
                yield about(oldest), Stalled(self.name, *oldest.queue.key, seconds, reason.why, str(reason))

    # -- reasons ---------------------------------------------------------------------------------------------------

    def whole(self) -> Reason | None:
        """Return what concerns the producer as a whole; None for nothing."""
        engine = self.engine
        ended = engine.worker_exception
        if ended is not None:
            text = f"a sender has ended by {type(ended).__name__}: {ended}"
            return Reason(Why.WORKER_ENDED, text, "close the producer and make another", True)
        if not engine.running and not engine.starts.due:
            return Reason(Why.CLOSED, "the producer is closed", "make another")
        transactions = self._transactions
        if transactions is not None and transactions.status.state.name == "FATAL":
            text = f"its transactions have ended for good: {transactions.status.reason}"
            return Reason(Why.TRANSACTION, text, "close the producer and make another", True)
        callbacks = engine.completion.callbacks
        if callbacks.full:
            stack = stack_of(callbacks.worker_mark)
            text = f"{callbacks.messages} messages wait for on_delivery, so produce() waits"
            return Reason(
                Why.HELD, text + (f" (its worker is at {stack})" if stack else ""), "have on_delivery return sooner"
            )
        pools = [pool for pool in (engine.buffer_pool, engine.buffer_pool.shared) if pool is not None]
        if any(pool.waiting for pool in pools):
            return Reason(
                Why.BUFFERS_FULL,
                f"produce() waits for room: {engine.buffer_pool.used} of {engine.buffer_pool.limit} bytes are queued",
                "produce more slowly, or raise buffer_memory; the lines of partitions say why they are not out",
            )
        return None

    def reason(self, oldest: Oldest) -> Reason:
        """Return why the oldest message of a partition is not acknowledged yet."""
        engine, batch, queue = self.engine, oldest.batch, oldest.queue
        if engine.worker_exception is not None and (whole := self.whole()) is not None:
            return whole
        partition = queue.partition
        if partition is None:
            return self._metadata(f"metadata does not know {about(oldest)}")
        if partition.leader is None:
            return Reason(Why.NO_LEADER, "no broker leads it", "start the brokers that have its replicas")
        broker = partition.leader
        throttled = broker.throttled_for("produce")
        if throttled > 0:
            text = f"broker {broker.id} ({broker.address}) throttles this client for {throttled * 1000:.0f} ms more"
            return Reason(Why.THROTTLED, text, "raise its quota, or send less")
        channel = broker.find_channel("produce")
        error = None if channel is None else channel.last_error
        if error is not None:
            return reason_of_error(error)
        if oldest.on_wire:  # what an earlier attempt has failed by is over
            owed, age = 0.0 if channel is None else channel.silent_for(), self.now - batch.created
            if owed > LATE_S / 2:
                return silent(broker, owed)
            if channel is not None and channel.is_connecting and age > LATE_S:
                return connecting(broker, age)
            return Reason(Why.IN_FLIGHT, f"sent to broker {broker.id} ({broker.address}), which has not answered yet")
        if batch.last_error is not None:
            return reason_of_error(batch.last_error)
        if engine.routing.stale and engine.cluster.metadata_error is not None:
            return self._metadata("no broker gives metadata")
        return self._own(batch)

    def _own(self, batch: ProducerBatch) -> Reason:
        """Return why this client keeps a batch back."""
        engine, transactions = self.engine, self._transactions
        if transactions is not None and transactions.status.reason is not None:
            text = f"the transaction has failed: {transactions.status.reason}"
            return Reason(Why.TRANSACTION, text, "abort it")
        left = batch.created + engine.options.linger_s - self.now
        if left > 0:
            return Reason(Why.LINGER, f"waits for others for {left * 1000:.0f} ms more (linger_ms)", "call flush()")
        return Reason(Why.IN_FLIGHT, "about to be sent")

    def _metadata(self, text: str) -> Reason:
        error = self.engine.cluster.metadata_error
        if error is None:
            return Reason(Why.NO_LEADER, text, "wait for the answer of a broker, or create the partition")
        return reason_of_error(error)


def about(oldest: Oldest) -> str:
    """Return the partition of a batch as "topic-0"."""
    return str(TopicPartition(*oldest.queue.key))


def _created(oldest: Oldest) -> float:
    return oldest.batch.created
