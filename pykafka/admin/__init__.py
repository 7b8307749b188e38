"""The administration of a cluster: topics, settings, groups and whatever else `client.admin` offers.

A part is imported when one of its names is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.utils import names_on_use

if TYPE_CHECKING:
    from pykafka.admin.acls import CLUSTER_NAME, AclBinding, AclFilter, PatternType, Permission, ResourceType
    from pykafka.admin.admin import Admin
    from pykafka.admin.cluster_info import (
        BrokerDescription,
        ClusterDescription,
        FeatureDescription,
        Levels,
        UpgradeType,
    )
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

if not TYPE_CHECKING:
    __getattr__ = names_on_use(
        __name__,
        {
            "acls": "CLUSTER_NAME AclBinding AclFilter PatternType Permission ResourceType",
            "admin": "Admin",
            "cluster_info": "BrokerDescription ClusterDescription FeatureDescription Levels UpgradeType",
            "configs": "AlterOperation ConfigChange ConfigEntry ConfigResource ConfigSource ConfigSynonym ConfigType",
            "group_types": "GroupDescription GroupListing GroupState GroupType MemberDescription",
            "log_dirs": "LogDir Replica ReplicaSize",
            "offsets": "ListedOffset OffsetChange OffsetSpec ShareGroupOffset",
            "quorum": "Endpoint QuorumInfo QuorumReplica",
            "quotas": "QuotaEntity QuotaName",
            "reassignments": "ElectionType PartitionReassignment",
            "results": "AclOperation Listing Outcome Results",
            "scram_users": "ScramCredentialInfo ScramMechanism UserScramCredentialDeletion UserScramCredentialUpsertion",
            "tokens": "DelegationToken",
            "topics": "CreatedTopic NewPartitions NewTopic PartitionDescription TopicDescription TopicListing",
            "transactions": "HangingTransaction ProducerState TransactionDescription TransactionListing TransactionState",
            "zookeeper_migration": "OffsetMove",
        },
    )
