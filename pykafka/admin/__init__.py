"""The administration of a cluster: topics, settings, groups and whatever else `client.admin` offers."""

from __future__ import annotations

from pykafka.admin.admin import Admin
from pykafka.admin.configtypes import (
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
)
from pykafka.admin.groupnames import GroupState, GroupType
from pykafka.admin.grouptypes import GroupDescription, GroupListing, MemberDescription
from pykafka.admin.operations import AclOperation
from pykafka.admin.results import Listing, Outcome, Results
from pykafka.admin.topictypes import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)

__all__ = [
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
