"""Offsets of a topic that was deleted and recreated are never committed to the new one."""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.exceptions import OffsetsNotCommitted, TopicRecreatedError
from pykafka.handlers import Handler
from tests.brokers import KafkaCluster
from tests.support.features import kafka_since
from tests.support.topics import create_topic, make_anew

pytestmark = [pytest.mark.kafka, pytest.mark.needs("topic ids"), pytest.mark.timeout(120)]


def test_an_offset_of_the_former_topic_is_not_committed(kafka: KafkaCluster, handler: Handler) -> None:
    group = f"g-{uuid.uuid4().hex[:8]}"
    with KafkaClient(kafka.hosts, handler=handler) as client, KafkaClient(kafka.hosts) as other:
        anew, stays = create_topic(client), create_topic(client)
        keys = [TopicPartition(topic.name, 0) for topic in (anew, stays)]
        former = client.cluster.topic_id(anew.name)
        offsets = GroupOffsets(client.cluster, group, backoff_ms=50, max_retries=10)
        ids = {key: client.cluster.topic_id(key.topic) for key in keys}
        offsets.consumed_in = lambda key, _: ids.get(key)
        assert offsets.commit(dict.fromkeys(keys, 5)) == dict.fromkeys(keys, 5)
        assert [one.offset for one in offsets.fetch(keys).values()] == [5, 5]
        make_anew(other, anew.name)
        if not kafka_since(4, 2):  # the broker does not tell
            client.cluster.update([anew.name])
        with pytest.raises(OffsetsNotCommitted) as caught:
            offsets.commit(dict.fromkeys(keys, 7))
        cause = caught.value.__cause__
        assert isinstance(cause, TopicRecreatedError)
        assert (cause.old_id, cause.new_id, cause.topic) == (former, client.cluster.topic_id(anew.name), anew.name)
        assert caught.value.failures == {keys[0]: 7}
        found = GroupOffsets(other.cluster, group, backoff_ms=50, max_retries=10).fetch(keys)
        assert [one.offset for one in found.values()] == [-1, 7]
        ids[keys[0]] = client.cluster.topic_id(anew.name)  # consumed anew
        offsets.commit({keys[0]: 1})
        assert [one.offset for one in offsets.fetch(keys).values()] == [1, 7]


def test_a_consumer_commits_what_it_has_read_of_the_new_topic_alone(kafka: KafkaCluster, handler: Handler) -> None:
    """A commit after the topic was made anew skipped as many messages of the new one."""
    group = f"g-{uuid.uuid4().hex[:8]}"
    with KafkaClient(kafka.hosts, handler=handler) as client, KafkaClient(kafka.hosts) as other:
        topic = create_topic(client)
        key = TopicPartition(topic.name, 0)
        with topic.get_producer(linger_ms=0) as producer:
            for _ in range(9):
                producer.produce(b"former")
        seen = GroupOffsets(other.cluster, group, backoff_ms=50, max_retries=10)
        with topic.get_simple_consumer(group, consumer_timeout_ms=20_000, auto_commit_enable=False) as consumer:
            for _ in range(9):
                assert consumer.consume() is not None
            consumer.commit_offsets()
            assert seen.fetch([key])[key].offset == 9
            make_anew(other, topic.name)
            if not kafka_since(4, 1):
                client.cluster.update([topic.name])
            with suppress(OffsetsNotCommitted):  # unless the consumer has gone to the new topic already
                consumer.commit_offsets()
            other.cluster.update([topic.name])
            assert seen.fetch([key])[key].offset <= 0
            with other.topics[topic.name].get_producer(linger_ms=0) as producer:
                for _ in range(3):
                    producer.produce(b"new")
            found = [consumer.consume() for _ in range(3)]
            assert [message.value for message in found if message is not None] == [b"new"] * 3
            consumer.commit_offsets()
        assert seen.fetch([key])[key].offset == 3
