"""Avro as rows of Arrow, and back: types, defaults, references, and what is not written."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.exceptions import SchemaError
from pykafka.registry.schemas import with_id
from pykafka.spark.errors import SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import CLICK, avro_bytes, field, file, values
from tests.support.registrystub import RegistryStub


@pytest.mark.parametrize(
    ("kind", "value", "ddl", "row"),
    [
        ("null", None, "STRING", None),
        ("boolean", True, "BOOLEAN", True),
        ("int", 3, "INT", 3),
        ("float", 1.5, "FLOAT", 1.5),
        ("bytes", b"ab", "BINARY", b"ab"),
        (["string", "null"], "a", "STRING", "a"),
        (["null", "int", "long"], 2**40, "BIGINT", 2**40),
        (["float", "double"], 0.5, "DOUBLE", 0.5),
        ({"type": "int", "logicalType": "date"}, date(2024, 2, 29), "DATE", date(2024, 2, 29)),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime(2024, 1, 2, 3, 4, 5, 678000, UTC),
            "TIMESTAMP",
            datetime(2024, 1, 2, 3, 4, 5, 678000, UTC),
        ),
        (
            {"type": "long", "logicalType": "timestamp-nanos"},
            1_000_001_999,
            "TIMESTAMP",
            datetime(1970, 1, 1, 0, 0, 1, 1, UTC),
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            datetime(2024, 1, 2, 3, 4, 5, 6),
            "TIMESTAMP_NTZ",
            datetime(2024, 1, 2, 3, 4, 5, 6),
        ),
        ({"type": "int", "logicalType": "time-millis"}, 1000, "INT", 1000),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            Decimal("-12.34"),
            "DECIMAL(9,2)",
            Decimal("-12.34"),
        ),
        (
            {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 0},
            Decimal(7),
            "DECIMAL(9,0)",
            Decimal(7),
        ),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "BINARY", b"ab"),
        (
            {"type": "string", "logicalType": "uuid"},
            "89791762-2336-4186-9674-299b90a802e2",
            "STRING",
            "89791762-2336-4186-9674-299b90a802e2",
        ),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "STRING", "B"),
        ({"type": "array", "items": ["null", "long"]}, [1, None], "ARRAY<BIGINT>", [1, None]),
        ({"type": "map", "values": "long"}, {"k": 3}, "MAP<STRING, BIGINT>", [("k", 3)]),
        (["null", field("x", "int") | {"name": "X"}], {"x": 1}, "STRUCT<`x`: INT>", {"x": 1}),
    ],
)
def test_types_of_avro(tmp_path: Path, kind: Any, value: Any, ddl: str, row: Any) -> None:
    options = file(tmp_path, field("a", kind))
    decoder = pickle.loads(pickle.dumps(make_decoder("avro", options)))
    assert decoder.ddl == f"`a` {ddl}"
    data = avro_bytes(field("a", kind), {"a": value})
    rows, reasons = decoder.decode(values(data), None)
    assert (rows.to_pylist(), reasons.to_pylist()) == ([{"a": row}], [None])
    if "nanos" not in str(kind):  # of which Spark keeps microseconds
        encoder = pickle.loads(pickle.dumps(make_encoder("avro", options)))
        assert encoder.encode(rows).to_pylist() == [data]


def test_a_schema_that_is_no_record_is_one_column(tmp_path: Path) -> None:
    decoder = make_decoder("avro", file(tmp_path, '"long"'))
    assert decoder.ddl == "`value` BIGINT"
    assert decoder.decode(values(b"\x0e"), None)[0].to_pylist() == [{"value": 7}]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (field("a", ["null", "R"]), "a is a R within a R"),
        (field("a", {"type": "record", "name": "Empty", "fields": []}), "a is a record without fields"),
        (field("a", {"type": "bytes", "logicalType": "decimal", "precision": 40}), "a is a decimal of 40 digits"),
        (field("a", "nothing"), "not a valid Avro schema"),
        (field(7, "int"), "not a valid Avro schema"),  # type: ignore[arg-type]
        (field("a", [[], "string"]), "not a valid Avro schema"),
        ("[" * 900 + "]" * 900, "not a valid Avro schema"),
        ("[" * 400 + '"int"' + "]" * 400, "not a valid Avro schema"),
        (field("a", {"type": "long", "logicalType": {}}), "not a valid Avro schema"),
        (
            field("a", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": None}),
            "not a valid Avro schema",
        ),
        (field("a", {"type": "array", "items": "null"}), "items have no bytes"),
        (
            field("a", {"type": "map", "values": {"type": "array", "items": field("n", "null") | {"name": "N"}}}),
            "no bytes",
        ),
        ("{", "not JSON"),
    ],
)
def test_what_spark_has_no_type_for_is_refused_by_name(tmp_path: Path, schema: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        make_decoder("avro", file(tmp_path, schema))


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\u00ff", b"\xff"),
        (["bytes", "null"], "\u00ff", b"\xff"),
        ({"type": "fixed", "name": "F", "size": 1}, "\u00ff", b"\xff"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u00ff", Decimal("-0.01")),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
            (10**37 + 1).to_bytes(16, "big").decode("latin-1"),
            Decimal(f"1{'0' * 35}.01"),
        ),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": "bytes"}, {"k": "\u00ff"}, [("k", b"\xff")]),
        (field("x", "bytes") | {"name": "X"}, {"x": "\u00ff"}, {"x": b"\xff"}),
        (
            {"type": "record", "name": "X", "fields": [{"name": "x", "type": "int", "default": 5}]},
            {},
            {"x": 5},
        ),
        ("shop.Two", "\u00ff\u0000", b"\xff\0"),
    ],
)
def test_defaults_are_values_of_their_types(stub: RegistryStub, kind: Any, default: Any, value: Any) -> None:
    stub.add("two", {"type": "fixed", "name": "Two", "namespace": "shop", "size": 2})
    newer = {**CLICK, "fields": [*CLICK["fields"], {"name": "more", "type": kind, "default": default}]}
    stub.add("clicks-value", CLICK)
    stub.add("clicks-value", newer, references=[{"name": "shop.Two", "subject": "two", "version": 1}])
    options = {"registry": stub.url, "topic": "clicks"}
    decoder = make_decoder("avro", options)
    wanted = [{"id": 1, "who": None, "more": value}]
    rows, reasons = decoder.decode(values(with_id(2) + avro_bytes(CLICK, {"id": 1, "who": None})), None)
    assert (rows.to_pylist(), reasons.to_pylist()) == (wanted, [None])
    written = make_encoder("avro", options).encode(pa.array([{"id": 1}]))
    assert decoder.decode(written, None)[0].to_pylist() == wanted


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 2**40),
        ("long", 1.5),
        ("boolean", "false"),
        ("boolean", 5),
        ("long", True),
        (["null", "int"], 2**31),
        ({"type": "array", "items": "int"}, [1, None, 2**31]),
        ({"type": "array", "items": {"type": "boolean"}}, ["false"]),
        (field("b", "long") | {"name": "B"}, {"b": 1.5}),
    ],
)
def test_values_of_other_types_are_not_written_as_avro(tmp_path: Path, kind: Any, value: Any) -> None:
    encoder = make_encoder("avro", file(tmp_path, field("a", kind)))
    with pytest.raises(SinkError, match="column 'a.* in the schema"):
        encoder.encode(pa.array([{"a": value}]))


def test_references_of_avro(stub: RegistryStub) -> None:
    inner = field("city", "string") | {"name": "Address", "namespace": "shop"}
    outer = field("to", "shop.Address")
    stub.add("address", inner)
    stub.add("orders-value", outer, "AVRO", [{"name": "shop.Address", "subject": "address", "version": 1}])
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "orders"})
    data = with_id(2) + avro_bytes(field("to", inner), {"to": {"city": "Ulm"}})
    rows, _ = pickle.loads(pickle.dumps(decoder)).decode(values(data), None)
    assert rows.to_pylist() == [{"to": {"city": "Ulm"}}]
    assert make_encoder("avro", {"registry": stub.url, "topic": "orders"}).encode(rows).to_pylist() == [data]
