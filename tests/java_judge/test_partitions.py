"""Keys go to the partitions to which Kafka's own producer sends them, in topics of many sizes."""

from __future__ import annotations

import random

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.partitioners import Murmur2Partitioner
from tests.java_judge.kafka_java import run_source
from tests.java_judge.schemas import RELEASES

#: {topic: its number of partitions}
TOPICS = {f"of-{number}": number for number in (1, 2, 3, 5, 6, 12, 50, 64, 100)}


def keys() -> list[bytes]:
    """Return keys of each length that murmur2 treats differently, with bytes beyond 127, and text."""
    dice = random.Random(42)
    made = [dice.randbytes(length) for length in range(40) for _ in range(3)]
    return [b"", b"\x00", b"\xff" * 7, "ключ-€".encode(), b"x" * 5000, *made, *(b"order-%d" % n for n in range(100))]


@pytest.mark.parametrize("release", RELEASES)
def test_keys_go_where_the_java_producer_sends_them(release: str) -> None:
    pairs = [(topic, key) for topic in TOPICS for key in keys()]
    printed = run_source("Partitions.java", release, "\n".join(f"{TOPICS[topic]} {key.hex()}" for topic, key in pairs))
    theirs = [int(line) for line in printed.split()]
    with EmbeddedCluster(brokers=2, topics=TOPICS) as cluster, KafkaClient(cluster.hosts) as client:
        with client.producer() as producer:
            ours = [producer.produce(topic, b"", key=key) for topic, key in pairs]
        assert [one.partition for one in ours] == theirs
        found = {name: client.topics[name].partitions for name in TOPICS}
    documented = Murmur2Partitioner()
    assert [documented(list(found[topic].values()), key).id for topic, key in pairs] == theirs
