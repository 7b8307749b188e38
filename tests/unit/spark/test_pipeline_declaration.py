"""Declarations of pipelines in TOML, and the sentences about wrong ones: without Spark and without a broker."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructField, StructType, TimestampNTZType

from pykafka.cli.app import tools
from pykafka.cli.cmd_pipeline import reason
from pykafka.cli.statuses import Status
from pykafka.metadata.settings import MetadataSettings
from pykafka.network.settings import ConnectionSettings
from pykafka.spark.pipeline import Declaration, DeclarationError, compaction, frames, lakes, landing
from pykafka.spark.pipeline.checks import _directory
from pykafka.spark.pipeline.databases import table_beside, without_secrets
from pykafka.spark.pipeline.errors import PipelineError, SparkMissingError
from pykafka.spark.pipeline.example import EXAMPLE
from pykafka.spark.pipeline.landing import merge_statement, type_in_sql
from pykafka.spark.pipeline.launch import session
from pykafka.spark.pipeline.model import (
    FileSink,
    FormatSink,
    Input,
    JdbcSink,
    Merge,
    Output,
    TableSink,
    TopicSink,
    Watermark,
)
from pykafka.spark.pipeline.progress import Progress

SOURCE = '[source]\nbrokers = "localhost:9092"\ntopic = "clicks"\n'
SINK = '[sink]\nformat = "parquet"\npath = "/data/clicks"\n'
PARSE = '[parse]\nformat = "json"\nschema = "user STRING"\n'
TOP = 'checkpoint = "/data/checkpoint"\n'
MINIMAL = TOP + SOURCE + SINK
COPY = '[sink]\nformat = "topic"\ntopic = "copy"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a declaration that is to be written."""
    return tmp_path / "clicks.toml"


def load(file: Path, text: str, *overrides: str) -> Declaration:
    file.write_text(text, encoding="utf-8")
    return Declaration.load(file, overrides)


def read(declaration: Declaration) -> Input:
    """Return the only source."""
    (found,) = declaration.inputs
    return found


def written(declaration: Declaration) -> Output:
    """Return the only sink."""
    (found,) = declaration.outputs
    return found


def problems(file: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        load(file, text, *overrides)
    assert str(caught.value).startswith(f"{file} cannot be run:\n  ")
    return [str(problem) for problem in caught.value.problems]


def test_minimal(file: Path) -> None:
    found = load(file, MINIMAL)
    assert (found.name, found.trigger, found.checkpoint) == ("clicks", "available_now", "/data/checkpoint")
    assert read(found).source.options == {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribe": "clicks",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    assert read(found).source.columns[:2] == ("key", "value")
    assert written(found).sink == FileSink("/data/clicks", (), {})
    assert (read(found).view, read(found).parsing, read(found).malformed) == ("records", None, None)
    assert (found.steps, found.master, found.config) == ((), "", {})
    assert (written(found).directory, read(found).malformed_directory) == ("records", "malformed")


def test_example(file: Path) -> None:
    found = load(file, EXAMPLE)
    assert read(found).parsing is not None
    assert [step.view for step in found.steps] == ["named", ""]
    assert read(found).source.options["maxOffsetsPerTrigger"] == "500000"
    assert read(found).malformed == FileSink("/data/malformed/clicks", (), {})


def test_example_shows_defaults(file: Path) -> None:
    """Each option that the example comments out shows its default."""
    text = EXAMPLE
    for line in ("# trigger =", "# start =", "# columns =", "# column =", "# options = {}"):
        assert f"\n{line}" in text
        text = text.replace(f"\n{line}", f"\n{line[2:]}")
    assert load(file, text) == load(file, EXAMPLE)


def test_all_that_a_source_can_say(file: Path) -> None:
    text = TOP + SINK + (
        '[source]\nbrokers = ["a:1", "b:2"]\ntopic = ["one", "two"]\ncolumns = ["value", "offset"]\n'
        "start = { one = { 0 = 5 }, two = { 0 = -2 } }\n"
        "[source.options]\nfailOnDataLoss = false\nmaxOffsetsPerTrigger = 7\n"
    )  # fmt: skip
    assert read(load(file, text)).source.options == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "subscribe": "one,two",
        "startingOffsets": '{"one": {"0": 5}, "two": {"0": -2}}',
        "includeHeaders": "false",
        "failOnDataLoss": "false",
        "maxOffsetsPerTrigger": "7",
    }


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        ('pattern = "clicks-.*"', "subscribePattern", "clicks-.*"),
        ("partitions = { clicks = [0, 2] }", "assign", '{"clicks": [0, 2]}'),
    ],
)
def test_other_subscriptions(file: Path, line: str, option: str, value: str) -> None:
    options = read(load(file, MINIMAL.replace('topic = "clicks"', line))).source.options
    assert options[option] == value
    assert "subscribe" not in options


