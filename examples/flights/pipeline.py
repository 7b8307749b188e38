"""Join flights with weather in Spark, land them as Parquet exactly once, and write delays and alerts back to Kafka."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.job import ALERT_MINUTES, Job

FLIGHT = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int,
    arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int,
    hour int, minute int, time_hour timestamp
"""
WEATHER = "origin string, time_hour timestamp, temp double, wind_speed double, visib double"
#: The keys of the delays' aggregates: one table each.
MONTH, BANDS = ("origin", "carrier", "month"), ("wind", "visibility")
#: Flights per micro-batch; all flights make four.
FLIGHTS_PER_TRIGGER = 100_000
#: The width of a band of wind speeds (miles per hour); higher speeds belong to the highest band.
WIND_BAND, HIGHEST_WIND_BAND = 5, 40
#: How often to check whether the other query has failed (s).
POLL_S = 1


def main() -> int:
    """Run both streaming queries to the end of the topic, then aggregate the landed flights."""
    job = Job.from_command_line(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    spark = start_spark()
    try:
        streams = [land(spark, job), alert(spark, job)]
        wait_for(streams)
        for stream in streams:
            print(f"  {describe(stream)}", flush=True)
        started = time.monotonic()
        rows = aggregate(spark, job)
        print(f"  delays: {rows:,} aggregates to topic {job.delays} in {time.monotonic() - started:.1f} s", flush=True)
    except PySparkException as error:
        print(f"  {reason(error)}", flush=True)
        print(f"pipeline: {error}", file=sys.stderr)
        return 1
    spark.stop()
    return 0


def reason(error: Exception) -> str:
    """Return the most useful line of an error: PyKafka's own, inside stacks of Python and Java, or the first."""
    lines = str(error).splitlines() or [type(error).__name__]
    own = [line.partition(": ")[2] for line in lines if re.match(r"pykafka\.[\w.]+: ", line)]
    return own[-1] if own else lines[0]


def start_spark() -> SparkSession:
    """Start Spark in this process, on two cores, or use the cluster of spark-submit; nothing needs the network or a browser."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("flights")
    # spark-submit sets it, and the master.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master("local[2]")
    settings = {
        # In a job of a minute, the JVM's second compiler costs a third of all CPU time and never pays.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Aggregates of a year of flights are small: more partitions would only be more tasks.
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def flights(spark: SparkSession, job: Job) -> DataFrame:
    """Return the topic of the flights as a stream, from its beginning to its present end, in several micro-batches."""
    reader = spark.readStream.format("pykafka")
    messages = reader.options(**source(job, job.flights), maxOffsetsPerTrigger=FLIGHTS_PER_TRIGGER).load()
    flight = sql.from_json(sql.col("value").cast("string"), FLIGHT)
    return messages.select("key", flight.alias("flight")).select("key", "flight.*")


def weather(spark: SparkSession, job: Job) -> DataFrame:
    """Return the topic of the weather, one row per airport and hour even if a message came twice."""
    messages = spark.read.format("pykafka").options(**source(job, job.weather)).load()
    hours = messages.select(sql.from_json(sql.col("value").cast("string"), WEATHER).alias("hour")).select("hour.*")
    return hours.dropDuplicates(["origin", "time_hour"])


def source(job: Job, topic: str) -> dict[str, Any]:
    """Return the options of a read, which have the same names as in Spark's own Kafka connector."""
    return job.spark_options() | {"subscribe": topic, "startingOffsets": "earliest"}


def land(spark: SparkSession, job: Job) -> StreamingQuery:
    """Start a query that writes each flight, with the weather at its origin in its scheduled hour, to Parquet: exactly once."""
    # Persisted: otherwise each micro-batch would read the weather again.
    hours = weather(spark, job).withColumn("has_weather", sql.lit(True)).cache()
    joined = flights(spark, job).join(sql.broadcast(hours), ["origin", "time_hour"], "left")
    landing = joined.withColumn("has_weather", sql.coalesce("has_weather", sql.lit(False))).drop("key")
    writer = landing.writeStream.format("parquet").queryName("landed").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(job.checkpoints / "landed")).start(str(job.landed))


