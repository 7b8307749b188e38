# ruff: noqa: N802 - the names of methods and arguments are Spark's
"""The shared base of the readers of streams, for each version of PySpark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pykafka.spark import session
from pykafka.spark.admission import Admission
from pykafka.spark.batch import as_partitions, read_partition
from pykafka.spark.cluster import OffsetReader
from pykafka.spark.loss import LossReporter
from pykafka.spark.offsets import (
    LATEST,
    Bounds,
    ByTime,
    JsonOffsets,
    Offsets,
    advance,
    clamp_start,
    from_json,
    is_pinned,
    plan_ranges,
    report_gone,
    resolve,
    to_json,
)
from pykafka.spark.options import ReadOptions
from pykafka.spark.progress import ProgressCommitter
from pykafka.spark.shipped import Shipped

if TYPE_CHECKING:
    import pyarrow as pa


class MicroBatchReader(Shipped, DataSourceStreamReader):
    """A reader of topics in micro-batches.

    State, used by the query's one driver process alone: the start of a fresh query (Spark asks twice), the ends for
    Trigger.AvailableNow, whether the first micro-batch is still to come and must be empty, the ends last seen, the time of the
    last admitted micro-batch, and the committer of progress.

    :param options: the options of the read
    :param columns: names, in the order of the schema
    """

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._offsets = OffsetReader(options)
        self._report = LossReporter(options.fail_on_data_loss)
        self._admission = Admission(
            options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_trigger_delay_ms / 1000
        )
        self._initial: JsonOffsets | None = None
        self._is_first = False
        self._hold_start = False
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        self._progress: ProgressCommitter | None = None

    def initialOffset(self) -> JsonOffsets:
        """Return the start of a fresh query.

        :raises OptionError: topics that do not exist; offsets for other partitions than those read
        :raises DataLossError: offsets that are not in Kafka (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        if self._initial is None:
            partitions = self._offsets.first_partitions()
            starting = self._offsets.located(self._options.starting, partitions)
            bounds = self._offsets.bounds(partitions)
            if self._target is not None:
                bounds = {tp: Bounds(at.earliest, self._target[tp]) for tp, at in bounds.items() if tp in self._target}
                if isinstance(self._options.starting, ByTime) and isinstance(starting, dict):
                    # The first record of that time may have been written since: this query then reads none.
                    starting = {tp: LATEST if starting[tp] > at.latest else starting[tp] for tp, at in bounds.items()}
            self._seen = {tp: at.latest for tp, at in bounds.items()}
            start = resolve(starting, bounds, "startingOffsets")
            ends = self._waiting(start, {tp: at.latest for tp, at in bounds.items()})
            bounds = {tp: Bounds(at.earliest, ends[tp]) for tp, at in bounds.items()}
            self._initial = to_json(clamp_start(start, bounds, self._report))
            # Spark's checkpoint has the ends of micro-batches, but not the query's start. After a crash in the first one,
            # `latest` would be another offset; so the first micro-batch ends where it starts, and the checkpoint has that end.
            self._is_first, self._hold_start = True, not is_pinned(self._options.starting, starting)
        return self._initial

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """Return one range of offsets per partition of Kafka.

        :raises DataLossError: records between start and end are gone (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        self._is_first = False
        begin, until = from_json(start), from_json(end)
        if start == self._initial:
            # Spark may repeat the first micro-batch after a crash, and the start that it has just asked for may have more
            # partitions, or higher offsets. Records beyond the end in the checkpoint belong to the next micro-batch.
            begin = {tp: offset for tp, offset in begin.items() if tp in until}
            if self._may_move():
                begin = {tp: min(offset, until[tp]) for tp, offset in begin.items()}
        report_gone(begin, until, self._report)
        moving = [tp for tp in until if begin.get(tp) != until[tp]]
        if not moving:
            return []
        present = self._offsets.present(moving)
        report_gone(moving, present, self._report)
        ends = {tp: until[tp] for tp in moving if tp in present}
        earliest = self._offsets.earliest(ends)
        starts = clamp_start(
            {tp: begin[tp] for tp in ends if tp in begin},
            {tp: Bounds(earliest[tp], max(end_at, begin.get(tp, 0))) for tp, end_at in ends.items()},
            self._report,
        )
        return as_partitions(plan_ranges(starts, ends, earliest, self._report), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range as columns, on an executor; errors as in `pykafka.spark.reader.read_range`."""
        return read_partition(partition, self._options, self._columns)

    def commit(self, end: JsonOffsets) -> None:
        """Do nothing: Spark's checkpoint keeps the offsets, and `end` is one micro-batch old."""

    def stop(self) -> None:
        """Close the connections of the query's driver process."""
        self._close_progress()
        self._offsets.close()

    def _next_end(self, start: JsonOffsets, unlimited: bool = False) -> JsonOffsets:
        # `start` is the end of the last micro-batch, which is complete when Spark asks for the next one.
        begin = from_json(start)
        self._commit_progress(begin)
        first, self._is_first = self._is_first, False
        if first and self._hold_start:
            return start
        latest = self._target if self._target is not None else self._offsets.latest(self._offsets.present(begin))
        self._seen = latest
        ends = self._waiting(begin, latest)
        end = advance(begin, {tp: Bounds(0, offset) for tp, offset in ends.items()}, self._report)
        if first and self._may_move():
            # A new partition is read from its first record; after a crash now, Spark would ask for its start by time.
            end = {tp: offset for tp, offset in end.items() if tp in begin}
        if not unlimited:
            earliest = self._offsets.earliest([tp for tp in end if tp not in begin])
            end = self._admission.end(begin, end, earliest, session.handler.now(), may_wait=self._target is None)
        if self._target is not None and end == begin:
            # Trigger.AvailableNow asks no more, and Spark may end this process without a call of stop()
            self._close_progress()
        return to_json(end)

    def _may_move(self) -> bool:
        # Whether a second search may find the start of a fresh query at another offset.
        starting = self._options.starting
        return isinstance(starting, ByTime) or not is_pinned(starting, starting)

    def _waiting(self, start: Offsets, latest: Offsets) -> Offsets:
        # A partition whose start lies behind an open transaction waits there until the transaction ends.
        held = self._offsets.behind_transactions({tp: at for tp, at in start.items() if tp in latest}, latest)
        return latest | {tp: start[tp] for tp in held}

    def _close_progress(self) -> None:
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.close()

    def _commit_progress(self, offsets: Offsets) -> None:
        if self._options.commit_progress_to is None:
            return
        if self._progress is None:
            self._progress = ProgressCommitter(self._options.client, self._options.commit_progress_to)
        self._progress.offer(offsets)