def test_steps(file: Path) -> None:
    steps = (
        '[[transform]]\nview = "a"\nsql = "SELECT 1"\nwatermark = { column = "at", delay = "10 minutes" }\n'
        '[[transform]]\nsql = "SELECT 2"\n'
    )
    first, last = load(file, MINIMAL + steps).steps
    assert (first.view, first.watermark) == ("a", Watermark("at", "10 minutes"))
    assert (last.sql, last.view, last.watermark) == ("SELECT 2", "", None)


def test_sink_on_the_brokers_of_the_source(file: Path) -> None:
    options = "[source.options]\n'kafka.request.timeout.ms' = 5000\nmaxOffsetsPerTrigger = 7\n"
    sink = written(load(file, TOP + SOURCE + options + COPY)).sink
    assert isinstance(sink, TopicSink)
    assert sink.options == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.request.timeout.ms": "5000",
        "topic": "copy",
    }


def test_sink_on_other_brokers(file: Path) -> None:
    text = TOP + SOURCE + '[sink]\nformat = "topic"\nbrokers = "other:9092"\n'
    sink = written(load(file, text)).sink
    assert isinstance(sink, TopicSink)
    assert sink.topic is None  # each row says it
    assert str(sink) == "the topic that each row names on other:9092"


VIEWS = SOURCE.replace("[source]", '[[source]]\nview = "{0}"').replace("clicks", "{0}")
SINKS = SINK.replace("[sink]", '[[sink]]\nname = "{0}"').replace("clicks", "{0}")


def test_several(file: Path) -> None:
    """Each source is a view with a parser of its own, each sink a query with a checkpoint of its own."""
    parse = "[source.parse]\nformat = 'csv'\nschema = 'a INT'\n[source.malformed]\nformat = 'parquet'\npath = '/bad'\n"
    watermark = "[source.watermark]\ncolumn = 'timestamp'\ndelay = '1 minute'\n"
    step = '[[transform]]\nsql = "SELECT 1"\n'
    found = load(
        file,
        TOP + VIEWS.format("a") + parse + VIEWS.format("b") + watermark + step
        + SINKS.format("x") + 'from = "a"\n' + SINK.replace("[sink]", "[[sink]]"),
    )  # fmt: skip
    a, b = found.inputs
    assert (a.place, a.view, a.source.options["subscribe"]) == ("[source 1]", "a", "a")
    assert a.parsing is not None
    assert (a.parsing.schema, a.parsing.place) == ("a INT", "[source 1.parse]")
    assert (a.malformed_place, a.malformed_directory) == ("[source 1.malformed]", "malformed-a")
    assert (b.view, b.parsing, b.watermark) == ("b", None, Watermark("timestamp", "1 minute"))
    x, unnamed = found.outputs
    assert (x.place, x.view, x.directory, found.query_of(x)) == ("[sink 1]", "a", "sink-x", "clicks-x")
    assert (unnamed.view, unnamed.directory, found.query_of(unnamed)) == ("", "records", "clicks")
    assert found.checkpoint_of(x.directory) == "/data/checkpoint/sink-x"
    assert (found.input_of(x), found.input_of(unnamed)) == (a, None)


def test_one_written_as_several(file: Path) -> None:
    """It is the same pipeline, with the same progress."""
    assert load(file, MINIMAL.replace("[source]", "[[source]]").replace("[sink]", "[[sink]]")) == load(file, MINIMAL)


def test_override_of_one_of_several(file: Path) -> None:
    text = TOP + SOURCE + SINKS.format("x") + SINKS.format("y")
    x, y = load(file, text, "sink.y.path=/other", "sink.1.path=/first").outputs
    assert (x.sink, y.sink) == (FileSink("/first", (), {}), FileSink("/other", (), {}))
    for url in ("jdbc:oracle:thin:me/hunter2@//h", "https://hooks.example/hunter2"):
        (problem, *_) = problems(file, text, f"sink.url={url}")
        assert problem.startswith("--set sink.url=...: there are several tables [[sink]]")
        assert "hunter2" not in problem
    assert problems(file, text, "sink.path=/z")[0].startswith("--set sink.path=/z: there are several tables [[sink]]")


def sink_of(file: Path, text: str) -> Output:
    return written(load(file, TOP + SOURCE + f"[sink]\n{text}"))


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


