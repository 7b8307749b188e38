"""The sections of a declaration about where it writes: `[sink]` and `[malformed]`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from pykafka.spark.formats import FORMATS
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.parquetfiles import CODECS
from pykafka.spark.pipeline.configured import configured, with_values
from pykafka.spark.pipeline.model import (
    ARROW,
    FILES,
    SPARK,
    TABLES,
    FileSink,
    FormatSink,
    Input,
    JdbcSink,
    Merge,
    Serializing,
    Sink,
    Source,
    TableSink,
    TopicSink,
    client_options,
    is_written_by_tasks,
)
from pykafka.spark.pipeline.sources import NAME, check_options, free_options, schema_options
from pykafka.spark.pipeline.tables import Problem, Table
from pykafka.spark.references import looked_up

_PARQUET_OPTIONS = ("compression",)
_JDBC_SAID_ELSEWHERE = {"url": "url", "dbtable": "table", "query": "table"}
_MERGE = ("merge", "latest_by", "delete_where")
#: Keys of each kind of sink, beside `format`, `options`, `name`, `from` and `output_mode`.
_KEYS = {
    "topic": ("topic", "brokers", "config", "serialize"),
    "file": ("path", "partition_by", "files_per_batch", "writer"),
    "delta": ("path", "table", "partition_by", *_MERGE),
    "iceberg": ("table", "warehouse", "partition_by", *_MERGE),
    "jdbc": ("url", "table", *_MERGE),
    "other": ("path", "partition_by"),
}
MODES = ("append", "update", "complete")


def read_sink(table: Table, sources: Sequence[Source], only: Sequence[str] = ()) -> Sink | None:
    """Return the destination that a table declares; None if its format is wrong.

    :param sources: whose cluster a topic is on, if the table names no brokers
    :param only: formats that are possible; () for all
    """
    known = (*FILES, "topic", *TABLES, "jdbc")
    if only:
        written = table.choice("format", only, required=True)
    else:
        written = table.text("format", required=True)
        close = difflib.get_close_matches(written.lower(), known, n=1, cutoff=0.75)
        if written not in known and close:
            table.problem("format", f"{written!r} is no format that is known here; did you mean {close[0]!r}?")
            return None
    if not written:
        return None
    kind = "file" if written in FILES else written if written in _KEYS else "other"
    for key in sorted({key for keys in _KEYS.values() for key in keys} - {*_KEYS[kind]}):
        if key in table:
            table.value(key, (str, list, int, dict))
            table.problem(key, f'contradicts format = "{written}"')
    if kind == "file":
        return _file_sink(table, written)
    if kind == "topic":
        return read_topic(table, sources)
    if kind == "jdbc":
        return _jdbc_sink(table)
    if kind == "other":
        options = with_values(table, table.options("options"))
        return FormatSink(written, table.text("path"), table.texts("partition_by"), options)
    return _table_sink(table, written)


def _file_sink(table: Table, kind: str) -> FileSink:
    path, by, options = table.text("path", required=True), table.texts("partition_by"), table.options("options")
    number = table.value("files_per_batch", (int,))
    if number is not None and number < 1:
        table.problem("files_per_batch", f"must be 1 or more, not {number}")
    for name in options:
        if kind == "parquet" and name.lower() not in _PARQUET_OPTIONS:
            known = ", ".join(_PARQUET_OPTIONS)
            table.problem(
                f"options {name}", f"not known; known here are {known}. Spark's settings go to [spark.config]"
            )
    writer = table.choice("writer", (SPARK, ARROW), SPARK)
    sink = FileSink(path, by, with_values(table, options), kind, number or 0, writer)
    if is_written_by_tasks(sink):
        _check_arrow(table, sink)
    return sink


def _check_arrow(table: Table, sink: FileSink) -> None:
    """Note what the source's tasks cannot write."""
    if sink.format != "parquet":
        table.problem("writer", f'"{ARROW}" writes Parquet, not {sink.format}: remove it')
    for key in ("partition_by", "files_per_batch"):
        if key in table:
            table.problem(
                key, f'contradicts writer = "{ARROW}", with which each task writes one file: remove one of them'
            )
    scheme, colon, _ = sink.path.partition("/")[0].partition(":")
    if colon and scheme != "file":
        table.problem(
            "path",
            f'is on {scheme}:, but with writer = "{ARROW}" tasks write to a directory that is mounted: remove writer',
        )
    if sink.codec not in CODECS:
        table.problem(
            "options compression",
            f'{sink.codec!r} is not known to writer = "{ARROW}"; known are {", ".join(CODECS)}',
        )


