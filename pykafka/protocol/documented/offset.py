"""Offsets by time: the documented classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from pykafka.compat.messages.base import Request, Response
from pykafka.compat.messages.shapes import (
    OffsetPartitionResponse,
    OffsetPartitionResponseV1,
    PartitionOffsetRequest,
)

from pykafka.protocol import wire
from pykafka.utils import get_string
from pykafka.utils.name import Name

_Partition = wire.ListOffsetsResponse.Topic.Partition


class ListOffsetRequest(Request):
    """A request for offsets by time.

    :param partition_requests: the partitions and times
    """

    API_KEY = 2

    @classmethod
    def get_versions(cls) -> dict[int, type[Any]]:
        """Return the class for each version."""
        return {0: ListOffsetRequest, 1: ListOffsetRequest}

    def __init__(self, partition_requests: Iterable[PartitionOffsetRequest]) -> None:
        self._reqs: dict[str, dict[int, PartitionOffsetRequest]] = {}
        for asked in partition_requests:
            self._reqs.setdefault(get_string(asked.topic_name), {})[asked.partition_id] = asked

    def wire(self, version: int) -> wire.ListOffsetsRequest:
        """Return this as a wire message. Only version 0 can ask for several offsets."""
        topics = []
        for name, partitions in self._reqs.items():
            wanted = []
            for id_, asked in partitions.items():
                entry = wire.ListOffsetsRequest.Topic.Partition(partition_index=id_, timestamp=asked.offsets_before)
                if version == 0:
                    entry.max_num_offsets = asked.max_offsets
                wanted.append(entry)
            topics.append(wire.ListOffsetsRequest.Topic(name=name, partitions=wanted))
        return wire.ListOffsetsRequest(replica_id=-1, topics=topics)


class ListOffsetResponse(Response[wire.ListOffsetsResponse]):
    """Offsets by time: `.topics[name][partition id]`.

    :param buff: the response's body, version 0
    """

    WIRE = wire.ListOffsetsResponse
    API_KEY: ClassVar[int] = 2

    @classmethod
    def get_versions(cls) -> dict[int, type[Any]]:
        """Return the class for each version."""
        return {0: ListOffsetResponse, 1: ListOffsetResponse}

    def _take(self, message: wire.ListOffsetsResponse) -> None:
        self.topics = {
            Name.of(topic.name): {part.partition_index: self._partition(part) for part in topic.partitions}
            for topic in message.topics
        }

    def _partition(self, part: _Partition) -> Any:
        return OffsetPartitionResponse(_offsets(part), part.error_code)


class ListOffsetRequestV1(ListOffsetRequest):
    """A request for one offset by time of each partition, version 1."""

    API_VERSION = 1


class ListOffsetResponseV1(ListOffsetResponse):
    """One offset and the time of its message: `.topics[name][partition id]`; the body is of version 1."""

    API_VERSION = 1

    def _partition(self, part: _Partition) -> Any:
        return OffsetPartitionResponseV1(_offsets(part), part.timestamp, part.error_code)


def _offsets(part: _Partition) -> list[int]:
    # Versions above 0 return one offset, or -1 for none.
    return list(part.old_style_offsets) or ([part.offset] if part.offset >= 0 else [])


#: Earlier names of the same classes.
OffsetRequest = ListOffsetRequest
OffsetResponse = ListOffsetResponse