def test_options_are_in_no_repr(file: Path) -> None:
    """Also those that the file itself has, without a reference."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'\'{module} required username="me" password="hunter2";\''
    options = (
        'options = { "kafka.security.protocol" = "SASL_SSL", "kafka.sasl.mechanism" = "PLAIN", '
        f'"kafka.sasl.jaas.config" = {login} }}\n'
    )
    text = TOP + SOURCE + options + f'[sink]\nformat = "topic"\ntopic = "copy"\n{options}'
    assert "hunter2" not in repr(load(file, text))


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
        frames._check_sink(cast(Any, SimpleNamespace(columns=["id", name])), declaration, written(declaration))
    frames._check_sink(cast(Any, SimpleNamespace(columns=["id", "a b.c"])), declaration, written(declaration))


def test_settings_with_references(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gets the value, and no text of the declaration shows it."""
    monkeypatch.setenv("SECRET", "password")
    found = load(file, MINIMAL + '[spark.config]\n"spark.hadoop.fs.s3a.secret.key" = "${SECRET}"\n')
    assert found.config == {"spark.hadoop.fs.s3a.secret.key": "password"}
    assert "password" not in repr(found)


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
        ('format = "jdbc"\nurl = "jdbc:${NO_SUCH}"\ntable = "t"', "url refers to the environment variable NO_SUCH"),
        ('format = "csv"\npath = "/d"\noptions = { a = "${NO_SUCH}" }', "options a refers to the environment variable NO_SUCH"),
        ('format = "topic"\ntopic = "x"\nmerge = "id"', '[sink] merge: contradicts format = "topic"'),
        ('format = "parquet"\npath = "/d"\n[udf]\nmodules = "my.py/x"', "[udf] modules: 'my.py/x' is no name of a module"),
        ('format = "parquet"\npath = "/d"\n[spark.config]\na = "${NO_SUCH}"', "[spark] config a: config a refers to"),
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
    assert lakes.settings(iceberg, "4.1.1") == {
        "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": "/lake",
    }
    with pytest.raises(
        DeclarationError, match=r"\[sink\] format: 'iceberg' needs jars .* for 4.0, 4.1, and this is PySpark 4.3.0"
    ):
        lakes.settings(iceberg, "4.3.0")
    delta = load(file, text.format("delta"))
    assert lakes.settings(delta, "4.2.0")["spark.jars.packages"] == "io.delta:delta-spark_4.2_2.13:4.4.0"
    with pytest.raises(DeclarationError, match=r"for 4.0, 4.1, 4.2.0, and this is PySpark 4.2.1"):
        lakes.settings(delta, "4.2.1")
    own = '[spark.config]\n"spark.jars" = "/jars/delta-spark_4.3.jar"\n"spark.sql.extensions" = "org.example.Mine"\n'
    found = lakes.settings(load(file, text.format("delta") + own), "4.3.0")
    assert "spark.jars.packages" not in found
    assert found["spark.sql.extensions"] == "org.example.Mine,io.delta.sql.DeltaSparkSessionExtension"
    assert lakes.settings(load(file, MINIMAL), "4.3.0") == {}


def test_the_only_one_of_a_list_needs_no_name(file: Path) -> None:
    text = TOP + SOURCE + SINK.replace("[sink]", "[[sink]]\nname = 'x'")
    for key in ("sink.path", "sink.1.path", "sink.x.path"):
        assert str(written(load(file, text, f"{key}=/z")).sink) == "Parquet in /z"


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


def test_keys_may_have_dots() -> None:
    """Spark would look for a field of a column."""
    asked: list[str] = []

    class Rows:
        def groupBy(self, *names: str) -> Any:
            asked.extend(names)
            return SimpleNamespace(count=lambda: self)

        def where(self, _condition: str) -> Any:
            return SimpleNamespace(limit=lambda _count: SimpleNamespace(collect=list))

    rows = cast(Any, Rows())
    assert landing._latest(rows, Merge(("order.id",), (), ""), "table t") is rows
    assert asked == ["`order.id`"]


def test_merge_statement() -> None:
    assert merge_statement("t", Merge(("a", "b"), (), "")) == (
        "MERGE INTO t AS t USING (SELECT *, false AS `_pykafka_gone` FROM pykafka_batch) AS s "
        "ON t.`a` <=> s.`a` AND t.`b` <=> s.`b`\n"
        "WHEN MATCHED THEN UPDATE SET *\nWHEN NOT MATCHED AND NOT s.`_pykafka_gone` THEN INSERT *"
    )
    commented = merge_statement("t", Merge(("a",), (), "x IS NULL -- gone"))
    assert "SELECT *, coalesce((x IS NULL -- gone\n), false) AS `_pykafka_gone`" in commented
    assert "WHEN MATCHED AND s.`_pykafka_gone` THEN DELETE" in merge_statement("t", Merge(("a",), (), "x IS NULL"))


