"""pykafka.aio under attack: deadlines and cancellations anywhere, failing TaskGroups, thousands of tasks, greenlets beside."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from pykafka import EmbeddedCluster
from pykafka import KafkaClient as BlockingClient
from pykafka.aio import KafkaClient, KafkaConsumer
from pykafka.exceptions import ProducerStoppedException
from tests.support import loops

Run = Callable[[Callable[[KafkaClient, str], Coroutine[Any, Any, None]]], None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield a cluster of one broker."""
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture(params=loops.KINDS)
def run(request: pytest.FixtureRequest, cluster: EmbeddedCluster) -> Run:
    """Return what gives a client and a topic to a coroutine on a new loop; no task and no complaint may be left."""

    def call(attack: Callable[[KafkaClient, str], Coroutine[Any, Any, None]]) -> None:
        said: list[dict[str, Any]] = []

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, what: said.append(what))
            async with KafkaClient(cluster.hosts) as client:
                await attack(client, f"attacked-{uuid.uuid4().hex}")
            await asyncio.sleep(0.01)
            gc.collect()
            assert asyncio.all_tasks() - {asyncio.current_task()} == set()

        with asyncio.Runner(loop_factory=lambda: loops.new_loop(request.param)) as runner:
            runner.run(main())
        assert said == []

    return call


async def read(consumer: KafkaConsumer[Any, Any], count: int) -> Counter[bytes | None]:
    """Return the values of so many records."""
    found: Counter[bytes | None] = Counter()
    async with asyncio.timeout(30):
        while found.total() < count:
            found.update(record.value for record in await consumer.poll(timeout=1))
    return found


def test_thousands_of_tasks_each_await_a_delivery(run: Run) -> None:
    """Their topic does not exist yet."""

    async def attack(client: KafkaClient, topic: str) -> None:
        async with client.producer() as producer:

            async def send(number: int) -> tuple[int, int]:
                delivery = await (await producer.produce(topic, b"%d" % number))
                return delivery.partition, delivery.offset

            places = await asyncio.gather(*(send(number) for number in range(3000)))
            assert len(set(places)) == 3000

    run(attack)


def test_deadlines_around_each_call_lose_no_message(run: Run) -> None:
    """Each message with a delivery is in the log once; what is read under deadlines is read once."""

    async def attack(client: KafkaClient, topic: str) -> None:
        taken = []
        producer = await client.producer(buffer_memory=3000, linger_ms=1)
        for number in range(600):
            try:
                async with asyncio.timeout(0.0002 * (number % 5)):
                    taken.append(await producer.produce(topic, b"%d" % number + b"x" * 100))
                    if number % 3 == 0:
                        await taken[-1]
                    elif number % 50 == 1:
                        await producer.flush()
            except TimeoutError:
                continue
        await producer.close()
        assert [delivery.error for delivery in taken if not delivery.done or delivery.error] == []
        async with client.consumer(topic, group=topic, auto_offset_reset="earliest") as consumer:
            found: Counter[bytes | None] = Counter()
            until = time.monotonic() + 30
            while found.total() < len(taken) and time.monotonic() < until:
                try:
                    async with asyncio.timeout(0.002 if found else 5):
                        found.update(record.value for record in await consumer.poll(7))
                        await consumer.commit()
                except TimeoutError:
                    continue
            assert found == Counter(delivery.value for delivery in taken)
            try:
                async with asyncio.timeout(0.0001):
                    await consumer.close()
            except TimeoutError:
                await consumer.close()

    run(attack)


def test_a_deadline_around_close_loses_no_message(run: Run, cluster: EmbeddedCluster) -> None:
    async def attack(client: KafkaClient, topic: str) -> None:
        cut = 0
        for turn in range(20):
            producer = await client.producer(linger_ms=5)
            taken = [await producer.produce(topic, b"%d" % number) for number in range(30)]
            try:
                async with asyncio.timeout(0.0005 * (turn % 8)):
                    await producer.close()
            except TimeoutError:
                cut += 1
                with pytest.raises(ProducerStoppedException):
                    await producer.produce(topic, b"too late")
            await producer.close()
            assert [delivery.error for delivery in taken if not delivery.done or delivery.error] == []
        assert cut

    run(attack)


