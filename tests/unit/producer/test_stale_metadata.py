"""Producers and metadata that leaves partitions out: for a moment all of a topic, or one of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException, LeaderNotFoundError, UnknownTopicOrPartition
from pykafka.protocol import wire
from pykafka.protocol.message import Message
from pykafka.spark.options import write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.writer import RowWriter
from pykafka.utils.murmur2 import partition_for
from tests.support.inside import engine_of
from tests.support.loops import Concurrency
from tests.support.scripted import TOPIC, ScriptedBroker
from tests.support.waiting import until

pytestmark = pytest.mark.on_asyncio

Response = wire.ProduceResponse


class Forgetful(ScriptedBroker):
    """A broker whose answers about metadata have the partitions that a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.partitions = [0, 1, 2]
        #: What the next answers have instead, one after another.
        self.stale: list[list[int]] = []
        self.asked = 0
        #: How many batches each partition has got.
        self.taken: Counter[int] = Counter()
        self._lock = threading.Lock()

    def _metadata(self) -> wire.MetadataResponse:
        with self._lock:
            self.asked += 1
            ids = self.stale.pop(0) if self.stale else self.partitions
        made = super()._metadata()
        part = wire.MetadataResponse.Topic.Partition
        made.topics[0].partitions = [
            part(partition_index=id_, leader_id=1, replica_nodes=[1], isr_nodes=[1]) for id_ in ids
        ]
        return made

    def _respond(self, request: Any) -> Any:
        if not isinstance(request, wire.ProduceRequest):
            return super()._respond(request)
        parts = []
        for part in request.topic_data[0].partition_data:
            self.taken[part.index] += 1
            parts.append(Response.Topic.Partition(index=part.index, base_offset=self.taken[part.index]))
        return Response(responses=[Response.Topic(name=TOPIC, partition_responses=parts)])


@pytest.fixture
def broker() -> Iterator[Forgetful]:
    with Forgetful() as broker:
        yield broker


@pytest.mark.parametrize("options", [{}, {"key": b"k"}, {"partition": 2}], ids=str)
def test_a_topic_without_partitions_at_first_is_written_once_it_has_some(
    broker: Forgetful, concurrency: Concurrency, options: dict[str, Any]
) -> None:
    """Each `produce()` waited for max_block_ms and raised, for as long as the producer lived."""
    broker.partitions = []
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.producer(max_block_ms=300, linger_ms=0) as producer:
            for _ in range(2):  # the second call divided by the number of partitions, where there was a key
                with pytest.raises(KafkaException):
                    producer.produce(TOPIC, b"x", **options)
            broker.partitions = [0, 1, 2]
            client.update_cluster()
            producer.produce(TOPIC, b"x", **options).get(10)
    assert broker.taken.total() == 1


def test_a_call_that_waits_goes_on_once_there_are_partitions(broker: Forgetful, concurrency: Concurrency) -> None:
    broker.stale = [[] for _ in range(4)]
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.producer(max_block_ms=20_000, linger_ms=0) as producer:
            assert producer.partitions_for(TOPIC) == [0, 1, 2]
            producer.produce(TOPIC, b"x").get(10)
    assert broker.taken.total() == 1


def test_a_topic_may_lose_all_its_partitions_for_a_while(broker: Forgetful, concurrency: Concurrency) -> None:
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.producer(max_block_ms=20_000, linger_ms=0) as producer:
            producer.produce(TOPIC, b"x", key=b"k").get(10)
            broker.stale = [[], []]
            client.update_cluster()
            engine_of(producer).routing.catch_up()
            producer.produce(TOPIC, b"x", key=b"k").get(10)
    assert broker.taken == {partition_for(b"k", 3): 2}


@pytest.mark.parametrize("shown", [[0, 1], [1, 2], [2]], ids=str)
@pytest.mark.parametrize("times", [5])
def test_a_partition_that_answers_leave_out_is_waited_for(
    broker: Forgetful, concurrency: Concurrency, shown: list[int], times: int
) -> None:
    """It failed at once where the second answer left it out, too; and where there were others behind it, they got it."""
    lacking = next(id_ for id_ in range(3) if id_ not in shown)
    broker.stale = [shown] * times
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.producer(max_block_ms=20_000, linger_ms=0) as producer:
            delivery = producer.produce(TOPIC, b"x", partition=lacking)
            assert delivery.get(10).partition == lacking
    assert broker.taken == {lacking: 1}


