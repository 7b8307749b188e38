"""The documented requests of `Broker` and `Cluster`, on a real broker of whatever age."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import confluent_kafka
import pytest

from pykafka import KafkaClient
from pykafka.broker import Broker
from pykafka.connection import BrokerConnection
from pykafka.exceptions import (
    NoBrokersAvailableError,
    TopicAlreadyExists,
    UnsupportedVersion,
)
from pykafka.protocol import (
    ConsumerGroupProtocolMetadata,
    CreateTopicRequest,
    FetchRequest,
    FetchResponse,
    ListOffsetRequest,
    ListOffsetResponse,
    MemberAssignment,
    Message,
    MetadataRequest,
    MetadataResponse,
    PartitionFetchRequest,
    PartitionOffsetCommitRequest,
    PartitionOffsetFetchRequest,
    PartitionOffsetRequest,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
)
from tests.brokers import KafkaCluster, release
from tests.support.features import KAFKA_VERSION, kafka_since

pytestmark = pytest.mark.kafka

T = TypeVar("T")
A = TypeVar("A", bound=Response[Any])


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=kafka.hosts) as client:
        yield client


@pytest.fixture
def topic(client: KafkaClient) -> str:
    """Return the name of a topic of one partition, made as the broker's age allows."""
    name = f"documented-{uuid.uuid4().hex[:12]}"
    client.cluster.wait_for_topic(name)
    return name


@pytest.fixture
def broker(client: KafkaClient) -> Broker:
    return next(iter(client.brokers.values()))


def eventually(client: KafkaClient, ask: Callable[[], T], right: Callable[[T], bool]) -> T:
    handler = client.cluster.handler
    deadline = handler.now() + 30
    while True:
        answer = ask()
        if right(answer) or handler.now() > deadline:
            return answer
        handler.sleep(0.2)


def filled(topic: str, acks: int) -> ProduceRequest:
    request = ProduceRequest(required_acks=acks)
    request.add_message(Message(b"v"), topic, 0)
    return request


def produce(client: KafkaClient, broker: Broker, topic: str, request: ProduceRequest) -> tuple[int, int]:
    """Produce to a topic that was just made: its leader may not know it yet."""

    def ask() -> tuple[int, int]:
        response = broker.produce_messages(request)
        assert response is not None
        return response.topics[topic][0]

    return eventually(client, ask, lambda answer: answer[0] not in {3, 5, 6})


def test_messages_there_and_back(client: KafkaClient, broker: Broker, topic: str) -> None:
    request = ProduceRequest(required_acks=1)
    for value in (b"one", b"", None):
        request.add_message(Message(value, partition_key=b"k"), topic, 0)
    assert produce(client, broker, topic, request) == (0, 0)

    fetched = broker.fetch_messages([PartitionFetchRequest(topic, 0, 1, 1 << 20)], timeout=1000)
    part = fetched.topics[topic][0]
    assert (part.err, part.max_offset) == (0, 3)
    # brokers that keep batches give a batch as a whole, the messages before the offset with it
    assert [(m.offset, m.value, m.partition_key) for m in part.messages][-2:] == [(1, b"", b"k"), (2, None, b"k")]


def test_without_acknowledgement_the_stream_stays_in_step(broker: Broker, client: KafkaClient, topic: str) -> None:
    produce(client, broker, topic, filled(topic, 1))
    for acks in (0, 1, 0, 0, 1):
        assert (broker.produce_messages(filled(topic, acks)) is None) is (acks == 0)
    fetched = broker.fetch_messages([PartitionFetchRequest(topic, 0, 0, 1 << 20)], timeout=1000)
    assert fetched.topics[topic][0].max_offset == 6


def test_errors_of_partitions_are_handed_over(client: KafkaClient, broker: Broker, topic: str) -> None:
    produce(client, broker, topic, filled(topic, 1))
    part = broker.fetch_messages([PartitionFetchRequest(topic, 0, 99, 100)], timeout=10).topics[topic][0]
    assert (part.err, part.messages) == (1, [])


