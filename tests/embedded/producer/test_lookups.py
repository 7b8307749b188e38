"""A producer's look-ups of topics: one for all callers, whatever their number; in the background where callers cannot wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient, TopicNotFoundError
from pykafka.broker import Broker
from pykafka.exceptions import LeaderNotFoundError, NoBrokersAvailableError
from tests.support.inside import engine_of
from tests.support.waiting import CutOff, until

pytestmark = pytest.mark.on_asyncio


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return the number of requests of each kind that are made from now on."""
    found: Counter[str] = Counter()
    call = Broker.call

    def counted(self: Broker, request: Any, *args: Any, **kwargs: Any) -> Any:
        found[type(request).__name__] += 1
        return call(self, request, *args, **kwargs)

    monkeypatch.setattr(Broker, "call", counted)
    return found


def test_workers_that_write_to_a_cold_topic_share_one_look_up(client: KafkaClient, asked: Counter[str]) -> None:
    handler = client.cluster.handler
    topic = f"cold-{handler.name}"
    made: list[Any] = []
    with client.producer() as producer:
        workers = [handler.spawn(lambda: made.append(producer.produce(topic, b"x"))) for _ in range(200)]
        assert all(worker.join(30) for worker in workers)
        producer.flush()
    assert len({(delivery.partition, delivery.offset) for delivery in made}) == 200
    assert asked["MetadataRequest"] < 15


def test_one_topic_does_not_hold_up_another(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with client.producer(max_block_ms=20_000) as producer:
        look_up, polls = engine_of(producer).metadata_wait._look_up, client.cluster.handler.Event()

        def held(topic: str, deadline: float) -> None:
            if topic == "held":
                polls.wait(20)
            look_up(topic, deadline)

        monkeypatch.setattr(engine_of(producer).metadata_wait, "_look_up", held)
        made: list[Any] = []
        workers = [client.cluster.handler.spawn(lambda: made.append(producer.produce("held", b"x"))) for _ in range(3)]
        producer.produce("other", b"x").get(10)
        assert made == []
        polls.set()
        assert all(worker.join(10) for worker in workers)
        assert len(made) == 3


def test_a_failure_is_told_to_all_that_wait(
    cluster: EmbeddedCluster, concurrency: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaClient(cluster.hosts, allow_auto_create_topics=False, **concurrency()) as client:
        begun: list[int] = []
        looks: list[str] = []
        told: list[Any] = []
        with client.producer() as producer:
            look_up, polls = engine_of(producer).metadata_wait._look_up, client.cluster.handler.Event()

            def held(topic: str, deadline: float) -> None:
                looks.append(topic)
                polls.wait(20)
                look_up(topic, deadline)

            def produce() -> None:
                begun.append(1)
                with pytest.raises(TopicNotFoundError, match="creates no topics") as info:
                    producer.produce("never-made", b"x")
                told.append(info.value)

            monkeypatch.setattr(engine_of(producer).metadata_wait, "_look_up", held)
            workers = [client.cluster.handler.spawn(produce) for _ in range(100)]
            until(client.cluster.handler, lambda: len(begun) == 100, 10)
            client.cluster.handler.sleep(0.05)
            polls.set()
            assert all(worker.join(30) for worker in workers)
        assert len(told) == 100
        assert len({id(error) for error in told}) == 100  # each has a traceback of its own
        assert looks == ["never-made"]


def test_the_next_caller_goes_on_where_one_is_cut_off(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with client.producer() as producer:
        look_up, polls, asked = engine_of(producer).metadata_wait._look_up, client.cluster.handler.Event(), []

        def cut(topic: str, deadline: float) -> None:
            asked.append(topic)
            if len(asked) == 1:
                polls.wait(20)
                raise CutOff
            look_up(topic, deadline)

        monkeypatch.setattr(engine_of(producer).metadata_wait, "_look_up", cut)

        def first() -> None:
            with pytest.raises(CutOff):
                producer.produce("cut-off", b"x")

        made: list[Any] = []
        workers = [client.cluster.handler.spawn(first)]
        until(client.cluster.handler, lambda: asked, 10)
        workers += [
            client.cluster.handler.spawn(lambda: made.append(producer.produce("cut-off", b"x"))) for _ in range(5)
        ]
        client.cluster.handler.sleep(0.02)
        polls.set()
        assert all(worker.join(10) for worker in workers)
        assert len(made) == 5
        assert len(asked) == 2


@pytest.mark.parametrize("max_block_ms", [0, 1])
def test_callers_that_cannot_wait_find_the_topic_later(
    client: KafkaClient, max_block_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, made = f"later-{client.cluster.handler.name}-{max_block_ms}", []
    with client.producer(max_block_ms=max_block_ms) as producer:
        look_up, go_on = engine_of(producer).metadata_wait._look_up, client.cluster.handler.Event()

        def held(topic: str, deadline: float) -> None:
            go_on.wait(20)  # or the broker may answer within the millisecond
            look_up(topic, deadline)

        monkeypatch.setattr(engine_of(producer).metadata_wait, "_look_up", held)
        with pytest.raises(NoBrokersAvailableError, match="it is being asked for: produce again"):
            producer.produce(topic, b"0")
        go_on.set()

        def again() -> bool:
            try:
                made.append(producer.produce(topic, b"1"))
            except NoBrokersAvailableError:
                return False
            return True

        until(client.cluster.handler, again, 10)
        assert made[0].get(10).offset == 0


def test_callers_that_cannot_wait_hear_why_there_is_no_topic(cluster: EmbeddedCluster, concurrency: Any) -> None:
    with (
        KafkaClient(cluster.hosts, allow_auto_create_topics=False, **concurrency()) as client,
        client.producer(max_block_ms=0) as producer,
    ):

        def told() -> bool:
            try:
                producer.produce("never-made", b"x")
            except NoBrokersAvailableError:
                return False
            except TopicNotFoundError:
                return True
            raise AssertionError

        until(client.cluster.handler, told, 10)


def test_closing_ends_a_look_up_in_the_background(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with client.producer(max_block_ms=0) as producer:
        lookups = engine_of(producer).metadata_wait

        def look_up(topic: str, deadline: float) -> None:
            while True:
                client.cluster.handler.sleep(0.01)
                engine_of(producer).check_running()

        monkeypatch.setattr(lookups, "_look_up", look_up)
        with pytest.raises(NoBrokersAvailableError):
            producer.produce("unfound", b"x")
        worker = lookups._under_way["unfound"].worker
        assert worker is not None
    assert not worker.is_alive()


def test_a_topic_without_partitions_is_asked_about_with_pauses(
    client: KafkaClient, asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the deadline ended the loop before, which asked nobody, and never paused."""
    with client.producer(max_block_ms=1000) as producer:
        empty = SimpleNamespace(name="empty", partitions={}, changes=0)
        looks: list[int] = []

        def look_up(name: str, timeout_ms: int) -> Any:
            looks.append(timeout_ms)
            return empty

        monkeypatch.setattr(client.topics, "look_up", look_up)
        with pytest.raises(LeaderNotFoundError, match="no partitions yet"):
            producer.produce("empty", b"x")
        assert 2 <= len(looks) <= 12
        assert asked["MetadataRequest"] >= 1
