"""How the rows of a stream reach a sink: by Spark's own writer, or micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql

from pykafka.spark.formats.arrowtypes import quoted
from pykafka.spark.parquetfiles import FILE
from pykafka.spark.pipeline import history
from pykafka.spark.pipeline.databases import DatabaseWriter
from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.fitting import Fit
from pykafka.spark.pipeline.history import FileLog
from pykafka.spark.pipeline.lake_tables import TableWriter, gone, latest
from pykafka.spark.pipeline.model import (
    FileSink,
    FormatSink,
    JdbcSink,
    Sink,
    TableSink,
    TopicSink,
    is_written_by_tasks,
)
from pykafka.spark.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: The property of a streaming query's thread with the query's identity, which the checkpoint keeps.
_QUERY_ID = "sql.streaming.queryId"


def start(
    frame: DataFrame, sink: Sink, checkpoint: str, name: str, when: Mapping[str, Any], mode: str = "append"
) -> StreamingQuery:
    """Start a query that writes a stream.

    :param frame: the stream
    :param sink: its destination
    :param checkpoint: directory of its progress
    :param name: name of the query
    :param when: arguments of Spark's trigger()
    :param mode: Spark's output mode
    :raises TableMismatchError: rows would be lost, or parts of them, or be there twice
    """
    storage = Storage(frame.sparkSession)
    history.check(storage, sink, mode, checkpoint)
    fit = fitting(frame, sink, storage.last_number(f"{checkpoint}/commits"), mode)
    history.note(storage, sink, mode, checkpoint)
    if isinstance(sink, FileSink) and sink.files_per_batch:
        frame = frame.repartition(sink.files_per_batch, *map(quoted, sink.partition_by))
    writer = frame.writeStream.queryName(name).outputMode(mode).trigger(**when)
    writer = writer.option("checkpointLocation", checkpoint)
    if is_written_by_tasks(sink):
        # The log is made now, so that the directory is there before the tasks.
        return writer.foreachBatch(entering(FileLog(frame.sparkSession, sink.path))).start()
    if isinstance(sink, FileSink):
        return writer.options(**sink.options).format(sink.format).partitionBy(*sink.partition_by).start(sink.path)
    if isinstance(sink, JdbcSink):
        return writer.foreachBatch(_each(lambda rows, query, number: _to_database(rows, sink, query, number))).start()
    if isinstance(sink, TableSink) and sink.merge is not None:
        return writer.foreachBatch(
            _each(lambda rows, query, number: TableWriter(rows.sparkSession, sink).merge(rows, query, number))
        ).start()
    if isinstance(sink, TableSink):
        return _to_table(writer.options(**sink.options), frame, sink, fit is None)
    if isinstance(sink, FormatSink):
        writer = writer.options(**sink.options).format(sink.format)
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        return writer.start(sink.path) if sink.path else writer.start()
    if mode == "append":
        return writer.options(**sink.options).format("pykafka").start()
    # Spark asks sources in Python for the mode append only.
    return writer.foreachBatch(_each(lambda rows, _query, _number: _to_topic(rows, sink))).start()


def fitting(frame: DataFrame, sink: Sink, done: int | None, mode: str) -> Fit | None:
    """Compare rows with the table that they go to; return None if there is none, or none yet.

    :param frame: the rows
    :param sink: their destination
    :param done: the number of the last micro-batch that the query has done; None: there is none
    :param mode: Spark's output mode
    :raises TableMismatchError: rows would be lost, or parts of them
    """
    if mode == "complete":
        done = None  # each micro-batch has all rows
    if isinstance(sink, TableSink):
        return TableWriter(frame.sparkSession, sink).check(frame.schema, done)
    if isinstance(sink, JdbcSink):
        return DatabaseWriter(frame.sparkSession, sink).fit(frame.columns, done)
    return None


def _each(land: Callable[[DataFrame, str, int], None]) -> Callable[[DataFrame, int], None]:
    """Return a function for foreachBatch.

    :param land: takes the rows, the query's identity, and the micro-batch's number
    """

    def take(rows: DataFrame, number: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if query is None:
            raise PipelineError(
                "Spark does not say which query a micro-batch is of: run the pipeline by another release"
            )
        # Kept, as it is read several times: rows are counted once, and are the same each time.
        rows.persist()
        try:
            land(rows, query, number)
        finally:
            rows.unpersist()

    return take


def entering(log: FileLog) -> Callable[[DataFrame, int], None]:
    """Return a function for foreachBatch, which enters the files that the source's tasks write into the directory's log."""
    has_begun = False

    def enter(rows: DataFrame, number: int) -> None:
        nonlocal has_begun
        if not log.has(number):
            log.add(number, (row[FILE] for row in rows.where(sql.col(FILE).isNotNull()).collect()))
        elif has_begun:
            raise log.taken(number)
        # After a crash, the commit of the first one may be missing in the checkpoint alone: then Spark repeats it.
        has_begun = True

    return enter


def _to_topic(rows: DataFrame, sink: TopicSink) -> None:
    writer = rows.write.format("pykafka").options(**sink.options)
    if sink.prefix is not None:
        writer = writer.option("foreachBatch", "true")
    writer.mode("append").save()


def _to_table(writer: DataStreamWriter, frame: DataFrame, sink: TableSink, is_new: bool) -> StreamingQuery:
    writer = writer.format(sink.format)
    if sink.format == "iceberg" or sink.table:
        # Spark makes Delta's tables itself, and Iceberg's without partitions.
        if is_new:
            TableWriter(frame.sparkSession, sink).create(frame.schema)
        return writer.toTable(sink.table)
    return writer.partitionBy(*sink.partition_by).start(sink.path)


def _to_database(rows: DataFrame, sink: JdbcSink, query: str, number: int) -> None:
    if sink.merge is not None:
        rows = latest(rows, sink.merge, str(sink))
        if sink.merge.delete_where:
            rows = rows.withColumn(DatabaseWriter.GONE, sql.expr(f"int({gone(sink.merge)})"))
    DatabaseWriter(rows.sparkSession, sink).land(rows, query, number)
