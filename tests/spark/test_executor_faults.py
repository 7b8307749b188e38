"""Tasks of source and sink while brokers misbehave: an embedded cluster with faults made to order, no Spark."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pykafka.client import KafkaClient
from pykafka.common import TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import UnpackedTooLargeError
from pykafka.network.in_flight import InFlightRequest
from pykafka.network.node import Node
from pykafka.protocol import wire
from pykafka.spark import session
from pykafka.spark.errors import DataLossError, PollTimeoutError, SinkError
from pykafka.spark.offsets import OffsetRange
from pykafka.spark.options import ReadOptions, WriteOptions, read_options, write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.reader import RangeReader, read_range
from pykafka.spark.writer import write_rows
from tests.support import scripted
from tests.support.spark.topics import Record, Topics

TOPIC = "t"
COLUMNS = ("offset", "value")


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, topics={TOPIC: 2}) as embedded:
        embedded.set_leader(TOPIC, 0, 1)
        embedded.set_leader(TOPIC, 1, 2)
        yield embedded


@pytest.fixture(autouse=True)
def clients_closed() -> Iterator[None]:
    yield
    session.close_all()


def reading(cluster: EmbeddedCluster, **options: str) -> ReadOptions:
    raw = {"kafka.bootstrap.servers": cluster.hosts, "subscribe": TOPIC, "kafka.fetch.max.wait.ms": "50", **options}
    return read_options(raw, Mode.BATCH_READ)


def writing(cluster: EmbeddedCluster, **options: str) -> WriteOptions:
    return write_options({"kafka.bootstrap.servers": cluster.hosts, "topic": TOPIC, **options}, Mode.BATCH_WRITE)


def fill(cluster: EmbeddedCluster, count: int) -> list[bytes]:
    """Produce to partition 0, in batches of ten."""
    values = [f"{n}".encode() for n in range(count)]
    topics = Topics(cluster.hosts)
    for first in range(0, count, 10):
        topics.produce(TOPIC, [Record(value) for value in values[first : first + 10]])
    return values


def read(cluster: EmbeddedCluster, start: int, end: int, **options: str) -> Iterator[pa.RecordBatch]:
    return read_range(OffsetRange(TopicPartition(TOPIC, 0), start, end), reading(cluster, **options), COLUMNS)


def values(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_a_short_range_is_fetched_without_what_lies_behind_it(cluster: EmbeddedCluster) -> None:
    expected = fill(cluster, 60)
    assert values(read(cluster, 0, 60)) == expected
    options = reading(cluster)
    reader = RangeReader(
        session.cluster_for(options.client), OffsetRange(TopicPartition(TOPIC, 0), 5, 15), options, COLUMNS
    )
    assert reader._bytes_to_fetch() < 2000
    assert values(reader.batches()) == expected[5:15]


def test_a_batch_that_unpacks_to_too_much_ends_the_task_by_name(cluster: EmbeddedCluster) -> None:
    with KafkaClient(cluster.hosts) as client, client.producer(compression="zstd", linger_ms=0) as producer:
        for value in (b"before", bytes(900_000), b"behind"):
            producer.produce(TOPIC, value, partition=0).get(20)
    with pytest.raises(UnpackedTooLargeError) as caught:
        list(read(cluster, 0, 3, unpackedMaxBytes="500000"))
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.limit) == (TOPIC, 0, 1, 500_000)
    assert "unpackedMaxBytes allows 500,000 bytes" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert values(read(cluster, 2, 3, unpackedMaxBytes="500000")) == [b"behind"]
    assert values(read(cluster, 0, 3)) == [b"before", bytes(900_000), b"behind"]


def test_a_leader_moves_while_a_range_is_read(cluster: EmbeddedCluster) -> None:
    expected = fill(cluster, 60)
    batches = read(cluster, 5, 55, **{"kafka.max.partition.fetch.bytes": "100"})
    found = next(batches).column("value").to_pylist()
    cluster.set_leader(TOPIC, 0, 3)
    assert found + values(batches) == expected[5:55]


@pytest.mark.parametrize(
    "faults",
    [
        ["NOT_LEADER_OR_FOLLOWER"] * 3,
        ["UNKNOWN_TOPIC_OR_PART"] * 3,
        ["DISCONNECT"] * 2,
        ["REQUEST_TIMED_OUT", "DISCONNECT", "NOT_LEADER_OR_FOLLOWER"],
    ],
    ids=lambda faults: "-".join(dict.fromkeys(faults)),
)
def test_a_fetch_that_fails_is_sent_again(cluster: EmbeddedCluster, faults: list[str]) -> None:
    expected = fill(cluster, 30)
    cluster.inject_errors("Fetch", *faults)
    assert values(read(cluster, 0, 30)) == expected


def test_a_broker_comes_back(cluster: EmbeddedCluster) -> None:
    expected = fill(cluster, 60)
    batches = read(cluster, 0, 60, **{"kafka.max.partition.fetch.bytes": "100"})
    found = next(batches).column("value").to_pylist()
    cluster.broker_down(1)
    cluster.broker_up(1)
    assert found + values(batches) == expected


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_range_that_the_log_does_not_reach(
    cluster: EmbeddedCluster, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic was recreated, or cut, after the range was planned: no wait brings its records back."""
    sentence = (
        r"t-0 was to be read from offset 10 to 19, but it ends before 10 now: offsets 10 to 19 are gone \(10 offsets\)"
    )
    expected = fill(cluster, 10)
    batches = read(cluster, 0, 20, failOnDataLoss=fail, **{"kafkaConsumer.pollTimeoutMs": "300"})
    if fail == "true":
        with pytest.raises(DataLossError, match=sentence):
            values(batches)
    else:
        assert values(batches) == expected
        assert re.search(sentence, caplog.text)


