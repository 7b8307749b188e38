"""Tables of Delta Lake and Iceberg: they are made, compared with the rows, and changed by merges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pykafka.handlers import ThreadingHandler
from pykafka.spark.pipeline.conflicts import tried_again
from pykafka.spark.pipeline.fitting import Fit, compare, is_on, refuse_gone, refuse_reserved, refuse_unknown
from pykafka.spark.pipeline.merging import BATCH, latest, merge_statement, quoted
from pykafka.spark.pipeline.model import TableSink
from pykafka.spark.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Delta leaves out a micro-batch with a number that it has of this writer.
_WRITER, _NUMBER = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
#: How each format adds columns to a table by itself, where it is asked to.
_MERGES_SCHEMA = {"delta": ("mergeschema",), "iceberg": ("mergeschema", "merge-schema")}
_MERGES_SCHEMA_IN_SQL = "spark.databricks.delta.schema.autoMerge.enabled"


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
