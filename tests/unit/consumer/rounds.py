"""Shared by tests of buffers: cursors over records whose values are their offsets, and a consumer's round of partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pykafka.consumer.buffers import Buffers, OwnedPartition
from pykafka.handlers import Handler
from pykafka.protocol.records import BatchReader, RecordBatchBuilder, scan

MANY = 1 << 30


def readers(*counts: int, start: int = 0, size: int = 10, partition: int = 0) -> list[BatchReader]:
    """Make a cursor for each count, over records whose values are their offsets."""
    found = []
    for count in counts:
        builder = RecordBatchBuilder()
        for number in range(count):
            builder.append(1, None, b"%0*d" % (size, start + number), None)
        data = bytearray(b"".join(builder.build(0)))
        data[:8] = start.to_bytes(8, "big")
        (raw,), _ = scan(bytes(data))
        reader = raw.open()
        reader.partition_id = partition
        found.append(reader)
        start += count
    return found


class Round:
    """The buffers of one consumer with some partitions."""

    def __init__(self, handler: Handler, partitions: int = 1, max_bytes: int = MANY, listener: Any = None) -> None:
        self.buffers = Buffers(handler, max_bytes, listener=listener)
        self.buffers.closed = False
        self.owned = [
            OwnedPartition(SimpleNamespace(id=id_, topic_name="t"), self.buffers, 2000, 1024)  # type: ignore[arg-type]
            for id_ in range(partitions)
        ]
        for owned in self.owned:
            self.buffers.move(owned, 0, -1)

    def put(self, id_: int, *counts: int, start: int = 0, size: int = 10) -> None:
        owned = self.owned[id_]
        assert self.buffers.put(owned, owned.epoch, readers(*counts, start=start, size=size, partition=id_))

    def take(self, limit: int) -> list[tuple[int, int]]:
        return [(message.partition_id, message.offset) for message in self.buffers.take(limit)]