def test_records_that_never_come(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader says that there are some, and gives none."""
    fill(cluster, 10)
    monkeypatch.setattr(RangeReader, "_skip_unwritten", lambda _: False)
    batches = read(cluster, 0, 20, **{"kafkaConsumer.pollTimeoutMs": "300"})
    with pytest.raises(
        PollTimeoutError, match="no record of offsets 10 to 19 came within 300 ms: the partition ends at"
    ):
        values(batches)


def test_a_leader_that_is_away_too_long(cluster: EmbeddedCluster) -> None:
    fill(cluster, 10)
    session.cluster_for(reading(cluster).client)
    cluster.broker_down(1)
    options = {"kafkaConsumer.pollTimeoutMs": "500", "kafka.request.timeout.ms": "1000"}
    with pytest.raises(
        PollTimeoutError, match=r"offsets 0 to 9 came within 500 ms: .*Check that the partition's leader is up"
    ):
        values(read(cluster, 0, 10, **options))


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_range_behind_the_end(cluster: EmbeddedCluster, fail: str, caplog: pytest.LogCaptureFixture) -> None:
    sentence = (
        "t-0 was to be read from offset 15 to 19, but it begins at 0 and ends before 10 now: offsets 15 to 19 are gone"
    )
    fill(cluster, 10)
    batches = read(cluster, 15, 20, failOnDataLoss=fail)
    if fail == "true":
        with pytest.raises(DataLossError, match=sentence):
            values(batches)
    else:
        assert values(batches) == []
        assert sentence in caplog.text


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_leader_whose_log_has_lost_what_was_read(
    cluster: EmbeddedCluster, fail: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its answer to the epoch of the last record that was read tells, and the task then reads what there is."""
    expected = fill(cluster, 60)
    epochs: list[int] = []
    send, take = Node.send, InFlightRequest.get

    def sent(broker: Node, request: Any, *words: Any, **more: Any) -> Any:
        if isinstance(request, wire.FetchRequest):
            epochs.append(request.topics[0].partitions[0].last_fetched_epoch)
        return send(broker, request, *words, **more)

    def taken(pending: Any) -> Any:
        response = take(pending)
        if isinstance(response, wire.FetchResponse):
            part = response.responses[0].partitions[0]
            diverging.append(bool(epochs[len(diverging)] >= 0 and True not in diverging))
            if diverging[-1]:
                part.diverging_epoch.end_offset, part.records = 4, None
        return response

    diverging: list[bool] = []
    monkeypatch.setattr(Node, "send", sent)
    monkeypatch.setattr(InFlightRequest, "get", taken)
    batches = read(cluster, 0, 60, failOnDataLoss=fail, **{"kafka.max.partition.fetch.bytes": "100"})
    sentence = r"t-0 was read up to offset \d+, but its leader has another log: .* were read: offsets 4 to \d+ are gone"
    if fail == "true":
        with pytest.raises(DataLossError, match=sentence):
            values(batches)
    else:
        assert values(batches) == expected
        assert re.search(sentence, caplog.text)
    assert epochs[0] == -1
    assert diverging.count(True) == 1


def test_a_read_given_up_leaves_the_connection_usable(cluster: EmbeddedCluster) -> None:
    expected = fill(cluster, 60)
    for _ in range(3):
        batches = read(cluster, 0, 60, **{"kafka.max.partition.fetch.bytes": "100"})
        assert next(batches).num_rows
        batches.close()  # type: ignore[attr-defined]
    assert values(read(cluster, 0, 60)) == expected


def rows(count: int, first: int = 0) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch(
        {"value": [f"{n}" for n in numbers], "partition": pa.array([n % 2 for n in numbers], pa.int32())}
    )


@pytest.mark.parametrize(
    "faults",
    [
        ["NOT_LEADER_OR_FOLLOWER"] * 3,
        ["NOT_ENOUGH_REPLICAS"] * 2,
        ["DISCONNECT"] * 2,
        ["REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER", "DISCONNECT"],
    ],
    ids=lambda faults: "-".join(dict.fromkeys(faults)),
)
def test_batches_that_fail_are_sent_again_in_order(cluster: EmbeddedCluster, faults: list[str]) -> None:
    cluster.inject_errors("Produce", *faults)
    batches = [rows(1000, 1000 * n) for n in range(10)]
    written = write_rows(
        iter(batches), writing(cluster, **{"kafka.max.request.size": "10000"}), frozenset({"value", "partition"})
    )
    assert written == {TOPIC: 10_000}
    found = Topics(cluster.hosts).read(TOPIC, 10_000)
    for partition in (0, 1):
        numbers = [int(record.value or b"-1") for record in found if record.partition == partition]
        assert numbers == list(range(partition, 10_000, 2))


def test_a_leader_moves_while_rows_are_written(cluster: EmbeddedCluster) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(10):
            if n == 5:
                cluster.set_leader(TOPIC, 0, 3)
            yield rows(1000, 1000 * n)

    written = write_rows(
        batches(), writing(cluster, **{"kafka.max.request.size": "10000"}), frozenset({"value", "partition"})
    )
    assert written == {TOPIC: 10_000}
    assert len({record.value for record in Topics(cluster.hosts).read(TOPIC, 10_000)}) == 10_000


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", "5 rows were not acknowledged: "),
        ("NOT_ENOUGH_REPLICAS", "5 rows were not acknowledged within 700 ms (kafka.delivery.timeout.ms): "),
    ],
)
def test_rows_that_are_refused_fail_the_task(cluster: EmbeddedCluster, fault: str, sentence: str) -> None:
    cluster.inject_errors("Produce", *[fault] * 100)
    options = writing(cluster, **{"kafka.delivery.timeout.ms": "700"})
    with pytest.raises(SinkError, match=re.escape(sentence)) as caught:
        write_rows(iter([rows(10)]), options, frozenset({"value", "partition"}))
    assert "Of this task's rows 0 are written" in str(caught.value)


