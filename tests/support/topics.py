"""Topics for tests, created by request, each with a unique name."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping

from kazoo.client import KazooClient

from pykafka import KafkaClient
from pykafka.broker import Broker
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.exceptions import TopicAlreadyExists, error_for
from pykafka.protocol import wire
from pykafka.protocol.message import Message
from pykafka.topic import Topic
from tests.brokers.cluster import ZOOKEEPERS
from tests.support.waiting import until


def some_broker(client: KafkaClient) -> Broker:
    """Return the controller, or another broker; wait for one if the cluster names none.

    A broker that was paused for longer than its session comes back fenced: for a moment the cluster has no brokers.
    """

    def named() -> bool:
        if not client.brokers:
            client.update_cluster()
        return bool(client.brokers)

    until(client.cluster.handler, named)
    return client.cluster.controller_broker or next(iter(client.brokers.values()))


def create_topic(
    client: KafkaClient,
    partitions: int = 1,
    replicas: int = 1,
    config: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Topic:
    """Create a topic and return it, once every partition has a leader.

    :param name: by default one that nobody else has
    """
    name = name or f"t-{uuid.uuid4().hex[:12]}"
    broker = some_broker(client)
    if wire.CreateTopicsRequest.api_key not in broker.api_ranges():
        _create_in_zookeeper(client, name, partitions, replicas, config or {})
        client.cluster.wait_for_topic(name)
        return client.topics[name]
    wanted = wire.CreateTopicsRequest.Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[wire.CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in (config or {}).items()],
    )
    response = broker.call(wire.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
    for topic in response.topics:
        if topic.error_code:
            raise error_for(topic.error_code, topic=name)
    client.cluster.wait_for_topic(name)
    return client.topics[name]


def wait_in_sync(client: KafkaClient, seconds: float = 90) -> None:
    """Wait until all replicas of all partitions are in sync, those of internal topics too.

    :param seconds: after which the test fails
    """
    deadline = time.monotonic() + seconds
    while True:
        late = [
            f"{topic.name}/{part.partition_index}"
            for topic in client.cluster.ask_metadata(None).topics
            for part in topic.partitions
            if part.leader_id < 0 or set(part.isr_nodes) != set(part.replica_nodes)
        ]
        if not late:
            return
        assert time.monotonic() < deadline, f"replicas of {late} are not in sync"
        time.sleep(0.1)


def delete_topic(client: KafkaClient, name: str) -> None:
    """Delete a topic."""
    broker = some_broker(client)
    response = broker.call(wire.DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), ceiling=5)
    for topic in response.responses:
        if topic.error_code:
            raise error_for(topic.error_code, topic=name)


def make_anew(client: KafkaClient, name: str, partitions: int = 1) -> Topic:
    """Delete a topic and create another one of its name, as soon as the cluster lets the name go."""
    delete_topic(client, name)
    while True:
        try:
            return create_topic(client, partitions, name=name)
        except TopicAlreadyExists:  # it is being deleted
            client.cluster.handler.sleep(0.05)


def _create_in_zookeeper(
    client: KafkaClient, name: str, partitions: int, replicas: int, config: Mapping[str, str]
) -> None:
    brokers = sorted(client.brokers)
    assignment = {
        str(id_): [brokers[(id_ + turn) % len(brokers)] for turn in range(replicas)] for id_ in range(partitions)
    }
    zookeeper = KazooClient(ZOOKEEPERS[next(iter(client.brokers.values())).port])
    zookeeper.start(timeout=10)
    try:
        zookeeper.create(
            f"/config/topics/{name}", json.dumps({"version": 1, "config": dict(config)}).encode(), makepath=True
        )
        zookeeper.create(f"/brokers/topics/{name}", json.dumps({"version": 1, "partitions": assignment}).encode())
    finally:
        zookeeper.stop()
        zookeeper.close()


def take_messages(consumer: SimpleConsumer, count: int) -> list[Message]:
    """Consume so many messages, or those that come within a minute."""
    found: list[Message] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume_batch()
    return found


def take(consumer: SimpleConsumer, count: int) -> list[bytes | None]:
    """Consume as `take_messages`; return the values."""
    return [message.value for message in take_messages(consumer, count)]
