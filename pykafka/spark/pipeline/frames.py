"""The DataFrames of a pipeline: Kafka's columns, parsed, transformed, in the form of the sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar, cast

from pyspark.errors import PySparkException
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructType

from pykafka.exceptions import ConfigurationError, RegistryError, SchemaError
from pykafka.spark.columns import COLUMNS, HEADERS, HEADERS_TYPE
from pykafka.spark.errors import OptionError, PackageMissingError, SinkError
from pykafka.spark.formats import FORMATS, make_decoder, make_encoder
from pykafka.spark.formats.columns import decoded, encoded
from pykafka.spark.options import write_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.parquetfiles import DDL as FILE_DDL
from pykafka.spark.parquetfiles import INTO, ParquetFiles
from pykafka.spark.pipeline.deadletters import Taps, is_supported, taps_in
from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import DeclarationError, first_and_last
from pykafka.spark.pipeline.model import (
    ERROR,
    KAFKA,
    MALFORMED,
    METRICS,
    NEEDED,
    RECORDS,
    ROWS,
    FileSink,
    FormatSink,
    Input,
    JdbcSink,
    Output,
    Parsing,
    Serializing,
    Sink,
    Source,
    TableSink,
    TopicSink,
    Watermark,
    is_written_by_tasks,
)
from pykafka.spark.pipeline.storage import Storage
from pykafka.spark.pipeline.tables import Problem
from pykafka.spark.pipeline.udfs import register
from pykafka.spark.sink import SINK_COLUMNS, check_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pykafka.spark.formats.decoder import Decoder

T = TypeVar("T")
#: What ends a quoted name in the SQL of some database.
_UNQUOTABLE = re.compile(r"[\"`\[\]\x00-\x1f]")
#: The name of a last step without one, for its tap.
_LAST = "the_last_step"
#: Spark's parsers put text here that they cannot parse; no other columns have these names.
_CORRUPT, _PARSED, _WHY, _REASON = "_pykafka_corrupt", "_pykafka_parsed", "_pykafka_why", "_pykafka_reason"


@dataclass(frozen=True)
class Frames:
    """The streams that a pipeline writes.

    :param rows: those for the sinks, in the order of the declaration
    :param malformed: malformed records, for each source that keeps them
    """

    rows: tuple[tuple[Output, DataFrame], ...]
    malformed: tuple[tuple[Input, DataFrame], ...]


def read_stream(spark: SparkSession, source: Source) -> DataFrame:
    """Return the topics as a stream."""
    options = dict(source.options)
    if source.files is not None:
        directory = Storage(spark).mounted(source.files.directory)
        options[INTO] = replace(source.files, directory=directory).option()
    return spark.readStream.format("pykafka").schema(_ddl(source)).options(**options).load()


def read_nothing(spark: SparkSession, directory: str, source: Source) -> DataFrame:
    """Return a stream with the same columns and never a row.

    :param directory: a directory that stays empty
    """
    return spark.readStream.schema(_ddl(source)).parquet(directory)


def _ddl(source: Source) -> str:
    if source.files is not None:
        return FILE_DDL
    return ", ".join(f"{name} {COLUMNS[name]}" for name in source.columns)


def _beside(source: Source) -> Source:
    """Return the source for the malformed records: with all records, and hidden from tools that watch the lag of the rows."""
    options = {name: text for name, text in source.options.items() if name.lower() != "commitprogressto"}
    return Source({**options, "includeHeaders": "true"}, tuple(COLUMNS))


def build(declaration: Declaration, read: Callable[[Source], DataFrame]) -> Frames:
    """Return the streams that a pipeline writes.

    :param declaration: the pipeline
    :param read: returns a source as a stream
    :raises DeclarationError: Spark refuses a schema or a step, or a sink refuses the rows
    """
    malformed: list[tuple[Input, DataFrame]] = []
    rows: list[tuple[Output, DataFrame]] = []
    if declaration.dead_letters is None:
        views = _views(declaration, read, None, malformed)
        rows += ((output, _rows(declaration, output, views, read)) for output in declaration.outputs)
    else:
        rows += _tapped(declaration, declaration.dead_letters, read)
    for output, frame in rows:
        check_sink(frame, declaration, output)
    return Frames(tuple(rows), tuple(malformed))


def _tapped(
    declaration: Declaration, sink: TopicSink, read: Callable[[Source], DataFrame]
) -> Iterator[tuple[Output, DataFrame]]:
    """Yield the rows of each sink; the first query that reads a view sends its dead letters, and the others leave them out."""
    if not is_supported():
        raise _refused(
            declaration,
            "[dead_letters]",
            "needs PySpark 4.1 or later: take [malformed], which keeps records that cannot be parsed",
        )
    sent: frozenset[str] = frozenset()
    left_out: set[str] = set()
    for output in declaration.outputs:
        views = _views(declaration, read, Taps(sink, declaration.name, sent), [])
        rows = _rows(declaration, output, views, read)
        declared, evaluated = taps_in(rows, frozenset(view or _LAST for view in views))
        sent |= evaluated
        left_out |= declared
        yield output, rows
    if left_out := left_out - sent:
        raise _refused(
            declaration,
            "[dead_letters]",
            f"no query would send those of {', '.join(map(repr, sorted(left_out)))}: no row of it can reach a sink, so Spark "
            "leaves the whole step out. Look for a condition that is never true, a LIMIT 0, or a join with nothing",
        )


def _views(
    declaration: Declaration,
    read: Callable[[Source], DataFrame],
    taps: Taps | None,
    malformed: list[tuple[Input, DataFrame]],
) -> dict[str, DataFrame]:
    """Return the views of sources and steps.

    :param taps: take dead letters; None if the pipeline has no place for them
    :param malformed: takes the streams of malformed records
    """
    views: dict[str, DataFrame] = {}
    for one in declaration.inputs:
        if not declaration.steps and tasks_write_all(declaration, one):
            continue
        metrics = METRICS if one.view == RECORDS else f"{METRICS}_{one.view}"
        records = read(one.source)
        if one.parsing is None:
            records = records.observe(metrics, sql.count("*").alias(ROWS))
        else:
            parser = _Parser(declaration, one, one.parsing, metrics)
            records = parser.rows(records, taps)
            if one.malformed is not None:
                kept = parser.malformed(read(_beside(one.source)))
                malformed.append((one, _as_messages(kept) if isinstance(one.malformed, TopicSink) else kept))
        views[one.view] = _watched(declaration, one.place, records, one.watermark)
    if views:
        register(declaration, next(iter(views.values())).sparkSession)
        _transform(declaration, views, taps)
    return views


def tasks_write_all(declaration: Declaration, one: Input) -> bool:
    """Return whether a source has sinks, and its tasks write all of them: then nothing needs its view."""
    outputs = [output for output in declaration.outputs if output.view == one.view]
    return bool(outputs) and all(is_written_by_tasks(output.sink) for output in outputs)


class _Parser:
    """A parser of columns of bytes, which separates the malformed bytes.

    :param declaration: the pipeline
    :param reads: the source that is parsed
    :param parsing: format and schema
    :param metrics: name of the counts
    :raises DeclarationError: Spark cannot read the schema, or the schema has types that no parser supports
    """

    def __init__(self, declaration: Declaration, reads: Input, parsing: Parsing, metrics: str) -> None:
        self._parsing = parsing
        self._metrics = metrics
        self._view = reads.view
        self._keeps = reads.malformed is not None
        place = f"{parsing.place} schema"
        self._decoder: Decoder | None = None
        if parsing.format in FORMATS:
            self._decoder = _asked_for_schema(
                declaration, parsing.place, parsing.format, lambda: make_decoder(parsing.format, parsing.options)
            )
        ddl = parsing.schema if self._decoder is None else self._decoder.ddl
        schema = cast("StructType", _asked(declaration, place, lambda: StructType.fromDDL(ddl)))
        self._fields = schema.fieldNames()
        if KAFKA in map(str.lower, self._fields):
            raise _refused(
                declaration,
                place,
                f"has a field {KAFKA!r}, which is where a step finds Kafka's own columns: "
                + (
                    "parse it in a step, by from_json or from_csv"
                    if self._decoder is None
                    else "take a schema without it"
                ),
            )
        strict = [item.name for item in schema.fields if not item.nullable]
        if strict:
            raise _refused(
                declaration,
                place,
                f"{strict[0]!r} cannot be NOT NULL, as Spark fills what a record lacks with null: filter it in a step",
            )
        self._schema = schema.add(_CORRUPT, StringType()).toDDL()

    def rows(self, records: DataFrame, taps: Taps | None) -> DataFrame:
        """Return the schema's columns, and Kafka's in a struct, of the well-formed records.

        :param taps: take the others
        """
        marked = self._marked(records).select(
            sql.struct(*records.columns).alias(KAFKA),
            _PARSED,
            MALFORMED,
            self._complaint(records).alias(_WHY),
            *([] if self._decoder is None else [_REASON]),
        )
        # Observe the metrics here: Spark does not evaluate the plan before them a second time.
        marked = marked.observe(self._metrics, sql.count("*").alias(ROWS), sql.count_if(MALFORMED).alias(MALFORMED))
        if taps is not None:
            why = sql.lit(f"the {self._parsing.column} is no {self._parsing.format.upper()} of the schema")
            if self._decoder is not None:
                why = sql.concat(why, sql.lit(": "), sql.col(_REASON))
            wanted = taps.through(marked, self._view, sql.when(sql.col(MALFORMED), why))
            return wanted.select(*(sql.col(_PARSED)[name].alias(name) for name in self._fields), KAFKA)
        others: Column = sql.lit(False) if self._keeps else sql.raise_error(sql.col(_WHY)).cast("boolean")
        wanted = marked.where(sql.when(~sql.col(MALFORMED), True).otherwise(others))
        return wanted.select(*(sql.col(_PARSED)[name].alias(name) for name in self._fields), KAFKA)

    def malformed(self, records: DataFrame) -> DataFrame:
        """Return the malformed records, unchanged."""
        marked = self._marked(records).observe(self._metrics, sql.count_if(MALFORMED).alias(MALFORMED))
        return marked.where(MALFORMED).select(*records.columns)

    def _marked(self, records: DataFrame) -> DataFrame:
        if self._decoder is not None:
            parsed = decoded(records, self._decoder, self._parsing.column, _PARSED, _REASON)
            return parsed.withColumn(MALFORMED, sql.col(_REASON).isNotNull())
        raw = sql.col(self._parsing.column)
        text = raw.cast("string")
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **self._parsing.options}
        parse = sql.from_json if self._parsing.format == "json" else sql.from_csv
        parsed = records.withColumn(_PARSED, parse(text, self._schema, options))
        bad = sql.col(_PARSED)[_CORRUPT].isNotNull() | (sql.trim(text) == "") | ~sql.is_valid_utf8(raw)
        if self._parsing.format == "json" and not self._parsing.options:
            # Spark's parser stops at the end of the first JSON value and skips the text behind it.
            length = sql.json_array_length(sql.concat(sql.lit("["), text, sql.lit("]")))
            bad = bad | (sql.coalesce(length, sql.lit(0)) != 1)
        # A record without a value deletes its key: nothing to parse, and not malformed.
        return parsed.withColumn(MALFORMED, raw.isNotNull() & sql.coalesce(bad, sql.lit(True)))

    def _complaint(self, records: DataFrame) -> Column:
        """Return the sentence that ends a pipeline at a malformed record."""
        where = [
            sql.concat(sql.lit(f"{name} "), sql.coalesce(sql.col(name).cast("string"), sql.lit("?")))
            for name in ("topic", "partition", "offset")
            if name in records.columns
        ]
        what = f"is no {self._parsing.format.upper()} of the schema: "
        advice = ". Declare [malformed] to keep such records apart and continue"
        content = sql.left(sql.col(self._parsing.column).cast("string"), sql.lit(200))
        if self._decoder is not None:
            content = sql.col(_REASON)
        return sql.concat(
            sql.lit(f"the {self._parsing.column} of the record at "),
            sql.concat_ws(", ", *where),
            sql.lit(f" {what}"),
            sql.coalesce(content, sql.lit("")),
            sql.lit(advice),
        )


def _asked_for_schema(declaration: Declaration, place: str, kind: str, make: Callable[[], T]) -> T:
    """Return the decoder or encoder of a format that has a schema.

    :param place: its table in the file
    :param make: makes it
    :raises DeclarationError: the registry or the schema refuses
    """
    try:
        return make()
    except (RegistryError, SchemaError, OptionError, ConfigurationError) as error:
        raise _refused(declaration, place, str(error)) from error
    except PackageMissingError as error:
        raise _refused(declaration, place, f"format = {kind!r}: {error}") from error


def _as_messages(malformed: DataFrame) -> DataFrame:
    """Return records unchanged, with headers for their original place."""
    origin = [
        sql.struct(sql.lit(f"source.{name}").alias("key"), sql.col(name).cast("string").cast("binary").alias("value"))
        for name in ("topic", "partition", "offset")
    ]
    own = sql.coalesce(sql.col(HEADERS), sql.array().cast(HEADERS_TYPE))
    return malformed.select("key", "value", sql.concat(own, sql.array(*origin)).cast(HEADERS_TYPE).alias(HEADERS))


def _transform(declaration: Declaration, views: dict[str, DataFrame], taps: Taps | None) -> None:
    """Add the result of each step to the views; of a last step without a name, as ""."""
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    spark = next(iter(views.values())).sparkSession
    for number, step in enumerate(declaration.steps, 1):
        place = f"[transform {number}]"
        result = _asked(declaration, f"{place} sql", lambda: spark.sql(step.sql))  # noqa: B023 - called at once
        if taps is not None and ERROR in map(str.lower, result.columns):
            result = _without_errors(declaration, place, result, step.view or _LAST, taps)
        result = _watched(declaration, place, result, step.watermark)
        if step.view:
            result.createOrReplaceTempView(step.view)
        views[step.view] = result


def _without_errors(declaration: Declaration, place: str, result: DataFrame, view: str, taps: Taps) -> DataFrame:
    """Return the rows of a step whose column `error` is null, without that column; the others are dead letters."""
    kafka = next((item.dataType for item in result.schema.fields if item.name.lower() == KAFKA), None)
    if not isinstance(kafka, StructType) or not set(NEEDED) <= set(kafka.fieldNames()):
        raise _refused(
            declaration,
            f"{place} sql",
            f"has a column {ERROR!r}, which makes dead letters of rows, and not the struct {KAFKA!r} with the record: select "
            f"it, too (without [parse] as struct(*) AS {KAFKA}), or rename {ERROR!r}",
        )
    return taps.through(result, view, sql.col(ERROR).cast("string")).drop(ERROR)


def _watched(declaration: Declaration, place: str, frame: DataFrame, watermark: Watermark | None) -> DataFrame:
    """Return a view with its watermark."""
    if watermark is None:
        return frame
    return _asked(declaration, f"{place} watermark", lambda: frame.withWatermark(watermark.column, watermark.delay))


def _rows(
    declaration: Declaration, output: Output, views: dict[str, DataFrame], read: Callable[[Source], DataFrame]
) -> DataFrame:
    """Return the rows of a sink; if the source's tasks write it, nulls and the paths of files."""
    if is_written_by_tasks(output.sink):
        of = declaration.input_of(output)
        assert of is not None
        files = ParquetFiles(output.sink.path, of.source.columns, output.sink.codec)
        return read(replace(of.source, files=files))
    rows = views[output.view]
    if not rows.isStreaming:
        number = [step.view for step in declaration.steps].index(output.view) + 1
        named = " and ".join(repr(one.view) for one in declaration.inputs)
        raise _refused(
            declaration,
            f"[transform {number}] sql",
            f"does not read {named}, nor a step that does: nothing of the topic is in it",
        )
    if isinstance(output.sink, TopicSink) and output.sink.serializing is not None:
        return _serialized(declaration, output.place, rows, output.sink.serializing)
    return rows


