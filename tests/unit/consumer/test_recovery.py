"""The brokers to which recovery attaches partitions, and those that it asks about their logs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import TopicPartition
from pykafka.consumer.buffers import Buffers, OwnedPartition
from pykafka.consumer.leader_epochs import LeaderEpochs, PreferredReplicas
from pykafka.consumer.recovery import Recovery
from pykafka.exceptions import IncompleteResponseError, KafkaException
from pykafka.handlers import ThreadingHandler
from pykafka.protocol import wire

KEY = TopicPartition("t", 0)
NOT_LEADER = 6


class FakeBroker:
    """A broker of Kafka 2.4 to 2.6: Fetch does not compare logs; `answer` says what OffsetForLeaderEpoch answers."""

    address = "127.0.0.1:9092"
    knows_versions = True

    def __init__(self, id_: int, answer: wire.OffsetForLeaderEpochResponse) -> None:
        self.id = id_
        self.answer = answer
        self.asked: list[Any] = []
        self.attached: list[Any] = []

    def has(self, kind: object, timeout_ms: int | None = None) -> bool:
        return True

    def api_version(self, kind: object, timeout_ms: int | None = None) -> int:
        return 11 if kind is wire.FetchRequest else 3

    def call(self, request: Any, channel: str, version: int) -> wire.OffsetForLeaderEpochResponse:
        self.asked.append(request)
        return self.answer

    def shared(self, key: object, make: object) -> SimpleNamespace:
        return SimpleNamespace(attach=lambda owned, subscriber: self.attached.append(owned))


def end_of_epoch(topic: str = "t", partition: int = 0, error_code: int = 0) -> wire.OffsetForLeaderEpochResponse:
    kind = wire.OffsetForLeaderEpochResponse.Topic
    part = kind.Partition(partition=partition, error_code=error_code, leader_epoch=4, end_offset=100)
    return wire.OffsetForLeaderEpochResponse(topics=[kind(topic=topic, partitions=[part])])


class Noting(Recovery):
    """Notes failures, and does nothing about them."""

    def __init__(self, consumer: Any) -> None:
        super().__init__(consumer, consumer.options)
        self.failures: list[KafkaException] = []

    def failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        self.failures.append(error)


class FakeConsumer:
    """A consumer of one partition that has read up to offset 10, written in epoch 4."""

    running = True

    def __init__(self, leader: FakeBroker, *replicas: FakeBroker) -> None:
        self.handler = ThreadingHandler()
        self.options = SimpleNamespace(fetch_error_backoff_ms=100, fetch_settings=lambda partition_id, rack: (rack,))
        self.preferred_replicas = PreferredReplicas("north", 60.0)
        self.cluster = SimpleNamespace(
            topic_id=lambda name: None,
            leader_epoch=lambda *key: 4,
            brokers={broker.id: broker for broker in (leader, *replicas)},
        )
        self.buffers = Buffers(self.handler, 1000)
        partition: Any = SimpleNamespace(id=0, topic_name="t", leader=leader)
        self.owned = OwnedPartition(partition, self.buffers, 1000, 1000)
        self.buffers.move(self.owned, 10, 9, leader_epochs=LeaderEpochs.ending_at(10, 4))
        me: Any = self
        self.recovery = Noting(me)
        self.failures = self.recovery.failures


@pytest.mark.parametrize("by", ["attach", "_attach_all"])
def test_a_replica_is_not_asked_about_its_log(by: str) -> None:
    """Only leaders answer that; this one has just been asked, and has named the replica."""
    leader, replica = FakeBroker(1, end_of_epoch()), FakeBroker(2, end_of_epoch(error_code=NOT_LEADER))
    consumer = FakeConsumer(leader, replica)
    consumer.preferred_replicas.named(KEY, 2, now=0.0)
    if by == "attach":
        consumer.recovery.attach(consumer.owned)
    else:
        consumer.recovery._attach_all([consumer.owned])
    assert (consumer.failures, replica.attached, replica.asked) == ([], [consumer.owned], [])


def test_a_leader_is_asked_about_its_log() -> None:
    leader = FakeBroker(1, end_of_epoch())
    consumer = FakeConsumer(leader)
    consumer.recovery._attach_all([consumer.owned])
    assert (consumer.failures, leader.attached, len(leader.asked)) == ([], [consumer.owned], 1)


@pytest.mark.parametrize("wrong", [{"topic": "x"}, {"partition": 7}])
def test_an_answer_about_something_else_fails_the_partition_and_not_the_worker(wrong: dict[str, Any]) -> None:
    leader = FakeBroker(1, end_of_epoch(**wrong))
    consumer = FakeConsumer(leader)
    consumer.recovery._attach_all([consumer.owned])
    (error,) = consumer.failures
    assert isinstance(error, IncompleteResponseError)
    assert (error.topic, error.partition, error.api) == ("t", 0, "OffsetForLeaderEpoch")
    assert leader.attached == []


def test_a_partition_is_attached_once_by_whoever_is_first() -> None:
    """An application may call `_setup_fetch_workers` while recovery is at it."""
    leader = FakeBroker(1, end_of_epoch())
    consumer = FakeConsumer(leader)
    handler = consumer.handler
    inside, both = handler.Event(), handler.Event()

    class Slow(SimpleNamespace):
        def attach(self, owned: OwnedPartition, subscriber: Any) -> None:
            inside.set()
            both.wait(0.2)  # the other worker comes as far as it can meanwhile
            owned.fetcher = self
            leader.attached.append(owned)

    leader.shared = lambda key, make: Slow()  # type: ignore[method-assign]
    first = handler.spawn(consumer.recovery._attach_all, [consumer.owned])
    assert inside.wait(10)
    second = handler.spawn(consumer.recovery._attach_to, leader, consumer.owned)
    for worker in (first, second):
        assert worker.join(10)
        assert worker.error is None
    assert leader.attached == [consumer.owned]
