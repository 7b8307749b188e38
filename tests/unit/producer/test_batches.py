"""Batches of a producer that are split: what other threads see meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.producer import batches
from pykafka.producer.batches import Backlog, MessageBatch
from pykafka.protocol.records_write import RecordBatchBuilder


def test_messages_are_looked_up_while_their_batch_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pure Python the offset of a message whose half was still to come was an IndexError."""
    batch = MessageBatch("t", 0, Backlog(ThreadingHandler().Event(), 10, 10_000, 1), 0.0, lambda: 0)
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
