"""What subclasses and old code reach for: the documented members that this client itself has little use for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    ConsumerStoppedException,
    LeaderNotFoundError,
    NotCoordinatorForGroup,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    ProducerStoppedException,
    SocketDisconnectedError,
    UnicodeException,
)
from pykafka.producer import OwnedBroker, Producer
from pykafka.protocol import (
    CreateTopicRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeGroupsResponse,
    Message,
    OffsetPartitionResponse,
    messages,
)
from pykafka.simpleconsumer import SimpleConsumer
from pykafka.topic import Topic
from pykafka.utils import deserialize_utf8
from pykafka.utils.error_handlers import handle_partition_responses
from pykafka.utils.socket import recvall_into


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def topic(request: pytest.FixtureRequest, cluster: EmbeddedCluster) -> Iterator[Topic]:
    name = f"{request.node.originalname}-{request.param}"
    cluster.create_topic(name, partitions=2)
    with KafkaClient(hosts=cluster.hosts, use_greenlets=request.param) as client:
        yield client.topics[name]


def test_produce_to_a_partition_that_is_known(topic: Topic) -> None:
    with topic.get_producer(linger_ms=1) as producer:
        message = Message(b"new", partition_key=b"k", partition_id=1)
        producer._produce(message)
        producer._produce(((b"k", b"old"), 1))
        owned = producer._owned_brokers[1]
        owned.enqueue(Message(b"by its broker", partition_id=0))
        assert owned.message_is_pending()
        producer.flush()
        assert not owned.message_is_pending()
        assert message.offset == 0
        with pytest.raises(LeaderNotFoundError, match="partition_id"):
            producer._produce(Message(b"v", partition_id=9))
    with pytest.raises(ProducerStoppedException):
        producer._produce(message)
    with topic.get_simple_consumer(consumer_timeout_ms=500) as consumer:
        found = {(one.partition_id, one.value, one.partition_key) for one in consumer}
    assert found == {(1, b"new", b"k"), (1, b"old", b"k"), (0, b"by its broker", None)}


def test_senders_pass_by_what_may_be_overridden(topic: Topic) -> None:
    sent: list[int] = []
    delivered: list[int] = []

    class Counting(Producer):
        def _send_request(self, message_batch: Any, owned_broker: OwnedBroker) -> None:
            sent.append(sum(batch.count for batch in message_batch))
            super()._send_request(message_batch, owned_broker)

        def _mark_as_delivered(self, owned_broker: OwnedBroker, message_batch: Any, req: Any = None) -> None:
            delivered.append(sum(batch.count for batch in message_batch))
            super()._mark_as_delivered(owned_broker, message_batch, req)

    with Counting(topic._cluster, topic, linger_ms=1) as producer:
        for _ in range(100):
            producer.produce(b"v")
    assert sum(sent) == sum(delivered) == 100
    assert producer._produce_has_timed_out(0)
    assert not producer._produce_has_timed_out(topic._cluster.handler.time_ms())


def take(consumer: SimpleConsumer) -> Message:
    message = consumer.consume()
    assert message is not None
    return message


def test_a_consumers_documented_members(topic: Topic) -> None:
    with topic.get_sync_producer() as producer:
        for _ in range(4):
            producer.produce(b"v")
    consumer = topic.get_simple_consumer("g", consumer_timeout_ms=5000, generation_id=-1, consumer_id="me")
    assert (consumer.generation_id, consumer.consumer_id) == (-1, b"me")
    consumer.generation_id, consumer.consumer_id = -1, b""
    assert (consumer.generation_id, consumer.consumer_id) == (-1, b"")
    assert consumer._discover_offset_manager() is consumer._discover_group_coordinator()
    consumer.fetch()
    take(consumer)
    consumer._update()
    take(consumer)
    consumer.cleanup()
    consumer._setup_fetch_workers()
    assert {take(consumer).offset for _ in range(2)} <= {0, 1}
    consumer.commit_offsets()
    consumer.stop()
    with pytest.raises(ConsumerStoppedException):
        consumer.fetch()
    without_group = topic.get_simple_consumer(auto_start=False)
    assert without_group._discover_group_coordinator() is None


def test_default_error_handlers(topic: Topic) -> None:
    with topic.get_sync_producer() as producer:
        for _ in range(4):
            producer.produce(b"v")
    with topic.get_simple_consumer("g", consumer_timeout_ms=5000) as consumer:
        take(consumer)
        take(consumer)
        owned = consumer._partitions_by_id
        parts = {
            OffsetOutOfRangeError.ERROR_CODE: [(owned[0], OffsetPartitionResponse([], 1))],
            NotLeaderForPartition.ERROR_CODE: [(owned[1], OffsetPartitionResponse([], 6))],
            NotCoordinatorForGroup.ERROR_CODE: [(owned[1], OffsetPartitionResponse([], 16))],
        }
        handle_partition_responses(consumer._build_default_error_handlers(), parts_by_error=parts)
        assert owned[0].position == 0
        assert {take(consumer).partition_id for _ in range(3)} == {0, 1}


@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_recvall_into(size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(5)
        other.sendall(content[: size // 2])
        other.sendall(content[size // 2 :])
        buffer = bytearray(3)
        assert recvall_into(one, buffer, size) is buffer
        assert buffer[:size] == content
        other.sendall(b"x")
        other.close()
        with pytest.raises(SocketDisconnectedError, match="1 of 9 bytes"):
            recvall_into(one, buffer, 9)


@pytest.mark.parametrize("version", range(8))
def test_topics_to_make_in_every_version(version: int) -> None:
    asked = [
        CreateTopicRequest(b"t", 3, 1, [], [("a", "b")]),
        CreateTopicRequest("u", -1, -1, {0: (1, 2)}, {b"c": b"d"}),
    ]
    wire = messages.CreateTopicsRequest.decode(CreateTopicsRequest(asked, 7).wire(version).encode(version), version)
    one, other = wire.topics
    assert (one.name, one.num_partitions, one.replication_factor, wire.timeout_ms) == ("t", 3, 1, 7)
    assert [(config.name, config.value) for config in one.configs + other.configs] == [("a", "b"), ("c", "d")]
    assert [(part.partition_index, part.broker_ids) for part in other.assignments] == [(0, [1, 2])]


@pytest.mark.parametrize("version", range(7))
def test_topics_to_delete_in_every_version(version: int) -> None:
    request = DeleteTopicsRequest(["t", b"u"], 7)
    wire = messages.DeleteTopicsRequest.decode(request.wire(version).encode(version), version)
    assert [topic.name for topic in wire.topics] + wire.topic_names == ["t", "u"]


@pytest.mark.parametrize(
    ("protocol_type", "metadata"),
    [("consumer", b""), ("consumer", b"\0"), ("connect", b"\0\0\0\0\0\0\0\0\0\0")],
    ids=["empty", "garbage", "no consumers"],
)
def test_groups_whose_members_say_something_else(protocol_type: str, metadata: bytes) -> None:
    group = messages.DescribeGroupsResponse.Group(
        group_id="g",
        group_state="PreparingRebalance",
        protocol_type=protocol_type,
        members=[
            messages.DescribeGroupsResponse.Group.Member(
                member_id="m", member_metadata=metadata, member_assignment=metadata
            )
        ],
    )
    answer = messages.DescribeGroupsResponse(groups=[group]).encode(0)
    member = DescribeGroupsResponse(answer).groups["g"].members["m"]
    assert (member.member_metadata, member.member_assignment) == (metadata, metadata)


def test_text_that_is_none() -> None:
    with pytest.raises(UnicodeException):
        deserialize_utf8(b"\xff", None)
