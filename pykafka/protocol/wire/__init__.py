"""The wire messages: one module per family, each message declared once for all its versions.

A family is imported when one of its messages is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.utils import names_on_use

if TYPE_CHECKING:
    from pykafka.protocol.wire.acls import *  # noqa: F403
    from pykafka.protocol.wire.api_versions import *  # noqa: F403
    from pykafka.protocol.wire.brokers import *  # noqa: F403
    from pykafka.protocol.wire.config_changes import *  # noqa: F403
    from pykafka.protocol.wire.configs import *  # noqa: F403
    from pykafka.protocol.wire.consumer_groups import *  # noqa: F403
    from pykafka.protocol.wire.fetch import *  # noqa: F403
    from pykafka.protocol.wire.groups import *  # noqa: F403
    from pykafka.protocol.wire.leader_epochs import *  # noqa: F403
    from pykafka.protocol.wire.log_dirs import *  # noqa: F403
    from pykafka.protocol.wire.metadata import *  # noqa: F403
    from pykafka.protocol.wire.offsets import *  # noqa: F403
    from pykafka.protocol.wire.produce import *  # noqa: F403
    from pykafka.protocol.wire.producer_ids import *  # noqa: F403
    from pykafka.protocol.wire.producer_transactions import *  # noqa: F403
    from pykafka.protocol.wire.quorum import *  # noqa: F403
    from pykafka.protocol.wire.quotas import *  # noqa: F403
    from pykafka.protocol.wire.reassignments import *  # noqa: F403
    from pykafka.protocol.wire.sasl import *  # noqa: F403
    from pykafka.protocol.wire.scram_users import *  # noqa: F403
    from pykafka.protocol.wire.share_groups import *  # noqa: F403
    from pykafka.protocol.wire.streams_groups import (
        StreamsGroupDescribeRequest as StreamsGroupDescribeRequest,
    )
    from pykafka.protocol.wire.streams_groups import (
        StreamsGroupDescribeResponse as StreamsGroupDescribeResponse,
    )
    from pykafka.protocol.wire.telemetry import *  # noqa: F403
    from pykafka.protocol.wire.tokens import *  # noqa: F403
    from pykafka.protocol.wire.topic_partitions import *  # noqa: F403
    from pykafka.protocol.wire.topics import *  # noqa: F403
    from pykafka.protocol.wire.transactions import *  # noqa: F403

#: The messages of each module.
_FAMILIES = {
    "acls": """
        CreateAclsRequest CreateAclsResponse DeleteAclsRequest DeleteAclsResponse DescribeAclsRequest
        DescribeAclsResponse
    """,
    "api_versions": "ApiVersionsRequest ApiVersionsResponse",
    "brokers": """
        DescribeClusterRequest DescribeClusterResponse UnregisterBrokerRequest UnregisterBrokerResponse
        UpdateFeaturesRequest UpdateFeaturesResponse
    """,
    "config_changes": """
        AlterConfigsRequest AlterConfigsResponse IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse
        ListConfigResourcesRequest ListConfigResourcesResponse
    """,
    "configs": "DescribeConfigsRequest DescribeConfigsResponse",
    "consumer_groups": """
        ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse ConsumerGroupHeartbeatRequest
        ConsumerGroupHeartbeatResponse
    """,
    "fetch": "FetchRequest FetchResponse",
    "groups": """
        DeleteGroupsRequest DeleteGroupsResponse DescribeGroupsRequest DescribeGroupsResponse FindCoordinatorRequest
        FindCoordinatorResponse HeartbeatRequest HeartbeatResponse JoinGroupRequest JoinGroupResponse LeaveGroupRequest
        LeaveGroupResponse ListGroupsRequest ListGroupsResponse SyncGroupRequest SyncGroupResponse
    """,
    "leader_epochs": "OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse",
    "log_dirs": "AlterReplicaLogDirsRequest AlterReplicaLogDirsResponse DescribeLogDirsRequest DescribeLogDirsResponse",
    "metadata": "MetadataRequest MetadataResponse",
    "offsets": """
        ListOffsetsRequest ListOffsetsResponse OffsetCommitRequest OffsetCommitResponse OffsetDeleteRequest
        OffsetDeleteResponse OffsetFetchRequest OffsetFetchResponse
    """,
    "produce": "ProduceRequest ProduceResponse",
    "producer_ids": "InitProducerIdRequest InitProducerIdResponse",
    "producer_transactions": """
        AddOffsetsToTxnRequest AddOffsetsToTxnResponse AddPartitionsToTxnRequest AddPartitionsToTxnResponse
        EndTxnRequest EndTxnResponse TxnOffsetCommitRequest TxnOffsetCommitResponse
    """,
    "quorum": """
        AddRaftVoterRequest AddRaftVoterResponse DescribeQuorumRequest DescribeQuorumResponse RemoveRaftVoterRequest
        RemoveRaftVoterResponse
    """,
    "quotas": """
        AlterClientQuotasRequest AlterClientQuotasResponse DescribeClientQuotasRequest DescribeClientQuotasResponse
    """,
    "reassignments": """
        AlterPartitionReassignmentsRequest AlterPartitionReassignmentsResponse ElectLeadersRequest
        ElectLeadersResponse ListPartitionReassignmentsRequest ListPartitionReassignmentsResponse
    """,
    "sasl": "SaslAuthenticateRequest SaslAuthenticateResponse SaslHandshakeRequest SaslHandshakeResponse",
    "scram_users": """
        AlterUserScramCredentialsRequest AlterUserScramCredentialsResponse DescribeUserScramCredentialsRequest
        DescribeUserScramCredentialsResponse
    """,
    "share_groups": """
        AlterShareGroupOffsetsRequest AlterShareGroupOffsetsResponse DeleteShareGroupOffsetsRequest
        DeleteShareGroupOffsetsResponse DescribeShareGroupOffsetsRequest DescribeShareGroupOffsetsResponse
        ShareAcknowledgeRequest ShareAcknowledgeResponse ShareFetchRequest ShareFetchResponse
        ShareGroupDescribeRequest ShareGroupDescribeResponse ShareGroupHeartbeatRequest ShareGroupHeartbeatResponse
    """,
    "streams_groups": "StreamsGroupDescribeRequest StreamsGroupDescribeResponse",
    "telemetry": """
        GetTelemetrySubscriptionsRequest GetTelemetrySubscriptionsResponse PushTelemetryRequest PushTelemetryResponse
    """,
    "tokens": """
        CreateDelegationTokenRequest CreateDelegationTokenResponse DescribeDelegationTokenRequest
        DescribeDelegationTokenResponse ExpireDelegationTokenRequest ExpireDelegationTokenResponse
        RenewDelegationTokenRequest RenewDelegationTokenResponse
    """,
    "topic_partitions": "DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse",
    "topics": """
        CreatePartitionsRequest CreatePartitionsResponse CreateTopicsRequest CreateTopicsResponse
        DeleteRecordsRequest DeleteRecordsResponse DeleteTopicsRequest DeleteTopicsResponse
    """,
    "transactions": """
        DescribeProducersRequest DescribeProducersResponse DescribeTransactionsRequest DescribeTransactionsResponse
        ListTransactionsRequest ListTransactionsResponse WriteTxnMarkersRequest WriteTxnMarkersResponse
    """,
}

__all__ = [name for names in _FAMILIES.values() for name in names.split()]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__, _FAMILIES)
