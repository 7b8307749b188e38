"""Programs that write: `Producing` with sequence numbers or without, `Transacting` in transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pykafka.client import KafkaClient
from pykafka.exceptions import (
    DeliveryUnknownError,
    KafkaException,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionFatalError,
    TransactionStateError,
    TransactionUnfinishedError,
    UnknownTopicOrPartition,
)
from pykafka.testing.history import (
    AbortTransaction,
    BeginTransaction,
    CommitTransaction,
    OpenProducer,
    Operation,
    Send,
)
from pykafka.testing.simulation.world import CALL_MS, CONNECT_MS, World

#: How long `produce()` may wait (ms).
BLOCK_MS = 3_000
#: How long a transaction may be open (ms).
TRANSACTION_MS = 20_000
#: The pause between records of a burst (s): shorter than an answer takes. Nothing lingers there, so each has its own batch.
BURST_S = 0.0003
_COMMITS = 20
#: How likely a program closes its producer after a commit without a clear end (0 to 1).
LEAVES = 0.3
#: How many records a program sends after the last fault, and how long it waits between them (s).
CALM_RECORDS, CALM_PAUSE_S = 3, 0.2


#: How late a message is reported that has failed by its delivery timeout (ms).
REPORT_MS = 200


def delivery_ms(world: World) -> int:
    """Return how long a message may take (ms): its delivery timeout, and what its report takes then."""
    return world.delivery_ms + REPORT_MS


class Producing:
    """A program that sends records one by one, at random times, to random partitions of one topic.

    :param count: how many
    :param lasts_ms: about how long that takes (ms)
    :param bursts: how likely a record follows the one before at once (0 to 1)
    :param remembered: brokers remember its numbers; else they may store a record twice, which is no fault of the producer's
    :param options: of its producer
    """

    def __init__(
        self,
        world: World,
        name: str,
        topic: str,
        count: int,
        lasts_ms: int,
        bursts: float = 0.0,
        remembered: bool = True,
        **options: Any,
    ) -> None:
        self.world = world
        self.name = name
        self.topic = topic
        self.count = count
        self.pause_s = lasts_ms / 1000 / count
        self.options: dict[str, Any] = {
            "linger_ms": 2,
            "delivery_timeout_ms": world.delivery_ms,
            "max_block_ms": BLOCK_MS,
        }
        if bursts:
            self.options["linger_ms"] = 0
        self.options |= {"retry_backoff_ms": 50, "retry_backoff_max_ms": 400, **options}
        self.random = world.random(name)
        self.bursts = bursts
        # Without acknowledgements of all replicas a producer has no sequence numbers.
        self.is_idempotent = options.get("enable_idempotence") is not False and "acks" not in options
        self.is_remembered = remembered
        #: How many partitions the topic has, as far as it knows, and whether it has to count them.
        self.partitions, self._must_count = 0, True
        self._pending: dict[bytes, tuple[Operation, Send]] = {}

    @property
    def is_durable(self) -> bool:
        """Whether acknowledged records survive elections that are clean: with acks=1, if no leader is ever cut off."""
        return self._awaits_replicas or not self.world.stale_ms

    @property
    def _awaits_replicas(self) -> bool:
        return bool(self.options.get("acks", "all") == "all")

    def run(self) -> None:
        """Send all records, by one producer after another."""
        with self.world.client(self.name) as client:
            if client is None:
                return
            while self.count > 0 and self._knows_partitions(client) and not self.world.stopping.is_set():
                self.work(client)

    def _knows_partitions(self, client: KafkaClient) -> bool:
        """Count the partitions at first, and when one was not there: a topic that is made anew may have fewer."""
        if self._must_count:
            count = self._count_partitions(client)
            if count is None:
                return False
            self.partitions, self._must_count = count, False
        return True

    def _count_partitions(self, client: KafkaClient) -> int | None:
        """Return the number of partitions; None if the simulation ends before the client could ask for it."""
        while not self.world.stopping.is_set():
            count = self.world.call(
                self.name, "count partitions", lambda: len(client.topics[self.topic].partitions), CONNECT_MS
            )
            if count is not None:
                return count
            self.world.pause()
        return None

    def open(self, client: KafkaClient) -> Any:
        """Make a producer."""
        ordered = self._awaits_replicas and self.is_remembered
        self.world.history.note(
            self.name,
            OpenProducer(self.is_idempotent and self.is_remembered, self.is_durable, ordered=ordered),
        )
        return client.producer(on_delivery=self._delivered, **self.options)

    def work(self, client: KafkaClient) -> None:
        """Send some records by one producer."""
        producer = self.open(client)
        try:
            for _ in range(self.random.randrange(self.count) + 1):
                self.send(producer)
                self.rest()
                if self.world.stopping.is_set() or not self._knows_partitions(client):
                    break
            if self.count <= 0 and self.world.await_calm():
                for _ in range(CALM_RECORDS):
                    if self._knows_partitions(client):
                        self.send(producer)
                    self.rest()
        finally:
            self.world.call(self.name, "close producer", lambda: producer.close(CALL_MS / 1000))

    def rest(self) -> None:
        """Wait between two records: in a burst so short that each still has a batch of its own."""
        in_burst = self.random.random() < self.bursts
        pause_s = min(self.pause_s, CALM_PAUSE_S) if self.world.calm.is_set() else self.pause_s
        self.world.handler.sleep(BURST_S if in_burst else self.random.random() * 2 * pause_s)

    def send(self, producer: Any) -> int | None:
        """Send a record, whose end comes later; return its value, or None if it was refused."""
        self.count -= 1
        return self.send_to(producer, self.random.randrange(self.partitions))

    def send_to(self, producer: Any, partition: int, cause: int | None = None) -> int | None:
        """Send a record to a partition, as `send`.

        :param cause: the value of the record that it results from
        """
        value = self.world.new_value()
        if cause is not None:
            self.world.causes[value] = cause
        sent = self.aim(value, partition, cause)
        begun = self.world.history.invoke(self.name, sent, BLOCK_MS + delivery_ms(self.world))
        payload = self.payload(value)
        self._pending[payload] = begun, sent
        try:
            self.put(producer, payload, sent)
        except KafkaException as error:
            del self._pending[payload]
            self.world.history.fail(begun, type(error).__name__)
            self._must_count = isinstance(error, UnknownTopicOrPartition)
            return None
        return value

    def aim(self, value: int, partition: int, cause: int | None) -> Send:
        """Return what is sent.

        :param partition: that was drawn
        """
        return Send(self.topic, value, partition, cause=cause)

    def payload(self, value: int) -> bytes:
        """Return a value as the bytes of a record."""
        return b"%d" % value

    def put(self, producer: Any, payload: bytes, sent: Send) -> None:
        """Produce a record."""
        producer.produce(self.topic, payload, partition=sent.partition)

    def _delivered(self, error: Exception | None, delivery: Any) -> None:
        begun, sent = self._pending.pop(delivery.value)
        history, value = self.world.history, sent.value
        if error is None:
            offset = delivery.offset if delivery.offset >= 0 else None
            history.ok(begun, replace(sent, partition=delivery.partition, offset=offset))
            self.delivered(value)
        # One that its transaction has taken back may be in the log, as an aborted one.
        elif isinstance(error, (DeliveryUnknownError, TransactionAbortedError)) or not self.is_idempotent:
            history.unknown(begun, type(error).__name__)
        else:
            history.fail(begun, type(error).__name__)

    def delivered(self, value: int) -> None:
        """Note a value that has to be read in the end."""
        if self.is_durable:
            self.world.acknowledge(self.topic, [value])


class Transacting(Producing):
    """A program that sends records in transactions, and aborts some of them."""

    def __init__(self, world: World, name: str, topic: str, count: int, lasts_ms: int) -> None:
        super().__init__(
            world, name, topic, count, lasts_ms, transactional_id=name, transaction_timeout_ms=TRANSACTION_MS
        )
        #: Whether it closes its producer after a commit of unknown outcome, instead of trying again.
        self._leaves = False

    def delivered(self, value: int) -> None:
        """Wait for the commit."""

    def work(self, client: KafkaClient) -> None:
        """Make transactions, until the producer can make no more."""
        producer = self.open(client)
        try:
            self._leaves = False
            self._transactions(producer)
            if self.count <= 0 and not self._leaves and self.world.await_calm():
                self.count = CALM_RECORDS
                self._transactions(producer)
        except TransactionFatalError:
            pass  # another producer goes on
        finally:
            self.world.call(self.name, "close producer", lambda: producer.close(CALL_MS / 1000))

    def begin(self, producer: Any) -> bool:
        """Begin a transaction; return whether it has begun."""
        history = self.world.history
        begun = history.invoke(self.name, BeginTransaction(), CALL_MS)
        try:
            producer.begin_transaction(CALL_MS / 1000)
        except KafkaException as error:
            history.fail(begun, type(error).__name__)
            if isinstance(error, TransactionFatalError):
                raise
            self.world.pause()
            return False
        history.ok(begun)
        return True

    def _transactions(self, producer: Any) -> None:
        """Make transactions until all records are sent, or it is time for another producer."""
        while self.count > 0 and not self.world.stopping.is_set() and not self._leaves:
            self._transaction(producer)

    def _transaction(self, producer: Any) -> None:
        if not self.begin(producer):
            return
        size = min(self.count, self.random.randint(1, 5))
        values = [self._one(producer) for _ in range(size)]
        if None in values or self.random.random() < 0.2:
            self.abort(producer)
        elif self.commit(producer):
            self.world.acknowledge(self.topic, filter(None, values))

    def _one(self, producer: Any) -> int | None:
        self.rest()
        return self.send(producer)

    def commit(self, producer: Any) -> bool:
        """Commit the transaction; return whether it is known to be committed."""
        history = self.world.history
        for _ in range(_COMMITS):
            begun = history.invoke(self.name, CommitTransaction(), CALL_MS)
            try:
                producer.commit_transaction(self.world.commit_ms / 1000)
            except TransactionAbortableError as error:
                history.fail(begun, type(error).__name__)
                self.abort(producer)
                return False
            except KafkaException as error:
                history.unknown(begun, type(error).__name__)
                if isinstance(error, TransactionFatalError):
                    raise
                self._leaves = self.random.random() < LEAVES
                if self._leaves or not isinstance(error, TransactionUnfinishedError) or not self.world.pause():
                    return False
            else:
                history.ok(begun)
                return True
        return False

    def abort(self, producer: Any) -> None:
        """Abort the transaction."""
        begun = self.world.history.invoke(self.name, AbortTransaction(), CALL_MS)
        try:
            producer.abort_transaction(CALL_MS / 1000)
        except TransactionStateError as error:
            self.world.history.fail(begun, type(error).__name__)
        except KafkaException as error:
            self.world.history.unknown(begun, type(error).__name__)
            if isinstance(error, TransactionFatalError):
                raise
        else:
            self.world.history.ok(begun)
