"""`Varying`: a producer of records of all sizes, with keys, codecs and partitioners; `Bounded` reads in little memory."""

from __future__ import annotations

from random import Random
from typing import Any

from pykafka.client import KafkaClient
from pykafka.common import CompressionType
from pykafka.partitioners import Murmur2Partitioner, RandomPartitioner
from pykafka.testing.history import BufferedBytes, Send
from pykafka.testing.simulation.consumers import Reading
from pykafka.testing.simulation.producers import Producing
from pykafka.testing.simulation.world import BrokenPromiseError, World

#: The sizes of values (bytes).
SIZES = (0, 10, 100, 600)
#: The largest batch that a producer makes (bytes), and the smallest one that there is.
LARGEST_BATCH, SMALLEST_BATCH = 4_096, 61
#: What a consumer counts for a batch besides its bytes: `CURSOR_BYTES` of `consumer/buffers.py`.
CURSOR_BYTES = 256
#: Limits of memory (bytes): of producers, and of consumers.
PRODUCER_BYTES, CONSUMER_BYTES = (1_500, 5_000, 100_000), (1_000, 4_000, 100_000)
#: How likely a reader takes its time before a poll, and how long that is (s).
_SLOW, _SLOW_S = 0.3, 0.5


def draw_options(chance: Random) -> dict[str, Any]:
    """Return options of a producer that decide on the sizes of batches."""
    return {
        "compression": chance.choice([CompressionType.NONE, *CompressionType]),
        "batch_size": chance.choice((200, 1_000, LARGEST_BATCH)),
        "buffer_memory": chance.choice(PRODUCER_BYTES),
        "linger_ms": chance.choice((0, 5, 50)),
    }


class Varying(Producing):
    """A program that sends records of all sizes to one topic, most of them with a key, some to a partition of their own.

    :param has_keys: each record needs a key, as in a compacted topic: those without one are refused
    """

    def __init__(self, world: World, name: str, topic: str, count: int, lasts_ms: int, has_keys: bool) -> None:
        chance = world.random(f"options of {name}")
        partitioner = chance.choice((RandomPartitioner, Murmur2Partitioner))()
        super().__init__(
            world,
            name,
            topic,
            count,
            lasts_ms,
            chance.choice((0.3, 0.9)),
            partitioner=partitioner,
            **draw_options(chance),
        )
        self.has_keys = has_keys
        self.keeps_keys = isinstance(partitioner, Murmur2Partitioner)
        self._by_key: dict[bytes, int] = {}
        self._chosen: set[bytes] = set()
        self._most = 0

    def open(self, client: KafkaClient) -> Any:
        """Make a producer."""
        self._most = 0
        return super().open(client)

    def payload(self, value: int) -> bytes:
        """Return a value as bytes: a number, and blanks."""
        return (b"%d" % value).ljust(self.random.choice(SIZES))

    def put(self, producer: Any, payload: bytes, sent: Send) -> None:
        """Produce a record, and look how much memory the producer takes."""
        try:
            if sent.partition is not None:
                self._chosen.add(payload)
            key = sent.key.encode() or None
            producer.produce(self.topic, payload, key=key, partition=sent.partition)
        finally:
            pool = producer._engine.buffer_pool
            if pool.used > self._most:
                self._most = pool.used
                self.world.history.note(self.name, BufferedBytes("messages", pool.used, pool.limit))

    def aim(self, value: int, partition: int, cause: int | None) -> Send:
        """Return what is sent: most records leave the choice of their partition to the partitioner."""
        drawn = self.random.random()
        key = f"k{self.random.randrange(5)}" if drawn > (0.1 if self.has_keys else 0.4) else ""
        return Send(self.topic, value, partition if self.random.random() < 0.3 else None, key=key, cause=cause)

    def _delivered(self, error: Exception | None, delivery: Any) -> None:
        super()._delivered(error, delivery)
        if error is None and delivery.key is not None and self.keeps_keys and delivery.value not in self._chosen:
            before = self._by_key.setdefault(delivery.key, delivery.partition)
            if before != delivery.partition:
                text = f"the key {delivery.key!r} of {self.name} went to partitions {before} and {delivery.partition}"
                raise BrokenPromiseError(text)


class Bounded(Reading):
    """A program that reads a topic with little memory, and takes its time now and then."""

    def __init__(self, world: World, name: str, topic: str, committed: bool, seeks: float = 0.0) -> None:
        super().__init__(world, name, topic, committed, seeks)
        limit = self.random.choice(CONSUMER_BYTES)
        self.options |= {
            "queued_max_bytes": limit,
            "max_partition_fetch_bytes": self.random.choice((100, 1_000, 1_048_576)),
            "fetch_min_bytes": self.random.choice((1, 1, 500)),
            # If a fetch takes a message at a time, and waits for more bytes than that, it takes this long for each.
            "fetch_max_wait_ms": 1_000,
        }
        # Each broker's answer may come when there is room yet: a quarter of the limit, or one batch.
        answer = max(limit // 4, LARGEST_BATCH)
        per_broker = answer + answer // SMALLEST_BATCH * CURSOR_BYTES + LARGEST_BATCH
        self._limit = limit + len(world.cluster.broker_ids) * per_broker
        self._most = 0

    def open(self, client: KafkaClient) -> Any:
        """Make a consumer."""
        self._most = 0
        return super().open(client)

    def goes_back(self) -> bool:
        """Return whether it seeks now: not in the calm time, in which it would not come to the end by a record a poll."""
        return not self.world.calm.is_set() and super().goes_back()

    def poll(self, consumer: Any) -> None:
        """Look how much memory the consumer takes, and poll."""
        if self.random.random() < _SLOW:
            self.world.stopping.wait(_SLOW_S)
        held = consumer._engine.buffers.nbytes
        if held > self._most:
            self._most = held
            self.world.history.note(self.name, BufferedBytes("fetched batches", held, self._limit))
        super().poll(consumer)
