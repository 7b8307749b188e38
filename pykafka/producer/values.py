"""What users hand to `produce()`, checked and brought into the form that is written."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


def as_bytes(name: str, data: Any) -> bytes | None:
    """Return a message's value or key as bytes.

    :param name: what it is, for the error
    :raises TypeError: it is neither bytes nor None
    """
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(
        f"{name} must be bytes or None, not {type(data).__name__}; encode it, or give the producer a serializer= "
        "(pykafka.utils.serialize_utf8 for text)"
    )


def header_pairs(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return headers as (name, value) pairs.

    :raises TypeError: one of them is no (str, bytes or None)
    """
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    for name, value in pairs:
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
            raise TypeError(f"headers must be (str, bytes or None) pairs; this one is not: {(name, value)!r}")
    return pairs


def timestamp_ms(timestamp: int | datetime.datetime) -> int:
    """Return a time as milliseconds since 1970; naive datetimes are UTC.

    :raises ValueError: it lies before 1970
    """
    if isinstance(timestamp, datetime.datetime):
        if timestamp.tzinfo is None:
            timestamp = timestamp.replace(tzinfo=datetime.UTC)
        return round(timestamp.timestamp() * 1000)
    if timestamp < 0:
        raise ValueError(f"timestamp must be milliseconds since 1970, not {timestamp}")
    return timestamp
