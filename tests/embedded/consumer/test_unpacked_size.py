"""`unpacked_max_bytes`: a batch that unpacks to more is not read, by no kind of consumer; all others are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import CompressionType, TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import UnpackedTooLargeError

pytestmark = [pytest.mark.timeout(120), pytest.mark.on_asyncio]

numbers = itertools.count()
CODECS = [CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD]
#: What the messages beside the large one have.
OTHERS = {b"before", b"behind", *(b"other %d" % number for number in range(20))}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def make(cluster: EmbeddedCluster, client: KafkaClient) -> Callable[[int], str]:
    """Return what makes a topic of two partitions; in the first one, the second of three batches unpacks to 900 kB."""

    def create(codec: int) -> str:
        topic = f"t{next(numbers)}"
        cluster.create_topic(topic, 2)
        with client.producer(compression=codec, linger_ms=0) as producer:
            for value in (b"before", bytes(900_000), b"behind"):
                producer.produce(topic, value, partition=0).get(20)
            for number in range(20):
                producer.produce(topic, b"other %d" % number, partition=1)
        return topic

    return create


def read(one: Callable[[], Any], count: int) -> tuple[set[bytes], UnpackedTooLargeError]:
    """Read so many messages; return their values, and the error that comes between or behind them."""
    found: set[bytes] = set()
    errors: list[UnpackedTooLargeError] = []
    while len(found) < count or not errors:
        try:
            message = one()
        except UnpackedTooLargeError as error:
            errors.append(error)
        else:
            assert message is not None
            found.add(message.value)
    return found, errors[0]


@pytest.mark.parametrize("codec", CODECS)
def test_other_partitions_continue_and_seek_gets_past_it(client: KafkaClient, make: Any, codec: int) -> None:
    topic = make(codec)
    with client.consumer(topic, unpacked_max_bytes=500_000) as consumer:
        found, error = read(lambda: consumer.one(20), 21)
        assert found == OTHERS - {b"behind"}
        assert (error.topic, error.partition, error.offset, error.next_offset) == (topic, 0, 1, 2)
        assert (error.limit, error.option, error.retriable) == (500_000, "unpacked_max_bytes", False)
        assert 0 < error.size < 100_000
        assert error.unpacked is None or 900_000 < error.unpacked < 901_000
        assert topic in str(error)
        assert "unpacked_max_bytes allows 500,000 bytes" in str(error)
        assert consumer.position(TopicPartition(topic, 0)) == 1
        consumer.seek(TopicPartition(topic, 0), error.next_offset)
        record = consumer.one(20)
        assert record is not None
        assert record.value == b"behind"


def test_by_default_it_is_read(client: KafkaClient, make: Any) -> None:
    topic = make(CompressionType.ZSTD)
    with client.consumer(topic, queued_max_bytes=1000) as consumer:
        found: set[Any] = set()
        while len(found) < 23:
            found |= {record.value for record in consumer.poll(timeout=20)}
        assert found == OTHERS | {bytes(900_000)}


@pytest.mark.later("asyncio")
def test_documented_consumers_and_arrow(client: KafkaClient, make: Any) -> None:
    topic = client.topics[make(CompressionType.ZSTD)]
    with topic.get_simple_consumer(unpacked_max_bytes=500_000, consumer_timeout_ms=20_000) as consumer:
        found, error = read(consumer.consume, 21)
        assert found == OTHERS - {b"behind"}
        assert (error.partition, error.next_offset) == (0, 2)
        consumer.seek(topic.partitions[0], error.next_offset)
        message = consumer.consume()
        assert message is not None
        assert message.value == b"behind"
    with topic.get_simple_consumer(unpacked_max_bytes=500_000, consumer_timeout_ms=20_000) as consumer:
        values: set[bytes] = set()
        with pytest.raises(UnpackedTooLargeError):
            while (batch := consumer.consume_arrow(columns=("value",))) is not None:
                values |= set(batch.column("value").to_pylist())
        assert values <= OTHERS - {b"behind"}


def test_librdkafka_has_no_such_limit(client: KafkaClient, make: Any) -> None:
    topic = client.topics[make(CompressionType.GZIP)]
    with pytest.raises(ValueError, match="librdkafka has no limit"):
        topic.get_simple_consumer(use_rdkafka=True, unpacked_max_bytes=5)
    with pytest.raises(ValueError, match="unpacked_max_bytes"):
        topic.get_simple_consumer(unpacked_max_bytes=0)
