"""A record that is none of its schema has a reason, within a bounded time and memory."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.exceptions import SchemaError
from pykafka.registry.schemas import with_guid, with_id
from pykafka.spark.formats import avroplan, make_decoder, make_encoder, protobuf
from pykafka.spark.formats import decoder as decoders
from tests.support.formats import (
    CLICK,
    HEADERS,
    JSON_SCHEMA,
    NEWER,
    PROTO,
    arrow_of,
    avro_bytes,
    field,
    file,
    order,
    values,
)
from tests.support.registrystub import RegistryStub


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


def test_ids_that_no_registry_gives_are_refused(stub: RegistryStub) -> None:
    stub.guids = False
    stub.add("clicks-value", CLICK)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks", "framing": "header"})
    header = {"key": "__value_schema_id", "value": with_guid("5" * 32)}
    good = with_id(1) + avro_bytes(CLICK, {"id": 7, "who": "me"})
    headers = pa.array([None, [header], None], HEADERS)
    rows, reasons = decoder.decode(values(b"\0\xff\xff\xff\xffxyz", good, good), headers)
    assert rows.to_pylist() == [None, None, {"id": 7, "who": "me"}]
    assert ["is not in" in (why or "") for why in reasons.to_pylist()] == [True, True, False]


def test_records_that_nest_without_end_are_refused(stub: RegistryStub) -> None:
    # They have no bytes, so reading one would not end.
    old = {**CLICK, "fields": [*CLICK["fields"], field("next", "shop.Click")["fields"][0]]}
    stub.add("clicks-value", old)
    stub.add("clicks-value", CLICK)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks"})
    rows, reasons = decoder.decode(values(with_id(1) + b"\2\0"), None)
    assert rows.to_pylist() == [None]
    assert "schema 1: each shop.Click contains another one" in reasons[0].as_py()


def test_times_that_microseconds_cannot_count_are_told(tmp_path: Path) -> None:
    schema = field("a", {"type": "long", "logicalType": "timestamp-millis"})
    plain = field("a", "long")
    rows, reasons = make_decoder("avro", file(tmp_path, schema)).decode(
        values(avro_bytes(plain, {"a": 2**55}), avro_bytes(plain, {"a": 1000})), None
    )
    assert rows.to_pylist() == [None, {"a": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}]
    assert "out of bounds" in reasons[0].as_py()


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
DIGITS = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        (ENUM, b"\1", "a has symbol -1 of an enum of 2"),
        (ENUM, b"\4", "a has symbol 2 of an enum of 2"),
        (["null", "long"], b"\1\2", "a has branch -1 of a union of 2"),
        (["null", "long"], b"\3", "a has branch -2 of a union of 2"),
        (["null", "long"], b"\4", "a has branch 2 of a union of 2"),
        ("boolean", b"\2", "a has 2, which is no boolean"),
        ("int", b"\x80\x80\x80\x80\x20", "a has 4294967296, which is no int"),
        ("long", b"\xff" * 9 + b"\2", "more than 64 bits"),
        ("long", b"\xff" * 20, "more than 64 bits"),
        ("string", b"\1", "a length is -1"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", "the record ends after 0 of"),
        ("string", b"\2\xff", "UnicodeDecodeError"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", "0 bytes left for"),
        ({"type": "array", "items": "long"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "0 bytes left for -922"),
        ({"type": "array", "items": "long"}, b"\1\1\2\0", "negative size"),
        ({"type": "map", "values": "long"}, b"\4\2a\2\2a\2\0", "a map has a key twice"),
        (DIGITS, b"\4\x30\x39", "a has more than the 4 digits of its decimal"),
        (DIGITS, b"\0", "a is a decimal without bytes"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\1", "out of bounds"),
    ],
)
def test_bytes_that_no_writer_of_avro_makes(tmp_path: Path, kind: Any, data: bytes, words: str) -> None:
    decoder = make_decoder("avro", file(tmp_path, field("a", kind)))
    rows, reasons = decoder.decode(values(data), None)
    assert rows.to_pylist() == [None]
    assert words in reasons[0].as_py()


def test_blocks_of_an_array_with_their_size(tmp_path: Path) -> None:
    decoder = make_decoder("avro", file(tmp_path, field("a", {"type": "array", "items": "long"})))
    assert decoder.decode(values(b"\3\4\2\4\2\6\0"), None)[0].to_pylist() == [{"a": [1, 2, 3]}]


def test_times_beyond_those_of_python_stay_what_they_are(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    decoder = make_decoder("avro", file(tmp_path, schema))
    data = b"\xfe\xff\xff\xff\x0f" + b"\xfe" + b"\xff" * 8 + b"\1"
    rows, reasons = decoder.decode(values(data), None)
    assert reasons.to_pylist() == [None]
    numbers = [rows.field("day").cast(pa.int32()).to_pylist(), rows.field("at").cast(pa.int64()).to_pylist()]
    assert numbers == [[2**31 - 1], [2**63 - 1]]


def test_a_timestamp_of_protobuf_that_is_none(stub: RegistryStub) -> None:
    stub.add("t-value", PROTO, "PROTOBUF")
    decoder = make_decoder("protobuf", {"registry": stub.url, "topic": "t"})
    head = with_id(1) + b"\0\x1a"
    nanos = b"\x06\x10\x80\xa8\xd6\xb9\x07"  # 2,000,000,000
    late = b"\x07\x08\x80\xdc\x87\x9b\xb0\x07"  # the year 10000
    rows, reasons = decoder.decode(values(head + nanos, head + late, head + b"\2\x08\1"), None)
    assert [row is None for row in rows.to_pylist()] == [True, True, False]
    assert all("are no Timestamp" in why for why in reasons.to_pylist()[:2])


def tower(levels: int, of: Any) -> Any:
    """Return a schema whose type of one level has the one below twice: columns double with each level."""
    tree: Any = {"type": "record", "name": "L0", "fields": [{"name": "x", "type": "long"}]}
    for level in range(1, levels):
        tree = {
            **{"type": "record", "name": f"L{level}"},
            "fields": [{"name": "a", "type": tree}, *({"name": f"b{n}", "type": f"L{level - 1}"} for n in range(of))],
        }
    return tree


def json_tower(levels: int) -> Any:
    parts: dict[str, Any] = {"D0": {"type": "integer"}}
    for level in range(1, levels):
        inner = {"$ref": f"#/definitions/D{level - 1}"}
        parts[f"D{level}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    return {"$ref": f"#/definitions/D{levels - 1}", "definitions": parts}


def proto_tower(levels: int) -> str:
    messages = [f"message M{n} {{ M{n - 1} a = 1; M{n - 1} b = 2; }}" for n in range(1, levels)]
    return f'syntax = "proto3"; message M0 {{ int32 x = 1; }} {" ".join(messages)}'


@pytest.mark.parametrize(
    ("format", "schema", "options"),
    [
        ("avro", tower(40, 1), {}),
        ("avro", tower(60, 0), {}),
        ("json-schema", json_tower(40), {}),
        ("protobuf", proto_tower(40), {"message": "M39"}),
    ],
)
def test_a_short_schema_that_becomes_endless_columns(
    tmp_path: Path, format: str, schema: Any, options: dict[str, str]
) -> None:
    with pytest.raises(SchemaError, match="take a (smaller schema|schema with fewer levels)"):
        make_decoder(format, {**file(tmp_path, schema), **options})


def test_a_short_schema_of_other_records_that_becomes_endless_steps(stub: RegistryStub) -> None:
    newest = {"type": "record", "name": "L49", "fields": [{"name": "more", "type": "long", "default": 3}]}
    for subject, old, words in (("a", tower(50, 3), "EOFError"), ("b", tower(60, 0), "nest more than 50 deep")):
        number = stub.add(subject, old)["id"]
        stub.add(subject, newest)
        decoder = make_decoder("avro", {"registry": stub.url, "subject": subject})
        _, reasons = decoder.decode(values(with_id(number) + b"\2"), None)
        assert words in reasons[0].as_py()


def test_a_thousand_fields(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(1000)]
    avro = {"type": "record", "name": "R", "fields": [{"name": name, "type": ["null", "long"]} for name in names]}
    decoder = make_decoder("avro", file(tmp_path, avro))
    row = {name: number if number % 3 else None for number, name in enumerate(names)}
    assert decoder.decode(values(avro_bytes(avro, row), b""), None)[0].to_pylist() == [row, None]
    json_schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    decoder = make_decoder("json-schema", file(tmp_path, json_schema))
    assert decoder.decode(values(json.dumps(row).encode()), None)[0].to_pylist() == [row]
    proto = f'syntax = "proto3"; message A {{ {" ".join(f"int32 {n} = {i};" for i, n in enumerate(names, 1))} }}'
    decoder = make_decoder("protobuf", file(tmp_path, proto))
    assert decoder.decode(values(b"\x08\7"), None)[0].to_pylist() == [dict.fromkeys(names, 0) | {"f0": 7}]


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Return a valid record with bytes changed, cut off, added or doubled."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made)) if made else 0
        match chance.randrange(5):
            case 0 if made:
                made[at] ^= 1 << chance.randrange(8)
            case 1 if made:
                made[at] = chance.randrange(256)
            case 2:
                del made[at:]
            case 3:
                made[at:at] = chance.randbytes(chance.randint(1, 12))
            case _:
                made[at:at] = made[at : at + chance.randint(1, 40)]
    return bytes(made)


MANY = {
    "type": "record",
    "name": "Many",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": ["null", "string"]},
        {"name": "kind", "type": ENUM},
        {"name": "price", "type": DIGITS},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "on", "type": "boolean"},
        {"name": "ratio", "type": "double"},
        {"name": "items", "type": {"type": "array", "items": field("n", ["null", "int"]) | {"name": "Item"}}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
    ],
}
A_LOT = {
    **{"id": 5, "who": "somebody", "kind": "B", "price": Decimal("1.25"), "day": date(2024, 1, 2)},
    **{"at": datetime(2024, 1, 2, tzinfo=UTC), "on": True, "ratio": 0.5},
    **{"items": [{"n": 1}, {"n": None}], "counts": {"a": 1, "b": 2}},
}
A_LOT_OF_JSON = (
    b'{"id": 1, "score": 2.5, "at": "2024-01-02T03:04:05Z", "day": "2024-01-02", "tags": ["a", "\\u00e4"], "counts": {"k": 1},'
    b' "any": [1, {"a": null}], "sub": {"yes": true}, "choice": "b"}'
)


@pytest.mark.parametrize("format", ["avro", "protobuf", "json-schema"])
def test_each_mutated_record_is_a_row_or_has_a_reason(stub: RegistryStub, format: str) -> None:
    kinds = {"avro": ("AVRO", MANY), "protobuf": ("PROTOBUF", PROTO), "json-schema": ("JSON", JSON_SCHEMA)}
    kind, schema = kinds[format]
    stub.add("t-value", schema, kind)
    options = {"registry": stub.url, "topic": "t"}
    decoder = make_decoder(format, options)
    if format == "protobuf":
        good = make_encoder(format, options).encode(pa.array([order()], arrow_of(decoder)))[0].as_py()
    else:
        good = with_id(1) + (avro_bytes(MANY, A_LOT) if format == "avro" else A_LOT_OF_JSON)
    assert decoder.decode(values(good), None)[1].to_pylist() == [None]
    chance = random.Random(15)
    for _ in range(10):
        # Behind the id, most of the time: 20,000 other ids would be so many requests.
        data = [good[:5] + mutated(chance, good[5:]) for _ in range(2000)]
        rows, reasons = decoder.decode(values(*data), None)
        rows.validate(full=True)
        assert len(rows) == len(reasons) == len(data)
        for row, why in zip(rows.is_valid().to_pylist(), reasons.is_valid().to_pylist(), strict=True):
            assert row != why
    assert decoder.decode(values(good), None)[1].to_pylist() == [None]


def test_headers_of_strangers_do_not_fill_the_memory(stub: RegistryStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "READERS_MAX", 3)
    stub.add("clicks-value", CLICK)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks", "framing": "header"})
    data = avro_bytes(CLICK, {"id": 1, "who": "me"})
    headers = pa.array([[{"key": "__value_schema_id", "value": with_id(1) + b"%d" % n}] for n in range(9)], HEADERS)
    rows, _ = decoder.decode(values(*[data] * 9), headers)
    assert rows.null_count == 0
    assert len(decoder._readers) <= 3


def test_few_bytes_of_protobuf_that_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "VALUES_MAX", 10_000)
    fields = " ".join(f"int32 f{number} = {number};" for number in range(1, 100))
    text = f'syntax = "proto3"; message Many {{ repeated Wide all = 1; }} message Wide {{ {fields} }}'
    decoder = make_decoder("protobuf", file(tmp_path, text))
    rows, reasons = decoder.decode(values(b"\x0a\0" * 200, b"\x0a\0" * 100, b"\x0a\0" * 100), None)
    assert [row is None for row in rows.to_pylist()] == [True, False, False]
    assert "all[] makes it more than 10,000 values" in reasons[0].as_py()


@pytest.mark.parametrize("default", [None, [1] * 100])
def test_few_bytes_of_avro_that_fill_the_memory(
    stub: RegistryStub, monkeypatch: pytest.MonkeyPatch, default: Any
) -> None:
    monkeypatch.setattr(avroplan, "VALUES_MAX", 10_000)
    wide = [{"name": f"f{number}", "type": ["null", "long"], "default": None} for number in range(100)]
    more = [{"name": "more", "type": {"type": "array", "items": "long"}, "default": default}] if default else wide
    item = {"type": "record", "name": "Item"}
    old, new = ({**item, "fields": [{"name": "x", "type": "long"}, *fields]} for fields in ([], more))
    stub.add("t-value", field("all", {"type": "array", "items": ["null", old]}))
    stub.add("t-value", field("all", {"type": "array", "items": ["null", new]}))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    data = [with_id(1) + b"\x80\2" + b"\2\2" * 128 + b"\0", with_id(1) + b"\x80\1" + b"\2\2" * 64 + b"\0"]
    rows, reasons = decoder.decode(values(*data, data[1]), None)
    assert [row is None for row in rows.to_pylist()] == [True, False, False]
    assert "it becomes more than 10,000 values beyond one a byte" in reasons[0].as_py()


def test_a_large_array_is_no_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avroplan, "VALUES_MAX", 10)
    schema = field("a", {"type": "array", "items": {"type": "map", "values": field("x", "int") | {"name": "X"}}})
    row = {"a": [{"k": {"x": 1}, "l": {"x": 2}}] * 1000}
    rows, reasons = make_decoder("avro", file(tmp_path, schema)).decode(values(avro_bytes(schema, row)), None)
    assert reasons.to_pylist() == [None]
    assert len(rows[0]["a"]) == 1000


def test_records_that_fail_between_others(stub: RegistryStub) -> None:
    stub.add("clicks-value", CLICK)
    stub.add("clicks-value", NEWER)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "clicks"})
    old = [with_id(1) + avro_bytes(CLICK, {"id": n, "who": "me"}) for n in range(9)]
    new = [with_id(2) + avro_bytes(NEWER, {"id": n, "who": None, "pages": n}) for n in range(9)]
    mixed = [*old[:3], None, old[3][:-1], *old[3:5], new[0], old[5], *new[1:3], new[3] + b"!", b"", new[3], old[6]]
    rows, reasons = decoder.decode(values(*mixed), None)
    alone = [decoder.decode(values(one), None) for one in mixed]
    assert rows.to_pylist() == [one.to_pylist()[0] for one, _ in alone]
    assert reasons.to_pylist() == [why.to_pylist()[0] for _, why in alone]
    assert rows.null_count == 4
    assert reasons.null_count == 12