def _table_sink(table: Table, kind: str) -> TableSink:
    name, warehouse = table.text("table", required=kind == "iceberg"), table.text("warehouse")
    path = table.text("path") if kind == "delta" else ""
    by, options, merge = table.texts("partition_by"), with_values(table, table.options("options")), _merge(table)
    if name and not all(NAME.fullmatch(part) for part in name.split(".")):
        table.problem("table", f"{name!r} must be names with dots between them, of letters, digits and underscores")
    if kind == "delta" and bool(name) == bool(path):
        table.problem(
            "path", "contradicts table: choose one" if name else "missing: give a path, or the name of a table"
        )
    if merge is not None and options:
        table.problem("options", "has no meaning with merge, which is SQL: its settings go to [spark.config]")
    if kind == "iceberg" and name and len(name.split(".")) < 3:
        table.problem("table", f"{name!r} must have a catalog, a schema and a name, as in 'lake.web.clicks'")
    return TableSink(kind, path, name, warehouse, by, options, merge)


def _jdbc_sink(table: Table) -> JdbcSink:
    name, options = table.text("table", required=True), {}
    for key, setting in table.options("options").items():
        if key.lower() in _JDBC_SAID_ELSEWHERE:
            table.problem(f"options {key}", f"has a key of its own, {table.place(_JDBC_SAID_ELSEWHERE[key.lower()])}")
        options[key] = setting
    url = table.text("url", required=True)
    options = with_values(table, options)
    url = with_values(table, {"url": url}, "").get("url", "")
    if url and not url.startswith("jdbc:"):
        table.problem("url", "must begin with jdbc:, as in jdbc:postgresql://host/database")
    if name and not all(NAME.fullmatch(part) for part in name.split(".")):
        table.problem("table", f"{name!r} must be names with dots between them, of letters, digits and underscores")
    return JdbcSink(name, {**options, "url": url}, _merge(table))


def _merge(table: Table) -> Merge | None:
    keys, latest_by, delete_where = (
        table.texts("merge"),
        table.texts("latest_by"),
        table.text("delete_where"),
    )
    if keys:
        return Merge(keys, latest_by, delete_where)
    for key in ("latest_by", "delete_where"):
        if key in table:
            table.problem(key, "has no meaning without merge, the columns of the key")
    return None


def read_mode(table: Table, sink: Sink | None) -> str:
    """Return the output mode that a table declares, and note one that the sink does not allow."""
    mode = table.choice("output_mode", MODES, "append")
    allowed, why = _modes(sink)
    if mode not in allowed:
        table.problem("output_mode", f"{mode!r} is not possible for {sink}: {why}; it takes {' or '.join(allowed)}")
    return mode


def _modes(sink: Sink | None) -> tuple[Sequence[str], str]:
    """Return the modes that a sink allows, and why not the others."""
    if isinstance(sink, FileSink):
        return ("append",), "files are added, and never changed"
    if isinstance(sink, TableSink | JdbcSink) and sink.merge is not None:
        return ("append", "update"), "a merge takes the rows that are new or changed"
    if isinstance(sink, TableSink):
        return ("append", "complete"), "changed rows need merge, the columns of their key"
    if isinstance(sink, JdbcSink):
        return ("append",), "changed rows need merge, the columns of their key"
    return MODES, ""


def read_topic(table: Table, sources: Sequence[Source]) -> TopicSink:
    """Return the topic that a table declares; parameters as in `read_sink`."""
    own = configured(table)
    brokers = ",".join(table.texts("brokers")) or own.get("kafka.bootstrap.servers", "")
    theirs = client_options(sources[0].options) if sources else {}
    if not brokers and any(client_options(source.options) != theirs for source in sources):
        table.problem("brokers", "missing: the sources have different connections, so name the brokers of this topic")
    options = dict(own) if brokers else {**theirs, **own}
    options["kafka.bootstrap.servers"] = brokers or theirs.get("kafka.bootstrap.servers", "")
    if topic := table.text("topic"):
        options["topic"] = topic
    options |= free_options(table)
    if options["kafka.bootstrap.servers"]:  # else the source has the problem
        check_options(table, options, Mode.STREAM_WRITE, whole=True)
    return TopicSink(options, _serializing(table.table("serialize"), options.get("topic")))


