"""Batches of a producer that are split: what other threads see meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.producer import batch as batches
from pykafka.producer.accumulator import PartitionQueue, RecordAccumulator
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.protocol.records_write import RecordBatchBuilder


def test_messages_are_looked_up_while_their_batch_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pure Python the offset of a message whose half was still to come was an IndexError."""
    batch = ProducerBatch("t", 0, BrokerQueue(ThreadingHandler().Event(), 10, 10_000, 1), 0.0, lambda: 0)
    for number in range(10):
        batch.builder.append(1, None, b"%d" % number, None)
        batch.count += 1
    seen: list[Any] = []

    class Meanwhile:
        def __init__(self, *args: Any) -> None:
            self.builder = RecordBatchBuilder(*args)

        def append(self, *args: Any) -> int:
            seen.extend((batch.offset_of(index), batch.error_of(index)) for index in range(10))
            return self.builder.append(*args)

    # where it is compiled, nobody comes in between
    monkeypatch.setattr(batches, "RecordBatchBuilder", Meanwhile, raising=False)
    parts = batch.split()
    assert set(seen) <= {(-1, None)}
    assert batch.parts == parts
    parts[0].base_offset, parts[1].base_offset = 100, 105
    assert [batch.offset_of(index) for index in range(10)] == list(range(100, 110))


@pytest.mark.parametrize("written", [False, True])
def test_a_partition_is_left_without_an_open_batch_in_one_step(written: bool) -> None:
    """An `append` between a look at the batch and its removal wrote a message that nobody sent."""
    handler = ThreadingHandler()
    accumulator, queue = RecordAccumulator(handler, 1000), PartitionQueue(0, "t")
    accumulator.closed = False
    queue.open = batch = ProducerBatch("t", 0, BrokerQueue(handler.Event(), 10, 10_000, 1), 0.0, lambda: 0)
    if written:
        assert accumulator.append(b"v", None, -1, None, queue, None) is not None
        assert not accumulator.shut_empty(queue)
        assert queue.open is batch
    assert accumulator.shut(queue) is (batch if written else None)
    left: Any = queue.open
    assert left is None
    assert accumulator.shut_empty(queue)
    assert accumulator.append(b"v", None, -1, None, queue, None) is None


def test_a_topic_that_is_no_text_is_left_to_the_way_that_refuses_it() -> None:
    accumulator = RecordAccumulator(ThreadingHandler(), 1000)
    accumulator.closed = False
    topics: list[Any] = [["t"], {}, b"t", None]
    for topic in topics:
        assert accumulator.send(topic, b"v", None, -1, None, -1, None, b"v", None) is None
