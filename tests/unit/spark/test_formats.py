"""Avro, Protobuf and JSON Schema as rows of Arrow, and back: with a registry, with evolution, with garbage."""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pykafka.exceptions import RegistryError, RegistryUnavailableError, SchemaError, SchemaNotFoundError
from pykafka.registry import protobuf
from pykafka.registry.framing import with_guid, with_id
from pykafka.spark.errors import OptionError, PackageMissingError, SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from pykafka.spark.formats.decoder import Decoder
from tests.support.registrystub import RegistryStub

CLICK = {
    "type": "record",
    "name": "Click",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": ["null", "string"], "default": None}],
}
NEWER = {**CLICK, "fields": [*CLICK["fields"], {"name": "pages", "type": "int", "default": 7}]}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1; string who = 2; google.protobuf.Timestamp at = 3; repeated string tags = 4; map<string, int32> counts = 5;
  enum Kind { NONE = 0; BIG = 1; }
  Kind kind = 6; optional double price = 7;
  message Item { uint64 number = 1; bytes raw = 2; }
  Item first = 8; repeated Item items = 9; google.protobuf.StringValue note = 10; map<int32, Item> by_number = 11;
  oneof either { string left = 12; int32 right = 13; }
}
message Other { int32 z = 1; }
"""
JSON_SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "score": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
        "sub": {"$ref": "#/definitions/Sub"},
        "choice": {"oneOf": [{"type": "null"}, {"type": "string", "enum": ["a", "b"]}]},
    },
    "definitions": {"Sub": {"type": "object", "properties": {"yes": {"type": "boolean"}}}},
}


#: The column of headers.
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with RegistryStub() as server:
        yield server


def avro_bytes(schema: Any, row: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return stream.getvalue()


def values(*data: bytes | None) -> pa.Array:
    return pa.array(data, pa.binary())


def arrow_of(decoder: Decoder) -> pa.StructType:
    """Return the type of a decoder's rows."""
    return decoder.decode(values(), pa.array([], HEADERS))[0].type


def file(tmp_path: Path, schema: Any) -> dict[str, str]:
    path = tmp_path / "schema"
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return {"schema_file": str(path)}


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}


# -- Avro ------------------------------------------------------------------------------------------------------------


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
        (field("a", ["int", "string"]), "a is a union of int, string"),
        (field("a", ["null", "R"]), "a is a R within a R"),
        (field("a", {"type": "record", "name": "Empty", "fields": []}), "a is a record without fields"),
        (field("a", {"type": "bytes", "logicalType": "decimal", "precision": 40}), "a is a decimal of 40 digits"),
        (field("a", "nothing"), "none of Avro"),
        (field("a", {"type": "array", "items": "null"}), "items have no bytes"),
        (
            field("a", {"type": "map", "values": {"type": "array", "items": field("n", "null") | {"name": "N"}}}),
            "no bytes",
        ),
        ("{", "no JSON"),
    ],
)
def test_what_spark_has_no_type_for_is_refused_by_name(tmp_path: Path, schema: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        make_decoder("avro", file(tmp_path, schema))


def test_garbage_is_told_by_record(stub: RegistryStub) -> None:
    stub.add("clicks-value", CLICK)
    stub.add("other-value", "{}", "JSON")
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks"})
    good = with_id(1) + avro_bytes(CLICK, {"id": 1, "who": "me"})
    rows, reasons = decoder.decode(
        values(
            good, None, good[:-1], good + b"!", b"", b'{"id": 1}', b"\0\0", with_id(9) + b"x", with_id(2) + b"{}", good
        ),
        None,
    )
    assert rows.to_pylist() == [{"id": 1, "who": "me"}, *[None] * 8, {"id": 1, "who": "me"}]
    for why, words in zip(
        reasons.to_pylist(),
        [
            None,
            None,
            "EOFError",
            "1 of 6 bytes are left",
            "is empty",
            "begins with the byte 123",
            "ends after 2 bytes",
            "schema 9 is not in",
            "schema 2: the schema is of JSON, not of Avro",
            None,
        ],
        strict=True,
    ):
        assert (why is None) == (words is None)
        assert words is None or words in why
    rows, reasons = decoder.decode(values(good, good), None)
    assert rows.null_count == 0
    assert reasons.null_count == 2
    assert stub.asked.count("GET /schemas/ids/9") == 1


def test_records_of_other_versions_become_rows_of_one(stub: RegistryStub) -> None:
    stub.add("clicks-value", CLICK)
    stub.add("clicks-value", NEWER)
    old = with_id(1) + avro_bytes(CLICK, {"id": 1, "who": "me"})
    new = with_id(2) + avro_bytes(NEWER, {"id": 2, "who": None, "pages": 3})
    decoder = make_decoder("avro", {"registry": stub.url, "subject": "clicks-value"})
    assert decoder.ddl == "`id` BIGINT, `who` STRING, `pages` INT"
    rows, _ = decoder.decode(values(old, new), None)
    assert rows.to_pylist() == [{"id": 1, "who": "me", "pages": 7}, {"id": 2, "who": None, "pages": 3}]
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks", "version": "1"})
    rows, reasons = decoder.decode(values(old, new), None)
    assert rows.to_pylist() == [{"id": 1, "who": "me"}, {"id": 2, "who": None}]
    # A schema that is registered after the start is found by its id, and does not change the rows.
    changed = {**CLICK, "fields": [{"name": "id", "type": "string"}]}
    stub.add("clicks-value", changed)
    rows, reasons = decoder.decode(values(with_id(3) + avro_bytes(changed, {"id": "x"}), old), None)
    assert rows.to_pylist() == [None, {"id": 1, "who": "me"}]
    assert "SchemaResolutionError" in reasons[0].as_py()


@pytest.mark.parametrize("units", [("millis", "micros"), ("micros", "millis")])
def test_versions_that_count_time_in_other_units(stub: RegistryStub, units: tuple[str, str]) -> None:
    at = datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)
    first, second = (field("at", {"type": "long", "logicalType": f"timestamp-{unit}"}) for unit in units)
    stub.add("t-value", first)
    stub.add("t-value", second)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    rows, reasons = decoder.decode(
        values(with_id(1) + avro_bytes(first, {"at": at}), with_id(2) + avro_bytes(second, {"at": at})), None
    )
    assert rows.to_pylist() == [{"at": at}] * 2, reasons


