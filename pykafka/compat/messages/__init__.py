"""The documented requests and responses, thin wrappers of `pykafka.protocol.wire`: each module is loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.metadata.partition import OffsetPartitionResponse as OffsetPartitionResponse
from pykafka.metadata.partition import PartitionMetadata as PartitionMetadata
from pykafka.metadata.partition import TopicMetadata as TopicMetadata
from pykafka.utils import names_on_use

if TYPE_CHECKING:
    from pykafka.compat.messages.admin import *  # noqa: F403
    from pykafka.compat.messages.base import *  # noqa: F403
    from pykafka.compat.messages.groups import *  # noqa: F403
    from pykafka.compat.messages.metadata import *  # noqa: F403
    from pykafka.compat.messages.offset_commit import *  # noqa: F403
    from pykafka.compat.messages.produce_fetch import *  # noqa: F403

_OF_METADATA = ("OffsetPartitionResponse", "PartitionMetadata", "TopicMetadata")
#: The names of each module.
_FAMILIES = {
    "admin": """
        API_VERSIONS_080 API_VERSIONS_090 ApiVersionsRequest ApiVersionsResponse ApiVersionsResponseV1 ApiVersionsSpec
        CreateTopicRequest CreateTopicsRequest CreateTopicsResponse DeleteTopicsRequest DeleteTopicsResponse
        DescribeGroupResponse DescribeGroupsRequest DescribeGroupsResponse GroupListing GroupMember ListGroupsRequest
        ListGroupsResponse
    """,
    "base": """
        BrokerMetadata BrokerMetadataV1 OffsetCommitPartitionResponse OffsetFetchPartitionResponse
        OffsetPartitionResponseV1 PartitionFetchRequest PartitionMetadataV5 PartitionOffsetCommitRequest
        PartitionOffsetFetchRequest PartitionOffsetRequest Request Response TopicMetadataV1
    """,
    "groups": """
        ConsumerGroupProtocolMetadata HeartbeatRequest HeartbeatResponse JoinGroupRequest JoinGroupResponse
        LeaveGroupRequest LeaveGroupResponse MemberAssignment SyncGroupRequest SyncGroupResponse
    """,
    "metadata": """
        ListOffsetRequest ListOffsetRequestV1 ListOffsetResponse ListOffsetResponseV1 MetadataRequest
        MetadataRequestV1 MetadataRequestV2 MetadataRequestV3 MetadataRequestV4 MetadataRequestV5 MetadataResponse
        MetadataResponseV1 MetadataResponseV2 MetadataResponseV3 MetadataResponseV4 MetadataResponseV5 OffsetRequest
        OffsetResponse
    """,
    "offset_commit": """
        ConsumerMetadataRequest ConsumerMetadataResponse GroupCoordinatorRequest GroupCoordinatorResponse
        OffsetCommitRequest OffsetCommitResponse OffsetFetchRequest OffsetFetchRequestV1 OffsetFetchRequestV2
        OffsetFetchResponse OffsetFetchResponseV1 OffsetFetchResponseV2
    """,
    "produce_fetch": """
        FetchPartitionResponse FetchRequest FetchResponse FetchResponseV1 FetchResponseV2 MessageSet
        ProducePartitionResponse ProduceRequest ProduceResponse
    """,
}

if not TYPE_CHECKING:  # checkers take the names from the modules
    __all__ = [*_OF_METADATA, *(name for names in _FAMILIES.values() for name in names.split())]  # noqa: PLE0604
    __getattr__ = names_on_use(__name__, _FAMILIES)