def _serialized(declaration: Declaration, place: str, rows: DataFrame, serializing: Serializing) -> DataFrame:
    """Return the bytes of rows, beside the columns that a sink of topics has besides them.

    :raises DeclarationError: the registry, the schema or the rows refuse
    """
    place = f"{place} serialize"
    encoder = _asked_for_schema(
        declaration, place, serializing.format, lambda: make_encoder(serializing.format, serializing.options)
    )
    keep = tuple(name for name in rows.columns if name.lower() in SINK_COLUMNS and name.lower() != serializing.column)
    try:
        return encoded(rows, encoder, serializing.column, keep)
    except SinkError as error:
        raise _refused(declaration, place, str(error)) from error


def check_sink(rows: DataFrame, declaration: Declaration, output: Output) -> None:
    """Raise if the sink refuses the rows.

    :raises DeclarationError: a column is missing, there twice, or of a type that cannot be written
    """
    names, sink, place = rows.columns, output.sink, output.place
    twice = sorted({name for name in names if sum(name.lower() == other.lower() for other in names) > 1})
    if twice:
        raise _refused(declaration, place, f"the rows have columns of the same name, {', '.join(twice)}: rename them")
    if isinstance(sink, JdbcSink):
        _check_names(names, declaration, place)
    if isinstance(sink, TopicSink):
        try:
            check_schema(rows.schema, write_options(sink.options, Mode.STREAM_WRITE))
        except SinkError as error:
            raise _refused(declaration, place, str(error)) from error
    for key, wanted in _wanted(sink).items():
        for name in wanted:
            if name not in names:
                sentence = f"{name!r} is no column of the rows; those are {', '.join(names)}"
                raise _refused(declaration, f"{place} {key}", sentence)
    if isinstance(sink, TableSink | JdbcSink) and sink.merge is not None and sink.merge.delete_where:
        condition = sink.merge.delete_where
        _asked(declaration, f"{place} delete_where", lambda: rows.where(condition))
    if isinstance(sink, FileSink | TableSink):
        by = f"{place} partition_by"
        if sink.partition_by and set(names) <= set(sink.partition_by):
            raise _refused(declaration, by, "names all columns: one must be left for the files")


