"""Where the system starts no thread for a while, what needed one is tried again."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import WorkerNotStartedError
from tests.support.threads import no_threads
from tests.support.waiting import until


def test_a_sender_connects_when_threads_can_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its new connection needs a reader: the sender ended for good, and every produce() raised."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        producer = client.topics["t"].get_producer(linger_ms=0)
        producer.produce(b"one")
        producer.flush(20_000)
        client.brokers[1].channel("produce").drop()
        with no_threads(monkeypatch) as refused:
            producer.produce(b"two")
            until(client.cluster.handler, lambda: len(refused) > 1)
            producer.produce(b"three")
        producer.flush(20_000)
        producer.stop()
        consumer = client.topics["t"].get_simple_consumer(consumer_timeout_ms=10_000)
        found = [consumer.consume() for _ in range(3)]
        assert [message.value for message in found if message is not None] == [b"one", b"two", b"three"]
        consumer.stop()


def test_a_message_whose_sender_cannot_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender starts with the first message for its leader."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        with client.topics["t"].get_producer() as producer, client.producer() as other:
            with no_threads(monkeypatch):
                with pytest.raises(WorkerNotStartedError):
                    producer.produce(b"x")
                with pytest.raises(WorkerNotStartedError):
                    other.produce("t", b"x")
            producer.produce(b"y")
            other.produce("t", b"y").get(20)
        assert client.topics["t"].latest_available_offsets()[0].offset == [2]


def test_a_consumer_fetches_when_threads_can_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        with client.topics["t"].get_producer() as producer:
            producer.produce(b"x")
        consumer = client.topics["t"].get_simple_consumer(consumer_timeout_ms=20_000)
        first = consumer.consume()
        assert first is not None
        with no_threads(monkeypatch) as refused:
            client.brokers[1].channel("fetch:100:1:0:0").drop()
            until(client.cluster.handler, lambda: refused)
        with client.topics["t"].get_producer() as producer:
            producer.produce(b"y")
        while True:
            try:
                message = consumer.consume()
                break
            except WorkerNotStartedError:
                continue
        assert message is not None
        assert message.value == b"y"
        consumer.stop()
