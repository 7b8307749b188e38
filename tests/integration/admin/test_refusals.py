"""Brokers of every release: what they have works, and what they lack is refused by name and release."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    Admin,
    ConfigResource,
    ConfigType,
    ElectionType,
    Endpoint,
    GroupState,
    NewTopic,
    OffsetSpec,
    PatternType,
    ProducerState,
    QuotaEntity,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from pykafka.admin.releases import KRAFT, SINCE
from pykafka.admin.results import api_name
from pykafka.exceptions import KafkaException, UnsupportedVersion
from pykafka.protocol import wire
from tests.brokers.releases import release
from tests.integration.admin.conftest import unique
from tests.support.features import KAFKA_VERSION, kafka_since
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]

Call = Callable[[Admin, str], object]

#: One call for each API; T is a topic that there is.
CALLS: dict[type[Any], Call] = {
    wire.CreateTopicsRequest: lambda admin, topic: admin.create_topics(NewTopic(topic, 1, 1)),
    wire.DeleteTopicsRequest: lambda admin, topic: admin.delete_topics("no-such-topic"),
    wire.CreatePartitionsRequest: lambda admin, topic: admin.create_partitions({topic: 1}),
    wire.DeleteRecordsRequest: lambda admin, topic: admin.delete_records({(topic, 0): 0}),
    wire.DescribeConfigsRequest: lambda admin, topic: admin.describe_configs(ConfigResource.topic(topic)),
    wire.IncrementalAlterConfigsRequest: lambda admin, topic: admin.alter_configs({ConfigResource.topic(topic): {}}),
    wire.ListConfigResourcesRequest: lambda admin, topic: admin.list_config_resources(ConfigType.CLIENT_METRICS),
    wire.ListGroupsRequest: lambda admin, topic: admin.list_groups(),
    wire.DescribeGroupsRequest: lambda admin, topic: admin.describe_groups("no-such-group"),
    wire.DeleteGroupsRequest: lambda admin, topic: admin.delete_groups("no-such-group"),
    wire.OffsetDeleteRequest: lambda admin, topic: admin.delete_group_offsets("no-such-group", [(topic, 0)]),
    wire.DescribeShareGroupOffsetsRequest: lambda admin, topic: admin.list_share_group_offsets("no-such-group"),
    wire.AlterShareGroupOffsetsRequest: lambda admin, topic: admin.alter_share_group_offsets(
        unique("s"), {(topic, 0): 0}
    ),
    wire.DeleteShareGroupOffsetsRequest: lambda admin, topic: admin.delete_share_group_offsets("no-such-group", topic),
    wire.DescribeAclsRequest: lambda admin, topic: admin.describe_acls(),
    wire.CreateAclsRequest: lambda admin, topic: admin.create_acls(
        AclBinding(ResourceType.TOPIC, topic, "User:x", AclOperation.READ)
    ),
    wire.DeleteAclsRequest: lambda admin, topic: admin.delete_acls(AclFilter(name="no-such-topic")),
    wire.DescribeUserScramCredentialsRequest: lambda admin, topic: admin.describe_user_scram_credentials(),
    wire.AlterUserScramCredentialsRequest: lambda admin, topic: admin.alter_user_scram_credentials(
        UserScramCredentialDeletion("no-such-user", ScramMechanism.SCRAM_SHA_256)
    ),
    wire.DescribeClientQuotasRequest: lambda admin, topic: admin.describe_client_quotas(),
    wire.AlterClientQuotasRequest: lambda admin, topic: admin.alter_client_quotas({QuotaEntity(user="x"): {}}),
    wire.CreateDelegationTokenRequest: lambda admin, topic: admin.create_delegation_token(),
    wire.RenewDelegationTokenRequest: lambda admin, topic: admin.renew_delegation_token(b"no-such-token"),
    wire.ExpireDelegationTokenRequest: lambda admin, topic: admin.expire_delegation_token(b"no-such-token"),
    wire.DescribeDelegationTokenRequest: lambda admin, topic: admin.describe_delegation_tokens(),
    wire.DescribeProducersRequest: lambda admin, topic: admin.describe_producers([(topic, 0)]),
    wire.DescribeTransactionsRequest: lambda admin, topic: admin.describe_transactions("no-such-id"),
    wire.ListTransactionsRequest: lambda admin, topic: admin.list_transactions(),
    wire.WriteTxnMarkersRequest: lambda admin, topic: admin.abort_transaction(
        (topic, 0), ProducerState(777_123, 0, -1, -1, 0, 0)
    ),
    wire.AlterPartitionReassignmentsRequest: lambda admin, topic: admin.alter_partition_reassignments(
        {(topic, 0): None}
    ),
    wire.ListPartitionReassignmentsRequest: lambda admin, topic: admin.list_partition_reassignments(),
    wire.ElectLeadersRequest: lambda admin, topic: admin.elect_leaders([(topic, 0)]),
    wire.AlterReplicaLogDirsRequest: lambda admin, topic: admin.alter_replica_log_dirs({(topic, 0, 1): "/no/such/dir"}),
    wire.DescribeLogDirsRequest: lambda admin, topic: admin.describe_log_dirs(),
    wire.DescribeQuorumRequest: lambda admin, topic: admin.describe_metadata_quorum(),
    wire.AddRaftVoterRequest: lambda admin, topic: admin.add_raft_voter(
        9, uuid.uuid4(), Endpoint("CONTROLLER", "127.0.0.1", 1)
    ),
    wire.RemoveRaftVoterRequest: lambda admin, topic: admin.remove_raft_voter(9, uuid.uuid4()),
    wire.UpdateFeaturesRequest: lambda admin, topic: admin.update_features({"no.such.feature": 1}),
    wire.UnregisterBrokerRequest: lambda admin, topic: admin.unregister_broker(77),
    wire.DescribeClusterRequest: lambda admin, topic: admin.describe_cluster(authorized_operations=True),
}


def error_of(call: Call, admin: Admin, topic: str) -> KafkaException | None:
    """Return the error of a call, if there is one."""
    try:
        call(admin, topic)
    except KafkaException as error:
        return error
    return None


@pytest.mark.parametrize("api", CALLS, ids=api_name)
def test_an_api_is_there_or_refused_by_the_release_that_has_it(client: KafkaClient, api: type[Any]) -> None:
    """Every call ends: by its work, by a broker's error, or by the name of the release."""
    topic = create_topic(client).name
    broker = next(iter(client.brokers.values()))
    wanted = SINCE[api_name(api)]
    newer = release(KAFKA_VERSION).numbers < tuple(int(part) for part in wanted.split("."))
    if api_name(api) not in KRAFT:
        assert broker.has(api) == (not newer), "the table of releases is wrong"
    error = error_of(CALLS[api], client.admin, topic)
    assert broker.has(api) or isinstance(error, UnsupportedVersion)
    if error is not None and not broker.has(api):
        assert error.api == api_name(api)
        assert f"came with Kafka {wanted}" in str(error)


