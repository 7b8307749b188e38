# cython: initializedcheck=False, cdivision=True
# mypy: disable-error-code="no-any-return"
# (Cython's casts return Any for a type checker.)
"""`BatchReader`: a cursor over the records of one batch, of any message format.

The reader trusts nothing: it checks every length against the bytes that are left, so a malicious batch causes a named error
and never a read out of bounds. The low-level functions use no Python object when compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn
from zlib import crc32

from pykafka.exceptions import InvalidMessageError
from pykafka.protocol.message import Headers, Message
from pykafka.record import Record

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    from pykafka.compiled.cython import PyBytes_FromStringAndSize, PyObject_GC_UnTrack

# bytes in the pure source, a pointer in compiled code
Data = Any
Fields = tuple[int, int, int, int, int, int, int, int]

#: Bytes before the first record of a batch.
BATCH_HEADER = 61

#: Timestamps of one batch that differ by no more than this stand for each other (ms).
_CLOSE_MS = 1000


def get_varint(data: Data, at: int, end: int) -> tuple[int, int]:
    # A zigzag number of up to 64 bits and the index after it; the index is -1 if there is no such number.
    if at < 0 or at >= end:
        return 0, -1
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    bits = 0
    shift = 0
    while at < end:
        byte = data[at]
        at += 1
        if cython.compiled:
            bits |= cython.cast(cython.ulonglong, byte & 0x7F) << shift
        else:
            bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            if cython.compiled:
                return cython.cast(cython.longlong, bits >> 1) ^ -cython.cast(cython.longlong, bits & 1), at
            bits &= 0xFFFFFFFFFFFFFFFF
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
        if shift > 63:
            break
    return 0, -1


def get_u32(data: Data, at: int) -> int:
    if cython.compiled:
        return (
            (cython.cast(cython.uint, data[at]) << 24)
            | (cython.cast(cython.uint, data[at + 1]) << 16)
            | (cython.cast(cython.uint, data[at + 2]) << 8)
            | cython.cast(cython.uint, data[at + 3])
        )
    return int.from_bytes(data[at : at + 4], "big")


def get_i32(data: Data, at: int) -> int:
    if cython.compiled:
        return cython.cast(cython.int, get_u32(data, at))
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def get_i64(data: Data, at: int) -> int:
    if cython.compiled:
        high = get_u32(data, at)
        return cython.cast(cython.longlong, (high << 32) | get_u32(data, at + 4))
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def parse_record(data: Data, at: int, end: int) -> Fields:
    # Format 2: length, attributes (unused), timestamp and offset less the batch's, key, value, headers.
    length, at = get_varint(data, at, end)
    if at < 0 or length < 0 or length > end - at:
        return -1, 0, 0, 0, 0, 0, 0, 0
    stop = at + length
    timestamp, at = get_varint(data, at + 1, stop)
    offset, at = get_varint(data, at, stop)
    key_size, key = get_varint(data, at, stop)
    if key < 0 or offset < 0 or offset > 0x7FFFFFFF or key_size < -1 or key_size > stop - key:
        return -1, 0, 0, 0, 0, 0, 0, 0
    at = key
    if key_size > 0:
        at += key_size
    value_size, value = get_varint(data, at, stop)
    if value < 0 or value_size < -1 or value_size > stop - value:
        return -1, 0, 0, 0, 0, 0, 0, 0
    headers = value
    if value_size > 0:
        headers += value_size
    count, at = get_varint(data, headers, stop)
    if at < 0 or count < 0 or count > stop - at:
        return -1, 0, 0, 0, 0, 0, 0, 0
    while count > 0:
        count -= 1
        size, at = get_varint(data, at, stop)
        if at < 0 or size < 0 or size > stop - at:
            return -1, 0, 0, 0, 0, 0, 0, 0
        size, at = get_varint(data, at + size, stop)
        if at < 0 or size < -1 or size > stop - at:
            return -1, 0, 0, 0, 0, 0, 0, 0
        if size > 0:
            at += size
    if at != stop:
        return -1, 0, 0, 0, 0, 0, 0, 0
    return stop, timestamp, offset, key, key_size, value, value_size, headers


def parse_entry(data: Data, at: int, end: int) -> Fields:
    # Formats 0 and 1: offset, size, checksum, format, attributes, timestamp (1 only), key, value. The last part here is
    # the attributes.
    if end - at < 26:
        return -1, 0, 0, 0, 0, 0, 0, 0
    size = get_i32(data, at + 8)
    if size < 14 or size > end - at - 12:
        return -1, 0, 0, 0, 0, 0, 0, 0
    stop = at + 12 + size
    magic = data[at + 16]
    timestamp = -1
    key = at + 22
    if magic == 1:
        if size < 22:
            return -1, 0, 0, 0, 0, 0, 0, 0
        timestamp = get_i64(data, at + 18)
        key = at + 30
    elif magic != 0:
        return -1, 0, 0, 0, 0, 0, 0, 0
    key_size = get_i32(data, key - 4)
    # The 4 bytes of the value's size must follow the key.
    if key_size < -1 or key_size > stop - key - 4:
        return -1, 0, 0, 0, 0, 0, 0, 0
    value = key + 4
    if key_size > 0:
        value += key_size
    value_size = get_i32(data, value - 4)
    if value_size < -1 or value + max(value_size, 0) != stop:
        return -1, 0, 0, 0, 0, 0, 0, 0
    return stop, timestamp, get_i64(data, at), key, key_size, value, value_size, data[at + 17]


def cut(data: Data, at: int, size: int) -> bytes | None:
    # The bytes of a key or value; size -1 is Kafka's null.
    if size < 0:
        return None
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast("const char*", data) + at, size)
    part: bytes = data[at : at + size]
    return part


def read_headers(data: Data, at: int, end: int) -> Headers:
    # parse_record has checked every size against the record.
    headers: Headers = []
    count, at = get_varint(data, at, end)
    while count > 0:
        count -= 1
        size, at = get_varint(data, at, end)
        name = cut(data, at, size) or b""
        size, at = get_varint(data, at + size, end)
        value = cut(data, at, size)
        if size > 0:
            at += size
        headers.append((name.decode("utf-8", "replace"), value))
    return headers


class BatchReader:
    """A reader of the records of one batch, in order.

    The owner sets `partition_id` and `partition`, and each message gets them, and `max_timestamp` (ms), which is -1 for a
    batch without messages. The reader never returns records of a control
    batch (the end of a transaction). Compiled calls are atomic under the GIL; in the pure source the owner must hold a lock
    around `next` and `skip_to`.

    :param data: the decompressed records: any contiguous buffer, which the reader keeps alive
    :param magic: the message format: 0, 1 or 2
    :param count: number of records
    :param base_offset: added to each record's own offset
    :param next_offset: the first offset after the batch
    :param base_timestamp: added to the timestamps of format 2 (ms)
    :param append_time: the time of all records (ms) if the broker stamped the batch; otherwise -1
    :param codec: the compression of the batch, for the messages
    :param timestamp_type: 0 create time, 1 append time
    :param first_offset: the first offset to read
    """

    __slots__ = (
        "_at",
        "check_entries",
        "_data",
        "_end",
        "_owner",
        "append_time",
        "base_offset",
        "base_timestamp",
        "codec",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "next_offset",
        "offset",
        "partition",
        "partition_id",
        "remaining",
        "timestamp_type",
        "topic",
    )

    def __init__(
        self,
        data: Any,
        magic: int,
        count: int,
        base_offset: int,
        next_offset: int,
        base_timestamp: int = -1,
        append_time: int = -1,
        codec: int = 0,
        timestamp_type: int = 0,
        first_offset: int = 0,
    ) -> None:
        if cython.compiled:
            self._owner = data
        else:
            self._owner = data = data if isinstance(data, bytes) else bytes(data)
        self._data = data
        self._at = 0
        self._end = len(data)
        self.check_entries = magic < 2
        self.magic = magic
        self.codec = codec
        self.timestamp_type = timestamp_type
        self.remaining = count
        self.offset = first_offset
        self.next_offset = next_offset
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp
        self.append_time = append_time
        self.max_timestamp = -1
        self.partition_id = -1
        self.partition: Any = None
        self.topic: Any = None
        self.leader_epoch = -1

    @property
    def nbytes(self) -> int:
        """Return the number of bytes that the reader keeps in memory."""
        return self._end

    def next(self) -> Message | None:
        """Return the next record as a message; None at the end of the batch.

        :raises InvalidMessageError: the bytes are not a record; the reader stays at this record
        """
        if cython.compiled:
            data = cython.address(self._data[0])
        else:
            data = self._data
        while True:
            at = self._at
            if self.remaining <= 0:
                self._finish()
                return None
            fields = parse_record(data, at, self._end) if self.magic >= 2 else parse_entry(data, at, self._end)
            following, timestamp, offset, key, key_size, value, value_size, headers = fields
            if following < 0:
                self._refuse("its bytes are no record")
            offset += self.base_offset
            if offset < 0 or offset >= self.next_offset or (offset < self.offset and self.magic >= 2):
                if self._at != at:  # in the pure source, parsing allocates as well: see below
                    continue
                self._refuse(f"it says that it has offset {offset}")
            # Allocation may start a garbage collection, which may run any code, even a call of this method.
            message = Message.__new__(Message)
            message.partition_key = cut(data, key, key_size)
            message.value = cut(data, value, value_size)
            if self.magic >= 2:
                timestamp += self.base_timestamp
                if data[headers] != 0:
                    message.headers = read_headers(data, headers, following)
            elif self.check_entries:
                self._check(at, following)
            message._offset = offset
            message._timestamp = timestamp if self.append_time < 0 else self.append_time
            message.protocol_version = self.magic
            message.compression_type = self.codec
            message.partition_id = self.partition_id
            message.partition = self.partition
            if self._at == at:
                self._at = following
                self.remaining -= 1
                self.offset = offset + 1
                if cython.compiled:
                    # Bytes refer to nothing, so no cycle goes through a new message. Otherwise the garbage collector would
                    # walk over all messages that the application keeps, and find nothing.
                    PyObject_GC_UnTrack(cython.cast("void*", message))
                return message

    def next_record(self) -> Record | None:
        """Return the next record as a `Record`, as `next` returns it as a message.

        :raises InvalidMessageError: the bytes are not a record; the reader stays at this record
        """
        if cython.compiled:
            data = cython.address(self._data[0])
        else:
            data = self._data
        while True:
            at = self._at
            if self.remaining <= 0:
                self._finish()
                return None
            fields = parse_record(data, at, self._end) if self.magic >= 2 else parse_entry(data, at, self._end)
            following, timestamp, offset, key, key_size, value, value_size, headers = fields
            if following < 0:
                self._refuse("its bytes are no record")
            offset += self.base_offset
            if offset < 0 or offset >= self.next_offset or (offset < self.offset and self.magic >= 2):
                if self._at != at:  # as in `next`
                    continue
                self._refuse(f"it says that it has offset {offset}")
            record = Record.__new__(Record)
            record._key = cut(data, key, key_size)
            record._value = cut(data, value, value_size)
            if self.magic >= 2:
                timestamp += self.base_timestamp
                if data[headers] != 0:
                    record._headers = read_headers(data, headers, following)
            elif self.check_entries:
                self._check(at, following)
            record._topic = self.topic
            record._partition = self.partition_id
            record._offset = offset
            record._timestamp = timestamp if self.append_time < 0 else self.append_time
            record._timestamp_type = self.timestamp_type
            record._leader_epoch = self.leader_epoch
            if self._at == at:
                self._at = following
                self.remaining -= 1
                self.offset = offset + 1
                if cython.compiled:
                    # As in `next`; what can refer back to the record has it tracked again: `Record._track`.
                    PyObject_GC_UnTrack(cython.cast("void*", record))
                return record

    def skip_to(self, offset: int) -> None:
        """Skip the records before an offset without creating messages.

        :param offset: the first offset to read next
        :raises InvalidMessageError: the bytes are not a record
        """
        if cython.compiled:
            data = cython.address(self._data[0])
        else:
            data = self._data
        end = self._end
        if offset >= self.next_offset:
            self._at = end
            self.remaining = 0
        while self.remaining > 0:
            fields = parse_record(data, self._at, end) if self.magic >= 2 else parse_entry(data, self._at, end)
            found = fields[2] + self.base_offset
            if fields[0] < 0 or found < 0 or found >= self.next_offset:
                self._refuse("its bytes are no record")
            if found >= offset:
                break
            self._at = fields[0]
            self.remaining -= 1
            self.offset = found + 1
        self.offset = max(self.offset, offset)

    def last_timestamp(self) -> int:
        """Return the timestamp of the last record that was returned (ms): exact, or within a second; -1 if it is unknown.

        No record's timestamp is kept as it is returned: this reads the batch again where its records differ by more.
        """
        found = self.max_timestamp
        if self.magic < 2 or self.append_time >= 0 or self._at >= self._end:
            return found
        if found - self.base_timestamp <= _CLOSE_MS:
            return found
        if cython.compiled:
            data = cython.address(self._data[0])
        else:
            data = self._data
        at = 0
        while at < self._at:
            fields = parse_record(data, at, self._end)
            if fields[0] < 0:
                break
            found = self.base_timestamp + fields[1]
            at = fields[0]
        return found

    def _finish(self) -> None:
        if self._at != self._end:
            self._refuse(f"{self._end - self._at} bytes follow the last record that it says it has")
        self.offset = max(self.offset, self.next_offset)

    def _check(self, at: int, following: int) -> None:
        # Formats 0 and 1 have a checksum per message. Checking it here, and not for all messages at once, never blocks
        # the hub for long.
        if not self._is_sound(at, following):
            view = memoryview(self._owner)
            said = int.from_bytes(view[at + 12 : at + 16], "big")
            found = crc32(view[at + 16 : following])
            self._refuse(f"its checksum is {found:#010x}, not {said:#010x} as it says")

    def _is_sound(self, at: int, following: int) -> bool:
        view = memoryview(self._owner)
        return int.from_bytes(view[at + 12 : at + 16], "big") == crc32(view[at + 16 : following])

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidMessageError(
            f"the record at or after offset {self.offset} is corrupt: {why}. Read on behind it by resetting the "
            f"consumer's offset to {self.next_offset} (the end of its batch), or have the broker's log checked.",
            partition=self.partition_id,
        )


def iterate_records(
    data: Any, count: int, base_timestamp: int
) -> Iterator[tuple[int, bytes | None, bytes | None, Headers | None]]:
    """Yield records of format 2 that were never sent, as (timestamp in ms, key, value, headers or None)."""
    reader = BatchReader(data, 2, count, 0, count, base_timestamp)
    while (message := reader.next()) is not None:
        yield message._timestamp, message.partition_key, message.value, message.headers
