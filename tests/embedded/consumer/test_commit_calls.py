"""Commits of `client.consumer(group=...)` with assigned partitions: at once, by a worker, and regularly."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import ConsumerStoppedException, KafkaException, OffsetsNotCommitted
from tests.embedded.consumer.test_kafkaconsumer import cluster, drain, fill, make, numbers
from tests.support.inside import engine_of
from tests.support.waiting import until

__all__ = ["cluster", "make"]
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def group() -> str:
    return f"g{next(numbers)}"


def committed(client: KafkaClient, group: str, key: TopicPartition) -> OffsetAndMetadata | None:
    with client.consumer(group=group) as consumer:
        return consumer.committed(key)[key]


def test_commits_say_what_was_returned(client: KafkaClient, make: Any, group: str) -> None:
    topic, other = make(), make()
    key, another = TopicPartition(topic, 0), TopicPartition(other, 0)
    fill(client, topic, 10)
    fill(client, other, 10)
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        assert consumer.committed() == {key: None}
        first = consumer.one(10)
        assert first is not None
        consumer.commit()
        assert consumer.committed() == {key: OffsetAndMetadata(1, "")}
        second, third = consumer.one(10), consumer.one(10)
        assert second is not None
        assert third is not None
        consumer.commit(second, metadata="second")
        assert consumer.committed() == {key: OffsetAndMetadata(2, "second")}
        # any partition, also one that is not read; and a text for each
        consumer.commit({another: OffsetAndMetadata(7, "seven"), key: 3}, metadata="three")
        assert consumer.committed(another, key) == {
            another: OffsetAndMetadata(7, "seven"),
            key: OffsetAndMetadata(3, "three"),
        }
        consumer.commit({})
    with client.consumer(group=group) as consumer:
        consumer.assign([key, another])
        assert [consumer.position(one) for one in (key, another)] == [3, 7]


def test_nothing_is_committed_unless_asked_for(client: KafkaClient, make: Any, group: str) -> None:
    topic = make()
    fill(client, topic, 10)
    key = TopicPartition(topic, 0)
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        drain(consumer, 5)
    assert committed(client, group, key) is None


def test_auto_commit(client: KafkaClient, make: Any, group: str) -> None:
    topic = make()
    fill(client, topic, 10)
    key = TopicPartition(topic, 0)
    with client.consumer(group=group, auto_commit=True, auto_commit_interval_ms=50) as consumer:
        consumer.assign([key])
        drain(consumer, 5)
        # the last one may still be in work
        until(client.cluster.handler, lambda: consumer.committed()[key] == (4, "pykafka"))
        drain(consumer, 3)
    assert committed(client, group, key) == (8, "pykafka")
    with (
        pytest.raises(RuntimeError, match="mine"),
        client.consumer(group=group, auto_commit=True, auto_commit_interval_ms=60_000) as consumer,
    ):
        consumer.assign([key])
        drain(consumer, 2)
        raise RuntimeError("mine")
    assert committed(client, group, key) == (9, "pykafka")


def test_commits_by_a_worker_keep_their_order(client: KafkaClient, make: Any, group: str) -> None:
    topic = make()
    fill(client, topic, 10)
    key = TopicPartition(topic, 0)
    told: list[Any] = []
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        for offset in range(1, 11):
            consumer.commit_async({key: offset}, lambda error, offsets: told.append((error, offsets)), metadata="m")
        consumer.commit_async({key: 3})
    assert told == [(None, {key: OffsetAndMetadata(offset, "m")}) for offset in range(1, 11)]
    assert committed(client, group, key) == (3, "")
    for call in (consumer.commit, consumer.commit_async):
        with pytest.raises(ConsumerStoppedException):
            call()


def test_failures_are_told(
    client: KafkaClient, make: Any, group: str, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make()
    fill(client, topic, 3)
    key = TopicPartition(topic, 0)
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        drain(consumer, 3)
        cluster.inject_errors("OffsetCommit", "OFFSET_METADATA_TOO_LARGE")
        with pytest.raises(OffsetsNotCommitted) as info:
            consumer.commit()
        assert info.value.failures == {key: 3}
        told: list[Any] = []

        def fail(error: Any, offsets: Any) -> None:
            told.append(error)
            raise ValueError("of the callback")

        cluster.inject_errors("OffsetCommit", "OFFSET_METADATA_TOO_LARGE", "OFFSET_METADATA_TOO_LARGE")
        consumer.commit_async(on_commit=fail)
        consumer.commit_async()
        until(client.cluster.handler, lambda: len(engine_of(consumer).errors) == 1)
        assert isinstance(told[0], OffsetsNotCommitted)
        with pytest.raises(OffsetsNotCommitted):
            consumer.one(5)
    assert "of the callback" in caplog.text


def test_mistakes_in_commits_are_refused(client: KafkaClient, make: Any, group: str) -> None:
    key = TopicPartition(make(), 0)
    with client.consumer(group=group) as consumer:
        wrong: list[tuple[Any, type[Exception], str]] = [
            (7, TypeError, "Record"),
            ({"t": 1}, TypeError, "TopicPartition"),
            ({key: "1"}, TypeError, "offset of"),
            ({key: -1}, ValueError, "offset of"),
            ({key: OffsetAndMetadata(1, 7)}, TypeError, "metadata"),  # type: ignore[arg-type]
        ]
        for what, error, text in wrong:
            with pytest.raises(error, match=text):
                consumer.commit(what)
        with pytest.raises(TypeError, match="metadata"):
            consumer.commit(metadata=7)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="on_commit"):
            consumer.commit_async(on_commit=7)  # type: ignore[arg-type]
    with client.consumer() as consumer, pytest.raises(KafkaException, match="consumer group"):
        consumer.committed(key)
