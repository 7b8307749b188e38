# cython: initializedcheck=False, cdivision=True
# mypy: disable-error-code="no-any-return"
# (Cython's casts return Any for a type checker.)
"""`RecordBatchBuilder`: writes messages into the wire format as they are appended.

The bytes live in an object of their own (`bytes` when compiled, `bytearray` in the pure source). To grow, the builder
allocates a larger object; what `view()` and `build()` returned keeps the old one alive and never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

from crc32c import crc32c

from pykafka.exceptions import MessageSizeTooLarge
from pykafka.protocol.message import Headers
from pykafka.protocol.records_read import BATCH_HEADER, iterate_records
from pykafka.utils.compression import compress

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    from pykafka.compiled.cython import PyBytes_AS_STRING, PyBytes_FromStringAndSize, memcpy, system_time

_HEADER = BATCH_HEADER
#: A batch's size is a signed 32-bit number of bytes; the rest is left for what compression may add.
MAX_BATCH = 2**31 - 2**16
#: The initial memory of a batch without a better estimate (bytes).
LEAST_BATCH = 4096

_TRANSACTIONAL = 16
_NO_HEADERS = b"\x00"
# offset, length, leader epoch, format, checksum
_HEAD = Struct(">qiibI")
# attributes, last offset, first and max timestamp, producer id and epoch, first sequence number, count
_TAIL = Struct(">hiqqqhii")
# The length counts the bytes after it.
_UNCOUNTED = 12


def varint_size(value: int) -> int:
    # For a number >= -1: the only negative numbers in a batch are sizes of null, and times before the batch's first.
    if value < 0:
        value = -value - 1
    size = 1
    while value > 63:
        value >>= 7
        size += 1
    return size


def put_varint(data: Any, at: int, value: int) -> int:
    # For compiled code; the pure source joins results of encode_varint.
    bits = (cython.cast(cython.ulonglong, value) << 1) ^ cython.cast(cython.ulonglong, value >> 63)
    while bits > 127:
        data[at] = (bits & 0x7F) | 0x80
        bits >>= 7
        at += 1
    data[at] = bits
    return at + 1


def encode_varint(value: int) -> bytes:
    """Return a number of up to 64 bits in the encoding of records."""
    bits = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while bits > 127:
        encoded.append((bits & 0x7F) | 0x80)
        bits >>= 7
    encoded.append(bits)
    return bytes(encoded)


# The pure source looks up the common numbers: sizes, and offsets and times within a batch.
_VARINTS = {} if cython.compiled else {value: encode_varint(value) for value in range(-1, 4096)}


def encode_headers(headers: Headers) -> bytes:
    """Return a message's headers as bytes: their number, then key and value of each.

    :raises TypeError: a header is not a pair of str and bytes or None
    """
    pairs = [(name, value) for name, value in headers]
    parts = [encode_varint(len(pairs))]
    for name, value in pairs:
        if not isinstance(name, str):
            raise TypeError(f"a header's name must be a str, not {type(name).__name__}: {name!r}")
        if value is not None and not isinstance(value, bytes):
            raise TypeError(f"the value of header {name!r} must be bytes or None, not {type(value).__name__}")
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        parts += (encode_varint(-1),) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)


def record_size(key: bytes | None, value: bytes | None, headers: Headers | None = None) -> int:
    """Return an upper bound of a message's size in a batch (bytes), at any offset and time."""
    size = 36 + len(key or b"") + len(value or b"")
    for name, header in headers or ():
        size += 10 + 4 * len(name) + len(header or b"")
    return size


