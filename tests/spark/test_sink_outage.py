"""A task of the sink through the death of a leader, on three real brokers and without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from pykafka.protocol import wire
from pykafka.protocol.records import scan
from pykafka.spark import session
from pykafka.spark.options import write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.writer import write_rows
from tests.brokers import KafkaCluster
from tests.support.spark.topics import Topics

PARTITIONS = 3
ROWS = 300
BATCHES = 100
COLUMNS = frozenset({"value", "partition"})


@pytest.fixture(autouse=True)
def clients_closed() -> Iterator[None]:
    yield
    session.close_all()


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    partitions = pa.array([n % PARTITIONS for n in numbers], pa.int32())
    return pa.record_batch({"value": [f"{n}" for n in numbers], "partition": partitions})


def test_a_leader_is_killed_while_rows_are_written(kafka3: KafkaCluster) -> None:
    topics = Topics(kafka3.hosts)
    topic = topics.create(partitions=PARTITIONS, replicas=3, min_insync_replicas="2")
    raw = {"kafka.bootstrap.servers": kafka3.hosts, "topic": topic, "kafka.max.request.size": "2000"}
    options = write_options(raw, Mode.BATCH_WRITE)
    cluster = session.cluster_for(options.client)
    cluster.wait_for_topic(topic)  # brokers learn of it one after another
    victim = cluster.leader(topic, 0).id

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(BATCHES):
            if n == BATCHES // 3:
                kafka3.kill(victim)
            yield rows(n * ROWS, ROWS)

    try:
        written = write_rows(batches(), options, COLUMNS)
    finally:
        kafka3.start(victim)
    assert written == {topic: BATCHES * ROWS}
    assert write_rows(iter([rows(BATCHES * ROWS, ROWS)]), options, COLUMNS) == {topic: ROWS}
    count = (BATCHES + 1) * ROWS
    found = topics.read(topic, count)
    for partition in range(PARTITIONS):
        numbers = [int(record.value or b"-1") for record in found if record.partition == partition]
        assert numbers == list(range(partition, count, PARTITIONS))
    # The second task has gone on under the first one's producer id.
    part = wire.FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=2**20)
    cluster.update([topic])
    request = wire.FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[wire.FetchRequest.Topic(topic=topic, partitions=[part])]
    )
    answer = cluster.leader(topic, 0).call(request)
    stored, _ = scan(answer.responses[0].partitions[0].records)
    assert len({batch.producer_id for batch in stored}) == 1
    assert stored[0].producer_id >= 0
    assert len(stored) > BATCHES // PARTITIONS
