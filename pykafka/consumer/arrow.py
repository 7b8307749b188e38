# cython: initializedcheck=False, cdivision=True
"""`ArrowDecoder`: fetched records as Arrow columns, without a Python object per record.

Two passes over the bytes: the first counts rows and bytes up to where a batch is to be cut, the second copies into
buffers of just that size. Compiled, both run without the GIL. Columns that are the same in every row (topic, partition,
timestamp type) are made once and sliced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from struct import pack
from typing import TYPE_CHECKING, Any

from pykafka.protocol.records_read import BatchReader
from pykafka.protocol.records_scan import RawBatch
from pykafka.utils.compression import MAX_UNPACKED

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    from pykafka.compiled.cython import memcpy
    from pykafka.protocol.records_read import get_varint, parse_entry, parse_record

if TYPE_CHECKING:
    import pyarrow as pa

#: Everything that can be asked for, in the order of Spark's own connector.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
#: Offsets within an Arrow column of bytes are signed 32-bit numbers.
LARGEST_BATCH = 2**31 - 2**16
#: Beyond every offset of Kafka.
NO_END = 2**63 - 1

_NO_TYPE = -1
# What 64 bits of microseconds can express (ms).
_LATEST = 9_223_372_036_854_775


def _cells(buffer: Any, code: Any) -> Any:
    return memoryview(buffer).cast("B").cast(code)


class BinaryColumn:
    """A column of bytes: counted first, then filled."""

    __slots__ = ("_buffers", "_data", "_ends", "_row", "_used", "_valid", "nbytes", "nulls", "rows")

    def __init__(self) -> None:
        self.rows = self.nbytes = self.nulls = self._row = self._used = 0
        self._buffers: Any = None

    def count(self, size: int) -> None:
        # A value that is to come; size -1 is a null.
        self.rows += 1
        if size >= 0:
            self.nbytes += size
        else:
            self.nulls += 1

    def put(self, data: Any, at: int, size: int) -> None:
        # One of the values counted. Whoever changes the bytes meanwhile must not make us write elsewhere.
        row = self._row
        used = self._used
        if row >= self.rows or size > self.nbytes - used:
            return
        if size > 0:
            if cython.compiled:
                memcpy(cython.address(self._data[used]), data + at, size)
            else:
                self._data[used : used + size] = data[at : at + size]
            self._used = used + size
        if size >= 0 and self.nulls > 0:
            self._valid[row >> 3] |= 1 << (row & 7)
        self._row = row + 1
        self._ends[row + 1] = self._used

    def allocate(self, pa: Any) -> None:
        ends = pa.allocate_buffer(4 * (self.rows + 1))
        data = pa.allocate_buffer(self.nbytes)
        valid = bytearray((self.rows + 7) // 8) if self.nulls else None
        self._buffers = (valid, ends, data)
        self._ends = _cells(ends, "i")
        self._data = _cells(data, "B")
        self._valid = memoryview(valid or bytearray(1))
        self._ends[0] = 0

    def finish(self, pa: Any, kind: Any) -> Any:
        valid, ends, data = self._buffers
        valid = pa.py_buffer(valid) if self.nulls else None
        return pa.Array.from_buffers(kind, self.rows, [valid, ends, data], self.nulls)


class ListColumn:
    """The headers: a list of (key, value) per row; null for a record without headers."""

    __slots__ = ("_buffers", "_ends", "_row", "_used", "_valid", "keys", "nulls", "rows", "values")

    def __init__(self) -> None:
        self.rows = self.nulls = self._row = self._used = 0
        self.keys = BinaryColumn()
        self.values = BinaryColumn()
        self._buffers: Any = None

    def count(self, data: Any, at: int, end: int) -> int:
        # How many bytes the headers of one record have; parse_record has held every size against the record.
        self.rows += 1
        left, at = get_varint(data, at, end)
        if left == 0:
            self.nulls += 1
        used = self.keys.nbytes + self.values.nbytes
        while left > 0:
            left -= 1
            size, at = get_varint(data, at, end)
            self.keys.count(size)
            size, at = get_varint(data, at + size, end)
            self.values.count(size)
            if size > 0:
                at += size
        return self.keys.nbytes + self.values.nbytes - used

    def put(self, data: Any, at: int, end: int) -> None:
        row = self._row
        left, at = get_varint(data, at, end)
        if row >= self.rows or self._used + left > self.keys.rows:
            return
        if left > 0:
            self._valid[row >> 3] |= 1 << (row & 7)
            self._used += left
        while left > 0:
            left -= 1
            size, at = get_varint(data, at, end)
            self.keys.put(data, at, size)
            size, at = get_varint(data, at + size, end)
            self.values.put(data, at, size)
            if size > 0:
                at += size
        self._row = row + 1
        self._ends[row + 1] = self._used

    def count_null(self) -> None:
        self.rows += 1
        self.nulls += 1

    def put_null(self) -> None:
        if self._row < self.rows:
            self._row += 1
            self._ends[self._row] = self._used

    def allocate(self, pa: Any) -> None:
        ends = pa.allocate_buffer(4 * (self.rows + 1))
        valid = bytearray((self.rows + 7) // 8)
        self._buffers = (valid, ends)
        self._ends = _cells(ends, "i")
        self._valid = memoryview(valid or bytearray(1))
        self._ends[0] = 0
        self.keys.allocate(pa)
        self.values.allocate(pa)

    def finish(self, pa: Any, kind: Any) -> Any:
        pair = kind.value_type
        names = _text(pa, self.keys.finish(pa, pa.binary()), pair.field("key").type)
        values = self.values.finish(pa, pair.field("value").type)
        pairs = pa.StructArray.from_arrays([names, values], fields=[pair.field(0), pair.field(1)])
        valid, ends = self._buffers
        valid = pa.py_buffer(valid) if self.nulls else None
        return pa.Array.from_buffers(kind, self.rows, [valid, ends], self.nulls, children=[pairs])


def _stretches(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    # (value, how many rows) pairs, with neighbours of the same value made one.
    found: list[tuple[int, int]] = []
    known, length = parts[0][0], 0
    for value, rows in parts:
        if value != known:
            found.append((known, length))
            known, length = value, 0
        length += rows
    found.append((known, length))
    return found


class Columns:
    """One Arrow batch under construction."""

    __slots__ = (
        "_buffers",
        "_offsets",
        "_row",
        "_segments",
        "_timestamps",
        "_valid",
        "ended",
        "full",
        "headers",
        "keys",
        "last_offsets",
        "nbytes",
        "rows",
        "timeless",
        "values",
        "with_headers",
        "with_keys",
        "with_values",
    )

    def __init__(self, names: Sequence[str]) -> None:
        self.with_keys = "key" in names
        self.with_values = "value" in names
        self.with_headers = "headers" in names
        self.keys = BinaryColumn()
        self.values = BinaryColumn()
        self.headers = ListColumn()
        self.rows = self.nbytes = self.timeless = self._row = 0
        self.full = self.ended = False
        self._segments: list[tuple[BatchReader, int, int]] = []
        self._buffers: Any = None
        #: The offset of the last row of each partition, by id.
        self.last_offsets: dict[int, int] = {}

    def measure(self, reader: BatchReader, end: int, max_rows: int, max_bytes: int) -> int:
        # How many more rows of a reader belong here. `full`: cut the batch behind them; `ended`: at the end offset. What
        # cannot be read is raised where it would be the first row; before that, the batch is cut.
        if cython.compiled:
            data = cython.address(reader._data[0])
        else:
            data = reader._data
        at, stop, left, base = reader._at, reader._end, reader.remaining, reader.base_offset
        limit, previous, modern = reader.next_offset, reader.offset, reader.magic >= 2
        time_base, append_time = reader.base_timestamp, reader.append_time
        rows = 0
        bad = False
        if not modern and reader.check_entries:
            wanted = min(left, max(max_rows - self.rows, 0))
            sound = count_sound(reader, wanted)
            if sound < wanted:
                left = sound
                bad = True
        with cython.nogil:
            while left > 0:
                if self.rows >= max_rows:
                    self.full = True
                    break
                fields = parse_record(data, at, stop) if modern else parse_entry(data, at, stop)
                offset = fields[2] + base
                if fields[0] < 0 or offset < 0 or offset >= limit or (modern and offset < previous):
                    bad = True
                    break
                if offset >= end:
                    self.ended = True
                    break
                size = 0
                if self.with_keys and fields[4] > 0:
                    size += fields[4]
                if self.with_values and fields[6] > 0:
                    size += fields[6]
                if self.with_headers and modern:
                    size += fields[0] - fields[7]
                if size > max_bytes - self.nbytes and self.rows > 0:
                    self.full = True
                    break
                self.nbytes += size
                self.rows += 1
                rows += 1
                left -= 1
                if self.with_keys:
                    self.keys.count(fields[4])
                if self.with_values:
                    self.values.count(fields[6])
                if self.with_headers:
                    if modern:
                        self.headers.count(data, fields[7], fields[0])
                    else:
                        self.headers.count_null()
                time = append_time
                if time < 0:
                    time = fields[1] + time_base if modern else fields[1]
                if time < 0 or time > _LATEST:
                    self.timeless += 1
                previous = offset + 1
                at = fields[0]
        if left == 0 and (bad or (rows == reader.remaining and at != stop)):
            bad = True
        if bad and not (self.full or self.ended):
            if self.rows == 0:
                reader.next()
                reader._refuse("its bytes are no record")
            self.full = True
        if rows > 0:
            self._segments.append((reader, reader._at, rows))
        return rows

    def fill(self, pa: Any) -> None:
        """Copy the measured values, and move the readers behind them."""
        self._allocate(pa)
        for reader, at, rows in self._segments:
            self._fill(reader, at, rows)

    def _allocate(self, pa: Any) -> None:
        if self.with_keys:
            self.keys.allocate(pa)
        if self.with_values:
            self.values.allocate(pa)
        if self.with_headers:
            self.headers.allocate(pa)
        offsets = pa.allocate_buffer(8 * self.rows)
        timestamps = pa.allocate_buffer(8 * self.rows)
        valid = bytearray((self.rows + 7) // 8)
        self._buffers = (valid, offsets, timestamps)
        self._offsets = _cells(offsets, "q")
        self._timestamps = _cells(timestamps, "q")
        self._valid = memoryview(valid)

    def _fill(self, reader: BatchReader, at: int, rows: int) -> None:
        if cython.compiled:
            data = cython.address(reader._data[0])
        else:
            data = reader._data
        stop, left, base, modern = reader._end, rows, reader.base_offset, reader.magic >= 2
        time_base, append_time = reader.base_timestamp, reader.append_time
        offset = reader.offset - 1
        with cython.nogil:
            while left > 0:
                fields = parse_record(data, at, stop) if modern else parse_entry(data, at, stop)
                if fields[0] < 0:
                    break
                row = self._row
                offset = fields[2] + base
                self._offsets[row] = offset
                time = append_time
                if time < 0:
                    time = fields[1] + time_base if modern else fields[1]
                if time < 0 or time > _LATEST:
                    time = 0
                else:
                    self._valid[row >> 3] |= 1 << (row & 7)
                self._timestamps[row] = 1000 * time
                if self.with_keys:
                    self.keys.put(data, fields[3], fields[4])
                if self.with_values:
                    self.values.put(data, fields[5], fields[6])
                if self.with_headers:
                    if modern:
                        self.headers.put(data, fields[7], fields[0])
                    else:
                        self.headers.put_null()
                self._row = row + 1
                left -= 1
                at = fields[0]
        if left > 0:
            reader._refuse("its bytes were changed while they were read")
        reader._at = at
        reader.remaining -= rows
        reader.offset = offset + 1
        self.last_offsets[reader.partition_id] = offset
        if reader.remaining == 0 and at == stop:
            reader.offset = max(reader.offset, reader.next_offset)

    def timestamp_types(self) -> list[tuple[int, int]]:
        """Return the timestamp types of the rows: (type, number of rows) for each run of equal ones."""
        return _stretches(
            [(reader.timestamp_type if reader.magic else _NO_TYPE, rows) for reader, _, rows in self._segments]
        )

    def partition_ids(self) -> list[tuple[int, int]]:
        """Return the partitions of the rows: (id, number of rows) for each run of equal ones."""
        return _stretches([(reader.partition_id, rows) for reader, _, rows in self._segments])

    def finish(self, pa: Any, name: str, kind: Any) -> Any:
        """Return one column as an Arrow array."""
        if name == "key":
            return self.keys.finish(pa, kind)
        if name == "value":
            return self.values.finish(pa, kind)
        if name == "headers":
            return self.headers.finish(pa, kind)
        valid, offsets, timestamps = self._buffers
        if name == "offset":
            return pa.Array.from_buffers(kind, self.rows, [None, offsets])
        valid = pa.py_buffer(valid) if self.timeless else None
        return pa.Array.from_buffers(kind, self.rows, [valid, timestamps], self.timeless)


def count_sound(reader: BatchReader, rows: int) -> int:
    """Return how many of the next entries of formats 0 and 1, before the first bad one, have the right checksum."""
    if cython.compiled:
        data = cython.address(reader._data[0])
    else:
        data = reader._data
    at = reader._at
    sound = 0
    while sound < rows:
        following = parse_entry(data, at, reader._end)[0]
        if following < 0 or not reader._is_sound(at, following):
            break
        at = following
        sound += 1
    return sound


class ArrowDecoder:
    """A decoder of one partition's records to Arrow batches.

    The types are the ones that Spark takes: key and value binary, topic string, partition int32, offset int64,
    timestamp in microseconds UTC, timestampType int32 (0 create time, 1 append time, -1 none), headers a list of key,
    value. All may be null. A timestamp is null if the message has none, or one that microseconds cannot express; headers are
    null if there are none.

    :param topic: its name
    :param partition: its number; None for that of each reader
    :param columns: which of `COLUMNS`, in which order
    :param max_unpacked: what a batch that is not opened yet may unpack to (bytes)
    :raises ImportError: if pyarrow is missing
    :raises ValueError: if a column is none of `COLUMNS`
    """

    def __init__(
        self, topic: str, partition: int | None, columns: Sequence[str] = COLUMNS, max_unpacked: int = MAX_UNPACKED
    ) -> None:
        try:
            pyarrow = import_module("pyarrow")
        except ImportError as error:
            raise ImportError("reading into Arrow columns needs pyarrow: pip install pyarrow") from error
        unknown = [name for name in columns if name not in COLUMNS]
        if unknown:
            raise ValueError(f"records have no column {', '.join(unknown)}; they have {', '.join(COLUMNS)}")
        self._pa: Any = pyarrow
        self._columns = tuple(columns)
        self._max_unpacked = max_unpacked
        self._constant: dict[str, Any] = {"topic": topic}
        if partition is not None:
            self._constant["partition"] = partition
        self._repeated: dict[tuple[str, Any], Any] = {}
        kinds = _types(pyarrow)
        self.schema: pa.Schema = pyarrow.schema([(name, kinds[name]) for name in columns])

    def decode(
        self,
        batches: Iterable[RawBatch | BatchReader],
        start: int = 0,
        end: int = NO_END,
        max_rows: int = 65_536,
        max_bytes: int = 8 * 1024 * 1024,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of some batches in order, in as few Arrow batches as the bounds allow.

        Batches are unpacked when their turn comes; readers are left behind what was yielded.

        :param batches: as they were fetched
        :param start: the first offset wanted
        :param end: the first offset no longer wanted
        :param max_rows: where to cut
        :param max_bytes: where to cut, by the bytes of keys, values and headers; a single row may have more
        :raises UnpackedTooLargeError: if a batch unpacks to more than `max_unpacked`
        :raises InvalidMessageError: if a batch or a record is corrupt
        :raises CodecNotAvailableError: if the package of a codec is missing
        """
        columns = Columns(self._columns)
        for batch in batches:
            reader = batch.open(True, self._max_unpacked) if isinstance(batch, RawBatch) else batch
            reader.skip_to(start)
            start = max(start, reader.next_offset)  # the next batch may begin below that
            if reader.remaining == 0:
                reader.next()
            while True:
                columns.measure(reader, end, max_rows, min(max_bytes, LARGEST_BATCH))
                if not columns.full and not columns.ended:
                    break
                ended = columns.ended
                if columns.rows:
                    yield self._finish(columns)
                columns = Columns(self._columns)
                if ended:
                    return
        if columns.rows:
            yield self._finish(columns)

    def take(
        self, readers: Iterable[BatchReader], max_rows: int, max_bytes: int
    ) -> tuple[pa.RecordBatch | None, dict[int, int]]:
        """Return one Arrow batch of the readers' next records, in order; move the readers behind them.

        What cannot be read is raised when it comes first; else the batch ends before it.

        :param max_rows: where to end
        :param max_bytes: where to end, by the bytes of keys, values and headers; a single row may have more
        :returns: the batch, None if there is nothing; and the offset of the last row of each partition, by id
        :raises InvalidMessageError: if the first record is corrupt
        """
        columns = Columns(self._columns)
        for reader in readers:
            columns.measure(reader, NO_END, max_rows, min(max_bytes, LARGEST_BATCH))
            if columns.full:
                break
        return (self._finish(columns) if columns.rows else None), columns.last_offsets

    def _finish(self, columns: Columns) -> pa.RecordBatch:
        pa = self._pa
        columns.fill(pa)
        arrays = []
        for field in self.schema:
            if field.name in self._constant:
                arrays.append(self._repeat(field, self._constant[field.name], columns.rows))
            elif field.name in ("timestampType", "partition"):
                stretches = columns.partition_ids() if field.name == "partition" else columns.timestamp_types()
                parts = [self._repeat(field, value, rows) for value, rows in stretches]
                arrays.append(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))
            else:
                arrays.append(columns.finish(pa, field.name, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _repeat(self, field: Any, value: Any, rows: int) -> Any:
        # The same value in every row: made once, long enough, and sliced from then on.
        found = self._repeated.get((field.name, value))
        if found is None or len(found) < rows:
            size = max(rows, 2 * len(found) if found is not None else 0)
            found = self._pa.repeat(_scalar(self._pa, value, field.type), size)
            self._repeated[field.name, value] = found
        return found.slice(0, rows)


def _types(pa: Any) -> dict[str, Any]:
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pair),
    }


def _scalar(pa: Any, value: str | int, kind: Any) -> Any:
    # What pa.scalar() gives, which imports pandas if there is one: a quarter of a second in each process.
    text = value.encode() if isinstance(value, str) else None
    cells = pack("=i", value) if text is None else pack("=ii", 0, len(text))
    buffers = [None, pa.py_buffer(cells)] + ([] if text is None else [pa.py_buffer(text)])
    return pa.Array.from_buffers(kind, 1, buffers)[0]


def _text(pa: Any, names: Any, kind: Any) -> Any:
    # Kafka does not look at the names of headers; Arrow and Spark want UTF-8.
    if not len(names):
        return names.view(kind)  # without the import of pyarrow.compute
    try:
        return names.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([name.as_py().decode("utf-8", "replace") for name in names], kind)