def test_what_can_be_compacted(file: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"\[sink\]: Parquet in /data/clicks cannot be compacted: .* files_per_batch"
    ):
        compaction.check(written(load(file, MINIMAL)))
    result = CliRunner().invoke(tools, ["pipeline", str(file), "--compact"])
    assert result.exit_code == Status.FAILED
    assert "cannot be compacted" in result.output
    delta = sink_of(file, 'format = "delta"\npath = "/d`x"\n').sink
    assert isinstance(delta, TableSink)
    assert compaction.statement(delta) == "OPTIMIZE delta.`/d``x`"
    iceberg = sink_of(file, 'format = "iceberg"\ntable = "lake.web.t"\n').sink
    assert isinstance(iceberg, TableSink)
    assert compaction.statement(iceberg) == "CALL `lake`.system.rewrite_data_files(table => 'web.t')"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (VIEWS.format("a") * 2 + SINK, "[source 2] view: 'a' exists already"),
        (VIEWS.format("a-b") + SINK, "[source] view: 'a-b' cannot be a name"),
        (SOURCE.replace("[source]", "[[source]]") * 2 + SINK, "[source 2] view: 'records' exists already"),
        (VIEWS.format("a") + VIEWS.format("b") + SINK, "[sink] from: missing: there is no [[transform]], so say which"),
        (VIEWS.format("a") + VIEWS.format("b") + PARSE + SINK + 'from = "a"', "[parse]: does not say of which source"),
        (SOURCE + "[source.parse]\nformat = 'csv'\nschema = 'a INT'\n" + PARSE + SINK, "[source.parse]: contradicts [parse]"),
        (SOURCE + "[source.watermark]\ncolumn = 'at'\ndelay = '9'\n" + SINK, "[source.watermark] delay: must be an interval"),
        (SOURCE + SINK + 'from = "x"', "[sink] from: 'x' is the view of no source and no step; those are records"),
        (SOURCE + SINKS.format("x") * 2, "[sink 2] name: 'x' exists already"),
        (SOURCE + SINKS.format("x") * 2, "[sink 2] path: /data/x and [sink 1] path /data/x lie in each other"),
        (SOURCE + SINK.replace("[sink]", "[[sink]]") * 2, "[sink 2] name: missing: only one sink can be without"),
        (SOURCE + SINKS.format("x/y"), "[sink] name: 'x/y' cannot be a name"),
        (SOURCE + "[[transform]]\nview = 'RECORDS'\nsql = 'SELECT 1'\n" + SINK, "[transform 1] view: 'RECORDS' exists"),
        (
            VIEWS.format("a") + VIEWS.format("b").replace("localhost", "other") + COPY + 'from = "a"',
            "[sink] brokers: missing: the sources have different connections",
        ),
        (VIEWS.format("a") + VIEWS.format("b") + COPY.replace("copy", "b") + 'from = "a"', "would write to topic 'b'"),
        ("source = []\n" + TOP + SINK, "source: must be a table, or several, each written [[source]]"),
    ],
)  # fmt: skip
def test_mistakes_with_several(file: Path, text: str, expected: str) -> None:
    found = problems(file, text if "checkpoint" in text else TOP + text)
    assert any(expected in problem for problem in found), found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SOURCE + SINK, "checkpoint: missing"),
        (TOP + SINK, "[source]|source: missing"),
        (TOP + SOURCE, "sink: missing"),
        ("chekpoint = 1\n" + MINIMAL, "chekpoint: not known; did you mean 'checkpoint'?"),
        ("sources = {}\n" + MINIMAL, "sources: not known; did you mean 'source'?"),
        ("xyz = 1\n" + MINIMAL, "xyz: not known; known here are alert, checkpoint, dead_letters, malformed, metrics, name,"),
        ("source = 1\n" + TOP + SINK, "source: must be a table or a list, not a whole number (1)"),
        ("name = true\n" + MINIMAL, "name: must be text, not true or false (True)"),
        ("name = 2026-01-01\n" + MINIMAL, "name: must be text, not a date or time"),
        ('name = " "\n' + MINIMAL, "name: is empty"),
        ('trigger = "5 parsecs"\n' + MINIMAL, "trigger: must be 'available_now', 'once' or an interval"),
        ('trigger = "10seconds or so"\n' + MINIMAL, "trigger: must be"),
        (MINIMAL.replace("brokers =", "broker ="), "[source] brokers: missing"),
        (MINIMAL.replace('"localhost:9092"', '"localhost"'), "[source] brokers: option 'kafka.bootstrap.servers' has"),
        (MINIMAL.replace(":9092", ":99999"), "[source] brokers: option 'kafka.bootstrap.servers': 'localhost:99999' is no"),
        (MINIMAL.replace('"localhost:9092"', "[]"), "[source] brokers: must be a text, or a list of texts"),
        (MINIMAL.replace('topic = "clicks"', ""), "[source] topic: missing: name a topic"),
        (MINIMAL.replace('topic = "clicks"', 'topic = "a b"'), "[source] topic: option 'subscribe' has 'a b'"),
        (MINIMAL.replace("[sink]", 'pattern = "x"\n[sink]'), "[source] pattern: contradicts topic"),
        (MINIMAL.replace("[sink]", 'start = "erliest"\n[sink]'), "[source] start: option 'startingOffsets' must be"),
        (MINIMAL.replace("[sink]", 'columns = ["valu"]\n[sink]'), "[source] columns: 'valu' is no column of Kafka"),
        (MINIMAL.replace("[sink]", 'columns = ["key", "key"]\n[sink]'), "[source] columns: has a column twice"),
        (MINIMAL + '[source.options]\nsubscribe = "x"\n', "[source] options subscribe: has a key of its own, [source] topic"),
        (MINIMAL + "[source.options]\nmaxOffsetPerTrigger = 1\n", "did you mean 'maxOffsetsPerTrigger'?"),
        (MINIMAL + '[source.options]\nendingOffsets = "latest"\n', "'endingOffsets' is not valid in a streaming read"),
        (MINIMAL + "[source.options]\nfailOnDataLoss = 2026-01-01\n", "[source] options failOnDataLoss: must be a text"),
        (
            MINIMAL.replace("[sink]", 'start = "latest"\n[sink]') + '[source.options]\nstartingTimestamp = 5\n',
            "[source] options startingTimestamp: contradicts start",
        ),
        (MINIMAL + PARSE.replace("json", "xml"), "[parse] format: must be 'json' or 'csv' or 'avro' or"),
        (MINIMAL + PARSE + 'column = "valeu"', "[parse] column: must be 'value' or 'key', not 'valeu'; did you mean"),
        (MINIMAL + PARSE + 'options = { mode = "x" }', "[parse] options mode: cannot be set"),
        (MINIMAL.replace("[sink]", 'columns = ["key"]\n[sink]') + PARSE, "[parse] column: 'value' is not read"),
        (MINIMAL + SINK.replace("sink", "malformed"), "[malformed]: needs [parse]"),
        (MINIMAL + PARSE + SINK.replace("sink", "malformed"), "[malformed] path: /data/clicks and [sink] path"),
        (MINIMAL + PARSE + '[malformed]\nformat = "topic"', "[malformed] topic: missing"),
        (MINIMAL + 'topic = "x"', '[sink] topic: contradicts format = "parquet"'),
        (MINIMAL + "options = { compresion = 1 }", "[sink] options compresion: not known; known here are compression"),
        (TOP + SOURCE + COPY + 'path = "x"', '[sink] path: contradicts format = "topic"'),
        (TOP + SOURCE + COPY + 'options = { "kafka.acks" = 2 }', "[sink] options kafka.acks: option 'kafka.acks'"),
        (TOP + SOURCE + COPY.replace("copy", "clicks"), "[sink] topic: would write to topic 'clicks', which [source]"),
        (
            MINIMAL + PARSE + COPY.replace("sink", "malformed").replace("copy", "clicks"),
            "[malformed] topic: would write to topic 'clicks', which [source]",
        ),
        (TOP + SOURCE + '[sink]\nformat = "topic"', "[sink] topic: would write to each row's own topic"),
        (MINIMAL + '[[transform]]\nsql = ""\n', "[transform 1] sql: is empty"),
        (MINIMAL + '[[transform]]\nsql = "DROP TABLE x"\n', "[transform 1] sql: must be a query, which begins with"),
        (MINIMAL + '[[transform]]\nsql = "SELECT 1"\n' * 2, "[transform 1] view: missing"),
        (MINIMAL + '[[transform]]\nview = "records"\nsql = "SELECT 1"\n', "[transform 1] view: 'records' exists already"),
        (MINIMAL + '[[transform]]\nview = "a-b"\nsql = "SELECT 1"\n', "[transform 1] view: 'a-b' cannot be a name"),
        (MINIMAL + '[transform]\nsql = "SELECT 1"\n', "transform: must be a list, not a table"),
        (MINIMAL + "[spark.config]\nspark.sql.shuffle.partitions = 4", "[spark] config spark: must be a text, a number,"),
        (MINIMAL + "[spark.config]\nspark.sql.shuffle.partitions = 4", "not a table: write the name in quotes if it has"),
        (MINIMAL + "[spark.config]\n'spark.jars' = ['a']", "[spark] config spark.jars: must be a text, a number, true"),
        (MINIMAL + PARSE + "[parse.options]\na.b = 4", "[parse] options a: must be a text, a number, true or false, not a"),
        (MINIMAL + "[spark]\nmastr = 1", "[spark] mastr: not known; did you mean 'master'?"),
        ("[source", "the file: is not TOML"),
    ],
)  # fmt: skip
def test_mistakes(file: Path, text: str, expected: str) -> None:
    found = problems(file, text)
    assert any(part in problem for part in expected.split("|") for problem in found), found


