"""A driver that merges JSON files into the sink of a pipeline, and may be killed before Spark notes the micro-batch.

    python -m tests.support.spark.killed_merge p.toml killed

The files are in `in` beside the declaration. In the end it prints ids and numbers of the table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pykafka.spark.pipeline import Declaration, landing
from pykafka.spark.pipeline.launch import session
from pykafka.spark.pipeline.model import JdbcSink, Sink, TableSink
from pykafka.spark.pipeline.running import AVAILABLE_NOW


def main(file: Path, is_killed: bool) -> None:
    declaration = Declaration.load(file)
    (output,) = declaration.outputs
    with session(declaration) as spark:
        if is_killed:
            for name in ("_merge", "_to_database"):
                setattr(landing, name, dying(getattr(landing, name)))
        rows = spark.readStream.schema("id INT, nr INT, a INT").json(str(file.parent / "in"))
        query = landing.start(rows, output.sink, str(file.parent / "checkpoint"), "q", AVAILABLE_NOW)
        query.awaitTermination()
        print(sorted((row.id, row.nr) for row in table(spark, output.sink).collect()))


def dying(land: Any) -> Any:
    """Return what lands a micro-batch, and then kills Spark's JVM as SIGKILL does: nothing of it is told."""

    def wrapped(rows: DataFrame, *args: Any) -> None:
        land(rows, *args)
        jvm: Any = rows.sparkSession._jvm
        jvm.java.lang.Runtime.getRuntime().halt(137)

    return wrapped


def table(spark: SparkSession, sink: Sink) -> DataFrame:
    if isinstance(sink, TableSink):
        return spark.table(sink.identifier)
    assert isinstance(sink, JdbcSink)
    return spark.read.format("jdbc").options(**sink.options).option("dbtable", sink.table).load()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "killed")
