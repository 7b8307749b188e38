"""Producing: the documented classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pykafka.compat.messages.base import Request, Response
from pykafka.compat.messages.messageset import MessageSet, numbered

from pykafka.protocol import wire
from pykafka.protocol.message import Message
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.utils import get_string
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
    :param broker_version: for the `MessageSet` of each partition

    `get_bytes` writes each message in its own format, as PyKafka 2 does; a `Broker` chooses the format itself.
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
        #: A `MessageSet` for each topic and partition.
        self.msets: defaultdict[str | bytes, defaultdict[int, MessageSet]] = defaultdict(
            lambda: defaultdict(lambda: MessageSet(compression_type, broker_version=broker_version))
        )

    def add_message(self, message: Message, topic_name: str | bytes, partition_id: int) -> None:
        """Add a message.

        :param message: to produce
        :param topic_name: name of the topic
        :param partition_id: number of the partition
        """
        if topic_name not in self.msets:
            # One topic, whether it is named by text or bytes.
            name = get_string(topic_name)
            topic_name = next((known for known in self.msets if get_string(known) == name), topic_name)
        self.msets[topic_name][partition_id].add_message(message)

    @property
    def messages(self) -> Iterator[Message]:
        """Iterate over all messages."""
        for partitions in self.msets.values():
            for message_set in partitions.values():
                yield from message_set

    def message_count(self) -> int:
        """Return the number of messages."""
        return sum(len(found.messages) for partitions in self.msets.values() for found in partitions.values())

    def get_bytes(self, correlation_id: int = 0) -> bytearray:
        """Return the whole request, length prefix and header included, with each message in its own format.

        :param correlation_id: the broker returns it with the response
        """
        message = self._filled(lambda message_set: message_set.get_bytes())
        return self._framed(message, 0, correlation_id)

    def wire(self, version: int) -> wire.ProduceRequest:
        """Return this as a wire message, with records in the format of the version."""
        message: wire.ProduceRequest = self._filled(lambda message_set: self._records(message_set, version))
        return message

    def _filled(self, records: Callable[[MessageSet], Any]) -> Any:
        topic_data = []
        for name, partitions in self.msets.items():
            data = [
                wire.ProduceRequest.Topic.Partition(index=id_, records=records(message_set))
                for id_, message_set in partitions.items()
            ]
            topic_data.append(wire.ProduceRequest.Topic(name=get_string(name), partition_data=data))
        return wire.ProduceRequest(acks=self.required_acks, timeout_ms=self.timeout, topic_data=topic_data)

    def _records(self, message_set: MessageSet, version: int) -> Any:
        if version >= _BATCHES:
            builder = RecordBatchBuilder()
            for message in message_set:
                # As in PyKafka 2, 0 is none: messages of format 0 have it.
                builder.append(message.timestamp or -1, message.partition_key, message.value, message.headers)
            return list(builder.seal(message_set.compression_type))
        return numbered(message_set.compression_type, message_set, 1 if version >= _FORMAT_1 else 0)


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
