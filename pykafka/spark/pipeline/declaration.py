"""The declaration of a pipeline in a TOML file, read and checked without Spark and without a broker."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pykafka.spark.columns import COLUMNS, HEADERS
from pykafka.spark.errors import OptionError
from pykafka.spark.options import read_options, write_options
from pykafka.spark.optiontable import Mode, parse
from pykafka.spark.pipeline.configured import configured, with_secrets
from pykafka.spark.pipeline.errors import DeclarationError
from pykafka.spark.pipeline.tables import Problem, Table, as_text

#: The view that the first step reads, and its column with Kafka's own columns beside a parsed value.
RECORDS, KAFKA = "records", "kafka"
#: Options that have a key of their own in the declaration; elsewhere they would be given twice.
_SAID_ELSEWHERE = {
    "kafka.bootstrap.servers": "brokers",
    "subscribe": "topic",
    "subscribepattern": "pattern",
    "assign": "partitions",
    "startingoffsets": "start",
    "includeheaders": "columns",
    "topic": "topic",
}
#: Options that reach a cluster; a sink on the source's cluster takes them from the source.
_SECURITY = ("kafka.security.", "kafka.ssl.", "kafka.sasl.")
_PARQUET_OPTIONS = ("compression",)
_INTERVAL = re.compile(r"\d+ ?(milliseconds?|seconds?|minutes?|hours?|days?)")
#: Spark would run any other statement at once, even for a check.
_QUERY = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/)*(\(|(select|with|from|values|table)\b)", re.IGNORECASE | re.DOTALL)
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Source:
    """The input of a pipeline.

    :param options: options of format("pykafka")
    :param columns: Kafka's columns, in order
    """

    options: Mapping[str, str]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Parsing:
    """The parser of a column of bytes.

    :param format: "json" or "csv"
    :param schema: in Spark's DDL
    :param column: "value" or "key"
    :param options: options of Spark's from_json or from_csv
    """

    format: str
    schema: str
    column: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Watermark:
    """The watermark of a step: how late rows may arrive.

    :param column: the column with the rows' time
    :param delay: an interval like "10 minutes"
    """

    column: str
    delay: str


@dataclass(frozen=True)
class Step:
    """One transform.

    :param sql: a query over `records` and the views of earlier steps
    :param view: the name of its result for later steps; "" for the last step
    :param watermark: the watermark of its result, for aggregates and joins of streams
    """

    sql: str
    view: str
    watermark: Watermark | None


@dataclass(frozen=True)
class ParquetSink:
    """A sink of Parquet files, each row exactly once.

    :param path: a directory, or a URL that Spark knows
    :param partition_by: columns that become directories
    :param options: options of Spark's format("parquet")
    """

    path: str
    partition_by: tuple[str, ...]
    options: Mapping[str, str]

    def __str__(self) -> str:
        by = f" by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"Parquet in {self.path}{by}"


@dataclass(frozen=True)
class TopicSink:
    """A sink of topics, each row at least once.

    :param options: options of format("pykafka")
    """

    options: Mapping[str, str]

    @property
    def topic(self) -> str | None:
        """The topic; None if a column of the rows names it."""
        return self.options.get("topic")

    def __str__(self) -> str:
        topic = "the topic that each row names" if self.topic is None else f"topic {self.topic}"
        return f"{topic} on {self.options['kafka.bootstrap.servers']}"


Sink = ParquetSink | TopicSink


@dataclass(frozen=True)
class Declaration:
    """A pipeline, checked as far as possible without a cluster.

    :param name: the name of its queries
    :param checkpoint: directory of its progress
    :param trigger: "available_now", "once" or an interval
    :param source: where it reads
    :param parsing: None: rows are Kafka's columns
    :param malformed: where it keeps records that cannot be parsed; None: such a record ends the pipeline
    :param steps: transforms, in order
    :param sink: where it writes the rows of the last step
    :param master: Spark's master; "" for Spark's own configuration, or this machine
    :param config: Spark's settings
    """

    name: str
    checkpoint: str
    trigger: str
    source: Source
    parsing: Parsing | None
    malformed: Sink | None
    steps: tuple[Step, ...]
    sink: Sink
    master: str
    config: Mapping[str, str]

    @classmethod
    def load(cls, path: Path, overrides: Iterable[str] = ()) -> Declaration:
        """Return the declaration in a file.

        :param path: the TOML file
        :param overrides: "source.topic=x", each replaces a value of the file
        :raises DeclarationError: lists all problems
        """
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DeclarationError(
                str(path), [Problem("the file", f"cannot be read: {error.strerror or error}")]
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DeclarationError(str(path), [Problem("the file", f"is not TOML: {error}")]) from error
        problems: list[Problem] = []
        for override in overrides:
            _override(data, override, problems)
        declaration = _declaration(Table("", data, problems), path.stem, problems)
        if declaration is None or problems:
            raise DeclarationError(str(path), problems)
        return declaration


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that reach the cluster."""
    wanted = ("kafka.bootstrap.servers", "kafka.request.timeout.ms", *_SECURITY)
    return {name: text for name, text in options.items() if name.lower().startswith(wanted)}