def test_all_mistakes_at_once(file: Path) -> None:
    text = (
        "cheese = 1\n"
        + SOURCE.replace("topic", "topics")
        + PARSE.replace("schema", "shema")
        + SINK.replace("path", "pth")
    )
    found = problems(file, text)
    for place in (
        "cheese",
        "checkpoint",
        "[source] topic",
        "[source] topics",
        "[parse] shema",
        "[parse] schema",
        "[sink] pth",
    ):
        assert any(problem.startswith(f"{place}: ") for problem in found), place


def test_each_mistake_once(file: Path) -> None:
    assert len(problems(file, MINIMAL.replace('"localhost:9092"', '""'))) == 1


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="the file: cannot be read: No such file"):
        Declaration.load(tmp_path / "none.toml")


def test_overrides(file: Path) -> None:
    found = load(
        file,
        MINIMAL,
        "source.topic=other",
        "sink.path = /x",
        "source.options.maxOffsetsPerTrigger=9",
        'spark.config."spark.ui.enabled"=false',
        'sink.partition_by=["a", "b"]',
        "name=\N{AIRPLANE}\N{SMILING FACE WITH SUNGLASSES}",
    )
    assert found.name == "\N{AIRPLANE}\N{SMILING FACE WITH SUNGLASSES}"
    assert read(found).source.options["subscribe"] == "other"
    assert read(found).source.options["maxOffsetsPerTrigger"] == "9"
    assert written(found).sink == FileSink("/x", ("a", "b"), {})
    assert found.config == {"spark.ui.enabled": "false"}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("source.topic", "--set source.topic: must be KEY=VALUE"),
        ("=x", "--set =x: '' is not a key"),
        ("a b=x", "--set a b=x: 'a b' is not a key"),
        ("name=x\udcff", "--set 'name=x\\udcff': is no UTF-8"),
        ("checkpoint.a=x", "--set checkpoint.a=x: 'checkpoint' is no table in the file"),
        ("checkpoint.password=x-secret", "--set checkpoint.password=...: 'checkpoint' is no table in the file"),
        ("source.tpic=x", "[source] tpic: not known; did you mean 'topic'?"),
    ],
)
def test_wrong_overrides(file: Path, override: str, expected: str) -> None:
    assert any(problem.startswith(expected) for problem in problems(file, MINIMAL, override))


