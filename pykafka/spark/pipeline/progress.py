"""How far a pipeline is: the numbers of Spark's progress reports, added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pykafka.spark.pipeline.frames import MALFORMED, METRICS, ROWS


@dataclass(frozen=True)
class Progress:
    """What a query has done in this run.

    :param query: its name
    :param batch: number of the last micro-batch with records, counted since the checkpoint began; -1 before the first
    :param batches: micro-batches with records
    :param records: read
    :param malformed: of those
    :param records_per_s: of the last micro-batch
    :param lag: records that Kafka had beyond it when it began; None where Spark does not say
    """

    query: str
    batch: int = -1
    batches: int = 0
    records: int = 0
    malformed: int = 0
    records_per_s: float = 0.0
    lag: int | None = None

    def after(self, report: Mapping[str, Any], lag: int | None) -> Progress:
        """Return this with one more report of Spark.

        :param report: StreamingQueryProgress, as of its JSON
        :param lag: that it tells of
        """
        metrics = report.get("observedMetrics", {}).get(METRICS) or {}
        # Spark counts a topic that a step reads twice, as in a join with itself, as often.
        rows = int(metrics.get(ROWS) or report["numInputRows"])
        if not rows:
            return replace(self, lag=self.lag if lag is None else lag)
        return replace(
            self,
            batch=int(report["batchId"]),
            batches=self.batches + 1,
            records=self.records + rows,
            malformed=self.malformed + int(metrics.get(MALFORMED) or 0),
            records_per_s=float(report.get("processedRowsPerSecond") or 0.0),
            lag=lag,
        )
