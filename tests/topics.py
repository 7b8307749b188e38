"""Topics for tests: each with a name of its own, made by request."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pykafka import KafkaClient
from pykafka.exceptions import error_for
from pykafka.protocol.messages import CreateTopicsRequest
from pykafka.topic import Topic


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
    wanted = CreateTopicsRequest.Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in (config or {}).items()],
    )
    broker = client.cluster.controller_broker or next(iter(client.brokers.values()))
    response = broker.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
    for topic in response.topics:
        if topic.error_code:
            raise error_for(topic.error_code, topic=name)
    client.cluster.wait_for_topic(name)
    return client.topics[name]
