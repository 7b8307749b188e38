"""`consumer.parallel()` over a consumer of the embedded cluster: histories with failures, retries and stops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, RecordNotHandledError
from pykafka.parallel.retry import Retry
from pykafka.record import Record

pytestmark = pytest.mark.on_asyncio


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: EmbeddedCluster, concurrency: Callable[[], dict[str, Any]]) -> Iterator[KafkaClient]:
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        yield client


def by_number(partitions: Sequence[Any], key: Any) -> Any:
    return partitions[int(key.removeprefix(b"key-")) % 4]


_topics = iter(range(1_000_000))


@pytest.fixture
def topic(cluster: EmbeddedCluster, client: KafkaClient) -> str:
    """Make a topic with 2,000 records of 40 keys in 4 partitions; the value is the number within the key."""
    name = f"parallel-{next(_topics)}"
    cluster.create_topic(name, partitions=4)
    with client.topics[name].get_producer(linger_ms=1, partitioner=by_number) as producer:
        for number in range(2000):
            producer.produce(b"%d" % (number // 40), partition_key=b"key-%d" % (number % 40))
    return name


class History:
    """A list of what happened to each record, in order."""

    def __init__(self) -> None:
        self.handled: dict[bytes, list[int]] = defaultdict(list)
        self.ended: dict[TopicPartition, set[int]] = defaultdict(set)

    def note(self, record: Record[Any, Any]) -> None:
        self.handled[record.raw_key or b""].append(int(record.raw_value or b""))
        self.ended[TopicPartition(record.topic, record.partition)].add(record.offset)

    def check(self) -> None:
        """Check that all were handled, each key in order: a repetition goes back, and on from there without a gap."""
        assert len(self.handled) == 40
        for numbers in self.handled.values():
            assert set(numbers) == set(range(50))
            assert all(later <= former + 1 for former, later in pairwise(numbers))


def until(client: KafkaClient, condition: Callable[[], object], timeout: float = 20.0) -> None:
    handler = client.cluster.handler
    deadline = handler.now() + timeout
    while not condition():
        assert handler.now() < deadline, "it did not happen in time"
        handler.sleep(0.005)


def assigned(client: KafkaClient, topic: str, **options: Any) -> Any:
    consumer = client.consumer(group=f"group-{topic}", **options)
    consumer.assign([TopicPartition(topic, partition) for partition in range(4)])
    return consumer


def is_over(run: Any, consumer: Any) -> bool:
    return not run.running or (run.stats().unacknowledged == 0 and all_committed(consumer))


def all_committed(consumer: Any) -> bool:
    return all(one is not None and one.offset == 500 for one in consumer.committed().values())


def test_each_record_is_handled_in_the_order_of_its_key(client: KafkaClient, topic: str) -> None:
    history = History()
    failed: set[tuple[int, int]] = set()

    def handle(record: Record[Any, Any]) -> None:
        place = record.partition, record.offset
        if record.offset % 97 == 5 and place not in failed:
            failed.add(place)
            raise ValueError(record.offset)
        history.note(record)

    with assigned(client, topic) as consumer:
        retry = Retry(backoff=0.01)
        with consumer.parallel(handle, workers=16, retry=retry, max_unacknowledged=100, commit_interval=0.05) as run:
            until(client, lambda: run.stats().acknowledged == 2000)
            assert run.stats().retried == len(failed)
        assert all_committed(consumer)
    history.check()
    assert all(len(numbers) == 50 for numbers in history.handled.values())


def test_ends_in_between_lose_nothing(client: KafkaClient, topic: str) -> None:
    history = History()
    chance = client.cluster.handler.random
    for stop in range(8):
        seen = [0]
        failed: dict[TopicPartition, int] = {}

        def handle(record: Record[Any, Any], stop: int = stop, seen: list[int] = seen) -> None:
            seen[0] += 1
            if chance.random() < 0.1:
                client.cluster.handler.sleep(0.001)
            if stop < 7 and seen[0] > 400 and chance.random() < 0.02:
                raise ValueError("ends the run")
            history.note(record)

        with assigned(client, topic) as consumer:
            run = consumer.parallel(handle, workers=8, commit_interval=0.02)
            try:
                with run:
                    until(client, partial(is_over, run, consumer))
            except RecordNotHandledError as error:
                failed = {TopicPartition(topic, error.partition or 0): error.offset}
            for place, committed in consumer.committed().items():
                if committed is not None:
                    assert committed.offset <= failed.get(place, 500)
                    assert set(range(committed.offset)) <= history.ended[place], "committed past what was handled"
    history.check()


def test_the_consumer_goes_on_where_the_run_ended(client: KafkaClient, topic: str) -> None:
    def handle(record: Record[Any, Any]) -> None:
        if record.offset == 100 and record.partition == 2:
            raise ValueError

    with assigned(client, topic) as consumer:
        with pytest.raises(RecordNotHandledError, match="partition=2"):
            consumer.parallel(handle, workers=4).run()
        place = TopicPartition(topic, 2)
        assert consumer.position(place) <= 100
        consumer.pause(*[one for one in consumer.assignment() if one != place])
        assert consumer.one(10.0).offset <= 100


def test_dead_letters_in_a_topic(cluster: EmbeddedCluster, client: KafkaClient, topic: str) -> None:
    cluster.create_topic(f"{topic}.dlq", partitions=1)

    def handle(record: Record[Any, Any]) -> None:
        if record.offset == 7:
            raise ValueError(f"bad {record.offset}")

    with assigned(client, topic) as consumer:
        with consumer.parallel(
            handle, workers=8, dead_letters="{topic}.dlq", retry=Retry(times=1, backoff=0.01)
        ) as run:
            until(client, lambda: run.stats().acknowledged == 2000)
            assert (run.stats().dead, run.stats().retried) == (4, 4)
        assert all_committed(consumer)
        with pytest.raises(ValueError, match="topic must be a name"):
            consumer.parallel(handle, dead_letters="{what}")
    with client.consumer(f"{topic}.dlq") as letters:
        found = [record for _ in range(4) if (record := letters.one(10.0)) is not None]
    headers = [dict(record.headers) for record in found]
    assert {header["__pykafka.errors.partition"] for header in headers} == {b"0", b"1", b"2", b"3"}
    assert {header["__pykafka.errors.exception.message"] for header in headers} == {b"bad 7"}
    assert {header["__pykafka.errors.offset"] for header in headers} == {b"7"}


def test_records_that_are_acknowledged_by_hand(client: KafkaClient, topic: str) -> None:
    held: list[Any] = []
    with assigned(client, topic) as consumer:
        with consumer.parallel(held.append, order=None, manual_ack=True, commit_interval=0.02) as run:
            until(client, lambda: len(held) == 2000)
            client.cluster.handler.random.shuffle(held)
            first = next(record for record in held if record.offset == 0)
            assert all(record.ack() for record in held if record is not first)
            place = TopicPartition(topic, first.partition)
            until(client, lambda: sum(one is not None for one in consumer.committed().values()) == 3)
            assert consumer.committed(place) == {place: None}
            assert first.ack()
            until(client, lambda: all_committed(consumer))
            assert run.stats().unacknowledged == 0
        with pytest.raises(KafkaException, match="nothing waits"):
            next(iter(client.consumer(topic))).ack()


def test_close_ends_the_run(client: KafkaClient, topic: str) -> None:
    consumer = assigned(client, topic)
    run = consumer.parallel(lambda record: None).start()
    until(client, lambda: run.stats().acknowledged > 0)
    consumer.close()
    assert not run.running
    assert run.wait(1.0)


def test_wakeup_ends_a_poll(client: KafkaClient, topic: str) -> None:
    with assigned(client, topic, auto_offset_reset="latest") as consumer:
        consumer.wakeup()
        handler = client.cluster.handler
        began = handler.now()
        assert consumer.poll(timeout=20.0) == []
        handler.spawn(lambda: (handler.sleep(0.1), consumer.wakeup()))
        assert consumer.poll(timeout=20.0) == []
        assert handler.now() - began < 10.0


def test_without_a_group_nothing_is_committed(cluster: EmbeddedCluster, client: KafkaClient, topic: str) -> None:
    def handle_all(consumer: Any) -> None:
        with consumer, consumer.parallel(lambda record: None) as run:
            until(client, lambda: run.stats().acknowledged == 2000)

    cluster.track_requests()
    try:
        handle_all(client.consumer(topic))
        assert cluster.requests("Fetch")
        assert not cluster.requests("OffsetCommit")
        handle_all(assigned(client, topic))
        assert cluster.requests("OffsetCommit")
    finally:
        cluster.untrack_requests()


def test_what_does_not_go_together_is_refused(client: KafkaClient, topic: str) -> None:
    with assigned(client, topic, auto_commit=True) as consumer:
        with pytest.raises(KafkaException, match="auto_commit=True"):
            consumer.parallel(print)
    with assigned(client, topic) as consumer:
        with pytest.raises(TypeError, match="dead_letters must be DeadLetters"):
            consumer.parallel(print, dead_letters=3)
        with pytest.raises(ValueError, match="workers must be above 0"):
            consumer.parallel(print, workers=0)
        with consumer.parallel(lambda record: None):
            with pytest.raises(KafkaException, match="another run"):
                consumer.parallel(print)
            until(client, consumer._reading.locked)
            with pytest.raises(KafkaException, match="another worker reads"):
                next(iter(consumer))  # whether records are buffered or not
            with pytest.raises(KafkaException, match="another worker reads"):
                consumer.poll(timeout=0)
        run = consumer.parallel(print)
        with (turn := consumer._handler.Lock()):
            assert consumer._reading.enter(turn)
            with pytest.raises(KafkaException, match="only the parallel run may"):
                run.run()
    with pytest.raises(KafkaException, match="is closed"):
        consumer.parallel(print)
