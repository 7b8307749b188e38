"""Transactions that we commit and abort, as Kafka's own consumer sees them with read_committed, with each codec."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import ProducerFencedError
from tests.brokers import KafkaCluster
from tests.integration.producer.test_transactions import unique
from tests.java_judge.kafka_java import run_source
from tests.support.features import KAFKA_VERSION
from tests.support.topics import create_topic

pytestmark = pytest.mark.kafka
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_kafkas_consumer_sees_what_is_committed(kafka: KafkaCluster) -> None:
    """Also where a transaction was sent and aborted, or left open and ended by its successor."""
    wanted = " ".join(f"{number}-{each}" for number in (0, 2, 4) for each in range(50))
    with KafkaClient(kafka.hosts) as client:
        topics = [create_topic(client).name for _ in CODECS]
        for topic, codec in zip(topics, CODECS, strict=True):
            name = unique()
            producer = client.producer(transactional_id=name, compression=codec)
            for number in range(4):
                producer.begin_transaction()
                for each in range(50):
                    producer.produce(topic, b"%d-%d" % (number, each), headers={"h": b"1"})
                producer.flush()
                if number % 2:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
            producer.begin_transaction()
            producer.produce(topic, b"left open").get(20)
            with client.producer(transactional_id=name, compression=codec) as successor:
                with successor.transaction():
                    for each in range(50):
                        successor.produce(topic, b"4-%d" % each)
            with pytest.raises(ProducerFencedError):
                producer.close()
        lines = "\n".join(f"{kafka.hosts} {topic}" for topic in topics)
        assert run_source("Committed.java", KAFKA_VERSION, lines).splitlines() == [wanted] * len(CODECS)
        for topic in topics:
            with client.consumer(topic, isolation_level="read_committed", consumer_timeout_ms=1000) as consumer:
                found: list[bytes] = []
                while (table := consumer.arrow(timeout=1)) is not None:
                    found += table["value"].to_pylist()
                assert b" ".join(found).decode() == wanted
