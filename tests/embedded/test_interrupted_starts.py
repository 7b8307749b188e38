"""Calls that Ctrl-C ends while they start a thread of the client: the next call goes on with it, and `close()` ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster
from tests.support.interrupts import Interrupted, interrupted_starts

pytestmark = pytest.mark.timeout(120)

TOPIC = "jobs"


@pytest.fixture
def client() -> Iterator[KafkaClient]:
    with FakeCluster(brokers=1, topics={TOPIC: 1}) as cluster, KafkaClient(cluster.hosts) as client:
        yield client


def threads(name: str) -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.ident is not None and one.name.startswith(name)]


def test_a_sender_whose_start_was_interrupted_is_the_only_one_and_ends(client: KafkaClient) -> None:
    name = "pykafka.OwnedBroker"
    with client.producer(linger_ms=5) as producer:
        with interrupted_starts(name), pytest.raises(Interrupted):
            producer.produce(TOPIC, b"1")
        first = threads(name)
        producer.produce(TOPIC, b"2")
        producer.flush()
        assert threads(name) == first
        assert len(first) == 1
    client.close()
    assert threads(name) == []
