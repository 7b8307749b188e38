"""Commits of one consumer are made in the order of the calls, whatever makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.aio import KafkaClient as AioClient
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import KafkaException, OffsetsNotCommitted, ResponseTimeoutError
from tests.embedded.consumer.test_commit_calls import committed, group
from tests.embedded.consumer.test_kafkaconsumer import cluster, drain, fill, make
from tests.support.inside import engine_of, waiting_commits
from tests.support.waiting import CutOff, cut_off, until

__all__ = ["cluster", "group", "make"]
pytestmark = [pytest.mark.timeout(120), pytest.mark.on_asyncio]


class Held:
    """The commits of all groups, each of which waits until the test opens the gate.

    :param handler: of the client
    :param held: the offset whose commit waits
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, handler: Any, held: int) -> None:
        self.gate = handler.Event()
        self.begun = handler.Event()
        #: The offsets, in the order in which the coordinator was asked.
        self.made: list[int] = []
        former = GroupOffsets.commit

        def commit(group: GroupOffsets, offsets: Any, *args: Any, **kwargs: Any) -> Any:
            found: Mapping[TopicPartition, int] = offsets() if callable(offsets) else offsets
            if held in found.values():
                self.begun.set()
                assert self.gate.wait(30)
            self.made += found.values()
            return former(group, offsets, *args, **kwargs)

        monkeypatch.setattr(GroupOffsets, "commit", commit)


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch, client: KafkaClient) -> Callable[[int], Held]:
    """Return what makes commits of an offset wait."""
    return lambda offset: Held(monkeypatch, client.cluster.handler, offset)


def test_a_commit_comes_after_those_of_commit_async(client: KafkaClient, make: Any, group: str) -> None:
    key = TopicPartition(make(), 0)
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        for number in range(1, 41, 2):
            consumer.commit_async({key: number})
            consumer.commit({key: number + 1})
            found = consumer.committed()[key]
            assert found is not None
            assert found.offset == number + 1
        consumer.commit_async({key: 70})
        consumer.commit_async({key: 60})
        consumer.commit({key: 50})
    assert committed(client, group, key) == (50, "")


def test_a_commit_waits_for_attempts_of_the_one_before(
    client: KafkaClient, make: Any, group: str, cluster: EmbeddedCluster
) -> None:
    key = TopicPartition(make(), 0)
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        consumer.commit({key: 1})
        cluster.inject_errors("OffsetCommit", *["COORDINATOR_LOAD_IN_PROGRESS"] * 2)
        told: list[Any] = []
        consumer.commit_async({key: 7}, lambda error, _: told.append(error))
        consumer.commit({key: 3})
        assert committed(client, group, key) == (3, "")
    assert told == [None]


def test_a_commit_whose_turn_does_not_come_is_not_made(
    client: KafkaClient, make: Any, group: str, hold: Callable[[int], Held]
) -> None:
    key = TopicPartition(make(), 0)
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        held = hold(7)
        consumer.commit_async({key: 7})
        with pytest.raises(OffsetsNotCommitted, match="before this one") as info:
            consumer.commit({key: 8}, timeout=0.1)
        assert info.value.failures == {key: 8}
        assert isinstance(info.value.__cause__, ResponseTimeoutError)
        held.gate.set()
        consumer.commit({key: 9})
        assert held.made == [7, 9]


def test_an_interrupted_commit_holds_up_no_other(
    client: KafkaClient, make: Any, group: str, hold: Callable[[int], Held]
) -> None:
    key = TopicPartition(make(), 0)
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        held = hold(7)
        consumer.commit_async({key: 7})
        with pytest.raises(CutOff), cut_off(client.cluster.handler, 0.2):
            consumer.commit({key: 8})
        consumer.commit_async({key: 9})
        held.gate.set()
        consumer.commit({key: 10})
        with pytest.raises(CutOff), cut_off(client.cluster.handler, 0.2):
            held.gate.clear()
            consumer.commit({key: 7})  # while it is being made
        held.gate.set()
        consumer.commit({key: 11})
        assert [offset for offset in held.made if offset != 7] == [9, 10, 11]


