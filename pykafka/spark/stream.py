# ruff: noqa: N802 - the names of methods and arguments are Spark's
"""The reader of a stream for PySpark 4.2 and later; it lives on the driver as long as its query."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pykafka.spark.errors import OptionError
from pykafka.spark.microbatch import MicroBatchReader
from pykafka.spark.offsets import JsonOffsets, to_json


class KafkaStreamReader(MicroBatchReader, SupportsTriggerAvailableNow):
    """A reader of topics in micro-batches that Spark limits; parameters as in `MicroBatchReader`."""

    def prepareForTriggerAvailableNow(self) -> None:
        """Store the present ends: the query reads up to them and no further."""
        self._target = self._offsets.latest(self._offsets.partitions())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return maxOffsetsPerTrigger or minOffsetsPerTrigger as Spark's limit; Spark has no limit of both kinds."""
        most, least = self._options.max_offsets_per_trigger, self._options.min_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        """Return where the next micro-batch ends.

        :param start: where it starts
        :param limit: the result of getDefaultReadLimit(); for Trigger.Once, which ignores limits, ReadAllAvailable
        :raises DataLossError: partitions are gone, or end before `start` (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        if not isinstance(limit, ReadMaxRows | ReadMinRows | ReadAllAvailable):
            raise OptionError(
                f"Spark asks for a micro-batch of {limit}; topics can be read by number of records, or all"
            )
        return self._next_end(start, unlimited=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> JsonOffsets | None:
        """Return the ends as they were when the last micro-batch was planned, for the query's progress."""
        return None if self._seen is None else to_json(self._seen)
