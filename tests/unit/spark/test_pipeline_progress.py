"""The progress of a pipeline adds up the numbers of Spark's progress reports."""

from __future__ import annotations

from typing import Any

from pykafka.spark.pipeline.events import Progress


def report(**changes: Any) -> dict[str, Any]:
    return {
        "batchId": 4,
        "numInputRows": 10,
        "processedRowsPerSecond": 5.0,
        "observedMetrics": {"pykafka": {"rows": 10, "malformed": 2}},
    } | changes


def test_progress_adds_up() -> None:
    progress = Progress("q").after(report(), 9).after(report(batchId=5), 4)
    assert (progress.batch, progress.batches, progress.records, progress.malformed) == (5, 2, 20, 4)
    assert (progress.lag, progress.records_per_s) == (4, 5.0)


def test_progress_of_several_sources() -> None:
    """Each has metrics of its own."""
    metrics = {"pykafka_a": {"rows": 3, "malformed": 1}, "pykafka_b": {"rows": 4}, "mine": {"rows": 100}}
    progress = Progress("q").after(report(observedMetrics=metrics), 0)
    assert (progress.records, progress.malformed) == (7, 1)


def test_progress_without_records() -> None:
    before = Progress("q").after(report(), 4)
    idle = report(batchId=5, numInputRows=0, observedMetrics={})
    assert before.after(idle, None) == before
    assert before.after(idle, 3).lag == 3


def test_progress_counts_records_once() -> None:
    """A topic that is joined with itself is counted twice by Spark."""
    assert Progress("q").after(report(numInputRows=20), 0).records == 10
