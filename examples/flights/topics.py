"""Read a complete topic, from its first message to its last, on threads. Nothing writes to it any more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pykafka import KafkaClient, TopicPartition
from pykafka.admin import ListedOffset, OffsetSpec

#: Timeout of the next message (ms).
CONSUMER_TIMEOUT_MS = 10_000


class TopicIncompleteError(RuntimeError):
    """Raised when messages do not arrive although the broker reports them."""


def offsets(client: KafkaClient, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """Return the offset of the first message, and that of the next one, of each partition of a topic."""
    partitions = [(topic, partition.partition) for partition in client.admin.describe_topics(topic)[topic].partitions]
    places = (OffsetSpec.earliest(), OffsetSpec.latest())
    first, following = (client.admin.list_offsets(dict.fromkeys(partitions, place)) for place in places)
    return by_partition(first), by_partition(following)


def by_partition(listed: Mapping[TopicPartition, ListedOffset]) -> dict[int, int]:
    """Return the offsets that brokers have listed, by partition."""
    return {place.partition: found.offset for place, found in listed.items() if found.offset is not None}


def read_json(client: KafkaClient, name: str) -> Iterator[dict[str, Any]]:
    """Yield the values of all messages of a topic.

    :raises TopicIncompleteError: the next message did not come in time
    """
    earliest, latest = offsets(client, name)
    expected = sum(latest.values()) - sum(earliest.values())
    if not expected:
        return
    received = 0
    with client.consumer(name, consumer_timeout_ms=CONSUMER_TIMEOUT_MS) as consumer:
        for record in consumer:
            yield json.loads(record.value or b"null")
            received += 1
            if received == expected:
                return
    raise TopicIncompleteError(
        f"topic {name} holds {expected:,} messages, and after {received:,} none came for "
        f"{CONSUMER_TIMEOUT_MS / 1000:.0f} s: look at the brokers' log, and run again"
    )
