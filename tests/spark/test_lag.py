"""How far a streaming query is behind: by a listener, and by the tools that watch consumer groups."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pykafka.common import TopicPartition
from pykafka.spark import session
from pykafka.spark.lag import LagListener, QueryLag, query_lag
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.progress import Progress, ProgressCommitter
from tests.support.spark.topics import QUIET, Topics

Read = Callable[..., DataFrame]
TIMEOUT_S = 300
#: Progresses of PySpark 4.0 and 4.1 do not have what it takes.
LAG_KNOWN = find_spec("pyspark.sql.streaming.datasource") is not None


def start(frame: DataFrame, path: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(path))
    return writer.queryName("job").trigger(**trigger).start()


def committed(topics: Topics, topic: str, group: str) -> list[int]:
    """Return what `kafka-tools print_consumer_lag` says: the committed offset of each partition, and the total lag."""
    command = [sys.executable, "-m", "pykafka.cli", "-b", topics.hosts, "print_consumer_lag", topic, group, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == 0, result.stderr
    lag = json.loads(result.stdout)
    return [*(partition["committed"] for partition in lag["partitions"]), lag["total"]]


def test_a_query_tells_its_lag(spark: SparkSession, read_stream: Read, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create(partitions=2)
    topics.numbered(topic, {0: 20, 1: 10})
    told: list[QueryLag] = []
    listener = LagListener(told.append)
    spark.streams.addListener(listener)
    try:
        frame = read_stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="12")
        query = start(frame, tmp_path, processingTime="0 seconds")
        try:
            query.processAllAvailable()
            last = query_lag(query.lastProgress)
            deadline = time.monotonic() + TIMEOUT_S
            while LAG_KNOWN and len(told) < 3:
                assert time.monotonic() < deadline, told
                time.sleep(0.05)
            if LAG_KNOWN:
                assert last == told[2] == listener.lags[query.runId]
                assert [(lag.query, lag.batch, lag.total) for lag in told] == [
                    ("job", n, 18 - 12 * n) for n in (0, 1)
                ] + [("job", 2, 0)]
                assert {str(tp): lag for tp, lag in told[0].partitions.items()} == {f"{topic}-0": 12, f"{topic}-1": 6}
            else:
                assert last is None
        finally:
            query.stop()
        while listener.lags:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)


def test_tools_that_watch_groups_see_the_progress(read_stream: Read, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create(partitions=2)
    group = f"progress-of-{topic}"
    topics.numbered(topic, {0: 20, 1: 10})
    frame = read_stream(subscribe=topic, startingOffsets="earliest", commitProgressTo=group)
    # PySpark 4.0 and 4.1 tell a source nothing after the one micro-batch of availableNow.
    query = start(frame, tmp_path, **({"availableNow": True} if LAG_KNOWN else {"processingTime": "0 seconds"}))
    try:
        if LAG_KNOWN:
            assert query.awaitTermination(TIMEOUT_S)
        else:
            query.processAllAvailable()
        deadline = time.monotonic() + TIMEOUT_S
        while (found := committed(topics, topic, group)) != [20, 10, 0]:
            assert time.monotonic() < deadline, found
    finally:
        query.stop()


def test_progress_that_cannot_be_committed_is_told(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    topic = topics.create()
    options = read_options({"kafka.bootstrap.servers": topics.hosts, "subscribe": topic}, Mode.STREAM_READ).client
    member = Consumer({"bootstrap.servers": topics.hosts, "group.id": topic, **QUIET})
    try:
        member.subscribe([topic])
        deadline = time.monotonic() + TIMEOUT_S
        while not member.assignment():
            assert time.monotonic() < deadline
            member.poll(0.1)
        committer = ProgressCommitter(options, topic)
        committer.offer(Progress({TopicPartition(topic, 0): 5}, {}))
        committer.close(TIMEOUT_S)
        assert "progress could not be committed (commitProgressTo), the query continues: " in caplog.text
        assert f"{topic!r} has consumers as members" in caplog.text
    finally:
        member.close()
        session.close_all()
