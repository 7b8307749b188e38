"""Administrators against a fake cluster: `client.admin`, and confluent-kafka's AdminClient."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import ElectionType, IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigSource
from confluent_kafka.admin._config import ConfigResource as TheirResource
from confluent_kafka.admin._listoffsets import OffsetSpec as TheirSpec
from confluent_kafka.cimpl import NewPartitions
from confluent_kafka.cimpl import NewTopic as TheirTopic

from pykafka import KafkaClient
from pykafka.admin import ConfigResource, NewTopic, OffsetSpec, TransactionState, UpgradeType
from pykafka.exceptions import (
    InvalidConfig,
    InvalidReplicationFactor,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka.testing import FakeCluster

TOPIC = "orders"
WAIT_S = 20.0


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=3, topics={TOPIC: 2}) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[KafkaClient]:
    client = KafkaClient(hosts=cluster.hosts)
    yield client
    client.close()


class TestOwnClient:
    def test_a_leader_that_is_not_known_yet_is_awaited(self, cluster: FakeCluster, client: KafkaClient) -> None:
        """The topic counted as one that does not exist."""
        cluster.fail("Metadata", "LEADER_NOT_AVAILABLE", times=2)
        (latest,) = client.admin.list_offsets({(TOPIC, 0): OffsetSpec.latest()}).values()
        assert latest.offset == 0
        cluster.fail("Metadata", "TOPIC_AUTHORIZATION_FAILED", times=2)
        with KafkaClient(hosts=cluster.hosts) as other, pytest.raises(TopicAuthorizationFailed):
            other.admin.list_offsets({(TOPIC, 0): OffsetSpec.latest()})

    def test_topics(self, client: KafkaClient) -> None:
        admin = client.admin
        created = admin.create_topics(NewTopic("new", 2, 3, configs={"retention.ms": "7"}))["new"]
        assert (created.partitions, created.replication) == (2, 3)
        with pytest.raises(TopicAlreadyExists):
            admin.create_topics(NewTopic("new", 2, 3))
        with pytest.raises(InvalidReplicationFactor):
            admin.create_topics(NewTopic("newer", 2, 4))
        admin.create_partitions({"new": 5})
        described = admin.describe_topics(["new"])["new"]
        assert len(described.partitions) == 5
        assert created.topic_id is not None
        admin.delete_topics([created.topic_id])
        with pytest.raises(UnknownTopicOrPartition):
            admin.describe_topics(["new"])

    def test_configurations(self, client: KafkaClient) -> None:
        admin, topic, broker = client.admin, ConfigResource.topic(TOPIC), ConfigResource.broker(2)
        admin.alter_configs({topic: {"retention.ms": 7}, broker: {"log.cleaner.threads": 2}})
        described = admin.describe_configs([topic, broker])
        assert described[topic]["retention.ms"].value == "7"
        assert described[broker]["log.cleaner.threads"].value == "2"
        with pytest.raises(InvalidConfig):
            admin.alter_configs({topic: {"retention.ms": "soon"}})
        assert topic in admin.list_config_resources()

    def test_records(self, client: KafkaClient) -> None:
        with client.producer() as producer:
            for _ in range(5):
                producer.produce(TOPIC, b"value", partition=1)
            producer.flush()
        assert list(client.admin.delete_records({(TOPIC, 1): 3}).values()) == [3]
        assert [found.offset for found in client.admin.list_offsets({(TOPIC, 1): OffsetSpec.earliest()}).values()] == [
            3
        ]

    def test_leaders_and_replicas(self, cluster: FakeCluster, client: KafkaClient) -> None:
        admin = client.admin
        admin.alter_partition_reassignments({(TOPIC, 0): [3, 2]})
        assert cluster.leader(TOPIC, 0) == 3
        assert admin.list_partition_reassignments() == {}
        cluster.set_leader(TOPIC, 0, 2)
        admin.elect_leaders([(TOPIC, 0)])
        assert cluster.leader(TOPIC, 0) == 3

    def test_the_cluster(self, client: KafkaClient) -> None:
        admin = client.admin
        assert sorted(broker.id for broker in admin.describe_cluster().brokers) == [1, 2, 3]
        assert admin.describe_metadata_quorum().leader == 1
        assert set(admin.describe_log_dirs()) == {1, 2, 3}
        admin.update_features({"transaction.version": 1}, UpgradeType.SAFE_DOWNGRADE)
        assert admin.describe_features().finalized["transaction.version"].high == 1

    def test_transactions(self, client: KafkaClient) -> None:
        admin = client.admin
        with client.producer(transactional_id="billing") as producer:
            with producer.transaction():
                producer.produce(TOPIC, b"value", partition=0)
                producer.flush()
                described = admin.describe_transactions(["billing"])["billing"]
                assert (described.state, described.partitions) == (TransactionState.ONGOING, ((TOPIC, 0),))
                ((active,),) = admin.describe_producers([(TOPIC, 0)]).values()
                assert active.producer_id == described.producer_id
            assert [listed.transactional_id for listed in admin.list_transactions()] == ["billing"]


class TestConfluent:
    @pytest.fixture
    def admin(self, cluster: FakeCluster) -> Iterator[AdminClient]:
        with AdminClient({"bootstrap.servers": cluster.hosts}) as admin:
            yield admin

    def test_topics(self, admin: AdminClient) -> None:
        admin.create_topics([TheirTopic("new", 2, 3, config={"retention.ms": "7"})])["new"].result(WAIT_S)
        with pytest.raises(KafkaException, match="already exists"):
            admin.create_topics([TheirTopic("new", 2, 3)])["new"].result(WAIT_S)
        admin.create_partitions([NewPartitions("new", 5)])["new"].result(WAIT_S)
        described = admin.describe_topics(TopicCollection(["new"]))["new"].result(WAIT_S)
        assert len(described.partitions) == 5
        admin.delete_topics(["new"])["new"].result(WAIT_S)
        assert set(admin.list_topics(timeout=WAIT_S).topics) == {TOPIC}

    def test_configurations(self, admin: AdminClient) -> None:
        topic = TheirResource(TheirResource.Type.TOPIC, TOPIC)
        entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
        topic.add_incremental_config(entry)
        admin.incremental_alter_configs([topic])[topic].result(WAIT_S)
        assert admin.describe_configs([topic])[topic].result(WAIT_S)["cleanup.policy"].value == "delete,compact"
        whole = TheirResource(TheirResource.Type.TOPIC, TOPIC, set_config={"retention.ms": "7"})
        with pytest.warns(DeprecationWarning, match="alter_configs"):
            futures = admin.alter_configs([whole])
        futures[whole].result(WAIT_S)
        described = admin.describe_configs([topic])[topic].result(WAIT_S)
        assert (described["cleanup.policy"].value, described["retention.ms"].value) == ("delete", "7")
        assert described["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value

    def test_the_cluster(self, admin: AdminClient) -> None:
        described = admin.describe_cluster().result(WAIT_S)
        assert sorted(node.id for node in described.nodes) == [1, 2, 3]

    def test_elections(self, cluster: FakeCluster, admin: AdminClient) -> None:
        with cluster._locked() as state:
            state.topics[TOPIC].partitions[0].replicas.append(2)
            state.topics[TOPIC].partitions[0].isr.append(2)
        cluster.set_leader(TOPIC, 0, 2)
        outcomes = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)]).result(WAIT_S)
        assert list(outcomes.values()) == [None]
        assert cluster.leader(TOPIC, 0) == 1

    def test_records(self, cluster: FakeCluster, client: KafkaClient, admin: AdminClient) -> None:
        with client.producer() as producer:
            for _ in range(5):
                producer.produce(TOPIC, b"value", partition=1)
            producer.flush()
        where = TopicPartition(TOPIC, 1, 3)
        assert admin.delete_records([where])[where].result(WAIT_S).low_watermark == 3
        asked = {TopicPartition(TOPIC, 1): TheirSpec.earliest()}  # type: ignore[no-untyped-call]
        futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        assert [future.result(WAIT_S).offset for future in futures.values()] == [3]
