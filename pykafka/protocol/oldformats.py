"""One message of format 0 or 1 as bytes, without its offset and size in a set."""

from __future__ import annotations

from struct import Struct, error
from typing import Any, NamedTuple
from zlib import crc32

from pykafka.exceptions import InvalidMessageError

_TIME = Struct(">q")
_SIZE = Struct(">i")
#: Checksum, format, attributes.
_HEAD = Struct(">IBB")
_CODEC = 7
_APPEND_TIME = 8
#: Where a message has its attributes, counted from its checksum.
_ATTRIBUTES_AT = 5


class Unpacked(NamedTuple):
    """The content of a message; `timestamp` is -1 for none (ms since 1970)."""

    magic: int
    codec: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def pack(magic: int, codec: int, timestamp: int, key: bytes | None, value: Any) -> bytes:
    """Return a message as bytes.

    :param magic: its format: 0 or 1
    :param codec: the codec that compressed its value
    :param timestamp: ms since 1970; -1 for none; format 0 drops it
    :param value: bytes-like, or None
    """
    parts: list[Any] = [bytes((magic, codec))]
    if magic:
        parts.append(_TIME.pack(timestamp))
    for part in (key, value):
        parts += (_SIZE.pack(-1),) if part is None else (_SIZE.pack(len(part)), part)
    content = b"".join(parts)
    return crc32(content).to_bytes(4, "big") + content


def unpack(buffer: Any, offset: int) -> Unpacked:
    """Return the content of a message.

    :param buffer: its bytes
    :param offset: its offset, for errors
    :raises InvalidMessageError: the bytes are no message, or the checksum is wrong
    """
    raw = bytes(buffer)
    try:
        _, magic, attributes = _HEAD.unpack_from(raw)
        at = _HEAD.size
        timestamp = -1
        if magic == 1:
            (timestamp,) = _TIME.unpack_from(raw, at)
            at += _TIME.size
        key, at = _part(raw, at)
        value, at = _part(raw, at)
    except error:
        magic = -1
    if magic not in (0, 1) or at != len(raw):
        raise InvalidMessageError(f"{len(raw)} bytes are no message of format 0 or 1; fetch them again")
    check_crc(raw, offset)
    return Unpacked(magic, attributes & _CODEC, timestamp, key, value)


def is_appended(buffer: Any) -> bool:
    """Return whether a message's time is that of its append to the log.

    :param buffer: its bytes, which `unpack` has read
    """
    return bool(buffer[_ATTRIBUTES_AT] & _APPEND_TIME)


def _part(raw: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(raw, at)
    at += _SIZE.size
    if size < 0:
        return None, at
    return raw[at : at + size], at + size


def check_crc(content: Any, offset: int) -> None:
    """Verify the checksum of a message.

    :param content: bytes-like, from the checksum on
    :param offset: its offset, for errors
    :raises InvalidMessageError: they differ
    """
    view = memoryview(content)
    said = int.from_bytes(view[:4], "big")
    found = crc32(view[4:])
    if said != found:
        raise InvalidMessageError(
            f"the message at offset {offset} is corrupt: its checksum is {found:#010x}, not {said:#010x} as it says; "
            "fetch it again, or skip it"
        )