# -- progress


def report(**changes: Any) -> dict[str, Any]:
    return {
        "batchId": 4,
        "numInputRows": 10,
        "processedRowsPerSecond": 5.0,
        "observedMetrics": {"pykafka": {"rows": 10, "malformed": 2}},
    } | changes


def test_progress_adds_up() -> None:
    progress = Progress("q").after(report(), 9).after(report(batchId=5), 4)
    assert (progress.batch, progress.batches, progress.records, progress.malformed) == (5, 2, 20, 4)
    assert (progress.lag, progress.records_per_s) == (4, 5.0)


def test_progress_of_several_sources() -> None:
    """Each has metrics of its own."""
    metrics = {"pykafka_a": {"rows": 3, "malformed": 1}, "pykafka_b": {"rows": 4}, "mine": {"rows": 100}}
    progress = Progress("q").after(report(observedMetrics=metrics), 0)
    assert (progress.records, progress.malformed) == (7, 1)


def test_progress_without_records() -> None:
    before = Progress("q").after(report(), 4)
    idle = report(batchId=5, numInputRows=0, observedMetrics={})
    assert before.after(idle, None) == before
    assert before.after(idle, 3).lag == 3


def test_progress_counts_records_once() -> None:
    """A topic that is joined with itself is counted twice by Spark."""
    assert Progress("q").after(report(numInputRows=20), 0).records == 10


# -- the command, before there is anything to do


def test_init_prints_the_example() -> None:
    result = CliRunner().invoke(tools, ["pipeline", "--init"])
    assert (result.exit_code, result.stdout) == (0, EXAMPLE)


def test_script_is_a_file() -> None:
    result = CliRunner().invoke(tools, ["pipeline", "--script"])
    assert Path(result.stdout.strip()).name == "__main__.py"
    assert Path(result.stdout.strip()).exists()


def test_wrong_usage(file: Path) -> None:
    for arguments in ([], [str(file)], ["--dry-run"], [str(file.parent)]):
        assert CliRunner().invoke(tools, ["pipeline", *arguments]).exit_code == Status.USAGE


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_wrong_declaration(file: Path, options: list[str]) -> None:
    file.write_text(MINIMAL.replace("sink", "snik"))
    result = CliRunner().invoke(tools, ["pipeline", str(file), *options])
    assert result.exit_code == Status.USAGE
    assert result.stderr == (
        f"kafka-tools: {file} cannot be run:\n  sink: missing, but required\n  snik: not known; did you mean 'sink'?\n"
    )


def test_without_pyspark(file: Path) -> None:
    code = f"import sys; sys.modules['pyspark'] = None\nfrom pykafka.cli import main\nmain(['pipeline', {str(file)!r}])"
    file.write_text(MINIMAL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == Status.FAILED
    assert done.stderr == "kafka-tools: pyspark is not installed; pipelines need it: pip install pyspark pyarrow\n"


def without_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the Spark session that other tests may have left in this process."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)


@pytest.mark.parametrize(
    ("home", "words"),
    [("", "there is no `java` on the path"), ("/nowhere", "JAVA_HOME is /nowhere, and has no bin/java")],
)
def test_without_java(file: Path, monkeypatch: pytest.MonkeyPatch, home: str, words: str) -> None:
    without_session(monkeypatch)
    monkeypatch.setenv("PATH", str(file.parent))
    monkeypatch.setenv("JAVA_HOME", home)
    with pytest.raises(SparkMissingError, match=words):
        with session(load(file, MINIMAL)):
            pass


def test_spark_submit_has_a_master_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_session(monkeypatch)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(SparkMissingError, match="give --master to spark-submit itself"):
        with session(load(file, MINIMAL), "local[1]"):
            pass


@pytest.mark.parametrize(
    "example", sorted((Path(__file__).parents[3] / "examples" / "pipelines").glob("*.toml")), ids=str
)
def test_examples_can_be_read(example: Path) -> None:
    assert Declaration.load(example).name == example.stem


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        (
            "[STREAM_FAILED] Query q\nTraceback:\npykafka.spark.errors.PollTimeoutError: no record of t-0 came\n\tat java",
            Status.FAILED,
            "no record of t-0 came",
        ),
        (
            "x\npykafka.exceptions.NoBrokersAvailableError: no broker of h:1 answers\n",
            Status.UNREACHABLE,
            "no broker of",
        ),
        ("Job aborted: [USER_RAISED_EXCEPTION] too late SQLSTATE: P0001\n\tat java", Status.FAILED, "too late"),
        ("\n[DIVIDE_BY_ZERO] Division by zero.\n\tat java", Status.FAILED, "[DIVIDE_BY_ZERO] Division by zero."),
    ],
)
def test_reasons(text: str, status: int, sentence: str) -> None:
    """Of an error of Spark that says more than anybody reads."""
    found = reason(PySparkException(text))
    assert found[0] == status
    assert found[1].startswith(sentence)


