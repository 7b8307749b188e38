"""Dropped producers and consumers end with their client, and not at the next look of their workers."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import DeadLetters, KafkaClient
from pykafka.embedded import EmbeddedCluster
from tests.support.leftovers import Belongings, left_since
from tests.support.loops import Concurrency
from tests.support.waiting import until

#: Workers look for their owners every five seconds (s).
SOON_S = 1.5


def _producer(client: KafkaClient) -> Any:
    producer = client.producer()
    producer.produce("t", b"x").get()
    return producer


def _letters(client: KafkaClient) -> Any:
    """Return a consumer whose dead letters have a producer of their own."""
    with client.producer() as producer:
        producer.produce("t", b"no JSON").get()
    consumer = client.consumer(
        "t", value_deserializer=json.loads, on_bad_record=DeadLetters(client), consumer_timeout_ms=300
    )
    with consumer:
        assert list(consumer) == []
    return consumer


def _committer(client: KafkaClient) -> Any:
    return client.topics["t"].get_simple_consumer("g", auto_commit_enable=True)


def _member(client: KafkaClient) -> Any:
    consumer = client.topics["t"].get_balanced_consumer("g", managed=True, consumer_timeout_ms=100)
    consumer.consume()
    return consumer


@pytest.mark.on_asyncio
@pytest.mark.parametrize("made", [_producer, _letters, _committer, _member])
def test_no_worker_outlives_the_client(concurrency: Concurrency, made: Callable[[KafkaClient], Any]) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1, "t.dlq": 1}) as cluster:
        before = Belongings()
        with KafkaClient(cluster.hosts, **concurrency()) as client:
            gone = weakref.ref(made(client))
            until(client.cluster.handler, lambda: gc.collect() is not None and gone() is None)
        assert not left_since(before, SOON_S)
