"""Tasks of Spark make one span each, which counts the traces of their rows; no Spark runs here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.otel import batches
from pykafka.otel.spans import Spans
from pykafka.spark import session
from pykafka.spark.batch import KafkaInputPartition, read_partition
from pykafka.spark.errors import SinkError
from pykafka.spark.options import read_options, write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.sink import KafkaBatchWriter
from tests.support.spans import Telemetry


@pytest.fixture(autouse=True)
def spans(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the process the providers of the test, and close its connections."""
    made = Spans(session.handler, telemetry.tracer_provider, telemetry.meter_provider, {})
    monkeypatch.setattr(batches, "_spans", made)
    monkeypatch.setattr(session, "freeze_objects", lambda: None)
    yield
    made.finisher.stop()
    session.close_all()


@pytest.fixture
def filled(cluster: EmbeddedCluster, telemetry: Telemetry, topic: str) -> str:
    """Return a topic with 20 messages of two traces, and 5 of none."""
    tracer = telemetry.tracer_provider.get_tracer("test")
    with KafkaClient(cluster.hosts) as client:
        with client.producer() as producer:
            producer.produce_many(topic, [b"x"] * 5)
        telemetry.instrument(client)
        for _ in range(2):
            with tracer.start_as_current_span("request"), client.producer() as producer:
                producer.produce_many(topic, [b"x"] * 10)
    return topic


@pytest.mark.parametrize("headers", [True, False])
def test_a_task_that_reads(cluster: EmbeddedCluster, telemetry: Telemetry, filled: str, headers: bool) -> None:
    raw = {"kafka.bootstrap.servers": cluster.hosts, "subscribe": filled, "traces": "true"}
    options = read_options(raw, Mode.BATCH_READ)
    columns = ("value", "headers") if headers else ("value",)
    rows = sum(one.num_rows for one in read_partition(KafkaInputPartition(filled, 0, 0, 25, None), options, columns))
    assert rows == 25
    (span,) = [span for span in telemetry.exported() if span.name == "poll " + filled]
    assert span.attributes["messaging.batch.message_count"] == 25
    assert span.attributes["messaging.destination.partition.id"] == "0"
    assert span.attributes.get("messaging.kafka.batch.trace_count") == (2 if headers else None)
    (consumed,) = telemetry.points("messaging.client.consumed.messages")
    assert consumed.value == 25


def rows_of(count: int, **more: Any) -> pa.RecordBatch:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    parent = b"00-%032x-%016x-01"
    headers = [[("traceparent", parent % (number % 3 + 1, 1)), ("own", b"1")] for number in range(count)]
    pairs = [[{"key": key, "value": value} for key, value in one] for one in headers]
    return pa.RecordBatch.from_pydict(
        {"value": pa.array([b"x"] * count, pa.binary()), "headers": pa.array(pairs, kind), **more}
    )


def test_a_task_that_writes(cluster: EmbeddedCluster, telemetry: Telemetry, topic: str) -> None:
    raw = {"kafka.bootstrap.servers": cluster.hosts, "topic": topic, "traces": "true"}
    writer = KafkaBatchWriter(write_options(raw, Mode.BATCH_WRITE), frozenset({"headers"}))
    writer.write(iter([rows_of(10), rows_of(5)]))
    writer.write(iter([]))
    (span,) = telemetry.exported()
    assert span.name == "send " + topic
    assert span.attributes["messaging.batch.message_count"] == 15
    assert span.attributes["messaging.kafka.batch.trace_count"] == 3
    (sent,) = telemetry.points("messaging.client.sent.messages")
    assert sent.value == 15


def test_a_task_that_fails(cluster: EmbeddedCluster, telemetry: Telemetry, topic: str) -> None:
    raw = {"kafka.bootstrap.servers": cluster.hosts, "traces": "true"}
    writer = KafkaBatchWriter(write_options(raw, Mode.BATCH_WRITE), frozenset({"headers", "topic"}))
    names = pa.array([topic, None], pa.string())
    with pytest.raises(SinkError):
        writer.write(iter([rows_of(2, topic=names)]))
    (span,) = telemetry.exported()
    assert (span.name, span.attributes["error.type"]) == ("send", "SinkError")


def test_distinct_traces_are_counted_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    count = batches.DistinctCount()
    for _ in range(2):
        count.add(b"%d" % number for number in range(batches.KEPT_MAX))
    assert count.value == batches.KEPT_MAX  # exact so far
    for first in range(0, 200_000, 1000):
        count.add(b"%d" % number for number in range(first, first + 1000))
    assert count.value == pytest.approx(200_000, rel=0.15)
    assert len(count._lowest) <= batches.KEPT_MAX


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["text"]),
        pa.array([[1]], pa.list_(pa.int64())),
        pa.array(
            [[{"key": b"traceparent", "value": 1}]], pa.list_(pa.struct([("key", pa.binary()), ("value", pa.int64())]))
        ),
    ],
)
def test_headers_of_another_shape(column: pa.Array) -> None:
    """They cost the count, and not the task; that is reported."""
    failed: list[str] = []
    counts = batches.BatchCounts(lambda what, error: failed.append(what))
    batch = pa.RecordBatch.from_pydict({"headers": column})
    assert list(counts.look(iter([batch, batch]))) == [batch, batch]
    assert counts.rows == 2
    assert failed == ["counting the traces of rows"] * 2
    assert counts.traces is None


def test_no_headers_and_headers_without_a_trace() -> None:
    failed: list[str] = []
    counts = batches.BatchCounts(lambda what, error: failed.append(what))
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    pairs = [None, [], [{"key": None, "value": b"x"}], [{"key": "traceparent", "value": None}]]
    large = pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    more = [[{"key": "traceparent", "value": b"00-" + b"a" * 32 + b"-x"}]]
    for column in (pa.array(pairs, kind), pa.array(more, large)):
        list(counts.look(iter([pa.RecordBatch.from_pydict({"headers": column})])))
    assert counts.traces == 1
    assert failed == []


def test_without_the_option(cluster: EmbeddedCluster, telemetry: Telemetry, topic: str) -> None:
    raw = {"kafka.bootstrap.servers": cluster.hosts, "topic": topic}
    KafkaBatchWriter(write_options(raw, Mode.BATCH_WRITE), frozenset()).write(iter([rows_of(1)]))
    assert telemetry.exported() == []
