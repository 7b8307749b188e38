"""Wrong declarations of pipelines: the error names each place, and says what to write; without Spark and without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka.spark.pipeline import Declaration, DeclarationError
from tests.support.spark.declarations import COPY, MINIMAL, PARSE, SINK, SINKS, SOURCE, TOP, VIEWS, problems


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


OPTIONS_OF_SOURCE = 'checkpoint = "/c"\n[source]\nbrokers = "a:1"\ntopic = "t"\n[source.options]\n%s\n' + (
    '[sink]\nformat = "parquet"\npath = "/d"\n'
)


def test_a_reference_that_leads_nowhere_is_one_problem(file: Path) -> None:
    """The option is not missing, too; and the place stands once."""
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required username=a password=${env:NO_SUCH};"
    options = '"kafka.security.protocol" = "SASL_SSL"\n"kafka.sasl.mechanism" = "SCRAM-SHA-512"\n'
    assert problems(file, OPTIONS_OF_SOURCE % f"{options}\"kafka.sasl.jaas.config\" = '{jaas}'") == [
        "[source] options kafka.sasl.jaas.config: refers to the environment variable NO_SUCH, which is not set: set it"
    ]


def test_names_with_dots_and_without_quotes(file: Path) -> None:
    assert problems(file, OPTIONS_OF_SOURCE % 'kafka.security.protocol = "SSL"') == [
        "[source] options kafka: in TOML a.b = 1 is a table a: write the whole name with its dots in quotes"
    ]
