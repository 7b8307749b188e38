"""Declarations of pipelines in TOML become sources, steps and sinks: without Spark and without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka.spark.pipeline import Declaration, DeclarationError
from pykafka.spark.pipeline.example import EXAMPLE
from pykafka.spark.pipeline.model import FileSink, TopicSink, Watermark
from tests.support.spark.declarations import (
    COPY,
    MINIMAL,
    SINK,
    SINKS,
    SOURCE,
    TOP,
    VIEWS,
    load,
    only_input,
    only_output,
    problems,
)


def test_minimal(file: Path) -> None:
    found = load(file, MINIMAL)
    assert (found.name, found.trigger, found.checkpoint) == ("clicks", "available_now", "/data/checkpoint")
    assert only_input(found).source.options == {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribe": "clicks",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    assert only_input(found).source.columns[:2] == ("key", "value")
    assert only_output(found).sink == FileSink("/data/clicks", (), {})
    assert (only_input(found).view, only_input(found).parsing, only_input(found).malformed) == ("records", None, None)
    assert (found.steps, found.master, found.config) == ((), "", {})
    assert (only_output(found).directory, only_input(found).malformed_directory) == ("records", "malformed")


def test_example(file: Path) -> None:
    found = load(file, EXAMPLE)
    assert only_input(found).parsing is not None
    assert [step.view for step in found.steps] == ["named", ""]
    assert only_input(found).source.options["maxOffsetsPerTrigger"] == "500000"
    assert only_input(found).malformed == FileSink("/data/malformed/clicks", (), {})


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
    assert only_input(load(file, text)).source.options == {
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
    options = only_input(load(file, MINIMAL.replace('topic = "clicks"', line))).source.options
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
    sink = only_output(load(file, TOP + SOURCE + options + COPY)).sink
    assert isinstance(sink, TopicSink)
    assert sink.options == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.request.timeout.ms": "5000",
        "topic": "copy",
    }


def test_sink_on_other_brokers(file: Path) -> None:
    text = TOP + SOURCE + '[sink]\nformat = "topic"\nbrokers = "other:9092"\n'
    sink = only_output(load(file, text)).sink
    assert isinstance(sink, TopicSink)
    assert sink.topic is None  # each row says it
    assert str(sink) == "the topic that each row names on other:9092"


def test_sinks_in_transactions(file: Path) -> None:
    """Two sinks with one prefix would fence each other; what the sink refuses is told at once."""
    sink = '[[sink]]\nname = "%s"\nformat = "topic"\ntopic = "%s"\noptions = { transactionalIdPrefix = "%s" }\n'
    sinks = [
        output.sink for output in load(file, TOP + SOURCE + sink % ("a", "x", "p") + sink % ("b", "y", "q")).outputs
    ]
    assert [one.prefix for one in sinks if isinstance(one, TopicSink)] == ["p", "q"]
    with pytest.raises(DeclarationError, match=r"transactionalIdPrefix: 'p' is also that of .*: give each sink"):
        load(file, TOP + SOURCE + sink % ("a", "x", "p") + sink % ("b", "y", "p"))
    with pytest.raises(DeclarationError, match="must not end like the transactional id of a task"):
        load(file, TOP + SOURCE + sink % ("a", "x", "p-task-0-0"))


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


def test_settings_with_references(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gets the value, and no text of the declaration shows it."""
    monkeypatch.setenv("SECRET", "password")
    found = load(file, MINIMAL + '[spark.config]\n"spark.hadoop.fs.s3a.secret.key" = "${SECRET}"\n')
    assert found.config == {"spark.hadoop.fs.s3a.secret.key": "password"}
    assert "password" not in repr(found)


def test_the_only_one_of_a_list_needs_no_name(file: Path) -> None:
    text = TOP + SOURCE + SINK.replace("[sink]", "[[sink]]\nname = 'x'")
    for key in ("sink.path", "sink.1.path", "sink.x.path"):
        assert str(only_output(load(file, text, f"{key}=/z")).sink) == "Parquet in /z"


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
    assert only_input(found).source.options["subscribe"] == "other"
    assert only_input(found).source.options["maxOffsetsPerTrigger"] == "9"
    assert only_output(found).sink == FileSink("/x", ("a", "b"), {})
    assert found.config == {"spark.ui.enabled": "false"}


@pytest.mark.parametrize(
    "example", sorted((Path(__file__).parents[3] / "examples" / "pipelines").glob("*.toml")), ids=str
)
def test_examples_can_be_read(example: Path) -> None:
    assert Declaration.load(example).name == example.stem