def _serializing(table: Table | None, topic: str | None) -> Serializing | None:
    """Return how rows become bytes; None without a table.

    :param topic: None if each row names its own
    """
    if table is None:
        return None
    kind = table.choice("format", FORMATS, required=True)
    options = schema_options(table, kind, [] if topic is None else [topic], writing=True) if kind else {}
    table.finish()
    return Serializing(kind, options)


def check_malformed(table: Table, malformed: Sink | None, sinks: Sequence[tuple[str, Sink]], parsed: bool) -> None:
    """Note a sink of malformed records that cannot work.

    :param sinks: the sinks of rows, with their places
    :param parsed: whether the source has a parser
    """
    if not parsed:
        table.problem("", "needs [parse]: without it no record is malformed")
    if isinstance(malformed, TopicSink) and malformed.topic is None:
        table.problem("topic", "missing, but required")
    check_unchanged(table, malformed)
    if is_written_by_tasks(malformed):
        table.problem(
            "writer",
            f'"{ARROW}" writes all records as they are, and only a parser finds those that are malformed: remove writer',
        )
    if malformed is not None:
        check_path(table, malformed, sinks)


def check_unchanged(table: Table, sink: Sink | None) -> None:
    """Note a serializer of records that stay as they are."""
    if isinstance(sink, TopicSink) and sink.serializing is not None:
        table.problem("serialize", "has no meaning here: these records keep their bytes")


def check_path(table: Table, sink: Sink, others: Sequence[tuple[str, Sink]]) -> None:
    """Note a directory that lies in another sink's, or the other way round."""
    mine = _place_of(sink)
    for place, other in others:
        theirs = _place_of(other)
        if mine is not None and theirs is not None and _nested(mine[2], theirs[2]):
            table.problem(mine[0], f"{mine[1]} and {place} {theirs[0]} {theirs[1]} lie in each other; keep them apart")


def _place_of(sink: Sink) -> tuple[str, str, str] | None:
    """Return the key of a sink's directory, or of its table, its value, and what sets it apart; None if it has neither."""
    if isinstance(sink, FileSink | TableSink | FormatSink) and sink.path:
        return "path", sink.path, sink.path
    if isinstance(sink, TableSink) and sink.table:
        return "table", sink.table, f"table {sink.table}"
    if isinstance(sink, JdbcSink) and sink.table:
        return "table", sink.table, f"{sink.options.get('url')} {sink.table}"
    return None


def _nested(one: str, other: str) -> bool:
    first, second = (path.rstrip("/") + "/" for path in (one, other))
    return first.startswith(second) or second.startswith(first)


def check_loop(reads: Input, sink: Sink, place: str, as_read: bool, problems: list[Problem]) -> None:
    """Note a sink whose rows a source would read again, in an endless loop.

    :param as_read: whether rows may have the source's own column `topic`
    """
    if not isinstance(sink, TopicSink):
        return
    servers, source = "kafka.bootstrap.servers", reads.source
    ours, theirs = ({*looked_up(one.options[servers], servers).split(",")} for one in (source, sink))
    if not ours & theirs:
        return
    subscription = read_options(source.options, Mode.STREAM_READ).subscription
    if sink.topic is None:
        again, where = as_read, "each row's own topic"
    else:
        topics = {*subscription.topics, *(tp.topic for tp in subscription.partitions)}
        topic = looked_up(sink.topic, "topic")
        again, where = topic in topics, f"topic {sink.topic!r}"
        again = again or (subscription.pattern is not None and subscription.pattern.fullmatch(topic) is not None)
    if again:
        sentence = (
            f"would write to {where}, which {reads.place} reads on the same brokers: name another topic, or others"
        )
        problems.append(Problem(f"{place} topic", sentence))
