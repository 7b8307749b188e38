"""Fetching: the documented classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from pykafka.compat.messages.base import Request, Response
from pykafka.compat.messages.messageset import unpacked
from pykafka.compat.messages.shapes import PartitionFetchRequest

from pykafka.protocol import wire
from pykafka.protocol.message import Message
from pykafka.utils import get_string
from pykafka.utils.name import Name


class FetchPartitionResponse(NamedTuple):
    """The high watermark of a partition, its messages, and an error code."""

    max_offset: int
    messages: list[Message]
    err: int


class FetchRequest(Request):
    """A request for messages of any number of partitions.

    :param partition_requests: the partitions and offsets to fetch
    :param timeout: how long the broker may wait for `min_bytes` (ms)
    :param min_bytes: the broker responds when it has so much (bytes)
    :param api_version: the version that `get_bytes` writes; a `Broker` chooses the version itself
    """

    API_KEY = 1

    @classmethod
    def get_versions(cls) -> dict[int, type[Any]]:
        """Return the class for each version."""
        return {0: FetchRequest, 1: FetchRequest}

    def __init__(
        self,
        partition_requests: Iterable[PartitionFetchRequest] = (),
        timeout: int = 1000,
        min_bytes: int = 1024,
        api_version: int = 0,
    ) -> None:
        self.api_version = api_version
        self.timeout = timeout
        self.min_bytes = min_bytes
        self._reqs: dict[str, dict[int, PartitionFetchRequest]] = {}
        for partition_request in partition_requests:
            self.add_request(partition_request)

    def _own_version(self) -> int:
        return self.api_version

    def add_request(self, partition_request: PartitionFetchRequest) -> None:
        """Add a partition.

        :param partition_request: topic, partition, offset to start at, and bytes at most
        """
        partitions = self._reqs.setdefault(get_string(partition_request.topic_name), {})
        partitions[partition_request.partition_id] = partition_request

    def wire(self, version: int) -> wire.FetchRequest:
        """Return this as a wire message."""
        topics = []
        for name, partitions in self._reqs.items():
            wanted = [
                wire.FetchRequest.Topic.Partition(
                    partition=id_, fetch_offset=asked.offset, partition_max_bytes=asked.max_bytes
                )
                for id_, asked in partitions.items()
            ]
            topics.append(wire.FetchRequest.Topic(topic=name, partitions=wanted))
        return wire.FetchRequest(max_wait_ms=self.timeout, min_bytes=self.min_bytes, topics=topics)


class FetchResponse(Response[wire.FetchResponse]):
    """The fetched messages: `.topics[name][partition id]`.

    :param buff: the response's body, version 0
    :param offset: index of the body's first byte in `buff`
    :param broker_version: accepted for old code; each message names its own format
    :raises InvalidMessageError: a message is corrupt
    :raises MessageSetDecodeFailure: the first message of a partition is cut off

    `.throttle_time` is how long the broker delayed the response, or will not read requests (ms).
    """

    WIRE = wire.FetchResponse
    API_KEY: ClassVar[int] = 1

    @classmethod
    def get_versions(cls) -> dict[int, type[Any]]:
        """Return the class for each version."""
        return {0: FetchResponse, 1: FetchResponseV1, 2: FetchResponseV2}

    def __init__(self, buff: bytes | bytearray | memoryview, offset: int = 0, broker_version: str = "0.9.0") -> None:
        super().__init__(memoryview(buff)[offset:])

    def _take(self, message: wire.FetchResponse) -> None:
        self.throttle_time = message.throttle_time_ms
        self.topics: defaultdict[str, dict[int, FetchPartitionResponse]] = defaultdict(dict)
        for topic in message.responses:
            for part in topic.partitions:
                messages = self._unpack_message_set(part.records, part.partition_index)
                self.topics[Name.of(topic.topic)][part.partition_index] = FetchPartitionResponse(
                    part.high_watermark, messages, part.error_code
                )

    def _unpack_message_set(self, buff: Any, partition_id: int = -1, broker_version: str = "0.9.0") -> list[Message]:
        """Return the messages of a message set or of record batches, also of nested sets.

        :param buff: their bytes; None means none
        :param partition_id: the partition of the new messages
        :param broker_version: accepted for old code
        """
        return [] if buff is None else unpacked(buff, partition_id)


class FetchResponseV1(FetchResponse):
    """The fetched messages; the body is of version 1."""

    API_VERSION = 1


class FetchResponseV2(FetchResponseV1):
    """The fetched messages; the body is of version 2."""

    API_VERSION = 2
