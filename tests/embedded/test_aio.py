"""pykafka.aio: the same clients with `await`, on asyncio and uvloop, plain and in debug mode."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from pykafka import EmbeddedCluster, TopicPartition
from pykafka.aio import KafkaClient, Producer, bridged
from pykafka.exceptions import ConsumerStoppedException, KafkaException, WouldBlockError
from pykafka.protocol.message import Message
from pykafka.serialization import JsonSerializer
from tests.support import loops

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield a cluster of one broker."""
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture(params=[("asyncio", True), ("uvloop", False)], ids=lambda one: one[0])
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a coroutine on a new loop of each kind; asyncio's in debug mode."""
    kind, debug = request.param
    return partial(loops.run_coroutine, kind, debug=debug)


async def fill(client: KafkaClient, topic: str, count: int) -> None:
    async with (await client.topics[topic]).get_producer(linger_ms=5) as producer:
        for number in range(count):
            await producer.produce(b"%d" % number)


def test_produce_and_consume(cluster: EmbeddedCluster, run: Run) -> None:
    # of its own: records of the same values that another loop has left may come before these
    name = f"plain-{uuid.uuid4().hex[:8]}"

    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            await fill(client, name, 1000)
            topic = await client.topics[name]
            assert topic == await client.topics[name]
            assert topic.name == name
            found = []
            async with topic.get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
                async for message in consumer:
                    found.append(message.value)
                    if len(found) == 1000:
                        break
            assert Counter(found) == Counter(b"%d" % number for number in range(1000))
            assert name in await client.topics.keys()
            assert name in [known async for known in client.topics]
            assert await client.topics.get("none-of-these") is None
            assert sum(found.offset[0] for found in (await topic.latest_available_offsets()).values()) % 1000 == 0

    run(main())


