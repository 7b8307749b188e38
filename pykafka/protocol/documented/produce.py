"""Producing: the documented classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pykafka.protocol import wire
from pykafka.protocol.documented.base import Request, Response
from pykafka.protocol.documented.messageset import MessageSet
from pykafka.protocol.message import Message
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.utils.name import Name

# The first versions with message sets of format 1, and with record batches.
_FORMAT_1 = 2
_BATCHES = 3


class ProducePartitionResponse(NamedTuple):
    """An error code, and the offset of the first message."""

    err: int
    offset: int


class ProduceRequest(Request):
    """A request that produces messages to any number of partitions.

    :param compression_type: a `pykafka.common.CompressionType`
    :param required_acks: -1 waits for all in-sync replicas, 1 for the leader; with 0 the broker sends no response
    :param timeout: how long the broker may wait for acknowledgements (ms)
    :param broker_version: accepted for old code; the version of the request decides the format of the messages
    """

    API_KEY = 0

    def __init__(
        self,
        compression_type: int = 0,
        required_acks: int = 1,
        timeout: int = 10000,
        broker_version: str = "0.9.0",
    ) -> None:
        self.compression_type = compression_type
        self.required_acks = required_acks
        self.timeout = timeout
        self.msets: dict[str, dict[int, list[Message]]] = {}

    def add_message(self, message: Message, topic_name: str | bytes, partition_id: int) -> None:
        """Add a message.

        :param message: to produce
        :param topic_name: name of the topic
        :param partition_id: number of the partition
        """
        partitions = self.msets.setdefault(Name.given(topic_name), {})
        partitions.setdefault(partition_id, []).append(message)

    @property
    def messages(self) -> Iterator[Message]:
        """Iterate over all messages."""
        for partitions in self.msets.values():
            for found in partitions.values():
                yield from found

    def message_count(self) -> int:
        """Return the number of messages."""
        return sum(len(found) for partitions in self.msets.values() for found in partitions.values())

    def wire(self, version: int) -> wire.ProduceRequest:
        """Return this as a wire message, with records in the format of the version."""
        topic_data = []
        for name, partitions in self.msets.items():
            data = [
                wire.ProduceRequest.Topic.Partition(index=id_, records=self._records(found, version))
                for id_, found in partitions.items()
            ]
            topic_data.append(wire.ProduceRequest.Topic(name=name, partition_data=data))
        return wire.ProduceRequest(acks=self.required_acks, timeout_ms=self.timeout, topic_data=topic_data)

    def _records(self, found: list[Message], version: int) -> list[bytes | memoryview]:
        if version >= _BATCHES:
            builder = RecordBatchBuilder()
            for message in found:
                timestamp = -1 if message.timestamp is None else message.timestamp
                builder.append(timestamp, message.partition_key, message.value, message.headers)
            return list(builder.seal(self.compression_type))
        magic = 1 if version >= _FORMAT_1 else 0
        copies = [
            Message(message.value, message.partition_key, protocol_version=magic, timestamp=message.timestamp)
            for message in found
        ]
        return [MessageSet(self.compression_type, copies).get_bytes()]


class ProduceResponse(Response[wire.ProduceResponse]):
    """The result for each partition's messages: `.topics[name][partition id]`.

    :param buff: the response's body, version 0
    """

    WIRE = wire.ProduceResponse

    def _take(self, message: wire.ProduceResponse) -> None:
        self.topics = {
            Name.of(topic.name): {
                part.index: ProducePartitionResponse(part.error_code, part.base_offset)
                for part in topic.partition_responses
            }
            for topic in message.responses
        }
