"""The client refuses wrong arguments at once and by name, and changes nothing."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import BalancedConsumer, KafkaClient, ManagedBalancedConsumer, Producer, SimpleConsumer
from pykafka.common import OffsetType
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    ClientClosedError,
    MessagesNotDelivered,
    NoBrokersAvailableError,
    ResponseTimeoutError,
    UnicodeException,
)
from pykafka.rdkafka import RdKafkaSimpleConsumer
from pykafka.topic import Topic
from tests.support.inside import engine_of, options_of

#: Numbers that no broker, and nobody here, has ever looked at: old code may give anything.
UNUSED = {"generation_id", "queue_empty_timeout_ms"}
#: Whose values are text, functions, or objects of a kind.
NO_NUMBERS = {
    KafkaClient: ["hosts", "source_address", "ssl_config", "client_id"],
    Producer: ["partitioner", "serializer"],
    SimpleConsumer: [
        "consumer_group",
        "partitions",
        "consumer_id",
        "deserializer",
        "isolation_level",
        "auto_offset_reset",
    ],
    BalancedConsumer: [
        "consumer_group",
        "membership_protocol",
        "deserializer",
        "post_rebalance_callback",
        "auto_offset_reset",
    ],
    ManagedBalancedConsumer: [
        "membership_protocol",
        "group_instance_id",
        "post_rebalance_callback",
        "auto_offset_reset",
    ],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        for name in ("bad-input", "bad-input-too"):
            cluster.create_topic(name, partitions=1)
        yield cluster


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=cluster.hosts) as client:
        yield client


@pytest.fixture
def topic(client: KafkaClient) -> Topic:
    return client.topics["bad-input"]


def _numbers(cls: type[Any]) -> list[str]:
    parameters = inspect.signature(cls).parameters.values()
    return [
        one.name
        for one in parameters
        if isinstance(one.default, int)
        and not isinstance(one.default, bool)
        and one.name not in {*UNUSED, *NO_NUMBERS[cls]}
    ]


def _make(cls: type[Any], client: KafkaClient, topic: Topic, **options: Any) -> object:
    if cls is KafkaClient:
        return KafkaClient(**{"hosts": client._seed_hosts} | options)
    if cls is Producer:
        return Producer(client.cluster, topic, auto_start=False, **options)
    if issubclass(cls, SimpleConsumer):
        return cls(topic, client.cluster, auto_start=False, **options)
    return cls(topic, client.cluster, **{"consumer_group": "g", "auto_start": False} | options)


@pytest.mark.parametrize(("cls", "name"), [(cls, name) for cls in NO_NUMBERS for name in _numbers(cls)])
def test_what_is_no_number_or_no_time(client: KafkaClient, topic: Topic, cls: type[Any], name: str) -> None:
    for value in ("x", None, 1.5j, object()):
        with pytest.raises(TypeError, match=f"^{name} must be "):
            _make(cls, client, topic, **{name: value})
    if name.endswith("_ms") and name != "consumer_timeout_ms":  # of which every number below 0 is for ever
        with pytest.raises(ValueError, match=f"^{name} must be (0 or more|above 0|above 0 ms), not -5"):
            _make(cls, client, topic, **{name: -5})


@pytest.mark.parametrize(("cls", "name"), [(cls, name) for cls, names in NO_NUMBERS.items() for name in names])
def test_what_is_of_another_kind(client: KafkaClient, topic: Topic, cls: type[Any], name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"\b{name} must be "):
        _make(cls, client, topic, **{name: 5})


@pytest.mark.parametrize("cls", [SimpleConsumer, BalancedConsumer, ManagedBalancedConsumer, RdKafkaSimpleConsumer])
def test_where_to_begin_by_name(client: KafkaClient, topic: Topic, cls: type[Any]) -> None:
    for given, kept in (("earliest", -2), ("latest", -1), ("none", "none"), (OffsetType.LATEST, -1), (-2, -2)):
        made: Any = _make(cls, client, topic, auto_offset_reset=given)
        options = engine_of(made).options if issubclass(cls, SimpleConsumer) else options_of(made)
        assert options.auto_offset_reset == kept
    # Exactly so, as everywhere: not in upper case, and not as the old consumers of Java had them.
    for value in ("beginning", "", 0, -3, None, b"earliest", "EARLIEST", "Latest", "smallest", " latest"):
        told = r'^auto_offset_reset must be (an int|.*\("earliest"\), .*\("latest"\), or "none")'
        with pytest.raises((TypeError, ValueError), match=told):
            _make(cls, client, topic, auto_offset_reset=value)


@pytest.mark.parametrize(("cls", "name"), [(KafkaClient, "hosts"), (SimpleConsumer, "consumer_group")])
def test_bytes_that_are_no_text(client: KafkaClient, topic: Topic, cls: type[Any], name: str) -> None:
    with pytest.raises(UnicodeException, match=rf"^{name}: b'\\xff' is no UTF-8"):
        _make(cls, client, topic, **{name: b"\xff"})


def test_partitions_of_another_topic(client: KafkaClient, topic: Topic) -> None:
    others = client.topics["bad-input-too"].partitions
    with pytest.raises(ValueError, match="partitions must be those of .*bad-input.*topic=bad-input-too"):
        _make(SimpleConsumer, client, topic, partitions=list(others.values()))
    with pytest.raises(TypeError, match="0 in it is int"):  # a dictionary's keys
        _make(SimpleConsumer, client, topic, partitions=others)


def test_a_source_address_that_nobody_knows(client: KafkaClient) -> None:
    with pytest.raises(
        NoBrokersAvailableError, match="cannot connect from 'no-such-host.invalid'.*correct source_address"
    ):
        KafkaClient(client._seed_hosts, source_address="no-such-host.invalid")


Call = Callable[[Topic, SimpleConsumer, Producer], object]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda topic, consumer, producer: topic.fetch_offset_limits("x"),
            "offsets_before must be a datetime, or an int",
        ),
        (lambda topic, consumer, producer: topic.fetch_offset_limits(-1, "x"), "max_offsets must be an int"),
        (
            lambda topic, consumer, producer: topic.fetch_offset_limits(-1, partitions=5),
            "partitions must be a list of ids",
        ),
        (
            lambda topic, consumer, producer: topic.fetch_offset_limits(-1, partitions="5"),
            "each of partitions must be an int",
        ),
        (lambda topic, consumer, producer: consumer.consume_batch("x"), "max_messages must be an int"),
        (lambda topic, consumer, producer: consumer.consume_arrow(max_bytes=None), "max_bytes must be an int"),
        (lambda topic, consumer, producer: consumer.consume_arrow(columns="key"), "columns must be a list of names"),
        (lambda topic, consumer, producer: consumer.consume_arrow(columns=[1]), "columns must be a list of names"),
        (lambda topic, consumer, producer: consumer.seek(0, 0), "must be a Partition and an offset"),
        (
            lambda topic, consumer, producer: consumer.seek(topic.partitions[0], 1.5),
            "must be a Partition and an offset",
        ),
        (
            lambda topic, consumer, producer: consumer.reset_offsets(5),
            "must be a Partition and an offset or a datetime",
        ),
        (
            lambda topic, consumer, producer: consumer.reset_offsets([(topic.partitions[0], float("nan"))]),
            "must be a Partition and",
        ),
        (
            lambda topic, consumer, producer: consumer.reset_offsets({0: 5}),
            "each pair of partition_offsets must be .*, not 0",
        ),
        (
            lambda topic, consumer, producer: consumer.commit_offsets([(topic.partitions[0], "x")]),
            "must be a Partition and an offset",
        ),
        (lambda topic, consumer, producer: producer.produce("x"), "message must be bytes or None"),
        (lambda topic, consumer, producer: producer.produce(b"", 5), "partition_key must be bytes or None"),
        (
            lambda topic, consumer, producer: producer.produce(b"", timestamp="x"),
            "timestamp must be a datetime, or an int",
        ),
        (lambda topic, consumer, producer: producer.produce(b"", headers=5), "headers must be .* not int"),
        (lambda topic, consumer, producer: producer.produce(b"", headers="ab"), "headers must be .* not str"),
        (
            lambda topic, consumer, producer: producer.produce(b"", headers=[("a", "b")]),
            "headers must be .* not a pair of str and str",
        ),
        (lambda topic, consumer, producer: producer.flush("x"), "timeout_ms must be an int"),
        (lambda topic, consumer, producer: topic._cluster.topics[5], "a topic's name must be text"),
        (lambda topic, consumer, producer: topic._cluster.get_group_coordinator(5), "consumer_group must be text"),
    ],
)
def test_calls(topic: Topic, call: Call, text: str) -> None:
    with topic.get_producer() as producer, topic.get_simple_consumer("calls", consumer_timeout_ms=1_000) as consumer:
        started = time.monotonic()
        with pytest.raises(TypeError, match=text):
            call(topic, consumer, producer)
        assert time.monotonic() - started < 5  # what no broker could answer is not asked again and again
        start = topic.latest_available_offsets()[0].offset[0]
        producer.produce(b"good")
        producer.flush()
        consumer.seek(topic.partitions[0], start)
        found = consumer.consume()
        assert found is not None
        assert (found.offset, found.value) == (start, b"good")


def test_numbers_that_no_field_holds(topic: Topic) -> None:
    partition = topic.partitions[0]
    consumer = topic.get_simple_consumer("numbers")
    for move in (consumer.reset_offsets, consumer.commit_offsets):
        for offset in (2**63 - 1, 2**70, -3):
            with pytest.raises(
                ValueError, match=rf"an offset of <.*> must be from (-2|0) to 2\*\*63 - 2, not {offset}"
            ):
                move([(partition, offset)])
    with pytest.raises(ValueError, match="offset must be 0 or more, not -1"):
        consumer.seek(partition, -1)
    with topic.get_producer() as producer, pytest.raises(ValueError, match="timestamp must fit into 64 bits"):
        producer.produce(b"", timestamp=2**63)
    consumer.stop()


def test_a_closed_client_is_not_asked_again_and_again() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        client = KafkaClient(hosts=cluster.hosts)
        topic = client.topics["closed"]
        client.close()
        started = time.monotonic()
        with pytest.raises(ClientClosedError):
            topic.latest_available_offsets()
        assert time.monotonic() - started < 5


@pytest.mark.parametrize("use_greenlets", [False, True], ids=["threads", "greenlets"])
def test_flush_says_that_its_time_has_passed(use_greenlets: bool) -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        client = KafkaClient(hosts=cluster.hosts, use_greenlets=use_greenlets)
        producer = client.topics["away"].get_producer(pending_timeout_ms=100)
        producer.produce(b"stays")
        cluster.broker_down(1)
        with pytest.raises(ResponseTimeoutError, match="1 messages are still queued, and none got through for 200 ms"):
            producer.flush(timeout_ms=200)
        with pytest.raises(MessagesNotDelivered):
            producer.stop()
        client.close()
