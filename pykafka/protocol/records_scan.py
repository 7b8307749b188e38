# cython: initializedcheck=False, cdivision=True
"""`scan`: find the batches in a fetch response by their headers alone. `RawBatch`: one of them, still compressed.

A broker cuts its response at a number of bytes, so the last batch is often incomplete. That is no error; everything else
that does not fit is one.
"""

from __future__ import annotations

from typing import Any

from pykafka.exceptions import InvalidMessageError, UnpackedTooLargeError
from pykafka.protocol.records_read import BATCH_HEADER, BatchReader
from pykafka.utils.compression import MAX_UNPACKED, decompress

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    from pykafka.protocol.records_read import get_i32, get_i64, get_u32

_HEADER = BATCH_HEADER

# Offset and length, which the length does not count. The format's byte stands at the same index in all formats.
_UNCOUNTED = 12
_MAGIC_AT = 16
_SMALLEST_ENTRY = 14
# The checksum of format 2 counts from here.
_CHECKED_FROM = 21
# A record has seven bytes at least: length, attributes, time, offset, key, value and headers, one byte each.
_SMALLEST_RECORD = 7
_LARGEST_OFFSET = 2**63 - 2**32
#: What a batch that ends a transaction may unpack to (bytes): it has one short record.
_MAX_CONTROL = 2**20


class RawBatch:
    """One batch as received, described by its header.

    In formats 0 and 1, a run of uncompressed messages counts as one batch, and so does each compressed message, which
    contains others. Only decompression shows how many, and their first offset: until then `count` is -1, and `base_offset`
    is the last message's.

    Times are ms since 1970, -1 where there is none; `start` and `end` are places in the scanned buffer (bytes).
    """

    __slots__ = (
        "_buffer",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "codec",
        "count",
        "crc",
        "end",
        "is_control",
        "is_transactional",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "next_offset",
        "producer_epoch",
        "producer_id",
        "start",
        "timestamp_type",
    )

    def __init__(self, buffer: Any, magic: int, start: int, end: int) -> None:
        self._buffer = buffer
        self.magic = magic
        self.start = start
        self.end = end
        self.codec = self.timestamp_type = self.count = self.crc = 0
        self.base_offset = self.next_offset = 0
        self.base_timestamp = self.max_timestamp = -1
        self.producer_id = self.producer_epoch = self.base_sequence = self.leader_epoch = -1
        self.is_control = self.is_transactional = False

    @property
    def size(self) -> int:
        """Its size on the wire (bytes)."""
        return self.end - self.start

    @property
    def data(self) -> memoryview:
        """Its bytes, not copied."""
        return memoryview(self._buffer)[self.start : self.end]

    def open(self, check_crc: bool = True, max_unpacked: int = MAX_UNPACKED) -> BatchReader:
        """Verify and decompress the records. Safe to offload; most of it runs without the GIL.

        :param check_crc: whether to verify the checksums
        :param max_unpacked: what the records may unpack to (bytes)
        :raises UnpackedTooLargeError: they unpack to more
        :raises InvalidMessageError: the checksum is wrong, or the compressed data is corrupt
        :raises CodecNotAvailableError: the codec's package is missing
        """
        if self.magic < 2:
            return self._open_entries(check_crc, max_unpacked)
        records = self._records(check_crc, max_unpacked)
        if len(records) < _SMALLEST_RECORD * self.count:
            raise InvalidMessageError(
                f"{self!r} is corrupt: it has {len(records)} bytes for {self.count} records; {self._advice()}"
            )
        # The records of a control batch end a transaction: no application reads them.
        return BatchReader(
            records[:0] if self.is_control else records,
            2,
            0 if self.is_control else self.count,
            self.base_offset,
            self.next_offset,
            self.base_timestamp,
            self.max_timestamp if self.timestamp_type else -1,
            self.codec,
            self.timestamp_type,
            self.base_offset,
        )

    def _open_entries(self, check_crc: bool, max_unpacked: int) -> BatchReader:
        from pykafka.protocol.messagesets import open_entries  # few brokers have such batches

        kind = self.magic, self.codec, self.timestamp_type
        try:
            return open_entries(self.data, *kind, self.next_offset, check_crc, max_unpacked)
        except UnpackedTooLargeError as error:
            if error.limit != max_unpacked:  # of a set within the set
                error.limit, error.unpacked = max_unpacked, None
            raise self._located(error) from None

    def _located(self, error: UnpackedTooLargeError) -> UnpackedTooLargeError:
        error.offset, error.next_offset, error.size = self.base_offset, self.next_offset, self.end - self.start
        return error

    def skip(self) -> BatchReader:
        """Return a reader that skips the batch: it has no messages, and ends where the batch ends."""
        return BatchReader(b"", self.magic, 0, self.base_offset, self.next_offset)

    def control_type(self) -> int:
        """Return the type of a control batch: 0 an aborted transaction, 1 a committed one; -1 for other batches.

        :raises InvalidMessageError: the control type is unknown
        """
        if not self.is_control:
            return -1
        reader = BatchReader(self._records(True, _MAX_CONTROL), 2, self.count, self.base_offset, self.next_offset)
        message = reader.next()
        key = b"" if message is None else message.partition_key or b""
        if len(key) < 4:
            raise InvalidMessageError(f"{self!r} is corrupt: it says that it ends a transaction, but not how")
        return int.from_bytes(key[2:4], "big", signed=True)

    def _records(self, check_crc: bool, max_unpacked: int) -> Any:
        view = self.data
        if check_crc:
            from crc32c import crc32c  # here, as it takes as long to load as a tenth of this package

            found = crc32c(view[_CHECKED_FROM:])
            if found != self.crc:
                raise InvalidMessageError(
                    f"{self!r} is corrupt: its checksum is {found:#010x}, not {self.crc:#010x} as it says; "
                    f"{self._advice()}"
                )
        records = view[_HEADER:]
        if not self.codec:
            return records
        try:
            return decompress(self.codec, records, 2, max_unpacked)
        except UnpackedTooLargeError as error:
            raise self._located(error) from None
        except InvalidMessageError as error:
            raise InvalidMessageError(f"{self!r} cannot be unpacked: {error}") from error

    def _advice(self) -> str:
        return f"fetch it again, or go on behind it at offset {self.next_offset}"

    def __repr__(self) -> str:
        offsets = f"offsets {self.base_offset} to {self.next_offset - 1}"
        return f"<RawBatch format {self.magic}, {offsets}, {self.size} bytes>"


