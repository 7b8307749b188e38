"""The names of Kafka's APIs by their keys, also of those that this client never calls: for logs and errors."""

from __future__ import annotations

#: As Kafka 4.4 has them; the keys are consecutive.
_NAMES = """
    Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown OffsetCommit OffsetFetch
    FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups SaslHandshake ApiVersions CreateTopics
    DeleteTopics DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers
    TxnOffsetCommit DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs DescribeLogDirs
    SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken
    DeleteGroups ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments ListPartitionReassignments OffsetDelete
    DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials Vote BeginQuorumEpoch
    EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot DescribeCluster DescribeProducers
    BrokerRegistration BrokerHeartbeat UnregisterBroker DescribeTransactions ListTransactions AllocateProducerIds
    ConsumerGroupHeartbeat ConsumerGroupDescribe ControllerRegistration GetTelemetrySubscriptions PushTelemetry
    AssignReplicasToDirs ListConfigResources DescribeTopicPartitions ShareGroupHeartbeat ShareGroupDescribe ShareFetch
    ShareAcknowledge AddRaftVoter RemoveRaftVoter UpdateRaftVoter InitializeShareGroupState ReadShareGroupState
    WriteShareGroupState DeleteShareGroupState ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe
    DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets StreamsGroupTopologyDescriptionUpdate
    UnregisterController
"""
API_NAMES: tuple[str, ...] = tuple(_NAMES.split())


def name_of(api_key: int) -> str:
    """Return the name of an API; "API 95" for a key that came with a later Kafka."""
    return API_NAMES[api_key] if 0 <= api_key < len(API_NAMES) else f"API {api_key}"
