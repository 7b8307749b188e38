"""`produce()` and `__anext__()` of pykafka.aio: steps, which have to behave as the coroutines that they stand in for."""

from __future__ import annotations

import ast
import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pykafka import EmbeddedCluster
from pykafka.aio import KafkaClient, KafkaProducer, steps
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


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    """Create a topic of one partition; return its name."""
    name = f"steps-{uuid4().hex}"
    cluster.create_topic(name, 1)
    return name


@asynccontextmanager
async def producing(cluster: EmbeddedCluster, topic: str) -> AsyncIterator[KafkaProducer]:
    async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
        await (await producer.produce(topic, b"the first"))
        yield producer


def test_tasks_groups_and_gather_take_it_as_a_coroutine(cluster: EmbeddedCluster, topic: str, run: Run) -> None:
    async def main() -> None:
        async with producing(cluster, topic) as producer:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(producer.produce(topic, b"%d" % number)) for number in range(3)]
            made = [task.result() for task in tasks]
            made += await asyncio.gather(*(producer.produce(topic, b"%d" % number) for number in range(3, 6)))
            made.append(await asyncio.wait_for(producer.produce(topic, b"6"), 10))
            step = producer.produce(topic, b"7")
            assert asyncio.iscoroutine(step)
            made.append(await step)
            for delivery in made:
                await delivery
            assert [delivery.value for delivery in made] == [b"%d" % number for number in range(8)]
            assert [delivery.offset for delivery in made] == list(range(1, 9))

    run(main())


def test_nothing_is_taken_before_the_await(cluster: EmbeddedCluster, topic: str, run: Run) -> None:
    async def main() -> None:
        async with producing(cluster, topic) as producer:
            task = asyncio.create_task(producer.produce(topic, b"cancelled before its first step"))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            step = producer.produce(topic, b"closed")
            step.close()
            with pytest.raises(RuntimeError, match="already awaited"):
                await step
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                forgotten = producer.produce(topic, b"forgotten")
                del forgotten
                gc.collect()
            assert [str(one.message) for one in caught] == ["KafkaProducer.produce() was never awaited"]
            delivery = await producer.produce(topic, b"the second")
            await delivery
            assert delivery.offset == 1

    run(main())


def test_a_step_is_awaited_once(cluster: EmbeddedCluster, topic: str, run: Run) -> None:
    async def main() -> None:
        async with producing(cluster, topic) as producer:
            step = producer.produce(topic, b"x")
            await step
            with pytest.raises(RuntimeError, match="already awaited"):
                await step
            wrong: Any = 5
            with pytest.raises(TypeError, match="value must be bytes"):
                await producer.produce(topic, wrong)
            with pytest.raises(TypeError, match="on_delivery must be a function"):
                await producer.produce(topic, b"x", on_delivery=wrong)

    run(main())


def test_a_step_that_waits_can_be_cancelled_and_loses_nothing(cluster: EmbeddedCluster, topic: str, run: Run) -> None:
    async def main() -> None:
        async with producing(cluster, topic) as producer, KafkaClient(cluster.hosts) as client:
            async with client.consumer(topic, consumer_timeout_ms=10_000) as consumer:
                assert (await anext(consumer)).value == b"the first"
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await anext(consumer)
                waiting = asyncio.ensure_future(anext(consumer))
                await asyncio.sleep(0.05)
                await producer.produce(topic, b"the second")
                assert (await waiting).value == b"the second"

    run(main())


def test_steps_driven_by_hand_end_as_coroutines_do(cluster: EmbeddedCluster, topic: str, run: Run) -> None:
    async def main() -> None:
        async with producing(cluster, topic) as producer:
            with pytest.raises(StopIteration) as ended:
                producer.produce(topic, b"x").send(None)
            assert ended.value.value.value == b"x"
            with pytest.raises(KeyError):
                producer.produce(topic, b"y").throw(KeyError())

    run(main())


def test_stub_and_classes_have_the_same_members() -> None:
    tree = ast.parse(Path(steps.__file__).with_name("steps.pyi").read_text())
    for declared in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names = {node.name for node in declared.body if isinstance(node, ast.FunctionDef)}
        assert all(hasattr(getattr(steps, declared.name), name) for name in names)
