"""`Schema` and `Registered`: what a registry keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

#: Kinds of schemas, as a registry names them.
AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"

#: The first byte before an id of four bytes, and that before a GUID of sixteen.
BY_ID, BY_GUID = 0, 1
#: The header that has the schema of a record's key or value.
HEADERS = {"key": b"__key_schema_id", "value": b"__value_schema_id"}
_ID_END, _GUID_END = 5, 17
_VARINT_BITS, _MORE = 35, 0x80


@dataclass(frozen=True)
class Reference:
    """A schema that another one uses.

    :param name: by which the text of the other one names it: a type of Avro, a file of Protobuf, a URI of JSON Schema
    :param subject: its subject
    :param version: its version there
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema.

    :param kind: AVRO, PROTOBUF or JSON
    :param text: in the language of its kind; of Protobuf also a descriptor of the file, in base64
    :param references: the schemas that it uses
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()

    def says_the_same(self, other: Schema) -> bool:
        """Return whether another schema is this one, perhaps with other spaces."""
        return self.kind == other.kind and (self.text == other.text or _bare(self.text) == _bare(other.text))


def _bare(text: str) -> str:
    """Return a text without spaces, and without what else differs between two texts of one JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return "".join(text.split())


@dataclass(frozen=True)
class Registered:
    """A schema in a subject.

    :param subject: the subject
    :param version: its number there, from 1 on
    :param id: its number in the registry, which never becomes another schema's
    :param schema: the schema
    :param guid: its id in every registry; None if the registry has no such ids
    """

    subject: str
    version: int
    id: int
    schema: Schema
    guid: str | None = None


def topic_subject(topic: str, side: str = "value") -> str:
    """Return the subject of a topic's records (TopicNameStrategy).

    :param topic: name of the topic
    :param side: "key" or "value"
    """
    return f"{topic}-{side}"


class FramingError(ValueError):
    """The bytes of a record do not say its schema."""


def read_id(data: bytes) -> tuple[int, int]:
    """Return the id at the beginning of a value, and where the rest begins.

    :raises FramingError: there is none
    """
    if len(data) < _ID_END or data[0] != BY_ID:
        shown = "is empty" if not data else f"begins with the byte {data[0]}, not with 0 and an id of four bytes"
        if data and data[0] == BY_ID:
            shown = f"ends after {len(data)} bytes, within its id"
        raise FramingError(f"no schema id is before it: it {shown}")
    return int.from_bytes(data[1:_ID_END], "big"), _ID_END


def read_header(data: bytes) -> tuple[int | str, int]:
    """Return the id or the GUID in a header, and where the rest of the header begins.

    :raises FramingError: there is neither
    """
    if data[:1] == b"\1" and len(data) >= _GUID_END:
        return str(UUID(bytes=data[1:_GUID_END])), _GUID_END
    if data[:1] == b"\0" and len(data) >= _ID_END:
        return read_id(data)
    raise FramingError(f"the header with its schema has {len(data)} bytes that are neither an id nor a GUID")


def read_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return which message of a Protobuf file follows, as the path from the file to it, and where it begins.

    :param at: where the indexes begin
    :raises FramingError: they are none
    """
    count, at = _zigzag(data, at)
    if count == 0:  # the short form of the first message
        return (0,), at
    if not 0 < count <= len(data) - at:
        raise FramingError(f"the path to its message is said to have {count} steps")
    path = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        path.append(index)
    return tuple(path), at


def with_id(schema: int) -> bytes:
    """Return the bytes before a value that say the id of its schema."""
    return bytes([BY_ID]) + schema.to_bytes(4, "big")


def with_guid(schema: str) -> bytes:
    """Return the value of a header that says the GUID of a schema."""
    return bytes([BY_GUID]) + UUID(schema).bytes


def with_indexes(path: Sequence[int]) -> bytes:
    """Return the bytes that say which message of a Protobuf file follows.

    :param path: from the file to the message
    """
    if tuple(path) == (0,):
        return b"\0"
    return b"".join(map(_varint, (len(path), *path)))


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < _VARINT_BITS:
        byte = data[at]
        at += 1
        value |= (byte & ~_MORE) << shift
        shift += 7
        if not byte & _MORE:
            return (value >> 1) ^ -(value & 1), at
    raise FramingError("the path to its message is cut off")


def _varint(number: int) -> bytes:
    left, written = (number << 1) ^ (number >> 63), bytearray()
    while left >= _MORE:
        written.append(left & 0x7F | _MORE)
        left >>= 7
    written.append(left)
    return bytes(written)
