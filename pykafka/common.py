"""What many parts share: the codes of codecs and of offsets by name, and `Message`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.protocol.message import Message

__all__ = ["CompressionType", "Message", "OffsetType"]


class CompressionType(IntEnum):
    """Name Kafka's compression codecs; also plain integers, as in the protocol."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class OffsetType(IntEnum):
    """Name the offsets that are asked for by a negative number: the first, and the one after the last."""

    EARLIEST = -2
    LATEST = -1


def __getattr__(name: str) -> Any:
    # Late: the module of Message is above this one.
    if name == "Message":
        from pykafka.protocol.message import Message

        return Message
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