WORKER = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/python/pyspark/worker.py", line 3414, in main
    func, profiler, deserializer, serializer = read_command(pickleSer, infile)
ModuleNotFoundError: No module named 'pykafka'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Driver stacktrace:
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/python/pyspark/worker.py", line 3414, in main
OSError: another worker's
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (WORKER, "ModuleNotFoundError: No module named 'pykafka'"),
        (
            "[X] failed: Traceback (most recent call last):\n  File 'a', line 1\n    1 / 0\nKeyError: 'a'\n\n"
            "The above exception was the direct cause of the following exception:\n\n"
            "Traceback (most recent call last):\n  File 'b', line 2\npyspark.errors.PicklingError: cannot\n SQLSTATE: 1",
            "KeyError: 'a'",
        ),
        (
            "[X] failed: Traceback (most recent call last):\n  File 'a', line 1\nKeyError: 'a'\n\n"
            "During handling of the above exception, another exception occurred:\n\n"
            "Traceback (most recent call last):\n  File 'b', line 2\nMemoryError\n\tat java",
            "MemoryError",
        ),
        (
            "Job aborted\n\tat a\nCaused by: java.io.IOException: wrapped\n\tat b\n"
            "Caused by: java.net.UnknownHostException: nowhere\n\tat c",
            "java.net.UnknownHostException: nowhere",
        ),
        ("[DIVIDE_BY_ZERO] Division by zero.\n\tat java", None),
    ],
    ids=["worker", "cause", "handling", "java", "none"],
)
def test_why_a_worker_failed_is_told(text: str, cause: str | None) -> None:
    """The first line alone said that a task had failed, and never why."""
    lines = reason(PySparkException(text))[1].splitlines()
    assert lines[0] == text.splitlines()[0]
    assert [line.strip() for line in lines[1:]] == ([] if cause is None else [cause])


class Directories:
    """Stands for Storage.

    :param sink: number of the last micro-batch in the sink's log
    :param checkpoint: and in the checkpoint
    """

    def __init__(self, sink: int | None, checkpoint: int | None) -> None:
        self._numbers = {"/sink/_spark_metadata": sink, "/checkpoint/offsets": checkpoint}

    def try_writing(self, path: str) -> None:
        assert path == "/sink"

    def last_number(self, path: str) -> int | None:
        return self._numbers[path]

    def names(self, path: str) -> list[str]:
        return ["part-0.parquet", ".part-0.parquet.crc"]


@pytest.mark.parametrize(
    ("sink", "checkpoint", "sentence"),
    [
        (None, None, "has other files"),
        (None, 10, "has other files"),
        (None, 0, None),  # the first micro-batch failed, and is run again
        (5, 5, None),
        (5, 3, "by a pipeline with another checkpoint"),
    ],
)
def test_directories_with_files(sink: int | None, checkpoint: int | None, sentence: str | None) -> None:
    storage: Any = Directories(sink, checkpoint)
    if sentence is None:
        assert "/sink" in _directory(storage, FileSink("/sink", (), {}), "/checkpoint")
        return
    with pytest.raises(PipelineError, match=sentence):
        _directory(storage, FileSink("/sink", (), {}), "/checkpoint")


def test_a_configuration_file_and_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUST_PASSWORD", "secret")
    properties = tmp_path / "client.properties"
    properties.write_text(
        "bootstrap.servers=there:9093\nsecurity.protocol=SSL\nssl.truststore.location=/trust.p12\n"
        "ssl.truststore.password=${TRUST_PASSWORD}\nlinger.ms=5\nauto.offset.reset=latest\n"
    )
    file = tmp_path / "p.toml"
    text = (
        f'checkpoint = "/c"\n[source]\nconfig = "{properties}"\ntopic = "a"\n[source.options]\n'
        '"kafka.client.id" = "${TRUST_PASSWORD}"\n[sink]\nformat = "topic"\ntopic = "b"\n'
    )
    file.write_text(text)
    found = Declaration.load(file)
    assert read(found).source.options["kafka.bootstrap.servers"] == "there:9093"
    assert read(found).source.options["kafka.ssl.truststore.password"] == "${TRUST_PASSWORD}"
    assert read(found).source.options["kafka.client.id"] == "secret"
    assert "kafka.linger.ms" not in read(found).source.options
    assert isinstance(written(found).sink, TopicSink)
    assert written(found).sink.options["kafka.ssl.truststore.location"] == "/trust.p12"
    monkeypatch.delenv("TRUST_PASSWORD")
    with pytest.raises(DeclarationError) as caught:
        Declaration.load(file)
    assert "ssl.truststore.password refers to the environment variable TRUST_PASSWORD" in str(caught.value)
    assert "options kafka.client.id refers to the environment variable TRUST_PASSWORD" in str(caught.value)
    file.write_text(text.replace(str(properties), "/no/such"))
    with pytest.raises(DeclarationError, match="config.* the configuration file '/no/such' cannot be read"):
        Declaration.load(file)