def test_records_that_nest_without_end_are_refused(stub: RegistryStub) -> None:
    # A hundred thousand levels end the process in fastavro, which has no limit.
    old = {**CLICK, "fields": [*CLICK["fields"], field("next", ["null", "shop.Click"])["fields"][0]]}
    stub.add("clicks-value", old)
    stub.add("clicks-value", CLICK)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks"})
    rows, reasons = decoder.decode(values(with_id(1) + b"\2\0\2" * 100_000 + b"\2\0\0"), None)
    assert rows.to_pylist() == [None]
    assert "schema 1: it has a shop.Click within a shop.Click" in reasons[0].as_py()


def test_times_that_microseconds_cannot_count_are_told(tmp_path: Path) -> None:
    schema = field("a", {"type": "long", "logicalType": "timestamp-millis"})
    plain = field("a", "long")
    rows, reasons = make_decoder("avro", file(tmp_path, schema)).decode(
        values(avro_bytes(plain, {"a": 2**55}), avro_bytes(plain, {"a": 1000})), None
    )
    assert rows.to_pylist() == [None, {"a": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}]
    assert "out of bounds" in reasons[0].as_py()


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\u00ff", b"\xff"),
        (["bytes", "null"], "\u00ff", b"\xff"),
        ({"type": "fixed", "name": "F", "size": 1}, "\u00ff", b"\xff"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u00ff", Decimal("-0.01")),
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


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ("avro", field("a", {"type": "long", "logicalType": "timestamp-millis"})),
        ("avro", field("a", field("b", {"type": "long", "logicalType": "timestamp-millis"}) | {"name": "B"})),
        ("json-schema", {"type": "object", "properties": {"a": {"type": "string", "format": "date-time"}}}),
    ],
)
def test_a_time_without_its_zone_is_not_taken_for_another(tmp_path: Path, format: str, schema: Any) -> None:
    at: Any = datetime(2024, 1, 2)
    if "'b'" in str(schema):
        at = {"b": at}
    with pytest.raises(SinkError, match="column 'a.*' is TIMESTAMP_NTZ.*cast it to TIMESTAMP"):
        make_encoder(format, file(tmp_path, schema)).encode(pa.array([{"a": at}]))


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