def _check_names(names: Sequence[str], declaration: Declaration, place: str) -> None:
    """Raise if a column cannot be quoted in a database's SQL: Spark's dialects do not escape what is in a name.

    :raises DeclarationError: names the column; it may be of a schema that others write
    """
    for name in names:
        if _UNQUOTABLE.search(name):
            sentence = f"{name!r} cannot be a column of a database: rename it in a step, without quotes and brackets"
            raise _refused(declaration, place, sentence)


def _wanted(sink: Sink) -> dict[str, tuple[str, ...]]:
    """Return the columns that rows must have, by the key that names them."""
    wanted: dict[str, tuple[str, ...]] = {}
    if isinstance(sink, FileSink | TableSink | FormatSink):
        wanted["partition_by"] = sink.partition_by
    if isinstance(sink, TableSink | JdbcSink) and sink.merge is not None:
        wanted |= {"merge": sink.merge.keys, "latest_by": sink.merge.latest_by}
    return wanted


def _asked(declaration: Declaration, place: str, ask: Callable[[], T]) -> T:
    """Return Spark's result.

    :raises DeclarationError: Spark's refusal, with its place in the declaration
    """
    try:
        return ask()
    except PySparkException as error:
        raise _refused(declaration, place, first_and_last(error)) from error


def _refused(declaration: Declaration, place: str, sentence: str) -> DeclarationError:
    return DeclarationError(declaration.name, [Problem(place, sentence)])
