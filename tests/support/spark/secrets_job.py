"""A job with secrets in its options: `secrets_job.py OPTIONS.json TOPIC COPY DIRECTORY`.

It reads a batch, writes it, lands a stream and runs a pipeline, all with those options, then again with wrong ones. What Spark
shows of it goes to files of DIRECTORY: plans, progress, the UI and its REST, errors, the event log.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka.spark.pipeline import Declaration, Pipeline, StopRequest
from pykafka.spark.pipeline.launch import redaction_settings

#: What Spark's REST and pages show.
REST = (
    "/jobs",
    "/stages?details=true",
    "/sql?details=true&planDescription=true&length=1000",
    "/environment",
    "/executors",
)
PAGES = ("/SQL/", "/StreamingQuery/", "/jobs/", "/environment/")


class Job:
    """A session's work with the options, and the place where it notes what Spark shows.

    :param spark: the session
    :param options: of format("pykafka")
    :param directory: for the notes
    """

    def __init__(self, spark: SparkSession, options: dict[str, str], directory: Path) -> None:
        self.spark, self.options, self.directory = spark, options, directory

    def note(self, name: str, text: str) -> None:
        """Write a text for the search."""
        (self.directory / "notes" / name).write_text(text)

    def batch(self, topic: str, copy: str) -> None:
        """Read a batch and write it."""
        frame = (
            self.spark.read.format("pykafka").options(**self.options).option("subscribe", topic).load().select("value")
        )
        assert frame.count() == 20
        frame.write.format("pykafka").options(**self.options).option("topic", copy).mode("append").save()
        plan = frame._jdf.queryExecution()
        jvm: Any = self.spark._jvm
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            self.note(f"plan-{mode}", jvm.PythonSQLUtils.explainString(plan, mode))
        frame.createOrReplaceTempView("records")
        self.note("plan-sql", str(self.spark.sql("EXPLAIN EXTENDED SELECT * FROM records").collect()))

    def stream(self, topic: str, copy: str) -> None:
        """Land a stream in a topic."""
        reader = self.spark.readStream.format("pykafka").options(**self.options).option("subscribe", topic)
        writer = reader.option("startingOffsets", "earliest").load().select("value").writeStream.format("pykafka")
        writer = writer.options(**self.options).option("topic", copy).queryName("landing")
        query = writer.option("checkpointLocation", str(self.directory / "checkpoint")).start()
        query.processAllAvailable()
        self.note("stream-plan", query._jsq.explainInternal(True))
        self.note("stream-progress", f"{query.lastProgress} {query.status}")
        query.stop()

    def pipeline(self, topic: str, copy: str) -> None:
        """Mirror a topic by a declaration."""
        brokers, options = self.options["kafka.bootstrap.servers"], dict(self.options)
        del options["kafka.bootstrap.servers"]
        written = "".join(f"{json.dumps(name)} = {json.dumps(text)}\n" for name, text in options.items())
        file = self.directory.parent / "pipeline.toml"  # not among what is searched
        file.write_text(
            f'checkpoint = "{self.directory}/pipeline"\n[source]\nbrokers = "{brokers}"\ntopic = "{topic}"\n'
            f'[source.options]\n{written}[sink]\nformat = "topic"\ntopic = "{copy}"\n'
        )
        done = Pipeline(Declaration.load(file), self.spark, lambda progress: None, StopRequest(grace_s=30)).run()
        assert done[0].records == 20

    def look_around(self) -> None:
        """Note what the UI shows."""
        context = self.spark.sparkContext
        rest = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
        addresses = [f"{rest}{path}" for path in REST] + [f"{context.uiWebUrl}{path}" for path in PAGES]
        addresses += [f"{context.uiWebUrl}/SQL/execution/?id={number}" for number in range(12)]
        for number, address in enumerate(addresses):
            with urllib.request.urlopen(address, timeout=60) as answer:
                self.note(f"ui-{number}", f"{address}\n{answer.read().decode()}")


def main(options_file: str, topic: str, copy: str, directory: str) -> None:
    """Do all of it; print how many notes there are."""
    given = json.loads(Path(options_file).read_text())
    root = Path(directory)
    (root / "notes").mkdir()
    (root / "events").mkdir()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.port", "0").config("spark.ui.enabled", "true")
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (root / "events").as_uri(),
        "spark.log.level": "DEBUG",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        **(redaction_settings() if given["redaction"] else {}),
    }
    spark: SparkSession = builder.config(map={**settings}).getOrCreate()
    job = Job(spark, given["options"], root)
    steps: tuple[Callable[[str, str], None], ...] = (job.batch, job.stream, job.pipeline)
    for step in steps:
        step(topic, copy)
    for number, wrong in enumerate(given["wrong"]):
        failing = Job(spark, {**job.options, **wrong, "fetchOffset.numRetries": "0"}, root)
        for step in (failing.batch, failing.stream):
            try:
                step(topic, copy)
            except PySparkException as error:
                job.note(f"error-{number}-{step.__name__}", str(error))
    job.look_around()
    spark.stop()
    print("NOTES", len(os.listdir(root / "notes")))


if __name__ == "__main__":
    main(*sys.argv[1:])
