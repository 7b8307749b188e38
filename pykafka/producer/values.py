"""Checks and conversions of the values that users pass to `produce()`."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from pykafka.utils import INT64_MAX, milliseconds
from pykafka.utils.name import Name

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
    if isinstance(data, Name) and name not in {"key", "value"}:  # `Producer` of PyKafka 2 took the bytes
        return bytes(data)
    hint = (
        f"{name}_serializer= (pykafka.serialization has StringSerializer and JsonSerializer)"
        if name in {"key", "value"}
        else "a serializer= (pykafka.utils.serialize_utf8 for text)"
    )
    raise TypeError(f"{name} must be bytes or None, not {type(data).__name__}; encode it, or give the producer {hint}")


def header_pairs(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return headers as (name, value) pairs.

    :raises TypeError: one of them is no (str, bytes or None)
    """
    try:
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        for name, value in pairs:
            if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
                wrong = f"a pair of {type(name).__name__} and {type(value).__name__}"
                break
        else:
            return pairs
    except (TypeError, ValueError):
        wrong = f"{type(headers).__name__}, whose items are no pairs"
    # Types, and no contents: errors are logged, and headers may be secret.
    raise TypeError(f"headers must be a mapping or (str, bytes or None) pairs, not {wrong}")


def timestamp_ms(timestamp: int | datetime.datetime) -> int:
    """Return a time as milliseconds since 1970; naive datetimes are UTC.

    :raises ValueError: it lies before 1970, or beyond what Kafka can write down
    """
    found = milliseconds(timestamp, "timestamp")
    if found < 0:
        raise ValueError(f"timestamp must not lie before 1970: {timestamp}")
    if found > INT64_MAX:
        raise ValueError(f"timestamp must fit into 64 bits (ms): {timestamp}")
    return found
