"""Sinks that a declaration names, of files, tables and databases: their formats, options and SQL; without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner
from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructField, StructType, TimestampNTZType

from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.spark.pipeline import DeclarationError, frames, lake_tables, launch
from pykafka.spark.pipeline.databases import table_beside, without_secrets
from pykafka.spark.pipeline.errors import PipelineError
from pykafka.spark.pipeline.lake_tables import type_in_sql
from pykafka.spark.pipeline.model import FileSink, FormatSink, JdbcSink, Merge, TableSink
from tests.support.spark.declarations import MINIMAL, PARSE, SINK, SOURCE, TOP, load, only_output, problems, sink_of


def test_other_formats(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, tables, databases, and any format that Spark knows."""
    monkeypatch.setenv("SECRET", "pass?word")
    options = 'options = { delimiter = "${SECRET}" }\n'
    found = sink_of(file, f'format = "csv"\npath = "/d"\npartition_by = "day"\nfiles_per_batch = 2\n{options}')
    assert found.sink == FileSink("/d", ("day",), {"delimiter": "pass?word"}, "csv", 2)
    assert str(found.sink) == "CSV in /d by day"
    found = sink_of(file, 'format = "delta"\npath = "/d"\nmerge = "id"\nlatest_by = "nr"\noutput_mode = "update"\n')
    assert found.sink == TableSink("delta", "/d", "", "", (), {}, Merge(("id",), ("nr",), ""))
    assert (str(found.sink), found.mode) == ("Delta Lake table /d, merged by id", "update")
    found = sink_of(file, 'format = "iceberg"\ntable = "lake.web.clicks"\nwarehouse = "/lake"\n')
    assert found.sink == TableSink("iceberg", "", "lake.web.clicks", "/lake", (), {}, None)
    found = sink_of(file, 'format = "jdbc"\nurl = "jdbc:x://me:${SECRET}@h/db?p=${SECRET}"\ntable = "t"\n')
    assert isinstance(found.sink, JdbcSink)
    assert found.sink.options == {"url": "jdbc:x://me:pass?word@h/db?p=pass?word"}
    assert "word" not in f"{found.sink} {found!r}"
    assert "pass" not in str(found.sink)
    found = sink_of(file, f'format = "org.example.Sink"\noutput_mode = "complete"\n{options}')
    assert found.sink == FormatSink("org.example.Sink", "", (), {"delimiter": "pass?word"})
    assert "pass?word" not in repr(found)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("jdbc:postgresql://h:5432/shop", "jdbc:postgresql://h:5432/shop"),
        ("jdbc:postgresql://me:hunter2@h/shop?ssl=true", "jdbc:postgresql://h/shop"),
        ("jdbc:postgresql://me:hun?ter2@h/shop", "jdbc:postgresql:..."),
        ("jdbc:postgresql://me:hun/ter2@h/shop", "jdbc:postgresql:..."),
        ("jdbc:postgresql://me:hun@ter2@h/shop", "jdbc:postgresql:..."),
        ("jdbc:postgresql://h/shop?user=me@h&password=hunter2", "jdbc:postgresql:..."),
        ("jdbc:oracle:thin:me/hunter2@//h:1521/shop", "jdbc:oracle:..."),
        ("jdbc:db2://h:50000/shop:password=hunter2;", "jdbc:db2:..."),
        ("jdbc:sqlserver://h;user=me;password=hunter2", "jdbc:sqlserver://h"),
        ("jdbc:derby:/data/db;create=true", "jdbc:derby:/data/db"),
    ],
)
def test_urls_of_databases_show_no_password(url: str, shown: str) -> None:
    """Each driver has a form of its own for the login."""
    assert str(JdbcSink("t", {"url": url}, None)) == f"table t of {shown}"


def test_the_table_beside() -> None:
    """A long name that a database cuts is not the table itself: Spark would make that anew."""
    query = "0a1b2c3d-0000-4000-8000-0123456789ab"
    for table in ("public.customers", "customers", "public." + "c" * 63):
        (schema, _, name), (their_schema, _, their_name) = (
            table_beside(table, query).rpartition("."),
            table.rpartition("."),
        )
        assert (schema, len(name)) == (their_schema, 28)
        assert name != their_name[:63]
    assert table_beside("t", query) != table_beside("t", query.replace("0a1b", "0a1c"))


