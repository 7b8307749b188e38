"""Reading Kafka's older structures by format strings, as the reference documents it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import CorruptResponseError
from pykafka.utils import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)


def unpack_from(fmt: str, buff: bytes | bytearray | memoryview, offset: int = 0) -> Any:
    """Unpack in network order; the formats include three more than those of `struct.unpack_from`.

    `S` is a string (an int16 size, then bytes), `Y` is bytes (an int32 size, then bytes); a size of -1 gives None.
    `[...]` is an array (an int32 count, then its elements): a list of tuples, or of values if one format that is no
    array is inside.
    Spaces are ignored.

    :param fmt: such as "hi[Sq]"
    :param buff: to read
    :param offset: where to begin (bytes)
    :return: the values, as a tuple; of a format that is one array and nothing else, its list
    :raises CorruptResponseError: the buffer ends before the format does
    :raises ValueError: the format has brackets that do not match
    """
    items, end = _parse(fmt.replace(" ", ""), 0)
    if end != len(fmt.replace(" ", "")):
        raise ValueError(f"format {fmt!r} has a ] too many")
    view = memoryview(buff)
    try:
        values = _unpack(items, view, offset)[0]
    except struct.error as error:
        raise CorruptResponseError(f"{len(view) - offset} bytes are too few for the format {fmt!r}") from error
    return values[0] if len(items) == 1 and isinstance(items[0], list) else values


def _parse(fmt: str, at: int) -> tuple[list[Any], int]:
    """Return the formats from a place on, arrays as lists, and the place after them."""
    items: list[Any] = []
    while at < len(fmt) and fmt[at] != "]":
        if fmt[at] == "[":
            inner, at = _parse(fmt, at + 1)
            if at == len(fmt):
                raise ValueError(f"format {fmt!r} has a [ that is not closed")
            items.append(inner)
        elif fmt[at] not in "!<>=@":
            items.append(fmt[at])
        at += 1
    return items, at


def _unpack(items: list[Any], view: memoryview, offset: int) -> tuple[tuple[Any, ...], int]:
    found: list[Any] = []
    for item in items:
        if isinstance(item, list):
            value, offset = _unpack_array(item, view, offset)
            found.append(value)
        elif item in "SY":
            content, offset = _unpack_bytes("!h" if item == "S" else "!i", view, offset)
            found.append(content)
        else:
            found += struct.unpack_from("!" + item, view, offset)  # none of "x"
            offset += struct.calcsize("!" + item)
    return tuple(found), offset


def _unpack_bytes(size_format: str, view: memoryview, offset: int) -> tuple[bytes | None, int]:
    size: int = struct.unpack_from(size_format, view, offset)[0]
    offset += struct.calcsize(size_format)
    if size == -1:
        return None, offset
    if size < 0 or offset + size > len(view):
        raise CorruptResponseError(f"a length of {size} bytes where {len(view) - offset} remain")
    return bytes(view[offset : offset + size]), offset + size


def _unpack_array(items: list[Any], view: memoryview, offset: int) -> tuple[list[Any], int]:
    count: int = struct.unpack_from("!i", view, offset)[0]
    offset += 4
    # Every element takes a byte at least, unless there are no formats to read one by.
    if count > len(view) - offset:
        raise CorruptResponseError(f"an array of {count} elements where {len(view) - offset} bytes remain")
    found: list[Any] = []
    for _ in range(count):
        values, offset = _unpack(items, view, offset)
        if len(items) == 1 and not isinstance(items[0], list):
            found += values
        else:
            found.append(values)
    return found, offset
