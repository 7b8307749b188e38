"""The sections of a declaration about what it reads: `[source]`, `[parse]` and the watermark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pykafka.exceptions import ConfigurationError
from pykafka.spark.columns import COLUMNS, HEADERS
from pykafka.spark.data_loss import warn
from pykafka.spark.errors import OptionError
from pykafka.spark.formats import FORMATS
from pykafka.spark.formats.options import HEADER, Side, known
from pykafka.spark.options import read_options, write_options
from pykafka.spark.optiontable import OPTIONS, Mode, parse
from pykafka.spark.pipeline.configured import configured, with_secrets
from pykafka.spark.pipeline.model import Parsing, Source, Step, Watermark
from pykafka.spark.pipeline.tables import Table, as_text

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
#: What names of options with dots begin with, as without quotes they are tables of that name.
_FIRST_PARTS = {option.name.lower().partition(".")[0] for option in OPTIONS if "." in option.name}
INTERVAL = re.compile(r"\d+ ?(milliseconds?|seconds?|minutes?|hours?|days?)")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Spark would run any other statement at once, even for a check.
_QUERY = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/)*(\(|(select|with|from|values|table)\b)", re.IGNORECASE | re.DOTALL)


def read_source(table: Table) -> Source:
    """Return the topics that a table names."""
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
    options = {**theirs, **options, **free_options(table)}
    for name in options:
        if name.lower().startswith("starting") and name != "startingOffsets" and start is not None:
            table.problem(f"options {name}", "contradicts start: choose one of them to say where the first run begins")
    check_options(table, options, Mode.STREAM_READ, whole=bool(given and brokers))
    return Source(options, columns)


def free_options(table: Table) -> dict[str, str]:
    """Return a table's options of format("pykafka") that have no key of their own."""
    options = table.options("options", nested=True)
    for name in list(options):
        key = _SAID_ELSEWHERE.get(name.lower())
        if key is not None:
            table.problem(f"options {name}", f"has a key of its own, {table.place(key)}; write it there")
            del options[name]
        elif name.lower() in _FIRST_PARTS:
            table.problem(
                f"options {name}", "in TOML a.b = 1 is a table a: write the whole name with its dots in quotes"
            )
            del options[name]
    return with_secrets(table, options)


def check_options(table: Table, options: Mapping[str, str], mode: Mode, whole: bool) -> None:
    """Note each option that the source or sink refuses, and then contradictions between options.

    :param whole: whether contradictions can be looked for: nothing required is missing
    """
    # What is missing since it could not be read is no further problem.
    wrong = table.is_wrong("options") or table.is_wrong("config")
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
            read_options(options, mode, warn) if mode & Mode.READ else write_options(options, mode, warn)
        except OptionError as error:
            said = str(error).lower()
            named = [key for option, key in _SAID_ELSEWHERE.items() if f"'{option}'" in said and key in table]
            table.problem(named[0] if named else "options", str(error))


def read_parsing(table: Table | None, source: Source | None) -> Parsing | None:
    """Return the parser that a table declares; None without a table.

    :param source: what is parsed; None for a check of the table alone
    """
    if table is None:
        return None
    kind = table.choice("format", ("json", "csv", *FORMATS), required=True)
    parsing = _with_schema(table, kind, source) if kind in FORMATS else _with_ddl(table, kind)
    table.finish()
    if source is not None and parsing.column not in source.columns:
        table.problem("column", f"{parsing.column!r} is not read: add it to [source] columns")
    return parsing


def _with_schema(table: Table, kind: str, source: Source | None) -> Parsing:
    """Return a parser whose schema is in a registry or a file."""
    topics = ["topic"] if source is None else source.options.get("subscribe", "").split(",")
    options = schema_options(table, kind, list(filter(None, topics)), writing=False)
    if options.get("framing") == HEADER and source is not None and HEADERS not in source.columns:
        table.problem("framing", "needs the column headers: add it to [source] columns")
    return Parsing(kind, "", options.get("column", "value"), options, table.place())


def schema_options(table: Table, kind: str, topics: list[str], writing: bool) -> dict[str, str]:
    """Return a table's options of a decoder or an encoder.

    :param kind: the format
    :param topics: the subject is that of the only one
    """
    options: dict[str, str] = {}
    for name in known(kind, writing):
        first = name.partition(".")[0]
        if first != name and first in table:
            table.value(first, (dict,))
            table.problem(first, f'in TOML a.b = 1 is a table a: write "{name}" in quotes')
        elif name != "topic":
            value = table.value(name, (str, bool, int))
            options |= {} if value is None else {name: as_text(value)}
    if len(topics) == 1:
        options["topic"] = topics[0]
    try:
        Side.write(kind, options) if writing else Side.read(kind, options)
    except (OptionError, ConfigurationError) as error:
        said = str(error)
        named = [name for name in options if f"'{name}'" in said]
        if "'subject' is missing" in said:
            named, said = ["subject"], "missing: there is not one topic only, so name the subject of the schema"
        table.problem(named[0] if named else "", said)
    return options


def _with_ddl(table: Table, kind: str) -> Parsing:
    """Return a parser whose schema is Spark's DDL."""
    parsing = Parsing(
        kind,
        table.text("schema", required=True),
        table.choice("column", ("value", "key"), default="value"),
        table.options("options"),
        table.place(),
    )
    for name in parsing.options:
        if name.lower() in ("mode", "columnnameofcorruptrecord"):
            table.problem(f"options {name}", "cannot be set: [malformed] decides about such records")
    return parsing


def read_watermark(table: Table | None) -> Watermark | None:
    """Return the watermark that a table declares; None without a table."""
    if table is None:
        return None
    watermark = Watermark(table.text("column", required=True), table.text("delay", required=True))
    if watermark.delay and not INTERVAL.fullmatch(watermark.delay):
        table.problem("delay", f"must be an interval like '10 minutes', not {watermark.delay!r}")
    table.finish()
    return watermark


def read_view(table: Table, key: str, default: str, taken: list[str]) -> str:
    """Return the name of a view, and note one that cannot be a name or is taken.

    :param taken: the names of other views, in lower case
    """
    view = table.text(key, default)
    if view and not NAME.fullmatch(view):
        table.problem(key, f"{view!r} cannot be a name: letters, digits and underscores can")
    if view and view.lower() in taken:
        table.problem(key, f"{view!r} exists already; give this one another name")
    return view


def read_steps(tables: Sequence[Table], views: Sequence[str]) -> tuple[Step, ...]:
    """Return the transforms that tables declare, in order.

    :param views: the views of the sources
    """
    steps: list[Step] = []
    for number, table in enumerate(tables, 1):
        taken = [view.lower() for view in (*views, *(step.view for step in steps)) if view]
        sql, view = table.text("sql", required=True), read_view(table, "view", "", taken)
        steps.append(Step(sql, view, read_watermark(table.table("watermark"))))
        table.finish()
        if sql and not _QUERY.match(sql):
            table.problem("sql", "must be a query, which begins with SELECT, WITH, FROM, VALUES or TABLE")
        if not view and number < len(tables):
            table.problem("view", "missing: only the last step needs none, as its rows go to the sink")
    return tuple(steps)