def test_framing_by_header(stub: RegistryStub) -> None:
    stub.add("clicks-value", CLICK)
    options = {"registry": stub.url, "topic": "clicks", "framing": "header"}
    encoder = make_encoder("avro", options)
    assert encoder.header == ("__value_schema_id", with_guid(stub.guid(1)))
    data = avro_bytes(CLICK, {"id": 1, "who": "me"})
    rows = pa.array([{"id": 1, "who": "me"}])
    assert encoder.encode(rows).to_pylist() == [data]
    header = {"key": encoder.header[0], "value": encoder.header[1]}
    unknown = {**header, "value": with_guid("0" * 32)}
    headers = pa.array([[header], [{**header, "key": "other"}, header], [unknown], None, []], HEADERS)
    decoder = make_decoder("avro", options)
    rows, reasons = decoder.decode(values(data, data, data, with_id(1) + data, data), headers)
    assert [row is not None for row in rows.to_pylist()] == [True, True, False, True, False]
    assert "schema 00000000-0000" in reasons[2].as_py()
    assert "no schema id" in reasons[4].as_py()
    with pytest.raises(SchemaError, match="needs the column headers"):
        decoder.decode(values(data), None)
    stub.guids = False
    with pytest.raises(RegistryError, match="no GUID"):
        make_encoder("avro", options)


def test_a_registry_that_fails_is_no_malformed_record(stub: RegistryStub) -> None:
    stub.add("clicks-value", CLICK)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks", "registry_timeout_ms": "2000"})
    stub.add("clicks-value", NEWER)
    stub.fail(503, times=100)
    with pytest.raises(RegistryUnavailableError, match="answers 503"):
        decoder.decode(values(with_id(2) + b"x"), None)


def test_the_encoder_finds_the_id_of_a_schema(stub: RegistryStub, tmp_path: Path) -> None:
    stub.add("other", "string")
    options = {"registry": stub.url, "topic": "clicks", **file(tmp_path, CLICK)}
    with pytest.raises(SchemaNotFoundError):
        make_encoder("avro", options)
    rows = pa.array([{"id": 1, "who": "me"}, None])
    encoder = make_encoder("avro", {**options, "register": "true"})
    assert encoder.encode(rows).to_pylist() == [with_id(2) + avro_bytes(CLICK, {"id": 1, "who": "me"}), None]
    assert make_encoder("avro", options).encode(rows[:0]).to_pylist() == []
    with pytest.raises(SinkError, match="column 'nobody' is not in the schema, whose fields are id, who"):
        encoder.check(["id", "nobody"])
    with pytest.raises(SinkError, match="row 0 of 1 .* id has no value"):
        encoder.encode(pa.array([{"who": "me"}]))


# -- Protobuf --------------------------------------------------------------------------------------------------------


def order() -> dict[str, Any]:
    return {
        **{"id": 5, "who": "me", "at": datetime(2024, 1, 2, 3, 4, 5, 6, UTC), "tags": ["a", "b"], "counts": [("k", 3)]},
        **{"kind": "BIG", "price": None, "first": {"number": Decimal(2**64 - 1), "raw": b"z"}},
        **{"items": [{"number": Decimal(1), "raw": b""}], "note": "n", "left": None, "right": 7},
        "by_number": [(3, {"number": Decimal(4), "raw": b"q"})],
    }


def test_types_of_protobuf(stub: RegistryStub) -> None:
    stub.add("orders-value", PROTO, "PROTOBUF")
    options = {"registry": stub.url, "topic": "orders"}
    decoder = pickle.loads(pickle.dumps(make_decoder("protobuf", options)))
    assert decoder.ddl.startswith(
        "`id` BIGINT, `who` STRING, `at` TIMESTAMP, `tags` ARRAY<STRING>, `counts` MAP<STRING, INT>"
    )
    rows = pa.array([order(), None], arrow_of(decoder))
    encoder = pickle.loads(pickle.dumps(make_encoder("protobuf", options)))
    data = encoder.encode(rows)
    assert data[0].as_py()[:6] == with_id(1) + b"\0"
    assert not data[1].is_valid
    found, reasons = decoder.decode(data, None)
    assert found.to_pylist() == [order(), None]
    assert reasons.null_count == 2
    found, reasons = decoder.decode(values(with_id(1) + b"\0", with_id(1) + b"\2\2", with_id(1) + b"\0\xff\xff"), None)
    assert found[0].as_py()["id"] == 0
    assert found[0].as_py()["at"] is None
    assert "it is a message shop.Other, not a shop.Order" in reasons[1].as_py()
    assert "DecodeError" in reasons[2].as_py()


