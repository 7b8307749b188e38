"""The parts of a declaration: what a pipeline reads, how it transforms, where it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: The view of a source that names none, and the column with Kafka's own columns beside a parsed value.
RECORDS, KAFKA = "records", "kafka"
#: The metrics by which a query's progress has the counts of a micro-batch; the names of several begin with the first.
METRICS, ROWS, MALFORMED, DEAD_LETTERS = "pykafka", "rows", "malformed", "dead_letters"
#: Options that reach a cluster; a sink on the source's cluster takes them from the source.
_SECURITY = ("kafka.security.", "kafka.ssl.", "kafka.sasl.", "proxy")


@dataclass(frozen=True)
class Source:
    """The topics that a pipeline reads.

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
    :param place: its table in the file, as "[parse]"
    """

    format: str
    schema: str
    column: str
    options: Mapping[str, str]
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
    """

    place: str
    name: str
    view: str
    sink: Sink

    @property
    def directory(self) -> str:
        """The directory of its query in the checkpoint; without a name that of pipelines with one sink."""
        return f"sink-{self.name}" if self.name else "records"


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that reach the cluster."""
    wanted = ("kafka.bootstrap.servers", "kafka.request.timeout.ms", *_SECURITY)
    return {name: text for name, text in options.items() if name.lower().startswith(wanted)}