@pytest.mark.parametrize("as_bytes", [False, True], ids=["str", "bytes"])
def test_metadata(broker: Broker, client: KafkaClient, topic: str, as_bytes: bool) -> None:
    found = broker.request_metadata([topic.encode() if as_bytes else topic])
    assert {id_: (at.host, at.port) for id_, at in found.brokers.items()} == {
        id_: (at.host, at.port) for id_, at in client.brokers.items()
    }
    assert list(found.topics) == [topic]
    assert (found.topics[topic].err, found.topics[topic].partitions[0].leader) == (0, broker.id)
    assert topic in broker.request_metadata().topics


def test_offsets_by_time(client: KafkaClient, broker: Broker, topic: str) -> None:
    request = ProduceRequest()
    for _ in range(3):
        request.add_message(Message(b"v"), topic, 0)
    produce(client, broker, topic, request)
    for when, offset in ((-2, 0), (-1, 3)):
        found = broker.request_offset_limits([PartitionOffsetRequest(topic, 0, when, 1)])
        assert found.topics[topic][0] == ([offset], 0)


def test_offsets_of_a_group(client: KafkaClient, topic: str) -> None:
    group = f"g-{uuid.uuid4().hex[:8]}"
    coordinator = client.cluster.get_group_coordinator(group)
    asked = [PartitionOffsetFetchRequest(topic, 0)]
    before = eventually(
        client,
        lambda: coordinator.fetch_consumer_group_offsets(group, asked).topics[topic][0],
        lambda part: part.err in {0, 3},  # 3: so says 0.8.2 of what was never committed
    )
    assert before.offset == -1
    wanted = [PartitionOffsetCommitRequest(topic, 0, 42, 0, b"note")]
    done = eventually(
        client,
        lambda: coordinator.commit_consumer_group_offsets(group.encode(), -1, b"", wanted).topics[topic][0],
        lambda part: part.err == 0,
    )
    assert done.err == 0
    assert coordinator.fetch_consumer_group_offsets(group, asked).topics[topic][0] == (42, "note", 0)
    assert coordinator.offsets_channel_connected
    assert coordinator.offsets_channel_handler is not None


def test_groups_are_listed(client: KafkaClient, broker: Broker) -> None:
    if not kafka_since(0, 9):
        with pytest.raises(UnsupportedVersion, match="ListGroups"):
            broker.list_groups()
        return
    found = eventually(client, broker.list_groups, lambda answer: answer.error == 0)
    assert found.error == 0
    assert all(listing.group_id == id_ for id_, listing in found.groups.items())


def test_groups_are_described(client: KafkaClient, kafka: KafkaCluster, broker: Broker, topic: str) -> None:
    if not kafka_since(0, 9):
        with pytest.raises(UnsupportedVersion, match="DescribeGroups"):
            broker.describe_groups(["g"])
        return
    group = f"g-{uuid.uuid4().hex[:8]}"
    if not kafka_since(0, 10):  # librdkafka cannot be brought to join there
        coordinator = client.cluster.get_group_coordinator(group)
        described = eventually(
            client, lambda: coordinator.describe_groups([group]).groups[group], lambda one: not one[0]
        )
        assert (described.state, described.members) == ("Dead", {})
        return
    settings = {"bootstrap.servers": kafka.hosts, "group.id": group, "client.id": "other", "log_level": 0}
    member = confluent_kafka.Consumer(settings)
    try:
        member.subscribe([topic])
        assert eventually(client, lambda: (member.poll(0.2), member.assignment())[1], bool)
        found = client.cluster.get_managed_group_descriptions()[group]
        assert (found.error_code, found.state, found.protocol_type, found.protocol) == (
            0,
            "Stable",
            "consumer",
            "range",
        )
        [(id_, one)] = found.members.items()
        assert (one.member_id, one.client_id) == (id_, "other")
        assert isinstance(one.member_metadata, ConsumerGroupProtocolMetadata)
        assert one.member_metadata.topic_names == [topic]
        assert isinstance(one.member_assignment, MemberAssignment)
        assert one.member_assignment.partition_assignment == [(topic, [0])]
    finally:
        member.close()


def test_any_broker_can_be_asked(client: KafkaClient, broker: Broker, topic: str) -> None:
    cluster = client.cluster
    dead = ("127.0.0.1", 1)
    seeds = cluster._get_broker_connection_info()
    assert seeds == [(broker.host, broker.port)]
    assert topic in cluster._request_metadata([dead, *seeds], None).topics
    assert broker.id in cluster._get_metadata([topic]).brokers
    assert cluster._request_random_broker(seeds, lambda one: one is broker)
    with pytest.raises(NoBrokersAvailableError, match="127.0.0.1:1") as caught:
        cluster._request_random_broker([dead], lambda one: one.request_metadata())
    assert len(caught.value.ledger) == 1
    assert cluster.fetch_api_versions()[3].key == 3


