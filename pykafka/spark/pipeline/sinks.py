"""The sections of a declaration about where it writes: `[sink]` and `[malformed]`."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.pipeline.configured import configured
from pykafka.spark.pipeline.model import Input, ParquetSink, Sink, Source, TopicSink, client_options
from pykafka.spark.pipeline.sources import check_options, free_options
from pykafka.spark.pipeline.tables import Problem, Table
from pykafka.spark.references import looked_up

_PARQUET_OPTIONS = ("compression",)


def read_sink(table: Table, sources: Sequence[Source]) -> Sink | None:
    """Return the destination that a table declares; None if its format is wrong.

    :param sources: whose cluster a topic is on, if the table names no brokers
    """
    kind = table.choice("format", ("parquet", "topic"), required=True)
    other = {"parquet": ("topic", "brokers", "config"), "topic": ("path", "partition_by")}.get(kind, ())
    for key in other:
        if key in table:
            table.value(key, (str, list))
            table.problem(key, f'contradicts format = "{kind}"')
    if kind == "parquet":
        return _parquet_sink(table)
    if kind == "topic":
        return _topic_sink(table, sources)
    return None


def _parquet_sink(table: Table) -> ParquetSink:
    sink = ParquetSink(table.text("path", required=True), table.texts("partition_by"), table.options("options"))
    for name in sink.options:
        if name.lower() not in _PARQUET_OPTIONS:
            known = ", ".join(_PARQUET_OPTIONS)
            table.problem(
                f"options {name}", f"not known; known here are {known}. Spark's settings go to [spark.config]"
            )
    return sink


def _topic_sink(table: Table, sources: Sequence[Source]) -> TopicSink:
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
    if options["kafka.bootstrap.servers"]:  # else it is told of the source
        check_options(table, options, Mode.STREAM_WRITE, whole=True)
    return TopicSink(options)


def check_malformed(table: Table, malformed: Sink | None, sinks: Sequence[tuple[str, Sink]], parsed: bool) -> None:
    """Note a sink of malformed records that cannot work.

    :param sinks: the sinks of rows, with their places
    :param parsed: whether the source has a parser
    """
    if not parsed:
        table.problem("", "needs [parse]: without it no record is malformed")
    if isinstance(malformed, TopicSink) and malformed.topic is None:
        table.problem("topic", "missing, but required")
    if malformed is not None:
        check_path(table, malformed, sinks)


def check_path(table: Table, sink: Sink, others: Sequence[tuple[str, Sink]]) -> None:
    """Note a directory that lies in another sink's, or the other way round."""
    if not isinstance(sink, ParquetSink):
        return
    for place, other in others:
        if isinstance(other, ParquetSink) and sink.path and other.path and _nested(sink.path, other.path):
            table.problem("path", f"{sink.path} and {place} path {other.path} lie in each other; keep them apart")


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
