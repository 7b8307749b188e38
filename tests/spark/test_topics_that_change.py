"""Topics that grow, are recreated or are forgotten for a moment while queries and worker processes live: no Spark session."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.embedded import EmbeddedCluster
from pykafka.spark import session
from pykafka.spark.batch import KafkaBatchReader
from pykafka.spark.errors import DataLossError, RecreatedTopicError, SinkError
from pykafka.spark.offsets import JsonOffsets
from pykafka.spark.options import read_options, write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.stream import KafkaStreamReader
from pykafka.spark.stream41 import SelfLimitingStreamReader
from pykafka.spark.writer import write_rows
from tests.support.features import kafka_since
from tests.support.spark.topics import Record, Topics

#: Brokers before 2.8 tell no ids: topics recreated are not noticed there.
WITH_IDS = kafka_since(2, 8)


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
    monkeypatch.setattr("pykafka.metadata.refresh.RefreshSchedule.is_old", True)
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


class Query:
    """A stream reader as Spark drives it, micro-batch by micro-batch, with a checkpoint of its own; no Spark session.

    :param topics: of the broker
    :param topic: what it reads
    :param options: of the read
    """

    def __init__(self, topics: Topics, topic: str, **options: str) -> None:
        raw = {"kafka.bootstrap.servers": topics.hosts, "subscribe": topic, "startingOffsets": "earliest", **options}
        self._options = read_options(raw, Mode.STREAM_READ)
        #: The end of the last micro-batch.
        self.at: JsonOffsets | None = None
        self._readers: list[KafkaStreamReader] = []
        self.start()

    def start(self) -> None:
        """Start it, or start it again, in a new process so to say."""
        session.close_all()
        self.reader = KafkaStreamReader(self._options, ("value",))
        self._readers.append(self.reader)
        self.begin = self.reader.initialOffset() if self.at is None else self.at

    def plan(self) -> Sequence[InputPartition]:
        """Return the ranges of the next micro-batch, whose end the checkpoint has then."""
        end = self.reader.latestOffset(self.begin, ReadAllAvailable())
        planned = self.reader.partitions(self.begin, end) if end != self.begin else []
        self.begin = self.at = end
        return planned

    def read(self, planned: Sequence[InputPartition]) -> int:
        """Return the number of records of some ranges."""
        return sum(batch.num_rows for part in planned for batch in self.reader.read(part))

    def stop(self) -> None:
        """End it, and what is left of runs that were never ended."""
        for reader in self._readers:
            reader.stop()
        self._readers = []


def make_anew(topics: Topics, topic: str, count: int) -> None:
    """Make a topic anew, with more records than before."""
    topics.make_anew(topic)
    topics.produce(topic, [Record(b"new-%d" % n) for n in range(count)])


@pytest.mark.kafka
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_made_anew_within_a_run(topics: Topics, fail: str, caplog: pytest.LogCaptureFixture) -> None:
    topic = topics.create()
    topics.produce(topic, [Record(b"old")] * 10)
    query = Query(topics, topic, failOnDataLoss=fail)
    assert query.read(query.plan()) == 10
    make_anew(topics, topic, 25)
    if not WITH_IDS:
        assert query.read(query.plan()) == 15
    elif fail == "true":
        with pytest.raises(RecreatedTopicError, match=rf"It was read up to {topic}-0 at 10; .*failOnDataLoss to false"):
            query.plan()
    else:
        assert query.read(query.plan()) == 0
        assert query.at == {topic: {"0": 0}}
        assert query.read(query.plan()) == 25
        assert caplog.text.count("was deleted and recreated: its id was ") == 1
    query.stop()


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["stream", "batch"])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_made_anew_between_plan_and_task(topics: Topics, kind: str, fail: str) -> None:
    topic = topics.create()
    topics.produce(topic, [Record(b"old")] * 10)
    if kind == "stream":
        query = Query(topics, topic, failOnDataLoss=fail)
        planned, read = query.plan(), query.read
    else:
        raw = {"kafka.bootstrap.servers": topics.hosts, "subscribe": topic, "failOnDataLoss": fail}
        batch = KafkaBatchReader(read_options(raw, Mode.BATCH_READ), ("value",))
        planned = batch.partitions()

        def read(planned: Sequence[InputPartition]) -> int:
            return sum(found.num_rows for part in planned for found in batch.read(part))

    make_anew(topics, topic, 25)
    if not WITH_IDS:
        assert read(planned) == 10
    elif fail == "true":
        with pytest.raises(RecreatedTopicError, match=f"{topic}-0 was to be read from offset 0 to 9; "):
            read(planned)
    else:
        assert read(planned) == 0


@pytest.mark.kafka
@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("others", [0, 1])
def test_a_topic_made_anew_between_two_runs(
    topics: Topics, others: int, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The group tells its former id by the text of another topic; where there is none, that its offsets are gone."""
    topic, *more = (topics.create() for _ in range(1 + others))
    for each in (topic, *more):
        topics.produce(each, [Record(b"old")] * 10)
    options = {"failOnDataLoss": fail, "subscribe": ",".join((topic, *more)), "commitProgressTo": f"group-{topic}"}
    query = Query(topics, topic, **options)
    assert query.read(query.plan()) == 10 + 10 * others
    query.stop()
    # The same topic: nothing is told.
    query.start()
    assert query.read(query.plan()) == 0
    query.stop()
    make_anew(topics, topic, 25)
    query.start()
    if not WITH_IDS:
        assert query.read(query.plan()) == 15
    elif fail == "true":
        for _ in range(2):
            with pytest.raises(
                RecreatedTopicError if others else DataLossError,
                match=rf"{topic}-0 at 10; .*lost" if others else rf"has no offset of topic {topic}.*{topic}-0 at 10",
            ):
                query.plan()
            query.stop()
            query.start()
    elif others:
        assert query.read(query.plan()) == 0
        assert query.read(query.plan()) == 25
        assert query.read(query.plan()) == 0
    else:
        assert query.read(query.plan()) == 15
        assert "has no offset of topic" in caplog.text
    query.stop()
    if fail == "false" or not WITH_IDS:
        caplog.clear()
        query.start()
        assert query.read(query.plan()) == 0
        assert "recreated" not in caplog.text
        query.stop()


