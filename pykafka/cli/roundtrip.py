"""A round trip of one message through a topic."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykafka.cli.changes import create_topic
from pykafka.cli.diagnosis import FAILED, OK, Finding
from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from pykafka.client import KafkaClient

_KEY = b"kafka-tools doctor"


def round_trip(client: KafkaClient, hosts: str, topic: str, create: bool, timeout_ms: int) -> Iterator[Finding]:
    """Write a message to a topic and read it again; yield the finding of each step.

    :param hosts: the addresses of the cluster
    :param create: create a missing topic (one partition, one replica); otherwise a missing topic is a failure
    :param timeout_ms: timeout of each step
    """
    handler = client.cluster.handler
    started = handler.now()
    step = "Topic"

    def told(result: str, detail: str) -> Finding:
        return Finding(hosts, step, result, detail, round((handler.now() - started) * 1000))

    try:
        if client.topics.get(topic) is None:
            if not create:
                yield told(FAILED, f"there is no topic {topic}; name an existing one, or create it with --create")
                return
            step = "Create"
            create_topic(client, topic, 1, 1, {}, {}, timeout_ms)
            yield told(OK, f"created topic {topic}; delete_topic removes it")
        step, started = "Produce", handler.now()
        found = client.topics[topic]
        value = f"{_KEY.decode()} {uuid.uuid4()}".encode()
        with found.get_sync_producer(linger_ms=0, ack_timeout_ms=timeout_ms) as producer:
            sent = producer.produce(value, partition_key=_KEY)
        yield told(OK, f"{topic}, partition {sent.partition_id}, offset {sent.offset}")
        step, started = "Fetch", handler.now()
        partition = found.partitions[sent.partition_id]
        consumer = found.get_simple_consumer(partitions=[partition], consumer_timeout_ms=timeout_ms, auto_start=False)
        consumer.seek(partition, sent.offset)
        with consumer:
            message = consumer.consume()
        if message is None or message.value != value:
            yield told(FAILED, "the message did not come back; the partition's leader may have changed: try again")
            return
        yield told(OK, f"the message came back with offset {message.offset}")
    except KafkaException as error:
        yield told(FAILED, str(error))
