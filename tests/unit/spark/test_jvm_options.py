"""Every option on the page of Spark's own connector, as format("pykafka") takes it in each kind of query."""

from __future__ import annotations

import sys

import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from pykafka.spark.source import KafkaDataSource
from tests.support.spark.taking import MODES, REFUSED, TAKEN, WARNED, outcome

#: {option: (a value, options beside it, outcome in reads: batch, stream; in writes: batch, stream)}
PAGE: dict[str, tuple[str, dict[str, str], str]] = {
    "kafka.bootstrap.servers": ("other:1", {}, "TTTT"),
    "assign": ('{"t":[1]}', {}, "TTWW"),
    "subscribe": ("u", {}, "TTWW"),
    "subscribePattern": ("u.*", {}, "TTWW"),
    "startingTimestamp": ("5", {}, "TTWW"),
    "startingOffsetsByTimestamp": ('{"t":{"0":5}}', {}, "TTWW"),
    "startingOffsets": ('{"t":{"0":5}}', {}, "TTWW"),
    "endingTimestamp": ("5", {}, "TRWW"),
    "endingOffsetsByTimestamp": ('{"t":{"0":5}}', {}, "TRWW"),
    "endingOffsets": ('{"t":{"0":5}}', {}, "TRWW"),
    "startingOffsetsByTimestampStrategy": ("latest", {"startingTimestamp": "5"}, "TT"),
    "failOnDataLoss": ("false", {}, "TTWW"),
    "kafkaConsumer.pollTimeoutMs": ("5", {}, "TTWW"),
    "fetchOffset.numRetries": ("5", {}, "TTWW"),
    "fetchOffset.retryIntervalMs": ("5", {}, "TTWW"),
    "maxOffsetsPerTrigger": ("5", {}, "WTWW"),
    "minOffsetsPerTrigger": ("5", {}, "WTWW"),
    "maxTriggerDelay": ("5s", {}, "WTWW"),
    "minPartitions": ("5", {}, "TTWW"),
    "maxRecordsPerPartition": ("5", {}, "TTWW"),
    "groupIdPrefix": ("g", {}, "WWWW"),
    "kafka.group.id": ("g", {}, "WWWW"),
    "includeHeaders": ("true", {}, "TTWW"),
    "topic": ("u", {}, "WWTT"),
}
LETTERS = {"T": TAKEN, "W": WARNED, "R": REFUSED}


@pytest.mark.parametrize("name", PAGE)
def test_each_is_taken_or_warned_about_or_refused(name: str) -> None:
    text, beside, letters = PAGE[name]
    found = [outcome(name, text, mode, beside) for mode, _ in zip(MODES, letters, strict=False)]
    assert found == [LETTERS[letter] for letter in letters]


def test_a_streaming_write_tells_once(caplog: pytest.LogCaptureFixture) -> None:
    """Spark makes a writer for each micro-batch, in a process of its own."""
    schema = StructType([StructField("value", StringType())])
    source = KafkaDataSource({"kafka.bootstrap.servers": "h:1", "topic": "t", "kafka.linger.ms": "5"})
    with caplog.at_level("WARNING", logger="pykafka.spark"):
        for number in range(3):
            source.streamWriter(schema, overwrite=False).commit([], number)
    assert len(caplog.messages) == 1
    assert "'kafka.linger.ms'" in caplog.messages[0]


def test_a_streaming_read_tells_in_one_of_two_processes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One keeps the reader for the query, the other pickles it for the executors."""
    schema = StructType([StructField("value", BinaryType())])
    source = KafkaDataSource({"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.linger.ms": "5"})
    with caplog.at_level("WARNING", logger="pykafka.spark"):
        source.streamReader(schema)
        monkeypatch.setattr(sys, "argv", ["-m", "pyspark.sql.worker.plan_data_source_read"])
        source.streamReader(schema)
    assert len(caplog.messages) == 1
