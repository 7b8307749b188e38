"""Pipelines with several sources and sinks: a join of streams, files, topics, databases, and functions in Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import Row, SparkSession

from pykafka.cli.statuses import Status
from tests.spark.test_pipeline import Directory
from tests.support.spark.topics import Record, Topics

ORDERS, PAYMENTS = "id INT, shop STRING, at TIMESTAMP", "id INT, paid INT, at TIMESTAMP"
FUNCTIONS = """
import zlib


def shout(text: str) -> str | None:
    return None if text is None else _upper(text)


def _upper(text):
    return text.upper()


def half(number: int) -> int:
    return number // 2 if number % 2 == 0 else 1 // 0
"""


@pytest.fixture
def made(tmp_path: Path, topics: Topics, spark: SparkSession) -> Directory:
    """Return a place for a pipeline."""
    return Directory(tmp_path, topics.hosts, spark)


def rows_of(numbers: Iterable[int], **more: Any) -> list[Record]:
    """Return records with these ids, a minute apart."""
    return [Record(json.dumps({"id": n, "at": f"2026-01-01T00:{n:02}:00Z", **more}).encode()) for n in numbers]


def source(hosts: str, topic: str, view: str, schema: str) -> str:
    return (
        f'[[source]]\nview = "{view}"\nbrokers = "{hosts}"\ntopic = "{topic}"\n'
        f'[source.parse]\nformat = "json"\nschema = "{schema}"\n'
        '[source.watermark]\ncolumn = "at"\ndelay = "10 minutes"\n'
    )


def test_several_sources_and_sinks(made: Directory, topics: Topics) -> None:
    """Streams are joined, with state that a restart keeps; each sink has all its rows, once, in its own way."""
    orders, payments, totals = topics.create(3), topics.create(), topics.create()
    (made.path / "my_functions.py").write_text(FUNCTIONS)
    made.file.write_text(
        f'checkpoint = "{made.path}/checkpoint"\n[udf]\nmodules = "my_functions"\n'
        + source(made.hosts, orders, "orders", ORDERS)
        + source(made.hosts, payments, "payments", PAYMENTS)
        + f"""