def test_a_row_that_cannot_be_written_tells_of_those_before(cluster: EmbeddedCluster) -> None:
    batches = [rows(1000), pa.record_batch({"value": ["x"], "partition": pa.array([7], pa.int32())})]
    with pytest.raises(SinkError, match="'partition' has 7") as caught:
        write_rows(
            iter(batches), writing(cluster, **{"kafka.max.request.size": "5000"}), frozenset({"value", "partition"})
        )
    (note,) = caught.value.__notes__
    told = re.fullmatch(
        rf"pykafka: Of this task's rows (\d+) to {TOPIC} are written, 0 may be and 0 waited; when Spark .*", note
    )
    assert told is not None, note
    assert len(Topics(cluster.hosts).read(TOPIC, int(told[1]))) > 0


def test_tasks_after_one_that_failed(cluster: EmbeddedCluster) -> None:
    columns = frozenset({"value", "partition"})
    for first in (0, 10):
        write_rows(iter([rows(10, first)]), writing(cluster), columns)
    cluster.inject_errors("Produce", "TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(SinkError):  # of one partition, as other requests of the task are not refused
        write_rows(iter([rows(1)]), writing(cluster), columns)
    write_rows(iter([rows(10, 20)]), writing(cluster), columns)
    consumed = Topics(cluster.hosts).read(TOPIC, 30)
    assert sorted(int(record.value or b"-1") for record in consumed) == list(range(30))


def test_a_topic_that_does_not_exist_is_named(cluster: EmbeddedCluster) -> None:
    cluster.set_topic_error("absent", "UNKNOWN_TOPIC_OR_PART")
    options: Any = writing(cluster, topic="absent")
    with pytest.raises(SinkError, match="the topic 'absent' does not exist on"):
        write_rows(iter([rows(1)]), options, frozenset({"value"}))


def test_a_leader_that_names_itself_as_the_closest_replica_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task would go to and fro between a broker and itself, without a deadline."""
    monkeypatch.setitem(scripted.VERSIONS, wire.FetchRequest, 11)
    with scripted.NamesItself() as broker:
        raw = {"kafka.bootstrap.servers": broker.hosts, "subscribe": scripted.TOPIC, "kafka.client.rack": "north"}
        options = read_options(raw | {"kafka.fetch.max.wait.ms": "50"}, Mode.BATCH_READ)
        wanted = OffsetRange(TopicPartition(scripted.TOPIC, 0), 0, 1)
        assert values(read_range(wanted, options, COLUMNS)) == [b"message"]
        assert broker.fetches < 20
        session.close_all()


def test_rows_below_the_next_offset_are_read_once() -> None:
    """The batches of an answer overlap and go back: offsets 0 to 2, 1 to 3, 0, and 4."""
    offsets = ([0, 1, 2], [1, 2, 3], [0], [4])
    data = b"".join(scripted.batch([b"%d" % offset for offset in group], group[0]) for group in offsets)
    with scripted.ScriptedBroker(data) as broker:
        options = read_options({"kafka.bootstrap.servers": broker.hosts, "subscribe": scripted.TOPIC}, Mode.BATCH_READ)
        wanted = OffsetRange(TopicPartition(scripted.TOPIC, 0), 0, 5)
        assert values(read_range(wanted, options, COLUMNS)) == [b"0", b"1", b"2", b"3", b"4"]
        session.close_all()
