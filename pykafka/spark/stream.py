# ruff: noqa: N802 - the names of methods and arguments are Spark's
"""The reader of a stream, which lives on the driver as long as its query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pykafka.spark.cluster import OffsetReader
from pykafka.spark.errors import OptionError
from pykafka.spark.loss import LossReporter
from pykafka.spark.offsets import (
    Bounds,
    JsonOffsets,
    Offsets,
    advance,
    clamp_start,
    from_json,
    is_pinned,
    limit_rows,
    plan_ranges,
    report_gone,
    resolve,
    to_json,
)
from pykafka.spark.options import ReadOptions
from pykafka.spark.source import KafkaInputPartition, read_partition

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read topics in micro-batches.

    State, used by the query's one driver process alone: where a fresh query began (Spark asks twice), the ends that
    Trigger.AvailableNow reads up to, and the ends last seen.

    :param options: of the read
    :param columns: names, in the order of the schema
    """

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._offsets = OffsetReader(options)
        self._report = LossReporter(options.fail_on_data_loss)
        self._initial: JsonOffsets | None = None
        self._hold_start = False
        self._target: Offsets | None = None
        self._seen: Offsets | None = None

    def initialOffset(self) -> JsonOffsets:
        """Return where a fresh query starts.

        :raises OptionError: topics that do not exist; offsets for other partitions than those read
        :raises DataLossError: offsets that are not in Kafka (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        if self._initial is None:
            bounds = self._offsets.bounds(self._offsets.first_partitions())
            if self._target is not None:
                bounds = {tp: Bounds(at.earliest, self._target[tp]) for tp, at in bounds.items() if tp in self._target}
            self._seen = {tp: at.latest for tp, at in bounds.items()}
            self._initial = to_json(
                clamp_start(resolve(self._options.starting, bounds, "startingOffsets"), bounds, self._report)
            )
            # Spark writes no start of a query down, only ends of micro-batches. `latest` would be another place after a
            # crash in the first of them; so that one ends where it starts, which is written down then.
            self._hold_start = not is_pinned(self._options.starting)
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:
        """Note the present ends: the query reads up to them and no further."""
        self._target = self._offsets.latest(self._offsets.partitions())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return maxOffsetsPerTrigger as Spark has it."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        """Return where the next micro-batch ends.

        :param start: where it starts
        :param limit: how many records it may have
        :raises DataLossError: partitions are gone, or end before `start` (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        if self._hold_start:
            self._hold_start = False
            return start
        begin = from_json(start)
        latest = self._target if self._target is not None else self._offsets.latest(self._offsets.partitions())
        self._seen = latest
        end = advance(begin, {tp: Bounds(0, offset) for tp, offset in latest.items()}, self._report)
        if isinstance(limit, ReadMaxRows):
            end = limit_rows(begin, end, self._offsets.earliest([tp for tp in end if tp not in begin]), limit.max_rows)
        elif not isinstance(limit, ReadAllAvailable):
            raise OptionError(
                f"Spark asks for a micro-batch of {limit}; topics can be read by number of records, or all"
            )
        return to_json(end)

    def reportLatestOffset(self) -> JsonOffsets | None:
        """Return the ends as they were when the last micro-batch was planned, for the query's progress."""
        return None if self._seen is None else to_json(self._seen)

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """Return one range of offsets a partition of Kafka.

        :raises DataLossError: records between start and end are gone (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        begin, until = from_json(start), from_json(end)
        report_gone(begin, until, self._report)
        moving = [tp for tp in until if begin.get(tp) != until[tp]]
        if not moving:
            return []
        present = self._offsets.partitions()
        report_gone(moving, present, self._report)
        ends = {tp: until[tp] for tp in moving if tp in present}
        earliest = self._offsets.earliest(ends)
        starts = clamp_start(
            {tp: begin[tp] for tp in ends if tp in begin},
            {tp: Bounds(earliest[tp], max(end_at, begin.get(tp, 0))) for tp, end_at in ends.items()},
            self._report,
        )
        return [
            KafkaInputPartition(tp.topic, tp.partition, first, last)
            for tp, first, last in plan_ranges(starts, ends, earliest, self._report)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range as columns, on an executor; errors as in `pykafka.spark.reader.read_range`."""
        return read_partition(partition, self._options, self._columns)

    def commit(self, end: JsonOffsets) -> None:
        """Do nothing: Spark's checkpoint keeps the offsets."""

    def stop(self) -> None:
        """Close the connections of the query's driver process."""
        self._offsets.close()
