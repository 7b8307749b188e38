"""Topics that grow while a worker process is kept, and brokers that forget one for a moment: no Spark session."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from pykafka.embedded import EmbeddedCluster
from pykafka.spark import session
from pykafka.spark.errors import SinkError
from pykafka.spark.offsets import JsonOffsets
from pykafka.spark.options import read_options, write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.stream41 import SelfLimitingStreamReader
from pykafka.spark.writer import write_rows
from tests.support.spark.topics import Record, Topics


@pytest.fixture(autouse=True)
def clients_closed() -> Iterator[None]:
    yield
    session.close_all()


def write(topics: Topics, topic: str, partitions: Sequence[int | None]) -> None:
    """Do what a task of this process does with rows of different keys."""
    options = write_options({"kafka.bootstrap.servers": topics.hosts, "topic": topic}, Mode.STREAM_WRITE)
    names = [f"{number}" for number in range(len(partitions))]
    columns = {"key": names, "value": names, "partition": pa.array(partitions, pa.int32())}
    write_rows(iter([pa.record_batch(columns)]), options, frozenset(columns))


@pytest.mark.kafka
def test_a_row_for_a_partition_that_is_new(topics: Topics) -> None:
    """The topic is looked at again before a row is refused."""
    topic = topics.create(partitions=1)
    write(topics, topic, [0])
    topics.grow(topic, 4)
    write(topics, topic, [0, 3])
    assert Counter(record.partition for record in topics.read(topic, 3)) == {0: 2, 3: 1}
    with pytest.raises(SinkError, match="partitions 0 to 3"):
        write(topics, topic, [4])


@pytest.mark.kafka
def test_keys_go_to_partitions_that_are_new(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time that metadata is old, a worker process knows of them."""
    topic = topics.create(partitions=1)
    write(topics, topic, [None] * 100)
    topics.grow(topic, 4)
    monkeypatch.setattr("pykafka.metadata.freshness.Freshness.is_old", True)
    write(topics, topic, [None] * 100)
    found = Counter(record.partition for record in topics.read(topic, 200))
    assert set(found) == {0, 1, 2, 3}


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_is_unknown_for_a_moment(fail: str) -> None:
    """It is asked for again: a partition that was taken for gone would be read from its beginning next."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        Topics(cluster.hosts).produce("t", [Record(b"x")] * 10)
        raw = {"kafka.bootstrap.servers": cluster.hosts, "subscribe": "t", "failOnDataLoss": fail}
        raw["startingOffsets"] = "earliest"
        reader = SelfLimitingStreamReader(read_options(raw, Mode.STREAM_READ), ("value",))
        reader.initialOffset()
        end: JsonOffsets = {"t": {"0": 10}}
        cluster.set_topic_error("t", "UNKNOWN_TOPIC_OR_PART")
        healed = threading.Timer(1.0, cluster.set_topic_error, ("t", "NO_ERROR"))
        healed.start()
        try:
            reader._is_first = False
            assert reader._next_end(end) == end
        finally:
            healed.join()
            reader.stop()
