"""Shared public names: codecs, offsets, partitions of topics, and `Message`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.utils import old_names

if TYPE_CHECKING:
    from pykafka.protocol.message import Message

__all__ = ["CompressionType", "Message", "OffsetAndMetadata", "OffsetType", "SubscriptionPattern", "TopicPartition"]


class CompressionType(IntEnum):
    """Kafka's compression codecs; also plain integers, as in the protocol."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class OffsetType(IntEnum):
    """The two offsets that a request names by a negative number: the first one, and the one after the last."""

    EARLIEST = -2
    LATEST = -1


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class SubscriptionPattern:
    """A pattern of topics that the broker matches, in the syntax of RE2/J (KIP-848; Kafka 4.0 and later).

    `client.consumer(SubscriptionPattern("orders-.*"), group="g", protocol="consumer")` reads all topics whose whole name
    matches, and no internal ones. Backreferences and look-around, which Python's patterns have, are errors there.
    """

    pattern: str

    def __str__(self) -> str:
        return self.pattern


class OffsetAndMetadata(NamedTuple):
    """An offset (that of the next message to consume) and the text that the group stores with it."""

    offset: int
    metadata: str = ""


_old_name = old_names(__name__)


def __getattr__(name: str) -> Any:
    """Import `Message`, whose module imports this one, and names that only PyKafka 2 had here."""
    if name == "Message":
        return import_module("pykafka.protocol.message").Message
    return _old_name(name)
