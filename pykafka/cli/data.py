"""Values as text and as JSON has them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from pykafka.utils import as_datetime


def read_json(text: str) -> Any:
    """Return the value of JSON that a user wrote.

    :raises ValueError: it is not JSON, or nests deeper than Python's parser goes
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON nests too deep") from None


def time_text(timestamp: int | None) -> str | None:
    """Return a time (ms since 1970) as text in UTC; None for none."""
    if timestamp is None or timestamp < 0:
        return None
    try:
        time = as_datetime(timestamp)
    except OverflowError:  # beyond the year 9999; a producer may write any number
        return str(timestamp)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_data(value: Any) -> Any:
    """Return a value as JSON can express it: named tuples and dataclasses become objects, numbered names their names."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: as_data(one) for name, one in value._asdict().items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(as_data(name)): as_data(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, Sequence)) and not isinstance(value, (str, bytes)):
        return [as_data(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(as_data(one) for one in value)
    if isinstance(value, Enum):
        return value.name.lower() if isinstance(value, int) else value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return str(value) if isinstance(value, UUID) else value