def _override(data: dict[str, Any], text: str, problems: list[Problem]) -> None:
    """Set a value at its place: as TOML if it is valid TOML, else as text."""
    place = f"--set {text}"
    name, equals, value = text.partition("=")
    if not equals:
        problems.append(Problem(place, "must be KEY=VALUE, as in source.topic=clicks"))
        return
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no text
        problems.append(Problem(f"--set {text!a}", "is no UTF-8"))
        return
    # As a table of its own, so that keys may be dotted and quoted as in the file.
    for written in (value, json.dumps(value, ensure_ascii=False)):
        try:
            _merge(data, tomllib.loads(f"{name} = {written}"))
        except tomllib.TOMLDecodeError:
            continue
        except ValueError as error:
            problems.append(Problem(place, str(error)))
        return
    problems.append(Problem(place, f"{name!r} is not a key like source.topic"))


def _merge(data: dict[str, Any], new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and key in data:
            if not isinstance(data[key], dict):
                raise ValueError(f"{key!r} is no table in the file; edit it there")
            _merge(data[key], value)
        else:
            data[key] = value


def _declaration(top: Table, stem: str, problems: list[Problem]) -> Declaration | None:
    source = _source(top.table("source", required=True))
    parsing = _parsing(top.table("parse"), source)
    sink = _sink(top.table("sink", required=True), source)
    malformed_table = top.table("malformed")
    malformed = _sink(malformed_table, source)
    if malformed_table is not None:
        _check_malformed(malformed_table, malformed, sink, "parse" in top)
    spark = top.table("spark")
    name = top.text("name", stem)
    checkpoint = top.text("checkpoint", required=True)
    trigger = _trigger(top)
    steps = _steps(top.tables("transform"))
    master, config = ("", {}) if spark is None else (spark.text("master"), spark.options("config"))
    if spark is not None:
        spark.finish()
    top.finish()
    if source is None or sink is None or problems:
        return None
    _check_loop(source, sink, "[sink]", bool(steps), problems)
    if malformed is not None:
        _check_loop(source, malformed, "[malformed]", True, problems)
    return Declaration(name, checkpoint, trigger, source, parsing, malformed, steps, sink, master, config)


def _source(table: Table | None) -> Source | None:
    if table is None:
        return None
    theirs = configured(table)
    brokers = ",".join(table.texts("brokers", required="kafka.bootstrap.servers" not in theirs))
    brokers = brokers or theirs.get("kafka.bootstrap.servers", "")
    options = {"kafka.bootstrap.servers": brokers} if brokers else {}
    topics = ",".join(table.texts("topic"))
    pattern = table.text("pattern")
    partitions = table.value("partitions", (dict,))
    given = [key for key in ("topic", "pattern", "partitions") if key in table]
    if not given:
        table.problem("topic", "missing: name a topic or a list of them, or give a pattern or partitions")
    elif len(given) > 1:
        table.problem(given[1], f"contradicts {given[0]}: choose one of them to say what to read")
    options |= {"subscribe": topics} if topics else {}
    options |= {"subscribePattern": pattern} if pattern else {}
    options |= {"assign": as_text(partitions)} if partitions is not None else {}
    start = table.value("start", (str, dict))
    # Unlike Spark's streams: a pipeline that lands a topic starts with the records that are there.
    options["startingOffsets"] = "earliest" if start is None else as_text(start)
    columns = table.texts("columns") or tuple(COLUMNS)
    for column in columns:
        if column not in COLUMNS:
            table.problem("columns", f"{column!r} is no column of Kafka; those are {', '.join(COLUMNS)}")
    if len(set(columns)) < len(columns):
        table.problem("columns", "has a column twice")
    options["includeHeaders"] = as_text(HEADERS in columns)
    options = {**theirs, **options, **_free_options(table)}
    for name in options:
        if name.lower().startswith("starting") and name != "startingOffsets" and start is not None:
            table.problem(f"options {name}", "contradicts start: choose one of them to say where the first run begins")
    table.finish()
    _check_options(table, options, Mode.STREAM_READ, whole=bool(given and brokers))
    return Source(options, columns)


def _free_options(table: Table) -> dict[str, str]:
    options = table.options("options", nested=True)
    for name in list(options):
        key = _SAID_ELSEWHERE.get(name.lower())
        if key is not None:
            table.problem(f"options {name}", f"has a key of its own, {table.place(key)}; write it there")
            del options[name]
    return with_secrets(table, options)


def _check_options(table: Table, options: Mapping[str, str], mode: Mode, whole: bool) -> None:
    """Note each option that the source or sink refuses, and then contradictions between options."""
    wrong = False
    for name, text in options.items():
        try:
            parse({name: text}, mode)
        except OptionError as error:
            wrong = True
            key = _SAID_ELSEWHERE.get(name.lower(), f"options {name}")
            if key in table or key.startswith("options"):
                table.problem(key, str(error))
    if whole and not wrong:
        try:
            read_options(options, mode) if mode & Mode.READ else write_options(options, mode)
        except OptionError as error:
            said = str(error).lower()
            named = [key for option, key in _SAID_ELSEWHERE.items() if f"'{option}'" in said and key in table]
            table.problem(named[0] if named else "options", str(error))


def _parsing(table: Table | None, source: Source | None) -> Parsing | None:
    if table is None:
        return None
    parsing = Parsing(
        table.choice("format", ("json", "csv"), required=True),
        table.text("schema", required=True),
        table.choice("column", ("value", "key"), default="value"),
        table.options("options"),
    )
    for name in parsing.options:
        if name.lower() in ("mode", "columnnameofcorruptrecord"):
            table.problem(f"options {name}", "cannot be set: [malformed] decides about such records")
    table.finish()
    if source is not None and parsing.column not in source.columns:
        table.problem("column", f"{parsing.column!r} is not read: add it to [source] columns")
    return parsing


def _sink(table: Table | None, source: Source | None) -> Sink | None:
    if table is None:
        return None
    kind = table.choice("format", ("parquet", "topic"), required=True)
    other = {"parquet": ("topic", "brokers", "config"), "topic": ("path", "partition_by")}.get(kind, ())
    for key in other:
        if key in table:
            table.value(key, (str, list))
            table.problem(key, f'contradicts format = "{kind}"')
    if kind == "parquet":
        found: Sink | None = _parquet_sink(table)
    elif kind == "topic":
        found = _topic_sink(table, source)
    else:
        return None
    table.finish()
    return found


def _parquet_sink(table: Table) -> ParquetSink:
    sink = ParquetSink(table.text("path", required=True), table.texts("partition_by"), table.options("options"))
    for name in sink.options:
        if name.lower() not in _PARQUET_OPTIONS:
            known = ", ".join(_PARQUET_OPTIONS)
            table.problem(
                f"options {name}", f"not known; known here are {known}. Spark's settings go to [spark.config]"
            )
    return sink


def _topic_sink(table: Table, source: Source | None) -> TopicSink:
    own = configured(table)
    brokers = ",".join(table.texts("brokers")) or own.get("kafka.bootstrap.servers", "")
    theirs = source.options if source is not None else {}
    options = dict(own) if brokers else {**client_options(theirs), **own}
    options["kafka.bootstrap.servers"] = brokers or theirs.get("kafka.bootstrap.servers", "")
    if topic := table.text("topic"):
        options["topic"] = topic
    options |= _free_options(table)
    if options["kafka.bootstrap.servers"]:  # else it is told of the source
        _check_options(table, options, Mode.STREAM_WRITE, whole=True)
    return TopicSink(options)


def _check_malformed(table: Table, malformed: Sink | None, sink: Sink | None, parsed: bool) -> None:
    if not parsed:
        table.problem("", "needs [parse]: without it no record is malformed")
    if isinstance(malformed, TopicSink) and malformed.topic is None:
        table.problem("topic", "missing, but required")
    if isinstance(malformed, ParquetSink) and isinstance(sink, ParquetSink) and _nested(malformed.path, sink.path):
        table.problem("path", f"{malformed.path} and [sink] path {sink.path} lie in each other; keep them apart")


def _nested(one: str, other: str) -> bool:
    first, second = (path.rstrip("/") + "/" for path in (one, other))
    return first.startswith(second) or second.startswith(first)


def _trigger(top: Table) -> str:
    trigger = top.text("trigger", "available_now")
    if trigger not in ("available_now", "once") and not _INTERVAL.fullmatch(trigger):
        top.problem("trigger", f"must be 'available_now', 'once' or an interval like '10 seconds', not {trigger!r}")
    return trigger


def _steps(tables: list[Table]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for number, table in enumerate(tables, 1):
        step = Step(table.text("sql", required=True), table.text("view"), _watermark(table.table("watermark")))
        table.finish()
        if step.sql and not _QUERY.match(step.sql):
            table.problem("sql", "must be a query, which begins with SELECT, WITH, FROM, VALUES or TABLE")
        last = number == len(tables)
        if not step.view and not last:
            table.problem("view", "missing: only the last step needs none, as its rows go to the sink")
        if step.view and not _VIEW.fullmatch(step.view):
            table.problem("view", f"{step.view!r} cannot be a name: letters, digits and underscores can")
        if step.view and step.view.lower() in [RECORDS, *(one.view.lower() for one in steps)]:
            table.problem("view", f"{step.view!r} exists already; give this one another name")
        steps.append(step)
    return tuple(steps)


def _watermark(table: Table | None) -> Watermark | None:
    if table is None:
        return None
    watermark = Watermark(table.text("column", required=True), table.text("delay", required=True))
    if watermark.delay and not _INTERVAL.fullmatch(watermark.delay):
        table.problem("delay", f"must be an interval like '10 minutes', not {watermark.delay!r}")
    table.finish()
    return watermark


def _check_loop(source: Source, sink: Sink, place: str, transformed: bool, problems: list[Problem]) -> None:
    """Note a sink whose rows the source would read again, in an endless loop."""
    if not isinstance(sink, TopicSink):
        return
    servers = "kafka.bootstrap.servers"
    if not set(source.options[servers].split(",")) & set(sink.options[servers].split(",")):
        return
    reads = read_options(source.options, Mode.STREAM_READ).subscription
    if sink.topic is None:
        again, where = not transformed, "each row's own topic"
    else:
        topics = {*reads.topics, *(tp.topic for tp in reads.partitions)}
        again, where = sink.topic in topics, f"topic {sink.topic!r}"
        again = again or (reads.pattern is not None and reads.pattern.fullmatch(sink.topic) is not None)
    if again:
        sentence = f"would write to {where}, which [source] reads on the same brokers: name another topic, or others"
        problems.append(Problem(f"{place} topic", sentence))
