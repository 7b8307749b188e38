"""A streaming query to be killed: `landing_job HOSTS TOPIC DIRECTORY LIMIT` lands a topic as Parquet files, from latest on."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

#: What it prints once its query runs.
STARTED = "the query has started"


def main(hosts: str, topic: str, path: str, limit: str) -> None:
    """Land the records that there are, and end."""
    # A killed worker fails its task: tasks may fail four times, as on a cluster.
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.driver.memory", "512m").config("spark.log.level", "ERROR").getOrCreate()
    frame = spark.readStream.format("pykafka").option("kafka.bootstrap.servers", hosts).option("subscribe", topic)
    query = (
        frame.option("maxOffsetsPerTrigger", limit)
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{path}/checkpoint")
        .trigger(processingTime="0 seconds")
        .start(f"{path}/data")
    )
    print(STARTED, flush=True)
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
