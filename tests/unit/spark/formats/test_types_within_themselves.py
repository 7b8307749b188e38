"""Types that contain themselves, to a depth that an option says: Avro and Protobuf, in rows and in what is skipped."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.exceptions import SchemaError
from pykafka.registry.schemas import with_id
from pykafka.spark.errors import OptionError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import avro_bytes, file, proto_class, values
from tests.support.realschemas import CASES, DEPTH, record
from tests.support.registrystub import RegistryStub

NODE = CASES["a list, 2 deep"].schema
PERSON = 'syntax = "proto3"; message A { string name = 1; A friend = 2; repeated A kids = 3; map<string, A> by = 4; }'
#: The option by the name that Spark's from_avro has for it.
SPARK = "recursiveFieldMaxDepth"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.depth])
def test_records_of_avro_are_read(tmp_path: Path, name: str) -> None:
    schema, records, depth = CASES[name]
    options = {**file(tmp_path, schema), DEPTH: str(depth)}
    data = [avro_bytes(json.loads(json.dumps(schema)), one) for one in records]
    decoder = pickle.loads(pickle.dumps(make_decoder("avro", options)))
    rows, reasons = decoder.decode(values(*data), None)
    rows.validate(full=True)
    assert reasons.null_count == len(data)
    if depth > 2:  # nothing was left out
        assert pickle.loads(pickle.dumps(make_encoder("avro", options))).encode(rows).to_pylist() == data


@pytest.mark.parametrize(
    ("depth", "ddl", "row"),
    [
        (1, "`id` INT", {"id": 3}),
        (2, "`id` INT, `next` STRUCT<`id`: INT>", {"id": 3, "next": {"id": 2}}),
        (
            3,
            "`id` INT, `next` STRUCT<`id`: INT, `next`: STRUCT<`id`: INT>>",
            {"id": 3, "next": {"id": 2, "next": {"id": 1}}},
        ),
    ],
)
@pytest.mark.parametrize("option", [DEPTH, SPARK])
def test_the_depth_of_rows_of_avro(tmp_path: Path, option: str, depth: int, ddl: str, row: Any) -> None:
    decoder = make_decoder("avro", {**file(tmp_path, NODE), option: str(depth)})
    assert decoder.ddl == ddl
    data = avro_bytes(json.loads(json.dumps(NODE)), CASES["a list, 2 deep"].records[0])
    assert decoder.decode(values(data), None)[0].to_pylist() == [row]


@pytest.mark.parametrize(
    ("format", "schema", "path"),
    [("avro", NODE, "next is a Node within a Node"), ("protobuf", PERSON, "friend is a A within a A")],
)
@pytest.mark.parametrize("depth", ["-1", "0", None])
def test_they_are_refused_by_default(tmp_path: Path, format: str, schema: Any, path: str, depth: str | None) -> None:
    most = {"avro": 15, "protobuf": 10}[format]
    options = file(tmp_path, schema) | ({} if depth is None else {DEPTH: depth})
    with pytest.raises(SchemaError, match=f"{path}: .*set the option '{DEPTH}' to 1 - {most} to read"):
        make_decoder(format, options)


@pytest.mark.parametrize(
    ("format", "options", "words"),
    [
        ("avro", {DEPTH: "16"}, "must be a number from 1 to 15, or -1"),
        ("protobuf", {DEPTH: "11"}, "must be a number from 1 to 10, or -1"),
        ("avro", {SPARK: "two"}, f"'{SPARK}' must be a number"),
        ("avro", {DEPTH: "2", SPARK: "3"}, "contradicts"),
        ("protobuf", {SPARK: "3"}, "is not known to protobuf"),
        ("json-schema", {DEPTH: "3"}, "is not known to json-schema"),
        ("avro", {"convert.any.fields.to.json": "true"}, "is not known to avro"),
        ("protobuf", {"convert.any.fields.to.json": "yes"}, "must be 'true' or 'false'"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, format: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make_decoder(format, {**file(tmp_path, NODE if format == "avro" else PERSON), **options})


def test_what_lies_deeper_is_skipped_however_deep_it_is(tmp_path: Path) -> None:
    """A hundred thousand levels end the process in code that calls itself for each."""
    decoder = make_decoder("avro", {**file(tmp_path, NODE), DEPTH: "2"})
    deep = b"\2\2" * 100_000 + b"\2\0"
    rows, reasons = decoder.decode(values(deep, deep[:-1], deep + b"\0"), None)
    assert rows.to_pylist() == [{"id": 1, "next": {"id": 1}}, None, None]
    assert [why if why is None else why.split(":")[0] for why in reasons.to_pylist()] == [
        None,
        "EOFError",
        "ValueError",
    ]


def test_lists_within_lists_fill_no_memory(tmp_path: Path) -> None:
    """Each list says that it has as many items as the record has bytes left."""
    decoder = make_decoder("avro", {**file(tmp_path, CASES["a tree, 2 deep"].schema), DEPTH: "1"})
    size = 60_000
    lists = b"".join(
        b"\2" + bytes([(left := size - at) << 1 & 127 | 128, left >> 6 & 127 | 128, left >> 13])
        for at in range(0, size, 4)
    )
    started = time.process_time()
    _, reasons = decoder.decode(values(lists[:size]), None)
    assert "EOFError" in reasons[0].as_py()
    assert time.process_time() - started < 5


def test_a_version_that_contains_itself_is_skipped(stub: RegistryStub) -> None:
    stub.add("t-value", NODE)
    stub.add("t-value", record("Node", id="int"))
    decoder = make_decoder("avro", {"registry": stub.url, "topic": "t"})
    assert decoder.decode(values(with_id(1) + b"\6\2\4\2\2\0"), None)[0].to_pylist() == [{"id": 3}]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (record("S", x="int", s="S"), "each S contains another one: such a value has no end"),
        (record("S", s=["null", "S"]), "nothing but types within themselves"),
        (record("S", x="int", s={"type": "array", "items": "S"}, n=record("N", s="S")), "each S contains another one"),
    ],
)
def test_avro_without_a_value_in_it_is_refused(tmp_path: Path, schema: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        make_decoder("avro", {**file(tmp_path, schema), DEPTH: "1"})


def test_too_many_levels_are_refused(tmp_path: Path) -> None:
    wide = record("T", id="int", **{f"t{n}": ["null", "T"] for n in range(6)})
    assert make_decoder("avro", {**file(tmp_path, wide), DEPTH: "5"}).ddl
    with pytest.raises(SchemaError, match="more than 10,000 structs, lists and maps: .* fewer levels of types"):
        make_decoder("avro", {**file(tmp_path, wide), DEPTH: "15"})


def person() -> Any:
    made: Any = proto_class(PERSON)(name="a")
    made.friend.name = "b"
    made.friend.friend.name = "c"
    made.kids.add(name="d")
    made.by["k"].name = "e"
    return made


@pytest.mark.parametrize(
    ("depth", "row"),
    [
        (1, {"name": "a"}),
        (2, {"name": "a", "friend": {"name": "b"}, "kids": [{"name": "d"}], "by": [("k", {"name": "e"})]}),
    ],
)
def test_the_depth_of_rows_of_protobuf(tmp_path: Path, depth: int, row: Any) -> None:
    decoder = make_decoder("protobuf", {**file(tmp_path, PERSON), DEPTH: str(depth)})
    rows, reasons = pickle.loads(pickle.dumps(decoder)).decode(values(person().SerializeToString()), None)
    assert (rows.to_pylist(), reasons.to_pylist()) == ([row], [None])


def test_protobuf_is_written_back(tmp_path: Path) -> None:
    options = {**file(tmp_path, PERSON), DEPTH: "3"}
    rows, _ = make_decoder("protobuf", options).decode(values(person().SerializeToString()), None)
    (data,) = pickle.loads(pickle.dumps(make_encoder("protobuf", options))).encode(rows).to_pylist()
    assert data == person().SerializeToString()
    # Rows say themselves how deep they are.
    assert make_encoder("protobuf", file(tmp_path, PERSON)).encode(rows).to_pylist() == [data]


JSON_LIKE = """
syntax = "proto3"; import "google/protobuf/struct.proto";
message A { google.protobuf.Struct all = 1; google.protobuf.Value one = 2; google.protobuf.ListValue list = 3; }
"""


def test_a_struct_of_protobuf(tmp_path: Path) -> None:
    options = {**file(tmp_path, JSON_LIKE), DEPTH: "2"}
    message: Any = proto_class(JSON_LIKE)()
    message.all.update({"n": 1.5, "in": {"ok": True, "none": None}})
    message.one.string_value = "x"
    message.list.extend([1, "y"])
    decoder = make_decoder("protobuf", options)
    rows, reasons = decoder.decode(values(message.SerializeToString()), None)
    assert reasons.to_pylist() == [None]
    row = rows.to_pylist(maps_as_pydicts="strict")[0]
    assert row["all"]["fields"]["n"]["number_value"] == 1.5
    assert row["all"]["fields"]["in"]["struct_value"]["fields"]["ok"]["bool_value"] is True
    assert row["all"]["fields"]["in"]["struct_value"]["fields"]["none"]["null_value"] == "NULL_VALUE"
    assert row["one"]["string_value"] == "x"
    assert [one["string_value"] for one in row["list"]["values"]] == [None, "y"]
    (back,) = make_encoder("protobuf", options).encode(rows).to_pylist()
    assert type(message).FromString(back) == message
    # At one level the inner ones, and lists that have nothing else, are left out.
    shallow = make_decoder("protobuf", {**options, DEPTH: "1"}).ddl
    assert "struct_value" not in shallow
    assert "list_value" not in shallow
    assert "`list` STRUCT<`values`: ARRAY<STRUCT<`null_value`" in shallow


ANY = """
syntax = "proto3"; import "google/protobuf/any.proto";
message A { google.protobuf.Any a = 1; repeated google.protobuf.Any more = 2; } message B { int32 my_number = 1; }
"""


def test_any_of_protobuf(tmp_path: Path) -> None:
    message: Any = proto_class(ANY)()
    message.a.Pack(proto_class(ANY, "B")(my_number=5))
    message.more.add()
    data = values(message.SerializeToString())
    plain = {**file(tmp_path, ANY)}
    rows, _ = make_decoder("protobuf", plain).decode(data, None)
    assert rows.to_pylist() == [
        {"a": {"type_url": "type.googleapis.com/B", "value": b"\x08\x05"}, "more": [{"type_url": "", "value": b""}]}
    ]
    options = {**plain, "convert.any.fields.to.json": "true"}
    decoder = make_decoder("protobuf", options)
    assert decoder.ddl == "`a` STRING, `more` ARRAY<STRING>"
    text, _ = pickle.loads(pickle.dumps(decoder)).decode(data, None)
    assert text.to_pylist() == [{"a": '{"@type":"type.googleapis.com/B","myNumber":5}', "more": ["{}"]}]
    for kind, one in ((plain, rows), (options, text)):
        (back,) = make_encoder("protobuf", kind).encode(one).to_pylist()
        assert type(message).FromString(back) == message
    message.a.type_url = "type.googleapis.com/other.Unknown"
    _, reasons = decoder.decode(values(message.SerializeToString()), None)
    assert "other.Unknown" in reasons[0].as_py()


def test_a_message_that_is_deeper_than_protobuf_reads(tmp_path: Path) -> None:
    decoder = make_decoder("protobuf", {**file(tmp_path, PERSON), DEPTH: "3"})
    data = b""
    for _ in range(500):
        size = len(data)
        data = b"\x12" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + data
    rows, reasons = decoder.decode(values(data), None)
    assert rows.to_pylist() == [None]
    assert "DecodeError" in reasons[0].as_py()
    assert pa.types.is_struct(rows.type)
