"""Share consumers on event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pykafka.aio import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.testing import FakeCluster
from tests.support import loops

pytestmark = pytest.mark.timeout(60)

TOPIC = "jobs"
COUNT = 5000


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=1, topics={TOPIC: 1}) as found:
        yield found


@pytest.mark.parametrize("kind", loops.KINDS)
def test_an_iteration_over_what_is_buffered_lets_the_loop_turn(cluster: FakeCluster, kind: str) -> None:
    """It kept the loop until the buffer was empty, however long the application took for each record."""

    async def main() -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with (
            KafkaClient(cluster.hosts) as client,
            client.share_consumer(TOPIC, group="workers") as consumer,
            client.producer(linger_ms=500, batch_size=1_000_000) as producer,
        ):
            while not await consumer.assignment():
                await consumer.poll(timeout=0.05)
            for _ in range(COUNT):
                await producer.produce(TOPIC, b"x")
            await producer.flush()
            await consumer.one()
            while (left := consumer._inner._engine.buffered) < COUNT // 2:
                await consumer.one()
            turning = asyncio.create_task(turn())
            await asyncio.sleep(0)
            for _ in range(left):
                await anext(consumer)
            turning.cancel()
        assert turns > 5

    loops.run_coroutine(kind, main())


@pytest.mark.parametrize("name", ["pykafka.ShareMember", "pykafka.ShareSession"])
def test_each_call_says_that_a_worker_has_ended(cluster: FakeCluster, name: str) -> None:
    """One call raised the error of a session, and none that of the heartbeats; all others waited for nothing."""

    async def main() -> None:
        async with (
            KafkaClient(cluster.hosts) as client,
            client.producer() as producer,
            client.share_consumer(TOPIC, group="workers") as consumer,
        ):
            while not await consumer.assignment():
                await consumer.poll(timeout=0.05)
            await (await producer.produce(TOPIC, b"x"))
            consumer._inner._engine.set_wanting(True)
            while not consumer._inner._engine.buffered:
                await asyncio.sleep(0.01)
            ended = {task for task in asyncio.all_tasks() if task.get_name().startswith(name)}
            for task in ended:
                task.cancel()
            await asyncio.wait(ended)
            if name.endswith("Member"):
                assert len(await consumer.poll(timeout=5)) == 1
            for timeout in (5, 5, 0):
                with pytest.raises(KafkaException, match="worker .* ended by CancelledError"):
                    await consumer.poll(timeout=timeout)

    loops.run_coroutine("asyncio", main())
