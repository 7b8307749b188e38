"""Tables of Delta Lake and Iceberg: they are made, compared with the rows, and changed by merges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pykafka.handlers import ThreadingHandler
from pykafka.spark.formats.arrowtypes import quoted
from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.fitting import Fit, compare, is_on, refuse_gone, refuse_reserved, refuse_unknown
from pykafka.spark.pipeline.model import FileSink, Merge, Output, TableSink
from pykafka.spark.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pykafka.handlers import Handler


#: The view of a micro-batch, and columns of our own.
BATCH, _RANK, _GONE = "pykafka_batch", "_pykafka_rank", "_pykafka_gone"

T = TypeVar("T")
#: As Delta Lake and Iceberg name a commit that found another one before it: nothing of it is in the table.
_LOST = re.compile(
    r"DELTA_CONCURRENT_\w+|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|\bConcurrent\w+Exception\b|\bMetadataChangedException\b"
    r"|\bCommitFailedException\b"
    r"|ValidationException: (Found conflicting|Missing required files|Cannot commit, (found|missing)|Found new conflicting)"
)
#: How often a change is tried, and the longest pause in between (s): half a minute at most.
_ATTEMPTS, _MOST_S = 7, 8.0
#: Delta leaves out a micro-batch with a number that it has of this writer.
_WRITER, _NUMBER = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
#: How each format adds columns to a table by itself, if it is asked to.
_MERGES_SCHEMA = {"delta": ("mergeschema",), "iceberg": ("mergeschema", "merge-schema")}
_MERGES_SCHEMA_IN_SQL = "spark.databricks.delta.schema.autoMerge.enabled"


def gone(merge: Merge) -> str:
    """Return whether a row deletes its key, as SQL; the condition may end with a comment."""
    return f"coalesce(({merge.delete_where}\n), false)"


def latest(rows: DataFrame, merge: Merge, sink: str) -> DataFrame:
    """Return the last row of each key.

    :param sink: for the error
    :raises PipelineError: a key has several rows, and nothing says which is the last
    """
    keys = [quoted(key) for key in merge.keys]
    if not merge.latest_by:
        # Under a name of ours: a column of the key may be called count.
        counted = rows.groupBy(*keys).agg(sql.count(sql.lit(1)).alias(_RANK))
        if counted.where(sql.col(_RANK) > 1).limit(1).collect():
            raise PipelineError(
                f"a micro-batch has several rows of one key ({', '.join(merge.keys)}) for {sink}: declare latest_by, the "
                "columns that say which is the last"
            )
        return rows
    order = Window.partitionBy(*keys).orderBy(*(sql.col(quoted(name)).desc() for name in merge.latest_by))
    return rows.withColumn(_RANK, sql.row_number().over(order)).where(sql.col(_RANK) == 1).drop(_RANK)


def merge_statement(identifier: str, merge: Merge, pairs: Sequence[tuple[str, str]]) -> str:
    """Return the statement that merges the view of a micro-batch into a table.

    Other columns of the table stay as they are in rows that are there, and are null, or have their default, in new ones.

    :param pairs: columns of the rows, each with the table's
    """
    names = dict(pairs)
    same = " AND ".join(f"t.{quoted(names[key])} <=> s.{quoted(key)}" for key in merge.keys)
    # The condition is evaluated in a query of its own, in which its columns can be of no other table.
    flag, condition = quoted(_GONE), gone(merge) if merge.delete_where else "false"
    # Without t: Delta Lake finds a column that it is to add only so.
    changes = ", ".join(f"{quoted(theirs)} = s.{quoted(mine)}" for mine, theirs in pairs)
    columns = ", ".join(quoted(theirs) for _, theirs in pairs)
    values = ", ".join(f"s.{quoted(mine)}" for mine, _ in pairs)
    lines = [
        f"MERGE INTO {identifier} AS t USING (SELECT *, {condition} AS {flag} FROM {BATCH}) AS s ON {same}",
        *([f"WHEN MATCHED AND s.{flag} THEN DELETE"] if merge.delete_where else []),
        f"WHEN MATCHED THEN UPDATE SET {changes}",
        f"WHEN NOT MATCHED AND NOT s.{flag} THEN INSERT ({columns}) VALUES ({values})",
    ]
    return "\n".join(lines)


def is_conflict(error: BaseException) -> bool:
    """Return whether a change lost against another one, so that it may succeed the next time."""
    return _LOST.search(str(error)) is not None


def tried_again(handler: Handler, change: Callable[[], T]) -> T:
    """Return what a change of a table returns, tried again if it loses against others.

    :param handler: has the clock, and random numbers for the pauses
    :param change: changes nothing if it fails
    """
    for number in range(1, _ATTEMPTS):
        try:
            return change()
        except (PySparkException, Py4JError) as error:
            if not is_conflict(error):
                raise
        handler.sleep(handler.random.uniform(0.5, 1.0) * min(2.0 ** (number - 1), _MOST_S))
    return change()


class TableWriter:
    """The writer of rows to a table.

    :param spark: the session
    :param sink: the table
    """

    def __init__(self, spark: SparkSession, sink: TableSink) -> None:
        self._spark = spark
        self._sink = sink
        self._handler = ThreadingHandler()

    def check(self, rows: StructType, done: int | None) -> Fit | None:
        """Compare the table with the rows; return how they fit, or None if there is no table yet.

        :param rows: their columns
        :param done: the number of the last micro-batch that the table should have; None: there is none
        :raises TableMismatchError: rows would be lost, or parts of them
        """
        if self._sink.merge is not None:
            refuse_reserved(rows.fieldNames(), self._sink)
        table = self._schema()
        if table is None:
            refuse_gone(self._sink, done)
            return None
        fit = compare(rows, table, is_on(self._spark, "spark.sql.caseSensitive"))
        if not self._adds_columns():
            refuse_unknown(fit, self._sink, self._hint())
        return fit

    def create(self, rows: StructType) -> None:
        """Create the table for rows like these, if it does not exist."""
        sink = self._sink
        parts = sink.table.split(".") if sink.table else []
        if len(parts) > 1:
            self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {'.'.join(quoted(part) for part in parts[:-1])}")
        columns = ", ".join(f"{quoted(field.name)} {type_in_sql(field.dataType)}" for field in rows.fields)
        by = f" PARTITIONED BY ({', '.join(map(quoted, sink.partition_by))})" if sink.partition_by else ""
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {sink.identifier} ({columns}) USING {sink.format}{by}")

    def merge(self, rows: DataFrame, query: str, number: int) -> None:
        """Merge a micro-batch: if it was merged before, nothing changes.

        :param rows: the micro-batch
        :param query: identity of the streaming query
        :param number: the micro-batch's number
        :raises TableMismatchError: rows would be lost, or parts of them
        """
        sink = self._sink
        assert sink.merge is not None
        latest(rows, sink.merge, str(sink)).createOrReplaceTempView(BATCH)
        # Another writer, as a compaction, may be quicker, and may have changed the columns.
        tried_again(self._handler, lambda: self._merge(rows.schema, query, number))

    def _merge(self, rows: StructType, query: str, number: int) -> None:
        assert self._sink.merge is not None
        fit = self.check(rows, number - 1 if number else None)
        if fit is None:
            self.create(rows)
            fit = self.check(rows, None)
        assert fit is not None
        new = tuple((name, name) for name in fit.unknown)
        statement = merge_statement(self._sink.identifier, self._sink.merge, fit.pairs + new)
        if self._sink.format != "delta":
            self._spark.sql(statement)
            return
        self._spark.conf.set(_WRITER, query)
        self._spark.conf.set(_NUMBER, str(number))
        try:
            self._spark.sql(statement)
        finally:  # Delta Lake would leave out whatever else this session does to the table
            self._spark.conf.unset(_WRITER)
            self._spark.conf.unset(_NUMBER)

    def _schema(self) -> StructType | None:
        """Return the table's columns; None if there is no table."""
        sink = self._sink
        if sink.table:
            if not self._spark.catalog.tableExists(sink.table):
                return None
            # Catalogs keep what they have read for a while: another program may have changed the columns.
            self._spark.catalog.refreshTable(sink.table)
        elif not Storage(self._spark).exists(f"{sink.path.rstrip('/')}/_delta_log"):
            return None
        return self._spark.table(sink.identifier).schema

    def _adds_columns(self) -> bool:
        """Return whether the format is asked to add columns to the table by itself."""
        names = _MERGES_SCHEMA[self._sink.format]
        if any(name.lower() in names and text.lower() == "true" for name, text in self._sink.options.items()):
            return True
        return self._sink.format == "delta" and is_on(self._spark, _MERGES_SCHEMA_IN_SQL)

    def _hint(self) -> str:
        if self._sink.merge is None:
            return ", or have the format add it: mergeSchema = true in the options of the sink"
        if self._sink.format == "delta":
            return f', or have Delta Lake add it: "{_MERGES_SCHEMA_IN_SQL}" = true in [spark.config]'
        return ""


