"""What somebody who is new to the client tries first, on both handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient, Topic
from pykafka.handlers import Handler
from tests.waiting import until

SOON = {"consumer_timeout_ms": 10_000}


@pytest.fixture
def topic(handler: Handler) -> Iterator[Topic]:
    with (
        EmbeddedCluster(brokers=1, topics={"greetings": 1}) as cluster,
        KafkaClient(cluster.hosts, handler=handler) as client,
    ):
        topic = client.topics["greetings"]
        with topic.get_sync_producer() as producer:
            producer.produce(b"old")
        yield topic


CONSUMERS: dict[str, Callable[..., Any]] = {
    "simple": lambda topic, **options: topic.get_simple_consumer(**SOON, **options),
    "group": lambda topic, **options: topic.get_simple_consumer("simple", **SOON, **options),
    "managed": lambda topic, **options: topic.get_balanced_consumer(
        "managed", managed=True, heartbeat_interval_ms=100, **SOON, **options
    ),
    "rdkafka": lambda topic, **options: topic.get_simple_consumer(use_rdkafka=True, **SOON, **options),
}


@pytest.mark.parametrize("kind", list(CONSUMERS))
@pytest.mark.parametrize(("reset", "first"), [("earliest", b"old"), ("latest", b"new")])
def test_where_to_begin_by_name(handler: Handler, topic: Topic, kind: str, reset: str, first: bytes) -> None:
    found: list[bytes | None] = []

    def receive() -> bool:
        producer.produce(b"new")  # again and again: "latest" is where the end is when the consumer gets there
        message = consumer.consume(block=False)
        if message is not None:
            found.append(message.value)
        return bool(found)

    with CONSUMERS[kind](topic, auto_offset_reset=reset) as consumer, topic.get_sync_producer() as producer:
        until(handler, receive)
    assert found == [first]


def test_another_name_is_refused_with_those_that_there_are(topic: Topic) -> None:
    """A checker refuses it, too: without the comment, mypy fails here."""
    with pytest.raises(ValueError, match='"earliest".*"latest".*"none", not \'EARLIEST\''):
        topic.get_simple_consumer(auto_offset_reset="EARLIEST")  # type: ignore[arg-type]
