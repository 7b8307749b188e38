"""kafka.isolation.level: what transactions wrote, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark.topics import Record, Topics

#: Where a transaction begins that stays open, and where the partition ends.
OPEN, END = 10, 14
Read = Callable[..., DataFrame]

pytestmark = pytest.mark.needs("transactions")


@pytest.fixture(scope="module")
def topic(topics: Topics) -> Iterator[str]:
    """Yield a topic; values begin with what became of them. The last transaction of partition 0 is open."""
    name = topics.create(partitions=3)
    topics.produce(name, [Record(b"plain-%d" % n, None, n % 2) for n in range(10)])
    for codec in ("none", "zstd"):
        for end in ("commit", "abort"):
            topics.transaction(name, [Record(f"{end}-{n}".encode(), None, n % 2) for n in range(50)], end, codec)
    topics.produce(name, [Record(b"plain-10"), Record(b"plain-11", None, 1)])
    topics.transaction(name, [Record(b"abort-last", None, 1)], "abort")
    topics.transaction(name, [Record(b"abort-only", None, 2)] * 5, "abort")
    waiting = topics.transaction(name, [Record(b"open-1")], "open")
    topics.produce(name, [Record(b"behind-1")])
    yield name
    waiting.abort_transaction(30)


def counts(frame: DataFrame) -> dict[str, int]:
    """Return how many rows there are of each kind."""
    rows = frame.selectExpr("split_part(CAST(value AS STRING), '-', 1) AS kind").groupBy("kind").count().collect()
    return {row.kind: row["count"] for row in rows}


def test_only_what_was_committed(read: Read, topic: str) -> None:
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    assert counts(read(**options)) == {"plain": 12, "commit": 100}
    assert counts(read(**options, minPartitions="9")) == {"plain": 12, "commit": 100}
    # Fetches that end within a transaction are told of it all the same.
    assert counts(read(**options, **{"kafka.max.partition.fetch.bytes": "300"})) == {"plain": 12, "commit": 100}


def test_everything(read: Read, topic: str) -> None:
    assert counts(read(subscribe=topic)) == {"plain": 12, "commit": 100, "abort": 106, "open": 1, "behind": 1}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"endingOffsets": {"0": END}},
            "up to offset {end}, and a transaction is open from offset {open} on.*no further",
        ),
        ({"startingOffsets": {"0": END}}, "from offset {end}, and a transaction is open from offset {open} on"),
        ({"endingOffsets": {"0": END + 1}}, "up to offset {beyond}, but it ends at {open}"),
    ],
    ids=["end", "start", "not-there"],
)
def test_offsets_behind_an_open_transaction(
    read: Read, topics: Topics, options: dict[str, dict[str, int]], sentence: str
) -> None:
    """The plan says so at once, and whose offset; as a warning, it continues with what comes before."""
    name = topics.create()
    topics.produce(name, [Record(b"plain-1")] * OPEN)
    waiting = topics.transaction(name, [Record(b"open-1")], "open")
    topics.produce(name, [Record(b"behind-1")] * (END - OPEN - 1))
    given = {key: json.dumps({name: value}) for key, value in options.items()}
    frame = read(subscribe=name, **given, **{"kafka.isolation.level": "read_committed"})
    expected = sentence.format(end=END, beyond=END + 1, open=OPEN)
    with pytest.raises(PySparkException, match=f"(?s){name}-0 was to be read {expected}"):
        frame.collect()
    given["failOnDataLoss"] = "false"
    frame = read(subscribe=name, **given, **{"kafka.isolation.level": "read_committed"})
    assert counts(frame) == ({} if "startingOffsets" in options else {"plain": OPEN})
    waiting.abort_transaction(30)


def test_a_stream_behind_an_open_transaction(
    spark: SparkSession, read_stream: Read, topics: Topics, tmp_path: Path
) -> None:
    """A query that read uncommitted records, and reads committed ones now, waits until the transaction has ended."""
    name = topics.create()
    topics.produce(name, [Record(b"plain-1")] * OPEN)
    waiting = topics.transaction(name, [Record(b"open-1")], "open")
    topics.produce(name, [Record(b"behind-1")] * (END - OPEN - 1))

    def run(level: str) -> int:
        frame = read_stream(subscribe=name, startingOffsets="earliest", **{"kafka.isolation.level": level})
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out")).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(60)
        return spark.read.schema(frame.schema).parquet(str(tmp_path / "out")).count()

    assert run("read_uncommitted") == END
    topics.produce(name, [Record(b"behind-2")])
    assert run("read_committed") == END
    waiting.abort_transaction(30)
    assert run("read_committed") == END + 1


def test_a_range_of_nothing_but_aborted_records(read: Read, topic: str) -> None:
    frame = read("offset bigint", assign=f'{{"{topic}":[2]}}', **{"kafka.isolation.level": "read_committed"})
    assert frame.count() == 0