def test_commits_of_several_workers(client: KafkaClient, make: Any, group: str, hold: Callable[[int], Held]) -> None:
    handler = client.cluster.handler
    key = TopicPartition(make(), 0)
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        held = hold(7)
        consumer.commit_async({key: 7})
        assert held.begun.wait(10)
        workers = []
        for offset in range(20, 30):
            workers.append(handler.spawn(consumer.commit, {key: offset}))
            until(handler, lambda: waiting_commits(engine_of(consumer).commits.order) == len(workers) + 1)
        held.gate.set()
        for worker in workers:
            assert worker.join(10)
        assert held.made == [7, *range(20, 30)]
    assert committed(client, group, key) == (29, "")


def test_a_callback_may_commit(client: KafkaClient, make: Any, group: str) -> None:
    key = TopicPartition(make(), 0)
    seen: list[Any] = []

    class Interceptor:
        def on_commit(self, offsets: Any) -> None:
            seen.append(offsets[key].offset)
            if seen == [1]:
                consumer.commit({key: 5})

    def then_commit(error: KafkaException | None, _: Any) -> None:
        assert error is None
        consumer.commit({key: 3})

    with client.consumer(group=group, interceptors=[Interceptor()]) as consumer:
        consumer.assign([key])
        consumer.commit_async({key: 1}, then_commit)
        consumer.commit_async({key: 2})
        until(client.cluster.handler, lambda: len(seen) == 4)
    assert committed(client, group, key) == (3, "")
    assert sorted(seen) == [1, 2, 3, 5]


def test_a_callback_that_waits_holds_up_no_commit(client: KafkaClient, make: Any, group: str) -> None:
    key = TopicPartition(make(), 0)
    handler = client.cluster.handler
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        lock, told = handler.Lock(), handler.Event()

        def wait(error: KafkaException | None, _: Any) -> None:
            with lock:
                told.set()

        with lock:
            consumer.commit_async({key: 1}, wait)
            consumer.commit_async({key: 2}, wait)
            consumer.commit({key: 3}, timeout=10)
            assert not told.is_set()
    assert told.is_set()  # `close()` waits for callbacks
    assert committed(client, group, key) == (3, "")


def test_a_coroutine_that_is_called_may_commit(cluster: EmbeddedCluster, make: Any, group: str) -> None:
    key = TopicPartition(make(), 0)

    async def main() -> None:
        async with AioClient(cluster.hosts) as client:
            async with client.consumer(group=group) as consumer:
                await consumer.assign([key])
                done = asyncio.Event()

                async def then_commit(error: KafkaException | None, _: Any) -> None:
                    await asyncio.create_task(consumer.commit({key: 3}, timeout=10))
                    done.set()

                await consumer.commit_async({key: 1}, then_commit)
                await consumer.commit_async({key: 2})
                await asyncio.wait_for(done.wait(), 20)
                found = (await consumer.committed())[key]
                assert found is not None
                assert found.offset == 3

    asyncio.run(main())


def test_close_commits_last(client: KafkaClient, make: Any, group: str, hold: Callable[[int], Held]) -> None:
    topic = make()
    fill(client, topic, 5)
    key = TopicPartition(topic, 0)
    with client.consumer(group=group, auto_commit=True, auto_commit_interval_ms=60_000) as consumer:
        consumer.assign([key])
        drain(consumer, 5)
        held = hold(3)
        consumer.commit_async({key: 3})
        client.cluster.handler.spawn(lambda: (held.begun.wait(10), client.cluster.handler.sleep(0.2), held.gate.set()))
    assert held.made == [3, 5]
    assert committed(client, group, key) == (5, "pykafka")


def test_a_close_whose_turn_does_not_come_ends_in_time(
    client: KafkaClient, make: Any, group: str, hold: Callable[[int], Held]
) -> None:
    handler = client.cluster.handler
    topic = make()
    fill(client, topic, 5)
    key = TopicPartition(topic, 0)
    consumer = client.consumer(group=group, auto_commit=True, auto_commit_interval_ms=60_000)
    consumer.assign([key])
    drain(consumer, 5)
    held = hold(3)
    consumer.commit_async({key: 3})
    assert held.begun.wait(10)
    began = handler.now()
    with pytest.raises(OffsetsNotCommitted, match="before this one"):
        consumer.close(timeout=0.5)
    assert handler.now() - began < 10
    held.gate.set()
    until(handler, lambda: 3 in held.made)


