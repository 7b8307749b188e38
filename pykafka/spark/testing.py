"""DataFrames with the columns of a topic, made from Python's values: tests of a job need no Kafka."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pykafka.spark.columns import COLUMNS, HEADERS, ddl
from pykafka.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ARROW = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_HEADERS_ARROW = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def records_frame(
    spark: SparkSession, records: Iterable[Mapping[str, Any]], include_headers: bool = False
) -> DataFrame:
    """Return a DataFrame as a batch read of a topic returns it, with these records.

    :param spark: the session
    :param records: a dict for each, with some of the columns of a read. `key`, `value` and the values of headers are bytes, or
        text; `timestamp` is a `datetime` with a zone, or milliseconds since 1970; `headers` are pairs of name and value. What
        a dict lacks is null, but for `topic` ("topic"), `partition` (0), `offset` (the next one of its partition), `timestamp`
        (1970) and `timestampType` (0)
    :param include_headers: with the column `headers`, as by the option `includeHeaders`
    :raises OptionError: a record has what is no column of a read, or a time without a zone
    """
    rows = [_row(record, include_headers) for record in _completed(records, Counter())]
    return spark.createDataFrame(rows, ddl(include_headers))


def records_stream(
    spark: SparkSession,
    batches: Iterable[Iterable[Mapping[str, Any]]],
    directory: str | os.PathLike[str],
    include_headers: bool = False,
) -> DataFrame:
    """Return a streaming DataFrame as a stream of a topic returns it: each micro-batch has the records of one of the batches.

    Start its query by ``trigger(availableNow=True)``: it ends when the last batch is done. A query that starts again, with its
    checkpoint, continues with batches that were added since, by a call with all of them.

    :param spark: the session
    :param batches: the records of each micro-batch, as `records_frame` takes them
    :param directory: of the test alone; the batches are files there
    :param include_headers: with the column `headers`
    :raises OptionError: a record has what is no column of a read, or a time without a zone
    """
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    ends: Counter[tuple[str, int]] = Counter()
    for number, batch in enumerate(batches):
        file = place / f"{number:06}.parquet"
        pq.write_table(_table(_completed(batch, ends), include_headers), file)
        os.utime(file, (number, number))  # Spark takes files in the order of their times
    return spark.readStream.schema(ddl(include_headers)).option("maxFilesPerTrigger", 1).parquet(str(place))


def _completed(records: Iterable[Mapping[str, Any]], ends: Counter[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return records with all columns.

    :param ends: the next offset of each partition, which is counted on
    """
    made = []
    for record in records:
        unknown = sorted(record.keys() - COLUMNS.keys())
        if unknown:
            raise OptionError(f"a record has no column {unknown[0]!r}; it has some of: {', '.join(COLUMNS)}")
        row = {**dict.fromkeys(COLUMNS), "topic": "topic", "partition": 0, "timestamp": 0, "timestampType": 0, **record}
        place = row["topic"], row["partition"]
        row["offset"] = record.get("offset", ends[place])
        ends[place] = row["offset"] + 1
        row["key"], row["value"] = _as_bytes(row["key"]), _as_bytes(row["value"])
        row["timestamp"] = _as_time(row["timestamp"])
        if row[HEADERS] is not None:
            row[HEADERS] = [{"key": name, "value": _as_bytes(value)} for name, value in row[HEADERS]]
        made.append(row)
    return made


def _row(record: Mapping[str, Any], include_headers: bool) -> tuple[Any, ...]:
    return tuple(value for name, value in record.items() if include_headers or name != HEADERS)


def _table(records: list[dict[str, Any]], include_headers: bool) -> pa.Table:
    fields = [(name, _ARROW.get(kind, _HEADERS_ARROW)) for name, kind in COLUMNS.items()]
    return pa.Table.from_pylist(records, pa.schema(fields if include_headers else fields[: len(fields) - 1]))


def _as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _as_time(value: Any) -> datetime | None:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise OptionError(f"the timestamp {value} has no zone: write it with `tzinfo`, or as milliseconds since 1970")
    return _EPOCH + timedelta(milliseconds=value) if isinstance(value, int) else value
