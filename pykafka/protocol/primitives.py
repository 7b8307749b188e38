"""Kafka's primitive types: writers and readers of bytes.

Writers append bytes to a list; only `records` are appended as memoryviews, without a copy. Readers take a :class:`Cursor`
and move it. Reference: https://kafka.apache.org/protocol (Protocol Primitive Types), KIP-482 (compact types and tags).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

Append = Callable[[Any], None]
Writer = Callable[[Any, Append], None]
Reader = Callable[["Cursor"], Any]

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

#: The longest string of the protocol (bytes).
STRING_MAX = 0x7FFF
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_VARINT_MAX_BITS = 32
_NULL_STRING = b"\xff\xff"
_NULL_ARRAY = b"\xff\xff\xff\xff"


class Malformed(Exception):
    """Raised for bytes that cannot be decoded; enclosing readers add the path to the field.

    :param what: what is wrong
    :param path: names of the enclosing fields, innermost first
    """

    def __init__(self, what: str, path: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.path = list(path)


class Unfit(Exception):
    """Raised for a value that cannot be encoded; enclosing writers add the path to the field.

    :param what: what is wrong
    :param in_version: True if another version of the message could hold the value
    :param path: names of the enclosing fields, innermost first
    """

    def __init__(self, what: str, in_version: bool = False, path: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.in_version = in_version
        self.path = list(path)


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

    def take(self, size: int) -> memoryview:
        """Return the next bytes, without a copy.

        :param size: number of bytes
        :raises Malformed: the buffer has fewer bytes left
        """
        start = self.pos
        stop = start + size
        if size < 0 or stop > self.end:
            raise Malformed(f"a length of {size} bytes where {self.end - start} remain")
        self.pos = stop
        return self.buffer[start:stop]

    def int16(self) -> int:
        """Return the next INT16."""
        start = self.pos
        value: int = _INT16.unpack_from(self.buffer, start)[0]
        self.pos = start + 2
        return value

    def int32(self) -> int:
        """Return the next INT32."""
        start = self.pos
        value: int = _INT32.unpack_from(self.buffer, start)[0]
        self.pos = start + 4
        return value

    def uvarint(self) -> int:
        """Return the next UNSIGNED_VARINT.

        :raises Malformed: the varint does not end, or has more than 32 bits
        """
        buffer, pos, end = self.buffer, self.pos, self.end
        if pos < end and buffer[pos] < 0x80:
            self.pos = pos + 1
            return buffer[pos]
        value = shift = 0
        while pos < end:
            byte = buffer[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> _VARINT_MAX_BITS:
                    break
                self.pos = pos
                return value
            shift += 7
            if shift > 28:
                break
        raise Malformed("a varint that is cut off or too long")


def uvarint(value: int) -> bytes:
    """Return a number as UNSIGNED_VARINT."""
    if value < 0x80:
        return bytes((value,))
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def fixed_writer(kind: str) -> Writer:
    """Return the writer of a type of fixed size."""
    pack = struct.Struct(">" + FIXED[kind]).pack

    def write(value: Any, append: Append) -> None:
        append(pack(value))

    return write


def fixed_reader(kind: str) -> Reader:
    """Return the reader of a type of fixed size."""
    packed = struct.Struct(">" + FIXED[kind])
    unpack, size = packed.unpack_from, packed.size

    def read(cursor: Cursor) -> Any:
        start = cursor.pos
        value = unpack(cursor.buffer, start)[0]
        cursor.pos = start + size
        return value

    return read


def uuid_writer(value: UUID, append: Append) -> None:
    """Write a UUID: 16 bytes."""
    append(value.bytes)


def uuid_reader(cursor: Cursor) -> UUID:
    """Read a UUID."""
    return UUID(bytes=bytes(cursor.take(16)))


def string_writer(compact: bool, nullable: bool) -> Writer:
    """Return the writer of STRING, NULLABLE_STRING or their compact forms; it takes bytes as UTF-8."""

    def write(value: str | bytes | None, append: Append) -> None:
        if value is None:
            if not nullable:
                raise Unfit("must not be None", in_version=True)
            append(b"\x00" if compact else _NULL_STRING)
            return
        data = value if isinstance(value, bytes) else value.encode()
        size = len(data)
        if size > STRING_MAX:
            raise Unfit(f"{size} bytes is too long for a string of the protocol: {STRING_MAX} at most")
        append(uvarint(size + 1) + data if compact else _INT16.pack(size) + data)

    return write


def string_reader(compact: bool, nullable: bool) -> Reader:
    """Return the reader of STRING, NULLABLE_STRING or their compact forms."""

    def read(cursor: Cursor) -> str | None:
        size = cursor.uvarint() - 1 if compact else cursor.int16()
        if size == -1:
            # A null where the protocol has none: refusing the whole response for it would help nobody.
            return None if nullable else ""
        return str(cursor.take(size), "utf-8")

    return read


def bytes_writer(compact: bool, nullable: bool) -> Writer:
    """Return the writer of BYTES, NULLABLE_BYTES or their compact forms."""

    def write(value: Any, append: Append) -> None:
        if value is None:
            if not nullable:
                raise Unfit("must not be None", in_version=True)
            append(b"\x00" if compact else _NULL_ARRAY)
            return
        data = bytes(memoryview(value))
        append(uvarint(len(data) + 1) + data if compact else _INT32.pack(len(data)) + data)

    return write


def bytes_reader(compact: bool, nullable: bool) -> Reader:
    """Return the reader of BYTES, NULLABLE_BYTES or their compact forms."""

    def read(cursor: Cursor) -> bytes | None:
        size = cursor.uvarint() - 1 if compact else cursor.int32()
        if size == -1:
            return None if nullable else b""
        return bytes(cursor.take(size))

    return read


def records_writer(compact: bool) -> Writer:
    """Return the writer of RECORDS or COMPACT_RECORDS: bytes-like, a list of bytes-likes, or None."""

    def write(value: Any, append: Append) -> None:
        if value is None:
            append(b"\x00" if compact else _NULL_ARRAY)
            return
        pieces: Sequence[Any] = value if isinstance(value, (list, tuple)) else (value,)
        views = [_octets(piece) for piece in pieces]
        size = sum(len(view) for view in views)
        append(uvarint(size + 1) if compact else _INT32.pack(size))
        for view in views:
            append(view)

    return write


def _octets(piece: Any) -> memoryview:
    view = memoryview(piece)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def records_reader(compact: bool) -> Reader:
    """Return the reader of RECORDS or COMPACT_RECORDS: a memoryview into the buffer, or None."""

    def read(cursor: Cursor) -> memoryview | None:
        size = cursor.uvarint() - 1 if compact else cursor.int32()
        return None if size == -1 else cursor.take(size)

    return read


def array_writer(element: Writer, compact: bool, nullable: bool) -> Writer:
    """Return the writer of ARRAY or COMPACT_ARRAY."""

    def write(value: Sequence[Any] | None, append: Append) -> None:
        if value is None:
            if not nullable:
                raise Unfit("must not be None", in_version=True)
            append(b"\x00" if compact else _NULL_ARRAY)
            return
        append(uvarint(len(value) + 1) if compact else _INT32.pack(len(value)))
        index = 0
        try:
            for index, item in enumerate(value):  # noqa: B007  (the handler below wants it)
                element(item, append)
        except Unfit as unfit:
            unfit.path.append(f"[{index}]")
            raise

    return write


def array_length(cursor: Cursor, compact: bool, nullable: bool, element_size: int) -> int:
    """Read the length of an array; -1 for null.

    :param cursor: at the length
    :param compact: whether it is a COMPACT_ARRAY
    :param nullable: whether null is allowed; otherwise null reads as an empty array
    :param element_size: the fewest bytes of an element
    :raises Malformed: the remaining bytes cannot hold the elements: a false length allocates nothing
    """
    length = cursor.uvarint() - 1 if compact else cursor.int32()
    if length == -1:
        return -1 if nullable else 0
    if length < 0 or length * element_size > cursor.end - cursor.pos:
        raise Malformed(f"an array of {length} elements where {cursor.end - cursor.pos} bytes remain")
    return length


def array_reader(element: Reader, compact: bool, nullable: bool, element_size: int) -> Reader:
    """Return the reader of ARRAY or COMPACT_ARRAY.

    :param element_size: the fewest bytes of an element
    """

    def read(cursor: Cursor) -> list[Any] | None:
        length = array_length(cursor, compact, nullable, element_size)
        if length < 0:
            return None
        breathe = cursor.breathe
        found: list[Any] = []
        try:
            for _ in range(length):
                found.append(element(cursor))
                if breathe is not None:
                    breathe()
        except Malformed as malformed:
            malformed.path.append(f"[{len(found)}]")
            raise
        return found

    return read


def fixed_array_reader(kind: str, compact: bool, nullable: bool) -> Reader:
    """Return the reader of an array of numbers, which reads all of them at once."""
    code = FIXED[kind]
    size = struct.calcsize(">" + code)
    # Mostly replica lists: the same few lengths.
    unpackers = [struct.Struct(f">{length}{code}").unpack_from for length in range(8)]

    def read(cursor: Cursor) -> list[Any] | None:
        length = array_length(cursor, compact, nullable, size)
        if length < 0:
            return None
        start = cursor.pos
        cursor.pos = start + length * size
        if length < len(unpackers):
            return list(unpackers[length](cursor.buffer, start))
        return list(struct.unpack_from(f">{length}{code}", cursor.buffer, start))

    return read
