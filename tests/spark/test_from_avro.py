"""Avro of unions and of types that contain themselves: types, rows and bytes are those of Spark's own functions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.types import StructType

from pykafka.exceptions import SchemaError
from pykafka.spark.errors import OptionError, SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import avro_bytes, file, values
from tests.support.realschemas import CASES, DEPTH, record
from tests.support.spark.connector import avro_jar

pytestmark = pytest.mark.matrix

#: Spark has a type for these, without the type of a union that is too deep, and then refuses each record for that.
UNREAD = ("a tree, 2 deep", "a tree, 3 deep", "event of CloudEvents")


@pytest.fixture(scope="module")
def avro(spark: SparkSession) -> SparkSession:
    """Return the session, with Spark's functions for Avro."""
    spark.sql(f"ADD JAR '{avro_jar()}'")
    return spark


def theirs(spark: SparkSession, schema: Any, data: list[bytes], depth: int) -> DataFrame:
    frame = spark.createDataFrame([(bytearray(one),) for one in data], "value BINARY").coalesce(1)
    return frame.select(
        from_avro("value", json.dumps(schema), {"recursiveFieldMaxDepth": str(depth or -1)}).alias("parsed")
    )


def plain(value: Any) -> Any:
    """Return a value of a row as Arrow has it."""
    if isinstance(value, Row):
        return {name: plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_from_avro(avro: SparkSession, tmp_path: Path, name: str) -> None:
    schema, records, depth = CASES[name]
    data = [avro_bytes(json.loads(json.dumps(schema)), one) for one in records]
    decoder = make_decoder("avro", {**file(tmp_path, schema), DEPTH: str(depth or -1)})
    frame = theirs(avro, schema, data, depth)
    assert frame.schema["parsed"].dataType.simpleString() == StructType.fromDDL(decoder.ddl).simpleString()
    rows, reasons = decoder.decode(values(*data), None)
    assert reasons.null_count == len(data)
    if name in UNREAD:
        with pytest.raises(Py4JJavaError, match="Malformed records"):
            frame.collect()
    else:
        assert rows.to_pylist(maps_as_pydicts="strict") == [plain(row.parsed) for row in frame.collect()]


def test_what_from_avro_refuses(avro: SparkSession, tmp_path: Path) -> None:
    schema = CASES["a list, 2 deep"].schema
    for depth in (-1, 0):
        with pytest.raises(Py4JJavaError, match="(?s)Found recursive reference in Avro schema.*to 1 - 15"):
            assert theirs(avro, schema, [], depth).schema
        with pytest.raises(SchemaError, match="next is a Node within a Node.*'recursive.fields.max.depth' to 1 - 15"):
            make_decoder("avro", {**file(tmp_path, schema), DEPTH: str(depth)})
    with pytest.raises(PySparkException, match="Should not be greater than 15"):
        assert theirs(avro, schema, [], 16).schema
    with pytest.raises(OptionError, match="'recursive.fields.max.depth' must be a number from 1 to 15"):
        make_decoder("avro", {**file(tmp_path, schema), DEPTH: "16"})


@pytest.mark.parametrize(
    ("union", "row", "refused"),
    [
        (["int", "string"], {"member0": 1, "member1": None}, ""),
        (["int", "string"], {"member0": None, "member1": "x"}, ""),
        (["int", "null", "string"], {"member0": None, "member1": "x"}, ""),
        (["null", "int", "string"], {"member0": None, "member1": None}, ""),
        (["int", {"type": "array", "items": "int"}], {"member0": None, "member1": [1, 2]}, ""),
        # Spark has no words for it.
        (["int", "string"], {"member0": None, "member1": None}, "a has only nulls, and its union does not take null"),
        # Spark writes the first one, and says nothing.
        (
            ["int", "string"],
            {"member0": 1, "member1": "x"},
            "a has member0 and member1, and a union is one of its types",
        ),
    ],
)
def test_bytes_are_those_of_to_avro(avro: SparkSession, tmp_path: Path, union: Any, row: Any, refused: str) -> None:
    schema = record("R", a=union)
    kinds = {"int": pa.int32(), "string": pa.string()}
    left = [one for one in union if one != "null"]
    kind = pa.struct([(f"member{n}", kinds.get(str(one), pa.list_(pa.int32()))) for n, one in enumerate(left)])
    rows = pa.array([{"a": row}], pa.struct([("a", kind)]))
    encoder = make_encoder("avro", file(tmp_path, schema))
    if refused:
        with pytest.raises(SinkError, match=refused):
            encoder.encode(rows)
        return
    made = avro.createDataFrame(pa.Table.from_arrays([rows], names=["row"]))
    written = made.select(to_avro("row", json.dumps(schema)).alias("value")).toArrow()["value"].to_pylist()
    assert encoder.encode(rows).to_pylist() == written