def test_texts_of_drivers_show_no_password() -> None:
    options = {"url": "jdbc:x://h?p=hunter2", "password": "s3cret", "driver": "org.X"}
    said = without_secrets("X: Unable to parse URL jdbc:x://h?p=hunter2 with s3cret by org.X", options)
    assert said == "X: Unable to parse URL [not shown] with [not shown] by org.X"


@pytest.mark.parametrize("name", ['a", (SELECT 1)) --', "a`", "a]", "a\n"])
def test_columns_that_a_database_cannot_quote(file: Path, name: str) -> None:
    """A schema of a registry may have any name, and Spark's dialects put quotes around it, no more."""
    declaration = load(file, TOP + SOURCE + '[sink]\nformat = "jdbc"\nurl = "jdbc:x://h"\ntable = "t"\n')
    with pytest.raises(DeclarationError, match="cannot be a column of a database"):
        frames.check_sink(cast(Any, SimpleNamespace(columns=["id", name])), declaration, only_output(declaration))
    frames.check_sink(cast(Any, SimpleNamespace(columns=["id", "a b.c"])), declaration, only_output(declaration))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('format = "parqet"\npath = "/d"', "format: 'parqet' is no format that is known here; did you mean 'parquet'?"),
        ('format = "csv"', "[sink] path: missing"),
        ('format = "csv"\npath = "/d"\nfiles_per_batch = 0', "files_per_batch: must be 1 or more, not 0"),
        ('format = "orc"\npath = "/d"\noutput_mode = "update"', "'update' is not possible for ORC in /d: files are added"),
        ('format = "delta"\npath = "/d"\noutput_mode = "update"', "changed rows need merge, the columns of their key"),
        ('format = "delta"\npath = "/d"\nmerge = "id"\noutput_mode = "complete"', "it takes append or update"),
        ('format = "delta"\npath = "/d"\noutput_mode = "upsert"', "output_mode: must be 'append' or 'update' or 'complete'"),
        ('format = "delta"', "[sink] path: missing: give a path, or the name of a table"),
        ('format = "delta"\npath = "/d"\ntable = "t"', "[sink] path: contradicts table"),
        ('format = "delta"\npath = "/d"\nlatest_by = "nr"', "latest_by: has no meaning without merge"),
        ('format = "iceberg"\ntable = "clicks"', "table: 'clicks' must have a catalog, a schema and a name"),
        ('format = "iceberg"\ntable = "a.b.c; DROP"', "must be names with dots between them"),
        ('format = "iceberg"\npath = "/d"', '[sink] path: contradicts format = "iceberg"'),
        ('format = "jdbc"\nurl = "postgresql://h"\ntable = "t"', "[sink] url: must begin with jdbc:"),
        ('format = "jdbc"\nurl = "jdbc:x"\ntable = "t"\noptions = { dbtable = "t" }', "has a key of its own, [sink] table"),
        ('format = "jdbc"\nurl = "jdbc:${NO_SUCH}"\ntable = "t"', "url: refers to the environment variable NO_SUCH"),
        ('format = "csv"\npath = "/d"\noptions = { a = "${NO_SUCH}" }', "options a: refers to the environment variable"),
        ('format = "topic"\ntopic = "x"\nmerge = "id"', '[sink] merge: contradicts format = "topic"'),
        ('format = "parquet"\npath = "/d"\n[udf]\nmodules = "my.py/x"', "[udf] modules: 'my.py/x' is no name of a module"),
        ('format = "parquet"\npath = "/d"\n[spark.config]\na = "${NO_SUCH}"', "[spark] config a: refers to"),
    ],
)  # fmt: skip
def test_mistakes_of_sinks(file: Path, text: str, expected: str) -> None:
    found = problems(file, TOP + SOURCE + "[sink]\n" + text)
    assert any(expected in problem for problem in found), found


