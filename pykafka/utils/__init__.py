"""Small helpers that belong to no part."""

from __future__ import annotations

from pykafka.exceptions import UnicodeException

__all__ = ["Serializable", "deserialize_utf8", "get_bytes", "get_string", "serialize_utf8"]


class Serializable:
    """Be what can be written as bytes."""

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


def get_string(value: str | bytes) -> str:
    """Return text for text or UTF-8 bytes.

    :raises UnicodeException: the bytes are no UTF-8
    """
    if isinstance(value, str):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnicodeException(f"{value!r} is no UTF-8: give text, or UTF-8 bytes") from error


def get_bytes(value: str | bytes) -> bytes:
    """Return UTF-8 bytes for text or bytes."""
    return value if isinstance(value, bytes) else value.encode("utf-8")


def serialize_utf8(value: str | None, partition_key: str | None) -> tuple[bytes | None, bytes | None]:
    """Be a producer's `serializer` for text.

    :param value: the message; None is a tombstone
    :param partition_key: its key, or None
    :return: both as UTF-8
    """
    return (
        None if value is None else get_bytes(value),
        None if partition_key is None else get_bytes(partition_key),
    )


def deserialize_utf8(value: bytes | None, partition_key: bytes | None) -> tuple[str | None, str | None]:
    """Be a consumer's `deserializer` for text; the opposite of `serialize_utf8`.

    :raises UnicodeException: the bytes are no UTF-8
    """
    return (
        None if value is None else get_string(value),
        None if partition_key is None else get_string(partition_key),
    )
