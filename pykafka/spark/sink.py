# ruff: noqa: N803 - the names of methods and arguments are Spark's
"""The writers of batches and streams: rows to topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pykafka.spark.columns import HEADERS_TYPE
from pykafka.spark.errors import SinkError
from pykafka.spark.loss import log, warn
from pykafka.spark.options import WriteOptions
from pykafka.spark.shipped import Shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType
else:
    # PySpark 4.0 has no class for writers of streams that take Arrow batches: it looks for the class of batch writers.
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceArrowWriter)

#: The columns that the sink uses, and the types that they may have.
SINK_COLUMNS = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS_TYPE,),
}


@dataclass
class KafkaCommitMessage(WriterCommitMessage):
    """The result of one task.

    :param rows: rows acknowledged, by topic
    """

    rows: dict[str, int] = field(default_factory=dict)


def check_mode(overwrite: bool) -> None:
    """Raise if the save mode overwrites.

    :raises SinkError: mode("overwrite")
    """
    if overwrite:
        raise SinkError('topics can only be appended to, not overwritten: use mode("append")')


def check_schema(schema: StructType, options: WriteOptions) -> frozenset[str]:
    """Return the columns to write; it leaves out others, as Spark's connector does.

    :raises SinkError: a column is missing, or of another type
    """
    kinds = {item.name: item.dataType.simpleString() for item in schema.fields}
    if "value" not in kinds:
        raise SinkError(
            f"the DataFrame has no column 'value' (it has {', '.join(map(repr, kinds)) or 'none'}): name what to "
            "write so, "
            "as in df.selectExpr('to_json(struct(*)) AS value')"
        )
    if options.topic is None and "topic" not in kinds:
        raise SinkError("neither the option 'topic' nor a column 'topic' says where to write: give one of them")
    found = set()
    for name, allowed in SINK_COLUMNS.items():
        if (name == "topic" and options.topic is not None) or name not in kinds:
            continue
        # Whether an array or a field may be null makes no difference here, and simpleString() does not show it.
        if kinds[name] not in allowed:
            raise SinkError(f"the column {name!r} must be {' or '.join(allowed)}, not {kinds[name]}: cast it")
        found.add(name)
    return frozenset(found)


class _Writer(Shipped):
    # The part that both writers share; a copy of it runs on each executor.

    def __init__(self, options: WriteOptions, columns: frozenset[str]) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> KafkaCommitMessage:
        """Write a task's rows, and return when all replicas have them.

        :raises SinkError: a row cannot be written, or was not acknowledged in time
        """
        from pykafka.spark.session import settle
        from pykafka.spark.writer import write_rows

        settle()
        return KafkaCommitMessage(write_rows(iterator, self._options, self._columns))


def _total(messages: Sequence[Any]) -> Counter[str]:
    total: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, KafkaCommitMessage):  # None stands for a task that failed
            total.update(message.rows)
    return total


def _tell(total: Counter[str]) -> str:
    return ", ".join(f"{rows} to {topic}" for topic, rows in sorted(total.items())) or "none"


class KafkaBatchWriter(_Writer, DataSourceArrowWriter):
    """A writer of a DataFrame.

    :param options: the options of the write
    :param columns: the columns to write
    """

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the written rows, which are in Kafka when their task ends."""
        log.info("rows written: %s", _tell(_total(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Warn that rows stay written although the job failed: Kafka cannot remove them."""
        kept = _tell(_total(messages))
        warn(f"the write failed; rows that are in Kafka all the same, besides those of failed tasks: {kept}")


class KafkaStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A writer of a query's micro-batches, each row at least once.

    :param options: the options of the write
    :param columns: the columns to write
    :param idle: sentences about options without effect, to be told once a query: Spark makes a writer for each micro-batch
    """

    def __init__(self, options: WriteOptions, columns: frozenset[str], idle: tuple[str, ...] = ()) -> None:
        super().__init__(options, columns)
        self._idle = idle

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log the written rows, which are in Kafka when their task ends."""
        if batchId == 0:
            for sentence in self._idle:
                warn(sentence)
        log.info("rows of micro-batch %d written: %s", batchId, _tell(_total(messages)))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Warn that rows stay written although the micro-batch failed and will be written again."""
        warn(
            f"micro-batch {batchId} failed and will be written again; rows that are in Kafka already, besides those of "
            f"failed tasks: {_tell(_total(messages))}"
        )
