"""Clients of a fake cluster with ACLs: what they may not do is refused, or hidden."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from pykafka import KafkaClient, Plain
from pykafka.admin import AclBinding, AclFilter, AclOperation, ConfigResource, ResourceType
from pykafka.exceptions import (
    GroupAuthorizationFailed,
    SecurityDisabled,
    TopicAuthorizationFailed,
    TransactionFatalError,
)
from pykafka.protocol import wire
from pykafka.testing import Authorizer, FakeCluster, FakeClusterError
from tests.testing.connection import connected, produce

LIMIT = 20.0


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    users = {"root": "r", "alice": "a"}
    with FakeCluster(brokers=2, topics={"t": 1, "other": 1}, sasl=users, authorizer=True, super_users=["root"]) as made:
        yield made


@pytest.fixture
def alice(cluster: FakeCluster) -> Iterator[KafkaClient]:
    with KafkaClient(cluster.hosts, sasl=Plain("alice", "a")) as client:
        yield client


@pytest.fixture
def root(cluster: FakeCluster) -> Iterator[KafkaClient]:
    with KafkaClient(cluster.hosts, sasl=Plain("root", "r")) as client:
        yield client


def test_a_producer_is_allowed_and_denied(cluster: FakeCluster, alice: KafkaClient) -> None:
    cluster.allow("alice", "WRITE", topic="t")
    with alice.producer(max_block_ms=10_000) as producer:
        assert producer.produce("t", b"a").get(LIMIT).offset == 0
        with pytest.raises(TopicAuthorizationFailed):
            producer.produce("other", b"a").get(LIMIT)
        cluster.deny("alice", "WRITE", topic="t")
        with pytest.raises(TopicAuthorizationFailed, match="'t'|t"):
            producer.produce("t", b"b").get(LIMIT)
    assert len(cluster.records("t")) == 1


def test_a_consumer_needs_topic_and_group(cluster: FakeCluster, alice: KafkaClient, root: KafkaClient) -> None:
    cluster.allow("alice", "READ", topic="t")
    with root.producer() as producer:
        producer.produce("t", b"a").get(LIMIT)
    with (
        alice.consumer("t", group="g", protocol="classic", auto_offset_reset="earliest") as consumer,
        pytest.raises(GroupAuthorizationFailed),
    ):
        consumer.poll(timeout=LIMIT)
    for protocol in ("classic", "consumer"):
        cluster.allow("alice", "READ", group=protocol, prefixed=True)
        with alice.consumer("t", group=protocol, protocol=protocol, auto_offset_reset="earliest") as consumer:
            assert next(iter(consumer)).value == b"a"


def test_a_share_consumer_needs_topic_and_group(cluster: FakeCluster, alice: KafkaClient, root: KafkaClient) -> None:
    with root.producer() as producer:
        producer.produce("t", b"a").get(LIMIT)
    root.admin.alter_configs({ConfigResource.group("s"): {"share.auto.offset.reset": "earliest"}})
    cluster.allow("alice", "DESCRIBE", topic="t")
    with pytest.raises(GroupAuthorizationFailed), alice.share_consumer("t", group="s") as consumer:
        consumer.poll(timeout=LIMIT)
    cluster.allow("alice", "READ", group="s")
    with pytest.raises(TopicAuthorizationFailed), alice.share_consumer("t", group="s") as consumer:
        consumer.poll(timeout=LIMIT)
    cluster.allow("alice", "READ", topic="t")
    with alice.share_consumer("t", group="s") as consumer:
        assert [record.value for record in consumer.poll(timeout=LIMIT)] == [b"a"]


def test_a_transactional_id_is_needed(cluster: FakeCluster, alice: KafkaClient) -> None:
    cluster.allow("alice", "WRITE", topic="t")
    with (
        pytest.raises(TransactionFatalError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        alice.producer(transactional_id="x") as producer,
    ):
        producer.begin_transaction()
    cluster.allow("alice", "WRITE", transactional_id="y")
    with alice.producer(transactional_id="y") as producer, producer.transaction():
        producer.produce("t", b"a")
    assert [record.value for record in cluster.records("t")] == [b"a"]


def test_topics_that_may_not_be_described_are_hidden(cluster: FakeCluster, alice: KafkaClient) -> None:
    assert alice.admin.list_topics() == []
    with pytest.raises(TopicAuthorizationFailed):
        alice.admin.describe_topics("t")
    cluster.allow("*", "DESCRIBE", topic="*")
    cluster.deny("alice", topic="oth", prefixed=True)
    assert [topic.name for topic in alice.admin.list_topics()] == ["t"]


def test_operations_are_described() -> None:
    with FakeCluster(brokers=1, topics={"t": 1}, authorizer=True) as cluster, connected(cluster) as connection:
        cluster.allow("ANONYMOUS", "ALTER", topic="t")
        topic = wire.MetadataRequest.Topic(name="t")
        asked = wire.MetadataRequest(topics=[topic], include_topic_authorized_operations=True)
        answer = connection.ask(asked)
        bits = answer.topics[0].topic_authorized_operations
        assert bits == 1 << AclOperation.ALTER | 1 << AclOperation.DESCRIBE


def test_administrators_change_acls(cluster: FakeCluster, root: KafkaClient) -> None:
    binding = AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.ALL)
    root.admin.create_acls(binding)
    assert root.admin.describe_acls() == [binding]
    with KafkaClient(cluster.hosts, sasl=Plain("alice", "a")) as alice, alice.producer() as producer:
        producer.produce("t", b"a").get(LIMIT)
        assert root.admin.delete_acls(AclFilter(name="t"))[AclFilter(name="t")] == [binding]
        with pytest.raises(TopicAuthorizationFailed):
            producer.produce("t", b"a").get(LIMIT)
    assert root.admin.describe_acls() == []


def test_other_addresses_are_others(cluster: FakeCluster, alice: KafkaClient) -> None:
    cluster.allow("alice", "DESCRIBE", topic="t", host="10.0.0.1")
    assert alice.admin.list_topics() == []
    cluster.allow("alice", "DESCRIBE", topic="t", host="127.0.0.1")
    assert [topic.name for topic in alice.admin.list_topics()] == ["t"]


def test_what_no_acl_is_about_may_be_open() -> None:
    with FakeCluster(brokers=1, topics={"t": 1, "u": 1}, authorizer=Authorizer(is_open=True)) as cluster:
        cluster.allow("alice", topic="t")
        with KafkaClient(cluster.hosts) as client:
            assert [topic.name for topic in client.admin.list_topics()] == ["u"]


def test_a_denied_message_without_acknowledgement_ends_the_connection() -> None:
    with FakeCluster(brokers=1, topics={"t": 1}, authorizer=True) as cluster, connected(cluster) as connection:
        connection.send(produce("t", b"a", acks=0), 9)
        assert connection.is_cut()


def test_what_no_acl_can_be_about_is_refused_by_name(cluster: FakeCluster) -> None:
    with pytest.raises(ValueError, match="topic, group, .*not 'topics'"):
        cluster.allow("alice", "READ", topics="t")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="no operation 'REED': .*READ"):
        cluster.deny("alice", "REED", topic="t")
    with pytest.raises(ValueError, match="topic is 5"):
        cluster.allow("alice", "READ", topic=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda made: made.allow("alice", "READ"), "no operation READ on a cluster: .*; name topic= or group= for it"),
        (lambda made: made.allow("alice", "WRITE", group="g"), "no operation WRITE on a group: "),
        (lambda made: made.deny("", "READ", topic="t"), "user is ''"),
    ],
)
def test_acls_without_effect_are_refused(call: Any, said: str) -> None:
    with FakeCluster(brokers=1, authorizer=True) as made:
        with pytest.raises(ValueError, match=said):
            call(made)
        made.allow("alice", "READ", "WRITE", topic="t", group="g")  # each is an operation of one of them


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"super_users": "root", "authorizer": True}, "super_users is 'root': a list"),
        ({"super_users": ["root"]}, "need authorizer=True"),
        ({"authorizer": "yes"}, "authorizer is 'yes'"),
        ({"tls": True}, "tls is True: an ssl.SSLContext"),
        ({"sasl": ["alice"]}, "sasl is ..alice..: a dict"),
        ({"sasl": {"alice": 3}}, "users has 'alice': 3"),
        ({"topics": ["t"]}, "topics is ..t..: a dict by names"),
        ({"versions": {"Produce": 3}}, "versions has 'Produce': 3: a pair"),
        ({"racks": "abc"}, "racks is 'abc': a list"),
    ],
)
def test_arguments_of_a_cluster_are_refused_by_name(arguments: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FakeCluster(1, **arguments)


def test_a_cluster_without_authorizer() -> None:
    with FakeCluster(brokers=1) as cluster, KafkaClient(cluster.hosts) as client:
        with pytest.raises(SecurityDisabled):
            client.admin.describe_acls()
        with pytest.raises(FakeClusterError, match="authorizer=True"):
            cluster.allow("alice", topic="t")


def test_librdkafka_is_refused(cluster: FakeCluster) -> None:
    cluster.allow("alice", "DESCRIBE", topic="t")
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.hosts,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "a",
            "log_level": 0,
        }
    )
    errors: list[object] = []
    producer.produce("t", b"a", on_delivery=lambda error, _: errors.append(error and error.code()))
    producer.flush(LIMIT)
    assert errors == [confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED]
