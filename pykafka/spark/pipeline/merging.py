"""Merges by key: the last row of each key, and the statement that changes a table by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sql

from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.model import Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The view of a micro-batch, and columns of our own.
BATCH, _RANK, _GONE = "pykafka_batch", "_pykafka_rank", "_pykafka_gone"


def quoted(name: str) -> str:
    """Return a name as Spark's SQL writes it; in the methods of DataFrames, too: they read "a.b" as a field of a."""
    return f"`{name.replace('`', '``')}`"


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
    # The condition is evaluated in a query of its own, where its columns have no other table to be of.
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
