"""A client of Spark Connect, as a program: a process has classic sessions or remote ones.

`python -m tests.support.spark.connect_client REMOTE HOSTS TOPIC COPY DIRECTORY [ARCHIVE]` prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

#: How long a query may take on a busy machine (s).
QUERY_TIMEOUT_S = 240


def wait_for(query: Any) -> None:
    """Wait until a query has ended; raise if it takes too long, so that no half of a result is compared."""
    if not query.awaitTermination(QUERY_TIMEOUT_S):
        raise TimeoutError(f"the query runs for longer than {QUERY_TIMEOUT_S} s: {query.status}")


def main(remote: str, hosts: str, topic: str, copy: str, directory: str, archive: str = "") -> None:
    """Read a topic in a batch, write it to another, land it as a stream, and try a wrong option.

    :param archive: of this package, to send to the server first
    """
    spark = SparkSession.builder.remote(remote).getOrCreate()
    if archive:
        from pykafka.spark import ship

        ship(spark, archive)
    options = {"kafka.bootstrap.servers": hosts, "subscribe": topic, "startingOffsets": "earliest"}
    found: dict[str, object] = {"session": type(spark).__module__}

    batch = spark.read.format("pykafka").options(**options).load()
    found["schema"] = batch.schema.simpleString()
    found["values"] = sorted(bytes(row.value).decode() for row in batch.select("value").collect())
    target = {"kafka.bootstrap.servers": hosts, "topic": copy}
    batch.select("key", "value").write.format("pykafka").mode("append").options(**target).save()

    stream = spark.readStream.format("pykafka").options(**options).load()
    query = (
        stream.selectExpr("CAST(value AS STRING) AS value")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/landed")
    )
    wait_for(query)
    found["landed"] = sorted(row.value for row in spark.read.parquet(f"{directory}/landed").collect())

    mirror = stream.select("key", "value").writeStream.format("pykafka").options(**target)
    query = mirror.option("checkpointLocation", f"{directory}/mirror").trigger(availableNow=True).start()
    wait_for(query)

    try:
        spark.read.format("pykafka").options(**options, startingOffset="x").load().count()
    except Exception as error:  # noqa: BLE001 - of whatever type Spark makes it
        found["refused"] = str(error)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
