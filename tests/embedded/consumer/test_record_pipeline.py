"""Deserializers, interceptors and Arrow tables of `client.consumer(...)`."""

from __future__ import annotations

import json
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import DeserializationError
from tests.embedded.consumer.test_kafkaconsumer import cluster, drain, fill, make, numbers
from tests.support.inside import engine_of
from tests.support.waiting import until

__all__ = ["cluster", "make"]
pytestmark = pytest.mark.timeout(120)


def produce(client: KafkaClient, topic: str, values: list[bytes]) -> None:
    kept = client.topics[topic]
    with kept.get_producer(linger_ms=1) as producer:
        for value in values:
            producer.produce(value)


def test_values_and_keys_are_deserialized(client: KafkaClient, make: Any) -> None:
    topic = make()
    fill(client, topic, 3)
    with client.consumer(topic, key_deserializer=bytes.decode, value_deserializer=len) as consumer:
        record = consumer.one(10)
        assert record is not None
        assert (record.key, record.value, record.raw_value) == ("k", len(f"{topic}/0/0"), f"{topic}/0/0".encode())
        assert [record.key for record in consumer.poll(timeout=10)] == ["k", "k"]
        with pytest.raises(ValueError, match="deserializer"):
            consumer.arrow()


def test_a_bad_record_is_raised_and_the_consumer_stays(client: KafkaClient, make: Any) -> None:
    topic = make()
    group = f"g{next(numbers)}"
    key = TopicPartition(topic, 0)
    produce(client, topic, [b"1", b"2", b"x", b"4", b"5"])
    with client.consumer(topic, value_deserializer=json.loads) as consumer:
        assert drain(consumer, 2) == [1, 2]
        for _ in range(2):
            with pytest.raises(DeserializationError) as info:
                consumer.one(10)
            assert (info.value.topic, info.value.partition, info.value.offset) == (*key, 2)
            assert (info.value.raw_value, info.value.part) == (b"x", "value")
            assert consumer.position(key) == 2
        consumer.seek(key, 3)
        assert drain(consumer, 2) == [4, 5]
    with client.consumer(group=group, value_deserializer=json.loads, auto_commit=True) as consumer:
        consumer.assign([key])
        found: list[Any] = []
        while len(found) < 2:
            found += [record.value for record in consumer.poll(timeout=10)]
        assert found == [1, 2]
        # what was returned beside a bad record is in hand, and the bad one is not read
        assert engine_of(consumer).processed()[key] < 2
        with pytest.raises(DeserializationError):
            consumer.poll(timeout=10)
    with client.consumer(group=group) as reader:
        committed = reader.committed(key)[key]
        assert committed is not None
        assert committed.offset == 2


def test_bad_records_are_skipped(client: KafkaClient, make: Any, caplog: pytest.LogCaptureFixture) -> None:
    topic = make()
    produce(client, topic, [b"1", b"x", b"y", b"4"])
    with client.consumer(
        topic, value_deserializer=json.loads, on_bad_record="skip", consumer_timeout_ms=500
    ) as consumer:
        assert [record.value for record in consumer] == [1, 4]
        assert consumer.position(TopicPartition(topic, 0)) == 4
    assert "skipped" in caplog.text


class Watching:
    """An interceptor that notes all it sees, and leaves out values that end with 1."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.commits: list[Any] = []

    def on_consume(self, records: list[Any]) -> list[Any]:
        self.seen += [record.value for record in records]
        return [record for record in records if not record.value.endswith(b"1")]

    def on_commit(self, offsets: Any) -> None:
        self.commits.append(offsets)


class Failing:
    def on_consume(self, records: list[Any]) -> list[Any]:
        raise ValueError("of an interceptor")


def test_interceptors(client: KafkaClient, make: Any, caplog: pytest.LogCaptureFixture) -> None:
    topic = make()
    key = TopicPartition(topic, 0)
    values = fill(client, topic, 3)
    watching = Watching()
    with client.consumer(group=f"g{next(numbers)}", interceptors=[Failing(), watching]) as consumer:
        consumer.assign([key])
        assert drain(consumer, 2) == [values[0], values[2]]
        assert watching.seen == values
        consumer.seek_to_beginning()
        found: list[Any] = []
        while len(found) < 2:
            found += consumer.poll(timeout=10)
        assert [record.value for record in found] == [values[0], values[2]]
        consumer.commit()
        consumer.commit_async({key: 1})
        until(client.cluster.handler, lambda: len(watching.commits) == 2)
    assert [offsets[key].offset for offsets in watching.commits] == [3, 1]
    assert "of an interceptor" in caplog.text
    for wrong in (7, [Watching], [object()]):
        with pytest.raises(TypeError, match="interceptors must be"):
            client.consumer(topic, interceptors=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("many", [False, True])
def test_a_timeout_in_an_interceptor_costs_no_record(cluster: EmbeddedCluster, make: Any, many: bool) -> None:
    topic = make()
    key = TopicPartition(topic, 0)

    class Slow:
        def on_consume(self, records: list[Any]) -> None:
            gevent.sleep(pause)

    pause = 10.0
    with KafkaClient(cluster.hosts, use_greenlets=True) as client:
        values = fill(client, topic, 3)
        with client.consumer(topic, interceptors=[Slow()]) as consumer:
            with pytest.raises(gevent.Timeout), gevent.Timeout(1):
                consumer.poll() if many else consumer.one()
            assert consumer.position(key) == 0
            pause = 0
            assert drain(consumer, 3) == values


def test_tables_have_records_of_several_topics(client: KafkaClient, make: Any) -> None:
    pytest.importorskip("pyarrow")
    one, two = make(2), make()
    values = fill(client, one, 5) + fill(client, one, 5, 1) + fill(client, two, 5)
    with client.consumer(one, two) as consumer:
        rows: list[Any] = []
        while len(rows) < 15:
            table = consumer.arrow(7, timeout=10)
            assert table is not None
            assert 0 < table.num_rows <= 7
            rows += table.to_pylist()
        assert {row["value"] for row in rows} == set(values)
        assert {(row["topic"], row["partition"], row["offset"]) for row in rows} == {
            (*key, offset) for key in consumer.assignment() for offset in range(5)
        }
        assert consumer.arrow(timeout=0) is None
        consumer.seek_to_beginning()
        found = 0
        while found < 15:
            table = consumer.arrow(columns=["topic", "value"], timeout=10)
            assert table is not None
            assert table.column_names == ["topic", "value"]
            found += table.num_rows
        with pytest.raises(ValueError, match="column"):
            consumer.arrow(columns=["colour"])
