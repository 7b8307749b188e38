"""The progress of a pipeline: the numbers of Spark's progress reports, added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pykafka.spark.pipeline.model import DEAD_LETTERS, MALFORMED, METRICS, ROWS


@dataclass(frozen=True)
class Counts:
    """The records of one micro-batch.

    :param rows: number of records read
    :param malformed: number of malformed records among them
    :param dead_letters: number of records that went to the dead letters
    """

    rows: int
    malformed: int
    dead_letters: int


def counted(report: Mapping[str, Any]) -> Counts:
    """Return the counts in a progress report.

    :param report: StreamingQueryProgress, parsed from its JSON
    """
    # Several sources and steps have metrics of several names.
    found = [counts or {} for name, counts in report.get("observedMetrics", {}).items() if name.startswith(METRICS)]
    rows, malformed, dead = (
        sum(int(counts.get(name) or 0) for counts in found) for name in (ROWS, MALFORMED, DEAD_LETTERS)
    )
    # Spark counts a topic twice that a step reads twice, as in a join with itself.
    return Counts(rows or int(report["numInputRows"]), malformed, dead)


@dataclass(frozen=True)
class Progress:
    """The progress of a query in this run.

    :param query: its name
    :param batch: number of the last micro-batch with records, counted since the checkpoint began; -1 before the first
    :param batches: number of micro-batches with records
    :param records: number of records read
    :param malformed: number of malformed records among them
    :param dead_letters: number of records, malformed ones among them, that went to the dead letters
    :param records_per_s: rate of the last micro-batch
    :param lag: records in Kafka beyond it when it began; None if Spark does not report them
    """

    query: str
    batch: int = -1
    batches: int = 0
    records: int = 0
    malformed: int = 0
    dead_letters: int = 0
    records_per_s: float = 0.0
    lag: int | None = None

    def after(self, report: Mapping[str, Any], lag: int | None) -> Progress:
        """Return the progress after one more report of Spark.

        :param report: StreamingQueryProgress, parsed from its JSON
        :param lag: its lag
        """
        counts = counted(report)
        # PySpark 4.0 reports the metrics of a micro-batch once more when the next trigger finds nothing.
        if not counts.rows or int(report["batchId"]) == self.batch:
            return replace(self, lag=self.lag if lag is None else lag)
        return replace(
            self,
            batch=int(report["batchId"]),
            batches=self.batches + 1,
            records=self.records + counts.rows,
            malformed=self.malformed + counts.malformed,
            dead_letters=self.dead_letters + counts.dead_letters,
            records_per_s=float(report.get("processedRowsPerSecond") or 0.0),
            lag=lag,
        )
