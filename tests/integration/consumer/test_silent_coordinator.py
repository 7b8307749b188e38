"""A coordinator that hangs: commits, and what waits for them, end in time and say what was not committed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer
from pykafka.exceptions import KafkaException, OffsetsNotCommitted
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.loops import Concurrency
from tests.support.topics import create_topic
from tests.support.waiting import CutOff

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.on_asyncio, pytest.mark.timeout(300)]
#: What a call has, and by when it must have ended (s): leaving the group may take five seconds besides.
GIVEN_S, SOON_S = 1.0, 20.0
Call = Callable[[KafkaConsumer[Any, Any]], object]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(KAFKA_VERSION) as cluster:
        yield cluster


def _commit(consumer: KafkaConsumer[Any, Any]) -> None:
    with pytest.raises(OffsetsNotCommitted) as caught:
        consumer.commit(timeout=GIVEN_S)
    assert list(caught.value.failures.values()) == [1]


def _committed(consumer: KafkaConsumer[Any, Any]) -> None:
    with pytest.raises(KafkaException):
        consumer.committed(timeout=GIVEN_S)


def _close(consumer: KafkaConsumer[Any, Any]) -> None:
    with pytest.raises(OffsetsNotCommitted):
        consumer.close(timeout=GIVEN_S)


@pytest.mark.later("greenlets")
@pytest.mark.parametrize("call", [_commit, _committed, _close])
def test_calls_keep_their_time(cluster: KafkaCluster, concurrency: Concurrency, call: Call) -> None:
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        topic, handler = create_topic(client), client.cluster.handler
        with client.producer() as producer:
            producer.produce(topic.name, b"x").get(20)
        consumer = client.consumer(
            topic.name, group=f"g-{uuid.uuid4().hex}", auto_commit=call is _close, auto_commit_interval_ms=60_000
        )
        assert consumer.one(20) is not None
        cluster.pause(1)
        began = handler.now()
        try:
            call(consumer)
            assert handler.now() - began < SOON_S
        finally:
            cluster.resume(1)
        consumer.close()


@pytest.mark.later("greenlets")
def test_parallel_work_stops_in_time(cluster: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        topic, handler, done = create_topic(client), client.cluster.handler, client.cluster.handler.Event()
        with client.producer() as producer:
            producer.produce(topic.name, b"x").get(20)
        consumer = client.consumer(topic.name, group=f"g-{uuid.uuid4().hex}")
        run = consumer.parallel(lambda _: done.set(), commit_interval=60.0).start()
        assert done.wait(20)
        cluster.pause(1)
        began = handler.now()
        try:
            with pytest.raises(OffsetsNotCommitted):
                run.stop(timeout=GIVEN_S)
            assert handler.now() - began < SOON_S
        finally:
            cluster.resume(1)
        consumer.close()


@pytest.mark.later("greenlets")
@pytest.mark.needs("transactions")
def test_a_transaction_that_is_cut_off_does_not_hold_its_caller_up(
    cluster: KafkaCluster, concurrency: Concurrency
) -> None:
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        topic, handler = create_topic(client), client.cluster.handler
        with client.producer(transactional_id=f"t-{uuid.uuid4().hex}") as producer:
            with producer.transaction():
                producer.produce(topic.name, b"first")
            try:
                with pytest.raises(CutOff) as caught, producer.transaction():
                    producer.produce(topic.name, b"second").get(20)
                    cluster.pause(1)
                    began = handler.now()
                    raise CutOff
                assert handler.now() - began < SOON_S
            finally:
                cluster.resume(1)
            assert "could not be aborted" in caught.value.__notes__[0]
            with producer.transaction():  # goes on with the abort first
                producer.produce(topic.name, b"third")
        with client.consumer(topic.name, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
            records = [consumer.one(20) for _ in range(2)]
            assert [record and record.value for record in records] == [b"first", b"third"]