def test_a_partition_that_is_left_out_later_keeps_its_messages(broker: Forgetful, concurrency: Concurrency) -> None:
    """Those behind it got them: they were counted by place, not by number."""
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.producer(max_block_ms=20_000, linger_ms=0) as producer:
            for id_ in range(3):
                producer.produce(TOPIC, b"x", partition=id_).get(10)
            broker.stale = [[0, 2]] * 4
            client.update_cluster()
            engine_of(producer).routing.catch_up()
            producer.produce(TOPIC, b"x", partition=1).get(10)
    assert broker.taken == {0: 1, 1: 2, 2: 1}


def test_a_partition_that_is_added_while_the_call_waits_gets_it(broker: Forgetful, concurrency: Concurrency) -> None:
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.producer(max_block_ms=20_000, linger_ms=0) as producer:
            producer.produce(TOPIC, b"x", partition=0).get(10)
            made: list[Any] = []
            worker = client.cluster.handler.spawn(lambda: made.append(producer.produce(TOPIC, b"x", partition=4)))
            asked = broker.asked
            until(client.cluster.handler, lambda: broker.asked > asked + 1, 10)
            broker.partitions = [0, 1, 2, 3, 4]
            assert worker.join(10)
            made[0].get(10)
    assert broker.taken == {0: 1, 4: 1}


def test_a_partition_that_there_never_is_is_an_error_in_time(broker: Forgetful, concurrency: Concurrency) -> None:
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.producer(max_block_ms=300) as producer:
            now = client.cluster.handler.now
            for id_ in (3, 2**31 - 1):
                began = now()
                with pytest.raises(
                    UnknownTopicOrPartition, match=r"3 partitions, 0 to 2, .* after max_block_ms=300"
                ) as info:
                    producer.produce(TOPIC, b"x", partition=id_)
                assert 0.2 < now() - began < 5
                assert info.value.partition == id_
            assert broker.asked < 20
            producer.produce(TOPIC, b"x").get(10)


def test_an_absurd_number_of_a_partition_takes_no_memory(broker: Forgetful, concurrency: Concurrency) -> None:
    broker.partitions = [0, 1, 2, 2**31 - 1]
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.producer(max_block_ms=300, linger_ms=0) as producer:
            producer.produce(TOPIC, b"x", partition=1).get(10)
            assert len(engine_of(producer).routing.topics[TOPIC].queues) == 3


def test_the_producer_of_a_topic_waits_for_a_partition(broker: Forgetful, concurrency: Concurrency) -> None:
    """A message that names its partition, as subclasses produce it, failed at once."""
    broker.stale = [[0, 1]] * 4
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.topics[TOPIC].get_producer(linger_ms=0) as producer:
            message = Message(b"x", partition_id=2)
            producer._produce(message)
            producer.flush(10_000)
    assert broker.taken == {2: 1}


def test_the_producer_of_a_topic_raises_in_time(broker: Forgetful, concurrency: Concurrency) -> None:
    with KafkaClient(broker.hosts, **concurrency()) as client:
        with client.topics[TOPIC].get_producer(linger_ms=0, pending_timeout_ms=300) as producer:
            with pytest.raises(LeaderNotFoundError, match="no such partition"):
                producer._produce(Message(b"x", partition_id=7))


def test_the_producer_of_a_topic_follows_partitions_that_vanish_for_a_while(
    broker: Forgetful, concurrency: Concurrency
) -> None:
    with KafkaClient(broker.hosts, retry_backoff_ms=10, retry_backoff_max_ms=50, **concurrency()) as client:
        with client.topics[TOPIC].get_producer(linger_ms=0, partitioner=lambda parts, _: parts[-1]) as producer:
            producer.produce(b"x")
            producer.flush(10_000)
            broker.stale = [[]]
            client.update_cluster()
            producer.produce(b"x")
            producer.flush(10_000)
    assert broker.taken == {2: 2}


@pytest.mark.parametrize("shown", [[], [0, 1], [1, 2]], ids=str)
def test_the_sink_of_spark_waits_for_partitions(broker: Forgetful, concurrency: Concurrency, shown: list[int]) -> None:
    """A topic without partitions was a ValueError, and a partition that an answer left out was one that there is not."""
    options = write_options({"kafka.bootstrap.servers": broker.hosts, "topic": TOPIC}, Mode.BATCH_WRITE)
    broker.stale = [shown] * 5
    rows = pa.RecordBatch.from_pydict({"value": [b"x", b"y"], "partition": pa.array([2, 0], pa.int32())})
    with KafkaClient(broker.hosts, retry_backoff_ms=10, **concurrency()) as client:
        writer = RowWriter(client.cluster, options, frozenset(["value", "partition"]))
        writer.add(rows)
        assert writer.finish() == {TOPIC: 2}
    assert broker.taken == {0: 1, 2: 1}