def test_sync_produce_headers_and_callbacks(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        told: list[bytes | None] = []

        async def tell(error: KafkaException | None, message: Message) -> None:
            await asyncio.sleep(0.001)
            assert error is None
            told.append(message.value)

        async with KafkaClient(cluster.hosts) as client:
            topic = await client.topics["sync"]
            producer = await topic.get_sync_producer(linger_ms=0)
            message = await producer.produce(b"one", b"key", headers={"name": b"value"})
            assert message.offset >= 0
            await producer.stop()
            async with topic.get_producer(linger_ms=0, on_delivery=tell) as other:
                await other.produce(b"two")
                await other.produce(b"three", on_delivery=lambda error, message: told.append(b"by itself"))
            assert sorted(told, key=str) == sorted([b"two", b"by itself"], key=str)

    run(main())


def test_admin_and_errors(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            await client.topics["plain"]
        async with KafkaClient(cluster.hosts, allow_auto_create_topics=False) as client:
            assert "plain" in [topic.name for topic in await client.admin.list_topics()]
            with pytest.raises(KeyError):
                await client.topics["absent"]
            await client.update_cluster()
            assert client.brokers
            topic = await client.topics["plain"]
            with pytest.raises(WouldBlockError, match=r"pykafka\.aio"):
                topic.partitions[0].latest_available_offset()
            assert await bridged(topic.partitions[0].latest_available_offset) >= 0

    run(main())


def test_a_client_that_is_not_connected(cluster: EmbeddedCluster, run: Run) -> None:
    client = KafkaClient(cluster.hosts)
    assert "not connected" in repr(client)
    with pytest.raises(RuntimeError, match="async with"):
        client.brokers  # noqa: B018
    with pytest.raises(AttributeError):
        client.nothing  # noqa: B018

    async def main() -> None:
        with pytest.raises(KafkaException):
            await KafkaClient("127.0.0.1:1")
        assert await client is client
        assert client.brokers
        await client.close()
        configured = KafkaClient.from_config({"bootstrap.servers": cluster.hosts})
        async with configured:
            assert configured.brokers

    run(main())


def test_a_client_of_any_topics(cluster: EmbeddedCluster, run: Run) -> None:
    # of its own: records of the same values that another loop has left may come before these
    first, second = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("first", "second"))

    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            await fill(client, first, 50)
            await fill(client, second, 50)
            async with client.consumer(first, second, consumer_timeout_ms=5000) as consumer:
                record = await consumer.one(10)
                assert record is not None
                found = [record.value]
                async for record in consumer:
                    found.append(record.value)
                    if len(found) == 60:
                        break
                while len(found) < 100:
                    found += [record.value for record in await consumer.poll(7, 10)]
                assert Counter(found) == Counter([b"%d" % number for number in range(50)] * 2)
                assert {one.topic for one in await consumer.assignment()} == {first, second}
                await consumer.seek(TopicPartition(first, 0), 0)
                async for batch in consumer.batches(10):
                    assert batch[0].topic == first
                    break
                reading = asyncio.create_task(anext(consumer.__aiter__()))
            with pytest.raises((StopAsyncIteration, ConsumerStoppedException)):
                await reading
                while True:
                    await anext(consumer.__aiter__())

    run(main())


def test_a_producer_of_any_topics(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        told: list[Any] = []

        async def tell(error: KafkaException | None, delivery: Any) -> None:
            await asyncio.sleep(0)
            told.append((error, delivery.value))

        async with KafkaClient(cluster.hosts) as client:
            async with client.producer() as producer:
                one = await producer.produce("any-1", b"one", key=b"key", headers={"a": b"b"})
                two = await producer.produce("any-2", b"two", on_delivery=tell)
                assert await one is one
                assert one.offset >= 0
                assert producer.room() > 0
                assert await producer.produce_many("any-1", [b"x"] * 10) == 10
                await producer.flush()
                assert two.partition in await producer.partitions_for("any-2")
                with pytest.raises(WouldBlockError):
                    (await producer.produce("any-1", b"late")).get()
            assert told == [(None, b"two")]
            async with client.producer(value_serializer=JsonSerializer(), buffer_memory=2000, linger_ms=1) as small:
                made = [await small.produce("any-json", {"number": number}) for number in range(500)]
                assert [(await delivery).value for delivery in made[-3:]] == [
                    {"number": number} for number in (497, 498, 499)
                ]
                task = asyncio.create_task(small.produce("any-json", {"text": "x" * 5000}))
                with pytest.raises(KafkaException):  # larger than the memory
                    await task

    run(main())


def test_parallel_work_of_coroutines(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            topic = f"parallel-{uuid.uuid4()}"
            await fill(client, topic, 100)
            seen: list[bytes | None] = []
            most = [0, 0]

            async def handle(record: Any) -> None:
                most[0] += 1
                most[1] = max(most)
                await asyncio.sleep(0.002)
                most[0] -= 1
                seen.append(record.value)

            async with client.consumer(topic) as consumer, consumer.parallel(handle, workers=20, order=None) as work:
                while len(seen) < 100:
                    await asyncio.sleep(0.01)
                assert await work.stop(10)
            assert len(set(seen)) == 100
            assert most[1] > 1

    run(main())


def test_a_listener_of_coroutines(cluster: EmbeddedCluster, run: Run) -> None:
    class Listener:
        def __init__(self) -> None:
            self.told: list[str] = []

        async def on_assigned(self, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            self.told.append("assigned")

        def on_revoked(self, partitions: list[TopicPartition]) -> None:
            self.told.append("revoked")

    async def main() -> None:
        from pykafka.aio.base import sync
        from pykafka.handlers.bridge import bridged

        listener = Listener()
        blocking: Any = sync(listener)
        await bridged(blocking.on_assigned, [])
        await bridged(blocking.on_revoked, [])
        assert listener.told == ["assigned", "revoked"]
        assert not hasattr(blocking, "on_lost")

    run(main())


def test_a_group_and_its_members(cluster: EmbeddedCluster, run: Run, request: pytest.FixtureRequest) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            await fill(client, "grouped", 100)
            topic = await client.topics["grouped"]
            name = f"group-{uuid.uuid4()}"
            async with topic.get_balanced_consumer(name, managed=True, consumer_timeout_ms=20_000) as consumer:
                values = set()
                async for message in consumer:
                    values.add(message.value)
                    if len(values) == 100:
                        break
                await consumer.commit_offsets()

    run(main())


def test_cancellations_lose_no_message(cluster: EmbeddedCluster, run: Run) -> None:
    count = 3000

    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            topic = await client.topics[f"cancelled-{uuid.uuid4()}"]
            found: list[bytes | None] = []

            async def read(consumer: Any) -> None:
                async for message in consumer:
                    found.append(message.value)
                    if len(found) % 7 == 0:
                        await asyncio.sleep(0)

            async with topic.get_simple_consumer() as consumer, topic.get_producer(linger_ms=1) as producer:
                for number in range(count):
                    await producer.produce(b"%d" % number)
                    if number % 10 == 0:
                        reader = asyncio.create_task(read(consumer))
                        await asyncio.sleep(0.0005)
                        reader.cancel()
                        await asyncio.wait([reader])
                while len(found) < count:
                    try:
                        async with asyncio.timeout(0.002):
                            found.append((await anext(consumer)).value)
                    except TimeoutError:
                        continue
            assert Counter(found) == Counter(b"%d" % number for number in range(count))

    run(main())


def test_a_busy_producer_lets_the_loop_turn(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        gaps: list[float] = []

        async def tick() -> None:
            loop = asyncio.get_running_loop()
            last = loop.time()
            while True:
                await asyncio.sleep(0.001)
                now = loop.time()
                gaps.append(now - last)
                last = now

        async with KafkaClient(cluster.hosts) as client:
            topic = await client.topics["busy"]
            async with topic.get_producer(linger_ms=5) as producer:
                ticking = asyncio.create_task(tick())
                for _ in range(200_000):
                    await producer.produce(b"x" * 100)
                ticking.cancel()
        gaps.sort()
        assert len(gaps) > 10
        assert gaps[len(gaps) // 2] < 0.2  # 2 ms, where nothing else runs

    run(main())


def test_clients_in_several_threads(cluster: EmbeddedCluster) -> None:
    done: list[int] = []

    async def main(number: int) -> None:
        async with KafkaClient(cluster.hosts) as client:
            name = f"thread-{number}"
            await fill(client, name, 200)
            async with (await client.topics[name]).get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
                for _ in range(200):
                    assert await consumer.consume() is not None
        done.append(number)

    threads = [threading.Thread(target=lambda number=number: asyncio.run(main(number))) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(done) == [0, 1, 2, 3]


def test_task_groups_and_one_producer_for_all(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async def send(producer: Producer, number: int) -> None:
            message = await producer.produce(b"%d" % number)
            assert message.offset >= 0

        async with KafkaClient(cluster.hosts) as client:
            async with (await client.topics["tasks"]).get_sync_producer(linger_ms=1) as producer:
                async with asyncio.TaskGroup() as group:
                    for number in range(100):
                        group.create_task(send(producer, number))

    run(main())


OPEN = """
import asyncio, os, signal, sys
from pykafka.aio import KafkaClient
from tests.support.loops import new_loop

async def main():
    asyncio.get_running_loop().slow_callback_duration = 5  # a busy machine is no fault of the client's
    client = await KafkaClient({hosts!r})
    topic = await client.topics["open"]
    producer = await topic.get_producer(linger_ms=5)
    await producer.produce(b"one")
    consumer = await topic.get_simple_consumer()
    {end}

with asyncio.Runner(loop_factory=lambda: new_loop({kind!r}), debug=True) as runner:
    runner.run(main())
print("ended", flush=True)
"""
CTRL_C = """
    async with client, producer:
        asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGINT)
        async for message in consumer:
            await producer.produce(b"more")
            await asyncio.sleep(0.01)
"""


@pytest.mark.parametrize("kind", loops.KINDS)
@pytest.mark.parametrize(("end", "said"), [("", "ended\n"), (CTRL_C, "")], ids=["left-open", "ctrl-c"])
def test_loops_end_with_clients_that_are_open(cluster: EmbeddedCluster, kind: str, end: str, said: str) -> None:
    """Without a warning, and at once."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OPEN.format(hosts=cluster.hosts, end=end, kind=kind)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == said
    if end:
        assert done.stderr.strip().endswith("KeyboardInterrupt")
        assert "never awaited" not in done.stderr
        assert "destroyed" not in done.stderr
    else:
        assert done.stderr == ""


@pytest.mark.filterwarnings("error")
def test_what_is_not_awaited_opens_nothing(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            topic = await client.topics["unopened"]
            tasks = len(asyncio.all_tasks())
            topic.get_producer()
            topic.get_simple_consumer()
            assert len(asyncio.all_tasks()) == tasks

    with warnings.catch_warnings():
        run(main())
