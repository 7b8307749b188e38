"""`decoded` and `encoded`: a decoder over a column of a DataFrame, an encoder over its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType, StructType

from pykafka.spark.columns import HEADERS, HEADERS_TYPE
from pykafka.spark.errors import SinkError
from pykafka.spark.formats.arrowtypes import quoted
from pykafka.spark.formats.decoder import Decoder
from pykafka.spark.formats.encoder import Encoder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
#: The struct that `encoded` makes of the rows for the workers.
_ROW = "_pykafka_row"


def decoded(
    frame: DataFrame, decoder: Decoder, column: str = "value", parsed: str = "parsed", reason: str = "reason"
) -> DataFrame:
    """Return a DataFrame with two more columns: the rows, and the reasons of those that cannot be parsed.

    :param frame: with the column, and `headers` if schemas are in headers
    :param decoder: from `make_decoder`
    :param column: of bytes
    :param parsed: the column for rows: null if it failed, or the bytes are null
    :param reason: the column for reasons: null if it went well
    """
    schema = StructType([*frame.schema.fields]).add(parsed, StructType.fromDDL(decoder.ddl)).add(reason, StringType())
    at = frame.columns.index(column)
    headers = frame.columns.index(HEADERS) if HEADERS in frame.columns else None
    return frame.mapInArrow(_decoding(decoder, at, headers, schema.names), schema)


def _decoding(decoder: Decoder, at: int, headers: int | None, names: list[str]) -> _Batches:
    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows, reasons = decoder.decode(batch.column(at), None if headers is None else batch.column(headers))
            yield pa.RecordBatch.from_arrays([*batch.columns, rows, reasons], names=names)

    return decode


def encoded(frame: DataFrame, encoder: Encoder, column: str = "value", keep: tuple[str, ...] = ()) -> DataFrame:
    """Return a DataFrame with one column of bytes for the columns of the rows; those that are kept stand beside it.

    :param frame: with the columns of the schema
    :param encoder: from `make_encoder`
    :param column: for the bytes: "value" or "key"
    :param keep: columns that are no part of the rows: key, partition, headers, topic, timestamp
    :raises SinkError: the rows have a column that the schema lacks, or keep one of the same name
    """
    if column in keep:
        raise SinkError(f"column {column!r} is kept, and is to become the bytes of the rows: rename it")
    fields = [name for name in frame.columns if name not in keep]
    encoder.check(fields)
    kept = [sql.col(quoted(name)) for name in keep if name != HEADERS or encoder.header is None]
    if encoder.header is not None:
        kept.append(_with_header(encoder.header, HEADERS in keep))
    wanted = frame.select(*kept, sql.struct(*(sql.col(quoted(name)) for name in fields)).alias(_ROW))
    schema = StructType([*wanted.schema.fields[:-1]]).add(column, BinaryType())
    return wanted.mapInArrow(_encoding(encoder, schema.names), schema)


def _with_header(header: tuple[str, bytes], has_own: bool) -> Column:
    name, value = header
    added = sql.array(
        sql.struct(sql.lit(name).alias("key"), sql.lit(bytearray(value)).cast("binary").alias("value"))
    ).cast(HEADERS_TYPE)
    if not has_own:
        return added.alias(HEADERS)
    own = sql.filter(sql.coalesce(sql.col(HEADERS), sql.array().cast(HEADERS_TYPE)), lambda one: one["key"] != name)
    return sql.concat(own, added).alias(HEADERS)


def _encoding(encoder: Encoder, names: list[str]) -> _Batches:
    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            *kept, rows = batch.columns
            yield pa.RecordBatch.from_arrays([*kept, encoder.encode(rows)], names=names)

    return encode
