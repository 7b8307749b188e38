"""Errors of a batch read: of the cluster when it is planned, of the records when a task reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pykafka.common import TopicPartition
from pykafka.spark import session
from pykafka.spark.errors import DataLossError
from pykafka.spark.offsets import OffsetRange
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.reader import read_range
from tests.support.spark.topics import Topics

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": {"0": 11}}, "was to be read from offset 11, but it ends at 10.*failOnDataLoss"),
        (
            {"startingOffsets": {"0": 2}},
            "was to be read from offset 2, but its oldest record left is 4.*failOnDataLoss",
        ),
        ({"endingOffsets": {"0": 12}}, "was to be read up to offset 12, but it ends at 10.*failOnDataLoss"),
        (
            {"startingOffsets": {"0": 9, "1": 0}},
            "'startingOffsets' must name exactly .*-1 is not read or does not exist",
        ),
        ({"assign": [0, 7]}, "assign: .*-7 does not exist on .*; create it, or correct the name"),
        ({"startingOffsets": {"0": 9}, "endingOffsets": {"0": 8}}, "is to start at 9 .offset. and to end at 8"),
        ({"endingOffsets": {"0": 3}}, "is to be read from offset 4 to 3, which is before it"),
    ],
)
def test_offsets_that_cannot_be(
    read: Callable[..., DataFrame], damaged: str, options: dict[str, object], sentence: str
) -> None:
    given = {name: json.dumps({damaged: value}) for name, value in options.items()}
    what = {} if "assign" in given else {"subscribe": damaged}
    with pytest.raises(PySparkException, match=f"(?s){sentence}"):
        read(**what, **given).collect()


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "'kafka.bootstrap.servers' is missing"),
        ({"kafka.bootstrap.servers": "h:1"}, "say what to read: one of them must be given"),
        ({"kafka.bootstrap.servers": "h:1", "subscribe": "a", "assign": "{}"}, "option 'assign' is '{}': it names no"),
        ({"kafka.bootstrap.servers": "h:1", "subscribe": "a", "startingOffset": "earliest"}, "did you mean 'startingO"),
    ],
    ids=["brokers", "topics", "malformed", "unknown"],
)
def test_options_are_refused_by_load(
    spark: SparkSession, options: dict[str, str], sentence: str, streaming: bool
) -> None:
    """And not only when a query runs, which for a stream is in the background."""
    reader = spark.readStream if streaming else spark.read
    with pytest.raises(PySparkException, match=sentence):
        reader.format("pykafka").options(**options).load()


@pytest.fixture(scope="module")
def damaged(topics: Topics) -> str:
    """Return a topic of ten records of which the first four are gone."""
    topic = topics.create()
    topics.numbered(topic, {0: 10})
    topics.delete_before(topic, 0, 4)
    return topic


@pytest.fixture
def clients_closed() -> Iterator[None]:
    yield
    session.close_all()


def taken(topics: Topics, topic: str, fail: str, first: int = 0) -> list[int]:
    """Return the offsets that a task gives which was planned to read up to the tenth record."""
    raw = {"kafka.bootstrap.servers": topics.hosts, "subscribe": topic, "failOnDataLoss": fail}
    planned = OffsetRange(TopicPartition(topic, 0), first, 10)
    batches = read_range(planned, read_options(raw, Mode.BATCH_READ), ("offset",))
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


@pytest.mark.usefixtures("clients_closed")
def test_records_deleted_after_planning(topics: Topics, damaged: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLossError, match="from offset 0 to 9, but it begins at 4"):
        taken(topics, damaged, "true")
    assert taken(topics, damaged, "false") == [4, 5, 6, 7, 8, 9]
    assert "begins at 4" in caplog.text


@pytest.mark.usefixtures("clients_closed")
def test_a_topic_deleted_after_planning(
    topics: Topics, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka.spark.reader.UNKNOWN_FOR_S", 0.5)
    topic = topics.create()
    topics.numbered(topic, {0: 10})
    topics.delete(topic)
    with pytest.raises(DataLossError, match=f"{topic}-0 does not exist any more.*the topic was deleted"):
        taken(topics, topic, "true")
    assert taken(topics, topic, "false") == []
    assert "does not exist any more" in caplog.text


@pytest.mark.usefixtures("clients_closed")
def test_a_topic_made_anew_after_planning(topics: Topics) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 3})
    with pytest.raises(DataLossError, match="from offset 5 to 9, but it begins at 0 and ends before 3"):
        taken(topics, topic, "true", first=5)