def test_one_message_of_several(stub: RegistryStub) -> None:
    stub.add("orders-value", PROTO, "PROTOBUF")
    for name, ddl, path in (
        ("Other", "`z` INT", b"\2\2"),
        ("shop.Order.Item", "`number` DECIMAL(20,0), `raw` BINARY", b"\4\0\0"),
    ):
        options = {"registry": stub.url, "topic": "orders", "message": name}
        decoder, encoder = make_decoder("protobuf", options), make_encoder("protobuf", options)
        assert decoder.ddl == ddl
        rows = pa.array([{arrow_of(decoder).field(0).name: 3}], pa.struct([arrow_of(decoder).field(0)]))
        data = encoder.encode(rows)
        assert data[0].as_py().startswith(with_id(1) + path)
        assert decoder.decode(data, None)[1].null_count == 1
    # Some clients count the entries of maps, before it here, as messages.
    assert make_decoder("protobuf", options).decode(values(with_id(1) + b"\4\0\2"), None)[1].null_count == 1
    with pytest.raises(SchemaError, match="no message 'Nobody'; in it are shop.Order, shop.Other"):
        make_decoder("protobuf", {**options, "message": "Nobody"})


def test_versions_of_protobuf(stub: RegistryStub) -> None:
    first = 'syntax = "proto3"; message A { int32 a = 1; }'
    second = 'syntax = "proto3"; message New { int32 n = 1; } message A { int32 a = 1; string b = 2; }'
    stub.add("t-value", first, "PROTOBUF")
    options = {"registry": stub.url, "topic": "t"}
    old, old_encoder = make_decoder("protobuf", options), make_encoder("protobuf", options)
    stub.add("t-value", second, "PROTOBUF")
    options["message"] = "A"
    new, new_encoder = make_decoder("protobuf", options), make_encoder("protobuf", options)
    one, two = old_encoder.encode(pa.array([{"a": 1}])), new_encoder.encode(pa.array([{"a": 2, "b": "x"}]))
    both = pa.concat_arrays([one, two])
    assert old.decode(both, None)[0].to_pylist() == [{"a": 1}, {"a": 2}]
    assert new.decode(both, None)[0].to_pylist() == [{"a": 1, "b": ""}, {"a": 2, "b": "x"}]


def test_descriptors_and_imports(stub: RegistryStub, tmp_path: Path) -> None:
    stub.add("inner", 'syntax = "proto3"; package p; message In { int32 i = 1; }', "PROTOBUF")
    text = 'syntax = "proto3"; import "dir/inner.proto"; message Out { p.In one = 1; }'
    stub.add("t-value", text, "PROTOBUF", [{"name": "dir/inner.proto", "subject": "inner", "version": 1}])
    decoder = make_decoder("protobuf", {"registry": stub.url, "topic": "t"})
    assert decoder.ddl == "`one` STRUCT<`i`: INT>"
    descriptors = tmp_path / "t.desc"
    descriptors.write_bytes(protobuf._compile((("dir/inner.proto", stub.schemas[0]["schema"]),), text))
    for more in ({}, {"registry": stub.url, "topic": "t"}):
        assert make_decoder("protobuf", {"descriptor_file": str(descriptors), **more}).ddl == decoder.ddl


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('syntax = "proto3"; message A { A a = 1; }', "a is a A within a A"),
        ('syntax = "proto3"; message A { }', "message without fields, A"),
        ('syntax = "proto3"; enum E { X = 0; }', "has no message"),
        ('syntax = "proto3"; message A { int32 a = 1 }', "protoc refuses the schema: schema.proto:1:"),
    ],
)
def test_protobuf_that_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        make_decoder("protobuf", file(tmp_path, text))


# -- JSON Schema -----------------------------------------------------------------------------------------------------