def test_brokers_come_from_zookeeper(client: KafkaClient, kafka: KafkaCluster, broker: Broker) -> None:
    if release(kafka.version).kraft:
        with pytest.raises(NoBrokersAvailableError, match="zookeeper_hosts="):
            KafkaClient(zookeeper_hosts="127.0.0.1:1", socket_timeout_ms=1000)
        return
    found = client.cluster._get_brokers_from_zookeeper(kafka.zookeeper_hosts)
    assert found == [(broker.host, broker.port)]
    with KafkaClient(hosts="127.0.0.1:1", zookeeper_hosts=kafka.zookeeper_hosts) as through_zookeeper:
        assert set(through_zookeeper.brokers) == {broker.id}


def test_topics_are_made_and_deleted(client: KafkaClient, broker: Broker) -> None:
    name = f"made-{uuid.uuid4().hex[:12]}"
    if not kafka_since(0, 10, 1):
        with pytest.raises(UnsupportedVersion, match="CreateTopics"):
            broker.create_topics([CreateTopicRequest(name, 1, 1, [], [])])
        with pytest.raises(UnsupportedVersion, match="DeleteTopics"):
            broker.delete_topics([name])
        return
    controller = client.cluster.controller_broker
    assert controller is not None
    assigned = CreateTopicRequest(f"{name}-2", -1, -1, {0: [controller.id], 1: [controller.id]})
    controller.create_topics([CreateTopicRequest(name, 3, 1, [], [("retention.ms", "77000")]), assigned])
    assert len(client.cluster.wait_for_topic(name).partitions) == 3
    assert len(client.cluster.wait_for_topic(f"{name}-2").partitions) == 2
    with pytest.raises(TopicAlreadyExists, match=name):
        controller.create_topics([CreateTopicRequest(name, 1, 1, [], [])], timeout=5000)
    controller.delete_topics([name.encode(), f"{name}-2"], timeout=10_000)
    gone = eventually(client, broker.request_metadata, lambda answer: name not in answer.topics)
    assert name not in gone.topics


def test_versions_are_told(client: KafkaClient, broker: Broker) -> None:
    for key, spec in broker.fetch_api_versions().api_versions.items():
        assert (spec.key, spec.min, spec.max) == (key, *broker.api_ranges()[key])


@pytest.fixture
def connection(client: KafkaClient, broker: Broker) -> Iterator[BrokerConnection]:
    """Return a connection that is used by hand, as PyKafka 2's programs can."""
    made = BrokerConnection(broker.host, broker.port, client.cluster.handler)
    made.connect(10_000)
    yield made
    made.disconnect()


@pytest.mark.lacks("assigning")  # Kafka 4 no longer takes the versions of PyKafka 2
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_requests_by_hand(client: KafkaClient, connection: BrokerConnection, topic: str, codec: int) -> None:
    """Brokers take the bytes of documented requests, and the documented responses read the answers, without a `Broker`."""

    def ask(request: Request, answer: Callable[[Any], A]) -> A:
        connection.request(request)
        return answer(connection.response())

    request = ProduceRequest(codec, broker_version=KAFKA_VERSION)
    for number in range(3):
        request.add_message(Message(b"%d" % number, b"k"), topic.encode(), 0)
    produced = eventually(
        client, lambda: ask(request, ProduceResponse).topics[topic][0], lambda answer: answer.err not in {3, 5, 6}
    )
    assert produced == (0, 0)
    fetch = FetchRequest([PartitionFetchRequest(topic.encode(), 0, 0)], timeout=5000, min_bytes=1)
    messages = ask(fetch, FetchResponse).topics[topic][0].messages
    assert [(one.offset, one.value, one.partition_key) for one in messages] == [(n, b"%d" % n, b"k") for n in range(3)]
    limits = ask(ListOffsetRequest([PartitionOffsetRequest(topic.encode(), 0, -1, 1)]), ListOffsetResponse)
    assert limits.topics[topic][0] == ([3], 0)
    assert topic in ask(MetadataRequest([topic.encode()]), MetadataResponse).topics