def test_malformed_records_go_to_files_or_topics(file: Path) -> None:
    kept = '[malformed]\nformat = "delta"\npath = "/d"\n'
    assert "[malformed] format: must be 'parquet' or" in problems(file, MINIMAL + PARSE + kept)[0]


def test_settings_of_tables(file: Path) -> None:
    """Jars by coordinates for the release of Spark, and none where the user brings some."""
    text = TOP + SOURCE + '[sink]\nformat = "{}"\ntable = "lake.web.t"\n'
    iceberg = load(file, text.format("iceberg") + 'warehouse = "/lake"\n')
    assert launch.table_settings(iceberg, "4.1.1") == {
        "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": "/lake",
    }
    with pytest.raises(
        DeclarationError, match=r"\[sink\] format: 'iceberg' needs jars .* for 4.0, 4.1, and this is PySpark 4.3.0"
    ):
        launch.table_settings(iceberg, "4.3.0")
    delta = load(file, text.format("delta"))
    assert launch.table_settings(delta, "4.2.0")["spark.jars.packages"] == "io.delta:delta-spark_4.2_2.13:4.4.0"
    with pytest.raises(DeclarationError, match=r"for 4.0, 4.1, 4.2.0, and this is PySpark 4.2.1"):
        launch.table_settings(delta, "4.2.1")
    own = '[spark.config]\n"spark.jars" = "/jars/delta-spark_4.3.jar"\n"spark.sql.extensions" = "org.example.Mine"\n'
    found = launch.table_settings(load(file, text.format("delta") + own), "4.3.0")
    assert "spark.jars.packages" not in found
    assert found["spark.sql.extensions"] == "org.example.Mine,io.delta.sql.DeltaSparkSessionExtension"
    assert launch.table_settings(load(file, MINIMAL), "4.3.0") == {}


KEPT = '[malformed]\nformat = "topic"\ntopic = "bad"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[sink]\nformat = "delta"\npath = "/d"\nmerge = "id"\noptions = { mergeSchema = true }\n',
            "[sink] options: has no meaning with merge, which is SQL",
        ),
        (
            SINK + PARSE + KEPT + 'serialize = { format = "avro", schema_file = "/s" }\n',
            "[malformed] serialize: has no meaning here: these records keep their bytes",
        ),
        (
            SINK + PARSE + '[dead_letters]\ntopic = "bad"\nserialize = { format = "avro", schema_file = "/s" }\n',
            "[dead_letters] serialize: has no meaning here",
        ),
        (
            SINK + 'name = "malformed"\n' + PARSE + KEPT,
            "[sink] name: 'malformed' is the query of the malformed records",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(file: Path, text: str, expected: str) -> None:
    found = problems(file, TOP + SOURCE + text)
    assert [problem for problem in found if problem.startswith(expected)], found


def test_types_of_new_tables() -> None:
    """Fields within a column may have any name, as columns may."""
    inner = StructType([StructField("a-b", StringType()), StructField("c`d", ArrayType(DecimalType(9, 2)))])
    assert type_in_sql(inner) == "struct<`a-b`: string, `c``d`: array<decimal(9,2)>>"
    assert type_in_sql(MapType(StringType(), inner)) == f"map<string, {type_in_sql(inner)}>"
    assert type_in_sql(TimestampNTZType()) == "timestamp_ntz"


def test_what_can_be_compacted(file: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"\[sink\]: Parquet in /data/clicks cannot be compacted: .* files_per_batch"
    ):
        lake_tables.check(only_output(load(file, MINIMAL)))
    result = CliRunner().invoke(tools, ["pipeline", str(file), "--compact"])
    assert result.exit_code == Status.FAILED
    assert "cannot be compacted" in result.output
    delta = sink_of(file, 'format = "delta"\npath = "/d`x"\n').sink
    assert isinstance(delta, TableSink)
    assert lake_tables.statement(delta) == "OPTIMIZE delta.`/d``x`"
    iceberg = sink_of(file, 'format = "iceberg"\ntable = "lake.web.t"\n').sink
    assert isinstance(iceberg, TableSink)
    assert lake_tables.statement(iceberg) == "CALL `lake`.system.rewrite_data_files(table => 'web.t')"
