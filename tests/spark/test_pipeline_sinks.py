"""Pipelines with several sources and sinks: a join of streams, files, topics, databases, and functions in Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import Row, SparkSession

from pykafka.cli.exit_status import Status
from pykafka.spark.pipeline import Declaration, DeclarationError, PipelineError
from pykafka.spark.pipeline.databases import DatabaseWriter
from pykafka.spark.pipeline.deadletters import is_supported, taps_in
from pykafka.spark.pipeline.errors import TableMismatchError
from pykafka.spark.pipeline.frames import build, read_nothing
from pykafka.spark.pipeline.lake_tables import latest
from pykafka.spark.pipeline.model import JdbcSink, Merge
from tests.spark.test_pipeline import Directory
from tests.support.spark.killing_merges import KEYS, kill_and_go_on
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


def test_a_key_of_any_name(spark: SparkSession) -> None:
    """Also one that Spark's own functions give a column, and one with dots and quotes."""
    rows = spark.sql("SELECT 1 AS count, 2 AS `a.b``c`, id FROM range(2)")
    for keys in (("count",), ("a.b`c",)):
        with pytest.raises(PipelineError, match="several rows of one key"):
            latest(rows, Merge(keys, (), ""), "table t")
        (last,) = latest(rows, Merge(keys, ("id",), ""), "table t").collect()
        assert last.id == 1
    assert latest(rows, Merge(("id",), (), ""), "table t") is rows


@pytest.mark.matrix
def test_a_table_of_a_database_that_others_own(made: Directory, derby: str) -> None:
    """Names in another case are the same, NULL is a key like others, and columns that rows lack stay as they are."""
    spark, jvm = made.spark, made.spark._jvm
    connection = cast("Any", jvm).java.sql.DriverManager.getConnection(derby)

    def run(*statements: str) -> None:
        for text in statements:
            statement = connection.createStatement()
            statement.executeUpdate(text)
            statement.close()

    def found() -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in database(made, "t")), key=str)

    run(
        "CREATE TABLE t (ID INT, \"a.b\" INT, N INT, OWN VARCHAR(9) DEFAULT 'new')",
        "INSERT INTO t VALUES (1, NULL, 0, 'kept'), (2, 2, 0, 'kept'), (3, 3, 0, 'kept')",
    )
    try:
        merge = DatabaseWriter(spark, JdbcSink("t", {"url": derby}, Merge(("id", "a.b"), (), "")))
        rows = spark.sql("SELECT * FROM VALUES (1, NULL, 10), (2, 2, 20), (9, NULL, 90) AS t(id, `a.b`, n)")
        merge.land(rows, "q", 0)
        merge.land(rows.where("false"), "q", 0)
        first = [(1, None, 10, "kept"), (2, 2, 20, "kept"), (3, 3, 0, "kept"), (9, None, 90, "new")]
        assert found() == first
        gone = spark.sql("SELECT * FROM VALUES (1, NULL, 11, 1), (2, 2, 21, 0) AS t(id, `a.b`, n, pykafka_gone)")
        merge.land(gone, "q", 1)
        assert found() == [(2, 2, 21, "kept"), *first[2:]]
        # All columns: rows are replaced, by NULL, too.
        whole = spark.sql("SELECT * FROM VALUES (9, CAST(NULL AS INT), 91, CAST(NULL AS INT)) AS t(id, `a.b`, n, own)")
        run("ALTER TABLE t DROP COLUMN OWN", "ALTER TABLE t ADD COLUMN OWN INT")
        merge.land(whole, "q", 2)
        assert found() == [(2, 2, 21, None), (3, 3, 0, None), (9, None, 91, None)]
        with pytest.raises(TableMismatchError, match=r"has no column 'more', as the rows have: add it .* last step"):
            merge.land(rows.selectExpr("*", "1 AS more"), "q", 3)
        with pytest.raises(TableMismatchError, match="has no column 'id'"):
            spark.conf.set("spark.sql.caseSensitive", True)
            DatabaseWriter(spark, JdbcSink("t", {"url": derby}, None)).fit(["id", "N"], None)
        spark.conf.unset("spark.sql.caseSensitive")
        run("DROP TABLE t")
        with pytest.raises(TableMismatchError, match="is not there, and the checkpoint says that it has micro-batch 2"):
            merge.land(rows, "q", 3)
        DatabaseWriter(spark, JdbcSink("t", {"url": derby}, None)).land(rows, "other", 0)
        assert len(found()) == 3
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
        connection.close()


@pytest.mark.matrix
@pytest.mark.spark
def test_a_driver_that_is_killed(tmp_path: Path) -> None:
    """After the transaction, and before Spark has noted the micro-batch: the next run leaves it out."""
    (tmp_path / "p.toml").write_text(
        f'checkpoint = "{tmp_path}/checkpoint"\n[source]\nbrokers = "127.0.0.1:1"\ntopic = "t"\n[sink]\nformat = "jdbc"\n'
        f'url = "jdbc:derby:{tmp_path}/db;create=true"\ntable = "t"\n{KEYS}[spark]\nmaster = "local[2]"\n'
        '[spark.config]\n"spark.ui.enabled" = false\n"spark.driver.host" = "127.0.0.1"\n'
    )
    kill_and_go_on(tmp_path)


def test_a_sink_that_moves(made: Directory, topics: Topics) -> None:
    """Its earlier rows would be missing there; the dry run says it, too."""
    topic = topics.create()
    topics.produce(topic, [Record(b"1")])
    made.declare(topic)
    made.run()
    for options in (["--dry-run"], []):
        result = made.command(*options, "--set", f"sink.path={made.path}/other")
        assert result.exit_code == Status.FAILED
        assert f"place was file:{made.path}/landed and is file:{made.path}/other" in result.output
    assert not (made.path / "other").exists()
    made.run()


def test_dead_letters_of_a_plan_that_is_left_out(made: Directory, topics: Topics) -> None:
    """The next sink sends them; if there is none, they are refused."""
    (made.path / "nothing").mkdir()
    step = "SELECT key, struct(*) AS kafka, 'bad' AS error FROM records"
    sinks = [f'[[sink]]\nname = "{name}"\nfrom = "{name}"\nformat = "noop"\n' for name in ("none", "checked")]
    steps = f'[[transform]]\nview = "checked"\nsql = "{step}"\n[[transform]]\nview = "none"\n'
    steps += 'sql = "SELECT key FROM checked LIMIT 0"\n'
    letters = '[dead_letters]\ntopic = "dead"\n'

    def rows(*sinks: str) -> Any:
        made.declare("t", letters, steps, sink="".join(sinks))
        declaration = Declaration.load(made.file)
        return build(declaration, lambda source: read_nothing(made.spark, str(made.path / "nothing"), source)).rows

    if not is_supported():
        with pytest.raises(DeclarationError, match="needs PySpark 4.1 or later"):
            rows(*sinks)
        return
    views = frozenset({"checked"})
    assert [taps_in(frame, views) for _, frame in rows(*sinks)] == [(views, frozenset()), (views, views)]
    with pytest.raises(
        DeclarationError, match=r"\[dead_letters\]: no query would send those of 'checked': no row of it can"
    ):
        rows(sinks[0])
