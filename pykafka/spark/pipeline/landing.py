"""How the rows of a stream reach a sink: by Spark's own writer, or micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pykafka.spark.pipeline.databases import DatabaseWriter
from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.model import FileSink, FormatSink, JdbcSink, Merge, Sink, TableSink, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: The property of a streaming query's thread with the query's identity, which the checkpoint keeps.
_QUERY_ID = "sql.streaming.queryId"
_BATCH, _RANK, _GONE = "pykafka_batch", "_pykafka_rank", "_pykafka_gone"
#: Delta leaves out a micro-batch with a number that it has of this writer.
_WRITER, _NUMBER = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"


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
    """
    if isinstance(sink, FileSink) and sink.files_per_batch:
        frame = frame.repartition(sink.files_per_batch, *map(_quoted, sink.partition_by))
    writer = frame.writeStream.queryName(name).outputMode(mode).trigger(**when)
    writer = writer.option("checkpointLocation", checkpoint)
    if isinstance(sink, FileSink):
        return writer.options(**sink.options).format(sink.format).partitionBy(*sink.partition_by).start(sink.path)
    if isinstance(sink, JdbcSink):
        return writer.foreachBatch(_each(lambda rows, query, number: _to_database(rows, sink, query, number))).start()
    if isinstance(sink, TableSink) and sink.merge is not None:
        return writer.foreachBatch(_each(lambda rows, query, number: _merge(rows, sink, query, number))).start()
    if isinstance(sink, TableSink):
        return _to_table(writer.options(**sink.options), frame, sink)
    if isinstance(sink, FormatSink):
        writer = writer.options(**sink.options).format(sink.format)
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        return writer.start(sink.path) if sink.path else writer.start()
    if mode == "append":
        return writer.options(**sink.options).format("pykafka").start()
    # Spark asks sources in Python for the mode append only.
    return writer.foreachBatch(_each(lambda rows, _query, _number: _to_topic(rows, sink))).start()


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


def _to_topic(rows: DataFrame, sink: TopicSink) -> None:
    rows.write.format("pykafka").options(**sink.options).mode("append").save()


def _to_table(writer: DataStreamWriter, frame: DataFrame, sink: TableSink) -> StreamingQuery:
    writer = writer.format(sink.format)
    if sink.format == "iceberg" or sink.table:
        # Spark makes Delta's tables itself, and Iceberg's without partitions.
        _create(frame, sink)
        return writer.toTable(sink.table)
    return writer.partitionBy(*sink.partition_by).start(sink.path)


def _create(rows: DataFrame, sink: TableSink) -> None:
    """Create a table that does not exist, for rows like these."""
    spark = rows.sparkSession
    parts = sink.table.split(".") if sink.table else []
    if len(parts) > 1:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {'.'.join(_quoted(part) for part in parts[:-1])}")
    columns = ", ".join(f"{_quoted(field.name)} {type_in_sql(field.dataType)}" for field in rows.schema.fields)
    by = f" PARTITIONED BY ({', '.join(map(_quoted, sink.partition_by))})" if sink.partition_by else ""
    spark.sql(f"CREATE TABLE IF NOT EXISTS {sink.identifier} ({columns}) USING {sink.format}{by}")


def type_in_sql(kind: DataType) -> str:
    """Return a type as SQL writes it, with the names of fields in quotes: any name is possible in a schema of a registry."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{_quoted(field.name)}: {type_in_sql(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_in_sql(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_in_sql(kind.keyType)}, {type_in_sql(kind.valueType)}>"
    return kind.simpleString()


def _merge(rows: DataFrame, sink: TableSink, query: str, number: int) -> None:
    """Merge a micro-batch into a table: if it was merged before, nothing changes."""
    assert sink.merge is not None
    spark = rows.sparkSession
    _create(rows, sink)
    _latest(rows, sink.merge, str(sink)).createOrReplaceTempView(_BATCH)
    if sink.format == "delta":
        spark.conf.set(_WRITER, query)
        spark.conf.set(_NUMBER, str(number))
    spark.sql(merge_statement(sink.identifier, sink.merge))


def merge_statement(identifier: str, merge: Merge) -> str:
    """Return the statement that merges the view of a micro-batch into a table."""
    same = " AND ".join(f"t.{_quoted(key)} <=> s.{_quoted(key)}" for key in merge.keys)
    # The condition is evaluated in a query of its own, where its columns have no other table to be of.
    gone = _gone(merge) if merge.delete_where else "false"
    flag = _quoted(_GONE)
    lines = [
        f"MERGE INTO {identifier} AS t USING (SELECT *, {gone} AS {flag} FROM {_BATCH}) AS s ON {same}",
        *([f"WHEN MATCHED AND s.{flag} THEN DELETE"] if merge.delete_where else []),
        "WHEN MATCHED THEN UPDATE SET *",
        f"WHEN NOT MATCHED AND NOT s.{flag} THEN INSERT *",
    ]
    return "\n".join(lines)


def _gone(merge: Merge) -> str:
    """Return whether a row deletes its key, as SQL; the condition may end with a comment."""
    return f"coalesce(({merge.delete_where}\n), false)"


def _latest(rows: DataFrame, merge: Merge, sink: str) -> DataFrame:
    """Return the last row of each key.

    :param sink: for the error
    :raises PipelineError: a key has several rows, and nothing says which is the last
    """
    if not merge.latest_by:
        twice = rows.groupBy(*map(_quoted, merge.keys)).count().where("count > 1").limit(1).collect()
        if twice:
            raise PipelineError(
                f"a micro-batch has several rows of one key ({', '.join(merge.keys)}) for {sink}: declare latest_by, the "
                "columns that say which is the last"
            )
        return rows
    order = Window.partitionBy(*map(_quoted, merge.keys)).orderBy(
        *(sql.col(_quoted(name)).desc() for name in merge.latest_by)
    )
    return rows.withColumn(_RANK, sql.row_number().over(order)).where(sql.col(_RANK) == 1).drop(_RANK)


def _to_database(rows: DataFrame, sink: JdbcSink, query: str, number: int) -> None:
    if sink.merge is not None:
        rows = _latest(rows, sink.merge, str(sink))
        if sink.merge.delete_where:
            rows = rows.withColumn(DatabaseWriter.GONE, sql.expr(f"int({_gone(sink.merge)})"))
    DatabaseWriter(rows.sparkSession, sink).land(rows, query, number)


def _quoted(name: str) -> str:
    # In the methods of DataFrames, too: they read "a.b" as a field of a.
    return f"`{name.replace('`', '``')}`"
