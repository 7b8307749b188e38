"""The progress of a pipeline: the numbers of Spark's progress reports, added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pykafka.spark.pipeline.frames import MALFORMED, METRICS, ROWS


@dataclass(frozen=True)
class Progress:
    """The progress of a query in this run.

    :param query: its name
    :param batch: number of the last micro-batch with records, counted since the checkpoint began; -1 before the first
    :param batches: number of micro-batches with records
    :param records: number of records read
    :param malformed: number of malformed records among them
    :param records_per_s: rate of the last micro-batch
    :param lag: records in Kafka beyond it when it began; None if Spark does not report them
    """

    query: str
    batch: int = -1
    batches: int = 0
    records: int = 0
    malformed: int = 0
    records_per_s: float = 0.0
    lag: int | None = None

    def after(self, report: Mapping[str, Any], lag: int | None) -> Progress:
        """Return the progress after one more report of Spark.

        :param report: StreamingQueryProgress, parsed from its JSON
        :param lag: its lag
        """
        # Several sources have metrics of several names.
        found = [counts or {} for name, counts in report.get("observedMetrics", {}).items() if name.startswith(METRICS)]
        # Spark counts a topic twice that a step reads twice, as in a join with itself.
        rows = sum(int(counts.get(ROWS) or 0) for counts in found) or int(report["numInputRows"])
        malformed = sum(int(counts.get(MALFORMED) or 0) for counts in found)
        # PySpark 4.0 reports the metrics of a micro-batch once more when the next trigger finds nothing.
        if not rows or int(report["batchId"]) == self.batch:
            return replace(self, lag=self.lag if lag is None else lag)
        return replace(
            self,
            batch=int(report["batchId"]),
            batches=self.batches + 1,
            records=self.records + rows,
            malformed=self.malformed + malformed,
            records_per_s=float(report.get("processedRowsPerSecond") or 0.0),
            lag=lag,
        )
