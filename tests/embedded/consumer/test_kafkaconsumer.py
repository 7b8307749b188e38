"""`client.consumer(...)` without a group: many topics, patterns, partitions; reading, pausing and seeking."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    ConsumerStoppedException,
    KafkaException,
    ResponseTimeoutError,
    TopicNotFoundError,
    UnknownTopicOrPartition,
)
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.record import Record
from tests.support.inside import engine_of
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.on_asyncio]

numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def make(cluster: EmbeddedCluster) -> Callable[..., str]:
    """Return what makes a topic, and returns its name."""

    def create(partitions: int = 1, name: str = "t") -> str:
        found = f"{name}{next(numbers)}"
        cluster.create_topic(found, partitions)
        return found

    return create


def fill(client: KafkaClient, topic: str, count: int, partition: int = 0, first: int = 0) -> list[bytes]:
    """Produce so many messages to a partition; return their values."""
    values = [b"%s/%d/%d" % (topic.encode(), partition, number) for number in range(first, first + count)]
    kept = client.topics[topic]
    with kept.get_producer(linger_ms=1, partitioner=lambda parts, key: parts[partition]) as producer:
        for value in values:
            producer.produce(value, partition_key=b"k", headers=[("h", b"1")])
    return values


def drain(consumer: KafkaConsumer[Any, Any], count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count and (record := consumer.one(10)) is not None:
        found.append(record.value)
    return found


def test_it_reads_several_topics(client: KafkaClient, make: Any) -> None:
    one, two = make(2), make()
    values = fill(client, one, 5) + fill(client, one, 5, 1) + fill(client, two, 5)
    with client.consumer(one, two, consumer_timeout_ms=500) as consumer:
        assert consumer.subscription() == sorted([one, two])
        assert consumer.assignment() == sorted([TopicPartition(one, 0), TopicPartition(one, 1), TopicPartition(two, 0)])
        records = list(consumer)
        assert {record.value for record in records} == set(values)
        for key in consumer.assignment():
            offsets = [record.offset for record in records if (record.topic, record.partition) == key]
            assert offsets == list(range(5))
            assert consumer.position(key) == 5
            assert consumer.lag(key) == {key: 0}
    first = records[0]
    assert isinstance(first, Record)
    assert (first.key, list(first.headers), first.timestamp_type) == (b"k", [("h", b"1")], 0)
    assert first.timestamp is not None


def test_poll_returns_what_there_is(client: KafkaClient, make: Any) -> None:
    topic = make()
    values = fill(client, topic, 25)
    with client.consumer(topic) as consumer:
        found: list[Any] = []
        while len(found) < 25:
            records = consumer.poll(10, 10)
            assert 0 < len(records) <= 10
            found += records
        assert [record.value for record in found] == values
        started = client.cluster.handler.now()
        assert consumer.poll(timeout=0.2) == []
        assert 0.15 < client.cluster.handler.now() - started < 5
        assert consumer.poll(timeout=0) == []
        assert consumer.one(0) is None
        fill(client, topic, 3, first=25)
        assert drain(consumer, 3)[0].endswith(b"/25")


def test_batches_end_by_the_timeout(client: KafkaClient, make: Any) -> None:
    topic = make()
    values = fill(client, topic, 10)
    with client.consumer(topic, consumer_timeout_ms=300) as consumer:
        assert [record.value for batch in consumer.batches(4) for record in batch] == values


def test_it_is_told_what_to_read(client: KafkaClient, make: Any) -> None:
    topic = make(3)
    values = fill(client, topic, 5, 2)
    fill(client, topic, 5, 1)
    with client.consumer() as consumer:
        assert consumer.poll(timeout=0) == []
        consumer.assign([TopicPartition(topic, 2)])
        assert consumer.assignment() == [(topic, 2)]
        assert consumer.subscription() == []
        assert drain(consumer, 5) == values
        # what stays keeps its position; what was given up begins anew
        consumer.assign([TopicPartition(topic, 2), TopicPartition(topic, 1)])
        assert consumer.position(TopicPartition(topic, 2)) == 5
        assert len(drain(consumer, 5)) == 5
        consumer.assign([TopicPartition(topic, 1)])
        consumer.assign([TopicPartition(topic, 1), TopicPartition(topic, 2)])
        assert drain(consumer, 5) == values
        consumer.subscribe(topic)
        assert len(consumer.assignment()) == 3
        assert consumer.poll(timeout=0.2) == []
        consumer.unsubscribe()
        assert (consumer.assignment(), consumer.subscription()) == ([], [])


def test_partitions_that_stay_keep_what_is_buffered(client: KafkaClient, make: Any, cluster: EmbeddedCluster) -> None:
    topic, other = make(), make()
    values = fill(client, topic, 20)
    with client.consumer(topic) as consumer:
        assert drain(consumer, 5) == values[:5]
        owned = engine_of(consumer).partitions[TopicPartition(topic, 0)]
        fetcher, epoch = owned.fetcher, owned.epoch
        consumer.subscribe(topic, other)
        kept = engine_of(consumer).partitions[TopicPartition(topic, 0)]
        assert (kept, kept.fetcher, kept.epoch) == (owned, fetcher, epoch)
        assert drain(consumer, 15) == values[5:]


def test_paused_partitions_return_nothing(client: KafkaClient, make: Any) -> None:
    topic = make(2)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    values, others = fill(client, topic, 10), fill(client, topic, 10, 1)
    with client.consumer(topic) as consumer:
        consumer.pause(zero)
        assert consumer.paused() == [zero]
        assert drain(consumer, 10) == others
        assert consumer.poll(timeout=0.2) == []
        consumer.pause()
        assert consumer.paused() == [zero, one]
        others = fill(client, topic, 3, 1, first=10)
        assert consumer.poll(timeout=0.2) == []
        consumer.resume(zero)
        assert drain(consumer, 10) == values
        consumer.resume()
        assert consumer.paused() == []
        assert drain(consumer, 3) == others


def test_what_is_buffered_of_paused_partitions_leaves_room(client: KafkaClient, make: Any) -> None:
    """It would use up the bytes of the whole consumer, and the others would never be fetched again."""
    topic = make(2)
    zero = TopicPartition(topic, 0)
    values = fill(client, topic, 50)
    others = fill(client, topic, 200, 1)
    with client.consumer(topic, queued_max_bytes=600) as consumer:
        consumer.pause()
        consumer.resume(zero)
        until(client.cluster.handler, lambda: engine_of(consumer).partitions[zero].messages > 0)
        consumer.pause()
        consumer.resume(TopicPartition(topic, 1))
        assert drain(consumer, 200) == others
        consumer.resume()
        assert drain(consumer, 50) == values
        assert consumer.poll(timeout=0) == []
        assert engine_of(consumer).buffers.nbytes == 0


def test_seeking(client: KafkaClient, make: Any) -> None:
    topic = make()
    key = TopicPartition(topic, 0)
    values = fill(client, topic, 10)
    with client.consumer(topic) as consumer:
        assert drain(consumer, 10) == values
        consumer.seek(key, 7)
        assert consumer.position(key) == 7
        assert drain(consumer, 3) == values[7:]
        consumer.seek_to_beginning(key)
        assert consumer.position(key) == 0
        assert drain(consumer, 2) == values[:2]
        consumer.seek_to_end()
        assert consumer.position(key) == 10
        assert consumer.poll(timeout=0.1) == []
        consumer.pause(key)
        consumer.seek(key, 4)
        assert consumer.poll(timeout=0.2) == []
        consumer.resume(key)
        assert drain(consumer, 1) == values[4:5]


@pytest.mark.later("threads", "asyncio")
def test_a_pattern_reads_topics_that_appear(client: KafkaClient, make: Any, cluster: EmbeddedCluster) -> None:
    prefix = f"p{next(numbers)}-"
    first = make(name=prefix)
    values = fill(client, first, 3)
    with client.consumer(f"^{prefix}.*", metadata_max_age_ms=200, auto_offset_reset="latest") as consumer:
        consumer.seek_to_beginning()
        assert drain(consumer, 3) == values
        second = make(name=prefix)
        with KafkaClient(cluster.hosts) as other:
            values = fill(other, second, 4)
        # It came while the consumer read: all of it is new.
        assert drain(consumer, 4) == values
        assert consumer.subscription() == [first, second]
    with client.consumer(re.compile(f"{prefix}nothing.*"), metadata_max_age_ms=200) as consumer:
        assert consumer.poll(timeout=0.1) == []
        cluster.create_topic(f"{prefix}nothing", 1)
        with KafkaClient(cluster.hosts) as other:
            values = fill(other, f"{prefix}nothing", 4)
        assert drain(consumer, 4) == values


def test_close_ends_a_wait(client: KafkaClient, make: Any) -> None:
    topic = make()
    handler = client.cluster.handler
    for read, ended in ((list, []), (lambda one: one.poll(), ConsumerStoppedException)):
        consumer = client.consumer(topic)
        outcome: list[Any] = []

        def run(read: Any = read, consumer: Any = consumer, outcome: Any = outcome) -> None:
            try:
                outcome.append(read(consumer))
            except KafkaException as error:
                outcome.append(type(error))

        worker = handler.spawn(run)
        handler.sleep(0.2)
        consumer.close()
        consumer.close()
        assert worker.join(10)
        assert outcome == [ended]
        with pytest.raises(ConsumerStoppedException, match="closed"):
            consumer.assign([])


def test_a_second_reader_is_refused(client: KafkaClient, make: Any) -> None:
    topic = make()
    handler = client.cluster.handler
    with client.consumer(topic) as consumer:
        worker = handler.spawn(consumer.poll, timeout=1)
        handler.sleep(0.3)
        with pytest.raises(KafkaException, match="another worker reads"):
            consumer.poll()
        assert worker.join(10)
        assert consumer.poll(timeout=0) == []


def test_seek_and_pause_during_a_wait(client: KafkaClient, make: Any) -> None:
    topic = make()
    values = fill(client, topic, 3)
    handler = client.cluster.handler
    with client.consumer(topic) as consumer:
        assert drain(consumer, 3) == values
        found: list[Any] = []
        worker = handler.spawn(lambda: found.append(consumer.one(10)))
        handler.sleep(0.2)
        consumer.pause()
        consumer.seek(TopicPartition(topic, 0), 1)
        handler.sleep(0.2)
        assert not found
        consumer.resume()
        assert worker.join(10)
        assert [record.value for record in found] == values[1:2]


def test_mistakes_are_refused_by_name(client: KafkaClient, make: Any) -> None:
    topic = make()
    names: list[tuple[tuple[Any, ...], type[Exception], str]] = [
        ((1,), TypeError, "topics must be names"),
        (("",), ValueError, "topics must be names"),
        (("^a", "b"), ValueError, "one pattern"),
        (("^(",), ValueError, "malformed"),
    ]
    for topics, error, text in names:
        with pytest.raises(error, match=text):
            client.consumer(*topics)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"grupo": "g"}, TypeError, "grupo"),
        ({"auto_offset_reset": "newest"}, ValueError, "auto_offset_reset must be"),
        ({"auto_offset_reset": "nearest"}, ValueError, "auto_offset_reset must be"),
        ({"auto_commit": True}, ValueError, "auto_commit needs a group"),
        ({"start": "latest"}, TypeError, "start must be"),
        ({"fetch_min_bytes": -1}, ValueError, "fetch_min_bytes"),
    ]
    for options, error, text in wrong:
        with pytest.raises(error, match=text):
            client.consumer(topic, **options)
    with client.consumer(topic) as consumer:
        stranger = TopicPartition("other", 0)
        calls: list[tuple[Any, type[Exception], str]] = [
            (lambda: consumer.seek(stranger, 1), KafkaException, "does not read"),
            (lambda: consumer.seek(TopicPartition(topic, 0), -1), ValueError, "offset must be"),
            (lambda: consumer.seek(TopicPartition(topic, 0), "1"), TypeError, "offset must be"),  # type: ignore[arg-type]
            (lambda: consumer.pause(stranger), KafkaException, "does not read"),
            (lambda: consumer.pause(topic), TypeError, "TopicPartition"),
            (lambda: consumer.position(stranger), KafkaException, "does not read"),
            (lambda: consumer.seek_to_time(-1), ValueError, "1970"),
            (lambda: consumer.poll(0), ValueError, "max_records"),
            (lambda: consumer.poll(timeout=-1), ValueError, "timeout must be"),
            (lambda: consumer.poll(timeout="1"), TypeError, "timeout must be"),  # type: ignore[arg-type]
            (consumer.commit, KafkaException, "group"),
            (lambda: consumer.assign([TopicPartition(topic, 7)]), UnknownTopicOrPartition, "1 partitions"),
        ]
        for call, error, text in calls:
            with pytest.raises(error, match=text):
                call()
        assert consumer.assignment() == [(topic, 0)]


def test_unknown_topics_are_refused(cluster: EmbeddedCluster) -> None:
    with KafkaClient(cluster.hosts, allow_auto_create_topics=False) as client:
        with pytest.raises(TopicNotFoundError):
            client.consumer("nobody-made-this")
        with client.consumer() as consumer, pytest.raises(TopicNotFoundError):
            consumer.assign([TopicPartition("nobody-made-this", 0)])


def test_a_brokers_silence_costs_no_call_more_than_its_time(
    client: KafkaClient, make: Any, cluster: EmbeddedCluster
) -> None:
    topic = make()
    values = fill(client, topic, 3)
    with client.consumer(topic) as consumer:
        assert drain(consumer, 3) == values
        leader = client.topics[topic].partitions[0].leader
        assert leader is not None
        cluster.set_latency(leader.id, 1500)
        try:
            handler = client.cluster.handler
            started = handler.now()
            consumer.seek_to_beginning()
            assert consumer.poll(timeout=0.3) == []
            with pytest.raises(ResponseTimeoutError):
                consumer.position(TopicPartition(topic, 0), timeout=0.2)
            assert handler.now() - started < 1.2
        finally:
            cluster.set_latency(leader.id, 0)
        assert drain(consumer, 3) == values


def test_errors_leave_the_with_block(client: KafkaClient, make: Any) -> None:
    topic = make()
    with pytest.raises(RuntimeError, match="mine"), client.consumer(topic) as consumer:
        raise RuntimeError("mine")
    with pytest.raises(ConsumerStoppedException):
        consumer.poll()
