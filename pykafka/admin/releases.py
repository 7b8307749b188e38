"""The release of Kafka that each API of administration came with, for the errors about brokers that lack it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.exceptions import UnsupportedVersion

if TYPE_CHECKING:
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request

#: By name: the classes of all APIs are many modules.
#: From Kafka's release notes and KIPs, checked with the tables of versions of the releases.
SINCE: dict[str, str] = {
    "ApiVersions": "0.10.0",
    "ListGroups": "0.9",
    "DescribeGroups": "0.9",
    "LeaveGroup": "0.9",
    "FindCoordinator": "0.8.2",
    "CreateTopics": "0.10.1",
    "DeleteTopics": "0.10.1",
    "DeleteRecords": "0.11",
    "DescribeConfigs": "0.11",
    "DescribeAcls": "0.11",
    "CreateAcls": "0.11",
    "DeleteAcls": "0.11",
    "WriteTxnMarkers": "0.11",
    "CreatePartitions": "1.0",
    "AlterReplicaLogDirs": "1.0",
    "DescribeLogDirs": "1.0",
    "CreateDelegationToken": "1.1",
    "RenewDelegationToken": "1.1",
    "ExpireDelegationToken": "1.1",
    "DescribeDelegationToken": "1.1",
    "DeleteGroups": "1.1",
    "ElectLeaders": "2.2",
    "IncrementalAlterConfigs": "2.3",
    "OffsetDelete": "2.4",
    "AlterPartitionReassignments": "2.4",
    "ListPartitionReassignments": "2.4",
    "DescribeClientQuotas": "2.6",
    "AlterClientQuotas": "2.6",
    "DescribeUserScramCredentials": "2.7",
    "AlterUserScramCredentials": "2.7",
    "DescribeQuorum": "2.7",
    "UpdateFeatures": "2.7",
    "DescribeCluster": "2.8",
    "DescribeProducers": "2.8",
    "UnregisterBroker": "2.8",
    "DescribeTransactions": "3.0",
    "ListTransactions": "3.0",
    "ConsumerGroupDescribe": "3.7",
    "ListConfigResources": "3.7",
    "AddRaftVoter": "3.9",
    "RemoveRaftVoter": "3.9",
    "ShareGroupDescribe": "4.0",
    "StreamsGroupDescribe": "4.1",
    "DescribeShareGroupOffsets": "4.1",
    "AlterShareGroupOffsets": "4.1",
    "DeleteShareGroupOffsets": "4.1",
}

#: APIs that only clusters without ZooKeeper have, since the releases above.
KRAFT: frozenset[str] = frozenset(
    {
        "DescribeQuorum",
        "AddRaftVoter",
        "RemoveRaftVoter",
        "UnregisterBroker",
        "ListConfigResources",
    }
)


def lacking(request_cls: type[Request[Any]], broker: Node) -> UnsupportedVersion:
    """Return the error for a broker that lacks an API."""
    api = request_cls.__name__.removesuffix("Request")
    since = SINCE.get(api)
    came = f", which came with Kafka {since}: upgrade the brokers" if since else ": use another release of Kafka"
    if api in KRAFT:
        came = (
            f", which came with Kafka {since} to clusters without ZooKeeper: upgrade the brokers, or migrate to KRaft"
        )
    return UnsupportedVersion(f"the broker does not have {api}{came}", broker=broker.address, api=api)


def need(broker: Node, request_cls: type[Request[Any]], version: int, what: str, since: str) -> None:
    """Check that a broker has an API in a version or a later one.

    :param what: what needs it, for the error
    :param since: the release that brought it
    :raises UnsupportedVersion: the broker does not
    """
    if version_of(broker, request_cls) < version:
        api = request_cls.__name__.removesuffix("Request")
        text = (
            f"{what} needs {api} version {version}, which came with Kafka {since}: upgrade the brokers, or leave it out"
        )
        raise UnsupportedVersion(text, broker=broker.address, api=api)


def version_of(
    broker: Node, request_cls: type[Request[Any]], ceiling: int | None = None, timeout_ms: int | None = None
) -> int:
    """Return the version of an API that requests to a broker use.

    :param ceiling: no version above this one
    :param timeout_ms: for asking the broker, if it has to be asked; None: as long as it takes
    :raises UnsupportedVersion: the broker lacks the API; the text names the release that has it
    """
    try:
        return broker.api_version(request_cls, ceiling, timeout_ms)
    except UnsupportedVersion:
        if broker.has(request_cls, timeout_ms):
            raise
        raise lacking(request_cls, broker) from None
