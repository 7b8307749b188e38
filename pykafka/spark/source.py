# ruff: noqa: N802 - the names of methods and arguments are Spark's
"""The data source that PySpark knows as `format("pykafka")`, and its batch reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import __version__
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition

from pykafka.spark.columns import chosen, ddl
from pykafka.spark.errors import OptionError
from pykafka.spark.offsets import Offsets, TopicPartition, clamp_end, clamp_start, plan_ranges, resolve
from pykafka.spark.options import Mode, ReadOptions, includes_headers, read_options, write_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter
    from pyspark.sql.types import StructType

# What talks to Kafka is imported where it is used: Spark imports this module to look a format's name up.


@dataclass
class KafkaInputPartition(InputPartition):
    """The records that one task reads.

    :param topic: name
    :param partition: number
    :param start: first offset
    :param end: offset after the last
    """

    topic: str
    partition: int
    start: int
    end: int

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__(None)
        self.topic, self.partition, self.start, self.end = topic, partition, start, end

    def __repr__(self) -> str:
        return f"KafkaInputPartition({self.topic}-{self.partition} {self.start}..{self.end})"


class KafkaDataSource(DataSource):
    """Topics of Kafka as a source and a sink of DataFrames, in batches and in streams.

    Options are those of Spark's own Kafka connector; docs/spark.md lists them.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "pykafka"

    def schema(self) -> str:
        """Return the columns of a read to which the user gave no schema."""
        return ddl(includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch.

        :raises OptionError: with a sentence about the option or column that cannot be
        """
        return KafkaBatchReader(read_options(self.options, Mode.BATCH_READ), chosen(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream; errors as in `reader`."""
        try:
            from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as _  # noqa: F401 - tells the version
        except ImportError as error:
            raise OptionError(
                f"streaming reads need PySpark 4.2 or later, and this is {__version__}: upgrade it"
            ) from error
        from pykafka.spark.stream import KafkaStreamReader

        return KafkaStreamReader(read_options(self.options, Mode.STREAM_READ), chosen(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch.

        :raises OptionError: with a sentence about the option that cannot be
        :raises SinkError: with one about the column, or about the save mode
        """
        from pykafka.spark.sink import KafkaBatchWriter, check_mode, check_schema

        options = write_options(self.options, Mode.BATCH_WRITE)
        check_mode(overwrite)
        return KafkaBatchWriter(options, check_schema(schema, options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream; errors as in `writer`."""
        from pykafka.spark.sink import KafkaStreamWriter, check_schema

        options = write_options(self.options, Mode.STREAM_WRITE)
        return KafkaStreamWriter(options, check_schema(schema, options))


class KafkaBatchReader(DataSourceReader):
    """Read what topics hold at the time of planning.

    :param options: of the read
    :param columns: names, in the order of the schema
    """

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return one range of offsets a partition of Kafka, resolved now.

        :raises OptionError: topics that do not exist; offsets for other partitions than those read
        :raises DataLossError: offsets that are not in Kafka (failOnDataLoss)
        :raises NoBrokersAvailableError: no broker answered
        """
        from pykafka.spark.cluster import OffsetReader
        from pykafka.spark.loss import LossReporter

        options, offsets = self._options, OffsetReader(self._options)
        report = LossReporter(options.fail_on_data_loss)
        bounds = offsets.bounds(offsets.first_partitions())
        start = clamp_start(resolve(options.starting, bounds, "startingOffsets"), bounds, report)
        end = clamp_end(resolve(options.ending, bounds, "endingOffsets"), bounds, report)
        return [
            KafkaInputPartition(tp.topic, tp.partition, first, last)
            for tp, first, last in plan_ranges(start, _not_before(start, end), {}, report)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range as columns, on an executor; errors as in `pykafka.spark.reader.read_range`."""
        return read_partition(partition, self._options, self._columns)


def _not_before(start: Offsets, end: Offsets) -> Offsets:
    # As in Spark's connector, a range that would end before it starts is empty.
    return {tp: max(offset, start[tp]) for tp, offset in end.items()}


def read_partition(partition: Any, options: ReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task's range; none where Spark made a task of no partition at all."""
    if not isinstance(partition, KafkaInputPartition):
        return iter(())
    from pykafka.spark.offsets import OffsetRange
    from pykafka.spark.reader import read_range

    tp = TopicPartition(partition.topic, partition.partition)
    return read_range(OffsetRange(tp, partition.start, partition.end), options, columns)