[[transform]]
view = "joined"
sql = '''SELECT o.id, shout(o.shop) AS shop, p.paid FROM orders o JOIN payments p
ON o.id = p.id AND p.at BETWEEN o.at AND o.at + INTERVAL 5 MINUTES'''
[[transform]]
view = "totals"
sql = "SELECT shop AS key, CAST(count(*) AS STRING) AS value FROM orders GROUP BY shop"
[[sink]]
format = "parquet"
path = "{made.path}/landed"
from = "joined"
[[sink]]
name = "orders"
format = "json"
path = "{made.path}/orders"
from = "orders"
files_per_batch = 1
[[sink]]
name = "totals"
format = "topic"
topic = "{totals}"
from = "totals"
output_mode = "update"
"""
    )
    topics.produce(orders, rows_of(range(6), shop="a"))
    topics.produce(payments, rows_of(range(3), paid=1))
    first = made.run_all()
    assert [(one.query, one.records) for one in first] == [("clicks", 9), ("clicks-orders", 6), ("clicks-totals", 6)]
    assert sorted((row.id, row.shop) for row in made.rows()) == [(0, "A"), (1, "A"), (2, "A")]
    # Payments of orders that an earlier run has read.
    topics.produce(payments, rows_of(range(3, 6), paid=1))
    topics.produce(orders, rows_of([6], shop="b"))
    made.run_all()
    assert sorted(row.id for row in made.rows()) == list(range(6))
    kept = made.spark.read.json(str(made.path / "orders"))
    assert sorted(row.id for row in kept.collect()) == list(range(7))
    assert len(list((made.path / "orders").glob("part-*.json"))) == 2
    assert sorted(record.value or b"" for record in topics.read(totals, 2)) == [b"1", b"6"]
    names = sorted(path.name for path in (made.path / "checkpoint").iterdir())
    assert names == ["records", "sink-orders", "sink-totals"]


@pytest.mark.parametrize(
    ("module", "sql", "expected"),
    [
        ("1 / 0", "", "[udf] modules: my_broken cannot be imported: ZeroDivisionError"),
        ("def f(x): return x", "", "[udf] modules: my_broken.f does not say what it returns"),
        ("x = 1", "", "[udf] modules: my_broken has no functions"),
        (
            "def f(x: int) -> int:\n    return 1 // 0",
            "SELECT f(1) AS value FROM records",
            "my_broken.f failed: ZeroDiv",
        ),
    ],
)
@pytest.mark.matrix
def test_functions_that_fail(
    made: Directory, topics: Topics, module: str, sql: str, expected: str, request: pytest.FixtureRequest
) -> None:
    """The error names module and function, when it is declared or at run time."""
    topic = topics.create()
    topics.produce(topic, [Record(b"x")])
    name = f"my_broken_{abs(hash(request.node.name))}"
    (made.path / f"{name}.py").write_text(module)
    made.declare(topic, f'[[transform]]\nsql = "{sql}"' if sql else "", top=f'udf = {{ modules = ["{name}"] }}')
    result = made.command()
    assert result.exit_code == (Status.FAILED if sql else Status.USAGE)
    assert expected.replace("my_broken", name) in result.output


# -- databases


@pytest.fixture
def derby(made: Directory) -> Iterator[str]:
    """Yield the URL of an embedded database, whose driver PySpark has."""
    jvm: Any = made.spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", f"{made.path}/derby.log")
    yield f"jdbc:derby:{made.path}/db;create=true"
    with pytest.raises(Py4JJavaError, match="shutdown|08006"):
        jvm.java.sql.DriverManager.getConnection(f"jdbc:derby:{made.path}/db;shutdown=true")


def database(made: Directory, table: str) -> list[Row]:
    reader = made.spark.read.format("jdbc").option("url", f"jdbc:derby:{made.path}/db").option("dbtable", table)
    return reader.load().collect()


def forget_the_last_commit(made: Directory, query: str) -> None:
    """Make Spark repeat the last micro-batch, as if the driver was killed before it was noted as done."""
    commits = made.path / "checkpoint" / query / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink()


@pytest.mark.matrix
def test_database(made: Directory, topics: Topics, derby: str) -> None:
    """Rows are added once, also where a micro-batch is repeated; or merged by their key, and deleted."""
    topic = topics.create(3)
    made.declare(
        topic,
        '[parse]\nformat = "json"\nschema = "id INT, shop STRING"\n',
        "[[transform]]\nsql = '''SELECT CAST(CAST(kafka.key AS STRING) AS INT) AS id, shop, kafka.offset AS nr FROM records'''",
        sink="".join(
            f'[[sink]]\nname = "{name}"\nformat = "jdbc"\nurl = "${{DATABASE}}"\ntable = "{name}"\n{more}'
            for name, more in (
                ("added", ""),
                ("merged", 'merge = "id"\nlatest_by = "nr"\ndelete_where = "shop IS NULL"\n'),
            )
        ),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE", derby)
        shop = [Record(json.dumps({"shop": f"s{n}"}).encode(), b"%d" % n) for n in range(4)]
        topics.produce(topic, shop)
        assert made.command("--dry-run").exit_code == Status.OK
        made.run_all()
        topics.produce(
            topic, [Record(b'{"shop":"old"}', b"1", 0), Record(b'{"shop":"new"}', b"1", 0), Record(None, b"2", 1)]
        )
        made.run_all()
        for name in ("added", "merged"):
            forget_the_last_commit(made, f"sink-{name}")
        made.run_all()
    assert sorted((row.id, row.shop) for row in database(made, "merged")) == [(0, "s0"), (1, "new"), (3, "s3")]
    added = sorted((row.id, row.shop or "") for row in database(made, "added"))
    assert added == [(0, "s0"), (1, "new"), (1, "old"), (1, "s1"), (2, ""), (2, "s2"), (3, "s3")]
    assert {row[1] for row in database(made, "pykafka_batches")} == {1}


@pytest.mark.matrix
def test_rows_of_one_key(made: Directory, topics: Topics, derby: str) -> None:
    """They are refused where nothing says which is the last."""
    topic = topics.create()
    topics.produce(topic, [Record(b"1", b"a"), Record(b"2", b"a")])
    sql = "SELECT CAST(key AS STRING) AS id, CAST(value AS STRING) AS v FROM records"
    sink = f'[sink]\nformat = "jdbc"\nurl = "{derby}"\ntable = "t"\nmerge = "id"\n'
    made.declare(topic, f'[[transform]]\nsql = "{sql}"', sink=sink)
    result = made.command()
    assert result.exit_code == Status.FAILED
    assert "has several rows of one key (id) for table t of jdbc:derby:" in result.stderr
    assert "declare latest_by" in result.stderr
