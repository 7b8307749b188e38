"""The administration of a cluster: topics, settings, groups and whatever else `client.admin` offers."""

from __future__ import annotations

from pykafka.admin.acls import CLUSTER_NAME, AclBinding, AclFilter, PatternType, Permission, ResourceType
from pykafka.admin.admin import Admin
from pykafka.admin.cluster_info import BrokerDescription, ClusterDescription, FeatureDescription, Levels, UpgradeType
from pykafka.admin.configs import (
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
)
from pykafka.admin.group_types import GroupDescription, GroupListing, GroupState, GroupType, MemberDescription
from pykafka.admin.log_dirs import LogDir, Replica, ReplicaSize
from pykafka.admin.offsets import ListedOffset, OffsetChange, OffsetSpec, ShareGroupOffset
from pykafka.admin.quorum import Endpoint, QuorumInfo, QuorumReplica
from pykafka.admin.quotas import QuotaEntity, QuotaName
from pykafka.admin.reassignments import ElectionType, PartitionReassignment
from pykafka.admin.results import AclOperation, Listing, Outcome, Results
from pykafka.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pykafka.admin.tokens import DelegationToken
from pykafka.admin.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from pykafka.admin.transactions import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from pykafka.admin.zookeeper_migration import OffsetMove

__all__ = [
    "AclBinding",
    "AclFilter",
    "PatternType",
    "Permission",
    "ResourceType",
    "CLUSTER_NAME",
    "BrokerDescription",
    "ClusterDescription",
    "FeatureDescription",
    "Levels",
    "UpgradeType",
    "LogDir",
    "Replica",
    "ReplicaSize",
    "ElectionType",
    "PartitionReassignment",
    "ListedOffset",
    "OffsetChange",
    "OffsetMove",
    "OffsetSpec",
    "ShareGroupOffset",
    "Endpoint",
    "QuorumInfo",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaName",
    "ScramCredentialInfo",
    "ScramMechanism",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "DelegationToken",
    "HangingTransaction",
    "ProducerState",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "AclOperation",
    "Admin",
    "AlterOperation",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "GroupType",
    "Listing",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "Outcome",
    "PartitionDescription",
    "Results",
    "TopicDescription",
    "TopicListing",
]
