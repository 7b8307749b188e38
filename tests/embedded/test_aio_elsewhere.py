"""pykafka.aio: what belongs to one event loop is refused by name in another one, and works on in its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from pykafka import EmbeddedCluster, TopicPartition
from pykafka.aio import KafkaClient
from tests.support import loops

PARTITION = TopicPartition("home", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield a cluster of one broker."""
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


class Home:
    """A client with all it may have, on a loop in a thread of its own."""

    def __init__(self, hosts: str, kind: str) -> None:
        self.loop = loops.new_loop(kind)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        self.do(self._open(hosts))

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.get_loop().run_forever()

    async def _open(self, hosts: str) -> None:
        self.client = await KafkaClient(hosts)
        self.topic = await self.client.topics["home"]
        self.producer = await self.client.producer(linger_ms=60_000)
        self.documented = await self.topic.get_producer(linger_ms=1)
        await (await self.producer.produce("home", b"first"))
        self.delivery = await self.producer.produce("home", b"second")
        self.consumer = await self.client.consumer("home", auto_offset_reset="earliest")

    def do(self, work: Any) -> Any:
        """Run a coroutine on the loop of this client."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def end(self) -> None:
        """Close the client and end its loop."""
        self.do(self.client.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(30)


CALLS: dict[str, Callable[[Home], Awaitable[Any]]] = {
    "produce": lambda home: home.producer.produce("home", b"x"),
    "produce with headers": lambda home: home.producer.produce("home", b"x", headers={"a": b"b"}),
    "produce to another topic": lambda home: home.producer.produce("elsewhere", b"x"),
    "documented produce": lambda home: home.documented.produce(b"x"),
    "delivery": lambda home: home.delivery,
    "flush": lambda home: home.producer.flush(),
    "poll": lambda home: home.consumer.poll(1, 0),
    "seek": lambda home: home.consumer.seek(PARTITION, 0),
    "close of a consumer": lambda home: home.consumer.close(),
    "close of a client": lambda home: home.client.close(),
    "admin": lambda home: home.client.admin.list_topics(),
    "topics": lambda home: home.client.topics["home"],
    "a new producer": lambda home: opened(home.client.producer()),
    "a documented consumer": lambda home: opened(home.topic.get_simple_consumer()),
}


async def opened(what: Awaitable[Any]) -> Any:
    return await what


@pytest.mark.parametrize("kind", loops.KINDS)
def test_each_call_from_another_loop_is_refused_and_changes_nothing(cluster: EmbeddedCluster, kind: str) -> None:
    home = Home(cluster.hosts, kind)
    told: dict[str, str] = {}

    async def elsewhere() -> None:
        for name, call in CALLS.items():
            try:
                async with asyncio.timeout(10):
                    await call(home)
            except Exception as error:  # noqa: BLE001 - each kind is told
                told[name] = f"{type(error).__name__}: {error}"
            else:
                told[name] = "no error"

    try:
        with asyncio.Runner(loop_factory=lambda: loops.new_loop(kind)) as runner:
            runner.run(elsewhere())
        assert {
            name: said for name, said in told.items() if "RuntimeError: this client belongs to another" not in said
        } == {}

        async def still_works() -> set[bytes | None]:
            await home.producer.flush()
            await home.delivery
            found: set[bytes | None] = set()
            while b"second" not in found:
                found |= {record.value for record in await home.consumer.poll(timeout=10)}
            return found

        assert home.do(still_works()) == {b"first", b"second"}
    finally:
        home.end()
