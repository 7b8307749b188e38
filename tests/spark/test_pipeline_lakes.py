"""Tables of Delta Lake and Iceberg as sinks: rows once, merges by key, small files joined.

Each needs a session with jars of its own, by Maven coordinates, which are made for some releases of Spark: the parts
spark-delta and spark-iceberg of the matrix.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykafka.cli.exit_status import Status
from pykafka.spark.pipeline import Declaration
from pykafka.spark.pipeline.errors import TableMismatchError
from pykafka.spark.pipeline.lake_tables import TableWriter, compact
from pykafka.spark.pipeline.landing import fitting, start
from pykafka.spark.pipeline.launch import session
from pykafka.spark.pipeline.model import TableSink
from pykafka.spark.pipeline.running import AVAILABLE_NOW
from tests.spark.test_pipeline import Directory
from tests.spark.test_pipeline_sinks import forget_the_last_commit
from tests.support.spark.killing_merges import KEYS, kill_and_go_on
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


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables_that_others_change(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of one side only, a compaction beside merges, and a table that is dropped."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    declaration = declared(tmp_path, kind)
    (output,) = declaration.outputs
    sink = output.sink
    assert isinstance(sink, TableSink)
    assert sink.merge is not None
    key = quoted(*sink.merge.keys)
    with session(declaration) as spark:
        merge, numbers = TableWriter(spark, sink).merge, count()

        def batch(*values: str, more: str = "") -> None:
            sql = f"SELECT * FROM VALUES {', '.join(values)} AS t(`{key}`, a{more})"
            merge(spark.sql(sql), "query", next(numbers))

        def found() -> list[tuple[object, ...]]:
            return sorted((tuple(row) for row in spark.table(sink.identifier).collect()), key=str)

        batch("(1, 'x')", "(NULL, 'n')")
        batch("(1, 'y')", "(NULL, 'm')")
        assert found() == [(1, "y"), (None, "m")]
        # Another program's column stays as it is, and a column that the table lacks is not lost.
        spark.sql(f"ALTER TABLE {sink.identifier} ADD COLUMN own INT")
        spark.sql(f"UPDATE {sink.identifier} SET own = 7")
        batch("(1, 'z')", "(2, 'z')")
        assert found() == [(1, "z", 7), (2, "z", None), (None, "m", 7)]
        with pytest.raises(TableMismatchError, match="has no column 'b', as the rows have"):
            batch("(1, 'lost', 1)", more=", b")
        rows = spark.createDataFrame([], f"`{key}` INT, b INT")
        for one in (sink, replace(sink, merge=None)):
            with pytest.raises(TableMismatchError, match="has no column 'b', as the rows have"):
                fitting(rows, one, None, "append")
        if kind == "delta":
            spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", True)
            batch("(3, 'added', 1)", more=", b")
            spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
            assert spark.table(sink.identifier).columns == [key.replace("``", "`"), "a", "own", "b"]
            batch("(3, 'kept')")
            assert found()[2] == (3, "kept", None, 1)
        # Small files are joined while rows come.
        failures: list[Exception] = []

        def join() -> None:
            try:
                for _ in range(3):
                    compact(spark, output)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)

        worker = threading.Thread(target=join)
        worker.start()
        for number in range(5):
            batch(f"(1, 'v{number}')", f"({number + 10}, 'new')")
        worker.join(300)
        assert (failures, worker.is_alive()) == ([], False)
        assert [row[1] for row in found()[:2]] == ["v4", "new"]
        assert len(found()) == (9 if kind == "delta" else 8)
        if kind == "delta":
            shutil.rmtree(sink.path)
        else:
            spark.sql(f"DROP TABLE {sink.identifier}")
        with pytest.raises(
            TableMismatchError, match=r"is not there, and the checkpoint says that it has micro-batch \d+"
        ):
            batch("(1, 'alone')")
        (tmp_path / "check" / "commits").mkdir(parents=True)
        (tmp_path / "check" / "commits" / "3").touch()
        added = spark.readStream.format("rate").load().selectExpr(f"int(value) AS `{key}`", "'x' AS a")
        with pytest.raises(TableMismatchError, match="has micro-batch 3"):
            start(added, replace(sink, merge=None), str(tmp_path / "check"), "q", AVAILABLE_NOW)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_driver_that_is_killed(kind: str, tmp_path: Path) -> None:
    """After the merge, and before Spark has noted the micro-batch: the next run repeats it, and changes nothing."""
    declared(tmp_path, kind, KEYS)
    kill_and_go_on(tmp_path)


def declared(path: Path, kind: str, keys: str = 'merge = "a.b`c"') -> Declaration:
    """Return a declaration with a table that is merged by a key."""
    if kind == "delta":
        place = f'path = "{path}/table"'
    else:
        place = f'table = "lake.web.merged"\nwarehouse = "{path}/lake"'
    file = path / "p.toml"
    file.write_text(
        f'checkpoint = "{path}/checkpoint"\n[source]\nbrokers = "127.0.0.1:1"\ntopic = "t"\n'
        f'[sink]\nformat = "{kind}"\n{place}\n{keys}\n{CONFIG}'
    )
    return Declaration.load(file)


def quoted(name: str) -> str:
    return name.replace("`", "``")
