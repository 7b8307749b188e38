"""The parts of a declaration: what a pipeline reads, how it transforms, where it writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from pykafka.spark.parquetfiles import ParquetFiles
from pykafka.spark.pipeline.redaction import without_login

#: The view of a source that names none, and the column with Kafka's own columns beside a parsed value.
RECORDS, KAFKA = "records", "kafka"
#: The column by which a step says that a row is a dead letter: its reason, or null.
ERROR = "error"
#: Kafka's columns that a dead letter has: all of a record.
NEEDED = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
#: The metrics by which a query's progress has the counts of a micro-batch; the names of several begin with the first.
METRICS, ROWS, MALFORMED, DEAD_LETTERS = "pykafka", "rows", "malformed", "dead_letters"
#: Spark's formats of files, whose sink has a log of what it has written.
FILES = ("parquet", "csv", "json", "orc", "text", "xml", "avro")
#: Who writes files: Spark, or the tasks of the source, from Arrow.
SPARK, ARROW = "spark", "arrow"
#: Formats of tables.
TABLES = ("delta", "iceberg")
TITLES = {"parquet": "Parquet", "text": "text", "avro": "Avro", "delta": "Delta Lake", "iceberg": "Iceberg"}
#: What parts the table from its database in the place of a sink, and the end of a URL that may have a password.
OF, NOT_SHOWN = " of ", ":..."
#: Options that reach a cluster; a sink on the source's cluster takes them from the source.
_SECURITY = ("kafka.security.", "kafka.ssl.", "kafka.sasl.", "proxy")


@dataclass(frozen=True)
class Source:
    """The topics that a pipeline reads.

    :param options: options of format("pykafka")
    :param columns: Kafka's columns, in order
    :param files: what its tasks write instead of handing rows to Spark; None for rows
    """

    options: Mapping[str, str] = field(repr=False)
    columns: tuple[str, ...]
    files: ParquetFiles | None = None


@dataclass(frozen=True)
class Parsing:
    """The parser of a column of bytes.

    :param format: "json", "csv", "avro", "protobuf" or "json-schema"
    :param schema: in Spark's DDL, of JSON and CSV; "" for the others, whose options say where it is
    :param column: "value" or "key"
    :param options: options of Spark's from_json or from_csv, or of a decoder
    :param place: its table in the file, as "[parse]"
    """

    format: str
    schema: str
    column: str
    options: Mapping[str, str] = field(repr=False)
    place: str = "[parse]"


@dataclass(frozen=True)
class Watermark:
    """The watermark of a view: how late rows may arrive.

    :param column: the column with the rows' time
    :param delay: an interval like "10 minutes"
    """

    column: str
    delay: str


@dataclass(frozen=True)
class Step:
    """One transform.

    :param sql: a query over the views of sources and of earlier steps
    :param view: the name of its result; "" for a last step without a name
    :param watermark: the watermark of its result, for aggregates and joins of streams
    """

    sql: str
    view: str
    watermark: Watermark | None


@dataclass(frozen=True)
class FileSink:
    """A sink of files, each row exactly once.

    :param path: a directory, or a URL that Spark knows
    :param partition_by: columns that become directories
    :param options: options of Spark's format
    :param format: one of FILES
    :param files_per_batch: files of a micro-batch, for each directory of partition_by at most; 0: one for each task
    :param writer: SPARK, or ARROW: the tasks of the source write the files
    """

    path: str
    partition_by: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)
    format: str = "parquet"
    files_per_batch: int = 0
    writer: str = SPARK

    @property
    def codec(self) -> str:
        """The compression of Parquet files, in lower case."""
        return next((text.lower() for name, text in self.options.items() if name.lower() == "compression"), "snappy")

    def __str__(self) -> str:
        by = f" by {', '.join(self.partition_by)}" if self.partition_by else ""
        who = ", written by the source's tasks" if self.writer == ARROW else ""
        return f"{TITLES.get(self.format, self.format.upper())} in {self.path}{by}{who}"


@dataclass(frozen=True)
class Serializing:
    """How the rows of a topic become bytes.

    :param format: "avro", "protobuf" or "json-schema"
    :param options: of an encoder
    """

    format: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def column(self) -> str:
        """The column of bytes: "value" or "key"."""
        return self.options.get("column", "value")


@dataclass(frozen=True)
class TopicSink:
    """A sink of topics: each row at least once, and exactly once with the option transactionalIdPrefix.

    :param options: options of format("pykafka")
    :param serializing: None: rows have the columns of a sink of topics
    """

    options: Mapping[str, str] = field(repr=False)
    serializing: Serializing | None = None

    @property
    def topic(self) -> str | None:
        """The topic; None if a column of the rows names it."""
        return self.options.get("topic")

    @property
    def prefix(self) -> str | None:
        """The prefix of its transactional ids; None without transactions."""
        return next((text for name, text in self.options.items() if name.lower() == "transactionalidprefix"), None)

    def __str__(self) -> str:
        topic = "the topic that each row names" if self.topic is None else f"topic {self.topic}"
        return f"{topic} on {self.options['kafka.bootstrap.servers']}"


@dataclass(frozen=True)
class Merge:
    """How rows change a table that has a row for each key.

    :param keys: columns of the key
    :param latest_by: columns by which the last of several rows of a key in a micro-batch is found; () if there is only one
    :param delete_where: a condition of SQL: such rows delete their key; ""
    """

    keys: tuple[str, ...]
    latest_by: tuple[str, ...]
    delete_where: str


@dataclass(frozen=True)
class TableSink:
    """A table of Delta Lake or Iceberg, each row exactly once.

    :param format: one of TABLES
    :param path: directory of a Delta table without a name; ""
    :param table: the table's name; ""
    :param warehouse: directory of an Iceberg catalog that is made for the table; ""
    :param partition_by: columns by which a new table is partitioned
    :param options: options of the format
    :param merge: None: rows are added
    """

    format: str
    path: str
    table: str
    warehouse: str
    partition_by: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)
    merge: Merge | None

    @property
    def identifier(self) -> str:
        """The table in SQL."""
        return self.table or f"delta.`{self.path.replace('`', '``')}`"

    def __str__(self) -> str:
        by = f", merged by {', '.join(self.merge.keys)}" if self.merge is not None else ""
        return f"{TITLES[self.format]} table {self.table or self.path}{by}"


@dataclass(frozen=True)
class JdbcSink:
    """A table of a database, each row exactly once if the database has transactions.

    :param table: the table's name
    :param options: options of Spark's format("jdbc")
    :param merge: None: rows are added
    """

    table: str
    options: Mapping[str, str] = field(repr=False)
    merge: Merge | None

    @property
    def place(self) -> str:
        """The table and its database, without what may be a password."""
        return f"table {self.table}{OF}{_without_logins(self.options['url'])}"

    def __str__(self) -> str:
        by = f", merged by {', '.join(self.merge.keys)}" if self.merge is not None else ""
        return f"{self.place}{by}"


@dataclass(frozen=True)
class FormatSink:
    """A sink of any other format that Spark can write streams to; the format says how often a row may be there.

    :param format: its name, or its class
    :param path: "" if it needs none
    :param partition_by: columns, if the format knows them
    :param options: its options
    """

    format: str
    path: str
    partition_by: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)

    @property
    def place(self) -> str:
        """The path, without a login."""
        return without_login(self.path)

    def __str__(self) -> str:
        return f"format {self.format}{' in ' if self.path else ''}{self.place}"


Sink = FileSink | TopicSink | TableSink | JdbcSink | FormatSink


@dataclass(frozen=True)
class Input:
    """One source of a pipeline, up to its view.

    :param place: its table in the file, as "[source]"
    :param view: the view that steps and sinks read
    :param source: the topics
    :param parsing: None: rows are Kafka's columns
    :param malformed: where it keeps records that cannot be parsed; None: such a record ends the pipeline
    :param malformed_place: its table in the file, as "[malformed]"
    :param watermark: the watermark of the view, for aggregates and joins of streams
    """

    place: str
    view: str
    source: Source
    parsing: Parsing | None = None
    malformed: Sink | None = None
    malformed_place: str = "[malformed]"
    watermark: Watermark | None = None

    @property
    def malformed_directory(self) -> str:
        """The directory of its malformed records' query in the checkpoint."""
        return "malformed" if self.view == RECORDS else f"malformed-{self.view}"