def type_in_sql(kind: DataType) -> str:
    """Return a type as SQL writes it, with the names of fields in quotes: any name is possible in a schema of a registry."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)}: {type_in_sql(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_in_sql(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_in_sql(kind.keyType)}, {type_in_sql(kind.valueType)}>"
    return kind.simpleString()


def check(output: Output) -> None:
    """Raise if a sink's small files cannot be compacted.

    :raises PipelineError: says why, and what to do instead
    """
    if isinstance(output.sink, FileSink):
        raise PipelineError(
            f"{output.place}: {output.sink} cannot be compacted: the directory's log names the files of each micro-batch, so "
            "that each row is there once, and readers would lose the rows of files that are joined beside it. Write fewer "
            "files with files_per_batch, or write to a table of delta or iceberg"
        )
    if not isinstance(output.sink, TableSink):
        raise PipelineError(f"{output.place}: {output.sink} has no files of its own to compact")


def statement(sink: TableSink) -> str:
    """Return the SQL that joins the small files of a table."""
    if sink.format == "delta":
        return f"OPTIMIZE {sink.identifier}"
    catalog, _, name = sink.table.partition(".")
    return f"CALL `{catalog}`.system.rewrite_data_files(table => '{name}')"


def compact(spark: SparkSession, output: Output) -> str:
    """Join the small files of a sink; readers and writers may continue meanwhile, and it is tried again if a writer is quicker.

    :returns: a line about the result
    :raises PipelineError: the sink's files cannot be compacted
    """
    check(output)
    assert isinstance(output.sink, TableSink)
    text = statement(output.sink)
    (row,) = tried_again(ThreadingHandler(), lambda: spark.sql(text).collect())
    if output.sink.format == "delta":
        added, removed = row["metrics"]["numFilesAdded"], row["metrics"]["numFilesRemoved"]
    else:
        added, removed = row["added_data_files_count"], row["rewritten_data_files_count"]
    return f"{output.sink}: {removed:,} files became {added:,}"
