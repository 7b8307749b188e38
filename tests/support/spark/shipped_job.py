"""A job for Pythons that lack this package until Spark ships it: `shipped_job.py HOSTS TOPIC COPY DIRECTORY HOW`.

It reads a batch, writes it to another topic, lands a stream, and prints one line of JSON behind `FOUND`. HOW is "found"
(Spark finds the format), "registered" (the job registers it), or "both", one after the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession


def where(_: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield a worker's Python, and the place that it has this package from, or why it has not."""
    try:
        import pykafka.protocol.records_scan as module

        found = str(module.__file__)
    except ImportError as error:
        found = repr(error)
    yield {"python": sys.executable, "module": found}


def register(spark: SparkSession) -> None:
    """Register the format, as a job does where Spark does not find it by itself."""
    from pykafka.spark import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)


def main(hosts: str, topic: str, copy: str, directory: str, how: str) -> None:
    """Print what came of each step; an error ends it."""
    spark = SparkSession.builder.getOrCreate()
    found: dict[str, Any] = {"python": sys.executable}
    cluster = {"kafka.bootstrap.servers": hosts}
    options = {**cluster, "subscribe": topic, "startingOffsets": "earliest"}
    try:
        if how == "registered":
            register(spark)
        found["workers"] = spark.sparkContext.parallelize(range(2), 2).mapPartitions(where).collect()
        batch = spark.read.format("pykafka").options(**options).load()
        found["count"] = batch.count()
        batch.select("key", "value").write.format("pykafka").mode("append").options(**cluster, topic=copy).save()
        found["saved"] = True
        query = (
            spark.readStream.format("pykafka")
            .options(**options)
            .load()
            .selectExpr("CAST(value AS STRING) AS value")
            .writeStream.format("parquet")
            .option("checkpointLocation", f"{directory}/checkpoint")
            .trigger(availableNow=True)
            .start(f"{directory}/landed")
        )
        query.awaitTermination()
        found["landed"] = spark.read.parquet(f"{directory}/landed").count()
        if how == "both":
            register(spark)
            found["count when registered"] = spark.read.format("pykafka").options(**options).load().count()
    except Exception as error:  # noqa: BLE001 - the test looks at it
        found["error"] = str(error)
    print("FOUND " + json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
