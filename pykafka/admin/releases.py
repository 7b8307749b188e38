"""The release of Kafka that each API of administration came with, for the errors about brokers that lack it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.exceptions import UnsupportedVersion
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request

#: From Kafka's release notes and KIPs, checked with the tables of versions of the releases.
SINCE: dict[type[Request[Any]], str] = {
    wire.ApiVersionsRequest: "0.10.0",
    wire.ListGroupsRequest: "0.9",
    wire.DescribeGroupsRequest: "0.9",
    wire.LeaveGroupRequest: "0.9",
    wire.FindCoordinatorRequest: "0.8.2",
    wire.CreateTopicsRequest: "0.10.1",
    wire.DeleteTopicsRequest: "0.10.1",
    wire.DeleteRecordsRequest: "0.11",
    wire.DescribeConfigsRequest: "0.11",
    wire.DescribeAclsRequest: "0.11",
    wire.CreateAclsRequest: "0.11",
    wire.DeleteAclsRequest: "0.11",
    wire.WriteTxnMarkersRequest: "0.11",
    wire.CreatePartitionsRequest: "1.0",
    wire.AlterReplicaLogDirsRequest: "1.0",
    wire.DescribeLogDirsRequest: "1.0",
    wire.CreateDelegationTokenRequest: "1.1",
    wire.RenewDelegationTokenRequest: "1.1",
    wire.ExpireDelegationTokenRequest: "1.1",
    wire.DescribeDelegationTokenRequest: "1.1",
    wire.DeleteGroupsRequest: "1.1",
    wire.ElectLeadersRequest: "2.2",
    wire.IncrementalAlterConfigsRequest: "2.3",
    wire.OffsetDeleteRequest: "2.4",
    wire.AlterPartitionReassignmentsRequest: "2.4",
    wire.ListPartitionReassignmentsRequest: "2.4",
    wire.DescribeClientQuotasRequest: "2.6",
    wire.AlterClientQuotasRequest: "2.6",
    wire.DescribeUserScramCredentialsRequest: "2.7",
    wire.AlterUserScramCredentialsRequest: "2.7",
    wire.DescribeQuorumRequest: "2.7",
    wire.UpdateFeaturesRequest: "2.7",
    wire.DescribeClusterRequest: "2.8",
    wire.DescribeProducersRequest: "2.8",
    wire.UnregisterBrokerRequest: "2.8",
    wire.DescribeTransactionsRequest: "3.0",
    wire.ListTransactionsRequest: "3.0",
    wire.ConsumerGroupDescribeRequest: "3.7",
    wire.ListConfigResourcesRequest: "3.7",
    wire.AddRaftVoterRequest: "3.9",
    wire.RemoveRaftVoterRequest: "3.9",
    wire.ShareGroupDescribeRequest: "4.0",
    wire.StreamsGroupDescribeRequest: "4.1",
    wire.DescribeShareGroupOffsetsRequest: "4.1",
    wire.AlterShareGroupOffsetsRequest: "4.1",
    wire.DeleteShareGroupOffsetsRequest: "4.1",
}

#: APIs that only clusters without ZooKeeper have, since the releases above.
KRAFT: frozenset[type[Request[Any]]] = frozenset(
    {
        wire.DescribeQuorumRequest,
        wire.AddRaftVoterRequest,
        wire.RemoveRaftVoterRequest,
        wire.UnregisterBrokerRequest,
        wire.ListConfigResourcesRequest,
    }
)


def lacking(request_cls: type[Request[Any]], broker: Node) -> UnsupportedVersion:
    """Return the error for a broker that lacks an API."""
    api = request_cls.__name__.removesuffix("Request")
    since = SINCE.get(request_cls)
    came = f", which came with Kafka {since}: upgrade the brokers" if since else ": use another release of Kafka"
    if request_cls in KRAFT:
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


def version_of(broker: Node, request_cls: type[Request[Any]], ceiling: int | None = None) -> int:
    """Return the version of an API that requests to a broker use.

    :param ceiling: no version above this one
    :raises UnsupportedVersion: the broker lacks the API; the text names the release that has it
    """
    try:
        return broker.api_version(request_cls, ceiling)
    except UnsupportedVersion:
        if broker.has(request_cls):
            raise
        raise lacking(request_cls, broker) from None
