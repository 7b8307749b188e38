"""The reader of a batch. Its ranges are fixed when Spark plans the read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pykafka.common import TopicPartition
from pykafka.spark.offsets import (
    Bounds,
    OffsetRange,
    Offsets,
    clamp_end,
    clamp_start,
    plan_ranges,
    refuse_backwards,
    resolve,
    split_ranges,
)
from pykafka.spark.options import ReadOptions
from pykafka.spark.shipping import Shipped

if TYPE_CHECKING:
    from uuid import UUID

    import pyarrow as pa

    from pykafka.spark.cluster import OffsetReader
    from pykafka.spark.data_loss import LossReporter

# Modules that talk to Kafka are imported on use: Spark imports this module to look a format's name up.


@dataclass
class KafkaInputPartition(InputPartition):
    """The records that one task reads.

    :param topic: name
    :param partition: number
    :param start: first offset
    :param end: offset after the last
    :param topic_id: the id of the topic that the offsets are of; None if the brokers have none
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: UUID | None = None

    def __repr__(self) -> str:
        return f"KafkaInputPartition({self.topic}-{self.partition} {self.start}..{self.end})"


class KafkaBatchReader(Shipped, DataSourceReader):
    """A reader of the records that topics have at planning time.

    :param options: the options of the read
    :param columns: names, in the order of the schema
    """

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return one range of offsets per partition of Kafka, resolved now.

        :raises OptionError: topics that do not exist; offsets for other partitions than those read
        :raises DataLossError: offsets that are not in Kafka (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        from pykafka.spark.cluster import OffsetReader
        from pykafka.spark.data_loss import LossReporter

        options, offsets = self._options, OffsetReader(self._options)
        report = LossReporter(options.fail_on_data_loss)
        partitions = offsets.first_partitions()
        ids = offsets.ids  # asked for before the offsets: a task then notices a topic recreated in between
        starting = offsets.located(options.starting, partitions)
        ending = offsets.located(options.ending, partitions)
        bounds = offsets.bounds(partitions)
        start = resolve(starting, bounds, "startingOffsets")
        end = resolve(ending, bounds, "endingOffsets")
        start, end = self._committed(start, end, bounds, offsets, report)
        refuse_backwards({tp: min(offset, bounds[tp].latest) for tp, offset in start.items()}, end)
        start, end = clamp_start(start, bounds, report), clamp_end(end, bounds, report)
        end = {tp: max(offset, start[tp]) for tp, offset in end.items()}
        ranges = self._narrowed(plan_ranges(start, end, {}, report), offsets)
        return as_partitions(ranges, options, ids)

    def _committed(
        self,
        start: Offsets,
        end: Offsets,
        bounds: dict[TopicPartition, Bounds],
        offsets: OffsetReader,
        report: LossReporter,
    ) -> tuple[Offsets, Offsets]:
        # Neither counts records behind an open transaction: `uncommitted` reports those, and no record is lost.
        latest = {tp: at.latest for tp, at in bounds.items()}
        found = []
        for what, where in (("from", start), ("up to", end)):
            uncommitted = offsets.behind_transactions(where, latest)
            for tp, transaction in uncommitted.items():
                report.uncommitted(f"{tp} was to be read {what} offset {where[tp]}", transaction)
            found.append({tp: latest[tp] if tp in uncommitted else offset for tp, offset in where.items()})
        return found[0], found[1]

    def _narrowed(self, ranges: list[OffsetRange], offsets: OffsetReader) -> list[OffsetRange]:
        # The ranges after the filters: all of them, as this reader takes no filters.
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range as columns, on an executor; errors as in `pykafka.spark.reader.read_range`."""
        return read_partition(partition, self._options, self._columns)


def as_partitions(ranges: list[OffsetRange], options: ReadOptions, ids: Mapping[str, UUID]) -> list[InputPartition]:
    """Return the input partitions for Spark: the ranges, cut by minPartitions and maxRecordsPerPartition.

    :param ids: the ids of the topics that the offsets are of, as far as they are known
    """
    cut = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return [KafkaInputPartition(tp.topic, tp.partition, first, last, ids.get(tp.topic)) for tp, first, last in cut]


def read_partition(partition: Any, options: ReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task's range; none if Spark made a task without a partition."""
    if not isinstance(partition, KafkaInputPartition):
        return iter(())
    from pykafka.spark.reader import read_range
    from pykafka.spark.session import freeze_objects

    freeze_objects()
    tp = TopicPartition(partition.topic, partition.partition)
    batches = read_range(OffsetRange(tp, partition.start, partition.end), options, columns, partition.topic_id)
    return _traced(batches, tp) if options.traces else batches


def _traced(batches: Iterator[pa.RecordBatch], tp: TopicPartition) -> Iterator[pa.RecordBatch]:
    """Yield batches in a span of OpenTelemetry."""
    from pykafka.otel.batches import batch_span
    from pykafka.spark import session

    with batch_span(session.handler, "poll", tp.topic, tp.partition) as look:
        yield from look(batches)
