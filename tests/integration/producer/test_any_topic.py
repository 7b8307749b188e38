"""`client.producer()` on real brokers: many topics, topics that come and go, leaders that are killed, forks."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest

from pykafka import Delivery, KafkaClient, MessagesNotDelivered
from pykafka.exceptions import TopicRecreatedError
from pykafka.handlers import Handler
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic, delete_topic, make_anew
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(200)]


def contents(client: KafkaClient, topic: str) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    """Return (key, value) of each message, by partition."""
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
    with client.topics[topic].get_simple_consumer(consumer_timeout_ms=1500) as consumer:
        for message in consumer:
            found.setdefault(message.partition_id, []).append((message.partition_key, message.value))
    return found


@pytest.mark.later("greenlets-none", "threads-zstd")
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_deliveries_tell_is_true(client: KafkaClient, compression: str) -> None:
    names = [create_topic(client, partitions=3).name for _ in range(4)]
    with client.producer(compression=compression) as producer:
        made = [
            producer.produce(names[n % 4], b"%d" % n, key=b"%d" % (n % 7) if n % 2 else None, headers={"n": b"%d" % n})
            for n in range(4000)
        ]
        producer.flush()
    for name in names:
        found = contents(client, name)
        own = [one for one in made if one.topic == name]
        assert sum(map(len, found.values())) == len(own)
        assert all(found[one.partition][one.offset] == (one.key, one.value) for one in own)


def test_a_deleted_topic_is_created_by_the_next_message(kafka: KafkaCluster, handler: Handler) -> None:
    with KafkaClient(kafka.hosts, handler=handler) as client, KafkaClient(kafka.hosts) as other:
        topic = f"t-{uuid.uuid4().hex[:12]}"
        with client.producer(delivery_timeout_ms=60_000) as producer:
            assert producer.produce(topic, b"1").get(30).offset == 0
            delete_topic(other, topic)
            other.update_cluster()
            until(handler, lambda: _gone(client, topic), 30)
            assert producer.produce(topic, b"2").get(30).offset == 0
        assert contents(client, topic) == {0: [(None, b"2")]}


def _gone(client: KafkaClient, topic: str) -> bool:
    client.cluster.update([topic])
    return client.cluster.topic_metadata(topic) is None


@pytest.mark.needs("topic ids")
def test_a_topic_made_anew_fails_its_own_messages_alone(kafka: KafkaCluster, handler: Handler) -> None:
    with KafkaClient(kafka.hosts, handler=handler) as client, KafkaClient(kafka.hosts) as other:
        gone, kept = create_topic(client).name, create_topic(client).name
        producer = client.producer(on_topic_recreated="fail", linger_ms=100)
        for topic in (gone, kept):
            producer.produce(topic, b"before").get(30)
        make_anew(other, gone)
        client.cluster.update([gone, kept])
        failed, stored = producer.produce(gone, b"after"), producer.produce(kept, b"after")
        with pytest.raises(TopicRecreatedError):
            failed.get(30)
        assert stored.get(30).offset == 1
        producer.close()


@pytest.mark.later("gevent")
def test_a_leader_is_killed_under_many_topics(kafka3: KafkaCluster, handler: Handler) -> None:
    """Each message of each topic is stored once, in order."""
    with KafkaClient(kafka3.hosts, handler=handler) as client:
        names = [create_topic(client, partitions=2, replicas=3).name for _ in range(5)]
        leader = client.topics[names[0]].partitions[0].leader
        assert leader is not None
        made: list[Delivery] = []
        with client.producer(linger_ms=1) as producer:
            try:
                for number in range(3000):
                    made.append(producer.produce(names[number % 5], b"%d" % number, partition=number % 2))
                    if number == 500:
                        kafka3.kill(leader.id)
                    if number % 10 == 0:
                        handler.sleep(0.001)
                producer.flush()
            finally:
                kafka3.start(leader.id)
        for name in names:
            found = contents(client, name)
            for partition in (0, 1):
                wanted = [(None, one.value) for one in made if one.topic == name and one.partition == partition]
                assert found.get(partition, []) == wanted


FORKING = """
import os, sys
hosts, topic, mode = sys.argv[1:]
if mode == "greenlets":
    from gevent.os import fork, waitpid
else:
    from os import fork, waitpid
from pykafka import KafkaClient
from pykafka.exceptions import ProducerStoppedException
client = KafkaClient(hosts, use_greenlets=mode == "greenlets", socket_timeout_ms=10_000, buffer_memory=10_000_000)
producer = client.producer(linger_ms=60_000)
producer.produce(topic, b"first").get(20)
parents = producer.produce(topic, b"queued by the parent")
child = fork()
if child == 0:
    assert producer.produce(topic, b"by the child").get(20).offset > 0
    try:
        parents.get(1)
    except ProducerStoppedException as error:
        assert "forked" in str(error), error
    else:
        raise AssertionError("a message of the parent")
    producer.close()
    client.close()
    os._exit(0)
_, status = waitpid(child, 0)
producer.produce(topic, b"by the parent")
producer.close()
assert parents.offset > 0
client.close()
sys.exit(status)
"""


@pytest.mark.parametrize("mode", ["threads", "greenlets"])
def test_parent_and_child_go_on_each_with_their_own(kafka: KafkaCluster, mode: str) -> None:
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client).name
        done = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, kafka.hosts, topic, mode],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        found = sorted(value or b"" for _, value in contents(client, topic)[0])
    assert found == [b"by the child", b"by the parent", b"first", b"queued by the parent"]


@pytest.mark.later("threads")
def test_without_brokers_close_tells_what_was_not_delivered(kafka3: KafkaCluster, handler: Handler) -> None:
    with KafkaClient(kafka3.hosts, handler=handler) as client:
        topic = create_topic(client).name
        producer = client.producer(delivery_timeout_ms=500)
        producer.produce(topic, b"1").get(20)
        leader = client.topics[topic].partitions[0].leader
        assert leader is not None
        kafka3.kill(leader.id)
        try:
            delivery = producer.produce(topic, b"2")
            with pytest.raises(MessagesNotDelivered) as caught:
                producer.close()
            assert [one.value for one, _ in caught.value.failures] == [b"2"]
            assert delivery.error is not None
        finally:
            kafka3.start(leader.id)
