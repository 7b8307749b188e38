"""Bytes to messages and back: the documented names. The wire messages are in `pykafka.protocol.messages`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.protocol.shapes import (
    BrokerMetadata,
    OffsetCommitPartitionResponse,
    OffsetFetchPartitionResponse,
    OffsetPartitionResponse,
    PartitionFetchRequest,
    PartitionMetadata,
    PartitionOffsetCommitRequest,
    PartitionOffsetFetchRequest,
    PartitionOffsetRequest,
    TopicMetadata,
)

if TYPE_CHECKING:
    from pykafka.protocol.message import Message

__all__ = [
    "BrokerMetadata",
    "Message",
    "OffsetCommitPartitionResponse",
    "OffsetFetchPartitionResponse",
    "OffsetPartitionResponse",
    "PartitionFetchRequest",
    "PartitionMetadata",
    "PartitionOffsetCommitRequest",
    "PartitionOffsetFetchRequest",
    "PartitionOffsetRequest",
    "TopicMetadata",
]


def __getattr__(name: str) -> Any:
    if name == "Message":
        from pykafka.protocol.message import Message

        return Message
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
