"""Topics that are deleted and made anew under a producer, on real brokers."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import MessagesNotDelivered, TopicRecreatedError
from pykafka.handlers import Handler
from pykafka.protocol.message import Message
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.features import kafka_since
from tests.support.topics import create_topic, make_anew

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(200)]


@pytest.mark.needs("topic ids")
@pytest.mark.parametrize("acks", [1, -1])
def test_nothing_is_lost_or_doubled_in_the_new_topic(
    kafka: KafkaCluster, handler: Handler, acks: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages that are produced once the topic is there again are all in it, once and in order, with their offsets."""
    told: dict[int, Any] = {}
    with KafkaClient(kafka.hosts, handler=handler) as client, KafkaClient(kafka.hosts) as other:
        topic = create_topic(client)
        producer = topic.get_producer(
            required_acks=acks,
            linger_ms=1,
            max_request_size=2000,
            max_retries=50,
            on_delivery=lambda error, message: told.__setitem__(number(message), (error, message)),
        )
        ended = threading.Event()

        def make() -> None:
            make_anew(other, topic.name)
            ended.set()

        starter = threading.Thread(target=make)
        count = since = 0
        while not since or count < since + 2000:
            for _ in range(20):
                producer.produce(b"%d" % count)
                count += 1
            if count == 1000:
                starter.start()
            if not since and ended.is_set():
                since = count
                client.cluster.update([topic.name])  # before Kafka 4.1 a producer may have met no error
            handler.sleep(0.001)
        producer.stop()
        starter.join()
        assert sorted(told) == list(range(count))
        assert {type(error) for error, _ in told.values()} == {type(None)}
        found = list(values(client.topics[topic.name], count))
        assert found == list(range(found[0], count))
        assert found[0] <= since
        wrong = [value for at, value in enumerate(found) if told[value][1].offset not in (at, -1)]
        assert wrong == []
    assert "the producer continues in the new topic" in caplog.text


def values(topic: Topic, end: int) -> Any:
    """Yield what the topic has, up to the number that was produced last."""
    with topic.get_simple_consumer(consumer_timeout_ms=20_000) as consumer:
        for message in consumer:
            yield number(message)
            if number(message) == end - 1:
                return


def number(message: Message) -> int:
    """Return the number that a message has as its value."""
    assert message.value is not None
    return int(message.value)


@pytest.mark.needs("topic ids")
def test_messages_fail_if_so_told(kafka: KafkaCluster, handler: Handler) -> None:
    with KafkaClient(kafka.hosts, handler=handler) as client, KafkaClient(kafka.hosts) as other:
        topic = create_topic(client)
        former = client.cluster.topic_id(topic.name)
        producer = topic.get_producer(required_acks=-1, linger_ms=0, on_topic_recreated="fail")
        producer.produce(b"1")
        producer.flush()
        make_anew(other, topic.name)
        if not kafka_since(4, 1):  # the client learns of it with the next metadata
            client.cluster.update([topic.name])
        producer.produce(b"2")
        with pytest.raises(MessagesNotDelivered) as caught:
            producer.flush()
        error = caught.value.failures[0][1]
        assert isinstance(error, TopicRecreatedError)
        assert (error.old_id, error.new_id) == (former, client.cluster.topic_id(topic.name))
        producer.stop()
        producer.start()
        producer.produce(b"3")
        producer.stop()
        assert list(itertools.islice(values(client.topics[topic.name], 4), 5)) == [3]


@pytest.mark.needs("writing by id")
def test_requests_name_topics_by_id(kafka: KafkaCluster, handler: Handler) -> None:
    with KafkaClient(kafka.hosts, handler=handler) as client:
        topic = create_topic(client)
        former = client.cluster.topic_id(topic.name)
        with topic.get_producer(sync=True) as producer:
            assert producer.produce(b"1").offset == 0
            with KafkaClient(kafka.hosts) as other:
                make_anew(other, topic.name)
            assert client.cluster.topic_id(topic.name) == former  # nobody has told this client
            assert producer.produce(b"2").offset == 0
            assert client.cluster.topic_id(topic.name) not in (former, None)
