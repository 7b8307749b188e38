"""Compaction of small files, where the sink's format can do it beside a pipeline that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.handlers import ThreadingHandler
from pykafka.spark.pipeline.conflicts import tried_again
from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.model import FileSink, Output, TableSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    """Join the small files of a sink; readers and writers may go on meanwhile, and it is tried again if a writer is quicker.

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
