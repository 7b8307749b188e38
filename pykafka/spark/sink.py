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
from pykafka.spark.data_loss import log, warn
from pykafka.spark.epochs import BATCH, Part, Plan, Task, following
from pykafka.spark.errors import SinkError
from pykafka.spark.options import WriteOptions
from pykafka.spark.shipping import Shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType
else:
    # PySpark 4.0 has no class for writers of streams that take Arrow batches: it looks for the class of batch writers.
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceArrowWriter)

#: The properties with the query and the number of a micro-batch, for its tasks.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
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
    :param part: the task's part of a micro-batch that is written in transactions; None without
    """

    rows: dict[str, int] = field(default_factory=dict)
    part: Part | None = None


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
            f"the DataFrame has no column 'value' (it has {', '.join(map(repr, kinds)) or 'none'}): name what to write "
            "so, as in df.selectExpr('to_json(struct(*)) AS value')"
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


def _context() -> TaskContext:
    from pyspark import TaskContext

    found = TaskContext.get()
    assert found is not None
    return found


def _of_micro_batch(what: str) -> Task:
    """Return the task of a micro-batch that runs here.

    :param what: needs to know it
    :raises SinkError: the write is not one of a streaming query
    """
    context = _context()
    query, epoch = (context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID))
    if query is None or epoch is None:
        raise SinkError(f"{what} needs a streaming query, and this task has none ({QUERY_ID}, {BATCH_ID})")
    return Task(query, int(epoch), context.partitionId(), context.attemptNumber())


class _Writer(Shipped):
    # The part that both writers share; a copy of it runs on each executor.

    def __init__(self, options: WriteOptions, columns: frozenset[str]) -> None:
        self._options = options
        self._columns = columns
        self._plan: Plan | None = None

    def plan(self) -> None:
        """Plan the transactions of a batch or a micro-batch, if there are to be any; errors as in `Decisions.plan`."""
        if self._options.transactions is not None and self._plan is None:
            from pykafka.spark.decisions import Decisions

            self._plan = Decisions(self._options).plan()

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark pickles a writer for tasks, which need a plan; never the writer of a stream that commits.
        self.plan()
        return super().__reduce__()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> KafkaCommitMessage:
        """Write a task's rows, and return when all replicas have them.

        :raises SinkError: a row cannot be written, or was not acknowledged in time
        """
        from pykafka.spark.session import freeze_objects, handler

        freeze_objects()
        if self._options.traces:
            from pykafka.otel.batches import batch_span

            with batch_span(handler, "send", self._options.topic) as look:
                return self._write(look(iterator))
        return self._write(iterator)

    def _write(self, iterator: Iterator[pa.RecordBatch]) -> KafkaCommitMessage:
        from pykafka.spark.writer import prepare_rows, write_rows

        if self._plan is None:
            return KafkaCommitMessage(write_rows(iterator, self._options, self._columns))
        part, rows = prepare_rows(iterator, self._options, self._columns, self._plan, self._task(self._plan))
        return KafkaCommitMessage(rows, part)

    def _task(self, plan: Plan) -> Task:
        """Return the task that runs here."""
        raise NotImplementedError

    def _decide(self, messages: Sequence[Any]) -> None:
        """Commit the transactions of the tasks, if there are any."""
        if self._options.transactions is not None:
            from pykafka.spark.decisions import Decisions, parts_of

            Decisions(self._options).commit(parts_of(messages))

    def _clean(self) -> bool:
        """Abort the transactions of tasks, if there are any; return whether rows are written in transactions."""
        if self._options.transactions is None:
            return False
        from pykafka.spark.decisions import ABORT_S, Decisions

        Decisions(self._options, ABORT_S).clean()
        return True


def _total(messages: Sequence[Any]) -> Counter[str]:
    total: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, KafkaCommitMessage):  # None stands for a task that failed
            total.update(message.rows)
    return total


def _shown(total: Counter[str]) -> str:
    return ", ".join(f"{rows} to {topic}" for topic, rows in sorted(total.items())) or "none"


class KafkaBatchWriter(_Writer, DataSourceArrowWriter):
    """A writer of a DataFrame.

    :param options: the options of the write
    :param columns: the columns to write
    """

    def _task(self, plan: Plan) -> Task:
        assert self._options.transactions is not None
        if self._options.transactions.micro_batch:
            return _of_micro_batch("'foreachBatch' = true")
        context = _context()
        return Task(BATCH, following(plan), context.partitionId(), context.attemptNumber())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the tasks' transactions, or log the rows, which are in Kafka when their task ends without them."""
        self._decide(messages)
        log.info("rows written: %s", _shown(_total(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the tasks' transactions; without, warn that rows stay written, as Kafka cannot remove them."""
        if self._clean():
            return
        kept = _shown(_total(messages))
        warn(f"the write failed; rows that are in Kafka all the same, besides those of failed tasks: {kept}")


class KafkaStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A writer of a query's micro-batches: each row once with transactionalIdPrefix, else at least once.

    :param options: the options of the write
    :param columns: the columns to write
    :param idle: sentences about options without effect, to be logged once a query: Spark makes a writer for each micro-batch
    """

    def __init__(self, options: WriteOptions, columns: frozenset[str], idle: tuple[str, ...] = ()) -> None:
        super().__init__(options, columns)
        self._idle = idle

    def _task(self, plan: Plan) -> Task:
        return _of_micro_batch("'transactionalIdPrefix'")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the tasks' transactions, or log the rows, which are in Kafka when their task ends without them."""
        self._decide(messages)
        if batchId == 0:
            for sentence in self._idle:
                warn(sentence)
        log.info("rows of micro-batch %d written: %s", batchId, _shown(_total(messages)))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the tasks' transactions; without, warn that rows stay written and will be written again."""
        if self._clean():
            return
        warn(
            f"micro-batch {batchId} failed and will be written again; rows that are in Kafka already, besides those of "
            f"failed tasks: {_shown(_total(messages))}"
        )
