"""Documented members for subclasses and old code, which the client itself hardly uses, on an embedded cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import pytest

from pykafka import KafkaClient
from pykafka.broker import Broker
from pykafka.cluster import Cluster
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    ConsumerStoppedException,
    LeaderNotFoundError,
    NotCoordinatorForGroup,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    ProducerStoppedException,
)
from pykafka.producer import OwnedBroker, Producer
from pykafka.protocol import (
    API_VERSIONS_090,
    Message,
    OffsetPartitionResponse,
    wire,
)
from pykafka.topic import Topic
from pykafka.utils.error_handlers import handle_partition_responses
from tests.support.inside import engine_of


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
    with topic.get_producer(linger_ms=1, pending_timeout_ms=1000) as producer:
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


def test_an_error_of_an_overridden_method_is_named(topic: Topic) -> None:
    """The callback was told that the sending "was interrupted", as by a broker that hangs up."""
    told: list[BaseException | None] = []

    class Broken(Producer):
        def _send_request(self, message_batch: Any, owned_broker: OwnedBroker) -> None:
            raise ZeroDivisionError("a defect")

    producer = Broken(topic._cluster, topic, linger_ms=1, pending_timeout_ms=500, auto_start=True)
    producer.produce(b"v", on_delivery=lambda error, _: told.append(error))
    with contextlib.suppress(Exception):
        producer.stop()
    assert "sender ended by ZeroDivisionError: a defect" in str(told[0]), told
    assert repr(told[0]).startswith(f"{type(told[0]).__name__}({str(told[0])!r}")


def take(consumer: SimpleConsumer) -> Message:
    message = consumer.consume()
    assert message is not None
    return message


def test_a_consumers_documented_members(topic: Topic) -> None:
    with topic.get_sync_producer() as producer:
        for _ in range(4):
            producer.produce(b"v")
    consumer = topic.get_simple_consumer("g", consumer_timeout_ms=5000, generation_id=-1, consumer_id="me")
    assert (consumer.generation_id, consumer.consumer_id) == (-1, "me")
    me: Any = consumer.consumer_id
    assert me == b"me"
    consumer.generation_id, consumer.consumer_id = -1, b""
    assert (consumer.generation_id, consumer.consumer_id) == (-1, "")
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
        owned = {partition.id: one for partition, one in consumer._partitions.items()}
        parts = {
            OffsetOutOfRangeError.ERROR_CODE: [(owned[0], OffsetPartitionResponse([], 1))],
            NotLeaderForPartition.ERROR_CODE: [(owned[1], OffsetPartitionResponse([], 6))],
            NotCoordinatorForGroup.ERROR_CODE: [(owned[1], OffsetPartitionResponse([], 16))],
        }
        handle_partition_responses(consumer._build_default_error_handlers(), parts_by_error=parts)
        assert owned[0].position == 0
        assert {take(consumer).partition_id for _ in range(3)} == {0, 1}


def test_offsets_by_time(topic: Topic) -> None:
    with topic.get_sync_producer() as producer:
        for _ in range(5):
            producer.produce(b"v")
    first, last = (topic.partitions[id_] for id_ in (0, 1))
    assert topic.earliest_available_offsets() == {0: ([0], 0), 1: ([0], 0)}
    ends = {id_: answer.offset[0] for id_, answer in topic.latest_available_offsets().items()}
    assert sorted(ends.values()) == [2, 3]
    assert topic.fetch_offset_limits(-1, max_offsets=1) == {id_: ([offset], 0) for id_, offset in ends.items()}
    assert first.latest_available_offset() == first.fetch_offset_limit(-1)[0] == ends[0]
    assert last.earliest_available_offset() == last.fetch_offset_limit(-2, 1)[0] == 0
    assert sorted([last, first]) == [first, last]
    assert first != last
    assert {first: 1}[topic.partitions[0]] == 1
    assert first.topic is topic


def test_topics_by_name(topic: Topic) -> None:
    topics = topic._cluster.topics
    assert topic.name in topics
    assert topic.name.encode() in topics
    assert "nobody has it" not in topics
    assert topics[topic.name] is topics[topic.name.encode()] is topic
    assert topic in topics.values()
    assert topics._should_exclude_topic("__consumer_offsets")
    assert not topics._should_exclude_topic(topic.name)
    for name in ("__consumer_offsets", b"__consumer_offsets"):
        with pytest.raises(KeyError, match="internal"):
            topics[name]
    topics._update_topics({})
    assert topic.name not in topics
    topic._cluster.update()
    assert topics[topic.name] is topic  # which somebody holds, though it was gone meanwhile


def test_a_broker_from_metadata(topic: Topic) -> None:
    cluster: Any = topic._cluster
    [(id_, metadata)] = cluster._get_metadata().brokers.items()
    broker = Broker.from_metadata(metadata, cluster.handler, 5000, 5000)
    assert (broker.id, broker.host, broker.port) == (id_, metadata.host, metadata.port)
    assert (broker.connected, broker.offsets_channel_connected) == (False, False)
    assert broker.handler is broker.offsets_channel_handler is None
    broker.connect()
    broker.connect_offsets_channel()
    assert (broker.connected, broker.offsets_channel_connected) == (True, True)
    assert broker._get_unique_req_handler("one") is broker._get_unique_req_handler("one")
    assert broker._get_unique_req_handler("one") is not broker._get_unique_req_handler("other")
    broker.close()
    told = Broker(id_, metadata.host, metadata.port, cluster.handler, 5000, 5000, api_versions=API_VERSIONS_090)
    assert told.api_version(wire.FetchRequest) == 1
    assert topic.name in told.request_metadata([topic.name]).topics
    told.close()
    assert cluster.get_offset_manager("g") is cluster.get_group_coordinator(b"g")


def test_a_producers_other_members(topic: Topic) -> None:
    producer = topic.get_producer(linger_ms=60_000)
    owned = producer._owned_brokers
    producer._update()
    producer._setup_owned_brokers()
    assert producer._owned_brokers == owned
    message = producer.produce(b"v")
    producer._wait_all()
    assert message.offset == 0
    engine_of(producer).worker_failed(ZeroDivisionError("a worker's"))
    with pytest.raises(ZeroDivisionError, match="a worker's"):
        producer._raise_worker_exceptions()
    producer.stop()
    with producer:
        producer._raise_worker_exceptions()


def test_a_subclass_may_override_how_a_consumer_fetches_and_commits(topic: Topic) -> None:
    calls: list[str] = []
    committed = topic._cluster.handler.Event()

    class Own(SimpleConsumer):
        def _setup_fetch_workers(self) -> None:
            calls.append("fetch")
            super()._setup_fetch_workers()

        def _auto_commit(self) -> None:
            calls.append("commit")
            super()._auto_commit()
            committed.set()

    with topic.get_sync_producer() as producer:
        producer.produce(b"v")
    settings: dict[str, Any] = {"consumer_timeout_ms": 5000, "auto_commit_interval_ms": 20}
    with Own(topic, topic._cluster, f"own {topic.name}", auto_commit_enable=True, **settings) as consumer:
        assert calls[:1] == ["fetch"]
        assert take(consumer).value == b"v"
        assert committed.wait(10)
        calls.clear()
        consumer._update()
        assert "fetch" in calls


def test_a_consumer_commits_what_it_returned(topic: Topic) -> None:
    with topic.get_sync_producer() as producer:
        for _ in range(4):
            producer.produce(b"v")
    group = f"auto {topic.name}"
    settings: dict[str, Any] = {"auto_commit_enable": True, "reset_offset_on_fetch": False}
    with topic.get_simple_consumer(group, consumer_timeout_ms=5000, **settings) as consumer:
        first = take(consumer)
        consumer._auto_commit()
        assert dict(consumer.fetch_offsets())[first.partition_id].offset == first.offset
        for _ in range(3):
            take(consumer)
        assert consumer.consume(block=False) is None
        consumer._auto_commit()
        assert sum(found.offset for _, found in consumer.fetch_offsets()) == 4
        engine_of(consumer).worker_failed(ZeroDivisionError("a worker's"))
        with pytest.raises(ZeroDivisionError, match="a worker's"):
            consumer._raise_worker_exceptions()
        consumer._raise_worker_exceptions()
    with topic.get_simple_consumer(group, auto_start=False) as consumer:
        assert sum(found.offset for _, found in consumer.fetch_offsets()) == 4


def test_a_member_joins_by_the_three_parameters_of_older_releases(topic: Topic) -> None:
    group = f"joining-{topic.name}"
    broker = cast("Cluster", topic._cluster).get_group_coordinator(group)
    joined = broker.join_group("c", group.encode(), b"")
    assert joined.error_code == 0
    assert joined.leader_id == joined.member_id
    assert joined.group_protocol == "range"
    assert broker.leave_group(connection_id="c", consumer_group=group, member_id=joined.member_id).error_code == 0


def test_partitions_differ_by_topic_and_number(topic: Topic) -> None:
    first, second = topic.partitions[0], topic.partitions[1]
    assert first.__ne__(second) is True
    assert first.__ne__(topic.partitions[0]) is False
    assert first != 0
