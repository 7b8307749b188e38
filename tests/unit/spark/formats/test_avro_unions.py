"""Avro's unions of several types as structs: types, other versions of them, defaults, and what is written."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.registry.schemas import with_id
from pykafka.spark.errors import SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import avro_bytes, field, file, values
from tests.support.realschemas import CASES, DEPTH, record
from tests.support.registrystub import RegistryStub

AT = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.depth == 0])
def test_records_are_read_and_written_back(tmp_path: Path, name: str) -> None:
    schema, records, _ = CASES[name]
    options = file(tmp_path, schema)
    data = values(*(avro_bytes(json.loads(json.dumps(schema)), one) for one in records))
    rows, reasons = pickle.loads(pickle.dumps(make_decoder("avro", options))).decode(data, None)
    rows.validate(full=True)
    assert reasons.null_count == len(data)
    assert pickle.loads(pickle.dumps(make_encoder("avro", options))).encode(rows) == data


def test_columns_of_a_union(tmp_path: Path) -> None:
    decoder = make_decoder("avro", file(tmp_path, field("a", ["string", "null", AT])))
    assert decoder.ddl == "`a` STRUCT<`member0`: STRING, `member1`: TIMESTAMP>"
    rows, _ = decoder.decode(values(b"\0\2x", b"\2", b"\4\xd0\x0f"), None)
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert rows.to_pylist() == [
        {"a": {"member0": "x", "member1": None}},
        {"a": None},
        {"a": {"member0": None, "member1": moment}},
    ]


def test_a_schema_that_is_a_union(tmp_path: Path) -> None:
    schema = [record("P", x="int"), record("Q", y="string")]
    decoder = make_decoder("avro", file(tmp_path, schema))
    assert decoder.ddl == "`member0` STRUCT<`x`: INT>, `member1` STRUCT<`y`: STRING>"
    rows, _ = decoder.decode(values(b"\0\6", b"\2\2b"), None)
    assert rows.to_pylist() == [{"member0": {"x": 3}, "member1": None}, {"member0": None, "member1": {"y": "b"}}]


def test_a_schema_that_is_a_union_of_types_that_it_refers_to(stub: RegistryStub) -> None:
    stub.add("p", record("P", x="int"))
    stub.add("q", record("Q", y="string", p=["null", "P"]), references=[{"name": "P", "subject": "p", "version": 1}])
    both = [{"name": name, "subject": name.lower(), "version": 1} for name in "QP"]
    stub.add("events-value", ["Q", "P"], references=both)
    options = {"registry": stub.url, "topic": "events"}
    decoder = make_decoder("avro", options)
    data = values(with_id(3) + b"\2\6", with_id(3) + b"\0\2b\2\6")
    rows, _ = pickle.loads(pickle.dumps(decoder)).decode(data, None)
    assert rows.to_pylist() == [
        {"member0": None, "member1": {"x": 3}},
        {"member0": {"y": "b", "p": {"x": 3}}, "member1": None},
    ]


@pytest.mark.parametrize(
    ("written", "value", "wanted", "row"),
    [
        ("int", 3, ["string", "int"], {"member0": None, "member1": 3}),
        # The same type comes before one that it may become.
        ("int", 3, ["double", "long", "int"], {"member0": None, "member1": None, "member2": 3}),
        ("int", 3, ["string", "null", "long"], {"member0": None, "member1": 3}),
        (["int", "string"], "x", ["null", "string", "boolean"], {"member0": "x", "member1": None}),
        (["null", "int", "string"], None, ["int", "null", "string"], None),
        (["int", "string"], 3, ["null", "int"], 3),
        (["int", "long"], 3, ["int", "long", "string"], {"member0": 3, "member1": None, "member2": None}),
        (["int", AT, "string"], 3, ["int", "long"], 3),
        # A record of the same full name comes before one of the same short name.
        (
            record("b.R", x="int"),
            {"x": 1},
            [record("a.R", x="int"), record("b.R", x="int"), "string"],
            {"member0": None, "member1": {"x": 1}, "member2": None},
        ),
    ],
)
def test_versions(stub: RegistryStub, written: Any, value: Any, wanted: Any, row: Any) -> None:
    old, new = record("Top", a=written), record("Top", a=wanted)
    stub.add("t-value", old)
    stub.add("t-value", new)
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    rows, reasons = decoder.decode(values(with_id(1) + avro_bytes(old, {"a": value})), None)
    assert rows.to_pylist() == [{"a": row}], reasons


def test_a_type_that_the_union_of_the_rows_lacks(stub: RegistryStub) -> None:
    stub.add("t-value", field("a", ["int", "boolean", "string"]))
    stub.add("t-value", field("a", ["int", "string"]))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    rows, reasons = decoder.decode(values(with_id(1) + b"\0\2", with_id(1) + b"\2\1", with_id(1) + b"\4\2x"), None)
    assert [None if row is None else row["a"]["member0"] for row in rows.to_pylist()] == [1, None, None]
    assert "a is boolean in the schema of the record, and union of int, string" in reasons[1].as_py()
    assert (rows[2].as_py()["a"]["member1"], reasons[2].as_py()) == ("x", None)


def test_a_default_is_of_the_first_type(stub: RegistryStub) -> None:
    old = record("R", id="long")
    more: list[dict[str, Any]] = [
        {"name": "a", "type": ["int", "string"], "default": 7},
        {"name": "b", "type": ["null", "int", "string"], "default": None},
    ]
    stub.add("t-value", old)
    stub.add("t-value", {**old, "fields": [*old["fields"], *more]})
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    rows, _ = decoder.decode(values(with_id(1) + b"\2"), None)
    assert rows.to_pylist() == [{"id": 1, "a": {"member0": 7, "member1": None}, "b": None}]
    written = make_encoder("avro", {"registry": stub.url, "topic": "t"}).encode(pa.array([{"id": 1}]))
    assert decoder.decode(written, None)[0].to_pylist() == rows.to_pylist()


@pytest.mark.parametrize(
    ("union", "value", "words"),
    [
        (
            ["int", "string"],
            {"member0": 1, "member1": "x"},
            "a has member0 and member1, and a union is one of its types",
        ),
        (["int", "string"], {"member0": None, "member1": None}, "a has only nulls.*set one of member0, member1"),
        (["int", "string"], {"member0": 2**40, "member1": None}, "'a.member0' has a value too large for an int"),
        (["int", "string"], {"member0": "x", "member1": None}, "'a.member0' is string, and int in the schema"),
        (["int", "string"], {"member0": 1, "member2": "x"}, "row 0 of 1"),
        (
            [record("P", x=["int", "string"]), "string"],
            {"member0": {"x": {"member0": 1, "member1": "y"}}},
            "a.member0.x has",
        ),
    ],
)
def test_what_a_union_cannot_have_is_not_written(tmp_path: Path, union: Any, value: Any, words: str) -> None:
    encoder = make_encoder("avro", file(tmp_path, record("Top", a=union)))
    with pytest.raises(SinkError, match=words):
        encoder.encode(pa.array([{"a": value}]))


def test_some_members_are_enough_and_plain_values_are_taken(tmp_path: Path) -> None:
    """A struct may lack types that no row has; a column that is none is written by its values."""
    schema = field("a", ["int", "string", {"type": "map", "values": "int"}])
    encoder = make_encoder("avro", file(tmp_path, schema))
    for value, plain in (({"member1": "x"}, "x"), ("x", "x"), (3, 3)):
        assert encoder.encode(pa.array([{"a": value}])).to_pylist() == [avro_bytes(schema, {"a": plain})]
    maps = pa.array([{"a": [("k", 1)]}, {"a": []}], pa.struct([("a", pa.map_(pa.string(), pa.int32()))]))
    assert encoder.encode(maps).to_pylist() == [avro_bytes(schema, {"a": one}) for one in ({"k": 1}, {})]


def test_rows_that_fail_within_a_union_leave_nothing(tmp_path: Path) -> None:
    inner = record("P", x="int", y="string")
    schema = field("a", {"type": "array", "items": ["string", inner, {"type": "array", "items": "int"}]})
    good = avro_bytes(schema, {"a": ["s", ("P", {"x": 1, "y": "z"}), [1, 2]]})
    decoder = make_decoder("avro", file(tmp_path, schema))
    whole, _ = decoder.decode(values(good), None)
    rows, reasons = decoder.decode(values(*(good[:end] for end in range(len(good))), good), None)
    rows.validate(full=True)
    assert rows.to_pylist() == [None] * len(good) + whole.to_pylist()
    assert reasons.null_count == 1


def test_few_bytes_of_unions_that_fill_the_memory(tmp_path: Path) -> None:
    """A value of a union is a struct with a field for each type, all of them null but one."""
    wide = record("W", **{f"f{n}": "int" for n in range(1000)})
    schema = field("a", {"type": "array", "items": ["null", "boolean", wide, "string"]})
    decoder = make_decoder("avro", {**file(tmp_path, schema), DEPTH: "1"})
    count = 60_000
    head = bytearray()
    left = count << 1
    while left > 127:
        head.append(left & 127 | 128)
        left >>= 7
    _, reasons = decoder.decode(values(bytes([*head, left]) + b"\2\1" * count + b"\0"), None)
    assert "values beyond one a byte" in reasons[0].as_py()
