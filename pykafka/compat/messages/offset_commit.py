"""Committed offsets of groups, and group coordinators: the documented classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from pykafka.compat.messages.base import (
    OffsetCommitPartitionResponse,
    OffsetFetchPartitionResponse,
    PartitionOffsetCommitRequest,
    PartitionOffsetFetchRequest,
    Request,
    Response,
    by_name,
)
from pykafka.protocol import wire
from pykafka.utils import get_string
from pykafka.utils.name import Name

# From this version on a commit has no retention time of its own.
_WITHOUT_TIMESTAMP = 2


class OffsetCommitRequest(Request):
    """A request that commits a group's offsets.

    :param consumer_group: name of the group
    :param consumer_group_generation_id: generation of the membership; -1 for none
    :param consumer_id: id of the member; empty for none
    :param partition_requests: the offsets to commit
    """

    API_KEY = 8
    API_VERSION = 1

    def __init__(
        self,
        consumer_group: str | bytes,
        consumer_group_generation_id: int,
        consumer_id: str | bytes,
        partition_requests: Iterable[PartitionOffsetCommitRequest] = (),
    ) -> None:
        self.consumer_group = consumer_group
        self.consumer_group_generation_id = consumer_group_generation_id
        self.consumer_id = consumer_id
        self._reqs: dict[str, dict[int, PartitionOffsetCommitRequest]] = {}
        for asked in partition_requests:
            self._reqs.setdefault(get_string(asked.topic_name), {})[asked.partition_id] = asked

    def wire(self, version: int) -> wire.OffsetCommitRequest:
        """Return this as a wire message."""
        topics = []
        for name, partitions in self._reqs.items():
            wanted = []
            for id_, asked in partitions.items():
                # Brokers keep null as empty.
                entry = wire.OffsetCommitRequest.Topic.Partition(
                    partition_index=id_,
                    committed_offset=asked.offset,
                    committed_metadata=get_string(asked.metadata) or None,
                )
                if version == _WITHOUT_TIMESTAMP - 1:
                    entry.commit_timestamp = asked.timestamp
                wanted.append(entry)
            topics.append(wire.OffsetCommitRequest.Topic(name=name, partitions=wanted))
        return wire.OffsetCommitRequest(
            group_id=get_string(self.consumer_group),
            generation_id_or_member_epoch=self.consumer_group_generation_id,
            member_id=get_string(self.consumer_id),
            topics=topics,
        )


class OffsetCommitResponse(Response[wire.OffsetCommitResponse]):
    """The result of each commit: `.topics[name][partition id]`.

    :param buff: the response's body, version 1
    """

    WIRE = wire.OffsetCommitResponse
    API_VERSION = 1

    def _take(self, message: wire.OffsetCommitResponse) -> None:
        self.topics = by_name(message.topics, lambda part: OffsetCommitPartitionResponse(part.error_code))


class OffsetFetchRequest(Request, versions=(0,)):
    """A request for a group's committed offsets.

    :param consumer_group: name of the group
    :param partition_requests: the partitions
    """

    API_KEY = 9

    def __init__(
        self, consumer_group: str | bytes, partition_requests: Iterable[PartitionOffsetFetchRequest] = ()
    ) -> None:
        self.consumer_group = consumer_group
        self._reqs: dict[str, list[int]] = {}
        for asked in partition_requests:
            self._reqs.setdefault(get_string(asked.topic_name), []).append(asked.partition_id)

    def wire(self, version: int) -> wire.OffsetFetchRequest:
        """Return this as a wire message."""
        sent = wire.OffsetFetchRequest
        if version >= 8:
            group = sent.Group(
                group_id=get_string(self.consumer_group),
                topics=[sent.Group.Topic(name=name, partition_indexes=ids) for name, ids in self._reqs.items()],
            )
            return sent(groups=[group])
        topics = [sent.Topic(name=name, partition_indexes=ids) for name, ids in self._reqs.items()]
        return sent(group_id=get_string(self.consumer_group), topics=topics)


class OffsetFetchResponse(Response[wire.OffsetFetchResponse], versions=(0,)):
    """A group's committed offsets: `.topics[name][partition id]`; `.err` is the error code of the whole group.

    :param buff: the response's body, version 0
    """

    WIRE = wire.OffsetFetchResponse
    API_KEY: ClassVar[int] = 9

    def _take(self, message: wire.OffsetFetchResponse) -> None:
        self.err = message.error_code or next((group.error_code for group in message.groups if group.error_code), 0)
        self.topics = _committed(message)
        for group in message.groups:
            self.topics |= _committed(group)


def _committed(answer: Any) -> dict[str, dict[int, OffsetFetchPartitionResponse]]:
    def made(part: Any) -> OffsetFetchPartitionResponse:
        # Since version 2: an error of the whole group replaces that of each partition.
        metadata = None if part.metadata is None else Name.of(part.metadata)
        return OffsetFetchPartitionResponse(part.committed_offset, metadata, part.error_code or answer.error_code)

    return by_name(answer.topics, made)


class OffsetFetchRequestV1(OffsetFetchRequest, versions=(1,)):
    """A request for a group's committed offsets, version 1."""


class OffsetFetchRequestV2(OffsetFetchRequestV1, versions=(2,)):
    """A request for a group's committed offsets, version 2: of all partitions if none is named."""

    def wire(self, version: int) -> wire.OffsetFetchRequest:
        """Return this as a wire message."""
        message = super().wire(version)
        if not self._reqs:
            message.topics = None
            for group in message.groups:
                group.topics = None
        return message


class OffsetFetchResponseV1(OffsetFetchResponse, versions=(1,)):
    """A group's committed offsets; the body is of version 1."""


class OffsetFetchResponseV2(OffsetFetchResponseV1, versions=(2,)):
    """A group's committed offsets; the body is of version 2, which has an error of the whole group."""


class GroupCoordinatorRequest(Request):
    """A request for the coordinator of a group.

    :param consumer_group: name of the group
    """

    API_KEY = 10

    def __init__(self, consumer_group: str | bytes) -> None:
        self.consumer_group = consumer_group

    def wire(self, version: int) -> wire.FindCoordinatorRequest:
        """Return this as a wire message."""
        return wire.FindCoordinatorRequest(key=get_string(self.consumer_group))


class GroupCoordinatorResponse(Response[wire.FindCoordinatorResponse]):
    """The coordinator of a group: `.coordinator_id`, `.coordinator_host`, `.coordinator_port`.

    :param buff: the response's body, version 0
    :raises ProtocolClientError: the broker answers an error
    """

    WIRE = wire.FindCoordinatorResponse

    def _take(self, message: wire.FindCoordinatorResponse) -> None:
        found = message.coordinators[0] if message.coordinators else message
        if found.error_code:
            self.raise_error(found.error_code, found.error_message or "")
        self.coordinator_id = found.node_id
        self.coordinator_host = Name.of(found.host)
        self.coordinator_port = found.port


#: Earlier names of the same classes.
ConsumerMetadataRequest = GroupCoordinatorRequest
ConsumerMetadataResponse = GroupCoordinatorResponse