def test_types_of_json_schema(stub: RegistryStub) -> None:
    stub.add("t-value", JSON_SCHEMA, "JSON")
    options = {"registry": stub.url, "topic": "t"}
    decoder = pickle.loads(pickle.dumps(make_decoder("json-schema", options)))
    assert decoder.ddl == (
        "`id` BIGINT, `score` DOUBLE, `at` TIMESTAMP, `day` DATE, `tags` ARRAY<STRING>, `counts` MAP<STRING, BIGINT>, "
        "`any` STRING, `sub` STRUCT<`yes`: BOOLEAN>, `choice` STRING"
    )
    row = {
        **{"id": 1, "score": 2.5, "at": "2024-01-02T03:04:05+00:00", "day": "2024-01-02", "tags": ["a"]},
        **{"counts": {"k": 1}, "any": [1, {"a": None}], "sub": {"yes": True}, "choice": "b"},
    }
    data = with_id(1) + json.dumps(row, separators=(",", ":")).encode()
    rows, reasons = decoder.decode(values(data), None)
    assert reasons.null_count == 1
    assert rows[0].as_py()["at"] == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert rows[0].as_py()["any"] == '[1,{"a":null}]'
    encoder = pickle.loads(pickle.dumps(make_encoder("json-schema", options)))
    assert encoder.encode(rows).to_pylist() == [data]
    with pytest.raises(SinkError, match="'x' is not valid|'x' is not one of"):
        encoder.encode(pa.array([{"id": 1, "choice": "x"}]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "JSONDecodeError"),
        (b"[]", "no object"),
        (b"null", "no object"),
        (b"\xff", "UnicodeDecodeError"),
        (b'{"id": 1.5}', "id is no integer"),
        (b'{"id": true}', "id is no integer"),
        (b'{"id": 99999999999999999999}', "OverflowError"),
        (b'{"score": "x"}', "score is no number"),
        (b'{"score": NaN}', "NaN is no JSON"),
        (b'{"at": "2024-01-02T03:04:05"}', "at is a date-time without its offset"),
        (b'{"sub": 3}', "sub is no object"),
        (b'{"tags": ["\\ud800"]}', "UnicodeEncodeError"),
    ],
)
def test_json_that_is_not_of_the_schema(tmp_path: Path, text: bytes, words: str) -> None:
    decoder = make_decoder("json-schema", file(tmp_path, JSON_SCHEMA))
    rows, reasons = decoder.decode(values(text, b'{"id": 1.0, "more": 2}'), None)
    assert not rows[0].is_valid
    assert words in reasons[0].as_py()
    assert rows[1].as_py()["id"] == 1
    assert reasons[1].as_py() is None


def test_validation_on_request(tmp_path: Path) -> None:
    options = file(tmp_path, JSON_SCHEMA)
    assert make_decoder("json-schema", options).decode(values(b"{}"), None)[1].to_pylist() == [None]
    _, reasons = make_decoder("json-schema", {**options, "validate": "true"}).decode(values(b"{}"), None)
    assert "'id' is a required property" in reasons[0].as_py()


def test_references_of_json_schema(stub: RegistryStub) -> None:
    stub.add("sub", {"type": "object", "properties": {"x": {"type": "integer"}}}, "JSON")
    outer = {"type": "object", "properties": {"s": {"$ref": "sub.json"}}}
    stub.add("t-value", outer, "JSON", [{"name": "sub.json", "subject": "sub", "version": 1}])
    assert make_decoder("json-schema", {"registry": stub.url, "topic": "t"}).ddl == "`s` STRUCT<`x`: BIGINT>"
    stub.add("u-value", outer, "JSON")
    with pytest.raises(SchemaError, match="s refers to 'sub.json', which is in no schema"):
        make_decoder("json-schema", {"registry": stub.url, "topic": "u"})


def test_json_schema_that_contains_itself(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="a contains itself"):
        make_decoder("json-schema", file(tmp_path, {"type": "object", "properties": {"a": {"$ref": "#"}}}))


