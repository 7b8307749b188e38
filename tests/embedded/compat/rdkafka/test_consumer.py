"""Consumers on librdkafka that are interrupted: what was taken out of it is handed out, or is not counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import OffsetResetNeededError
from pykafka.topic import Topic
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

COUNT = 3000


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1, {"t": 3}) as cluster:
        yield cluster


def fill(topic: Topic, count: int) -> None:
    with topic.get_producer(linger_ms=5, max_queued_messages=count + 1) as producer:
        for number in range(count):
            producer.produce(b"%d" % number)


def one_by_one(consumer: Any) -> list[int]:
    message = consumer.consume()
    return [] if message is None else [int(message.value)]


def in_batches(consumer: Any) -> list[int]:
    return [int(message.value) for message in consumer.consume_batch(100)]


def committed(topic: Topic, group: str) -> int:
    with topic.get_simple_consumer(group, auto_start=False, reset_offset_on_fetch=False) as consumer:
        return sum(max(found.offset, 0) for _, found in consumer.fetch_offsets())


@pytest.mark.parametrize("take", [one_by_one, in_batches])
def test_a_timeout_in_the_middle_of_a_call_loses_nothing(
    cluster: EmbeddedCluster, take: Callable[[Any], list[int]]
) -> None:
    """A greenlet killed inside the thread pool lost the messages in flight there: 4 seen, 593 committed."""
    with KafkaClient(cluster.hosts, use_greenlets=True) as client:
        topic = client.topics["t"]
        fill(topic, COUNT)
        consumer = topic.get_simple_consumer(
            "g", use_rdkafka=True, consumer_timeout_ms=5000, auto_commit_enable=True, auto_commit_interval_ms=50
        )
        handler: Any = client.cluster.handler
        real, calls = handler.offload, [0]

        def offload(*args: Any) -> Any:
            calls[0] += 1
            if calls[0] % 2:
                found = real(*args)
                if calls[0] % 4 == 1:
                    raise gevent.Timeout  # the pool was done just then
                return found
            with gevent.Timeout(0.001):  # it goes on without the greenlet
                return real(*args)

        handler.offload = offload
        seen: list[int] = []
        ended = 0
        try:
            while len(seen) < COUNT:
                try:
                    found = take(consumer)
                except gevent.Timeout:
                    ended += 1
                    continue
                assert found, f"{len(seen)} seen"
                seen += found
        finally:
            handler.offload = real
        assert ended
        assert sorted(seen) == list(range(COUNT))
        assert sum(offset + 1 for offset in consumer.held_offsets.values()) == COUNT
        consumer.stop()
        assert committed(topic, "g") == COUNT


def test_calls_that_were_ended_do_not_fill_the_thread_pool(
    cluster: EmbeddedCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each of them went on in a thread of the pool, of which there are ten, and one was called after the consumer's end."""
    with KafkaClient(cluster.hosts, use_greenlets=True) as client:
        topic = client.topics["t"]
        handler = client.cluster.handler
        native = handler.native
        consumer = topic.get_simple_consumer(use_rdkafka=True, consumer_timeout_ms=5000)
        for _ in range(60):
            with gevent.Timeout(0.002, False):
                consumer.consume()
            before = native.now()
            handler.offload(native.now)
            assert native.now() - before < 1
        fill(topic, 5)
        assert len([consumer.consume() for _ in range(5)]) == 5
        with gevent.Timeout(0.002, False):
            consumer.consume()
        consumer.stop()
        handler.sleep(0.3)
    assert "Consumer closed" not in capfd.readouterr().err


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
def test_who_moves_while_another_consumes_has_the_last_word(cluster: EmbeddedCluster, greenlets: bool) -> None:
    """A message returned during the seek undid it: the partition stayed at its old position."""
    with KafkaClient(cluster.hosts, use_greenlets=greenlets) as client:
        topic = client.topics["t"]
        fill(topic, COUNT)
        handler = client.cluster.handler
        with topic.get_simple_consumer(
            use_rdkafka=True, partitions=[topic.partitions[0]], consumer_timeout_ms=300
        ) as consumer:
            offsets: list[int] = []

            done: list[None] = []

            def consume() -> None:
                while not done:
                    message = consumer.consume()
                    if message is not None:
                        offsets.append(message.offset)
                    handler.sleep()

            worker = handler.spawn(consume)
            for _ in range(5):
                handler.sleep(0.05)
                count = len(offsets)
                consumer.seek(topic.partitions[0], 3)
                moved_at = len(offsets)
                until(handler, lambda wanted=moved_at + 2: len(offsets) >= wanted)  # type: ignore[misc]
                assert 3 in offsets[count : moved_at + 2]
            done.append(None)
            assert worker.join(60)


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
@pytest.mark.later("threads")
def test_where_nobody_says_where_to_begin_it_asks(cluster: EmbeddedCluster, greenlets: bool) -> None:
    with KafkaClient(cluster.hosts, use_greenlets=greenlets) as client:
        topic = client.topics["t"]
        fill(topic, 30)
        options: dict[str, Any] = {
            "partitions": [topic.partitions[0]],
            "auto_offset_reset": "none",
            "use_rdkafka": True,
        }
        with topic.get_simple_consumer("none", consumer_timeout_ms=10_000, **options) as consumer:
            for _ in range(2):
                with pytest.raises(OffsetResetNeededError) as caught:
                    consumer.consume()
                assert (caught.value.partition, caught.value.offset, caught.value.earliest) == (0, None, 0)
            consumer.seek(topic.partitions[0], 5)
            message = consumer.consume()
            assert message is not None
            assert message.offset == 5
            consumer.seek(topic.partitions[0], 5000)
            with pytest.raises(OffsetResetNeededError) as caught:
                consumer.consume()
            assert (caught.value.partition, caught.value.offset, caught.value.earliest) == (0, 5000, 0)
            consumer.seek(topic.partitions[0], 2)
            message = consumer.consume()
            assert message is not None
            assert message.offset == 2


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
@pytest.mark.later("threads")
def test_a_seek_answers_errors_that_no_call_has_raised_yet(cluster: EmbeddedCluster, greenlets: bool) -> None:
    with KafkaClient(cluster.hosts, use_greenlets=greenlets) as client:
        topic = client.topics["t"]
        fill(topic, 30)
        with topic.get_simple_consumer(
            "none", consumer_timeout_ms=10_000, auto_offset_reset="none", use_rdkafka=True
        ) as consumer:
            with pytest.raises(OffsetResetNeededError):  # the one of all partitions that comes first
                consumer.consume()
            for partition in topic.partitions.values():
                consumer.seek(partition, 0)
            assert one_by_one(consumer)
