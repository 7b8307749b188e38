"""Bytes to messages and back: the documented names. The wire messages are in `pykafka.protocol.messages`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.protocol.admin import (
        API_VERSIONS_080,
        API_VERSIONS_090,
        ApiVersionsRequest,
        ApiVersionsResponse,
        ApiVersionsSpec,
        CreateTopicRequest,
        CreateTopicsRequest,
        CreateTopicsResponse,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        DescribeGroupResponse,
        DescribeGroupsRequest,
        DescribeGroupsResponse,
        GroupListing,
        GroupMember,
        ListGroupsRequest,
        ListGroupsResponse,
    )
    from pykafka.protocol.base import Request, Response
    from pykafka.protocol.fetch import FetchPartitionResponse, FetchRequest, FetchResponse
    from pykafka.protocol.groups import (
        ConsumerGroupProtocolMetadata,
        HeartbeatRequest,
        HeartbeatResponse,
        JoinGroupRequest,
        JoinGroupResponse,
        LeaveGroupRequest,
        LeaveGroupResponse,
        MemberAssignment,
        SyncGroupRequest,
        SyncGroupResponse,
    )
    from pykafka.protocol.message import Message
    from pykafka.protocol.messagesets import MessageSet
    from pykafka.protocol.metadata import MetadataRequest, MetadataResponse
    from pykafka.protocol.offset import ListOffsetRequest, ListOffsetResponse, OffsetRequest, OffsetResponse
    from pykafka.protocol.offset_commit import (
        ConsumerMetadataRequest,
        ConsumerMetadataResponse,
        GroupCoordinatorRequest,
        GroupCoordinatorResponse,
        OffsetCommitRequest,
        OffsetCommitResponse,
        OffsetFetchRequest,
        OffsetFetchResponse,
    )
    from pykafka.protocol.produce import ProducePartitionResponse, ProduceRequest, ProduceResponse
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

__all__ = [
    "API_VERSIONS_080",
    "API_VERSIONS_090",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "ApiVersionsSpec",
    "BrokerMetadata",
    "ConsumerGroupProtocolMetadata",
    "ConsumerMetadataRequest",
    "ConsumerMetadataResponse",
    "CreateTopicRequest",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeGroupResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "FetchPartitionResponse",
    "FetchRequest",
    "FetchResponse",
    "GroupCoordinatorRequest",
    "GroupCoordinatorResponse",
    "GroupListing",
    "GroupMember",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetRequest",
    "ListOffsetResponse",
    "MemberAssignment",
    "Message",
    "MessageSet",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitPartitionResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetFetchPartitionResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetPartitionResponse",
    "OffsetRequest",
    "OffsetResponse",
    "PartitionFetchRequest",
    "PartitionMetadata",
    "PartitionOffsetCommitRequest",
    "PartitionOffsetFetchRequest",
    "PartitionOffsetRequest",
    "ProducePartitionResponse",
    "ProduceRequest",
    "ProduceResponse",
    "Request",
    "Response",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TopicMetadata",
]

# Imported when first asked for: modules below this one import `pykafka.protocol.<module>`, and so pass here.
_HOMES = {
    "admin": (
        "API_VERSIONS_080",
        "API_VERSIONS_090",
        "ApiVersionsRequest",
        "ApiVersionsResponse",
        "ApiVersionsSpec",
        "CreateTopicRequest",
        "CreateTopicsRequest",
        "CreateTopicsResponse",
        "DeleteTopicsRequest",
        "DeleteTopicsResponse",
        "DescribeGroupResponse",
        "DescribeGroupsRequest",
        "DescribeGroupsResponse",
        "GroupListing",
        "GroupMember",
        "ListGroupsRequest",
        "ListGroupsResponse",
    ),
    "base": ("Request", "Response"),
    "fetch": ("FetchPartitionResponse", "FetchRequest", "FetchResponse"),
    "groups": (
        "ConsumerGroupProtocolMetadata",
        "HeartbeatRequest",
        "HeartbeatResponse",
        "JoinGroupRequest",
        "JoinGroupResponse",
        "LeaveGroupRequest",
        "LeaveGroupResponse",
        "MemberAssignment",
        "SyncGroupRequest",
        "SyncGroupResponse",
    ),
    "message": ("Message",),
    "messagesets": ("MessageSet",),
    "metadata": ("MetadataRequest", "MetadataResponse"),
    "offset": ("ListOffsetRequest", "ListOffsetResponse", "OffsetRequest", "OffsetResponse"),
    "offset_commit": (
        "ConsumerMetadataRequest",
        "ConsumerMetadataResponse",
        "GroupCoordinatorRequest",
        "GroupCoordinatorResponse",
        "OffsetCommitRequest",
        "OffsetCommitResponse",
        "OffsetFetchRequest",
        "OffsetFetchResponse",
    ),
    "produce": ("ProducePartitionResponse", "ProduceRequest", "ProduceResponse"),
    "shapes": (
        "BrokerMetadata",
        "OffsetCommitPartitionResponse",
        "OffsetFetchPartitionResponse",
        "OffsetPartitionResponse",
        "PartitionFetchRequest",
        "PartitionMetadata",
        "PartitionOffsetCommitRequest",
        "PartitionOffsetFetchRequest",
        "PartitionOffsetRequest",
        "TopicMetadata",
    ),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"pykafka.protocol.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
