"""Rows of Arrow batches to record batches of Kafka: chooses each row's partition, and appends its bytes to that batch.

Cython compiles this module if the .pxd beside it was built: one call per Arrow batch and topic, and no Python object per
row except its key and value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pykafka.protocol.records_write import LEAST_BATCH, MAX_BATCH, RecordBatchBuilder, likely_size
from pykafka.spark.errors import SinkError
from pykafka.utils.murmur2 import partition_for

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    from pykafka.compiled.cython import PyBytes_FromStringAndSize

Headers = list[tuple[str, bytes | None]]

#: Rows without a key go to one partition for so many bytes: batches of many rows cost everybody less.
STICKY_BYTES = 64 * 1024
#: The largest overhead of a record beyond key and value: six variable-length numbers and its attributes.
RECORD_OVERHEAD = 36


class BytesColumn:
    """An Arrow array of strings or binary, which creates an object for a row only on request.

    :param buffers: validity (or None), 32-bit offsets and data, as Array.buffers() gives them
    :param first: the array's offset into them
    """

    __slots__ = ("_data", "_first", "_offsets", "_valid", "_with_nulls")

    def __init__(self, buffers: Sequence[Any], first: int) -> None:
        validity, offsets, data = buffers
        self._with_nulls = validity is not None
        self._valid = memoryview(validity if validity is not None else b"\x00").cast("B")
        # An empty array may have no offsets, and an array of empty or null values no data.
        self._offsets = memoryview(offsets if offsets is not None and len(offsets) else bytes(4)).cast("B").cast("i")
        self._data = memoryview(data if data is not None and len(data) else b"\x00").cast("B")
        self._first = first

    def get(self, row: int) -> bytes | None:
        """Return the bytes of a row, or None."""
        row += self._first
        if self._with_nulls and not self._valid[row >> 3] >> (row & 7) & 1:
            return None
        found: bytes
        start = self._offsets[row]
        if cython.compiled:
            base = cython.cast("const char*", cython.address(self._data[0]))
            found = PyBytes_FromStringAndSize(base + start, self._offsets[row + 1] - start)
        else:
            found = bytes(self._data[start : self._offsets[row + 1]])
        return found


class TopicBatches:
    """The open record batches of one topic, at most one per partition.

    Set `cut_bytes` if the topic takes smaller batches than `max_bytes`; a single row may be larger than that.

    :param topic: name
    :param partitions: number of partitions of the topic
    :param max_bytes: the largest batch
    :param emit: called with (topic, partition, builder) for a full batch
    :param sticky: the first partition for rows without a key
    """

    __slots__ = (
        "_builders",
        "_emit",
        "_expected",
        "_max_bytes",
        "_sticky",
        "_sticky_until",
        "cut_bytes",
        "partitions",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partitions: int,
        max_bytes: int,
        emit: Callable[[str, int, RecordBatchBuilder], None],
        sticky: int = 0,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self._max_bytes = self.cut_bytes = max_bytes
        self._emit = emit
        self._sticky = sticky % partitions
        self._sticky_until = STICKY_BYTES
        self._builders: list[RecordBatchBuilder | None] = [None] * partitions
        self._expected = [LEAST_BATCH] * partitions

    def append(
        self,
        rows: Sequence[int],
        timestamp: int,
        keys: BytesColumn | None,
        values: BytesColumn,
        headers: Sequence[Headers | None] | None,
        partitions: Sequence[int | None] | None,
    ) -> None:
        """Append rows to the batches of their partitions; emit batches that have no room for the next row.

        :param rows: indexes of the rows to add
        :param timestamp: the time of all of them (ms since 1970)
        :param keys: the keys of all rows, or None for no keys
        :param values: the values of all rows
        :param headers: the headers of all rows, or None for none
        :param partitions: the partitions of all rows; None, for all or for a row: the key decides
        :raises SinkError: a row is larger than a batch may be, or its partition does not exist
        """
        for row in rows:
            key = keys.get(row) if keys is not None else None
            value = values.get(row)
            header = headers[row] if headers is not None else None
            size = RECORD_OVERHEAD + (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
            if header:
                size += headers_size(header)
            wanted = partitions[row] if partitions is not None else None
            if wanted is not None:
                partition = self._checked(wanted)
            elif key is not None:
                partition = partition_for(key, self.partitions)
            else:
                partition = self._without_key(size)
            builder = self._builders[partition]
            if builder is not None and builder.size + size > self.cut_bytes:
                self._close(partition, builder)
                builder = None
            if builder is None:
                builder = self._open(partition, size)
            builder.append(timestamp, key, value, header)

    def flush(self, min_bytes: int = 0) -> int:
        """Emit the open batches of at least `min_bytes`; return the bytes of the batches that stay open."""
        left = 0
        for partition, builder in enumerate(self._builders):
            if builder is None:
                continue
            if builder.size >= min_bytes:
                self._close(partition, builder)
            else:
                left += builder.size
        return left

    def _close(self, partition: int, builder: RecordBatchBuilder) -> None:
        self._builders[partition] = None
        self._expected[partition] = likely_size(builder.size)
        self._emit(self.topic, partition, builder)

    def _open(self, partition: int, size: int) -> RecordBatchBuilder:
        if size + 61 > self._max_bytes:
            raise SinkError(
                f"a row takes {size} bytes, more than the {self._max_bytes} of option 'kafka.max.request.size'; raise "
                "it, and max.message.bytes of the topic with it",
                topic=self.topic,
                partition=partition,
            )
        builder = self._builders[partition] = RecordBatchBuilder(None, MAX_BATCH, self._expected[partition])
        return builder

    def _checked(self, partition: int) -> int:
        if not 0 <= partition < self.partitions:
            raise SinkError(
                f"the column 'partition' has {partition}, but the topic has partitions 0 to {self.partitions - 1}; "
                "correct it, or make it null to have the partition chosen by the key",
                topic=self.topic,
            )
        return partition

    def _without_key(self, size: int) -> int:
        self._sticky_until -= size
        if self._sticky_until < 0:
            self._sticky_until = STICKY_BYTES
            self._sticky = (self._sticky + 1) % self.partitions
        return self._sticky


def headers_size(headers: Headers) -> int:
    """Return an upper bound of the headers' size in a record (bytes)."""
    size = 0
    for name, value in headers:
        size += 10 + 4 * len(name) + (len(value) if value is not None else 0)
    return size
