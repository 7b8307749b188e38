# ruff: noqa: N802 - the names of methods and arguments are Spark's
"""The reader of a stream for PySpark 4.0 and 4.1, which neither pass the start of a micro-batch nor set limits."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from pykafka.spark.microbatch import MicroBatchReader
from pykafka.spark.offsets import JsonOffsets


class SelfLimitingStreamReader(MicroBatchReader):
    """A reader of topics in micro-batches that limits them itself; parameters as in `MicroBatchReader`.

    Spark asks for the ranges of each micro-batch, and when it resumes a query for the empty range at its last end; so the end
    of the last requested range is the start of the next micro-batch.
    """

    _reached: JsonOffsets | None = None

    def latestOffset(self) -> JsonOffsets:  # type: ignore[override]
        """Return where the next micro-batch ends; errors as in `initialOffset`, and

        :raises DataLossError: partitions are gone, or end before the start (failOnDataLoss)
        """
        start = self._reached if self._reached is not None else self.initialOffset()
        return self._next_end(start)

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """Return one range of offsets per partition of Kafka; errors as in `MicroBatchReader.partitions`."""
        self._reached = end
        return super().partitions(start, end)
