"""Avro in Spark: `decoded` beside Spark's own `from_avro`, over the same topic in one session."""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fastavro
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.avro.functions import from_avro

from benchmarks.clients.spark import tree_cpu_seconds
from pykafka import KafkaClient
from pykafka.spark.formats import make_decoder
from pykafka.spark.formats.columns import decoded
from tests.brokers import maven_jar
from tests.support.registrystub import RegistryStub

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The first turn has what Spark does once.
REPETITIONS = 3
FRAME = b"\0\0\0\0\1"
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def fill(hosts: str, topic: str, messages: int) -> None:
    """Write so many records of six fields."""
    schema = fastavro.parse_schema(SCHEMA)
    with KafkaClient(hosts) as client, client.topics[topic].get_producer(linger_ms=20) as producer:
        for number in range(messages):
            out = io.BytesIO(FRAME)
            out.seek(len(FRAME))
            order = {"id": number, "who": f"customer-{number}", "amount": number / 3, "at": 1_700_000_000_000 + number}
            fastavro.schemaless_writer(out, schema, {**order, "kind": "AB"[number & 1], "tags": ["x", "y"]})
            producer.produce(out.getvalue())


def measure(hosts: str, messages: int) -> None:
    """Print rows a second and CPU seconds a million rows, of nothing decoded, ours and Spark's, in turns."""
    topic = f"avro-{uuid4().hex[:8]}"
    fill(hosts, topic, messages)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with RegistryStub() as registry, tempfile.TemporaryDirectory() as directory:
        registry.add(f"{topic}-value", SCHEMA)
        builder: Any = SparkSession.builder
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.log.level": "ERROR",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": directory,
            "spark.jars": str(maven_jar(f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}")),
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark: SparkSession = builder.master("local[2]").getOrCreate()
        try:
            reader = spark.read.format("pykafka").option("kafka.bootstrap.servers", hosts).option("subscribe", topic)
            frame = reader.load().select("value")
            decoder = make_decoder("avro", {"registry": registry.url, "topic": topic})
            queries: dict[str, DataFrame] = {
                "nothing decoded": frame,
                "decoded": decoded(frame, decoder).selectExpr("parsed.*", "reason"),
                "from_avro": frame.select(
                    from_avro(sql.expr("substring(value, 6)"), json.dumps(SCHEMA)).alias("parsed")
                ).selectExpr("parsed.*"),
            }
            for turn in range(REPETITIONS):
                for name, query in queries.items():
                    write = query.write.format("noop").mode("overwrite").save
                    print(f"{turn + 1}  {name:16} {_timed(write, messages)}", flush=True)
        finally:
            spark.stop()


def _timed(run: Callable[[], None], messages: int) -> str:
    cpu, wall = tree_cpu_seconds(), time.monotonic()
    run()
    wall, cpu = time.monotonic() - wall, tree_cpu_seconds() - cpu
    return f"{messages / wall:10,.0f} rows/s  {cpu * 1e6 / messages:.2f} CPU s per million"