def test_every_api_has_a_call_and_a_release() -> None:
    assert {api_name(api) for api in CALLS} <= set(SINCE)


@pytest.mark.parametrize(
    ("call", "since"),
    [
        (lambda admin, topic: admin.list_groups(states=GroupState.STABLE), (2, 6)),
        (lambda admin, topic: admin.describe_topics(topic, authorized_operations=True), (2, 3)),
        (lambda admin, topic: admin.describe_groups(unique("g"), authorized_operations=True), (2, 3)),
        (lambda admin, topic: admin.describe_features(), (2, 4)),
        (lambda admin, topic: admin.describe_cluster(fenced_brokers=True), (4, 0)),
        (lambda admin, topic: admin.list_offsets({(topic, 0): OffsetSpec.max_timestamp()}), (3, 0)),
        (lambda admin, topic: admin.list_offsets({(topic, 0): OffsetSpec.earliest_local()}), (3, 4)),
        (lambda admin, topic: admin.list_offsets({(topic, 0): OffsetSpec.latest_tiered()}), (3, 9)),
        (lambda admin, topic: admin.list_offsets({(topic, 0): OffsetSpec.at(datetime(2020, 1, 1))}), (0, 10, 1)),
        (lambda admin, topic: admin.list_group_offsets(unique("g")), (0, 10, 2)),
        (lambda admin, topic: admin.list_group_offsets(unique("g"), require_stable=True), (2, 5)),
        (lambda admin, topic: admin.elect_leaders([(topic, 0)], ElectionType.UNCLEAN), (2, 4)),
        (lambda admin, topic: admin.describe_configs(ConfigResource.topic(topic), documentation=True), (2, 6)),
        (lambda admin, topic: admin.create_topics(NewTopic(unique("t"))), (2, 4)),
        (lambda admin, topic: admin.delete_topics(uuid.uuid4()), (2, 8)),
        (lambda admin, topic: admin.describe_acls(AclFilter(pattern=PatternType.PREFIXED)), (2, 0)),
        (lambda admin, topic: admin.list_transactions(longer_than_ms=1), (3, 8)),
        (lambda admin, topic: admin.list_transactions(pattern="x"), (4, 1)),
        (lambda admin, topic: admin.describe_client_quotas(QuotaEntity(ip="1.2.3.4")), (2, 7)),
    ],
)
def test_a_part_of_an_api_is_refused_by_the_release_that_has_it(
    client: KafkaClient, call: Call, since: tuple[int, ...]
) -> None:
    topic = create_topic(client).name
    error = error_of(call, client.admin, topic)
    assert isinstance(error, UnsupportedVersion) == (not kafka_since(*since))
    if isinstance(error, UnsupportedVersion):
        assert "came with Kafka" in str(error)


def test_what_all_brokers_have(client: KafkaClient) -> None:
    topic, admin = create_topic(client, 2).name, client.admin
    assert len(admin.describe_topics(topic)[topic].partitions) == 2
    assert topic in {one.name for one in admin.list_topics()}
    assert [one.id for one in admin.describe_cluster().brokers] == [1]
    assert admin.list_offsets({(topic, 0): OffsetSpec.latest()})[topic, 0].offset == 0  # type: ignore[index]
    group = unique("g")
    admin.alter_group_offsets(group, {(topic, 0): 0})
    assert [one.offset for one in admin.list_group_offsets({group: [(topic, 0), (topic, 1)]})[group].values()] == [0]
