"""The loops whose instructions are counted; `benchmarks.instructions` runs them under callgrind.

Each loop runs twice, for N messages and for three times as many, with a call of getsid() before, between and after,
at which callgrind writes its counts. The difference of the two leaves out a loop's fixed cost.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from benchmarks.job import payloads
from pykafka.consumer.arrow import ArrowDecoder
from pykafka.consumer.buffers import Buffers, OwnedPartition
from pykafka.handlers import ThreadingHandler
from pykafka.producer.accumulator import PartitionQueue, RecordAccumulator, TopicInfo
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.producer.delivery import call_each
from pykafka.producer.delivery_callbacks import Callback
from pykafka.protocol.records import RecordBatchBuilder, scan

if TYPE_CHECKING:
    from pykafka.metadata.partition import TopicView

#: Messages of the first time and of the second.
FEW, MANY = 1500, 4500
SIZE = 100
BATCH = 500
Loop = Callable[[int], None]

VALUES = payloads(SIZE)[:BATCH]
PARTITIONS = 3


def sealed(codec: int = 0) -> bytes:
    """Return a record batch."""
    builder = RecordBatchBuilder()
    for value in VALUES:
        builder.append(1_700_000_000_000, None, value, None)
    return b"".join(bytes(part) for part in builder.build(codec))


BATCH_BYTES = sealed()


def encode(messages: int) -> None:
    """Append to batches, and nothing else."""
    for _ in range(messages // BATCH):
        builder = RecordBatchBuilder()
        for value in VALUES:
            builder.append(1_700_000_000_000, None, value, None)


def seal(messages: int) -> None:
    """Seal batches."""
    builder = RecordBatchBuilder()
    for value in VALUES:
        builder.append(1_700_000_000_000, None, value, None)
    for _ in range(messages // BATCH):
        builder.build(0)


def decode(messages: int) -> None:
    """Find and open batches, and create messages of their records."""
    for _ in range(messages // BATCH):
        reader = scan(BATCH_BYTES)[0][0].open()
        while reader.next() is not None:
            pass


def arrow(messages: int) -> None:
    """Open batches, and create Arrow columns of their records."""
    _arrow(ArrowDecoder("topic", 0), messages)


def arrow_value_offset(messages: int) -> None:
    """Open batches, and create Arrow columns of their values and offsets."""
    _arrow(ArrowDecoder("topic", 0, ("value", "offset")), messages)


def _arrow(decoder: ArrowDecoder, messages: int) -> None:
    for _ in range(messages // BATCH):
        for _batch in decoder.decode(scan(BATCH_BYTES)[0]):
            pass


def produce(messages: int) -> None:
    """Append to the open batches of three partitions like a producer, and seal full ones."""
    handler = ThreadingHandler()
    backlog = BrokerQueue(handler.Event(), 10**9, 10**12, 10**9)
    accumulator = RecordAccumulator(handler, 10**6)
    accumulator.queues = [PartitionQueue(number) for number in range(PARTITIONS)]
    accumulator.closed = False
    left = messages
    while left:
        for queue in accumulator.queues:
            queue.open = ProducerBatch("topic", queue.partition_id, backlog, 0.0, None)
        for value in VALUES:
            accumulator.append(value, None, -1, None, None, None)
        for queue in accumulator.queues:
            batch = accumulator.take_open(queue)
            assert batch is not None
            batch.builder.build(0)
            accumulator.release(batch)
        left -= BATCH


def send(messages: int) -> None:
    """Append messages for a topic like `client.producer()`."""
    _send(messages, None)


def send_callback(messages: int) -> None:
    """Likewise with a callback each, and call these."""
    _send(messages, Callback(lambda error, delivery: None))


def _send(messages: int, told: Callback | None) -> None:
    handler = ThreadingHandler()
    backlog = BrokerQueue(handler.Event(), 10**9, 10**12, 10**9)
    accumulator = RecordAccumulator(handler, 10**6)
    queue, route = PartitionQueue(0, "topic"), TopicInfo(cast("TopicView", SimpleNamespace(name="topic")))
    route.queues, route.current = [queue], queue
    accumulator.topics["topic"], accumulator.closed = route, False
    for _ in range(messages // BATCH):
        queue.open = ProducerBatch("topic", 0, backlog, 0.0, None)
        for value in VALUES:
            accumulator.send("topic", value, None, -1, None, -1, told, value, None)
        batch = accumulator.take_open(queue)
        assert batch is not None
        batch.done = True
        if told is not None:
            call_each(SimpleNamespace(at=0), batch.reports, batch.contexts, BATCH, batch.error_of)
            batch.reports = []
        accumulator.release(batch)


def _partition(number: int) -> Any:
    return SimpleNamespace(id=number, topic_name="topic")


def _rounds(messages: int, records: bool = False) -> Iterator[Buffers]:
    # Buffers with a batch of each partition in them, as often as it takes.
    handler = ThreadingHandler()
    buffers = Buffers(handler, 10**9, records)
    buffers.closed = False
    some = [OwnedPartition(_partition(number), buffers, 10**9, 10**9) for number in range(PARTITIONS)]
    for _ in range(messages // (PARTITIONS * BATCH)):
        for owned in some:
            buffers.put(owned, owned.epoch, [scan(BATCH_BYTES)[0][0].open()])
        yield buffers


def consume(messages: int) -> None:
    """Return fetched messages of three partitions, one at a time."""
    for buffers in _rounds(messages):
        for _ in range(PARTITIONS * BATCH):
            assert buffers.next() is not None


def consume_batch(messages: int) -> None:
    """Return fetched messages of three partitions, a batch at a time."""
    for buffers in _rounds(messages):
        for _ in range(PARTITIONS):
            assert len(buffers.take(BATCH)) == BATCH


def records(messages: int) -> None:
    """Return fetched records of three partitions, one at a time."""
    for buffers in _rounds(messages, records=True):
        for _ in range(PARTITIONS * BATCH):
            assert buffers.next() is not None


def records_poll(messages: int) -> None:
    """Return fetched records of three partitions, a list at a time."""
    for buffers in _rounds(messages, records=True):
        for _ in range(PARTITIONS):
            assert len(buffers.take(BATCH)) == BATCH


LOOPS: dict[str, Loop] = {
    "encode": encode,
    "seal": seal,
    "decode": decode,
    "arrow": arrow,
    "arrow-value-offset": arrow_value_offset,
    "produce": produce,
    "send": send,
    "send-callback": send_callback,
    "consume": consume,
    "consume-batch": consume_batch,
    "records": records,
    "records-poll": records_poll,
}


def main() -> None:
    """Run all loops, with marks around them."""
    gc.disable()
    for loop in LOOPS.values():
        loop(FEW)  # caches and specialised bytecode
        for messages in (FEW, MANY):
            os.getsid(0)
            loop(messages)
        os.getsid(0)


if __name__ == "__main__":
    main()