def likely_size(before: int) -> int:
    """Return the likely size of the next batch (bytes): the size of the last one, or a little more."""
    return max(LEAST_BATCH, before + before // 8)


class RecordBatchBuilder:
    """A builder of one record batch (format 2).

    Compiled, each call is atomic under the GIL; in the pure source the owner must hold a lock around `append`.

    :param clock: returns the time for messages without one (ms since 1970); None reads the system's clock
    :param max_size: the largest uncompressed size of the batch (bytes)
    :param expected: its likely size (bytes), the size of the batch before it: memory that need not grow is neither copied
        nor touched twice
    """

    __slots__ = (
        "_buffer",
        "_capacity",
        "_clock",
        "_data",
        "_expected",
        "_max_size",
        "_used",
        "count",
        "first_timestamp",
        "last_timestamp",
        "max_timestamp",
        "size",
        "with_headers",
    )

    _buffer: Any

    def __init__(
        self, clock: Callable[[], int] | None = None, max_size: int = MAX_BATCH, expected: int = LEAST_BATCH
    ) -> None:
        self.count = 0
        self.size = _HEADER
        self.with_headers = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.last_timestamp = -1
        self._clock = clock
        self._max_size = max_size
        self._expected = expected
        self._used = 0
        self._capacity = 0
        if cython.compiled:
            self._buffer = b""
            self._data = cython.cast("unsigned char*", PyBytes_AS_STRING(self._buffer))
        else:
            self._buffer = bytearray()

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
        """Append a message and return its index in the batch.

        :param timestamp: ms since 1970; -1 means now
        :param key: bytes, or None for no key
        :param value: bytes, or None for a tombstone
        :param headers: list of (str, bytes or None), or None
        :raises TypeError: key, value or headers have another type; the batch is unchanged
        :raises ValueError: the timestamp is below -1
        :raises MessageSizeTooLarge: the batch would exceed its `max_size`
        """
        key_size = value_size = -1
        block = _NO_HEADERS
        if key is not None:
            if not isinstance(key, bytes):
                raise TypeError(f"a message's key must be bytes or None, not {type(key).__name__}")
            key_size = len(key)
        if value is not None:
            if not isinstance(value, bytes):
                raise TypeError(f"a message's value must be bytes or None, not {type(value).__name__}")
            value_size = len(value)
        if headers:
            block = encode_headers(headers)
        if timestamp < 0:
            timestamp = self._now(timestamp)
        # Foreign code (headers, clock) has run by now: from here on nothing sees the batch half written.
        index = self.count
        delta = timestamp - self.first_timestamp if index > 0 else 0
        length = 1 + varint_size(delta) + varint_size(index) + varint_size(key_size) + varint_size(value_size)
        length += len(block)
        if key_size > 0:
            length += key_size
        if value_size > 0:
            length += value_size
        needed = varint_size(length) + length
        if needed > self._max_size - self.size:
            raise MessageSizeTooLarge(
                f"a batch of {self.size} bytes has no room for a message of {needed} bytes: it may have {self._max_size}"
            )
        self._reserve(needed)
        self._put(length, delta, key, key_size, value, value_size, block)
        if index == 0:
            self.first_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.last_timestamp = timestamp
        self.size += needed
        if len(block) > 1:
            self.with_headers += 1
        self.count = index + 1
        return index

    def leave_out_headers(self) -> None:
        """Leave headers out of formats before 2, which know none, instead of raising."""
        self.with_headers = 0

    def view(self) -> memoryview:
        """Return the records written so far, uncompressed; the view does not show later messages."""
        if cython.compiled:
            return memoryview(self._buffer)[: self._used]
        return memoryview(bytes(self._buffer))

    def records(self) -> Iterator[tuple[int, bytes | None, bytes | None, Headers | None]]:
        """Yield the appended messages as (timestamp in ms, key, value, headers or None)."""
        return iterate_records(self.view(), self.count, self.first_timestamp)

    def build(
        self,
        codec: int,
        payload: Any = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> list[Any]:
        """Return the batch ready to send: its header, and its records.

        :param codec: the compression of the records (:class:`pykafka.common.CompressionType`)
        :param payload: the compressed records, if the caller ran `compress(codec, builder.view())` already
        :param producer_id: id of an idempotent producer (KIP-98)
        :param producer_epoch: epoch of an idempotent producer
        :param base_sequence: that producer's sequence number of the first message, in this partition
        :param transactional: whether the batch is part of a transaction
        :returns: two buffers, to be sent one after the other
        :raises ValueError: the batch is empty
        :raises CodecNotAvailableError: the codec's package is missing
        """
        if self.count == 0:
            raise ValueError("an empty batch cannot be sent: append a message first")
        if payload is None:
            view = self.view()
            payload = compress(codec, view) if codec else view
        tail = _TAIL.pack(
            codec | (_TRANSACTIONAL if transactional else 0),
            self.count - 1,
            self.first_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        checksum = crc32c(payload, crc32c(tail))
        return [_HEAD.pack(0, _HEADER - _UNCOUNTED + len(payload), -1, 2, checksum) + tail, payload]

    def _now(self, timestamp: int) -> int:
        if timestamp < -1:
            raise ValueError(f"a timestamp is a number of ms since 1970, or -1 for now: not {timestamp}")
        if self._clock is not None:
            return self._clock()
        if cython.compiled:
            return cython.cast(cython.longlong, system_time() * 1000)
        return int(system_time() * 1000)

    def _reserve(self, needed: int) -> int:
        if cython.compiled:
            needed += self._used
            if needed > self._capacity:
                needed = max(needed, 2 * self._capacity, self._expected)
                larger = PyBytes_FromStringAndSize(cython.NULL, needed)
                memcpy(PyBytes_AS_STRING(larger), self._data, self._used)
                self._data = cython.cast("unsigned char*", PyBytes_AS_STRING(larger))
                self._capacity = needed
                self._buffer = larger
        return 0

    def _put(
        self,
        length: int,
        delta: int,
        key: bytes | None,
        key_size: int,
        value: bytes | None,
        value_size: int,
        block: bytes,
    ) -> int:
        if cython.compiled:
            data = self._data
            at = put_varint(data, self._used, length)
            data[at] = 0
            at = put_varint(data, put_varint(data, at + 1, delta), self.count)
            at = put_varint(data, at, key_size)
            if key_size > 0:
                memcpy(data + at, PyBytes_AS_STRING(key), key_size)
                at += key_size
            at = put_varint(data, at, value_size)
            if value_size > 0:
                memcpy(data + at, PyBytes_AS_STRING(value), value_size)
                at += value_size
            memcpy(data + at, PyBytes_AS_STRING(block), len(block))
            self._used = at + len(block)
        else:
            number = _VARINTS.get
            self._buffer += b"".join(
                (
                    number(length) or encode_varint(length),
                    b"\x00",
                    number(delta) or encode_varint(delta),
                    number(self.count) or encode_varint(self.count),
                    number(key_size) or encode_varint(key_size),
                    key or b"",
                    number(value_size) or encode_varint(value_size),
                    value or b"",
                    block,
                )
            )
        return 0