# -- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "'registry' is missing, or 'schema_file'"),
        ({"registry": "here"}, "'registry' cannot be used"),
        ({"registry": "http://r"}, "'subject' is missing, or 'topic'"),
        ({"registry": "http://r", "topic": "t", "regstry": "x"}, "'regstry' is not known to avro"),
        ({"registry": "http://r", "topic": "t", "version": "0"}, "'version' must be"),
        ({"registry": "http://r", "topic": "t", "framing": "x"}, "'framing' must be"),
        ({"registry": "http://r", "topic": "t", "registry_user": "me"}, "go together"),
        ({"registry": "http://r", "topic": "t", "registry_timeout_ms": "1 s"}, "'registry_timeout_ms' must be"),
        ({"schema_file": "/nowhere"}, "/nowhere cannot be read"),
        ({"schema_file": "/nowhere", "framing": "confluent"}, "needs 'registry'"),
        ({"schema_file": "/nowhere", "version": "3"}, "'version' has no meaning without"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make_decoder("avro", options)


def test_a_token_that_has_changed_counts_in_the_same_process(stub: RegistryStub, tmp_path: Path) -> None:
    stub._authorization = "Bearer new"
    stub.add("t-value", CLICK)
    token = tmp_path / "token"
    token.write_text("old\n")
    options = {"registry": stub.url, "topic": "t", "registry_token": f"${{file:{token}}}"}
    with pytest.raises(RegistryError, match="401"):
        make_decoder("avro", options)
    token.write_text("new\n")
    decoder = make_decoder("avro", options)
    stub.asked.clear()
    rows, _ = decoder.decode(values(with_id(1) + avro_bytes(CLICK, {"id": 1, "who": "me"})), None)
    assert rows.null_count == 0
    assert stub.asked == []  # the registry of the token is kept


def test_secrets_are_in_no_text(stub: RegistryStub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub._authorization = "Bearer hunter2-token"
    stub.add("t-value", CLICK)
    monkeypatch.setenv("REGISTRY_TOKEN", "hunter2-token")
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t", "registry_token": "${env:REGISTRY_TOKEN}"})
    assert b"hunter2" not in pickle.dumps(decoder)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t", "registry_token": "hunter2-token"})
    assert "hunter2" not in repr(decoder) + repr(vars(decoder))


def test_an_import_of_the_same_name_as_the_schema_has_here(stub: RegistryStub) -> None:
    stub.add("inner", 'syntax = "proto3"; message Inner { int32 z = 1; }', "PROTOBUF")
    outer = 'syntax = "proto3"; import "schema.proto"; message Outer { Inner inner = 1; }'
    stub.add("t-value", outer, "PROTOBUF", [{"name": "schema.proto", "subject": "inner", "version": 1}])
    assert make_decoder("protobuf", {"registry": stub.url, "topic": "t"}).ddl == "`inner` STRUCT<`z`: INT>"


@pytest.mark.parametrize("name", ["", ".", "../x.proto", "/x.proto", "a\0b"])
def test_an_import_that_is_no_name_of_a_file(stub: RegistryStub, name: str) -> None:
    stub.add("inner", 'syntax = "proto3"; message Inner { int32 z = 1; }', "PROTOBUF")
    outer = 'syntax = "proto3"; message Outer { int32 z = 1; }'
    stub.add("t-value", outer, "PROTOBUF", [{"name": name, "subject": "inner", "version": 1}])
    with pytest.raises(SchemaError, match="no name of a file below another"):
        make_decoder("protobuf", {"registry": stub.url, "topic": "t"})


@pytest.mark.parametrize(
    ("format", "package", "schema"),
    [
        ("avro", "fastavro", CLICK),
        ("protobuf", "grpc_tools", 'syntax = "proto3"; message M { int32 z = 1; }'),
        ("json-schema", "referencing", JSON_SCHEMA),
    ],
)
def test_a_worker_without_the_package_ends_the_task_and_blames_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, package: str, schema: Any
) -> None:
    options = file(tmp_path, schema)
    decoder, encoder = make_decoder(format, options), make_encoder(format, options)
    monkeypatch.setitem(sys.modules, package, None)
    protobuf._compile.cache_clear()  # as in a new process
    words = f"the Python of Spark on .* cannot import {package}"
    with pytest.raises(PackageMissingError, match=words):
        decoder.decode(values(b"\0"), None)
    with pytest.raises(PackageMissingError, match=words):
        encoder.encode(pa.array([], pa.struct([])))
    with pytest.raises(PackageMissingError, match=words):
        make_decoder(format, options)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"type": "object", "properties": [1]},
        {"properties": {"a": {"type": "string", "format": ["x"]}}},
        {"oneOf": 5},
        {"$schema": 5},
    ],
)
def test_what_is_none_of_json_schema_is_refused_by_name(tmp_path: Path, schema: Any) -> None:
    with pytest.raises(SchemaError, match="none of JSON Schema"):
        make_decoder("json-schema", file(tmp_path, schema))


def test_a_schema_that_cannot_check_is_refused_at_the_start(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    with pytest.raises(SchemaError, match="none of JSON Schema"):
        make_decoder("json-schema", file(tmp_path, schema) | {"validate": "true"})
    with pytest.raises(SchemaError, match="none of JSON Schema"):
        make_encoder("json-schema", file(tmp_path, schema))