def test_closing_the_client_delivers_what_a_cut_off_close_has_left(run: Run) -> None:
    taken: list[Any] = []

    async def attack(client: KafkaClient, topic: str) -> None:
        producer = await client.producer(linger_ms=5)
        await (await producer.produce(topic, b"x"))
        taken.extend([await producer.produce(topic, b"%d" % number) for number in range(30)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await producer.close()
        taken.append(producer)  # which keeps it

    run(attack)
    taken.pop()
    assert len(taken) == 30
    assert [delivery.error for delivery in taken if not delivery.done or delivery.error] == []


def test_a_task_that_fails_ends_its_group_and_loses_nothing(run: Run) -> None:
    async def attack(client: KafkaClient, topic: str) -> None:
        taken: list[Any] = []

        async def send(producer: Any, number: int) -> None:
            for turn in range(100):
                taken.append(await producer.produce(topic, b"%d-%d" % (number, turn)))
                if turn == 50 and number == 3:
                    raise ZeroDivisionError
                if turn % 10 == 0:
                    await taken[-1]

        with pytest.raises(ExceptionGroup, match="unhandled errors"):
            async with client.producer() as producer, asyncio.TaskGroup() as group:
                for number in range(5):
                    group.create_task(send(producer, number))
        assert all(delivery.done and delivery.error is None for delivery in taken)
        async with client.consumer(topic) as consumer:
            assert await read(consumer, len(taken)) == Counter(delivery.value for delivery in taken)

    run(attack)


@pytest.mark.parametrize("hook", ["on_assigned", "on_revoked"])
def test_a_cancellation_in_a_listener_costs_no_record(run: Run, hook: str) -> None:
    class Listener:
        def __init__(self) -> None:
            self.times: Counter[str] = Counter()

        async def _told(self, name: str) -> None:
            self.times[name] += 1
            if name == hook and self.times[name] == 1:
                await asyncio.sleep(30)

        async def on_assigned(self, partitions: Any) -> None:
            await self._told("on_assigned")

        async def on_revoked(self, partitions: Any) -> None:
            await self._told("on_revoked")

    async def attack(client: KafkaClient, topic: str) -> None:
        async with client.producer() as producer:
            await producer.produce_many(topic, [b"%d" % number for number in range(100)])
        listener = Listener()
        consumer = await client.consumer(topic, group=topic, auto_offset_reset="earliest", listener=listener)
        if hook == "on_assigned":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    while True:
                        await consumer.poll(timeout=None)
        assert (await read(consumer, 100)).total() == 100
        if hook == "on_revoked":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await consumer.close()
        await consumer.close()
        assert listener.times[hook] >= 1

    run(attack)


def test_greenlets_in_another_thread_of_the_same_process(run: Run, cluster: EmbeddedCluster) -> None:
    found: Counter[bytes | None] = Counter()

    def on_greenlets(topic: str) -> None:
        with BlockingClient(cluster.hosts, use_greenlets=True) as client:
            with client.producer() as producer:
                for number in range(500):
                    producer.produce(topic, b"g%d" % number)
            with client.consumer(topic, consumer_timeout_ms=20_000) as consumer:
                for record in consumer:
                    found[record.value] += 1
                    if found.total() == 1000:
                        break

    async def attack(client: KafkaClient, topic: str) -> None:
        async with client.producer() as producer:
            await (await producer.produce(topic, b"a0"))
            thread = threading.Thread(target=on_greenlets, args=[topic])
            thread.start()
            for number in range(1, 500):
                await producer.produce(topic, b"a%d" % number)
            await producer.flush()
        async with client.consumer(topic) as consumer:
            ours = await read(consumer, 1000)
        await asyncio.to_thread(thread.join, 30)
        assert ours == found == Counter(b"%s%d" % (kind, number) for kind in (b"a", b"g") for number in range(500))

    run(attack)
