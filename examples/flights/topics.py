"""Read a complete topic, from its first message to its last, on threads. Nothing writes to it any more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pykafka import KafkaClient

#: Timeout of the next message (ms).
CONSUMER_TIMEOUT_MS = 10_000


class TopicIncompleteError(RuntimeError):
    """Raised when messages do not arrive although the broker reports them."""


def read_json(client: KafkaClient, name: str) -> Iterator[dict[str, Any]]:
    """Yield the values of all messages of a topic.

    :raises TopicIncompleteError: the next message did not come in time
    """
    topic = client.topics[name]
    ends = {id_: found.offset[0] for id_, found in topic.latest_available_offsets().items() if found.offset}
    starts = {id_: found.offset[0] for id_, found in topic.earliest_available_offsets().items() if found.offset}
    expected = sum(ends.values()) - sum(starts.values())
    if not expected:
        return
    received = 0
    with topic.get_simple_consumer(consumer_timeout_ms=CONSUMER_TIMEOUT_MS) as consumer:
        for message in consumer:
            yield json.loads(message.value or b"null")
            received += 1
            if received == expected:
                return
    raise TopicIncompleteError(
        f"topic {name} holds {expected:,} messages, and after {received:,} none came for "
        f"{CONSUMER_TIMEOUT_MS / 1000:.0f} s: look at the brokers' log, and run again"
    )