def test_auto_commit_beside(client: KafkaClient, make: Any, group: str, hold: Callable[[int], Held]) -> None:
    topic = make()
    fill(client, topic, 20)
    key = TopicPartition(topic, 0)
    with client.consumer(group=group, auto_commit=True, auto_commit_interval_ms=20) as consumer:
        consumer.assign([key])
        held = hold(5)
        drain(consumer, 6)  # the last one is in work: auto-commit commits 5
        assert held.begun.wait(10)
        consumer.commit_async({key: 6})
        handler = client.cluster.handler
        handler.spawn(lambda: (handler.sleep(0.2), held.gate.set()))
        consumer.commit({key: 8})
        # It may have committed before, if the records took longer to come than its interval.
        assert held.made == sorted(held.made)
        assert held.made[-3:] == [5, 6, 8]


def test_commits_of_a_listener(client: KafkaClient, make: Any, group: str) -> None:
    topic = make()
    fill(client, topic, 5)
    key = TopicPartition(topic, 0)

    class Listener:
        def on_revoked(self, partitions: Any) -> None:
            consumer.commit_async({key: 2})
            consumer.commit({key: 4})

    consumer = client.consumer(topic, group=group, listener=Listener())
    with consumer:
        drain(consumer, 5)
    assert committed(client, group, key) == (4, "")


def test_commits_beside_parallel_work(client: KafkaClient, make: Any, group: str) -> None:
    topic = make()
    fill(client, topic, 5)
    key = TopicPartition(topic, 0)
    with client.consumer(group=group) as consumer:
        consumer.assign([key])

        def handle(record: Any) -> None:
            if record.offset == 4:
                consumer.commit_async({key: 1})
                consumer.commit({key: 2})

        consumer.parallel(handle, commit_interval=0.2, idle_timeout=0.5).run()
    assert committed(client, group, key) == (5, "")


@pytest.mark.no_loop("a consumer of PyKafka 2 has no facade here")
def test_commits_of_a_simple_consumer(client: KafkaClient, make: Any, group: str, hold: Callable[[int], Held]) -> None:
    handler = client.cluster.handler
    topic = client.topics[make()]
    fill(client, topic.name, 20)
    consumer = topic.get_simple_consumer(
        consumer_group=group.encode(), auto_commit_enable=True, auto_commit_interval_ms=20, consumer_timeout_ms=10_000
    )
    with consumer:
        held = hold(5)
        for _ in range(6):
            assert consumer.consume() is not None
        assert held.begun.wait(10)
        partition = topic.partitions[0]
        workers = []
        for offset in (9, 8, 7):
            workers.append(handler.spawn(consumer.commit_offsets, [(partition, offset)]))
            until(handler, lambda: waiting_commits(engine_of(consumer).commits.order) == len(workers) + 1)
        held.gate.set()
        assert all(worker.join(10) for worker in workers)
        assert held.made[:4] == [5, 9, 8, 7]


def test_close_waits_for_the_commits_before_as_long_as_it_is_given(
    concurrency: Callable[[], dict[str, Any]],
    cluster: EmbeddedCluster,
    hold: Callable[[int], Held],
    make: Any,
    group: str,
) -> None:
    """Seed 302343: also longer than a socket timeout, as an auto-commit pauses after the coordinator has moved."""
    topic = make()
    with KafkaClient(cluster.hosts, socket_timeout_ms=1_000, **concurrency()) as client:
        fill(client, topic, 2)
        held = hold(1)
        options: dict[str, Any] = {"auto_commit": True, "auto_commit_interval_ms": 50, "auto_offset_reset": "earliest"}
        consumer = client.consumer(topic, group=group, **options)
        for _ in range(2):
            assert consumer.one(30.0) is not None
        assert held.begun.wait(30)
        errors: list[BaseException] = []

        def close() -> None:
            try:
                consumer.close(30.0)
            except KafkaException as error:
                errors.append(error)

        closing = client.cluster.handler.spawn(close)
        client.cluster.handler.sleep(1.4)
        held.gate.set()
        closing.join(30.0)
        assert not errors
        assert committed(client, group, TopicPartition(topic, 0)) == OffsetAndMetadata(2, "pykafka")
