"""A job that sums up what each shop sells in ten minutes: Avro orders from a topic, sums to a topic and to Parquet."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import time
from threading import Event

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.listener import QueryProgressEvent
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pykafka.spark.formats import make_decoder
from pykafka.spark.formats.columns import decoded
from pykafka.spark.formats.decoder import Decoder
from pykafka.spark.lag import LagListener

log = logging.getLogger("sales")


def sales(records: DataFrame, decoder: Decoder) -> DataFrame:
    """Return the sums of ten minutes each, by the time of the orders; orders may come ten minutes late."""
    orders = decoded(records.select("value"), decoder)
    counted = orders.observe("records", sql.count("reason").alias("unreadable"))
    return (
        counted.where("parsed IS NOT NULL")
        .select("parsed.*")
        .withWatermark("at", "10 minutes")
        .groupBy("shop", sql.window("at", "10 minutes").alias("time"))
        .agg(sql.count("*").alias("orders"), sql.sum("cents").alias("cents"))
        .select("shop", sql.col("time.start").alias("start"), "orders", "cents")
    )


def read(spark: SparkSession, options: argparse.Namespace, group: str) -> DataFrame:
    """Return the stream of orders; the offsets of the group show how far the query is."""
    return (
        spark.readStream.format("pykafka")
        .option("kafka.bootstrap.servers", options.brokers)
        .option("subscribe", options.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1_000_000)
        .option("commitProgressTo", group)
        .load()
    )


def to_files(totals: DataFrame, options: argparse.Namespace) -> DataStreamWriter:
    return totals.writeStream.format("parquet").option("path", f"{options.directory}/sales")


def to_topic(totals: DataFrame, options: argparse.Namespace) -> DataStreamWriter:
    rows = totals.selectExpr("shop AS key", "to_json(struct(*)) AS value")
    writer = rows.writeStream.format("pykafka").option("kafka.bootstrap.servers", options.brokers)
    writer = writer.option("topic", options.sink)
    return writer.option("transactionalIdPrefix", options.prefix) if options.prefix else writer


def start(spark: SparkSession, options: argparse.Namespace) -> list[StreamingQuery]:
    """Start a query for each destination; what each has read and summed up is in a checkpoint of its own."""
    own = {"schema_file": options.schema}
    schema = {"registry": options.registry, "topic": options.source} if options.registry else own
    decoder = make_decoder("avro", schema)
    trigger = {"availableNow": True} if options.once else {"processingTime": "10 seconds"}
    queries = []
    for name, write in {"sales-files": to_files, "sales-topic": to_topic}.items():
        writer = write(sales(read(spark, options, name), decoder), options).queryName(name)
        writer = writer.option("checkpointLocation", f"{options.directory}/checkpoints/{name}")
        queries.append(writer.trigger(**trigger).start())
    return queries


class Progress(LagListener):
    """Logs each micro-batch of the session's queries."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        super().onQueryProgress(event)
        progress = event.progress
        lag, records = self.lags.get(str(progress.runId)), progress.observedMetrics.get("records")
        line = {"query": progress.name, "batch": progress.batchId, "rows_per_second": progress.processedRowsPerSecond}
        line |= {"unreadable": records.unreadable if records else 0, "behind": lag.total if lag else None}
        log.info("%s", json.dumps(line))


def wait(queries: list[StreamingQuery], stopping: Event) -> None:
    """Return when all queries have ended, or after a signal; raise what ends one."""
    while queries and not stopping.is_set():
        queries = [query for query in queries if not query.awaitTermination(1)]
    for query in queries:
        deadline = time.monotonic() + 60
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.1)  # let the micro-batch end; one that is interrupted is repeated by the next start
        query.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", default="localhost:9092")
    parser.add_argument("--source", default="orders", help="the topic of orders")
    parser.add_argument("--sink", default="sales", help="the topic for sums")
    parser.add_argument("--registry", help="address of the schema registry")
    parser.add_argument("--schema", default="order.avsc", help="without a registry: file of the schema")
    parser.add_argument("--directory", required=True, help="for checkpoints and Parquet; a URL that Spark knows")
    parser.add_argument(
        "--prefix", default="sales", help="of its transactional ids; '' for none: then rows may come twice"
    )
    parser.add_argument("--once", action="store_true", help="take what is there, and end")
    options = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
    log.setLevel(logging.INFO)
    builder = SparkSession.builder.appName("sales").config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # after Spark's own handlers are set
        signal.signal(number, lambda *_: stopping.set())
    try:
        spark.streams.addListener(Progress())
        wait(start(spark, options), stopping)
        return 0
    except StreamingQueryException as error:
        log.error("%s", error)
        return 1
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
