"""A query from a topic to another in transactions, to be killed: `exactly_once_job MASTER HOSTS TOPIC OUT DIRECTORY LIMIT`.

Its rows go to other tasks, and in another order, each time that a micro-batch is repeated. It runs until the file `end`
appears; then it reads the rest, and makes the file `landed.json`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import rand

STARTED = "the query has started"
#: The query by the name of its checkpoint.
QUERIES = ("mirror",)
END = "end"
LANDED = "landed.json"


def main(master: str, hosts: str, topic: str, out: str, directory: str, limit: str) -> None:
    """Run the query."""
    path = Path(directory)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.memory", "512m").config("spark.executor.memory", "512m")
    builder = builder.config("spark.task.maxFailures", "8").config("spark.sql.shuffle.partitions", "3")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    reader = spark.readStream.format("pykafka").option("kafka.bootstrap.servers", hosts).option("subscribe", topic)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", limit).load()
    writer = (
        rows.select("value")
        .repartition(3, rand())
        .writeStream.format("pykafka")
        .option("kafka.bootstrap.servers", hosts)
        .option("topic", out)
        .option("transactionalIdPrefix", out)
    )
    query = writer.option("checkpointLocation", str(path / QUERIES[0])).trigger(processingTime="0 seconds").start()
    print(STARTED, flush=True)
    while not (path / END).exists():
        if not query.isActive:
            raise SystemExit(f"the query has ended: {query.exception()}")
        time.sleep(0.1)
    query.processAllAvailable()
    query.stop()
    spark.stop()
    (path / LANDED).touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