@pytest.mark.kafka
def test_a_run_that_is_killed_at_once(topics: Topics) -> None:
    """The group knows a topic before the checkpoint has it: nothing looks as if it had been deleted."""
    topic = topics.create()
    topics.produce(topic, [Record(b"old")] * 10)
    query = Query(topics, topic, commitProgressTo=f"group-{topic}")
    assert query.read(query.plan()) == 10
    query.start()
    topics.grow(topic, 2)
    topics.produce(topic, [Record(b"old", partition=1)] * 5)
    assert query.read(query.plan()) == 5
    query.start()
    assert query.read(query.plan()) == 0
    query.stop()


@pytest.mark.kafka
def test_a_query_without_news_keeps_its_group(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers forget offsets that were committed long ago, and the query would not know its topics after a restart."""
    topic = topics.create()
    topics.produce(topic, [Record(b"old")] * 10)
    query = Query(topics, topic, commitProgressTo=f"group-{topic}")
    query.plan()
    query.plan()
    with KafkaClient(topics.hosts) as client:
        # As if it had expired.
        GroupOffsets(client.cluster, f"group-{topic}", 100, 3).commit({TopicPartition(topic, 0): 1})
        monkeypatch.setattr("pykafka.spark.progress.AGAIN_S", 0.0)
        query.reader._progress._due_again = 0.0  # type: ignore[union-attr]
        query.plan()
        query.stop()
        found = GroupOffsets(client.cluster, f"group-{topic}", 100, 3).fetch([TopicPartition(topic, 0)])
    assert [(at.offset, "topic ids: " in at.metadata) for at in found.values()] == [(10, True)]


@pytest.mark.kafka
def test_a_query_that_reads_up_to_the_present_commits_the_end(topics: Topics) -> None:
    """Spark may end this process without a call of stop()."""
    topic = topics.create()
    topics.produce(topic, [Record(b"old")] * 10)
    query = Query(topics, topic, commitProgressTo=f"group-{topic}")
    query.reader.prepareForTriggerAvailableNow()
    assert query.read(query.plan()) == 10
    assert query.read(query.plan()) == 0
    with KafkaClient(topics.hosts) as client:
        found = GroupOffsets(client.cluster, f"group-{topic}", 100, 3).fetch([TopicPartition(topic, 0)])
    assert [at.offset for at in found.values()] == [10]
    query.stop()


@pytest.mark.kafka
@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_that_retention_takes_between_plan_and_task(
    topics: Topics, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create()
    topics.produce(topic, [Record(b"old")] * 10)
    query = Query(topics, topic, failOnDataLoss=fail)
    planned = query.plan()
    topics.delete_before(topic, 0, 4)
    sentence = (
        rf"{topic}-0 was to be read from offset 0 to 9, but it begins at 4 .* offsets 0 to 3 are gone \(4 offsets\)"
    )
    if fail == "true":
        with pytest.raises(DataLossError, match=sentence):
            query.read(planned)
    else:
        assert query.read(planned) == 6
        assert re.search(sentence, caplog.text)
    query.stop()
