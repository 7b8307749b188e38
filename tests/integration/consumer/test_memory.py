"""How much memory a consumer takes: bounded by its byte budget, and no more after many rounds than after a few."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.common import CompressionType, OffsetType
from tests.support.inside import engine_of
from tests.support.leftovers import Belongings, left_since
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

MIB = 1024 * 1024
BUDGET = 16 * MIB
SIZE = 256 * 1024


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.later("threads-1", "greenlets-0")
def test_a_slow_reader_stays_within_its_budget(client: KafkaClient, codec: int) -> None:
    # Compressed, all of it fits into a single answer.
    count = 240 if codec == CompressionType.NONE else 800
    topic = create_topic(client, 2)
    value = bytes(SIZE)
    with topic.get_producer(linger_ms=5, compression=codec, max_queued_messages=20) as producer:
        for _ in range(count):
            producer.produce(value)
    handler = client.cluster.handler
    gc.collect()
    before = most = resident()
    with topic.get_simple_consumer(
        queued_max_bytes=BUDGET, queued_max_messages=10**6, consumer_timeout_ms=30_000
    ) as consumer:
        for seen in range(count):
            message = consumer.consume()
            assert message is not None
            assert message.value == value
            del message
            if seen % (count // 4) == 0:
                handler.sleep(0.5)  # what could be fetched in this time is more than the budget
            most = max(most, resident())
            assert engine_of(consumer).buffers.nbytes < BUDGET + 4 * MIB
    assert most - before < BUDGET + 32 * MIB


@pytest.mark.needs("whole")
def test_a_budget_below_a_message_lets_one_through_at_a_time(client: KafkaClient) -> None:
    topic = create_topic(client, 2)
    with topic.get_producer(linger_ms=0) as producer:
        for _ in range(20):
            producer.produce(bytes(SIZE))
    with topic.get_simple_consumer(queued_max_bytes=1000, consumer_timeout_ms=30_000) as consumer:
        for _ in range(20):
            assert consumer.consume() is not None
            assert engine_of(consumer).buffers.nbytes < 2 * MIB


@pytest.mark.later("greenlets")
def test_two_hundred_consumers_share_the_workers_and_requests_of_one(
    client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(client, 3)
    handler = client.cluster.handler
    latest: dict[str, Any] = {"auto_offset_reset": OffsetType.LATEST, "reset_offset_on_start": True}
    first = topic.get_simple_consumer(**latest)
    handler.sleep(0.3)
    threads, workers = threading.active_count(), fetchers()
    consumers = [topic.get_simple_consumer(**latest) for _ in range(200)]
    handler.sleep(0.3)
    assert (threading.active_count(), fetchers()) == (threads, workers)
    worker = first._partitions[first.partitions[0]].fetcher
    assert {owned.fetcher for one in consumers for owned in one._partitions.values()} == {worker}
    sent: list[Any] = []
    send = worker._broker.send

    def counted(*args: Any, **kwargs: Any) -> Any:
        sent.append(args)
        return send(*args, **kwargs)

    monkeypatch.setattr(worker._broker, "send", counted)
    handler.sleep(2.0)
    assert 1 < len(sent) < 30  # each waits for 100 ms at the broker
    for one in [first, *consumers]:
        one.stop()


def fetchers() -> int:
    """Count the fetch workers that live, threads and greenlets."""
    greenlets = [one for one in gc.get_objects() if isinstance(one, gevent.Greenlet) and not one.dead]
    names = [one.name for one in [*threading.enumerate(), *greenlets]]
    return sum(name.startswith("pykafka.Fetcher") for name in names)


@pytest.mark.later("threads")
def test_nothing_grows_with_consumers_that_come_and_go(client: KafkaClient) -> None:
    topic = create_topic(client, 3)
    with topic.get_producer(linger_ms=0) as producer:
        for number in range(300):
            producer.produce(b"%d" % number)

    def rounds(count: int) -> None:
        for _ in range(count):
            with topic.get_simple_consumer(consumer_timeout_ms=30_000) as consumer:
                assert len(consumer.consume_batch(10)) > 0
                assert consumer.consume_arrow(10) is not None
            # one that is collected leaves its name in metrics, with what was counted under it, to the next one
            del consumer
            gc.collect()

    rounds(5)
    before, belongings, objects = resident(), Belongings(), len(gc.get_objects())
    rounds(30)
    assert len(gc.get_objects()) - objects < 300
    assert resident() - before < 8 * MIB
    assert not left_since(belongings, processes=False)