def loaded(tmp_path: Path, name: str, content: str) -> dict[str, str]:
    """Return the options of a source whose configuration file has this content."""
    (tmp_path / name).write_text(content)
    file = tmp_path / "p.toml"
    file.write_text(f'checkpoint = "/c"\n[source]\nconfig = "{tmp_path / name}"\ntopic = "a"\n{COPY}')
    options = dict(read(Declaration.load(file)).source.options)
    for own in ("subscribe", "startingOffsets", "includeHeaders"):
        del options[own]
    return {name.removeprefix("kafka."): value for name, value in options.items()}


def test_a_configuration_file_by_the_names_of_other_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", 'se"cret\\')
    settings = {one.name for kind in (ConnectionSettings, MetadataSettings) for one in fields(kind)}
    settings -= {"ssl_config", "sasl", "proxy", "client_dns_lookup", "metadata_recovery_strategy"}
    settings -= {"retry_backoff_ms", "retry_backoff_max_ms"}  # these have no effect in Spark's queries
    text = "".join(f"{one} = 77\n" for one in settings)
    found = loaded(
        tmp_path,
        "ours.toml",
        f'hosts = "a:1"\nclient_rack = "north"\nclient_id = "me"\nclient_dns_lookup = "use_all_dns_ips"\n{text}'
        'metadata_recovery_strategy = "none"\nsocket_timeout_ms = 5\n[producer]\nlinger_ms = 5\n'
        '[consumer]\nclient_rack = "x"\n',
    )
    assert found == {
        **{one.replace("_", "."): "77" for one in settings},
        "bootstrap.servers": "a:1",
        "client.rack": "north",
        "client.id": "me",
        "client.dns.lookup": "use_all_dns_ips",
        "metadata.recovery.strategy": "none",
        "request.timeout.ms": "5",
    }
    (tmp_path / "ca").write_text("")
    found = loaded(
        tmp_path,
        "kafka-python.json",
        '{"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", '
        '"sasl_plain_username": "me", "sasl_plain_password": "${PW}", "ssl_cafile": "/ca", "ssl_check_hostname": false}',
    )
    assert found == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="${PW}";',
        "ssl.truststore.location": "/ca",
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
    }
    found = loaded(
        tmp_path,
        "librdkafka.properties",
        "metadata.broker.list=a:1\nsecurity.protocol=sasl_ssl\nsasl.mechanisms=OAUTHBEARER\nsasl.oauthbearer.method=oidc\n"
        "sasl.oauthbearer.client.id=me\nsasl.oauthbearer.client.secret=${PW}\n"
        "sasl.oauthbearer.token.endpoint.url=https://idp/token\nssl.certificate.location=/me.pem\nssl.key.password=x\n"
        "socket.keepalive.enable=true\nstatistics.interval.ms=5\n",
    )
    assert found["sasl.oauthbearer.client.credentials.client.secret"] == "${PW}"
    assert found["sasl.jaas.config"].endswith("OAuthBearerLoginModule required;")
    assert (found["ssl.keystore.location"], found["ssl.keystore.type"]) == ("/me.pem", "PEM")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("linger.mss=1", "has the key linger.mss, which is unknown; did you mean linger.ms"),
        ("transactional.id=x", "transactional.id cannot be used: this client has no transactions"),
        (
            "zookeeper.connect=z:1",
            "zookeeper.connect cannot be used in a pipeline: brokers are found by bootstrap.servers",
        ),
        ("tls=true", "tls cannot be used in a pipeline: set security.protocol"),
        ("source.address=x", "source.address cannot be used in a pipeline"),
        ("ssl.key.location=/k", "ssl.key.location cannot be used in a pipeline: put the key into the file"),
        ("enable.ssl.certificate.verification=false", "verification cannot be false in a pipeline"),
        ("sasl.kerberos.keytab=/k", "sasl.kerberos.keytab cannot be used in a pipeline: give sasl.jaas.config"),
        ("hosts=b:1", "bootstrap.servers and hosts are one option, with two values"),
    ],
)
def test_what_a_pipeline_cannot_take_of_a_configuration_file_is_refused_by_name(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(DeclarationError, match=sentence):
        loaded(tmp_path, "c.properties", f"bootstrap.servers=a:1\n{text}\n")
