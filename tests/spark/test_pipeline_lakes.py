"""Tables of Delta Lake and Iceberg as sinks: rows once, merges by key, small files joined.

Each needs a session with jars of its own, by Maven coordinates, which are made for some releases of Spark: the parts
spark-delta and spark-iceberg of the matrix.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykafka.cli.statuses import Status
from pykafka.spark.pipeline import Declaration
from pykafka.spark.pipeline.compaction import compact
from pykafka.spark.pipeline.launch import session
from tests.spark.test_pipeline import Directory
from tests.spark.test_pipeline_sinks import forget_the_last_commit
from tests.support.spark.topics import Record, Topics

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """[spark]
master = "local[2]"
[spark.config]
"spark.ui.enabled" = false
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.sql.shuffle.partitions" = 2
"spark.sql.session.timeZone" = "UTC"
"""

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables(kind: str, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are added once, also where a micro-batch is repeated; or merged by their key, and deleted."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    topic = topics.create(3)
    made = Directory(tmp_path, topics.hosts, None)  # type: ignore[arg-type] # it starts below
    sinks = ""
    for name, more in (("added", ""), ("merged", 'merge = "id"\nlatest_by = "nr"\ndelete_where = "shop IS NULL"\n')):
        place = (
            f'path = "{tmp_path}/{name}"'
            if kind == "delta"
            else f'table = "lake.web.{name}"\nwarehouse = "{tmp_path}/lake"'
        )
        sinks += f'[[sink]]\nname = "{name}"\nformat = "{kind}"\npartition_by = "shop"\n{place}\n{more}'
    made.declare(
        topic,
        '[parse]\nformat = "json"\nschema = "shop STRING"\n',
        "[[transform]]\nsql = '''SELECT CAST(CAST(kafka.key AS STRING) AS INT) AS id, shop, kafka.offset AS nr FROM records'''",
        sink=sinks + CONFIG,
    )
    topics.produce(topic, [Record(json.dumps({"shop": f"s{n}"}).encode(), b"%d" % n) for n in range(4)])
    declaration = Declaration.load(made.file)
    with session(declaration) as spark:
        made.spark = spark
        result = made.command("--dry-run")
        assert result.exit_code == Status.OK, result.output
        made.run_all()
        new = [Record(b'{"shop":"old"}', b"1", 0), Record(b'{"shop":"new"}', b"1", 0), Record(None, b"2", 1)]
        topics.produce(topic, new)
        made.run_all()
        for name in ("added", "merged"):
            forget_the_last_commit(made, f"sink-{name}")
        made.run_all()
        rest = [(0, "s0"), (1, "new"), (1, "old"), (1, "s1"), (2, ""), (2, "s2"), (3, "s3")]
        assert rows(spark, kind, tmp_path, "merged") == [(0, "s0"), (1, "new"), (3, "s3")]
        assert rows(spark, kind, tmp_path, "added") == rest
        topics.produce(topic, [Record(b'{"shop":"s0"}', b"9", 0)])
        made.run_all()
        for output in declaration.outputs:
            assert "files became" in compact(spark, output)
        assert rows(spark, kind, tmp_path, "added") == [*rest, (9, "s0")]


def rows(spark: SparkSession, kind: str, path: Path, name: str) -> list[tuple[int, str]]:
    frame = spark.read.format("delta").load(f"{path}/{name}") if kind == "delta" else spark.table(f"lake.web.{name}")
    return sorted((row.id, row.shop or "") for row in frame.collect())
