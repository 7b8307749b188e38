"""Parquet files that the source's tasks write: the records as they are, once, whoever wrote before or was killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pykafka.cli.exit_status import Status
from pykafka.spark.pipeline.storage import SINK_LOG
from tests.spark.test_pipeline import Directory, clicks
from tests.support.spark.standalone import ROOT, spark_environment
from tests.support.spark.topics import Record, Topics

KILLS = 10
TIMEOUT_S = 120


@pytest.fixture
def made(tmp_path: Path, topics: Topics, spark: SparkSession) -> Directory:
    """Return a place for a pipeline."""
    return Directory(tmp_path, topics.hosts, spark)


def declare(made: Directory, topic: str, writer: str, source: str = "") -> None:
    """Declare that records become files as they are."""
    sink = f'[sink]\nformat = "parquet"\npath = "{made.path}/landed"\nwriter = "{writer}"\n'
    made.declare(topic, source, sink=sink)


def content(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return rows in order, with everything that a record has."""
    found = [
        (r.partition, r.offset, r.key, r.value, r.topic, r.timestamp, r.timestampType, r.headers and [*r.headers])
        for r in rows
    ]
    return sorted(found, key=lambda row: row[:2])


def of_topic(made: Directory, topic: str) -> list[tuple[Any, ...]]:
    """Return what Spark reads of a topic."""
    reader = made.spark.read.format("pykafka").option("kafka.bootstrap.servers", made.hosts).option("subscribe", topic)
    return content(reader.option("includeHeaders", "true").load().collect())


def test_tasks_and_spark_write_in_turn(made: Directory, topics: Topics) -> None:
    """One checkpoint and one directory serve both; each counts records, and leaves out what the log has."""
    topic = topics.create(3)
    for number, writer in enumerate(("arrow", "spark", "arrow")):
        first = 100 * number
        topics.produce(topic, [*clicks(range(first, first + 100)), Record(None, b"tombstone", 2)])
        declare(made, topic, writer, "[source.options]\nmaxOffsetsPerTrigger = 60")
        assert made.run().records == 101
        assert content(made.rows()) == of_topic(made, topic)
    # As after a crash before the last commit: Spark repeats the micro-batch, which the log has.
    commits = made.path / "checkpoint" / "records" / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    made.run()
    assert content(made.rows()) == of_topic(made, topic)
    # And before the entry in the log: what the tasks had written does not count.
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    entry = made.path / "landed" / SINK_LOG / str(last)
    assert entry.exists(), [path.name for path in entry.parent.iterdir()]
    entry.unlink()
    (entry.parent / f".{last}.crc").unlink(missing_ok=True)
    made.run()
    assert content(made.rows()) == of_topic(made, topic)


def test_dry_run(made: Directory, topics: Topics) -> None:
    """It plans the files, and writes none."""
    topic = topics.create()
    topics.produce(topic, clicks(range(0, 9, 3)))
    declare(made, topic, "arrow")
    result = made.command("--dry-run")
    assert result.exit_code == Status.OK, result.output
    assert f"Parquet in {made.path}/landed, written by the source's tasks" in result.output
    assert not list(made.path.glob("landed/part-*"))


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(1200)
def test_killed_drivers(made: Directory, topics: Topics) -> None:
    """Ten drivers are killed at random, with their JVMs and workers: each record is there once."""
    topic = topics.create(2)
    declare(made, topic, "arrow", "[source.options]\nmaxOffsetsPerTrigger = 500")
    text = made.file.read_text()
    made.file.write_text(f'trigger = "200 milliseconds"\n{text}')
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for turn in range(KILLS):
        topics.numbered(topic, {0: 1500, 1: 1500}, first=turn * 3000)
        with (made.path / "log").open("wb") as log:
            command = [sys.executable, "-m", "pykafka.cli", "pipeline", str(made.file)]
            process = subprocess.Popen(
                command, cwd=ROOT, env=spark_environment(), stdout=log, stderr=log, start_new_session=True
            )
        try:
            before = set((made.path / "landed").glob("part-*"))
            deadline = time.monotonic() + TIMEOUT_S
            while not set((made.path / "landed").glob("part-*")) - before:
                assert process.poll() is None, (made.path / "log").read_text()[-5000:]
                assert time.monotonic() < deadline, (made.path / "log").read_text()[-5000:]
                time.sleep(0.02)
            time.sleep(chance.uniform(0, 1.5))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(TIMEOUT_S)
    made.file.write_text(text)
    made.run()
    assert content(made.rows()) == of_topic(made, topic)
    assert len(made.rows()) == KILLS * 3000
