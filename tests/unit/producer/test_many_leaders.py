"""Producers of topics with many leaders: only those that get messages cost something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.producer import sender
from pykafka.protocol import wire
from tests.support.loops import Concurrency
from tests.support.scripted import TOPIC, ScriptedBroker
from tests.support.waiting import until

pytestmark = pytest.mark.on_asyncio

LEADERS = 10_000
FEW = 5


class Many(ScriptedBroker):
    """A broker that passes for many, each the leader of a partition.

    :param leaders: how many
    """

    def __init__(self, leaders: int) -> None:
        super().__init__()
        host, port = self.hosts.split(":")
        part = wire.MetadataResponse.Topic.Partition
        self.answer = wire.MetadataResponse(
            brokers=[
                wire.MetadataResponse.Broker(node_id=id_, host=host, port=int(port)) for id_ in range(1, leaders + 1)
            ],
            controller_id=1,
            topics=[
                wire.MetadataResponse.Topic(
                    name=TOPIC,
                    partitions=[
                        part(partition_index=id_, leader_id=id_ + 1, replica_nodes=[id_ + 1], isr_nodes=[id_ + 1])
                        for id_ in range(leaders)
                    ],
                )
            ],
        )
        self.taken: Counter[int] = Counter()

    def _metadata(self) -> wire.MetadataResponse:
        return self.answer

    def _respond(self, request: Any) -> Any:
        if not isinstance(request, wire.ProduceRequest):
            return super()._respond(request)
        parts = []
        for part in request.topic_data[0].partition_data:
            self.taken[part.index] += 1
            parts.append(wire.ProduceResponse.Topic.Partition(index=part.index, base_offset=0))
        return wire.ProduceResponse(responses=[wire.ProduceResponse.Topic(name=TOPIC, partition_responses=parts)])


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Many]:
    """Yield a broker that passes for five, or for as many as a test's parameter says."""
    with Many(getattr(request, "param", FEW)) as broker:
        yield broker


@pytest.fixture
def client(broker: Many, concurrency: Concurrency) -> Iterator[KafkaClient]:
    with KafkaClient(broker.hosts, **concurrency()) as client:
        yield client


@pytest.fixture
def senders(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the workers of senders that are started from now on."""
    handler, found = client.cluster.handler, []
    spawn = handler.spawn

    def noted(fn: Any, *args: Any, name: str = "", **kwargs: Any) -> Any:
        worker = spawn(fn, *args, name=name, **kwargs)
        if name.startswith("pykafka.OwnedBroker."):
            found.append(worker)
        return worker

    monkeypatch.setattr(handler, "spawn", noted)
    return found


@pytest.mark.parametrize("broker", [LEADERS], indirect=True)
def test_a_producer_has_workers_for_the_leaders_in_use_alone(
    client: KafkaClient, broker: Many, senders: list[Any]
) -> None:
    """It started one for each leader of the topic, until there were no more threads."""
    with client.producer(linger_ms=0) as producer:
        assert len(producer.partitions_for(TOPIC)) == LEADERS
        assert not senders
        for id_ in (0, 5000, LEADERS - 1, 5000):
            producer.produce(TOPIC, b"x", partition=id_).get(10)
        producer.flush()
        assert len(senders) == 3
    assert broker.taken == {0: 1, 5000: 2, LEADERS - 1: 1}
    assert not any(worker.is_alive() for worker in senders)


@pytest.mark.parametrize("options", [{}, {"sync": True}], ids=["", "sync"])
@pytest.mark.parametrize("broker", [LEADERS], indirect=True)
@pytest.mark.later("sync")
def test_the_producer_of_a_topic_likewise(
    client: KafkaClient, broker: Many, senders: list[Any], options: dict[str, Any]
) -> None:
    with client.topics[TOPIC].get_producer(
        linger_ms=0, partitioner=lambda parts, key: parts[int(key)], **options
    ) as producer:
        assert len(producer._owned_brokers) == LEADERS
        assert not senders
        for key in (b"0", b"5000", b"5000"):
            producer.produce(b"x", key)
        producer.flush(10_000)
        assert len(senders) <= 2
    assert set(broker.taken) == {0, 5000}
    assert not any(worker.is_alive() for worker in senders)


def test_a_producer_that_has_sent_nothing_stops(client: KafkaClient, broker: Many, senders: list[Any]) -> None:
    client.topics[TOPIC].get_producer().stop()
    with client.producer() as producer:
        producer.partitions_for(TOPIC)
    assert not senders


def test_the_worker_of_a_leader_that_gets_nothing_any_more_ends(
    client: KafkaClient, broker: Many, senders: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages without a key visit all leaders in the course of time. The next message starts another one."""
    monkeypatch.setattr(sender, "IDLE_S", 0.2)
    monkeypatch.setattr(sender, "IDLE_POLL_INTERVAL_S", 0.05)
    with client.producer(linger_ms=0) as producer:
        for round_ in range(3):
            for id_ in range(5):
                producer.produce(TOPIC, b"x", partition=id_)
            producer.flush()
            assert len(senders) == 5 * (round_ + 1)
            until(client.cluster.handler, lambda: not any(worker.is_alive() for worker in senders), 10)
        producer.produce(TOPIC, b"x", partition=3).get(10)
    assert broker.taken == {0: 3, 1: 3, 2: 3, 3: 4, 4: 3}


def test_messages_that_come_while_workers_end_are_all_sent(
    client: KafkaClient, broker: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "IDLE_S", 0.005)
    monkeypatch.setattr(sender, "IDLE_POLL_INTERVAL_S", 0.001)
    handler = client.cluster.handler
    with client.producer(linger_ms=0) as producer:

        def produce() -> None:
            for number in range(100):
                producer.produce(TOPIC, b"x", partition=number % 3)
                handler.sleep(0.002)

        workers = [handler.spawn(produce) for _ in range(3)]
        assert all(worker.join(30) for worker in workers)
        producer.flush(10)
