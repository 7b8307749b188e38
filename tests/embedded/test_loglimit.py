"""The log while brokers are down: a handful of lines, however many workers retry."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.handlers import Handler

log = logging.getLogger(__name__)


def _produce(client: KafkaClient, number: int) -> Callable[[], Any]:
    producer = client.topics[f"t{number}"].get_producer(linger_ms=1, pending_timeout_ms=0)
    producer.produce(b"x")
    producer.flush(20_000)
    return lambda: producer.produce(b"x")


def _consume(client: KafkaClient, number: int) -> Callable[[], Any]:
    consumer = client.topics[f"t{number}"].get_simple_consumer(consumer_timeout_ms=100, consumer_group=f"g{number}")
    consumer.consume()
    return consumer.consume


def _consume_together(client: KafkaClient, number: int) -> Callable[[], Any]:
    consumer = client.topics[f"t{number}"].get_balanced_consumer(f"g{number}", managed=True, consumer_timeout_ms=100)
    consumer.consume()
    return consumer.consume


@pytest.mark.parametrize("start", [_produce, _consume, _consume_together])
@pytest.mark.later("gevent-_consume_together", "gevent-_produce")
def test_brokers_that_are_down_are_told_in_a_handful_of_lines(
    handler: Handler, start: Callable[[KafkaClient, int], Callable[[], Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """Five producers and three brokers that were down for ten seconds made 2,970 warnings."""
    with EmbeddedCluster(brokers=3, topics={f"t{number}": 3 for number in range(5)}) as cluster:
        client = KafkaClient(cluster.hosts, handler=handler, socket_timeout_ms=1000)
        works = [start(client, number) for number in range(3)]
        caplog.clear()
        for broker in (1, 2, 3):
            cluster.broker_down(broker)
        end = handler.now() + 1.2
        while handler.now() < end:
            for work in works:
                try:
                    work()
                except Exception:  # noqa: BLE001 - what is raised is for others to test
                    log.debug("raised")
            handler.sleep(0.01)
        told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        for broker in (1, 2, 3):
            cluster.broker_up(broker)
        try:
            client.close()
        except Exception:  # noqa: BLE001 - nor is this about what was not delivered
            log.debug("not all was delivered")
    assert told
    assert len(told) <= 12, "\n".join(told)