def alert(spark: SparkSession, job: Job) -> StreamingQuery:
    """Start a query that writes flights that left very late to a topic."""
    late = flights(spark, job).where(sql.col("dep_delay") > ALERT_MINUTES)
    columns = ("carrier", "flight", "origin", "dest", "time_hour", "dep_delay")
    messages = late.select("key", sql.to_json(sql.struct(*columns)).alias("value"))
    writer = messages.writeStream.format("pykafka").queryName("alerts").trigger(availableNow=True).outputMode("append")
    return writer.options(**sink(job, job.alerts), checkpointLocation=str(job.checkpoints / "alerts")).start()


def sink(job: Job, topic: str) -> dict[str, Any]:
    """Return the options of a write."""
    return job.spark_options() | {"topic": topic, "kafka.compression.type": "zstd"}


def wait_for(streams: list[StreamingQuery]) -> None:
    """Wait until all streams have ended.

    :raises StreamingQueryException: one of them failed
    """
    for stream in streams:
        while not stream.awaitTermination(POLL_S):
            for other in streams:
                if (failure := other.exception()) is not None:
                    raise failure


def describe(stream: StreamingQuery) -> str:
    """Return a line about a finished stream."""
    batches = [progress for progress in stream.recentProgress if progress.numInputRows]
    rows = sum(progress.numInputRows for progress in batches)
    seconds = sum(progress.batchDuration for progress in batches) / 1000
    return f"{stream.name}: {rows:,} flights read in {len(batches)} micro-batches, {seconds:.1f} s"


def aggregate(spark: SparkSession, job: Job) -> int:
    """Write the delays by origin, carrier and month, and by wind and visibility, to a topic; return their number."""
    landed = spark.read.parquet(str(job.landed))
    by_month = landed.groupBy(*MONTH).agg(*measures())
    speed = sql.col("wind_speed")
    # least() skips nulls, so an unknown wind would count as a storm.
    wind = sql.when(speed.isNotNull(), sql.least(sql.floor(speed / WIND_BAND) * WIND_BAND, sql.lit(HIGHEST_WIND_BAND)))
    banded = landed.select("*", wind.cast("int").alias("wind"), sql.floor("visib").cast("int").alias("visibility"))
    by_weather = banded.groupBy(*BANDS).agg(*measures())
    messages = as_messages("month", MONTH, by_month).unionByName(as_messages("weather", BANDS, by_weather)).cache()
    messages.write.format("pykafka").mode("append").options(**sink(job, job.delays)).save()
    return messages.count()


def measures() -> list[Column]:
    """Return the columns: numbers of flights, of those that never left and without weather data; sum and mean of delays."""
    delay = sql.col("dep_delay")
    total = sql.coalesce(sql.sum(delay), sql.lit(0))
    return [
        sql.count("*").alias("flights"),
        sql.count_if(delay.isNull()).alias("without_delay"),
        sql.count_if(~sql.col("has_weather")).alias("without_weather"),
        total.alias("delay_minutes"),
        # Null if no flight left; the sum is exact, so that the same division elsewhere gives the same number.
        (sql.sum(delay).cast("double") / sql.count(delay)).alias("mean_delay"),
    ]


def as_messages(table: str, keys: tuple[str, ...], rows: DataFrame) -> DataFrame:
    """Return key and JSON value of each row; nulls are written out."""
    row = sql.struct(sql.lit(table).alias("table"), *rows.columns)
    parts = [sql.coalesce(sql.col(name).cast("string"), sql.lit("-")) for name in keys]
    key = sql.concat_ws("/", sql.lit(table), *parts)
    return rows.select(key.alias("key"), sql.to_json(row, {"ignoreNullFields": "false"}).alias("value"))


if __name__ == "__main__":
    raise SystemExit(main())