@dataclass(frozen=True)
class Output:
    """One sink of a pipeline, with the rows that go there; each is a query of its own.

    :param place: its table in the file, as "[sink]"
    :param name: "" for a sink without a name
    :param view: the view of a source or a step whose rows it takes; "" for the last step without a name
    :param sink: the destination
    :param mode: Spark's output mode: "append", "update" or "complete"
    """

    place: str
    name: str
    view: str
    sink: Sink
    mode: str = "append"

    @property
    def directory(self) -> str:
        """The directory of its query in the checkpoint; without a name that of pipelines with one sink."""
        return f"sink-{self.name}" if self.name else "records"


def _without_logins(url: str) -> str:
    """Return the URL of a database without what may be a password: in front of an @, or among its parameters."""
    head = re.split(r"[;?]", url, maxsplit=1)[0]
    shown = re.sub(r"^(jdbc:\w+:)//[^/@]*@", r"\1//", head)
    # Each driver has a form of its own, as user/password@ of Oracle: what may be in front of an @ is not shown.
    if "@" in shown or "=" in shown or "@" in url[len(head) :]:
        return f"{':'.join(url.split(':')[:2])}{NOT_SHOWN}"
    return shown


def is_written_by_tasks(sink: Sink | None) -> TypeGuard[FileSink]:
    """Return whether the tasks of the source write a sink's files."""
    return isinstance(sink, FileSink) and sink.writer == ARROW


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that reach the cluster."""
    wanted = ("kafka.bootstrap.servers", "kafka.request.timeout.ms", *_SECURITY)
    return {name: text for name, text in options.items() if name.lower().startswith(wanted)}
