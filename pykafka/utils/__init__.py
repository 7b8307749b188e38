"""Small helpers that belong to no part."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from operator import index

from pykafka.exceptions import UnicodeException
from pykafka.utils.apiversions import ApiVersionAware, msg_protocol_version

__all__ = [
    "INT64_MAX",
    "ApiVersionAware",
    "Serializable",
    "as_datetime",
    "deserialize_utf8",
    "get_bytes",
    "get_string",
    "is_legal_name",
    "milliseconds",
    "msg_protocol_version",
    "serialize_utf8",
]

#: The highest offset, and the latest time (ms), that Kafka can write down.
INT64_MAX = 2**63 - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Serializable:
    """Base of objects with a bytes form."""

    def __len__(self) -> int:
        """Return the size when written (bytes)."""
        raise NotImplementedError(f"{type(self).__name__} does not say its size")

    def pack_into(self, buff: bytearray | memoryview, offset: int) -> None:
        """Write this into a buffer.

        :param buff: to write into
        :param offset: where to begin
        """
        raise NotImplementedError(f"{type(self).__name__} does not write itself into a buffer")

    def get_bytes(self) -> bytes | bytearray:
        """Return this as bytes."""
        buff = bytearray(len(self))
        self.pack_into(buff, 0)
        return buff


def is_legal_name(name: str) -> bool:
    """Return whether Kafka takes this as the name of a topic or of a static member."""
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


def milliseconds(moment: int | datetime, name: str = "a time") -> int:
    """Return a time as whole milliseconds since 1970.

    :param moment: a datetime (a naive one is UTC), or that number already
    :param name: what the error calls it
    :raises TypeError: it is neither
    """
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MILLISECOND
    try:
        return index(moment)
    except TypeError:
        raise TypeError(f"{name} must be a datetime, or an int, not {type(moment).__name__}: {moment!r}") from None


def as_datetime(timestamp: int) -> datetime:
    """Return a time as an aware datetime (UTC); the opposite of `milliseconds`.

    :param timestamp: ms since 1970
    :raises OverflowError: a datetime cannot express it
    """
    return _EPOCH + timestamp * _MILLISECOND


def get_string(value: str | bytes, name: str = "") -> str:
    """Return text for text or UTF-8 bytes.

    :param value: what was given
    :param name: what the errors call it
    :raises UnicodeException: the bytes are no UTF-8
    :raises TypeError: it is neither
    """
    if isinstance(value, str):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"{name}: {value!r}" if name else repr(value)
        raise UnicodeException(f"{what} is no UTF-8: give text, or UTF-8 bytes") from error
    except AttributeError:
        what = f"{name} must be" if name else "give"
        raise TypeError(f"{what} text, or UTF-8 bytes, not {type(value).__name__}: {value!r}") from None


def get_bytes(value: str | bytes) -> bytes:
    """Return UTF-8 bytes for text or bytes."""
    return value if isinstance(value, bytes) else value.encode("utf-8")


def serialize_utf8(value: str | None, partition_key: str | None) -> tuple[bytes | None, bytes | None]:
    """Return a message's value and key as UTF-8; a `serializer` for producers of text.

    :param value: the message; None is a tombstone
    :param partition_key: its key, or None
    :return: both as UTF-8
    """
    return (
        None if value is None else get_bytes(value),
        None if partition_key is None else get_bytes(partition_key),
    )


def deserialize_utf8(value: bytes | None, partition_key: bytes | None) -> tuple[str | None, str | None]:
    """Return a message's value and key as text; a `deserializer` for consumers, the opposite of `serialize_utf8`.

    :raises UnicodeDecodeError: the bytes are no UTF-8
    """
    return (
        None if value is None else value.decode("utf-8"),
        None if partition_key is None else partition_key.decode("utf-8"),
    )
