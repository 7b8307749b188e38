"""Every option on the page of Spark's own connector, as format("pykafka") takes it in each kind of query."""

from __future__ import annotations

import pytest

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
