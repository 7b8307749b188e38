"""Two streaming queries of a cluster's driver, to be killed: `killed_job MASTER HOSTS TOPIC OUT DIRECTORY LIMIT`.

They land a topic as Parquet files and mirror it to another topic until the file `end` appears; then they read the rest, and the
values that Spark finds in the Parquet files are written to `landed.json`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

#: What it prints once its queries run.
STARTED = "the queries have started"
#: The queries by the names of their checkpoints.
QUERIES = ("files", "mirror")
END = "end"
LANDED = "landed.json"


def main(master: str, hosts: str, topic: str, out: str, directory: str, limit: str) -> None:
    """Run the queries."""
    path = Path(directory)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.memory", "512m").config("spark.executor.memory", "512m")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()

    def read() -> DataFrame:
        reader = spark.readStream.format("pykafka").option("kafka.bootstrap.servers", hosts).option("subscribe", topic)
        return reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", limit).load()

    files = read().selectExpr("CAST(value AS STRING) AS value").writeStream.format("parquet")
    mirror = read().select("value").writeStream.format("pykafka").option("kafka.bootstrap.servers", hosts)
    queries = [
        writer.option("checkpointLocation", str(path / name)).trigger(processingTime="0 seconds")
        for name, writer in zip(QUERIES, (files, mirror.option("topic", out)), strict=True)
    ]
    running = [queries[0].start(str(path / "data")), queries[1].start()]
    print(STARTED, flush=True)
    while not (path / END).exists():
        for query in running:
            if not query.isActive:
                raise SystemExit(f"a query has ended: {query.exception()}")
        time.sleep(0.1)
    for query in running:
        query.processAllAvailable()
        query.stop()
    # Spark's own reader: others would also see files of micro-batches that were interrupted.
    rows = spark.read.schema("value string").parquet(str(path / "data")).collect()
    spark.stop()
    (path / "landing").write_text(json.dumps([row.value for row in rows]))
    (path / "landing").rename(path / LANDED)


if __name__ == "__main__":
    main(*sys.argv[1:])