def scan(buffer: Any) -> tuple[list[RawBatch], int]:
    """Return the batches in the records of a fetch response.

    :param buffer: any contiguous buffer; the batches keep it alive and do not copy it
    :returns: the complete batches, and the size (bytes) of a batch that the buffer cuts off, or 0
    :raises InvalidMessageError: some bytes are not a batch
    """
    found: list[RawBatch] = []
    end = len(buffer)
    if end == 0:
        return found, 0
    if cython.compiled:
        held = buffer
        data = cython.address(held[0])
    else:
        data = memoryview(buffer)
    at = 0
    while at < end:
        if end - at <= _MAGIC_AT:
            # Not even the format is there; and nothing confirms the length, if that is there.
            return found, _HEADER
        length = get_i32(data, at + 8)
        magic = data[at + _MAGIC_AT]
        if magic > 2 or length < (_SMALLEST_ENTRY if magic < 2 else _HEADER - _UNCOUNTED):
            raise InvalidMessageError(
                f"byte {at} of {end} fetched begins no batch: it says format {magic} and {length} bytes. Fetch again; "
                "if that does not help, something other than a Kafka broker answers, or its log is damaged."
            )
        total = _UNCOUNTED + length
        if total > end - at:
            return found, total
        raw = read_batch(buffer, data, at, at + total) if magic == 2 else read_entries(buffer, data, at, end)
        found.append(raw)
        at = raw.end
    return found, 0


def read_batch(buffer: Any, data: Any, at: int, stop: int) -> RawBatch:
    # A complete batch of format 2.
    raw = RawBatch(buffer, 2, at, stop)
    attributes = data[at + 22]  # of 16 bits the upper eight are unused
    last = get_i32(data, at + 23)
    raw.codec = attributes & 7
    raw.timestamp_type = attributes >> 3 & 1
    raw.is_transactional = bool(attributes & 16)
    raw.is_control = bool(attributes & 32)
    raw.base_offset = get_i64(data, at)
    raw.leader_epoch = get_i32(data, at + 12)
    raw.crc = get_u32(data, at + 17)
    raw.base_timestamp = get_i64(data, at + 27)
    raw.max_timestamp = get_i64(data, at + 35)
    raw.producer_id = get_i64(data, at + 43)
    raw.producer_epoch = get_i32(data, at + 51) >> 16
    raw.base_sequence = get_i32(data, at + 53)
    raw.count = get_i32(data, at + 57)
    if raw.count < 0 or last < 0 or raw.count > last + 1 or raw.base_offset < 0 or raw.base_offset > _LARGEST_OFFSET:
        raise InvalidMessageError(
            f"the batch at byte {at} fetched is corrupt: it says {raw.count} records from offset {raw.base_offset} to "
            f"the {last}th after it. Fetch again, or have the broker's log checked."
        )
    raw.next_offset = raw.base_offset + last + 1
    return raw


def read_entries(buffer: Any, data: Any, at: int, end: int) -> RawBatch:
    # One compressed message, or consecutive complete uncompressed messages with the same attributes.
    magic = data[at + _MAGIC_AT]
    attributes = data[at + _MAGIC_AT + 1]
    raw = RawBatch(buffer, magic, at, at)
    raw.codec = attributes & 7
    raw.timestamp_type = attributes >> 3 & 1 if magic == 1 else 0
    raw.base_offset = get_i64(data, at)
    raw.crc = get_u32(data, at + _UNCOUNTED)
    while True:
        size = get_i32(data, at + 8)
        offset = get_i64(data, at)
        if size < _SMALLEST_ENTRY + 8 * magic or offset < 0 or offset > _LARGEST_OFFSET:
            break
        if raw.count > 0 and offset < raw.next_offset:  # it goes back, and so is of another run
            break
        at += _UNCOUNTED + size
        raw.end = at
        raw.next_offset = offset + 1
        raw.count += 1
        if magic == 1:
            raw.max_timestamp = max(raw.max_timestamp, get_i64(data, at - size + 6))
        if raw.codec:
            raw.count = -1
            break
        if end - at <= _MAGIC_AT + 1 or data[at + _MAGIC_AT] != magic or data[at + _MAGIC_AT + 1] != attributes:
            break
        if get_i32(data, at + 8) > end - at - _UNCOUNTED:
            break
    if raw.count == 0:
        raise InvalidMessageError(
            f"the message at byte {at} fetched is corrupt: it says offset {offset} and {size} bytes. Fetch again, or "
            "have the broker's log checked."
        )
    return raw
