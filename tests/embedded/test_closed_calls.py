"""Calls of closed consumers and producers: each raises the error that says so, and no loop over a closed consumer spins."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.aio import KafkaClient as AioClient
from pykafka.common import TopicPartition
from pykafka.exceptions import ConsumerStoppedException, ProducerStoppedException

pytestmark = [pytest.mark.timeout(120), pytest.mark.on_asyncio]

TOPIC = "closed"
#: A member on the embedded cluster waits for the sessions of those that have left: each test has groups of its own.
numbers = itertools.count()
KEY = TopicPartition(TOPIC, 0)
#: Public members of a closed KafkaConsumer that raise nothing: they ask nobody, or end what has ended.
QUIET = {"assignment", "paused", "subscription", "wakeup", "close", "make", "metrics", "health", "explain"}
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    "pause": [(), (KEY,)],
    "resume": [(), (KEY,)],
    "seek": [(KEY, 1)],
    "seek_to_beginning": [(), (KEY,)],
    "seek_to_end": [(), (KEY,)],
    "seek_to_time": [(1,), (1, KEY)],
    "position": [(KEY,)],
    "lag": [(), (KEY,)],
    "committed": [(), (KEY,)],
    "explain_start": [(), (KEY,)],
    "subscribe": [(TOPIC,)],
    "assign": [([KEY],), ([],)],
    "commit": [(), ({KEY: 1},)],
    "commit_async": [(), ({KEY: 1},)],
    "parallel": [(print,)],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, 1)
        with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            for _ in range(10):
                producer.produce(TOPIC, b"value")
        yield cluster


@pytest.fixture
def client(concurrency: Callable[[], dict[str, Any]], cluster: EmbeddedCluster) -> Iterator[KafkaClient]:
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        yield client


@pytest.mark.parametrize("group", [None, "members"])
def test_each_call_of_a_closed_consumer(client: KafkaClient, group: str | None) -> None:
    consumer = client.consumer(TOPIC, group=group and f"{group}{next(numbers)}")
    assert consumer.one(30) is not None
    consumer.close()
    names = {name for name in dir(consumer) if not name.startswith("_") and callable(getattr(consumer, name, None))}
    for name in sorted(names - QUIET):
        for arguments in ARGUMENTS.get(name, [()]):
            with pytest.raises(ConsumerStoppedException):
                found = getattr(consumer, name)(*arguments)
                if name == "batches":
                    next(found)
    for name in QUIET - {"make"}:
        getattr(consumer, name)()
    with pytest.raises(ConsumerStoppedException):
        next(iter(consumer))


def test_an_iteration_ends_at_close_and_the_next_one_raises(client: KafkaClient) -> None:
    handler = client.cluster.handler
    loops: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "records": (client.consumer(TOPIC), iter),
        "batches": (client.consumer(TOPIC), lambda consumer: consumer.batches()),
        "shared": (client.share_consumer(group="shared"), iter),
    }
    for name, (consumer, begin) in loops.items():
        ended: list[str] = []

        def loop(consumer: Any = consumer, begin: Any = begin, ended: list[str] = ended) -> None:
            try:
                while True:
                    for _ in begin(consumer):
                        continue
                    ended.append("without an error")
            except ConsumerStoppedException:
                ended.append("by an error")

        worker = handler.spawn(loop)
        handler.sleep(0.3)
        assert ended == [], name
        consumer.close()
        assert worker.join(10), name
        assert ended == ["without an error", "by an error"], name


def test_a_listener_may_call_what_it_likes_during_close(client: KafkaClient) -> None:
    seen: list[Any] = []

    class Listener:
        def on_revoked(self, partitions: Any) -> None:
            consumer.pause(KEY)
            consumer.resume()
            consumer.seek(KEY, 4)
            consumer.commit()
            seen.append((consumer.position(KEY), consumer.lag(), consumer.committed()[KEY]))

    consumer = client.consumer(TOPIC, group=f"listening{next(numbers)}", listener=Listener())
    assert consumer.one(30) is not None
    consumer.close()
    assert seen == [(4, {KEY: 6}, (4, ""))]


def test_each_call_of_a_closed_producer(client: KafkaClient) -> None:
    consumer = client.consumer(group="transacting")
    plain, transacting = client.producer(), client.producer(transactional_id="closed")
    block = transacting.transaction()
    for producer in (plain, transacting):
        producer.close()
        with pytest.raises(ProducerStoppedException):
            producer.produce(TOPIC, b"v")
        with pytest.raises(ProducerStoppedException):
            producer.produce_many(TOPIC, [b"v"])
        with pytest.raises(ProducerStoppedException):
            producer.partitions_for(TOPIC)
        assert producer.purge() == 0
        producer.flush()
        producer.close()
    calls: list[Callable[[], object]] = [
        transacting.init_transactions,
        transacting.begin_transaction,
        transacting.commit_transaction,
        transacting.abort_transaction,
        lambda: transacting.send_offsets(consumer),
        transacting.transaction,
        block.__enter__,
    ]
    for step in calls:
        with pytest.raises(ProducerStoppedException):
            step()
    consumer.close()


def test_a_stopped_balanced_consumer(client: KafkaClient) -> None:
    topic = client.topics[TOPIC]
    consumer = topic.get_balanced_consumer(
        consumer_group=b"balanced%d" % next(numbers), managed=True, consumer_timeout_ms=30_000
    )
    assert consumer.consume() is not None
    consumer.stop()
    calls: list[Callable[[], object]] = [
        consumer.consume,
        consumer.consume_batch,
        consumer.commit_offsets,
        lambda: consumer.commit_offsets([(topic.partitions[0], 1)]),
        consumer.reset_offsets,
        lambda: next(iter(consumer)),
    ]
    for call in calls:
        with pytest.raises(ConsumerStoppedException):
            call()


def test_a_closed_share_consumer(client: KafkaClient) -> None:
    consumer = client.share_consumer(group="shared")
    consumer.close()
    calls: list[Callable[[], object]] = [
        lambda: consumer.subscribe(TOPIC),
        consumer.one,
        consumer.poll,
        consumer.commit,
        consumer.commit_async,
        lambda: next(iter(consumer)),
    ]
    for call in calls:
        with pytest.raises(ConsumerStoppedException):
            call()
    consumer.close()


def test_iterations_of_coroutines(cluster: EmbeddedCluster) -> None:
    async def again(consumer: Any) -> list[str]:
        ended = []
        try:
            while True:
                async for _ in consumer:
                    continue
                ended.append("without an error")
        except ConsumerStoppedException:
            ended.append("by an error")
        try:
            async for _ in getattr(consumer, "batches", consumer.__aiter__)():
                continue
        except ConsumerStoppedException:
            ended.append("by an error")
        return ended

    async def main() -> None:
        async with AioClient(cluster.hosts) as client:
            async with client.consumer(TOPIC) as plain, client.share_consumer(group="shared") as shared:
                tasks = [asyncio.create_task(again(consumer)) for consumer in (plain, shared)]
                await asyncio.sleep(0.3)
                await plain.close()
                await shared.close()
                for task in tasks:
                    assert await asyncio.wait_for(task, 10) == ["without an error", "by an error", "by an error"]
                for call in (plain.lag, plain.pause, plain.committed, plain.explain_start):
                    with pytest.raises(ConsumerStoppedException):
                        await call()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["gevent", "threads"])
def test_a_natural_loop_ends_with_the_process(cluster: EmbeddedCluster, kind: str) -> None:
    start = {
        "gevent": "__import__('gevent').spawn",
        "threads": "lambda work: threading.Thread(target=work, daemon=True).start()",
    }
    program = f"""
        if {kind == "gevent"}:
            from gevent import monkey
            monkey.patch_all()
        import threading, time
        from pykafka import KafkaClient

        client = KafkaClient({cluster.hosts!r}, use_greenlets={kind == "gevent"})
        consumer = client.consumer({TOPIC!r})
        read = []

        def work():
            while True:
                for record in consumer:
                    read.append(record)

        ({start[kind]})(work)
        while len(read) < 10:
            time.sleep(0.02)
        print("main has ended")  # the client is closed at exit
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "main has ended" in run.stdout, run.stderr
    assert run.returncode == 0, run.stderr
