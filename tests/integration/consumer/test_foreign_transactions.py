"""Transactions that other clients have written, with each codec: consumers of committed messages get what is committed."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka
import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.java_judge.kafka_java import run_source
from tests.support.features import KAFKA_VERSION
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300), pytest.mark.needs("transactions")]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: Transactions of each topic, by their ends; the first and the last are committed.
ENDS = (True, False, True, False, False, True)
EACH = 40


class Written(NamedTuple):
    """A message of a transaction."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def messages(number: int) -> list[Written]:
    """Return the messages of a transaction: with and without key, value and headers."""
    return [
        Written(
            None if each % 5 == 0 else b"k%d" % each,
            None if each % 5 == 1 else b"%d-%d " % (number, each) + b"x" * each,
            [("h", b"%d" % number), ("empty", b"")] if each % 3 else [],
        )
        for each in range(EACH)
    ]


WANTED = [one for number, committed in enumerate(ENDS) if committed for one in messages(number)]


def by_confluent(hosts: str, topics: dict[str, str]) -> None:
    """Write all by confluent-kafka."""
    for codec, topic in topics.items():
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": hosts, "transactional.id": uuid.uuid4().hex, "compression.type": codec}
        )
        producer.init_transactions(30)
        for number, committed in enumerate(ENDS):
            producer.begin_transaction()
            for one in messages(number):
                headers: list[Any] = list(one.headers)
                producer.produce(topic, one.value, one.key, partition=0, headers=headers)
            assert producer.flush(30) == 0
            (producer.commit_transaction if committed else producer.abort_transaction)(30)


def by_aiokafka(hosts: str, topics: dict[str, str]) -> None:
    """Write all by aiokafka."""

    async def write(codec: str, topic: str) -> None:
        producer: Any = aiokafka.AIOKafkaProducer(
            bootstrap_servers=hosts,
            transactional_id=uuid.uuid4().hex,
            compression_type=None if codec == "none" else codec,
        )
        await producer.start()
        try:
            for number, committed in enumerate(ENDS):
                await producer.begin_transaction()
                for one in messages(number):
                    await producer.send(topic, one.value, one.key, partition=0, headers=one.headers)
                await producer.flush()
                await (producer.commit_transaction if committed else producer.abort_transaction)()
        finally:
            await producer.stop()

    async def write_all() -> None:
        for codec, topic in topics.items():
            await write(codec, topic)

    with ThreadPoolExecutor(1) as pool:  # this thread may have a loop already
        pool.submit(asyncio.run, write_all()).result()


def by_kafka_python(hosts: str, topics: dict[str, str]) -> None:
    """Write all by kafka-python, with the codecs that it finds here."""
    from kafka import KafkaProducer
    from kafka.codec import has_lz4

    for codec, topic in topics.items():
        lacks = codec == "lz4" and not has_lz4()
        producer = KafkaProducer(
            bootstrap_servers=hosts,
            transactional_id=uuid.uuid4().hex,
            compression_type=None if codec == "none" or lacks else codec,
        )
        producer.init_transactions()
        for number, committed in enumerate(ENDS):
            producer.begin_transaction()
            for one in messages(number):
                producer.send(topic, one.value, one.key, headers=one.headers, partition=0)
            producer.flush()
            (producer.commit_transaction if committed else producer.abort_transaction)()
        producer.close()


def by_java(hosts: str, topics: dict[str, str]) -> None:
    """Write all by Kafka's own client: its program makes what `messages` makes."""
    ends = "".join("c" if committed else "a" for committed in ENDS)
    lines = "\n".join(f"{hosts} {topic} {codec} {uuid.uuid4().hex} {ends} {EACH}" for codec, topic in topics.items())
    run_source("Transactions.java", KAFKA_VERSION, lines)


Found = Iterator[tuple[str, Written]]


def one_by_one(consumer: Any) -> Found:
    """Read by iteration."""
    for record in consumer:
        yield record.topic, Written(record.key, record.value, list(record.headers))


def in_batches(consumer: Any) -> Found:
    """Read by batches, which are smaller than a transaction."""
    for records in consumer.batches(17):
        for record in records:
            yield record.topic, Written(record.key, record.value, list(record.headers))


def by_arrow(consumer: Any) -> Found:
    """Read as tables, which are smaller than a transaction."""
    while (table := consumer.arrow(17, timeout=1)) is not None:
        for row in table.to_pylist():
            headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
            yield row["topic"], Written(row["key"], row["value"], headers)


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # kafka-python's
@pytest.mark.later("threads-by_java", "threads-by_kafka", "greenlets-by_confluent", "greenlets-by_aiokafka")
@pytest.mark.parametrize("write", [by_confluent, by_aiokafka, by_kafka_python, by_java])
def test_what_is_committed_is_read(
    client: KafkaClient, kafka: KafkaCluster, write: Callable[[str, dict[str, str]], None]
) -> None:
    topics = {codec: create_topic(client).name for codec in CODECS}
    write(kafka.hosts, topics)
    for read in (one_by_one, in_batches, by_arrow):
        found: dict[str, list[Written]] = {topic: [] for topic in topics.values()}
        with client.consumer(*found, isolation_level="read_committed", consumer_timeout_ms=1000) as consumer:
            for topic, one in read(consumer):
                found[topic].append(one)
        assert found == dict.fromkeys(found, WANTED), read
