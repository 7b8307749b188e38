"""Protobuf as rows of Arrow, and back: types, messages, descriptors and imports."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format

from pykafka.exceptions import SchemaError
from pykafka.registry import protobuf
from pykafka.registry.schemas import PROTOBUF, Schema, with_id
from pykafka.spark.errors import SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import PROTO, arrow_of, file, order, proto_class, values
from tests.support.registrystub import RegistryStub


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


def test_descriptors_and_imports(stub: RegistryStub, tmp_path: Path) -> None:
    stub.add("inner", 'syntax = "proto3"; package p; message In { int32 i = 1; }', "PROTOBUF")
    text = 'syntax = "proto3"; import "dir/inner.proto"; message Out { p.In one = 1; }'
    stub.add("t-value", text, "PROTOBUF", [{"name": "dir/inner.proto", "subject": "inner", "version": 1}])
    decoder = make_decoder("protobuf", {"registry": stub.url, "topic": "t"})
    assert decoder.ddl == "`one` STRUCT<`i`: INT>"
    descriptors = tmp_path / "t.desc"
    descriptors.write_bytes(protobuf.compile_schema((("dir/inner.proto", stub.schemas[0]["schema"]),), text))
    for more in ({}, {"registry": stub.url, "topic": "t"}):
        assert make_decoder("protobuf", {"descriptor_file": str(descriptors), **more}).ddl == decoder.ddl


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('syntax = "proto3"; message A { int32 z = 1; A a = 2; }', "a is a A within a A"),
        (
            'syntax = "proto3"; message A { B b = 1; message B { repeated A a = 1; int32 z = 2; } }',
            r"b\.a\[\] is a A within a A",
        ),
        ('syntax = "proto3"; enum E { X = 0; }', "has no message"),
        ('syntax = "proto3"; message A { int32 a = 1 }', "protoc refuses the schema: schema.proto:1:"),
    ],
)
def test_protobuf_that_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        make_decoder("protobuf", file(tmp_path, text))


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


EMPTY = """
syntax = "proto3";
import "google/protobuf/empty.proto";
message A {
  message Loop { Other other = 1; google.protobuf.Empty e = 2; }
  message Other { repeated Loop loops = 1; map<string, Other> others = 2; }
  message Inner { int32 z = 1; Loop loop = 2; google.protobuf.Empty e = 3; }
  google.protobuf.Empty one = 1; repeated google.protobuf.Empty many = 2; map<int64, google.protobuf.Empty> by = 3;
  oneof either { Loop loop = 4; string text = 5; }
  Inner inner = 6; repeated Inner inners = 7; map<string, Inner> by_name = 8; Other other = 9;
}
"""
#: The fields of it that have no values.
LEFT_OUT = (
    *(
        "one",
        "many",
        "by",
        "loop",
        "inner.loop",
        "inner.e",
        "inners[].loop",
        "inners[].e",
        "by_name{}.loop",
        "by_name{}.e",
    ),
    "other",
)


def test_messages_without_fields_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    decoder = make_decoder("protobuf", file(tmp_path, EMPTY))
    assert decoder.ddl == (
        "`text` STRING, `inner` STRUCT<`z`: INT>, `inners` ARRAY<STRUCT<`z`: INT>>, `by_name` MAP<STRING, STRUCT<`z`: INT>>"
    )
    (warning,) = caplog.messages
    assert warning.startswith("these fields of A are left out, as their messages have no fields")
    kinds = {"loop": "A.Loop", "other": "A.Other"}
    named = ", ".join(f"{path} ({kinds.get(path.rpartition('.')[2], 'google.protobuf.Empty')})" for path in LEFT_OUT)
    assert warning.endswith(named)
    caplog.clear()
    every = proto_class(EMPTY)()
    text_format.Parse(
        "one {} many {} many {} by { key: 1 value {} } loop {} inner { z: 3 e {} } inners {} other {}", every
    )
    found, reasons = pickle.loads(pickle.dumps(decoder)).decode(values(every.SerializeToString(), b""), None)
    assert found.to_pylist() == [
        {"text": None, "inner": {"z": 3}, "inners": [{"z": 0}], "by_name": []},
        {"text": None, "inner": None, "inners": [], "by_name": []},
    ]
    assert reasons.null_count == 2
    # Workers warn of nothing.
    assert not caplog.messages


def test_messages_without_fields_are_written(tmp_path: Path) -> None:
    encoder = make_encoder("protobuf", file(tmp_path, EMPTY))
    empty, made = pa.struct([]), proto_class(EMPTY)
    rows = pa.array([{"inner": {"z": 3}}, None])
    assert [one and made.FromString(one) for one in encoder.encode(rows).to_pylist()] == [made(inner={"z": 3}), None]
    kind = pa.struct([("one", empty), ("many", pa.list_(empty)), ("by", pa.map_(pa.int64(), empty)), ("loop", empty)])
    row: dict[str, Any] = {"one": {}, "many": [{}, {}], "by": [(7, {})], "loop": {}}
    wanted = text_format.Parse("one {} many {} many {} by { key: 7 value {} } loop {}", made())
    assert made.FromString(encoder.encode(pa.array([row], kind))[0].as_py()) == wanted
    with pytest.raises(SinkError, match=r"other: A\.Other has no field that holds a value, such as loops"):
        encoder.encode(
            pa.array([{"other": {"loops": [{}]}}], pa.struct([("other", pa.struct([("loops", pa.list_(empty))]))]))
        )


@pytest.mark.parametrize(
    "text",
    [
        "message A {}",
        "message A { A a = 1; }",
        "message A { B b = 1; map<int32, B> bs = 2; } message B { repeated A a = 1; }",
        'import "google/protobuf/empty.proto"; message A { oneof o { google.protobuf.Empty a = 1; A b = 2; } }',
    ],
)
def test_a_message_of_which_nothing_remains_has_no_columns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    options = file(tmp_path, f'syntax = "proto3"; {text}')
    decoder, encoder = make_decoder("protobuf", options), make_encoder("protobuf", options)
    assert decoder.ddl == ""
    assert "the rows have no columns, as the message A has no fields that a column could hold" in caplog.messages
    found, reasons = decoder.decode(values(b"", None, b"\xff"), None)
    assert found.to_pylist() == [{}, None, None]
    assert reasons[0].as_py() is None
    assert "DecodeError" in reasons[2].as_py()
    assert encoder.encode(found).to_pylist() == [b"", None, None]


def test_many_fields_that_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fields = "".join(f"E e{number} = {number};" for number in range(2, 1002))
    make_decoder("protobuf", file(tmp_path, f'syntax = "proto3"; message A {{ int32 z = 1; {fields} }} message E {{}}'))
    assert caplog.messages[0].endswith("e21 (E), 980 more")


@pytest.mark.parametrize("name", ["x" * 300 + ".proto", "a/" * 3000 + "x.proto", "\ud800.proto"])
def test_an_import_whose_name_no_system_takes(name: str) -> None:
    inner, outer = (Schema(PROTOBUF, f'syntax = "proto3"; message {one} {{ int32 z = 1; }}') for one in ("I", "O"))
    with pytest.raises(SchemaError, match="no name of a file below another"):
        protobuf.compiled(outer, {name: inner})


@pytest.mark.parametrize(
    "names", [("a.proto", "a.proto/b.proto"), ("a/b.proto", "a"), ("a.proto/b.proto/c", "a.proto/b.proto")]
)
def test_imports_that_are_a_file_and_its_directory(names: tuple[str, str]) -> None:
    inner, outer = (Schema(PROTOBUF, f'syntax = "proto3"; message {one} {{ int32 z = 1; }}') for one in ("I", "O"))
    with pytest.raises(SchemaError, match=f"the schema imports '{names[1]}', but the name of another import"):
        protobuf.compiled(outer, dict.fromkeys(names, inner))


def test_what_protoc_logs_is_not_shown() -> None:
    """It logs that a text without a syntax is read as proto2, before the error."""
    with pytest.raises(SchemaError, match="protoc refuses the schema: schema.proto:1:1: Expected top-level statement"):
        protobuf.compiled(Schema(PROTOBUF, "{}"), {})


GROUPED = """
syntax = "proto2";
package p;
message A {
  optional group First = 1 { optional int32 z = 1; message Deep { optional int32 z = 1; } }
  map<string, int32> by = 2;
  message Second { optional int32 z = 1; }
  oneof either { group Third = 3 { optional int32 z = 1; } int32 q = 4; }
  message Fourth {
    optional int32 z = 1;
    optional group Fifth = 2 { optional int32 z = 1; }
    message Sixth { optional int32 z = 1; }
  }
  extensions 100 to 200;
  extend A { optional group Seventh = 100 { optional int32 z = 1; } }
  message Eighth { optional int32 z = 1; }
}
"""


@pytest.mark.parametrize(
    ("name", "own", "others"),
    [
        ("A.Second", (0, 0), [(0, 1), (0, 2)]),
        ("A.Fourth", (0, 1), [(0, 3), (0, 4)]),
        ("A.Fourth.Sixth", (0, 1, 0), [(0, 3, 1), (0, 4, 1)]),
        ("A.Eighth", (0, 2), [(0, 5), (0, 6)]),
        ("A.First", (0, 0), []),  # a group itself, as descriptors have it
    ],
)
def test_groups_are_no_messages_of_a_text(name: str, own: tuple[int, ...], others: list[tuple[int, ...]]) -> None:
    """Java's clients count the messages of the text, others those of the descriptor."""
    file = protobuf.compiled(Schema(PROTOBUF, GROUPED), {})
    assert file.path_of(f"p.{name}") == own
    for path in (own, *others):
        assert f"p.{name}" in file.names_at(path)
