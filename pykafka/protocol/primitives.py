"""Kafka's primitive types as bytes, for the functions that `codegen` generates.

Writers return the bytes of a value; that of records appends memoryviews, without a copy. Readers take a buffer, a position
and the buffer's end, and return the value and the position behind it.
Reference: https://kafka.apache.org/protocol (Protocol Primitive Types), KIP-482 (compact types and tags).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

Append = Callable[[Any], None]
Writer = Callable[[Any], bytes]
Reader = Callable[[memoryview, int, int], tuple[Any, int]]

#: Struct format characters of the types of fixed size, all big-endian.
FIXED = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
}
#: Bytes of the length before a value that is not compact.
WIDTHS = {"string": 2, "bytes": 4, "records": 4}

#: The longest string of the protocol (bytes).
STRING_MAX = 0x7FFF
#: A message may have so many elements in all its arrays, whatever its size: an element of some bytes becomes an object of some
#: hundred, and a peer that is no broker must not fill the memory. (Java's clients allow 1,000,000 for each array.)
ELEMENTS_MAX = 2_000_000
#: A message of more elements needs so many bytes for each. The answers of large clusters have them: a committed offset and its
#: topic (two elements) take at least 24 (OffsetFetch 8 to 10), a synonym of a config 30 or more.
BYTES_PER_ELEMENT = 12
#: So many numbers of an array count as one element: they take as much memory.
NUMBERS_PER_ELEMENT = 8
#: A struct has at most so many tagged fields, as in Java's clients.
TAGS_MAX = 10_000
_SMALL = [bytes((number,)) for number in range(0x80)]


class Malformed(Exception):
    """Raised for bytes that cannot be decoded."""


def elements_max(size: int) -> int:
    """Return how many elements a message of this size (bytes) has at most."""
    return max(ELEMENTS_MAX, size // BYTES_PER_ELEMENT)


def refuse_elements(count: int, most: int) -> None:
    """Refuse a message for the number of its elements.

    :param count: how many it has as far as it was read, the announced ones included
    :param most: how many a message of its size may have
    :raises Malformed: always
    """
    raise Malformed(f"{count} elements in its arrays, where {most} are the most")


class Unfit(Exception):
    """Raised for a value that cannot be encoded.

    :param what: the reason
    :param in_version: True if another version of the message could hold the value
    :param field: name of the field, if the position in the generated function does not show it
    """

    def __init__(self, what: str, in_version: bool = False, field: str = "") -> None:
        super().__init__(what)
        self.in_version = in_version
        self.field = field


class Cursor:
    """An index into a buffer.

    :param buffer: the bytes to read
    :param breathe: called now and then during long reads, so that the hub can run
    """

    __slots__ = ("breathe", "buffer", "end", "pos")

    def __init__(self, buffer: memoryview, breathe: Callable[[], object] | None = None) -> None:
        self.buffer = buffer
        self.pos = 0
        self.end = len(buffer)
        self.breathe = breathe


def uvarint(value: int) -> bytes:
    """Return a number as UNSIGNED_VARINT."""
    if value < 0x80:
        return _SMALL[value]
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def read_uvarint(buffer: memoryview, pos: int, end: int) -> tuple[int, int]:
    """Read an UNSIGNED_VARINT of at most 32 bits."""
    value = shift = 0
    while pos < end and shift <= 28:
        byte = buffer[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                break
            return value, pos
        shift += 7
    raise Malformed("a varint that is cut off or too long")


def length_writer(width: int, compact: bool, nullable: bool) -> Callable[[int | None], bytes]:
    """Return the writer of the length of a string, of bytes or of an array; None stands for null."""
    null = b"\x00" if compact else b"\xff" * width

    def write(length: int | None) -> bytes:
        if length is None:
            if not nullable:
                raise Unfit("must not be None", in_version=True)
            return null
        if not compact:
            return length.to_bytes(width, "big")
        return _SMALL[length + 1] if length < 0x7F else uvarint(length + 1)

    return write


def string_writer(compact: bool, nullable: bool) -> Writer:
    """Return the writer of STRING, NULLABLE_STRING or their compact forms; it takes bytes as UTF-8."""
    write_length = length_writer(2, compact, nullable)

    def write(value: str | bytes | None) -> bytes:
        if value is None:
            return write_length(None)
        data = value if isinstance(value, bytes) else value.encode()
        size = len(data)
        if size > STRING_MAX:
            raise Unfit(f"{size} bytes is too long for a string of the protocol: {STRING_MAX} at most")
        return _SMALL[size + 1] + data if compact and size < 0x7F else write_length(size) + data

    return write


def bytes_writer(compact: bool, nullable: bool) -> Writer:
    """Return the writer of BYTES, NULLABLE_BYTES or their compact forms."""
    write_length = length_writer(4, compact, nullable)

    def write(value: Any) -> bytes:
        if value is None:
            return write_length(None)
        data = bytes(memoryview(value))
        return write_length(len(data)) + data

    return write


def records_writer(compact: bool) -> Callable[[Any, Append], None]:
    """Return the writer of RECORDS or COMPACT_RECORDS: bytes-like, a list of bytes-likes, or None."""
    write_length = length_writer(4, compact, True)

    def write(value: Any, append: Append) -> None:
        if value is None:
            append(write_length(None))
            return
        pieces: Sequence[Any] = value if isinstance(value, (list, tuple)) else (value,)
        views = [_octets(piece) for piece in pieces]
        append(write_length(sum(map(len, views))))
        for view in views:
            append(view)

    return write


def _octets(piece: Any) -> memoryview:
    view = memoryview(piece)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def numbers_writer(kind: str, compact: bool, nullable: bool) -> Writer:
    """Return the writer of an array of numbers."""
    write_length = length_writer(4, compact, nullable)

    def write(value: Sequence[Any] | None) -> bytes:
        if value is None:
            return write_length(None)
        return write_length(len(value)) + struct.pack(f">{len(value)}{FIXED[kind]}", *value)

    return write


def _length_reader(width: int, compact: bool) -> Callable[[memoryview, int, int], tuple[int, int]]:
    """Return the reader of the length of a string, of bytes or of an array; -1 stands for null."""

    def read(buffer: memoryview, pos: int, end: int) -> tuple[int, int]:
        if pos + width > end:
            raise Malformed(f"{end - pos} bytes remain, which is too few")
        return int.from_bytes(buffer[pos : pos + width], "big", signed=True), pos + width

    def read_compact(buffer: memoryview, pos: int, end: int) -> tuple[int, int]:
        if pos < end and buffer[pos] < 0x80:
            return buffer[pos] - 1, pos + 1
        length, pos = read_uvarint(buffer, pos, end)
        return length - 1, pos

    return read_compact if compact else read


def bytes_reader(kind: str, compact: bool, nullable: bool) -> Reader:
    """Return the reader of STRING, BYTES, RECORDS, or a nullable or compact form of them.

    Records are read as a memoryview into the buffer.
    """
    read_length = _length_reader(WIDTHS[kind], compact)
    converters: dict[str, Callable[[memoryview], Any]] = {"string": _text, "bytes": bytes, "records": _same}
    convert = converters[kind]
    # A null where the protocol has none reads as empty: refusing the whole response would not help.
    null = None if nullable or kind == "records" else convert(memoryview(b""))

    def read(buffer: memoryview, pos: int, end: int) -> tuple[Any, int]:
        size, pos = read_length(buffer, pos, end)
        if size == -1:
            return null, pos
        stop = pos + size
        if size < 0 or stop > end:
            raise Malformed(f"a length of {size} bytes where {end - pos} remain")
        return convert(buffer[pos:stop]), stop

    return read


def _text(view: memoryview) -> str:
    return str(view, "utf-8")


def _same(view: memoryview) -> memoryview:
    return view


def read_uuid(buffer: memoryview, pos: int, end: int) -> tuple[UUID, int]:
    """Read a UUID."""
    if pos + 16 > end:
        raise Malformed(f"a length of 16 bytes where {end - pos} remain")
    return UUID(bytes=bytes(buffer[pos : pos + 16])), pos + 16


def array_length_reader(compact: bool, nullable: bool, element_size: int) -> Reader:
    """Return the reader of the length of an ARRAY or COMPACT_ARRAY; -1 for null, 0 if it must not be null.

    :param element_size: the fewest bytes of an element: a false length must not allocate memory
    """
    read_length = _length_reader(4, compact)

    def read(buffer: memoryview, pos: int, end: int) -> tuple[int, int]:
        length, pos = read_length(buffer, pos, end)
        if length == -1:
            return (-1 if nullable else 0), pos
        if length < 0 or length * element_size > end - pos:
            raise Malformed(f"an array of {length} elements where {end - pos} bytes remain")
        return length, pos

    return read


def numbers_reader(kind: str, compact: bool, nullable: bool) -> Reader:
    """Return the reader of an array of numbers, which reads all of them at once."""
    size = struct.calcsize(">" + FIXED[kind])
    read_length = array_length_reader(compact, nullable, size)
    # Mostly replica lists: the same few lengths, of one byte in compact form.
    unpackers = [struct.Struct(f">{length}{FIXED[kind]}").unpack_from for length in range(8)]
    short = range(1, len(unpackers) + 1) if compact else range(0)

    def read(buffer: memoryview, pos: int, end: int) -> tuple[list[Any] | None, int]:
        if pos < end and buffer[pos] in short:
            length = buffer[pos] - 1
            return list(unpackers[length](buffer, pos + 1)), pos + 1 + length * size
        length, pos = read_length(buffer, pos, end)
        if length < 0:
            return None, pos
        if length > NUMBERS_PER_ELEMENT * ELEMENTS_MAX and length > NUMBERS_PER_ELEMENT * elements_max(end):
            refuse_elements(length // NUMBERS_PER_ELEMENT, elements_max(end))
        return list(struct.unpack_from(f">{length}{FIXED[kind]}", buffer, pos)), pos + length * size

    return read
