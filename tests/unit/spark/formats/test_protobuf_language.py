"""The language of Protobuf: schemas with all that it has become rows as the protobuf library itself reads them, and go back."""

from __future__ import annotations

import base64
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format, text_format

from pykafka.exceptions import SchemaError
from pykafka.spark.errors import SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import arrow_of, file, proto_class, values
from tests.support.registrystub import RegistryStub

#: Names that the library's own objects have, too.
NAMES = (
    *("ByteSize", "Clear", "ClearField", "CopyFrom", "Extensions", "FromString", "HasField", "ListFields", "MergeFrom"),
    *("SerializeToString", "SetInParent", "WhichOneof", "None", "def", "self", "items", "add", "value", "option", "_x"),
)
#: Schema, name of the message, and a message in the text format.
SCHEMAS = {
    "proto2": (
        """
        syntax = "proto2"; package a.b;
        message A {
          required int32 r = 1; optional string o = 2 [default = "zz"]; repeated int32 p = 3 [packed = true];
          optional group G = 4 { optional int32 x = 1; repeated group H = 2 { optional E e = 1; } }
          enum E { option allow_alias = true; NEG = -5; Z = 0; ALIAS = 0; }
          extensions 100 to 199, 500 to max; reserved 50 to 60, 62; reserved "foo", "bar";
          optional E d = 5 [default = NEG]; oneof u { group Choice = 6 { optional int32 q = 1; } string s = 7; }
          optional bytes raw = 8 [default = "\\001\\x02\\n"]; optional double inf = 9 [default = -inf];
        }
        extend A { optional int32 more = 100; optional A inner = 101; }
        message Holder { extend A { repeated string texts = 102; } }
        """,
        "A",
        "r: 5 p: [1, 2] G { x: 1 H { e: NEG } H {} } Choice { q: 1 }",
    ),
    "no syntax": ("message A { optional int32 a = 1; repeated bool b = 2; }", "A", "b: true b: false"),
    "no spaces": ('syntax="proto3";message A{int32 a=1;repeated string b=2;}', "A", 'a:1 b:"" b:"x"'),
    "spaces": ('\ufeff\t\r\nsyntax\n=\t"proto3"\r;\f\v message\nA\r{\tint32\n a\r=\t0x1 ; ; }\n\n', "A", "a: -1"),
    "comments": (
        '/* a // b */\n// "\n syntax = "proto3"; /** x */ message /* y */ A { // z\n int32 /*{*/ a = 1; /* } */ }',
        "A",
        "a: 3",
    ),
    "names in scopes": (
        """
        syntax = "proto3"; package x.y;
        message Inner { int32 a = 1; }
        message A {
          message Inner { string b = 1; }
          message B { Inner z = 1; message Inner { bytes q = 1; } }
          Inner i = 1; x.y.Inner j = 2; .x.y.Inner k = 3; y.Inner l = 4; B b = 5; A.B.Inner m = 6;
          enum Same { ZERO = 0; } Same same = 7; message C { enum Same { ONE = 0; } Same same = 1; } C c = 8;
        }
        """,
        "x.y.A",
        'i { b: "s" } j { a: 1 } k { a: 2 } l { a: 3 } b { z { q: "x" } } m { q: "y" } c {}',
    ),
    "options": (
        """
        syntax = "proto3"; package a;
        import "google/protobuf/descriptor.proto"; import "confluent/meta.proto";
        option java_package = "a" ".b" 'c'; option optimize_for = SPEED; option (mine) = { s: "x" "y" n: [1, 2] m { s: 'z' } };
        option (confluent.file_meta).params = { key: "k" value: "v" };
        message Own { string s = 1; repeated int32 n = 2; Own m = 3; }
        extend google.protobuf.FileOptions { Own mine = 50001; } extend google.protobuf.FieldOptions { double d = 50002; }
        message A {
          option deprecated = true; option (confluent.message_meta) = { doc: "x" tags: ["PII", "b"] };
          int32 a = 1 [deprecated = true, json_name = "Other Name", (.a.d) = -inf, (confluent.field_meta) = { doc: "a" "b" }];
          int64 b = 2 [jstype = JS_STRING, (confluent.field_meta).params = { key: "k" value: "v" }];
          repeated sint64 c = 3 [packed = false]; repeated fixed32 d = 4 [packed = true];
        }
        """,
        "A",
        "a: 1 b: -9223372036854775808 c: [-1, 2] d: 4294967295",
    ),
    "services": (
        """
        syntax = "proto3"; import "google/api/annotations.proto";
        service S {
          rpc One (A) returns (stream A) { option (google.api.http) = { get: "/v1/{a=b/*}" }; }
          rpc Two (stream A) returns (A);
        }
        message A { int32 stream = 1; string rpc = 2; bool service = 3; bytes message = 4; double returns = 5; }
        """,
        "A",
        'stream: 1 rpc: "x" service: true message: "\\377" returns: 0.1',
    ),
    "enums": (
        """
        syntax = "proto3";
        enum E { option allow_alias = true; Z = 0; X = 1; Y = 1; MIN = -2147483648; MAX = 0x7FFFFFFF; reserved 5 to 9; }
        message A { E e = 1; repeated E f = 2; map<int32, E> g = 3; optional E h = 4; oneof o { E i = 5; int32 j = 6; } }
        """,
        "A",
        "e: 77 f: [-3, X, MIN, MAX] g { key: 1 value: 99 } i: Z",
    ),
    "presence": (
        """
        syntax = "proto3"; message M { int32 a = 1; }
        message A { optional int32 a = 1; optional string b = 2; optional M c = 3; M d = 4; oneof o { M e = 5; bool f = 6; }
          oneof only { int32 g = 7; } optional bytes h = 8; oneof p { string i = 9; M j = 10; } }
        """,
        "A",
        'a: 0 c {} f: false g: 0 h: "" i: ""',
    ),
    "scalars": (
        """
        syntax = "proto3"; message A { double a = 1; float b = 2; int32 c = 3; int64 d = 4; uint32 e = 5; uint64 f = 6;
          sint32 g = 7; sint64 h = 8; fixed32 i = 9; fixed64 j = 10; sfixed32 k = 11; sfixed64 l = 12; bool m = 13;
          string n = 14; bytes o = 15; repeated double p = 16; repeated float q = 17; repeated uint64 r = 18; }
        """,
        "A",
        'a: 1e300 b: 0.5 c: -2147483648 d: -9223372036854775808 e: 4294967295 f: 18446744073709551615 g: 2147483647 '
        'h: -9223372036854775808 i: 4294967295 j: 18446744073709551615 k: -2147483648 l: 9223372036854775807 m: true '
        'n: "\\303\\244\\000" o: "\\377\\000" p: [0.1, -1e-300] q: -0.25 r: [0, 18446744073709551615]',
    ),
    "well-known": (
        """
        syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
        import "google/protobuf/duration.proto"; import "google/type/interval.proto"; import "google/type/phone_number.proto";
        import "google/type/datetime.proto"; import "google/type/postal_address.proto"; import "confluent/type/decimal.proto";
        message A { google.protobuf.Timestamp at = 1; repeated google.protobuf.Timestamp times = 2;
          google.protobuf.UInt64Value big = 3; repeated google.protobuf.StringValue texts = 4;
          map<string, google.protobuf.BoolValue> flags = 5; google.type.Interval interval = 6;
          google.type.PhoneNumber phone = 7; google.type.DateTime local = 8; google.type.PostalAddress address = 9;
          confluent.type.Decimal price = 10; oneof o { google.protobuf.Int32Value i = 11; google.protobuf.BytesValue j = 12; } }
        """,
        "A",
        'at { seconds: -1 nanos: 1000 } times {} big { value: 18446744073709551615 } texts {} texts { value: "x" } '
        'flags { key: "" value { value: true } } interval { end_time { seconds: 5 } } phone { e164_number: "+1" } '
        'local { year: 1 time_zone { id: "UTC" } } address { address_lines: ["a", "b"] } '
        'price { value: "\\001" precision: 3 scale: -2 } j {}',
    ),
    "editions": (
        """
        edition = "2023"; package p; option features.field_presence = IMPLICIT;
        message A {
          int32 a = 1; string b = 2 [features.field_presence = EXPLICIT, default = "x"];
          int32 c = 3 [features.field_presence = LEGACY_REQUIRED]; B d = 4 [features.message_encoding = DELIMITED];
          message B { int32 x = 1; } repeated B e = 5 [features.message_encoding = DELIMITED];
          E f = 6 [features.field_presence = EXPLICIT]; enum E { option features.enum_type = CLOSED; Z = 0; O = 1; }
          repeated int32 g = 7 [features.repeated_field_encoding = EXPANDED]; map<string, B> h = 8; reserved gone, other;
        }
        """,
        "A",
        'a: 1 c: 2 d { x: 1 } e { x: 2 } e {} f: O g: [1, 2] h { key: "a" value { x: 1 } }',
    ),
    "delimited": (
        """
        edition = "2023"; option features.message_encoding = DELIMITED;
        message B { int32 x = 1; }
        message A { B d = 4; repeated B e = 5; map<string, B> h = 8; oneof o { B q = 9; int32 z = 10; } }
        """,
        "A",
        'd { x: 1 } e { x: 2 } e {} h { key: "a" value { x: 1 } } q {}',
    ),
}  # fmt: skip


def plain(value: Any) -> Any:
    """Return a value as the library's JSON has it, with texts for numbers, and without nulls."""
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_dicts(kind: pa.DataType, value: Any) -> Any:
    """Return a value of Arrow with dicts for maps."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: as_dicts(kind.item_type, one) for key, one in value}
    if pa.types.is_list(kind):
        return [as_dicts(kind.value_type, one) for one in value]
    return {one.name: as_dicts(one.type, value[one.name]) for one in kind} if pa.types.is_struct(kind) else value


@pytest.mark.parametrize("case", SCHEMAS)
def test_rows_are_what_the_library_reads(tmp_path: Path, case: str) -> None:
    text, name, content = SCHEMAS[case]
    options = {**file(tmp_path, text), "message": name}
    decoder, encoder = make_decoder("protobuf", options), make_encoder("protobuf", options)
    kind, made = arrow_of(decoder), proto_class(text, name)
    message = text_format.Parse(content, made())
    rows, reasons = decoder.decode(values(made.SerializeToString(message)), None)
    assert reasons.null_count == 1, reasons
    read = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    assert plain(as_dicts(kind, rows[0].as_py())) == plain(read)
    assert made.FromString(encoder.encode(rows)[0].as_py()) == message


def test_names_that_the_library_has_itself(tmp_path: Path) -> None:
    fields = "".join(f"optional int32 {name} = {number};" for number, name in enumerate(NAMES, 1))
    text = (
        'syntax = "proto3"; message A { message C { int32 SetInParent = 1; optional int32 HasField = 2; }'
        f"{fields} C c = 100; repeated C cs = 101; map<string, C> by = 102; oneof o {{ int32 p = 103; int32 q = 104; }} }}"
    )
    decoder, encoder = make_decoder("protobuf", file(tmp_path, text)), make_encoder("protobuf", file(tmp_path, text))
    items = [{"SetInParent": 1, "HasField": None}, {"SetInParent": 0, "HasField": 4}]
    row = {**dict.fromkeys(NAMES), "c": items[0], "cs": items, "by": [("a", items[1])], "p": None, "q": 0}
    for name in NAMES:
        data = encoder.encode(pa.array([{**row, name: 5}], arrow_of(decoder)))
        assert decoder.decode(data, None)[0].to_pylist() == [{**row, name: 5}]
        assert getattr(proto_class(text).FromString(data[0].as_py()), name) == 5


@pytest.mark.parametrize("case", SCHEMAS)
def test_a_registry_has_the_same_schema(stub: RegistryStub, case: str) -> None:
    text, name, _ = SCHEMAS[case]
    stub.add("inner", text, "PROTOBUF")
    package = "".join(f"package {one};" for one in [name.rpartition(".")[0]] if one)
    outer = f'syntax = "proto3"; {package} import "dir/inner.proto"; message Outer {{ int32 z = 1; }}'
    stub.add("t-value", outer, "PROTOBUF", [{"name": "dir/inner.proto", "subject": "inner", "version": 1}])
    registry = {"registry": stub.url, "topic": "t"}
    assert make_decoder("protobuf", registry).ddl == "`z` INT"
    alone = make_decoder("protobuf", {"registry": stub.url, "subject": "inner", "message": name})
    full = proto_class(text, name).DESCRIPTOR.full_name
    assert make_decoder("protobuf", {**registry, "message": full}).ddl == alone.ddl


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("message A { int32 z = 1; M m = 2; } message M { repeated N n = 1; } message N { map<int32, M> m = 1; int32 z = 2; }",
         r"m\.n\[\]\.m\{\} is a M within a M: Spark has no type that contains itself"),
        ('import "google/protobuf/struct.proto"; message A { google.protobuf.Struct s = 1; }',
         r"s\.fields\{\}\.struct_value is a google.protobuf.Struct within a google.protobuf.Struct"),
        ("message A { Missing m = 1; }", 'schema.proto:1:32: "Missing" is not defined'),
        ("message A { map<double, int32> m = 1; }", "schema.proto:1:.*[Kk]ey in map fields cannot be float/double"),
        ("message A { repeated map<int32, int32> m = 1; }", "schema.proto:1:"),
    ],
)  # fmt: skip
def test_what_is_refused_names_the_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        make_decoder("protobuf", file(tmp_path, f'syntax = "proto3"; {text}'))


WRITTEN = """
syntax = "proto3"; import "google/protobuf/wrappers.proto"; import "google/protobuf/timestamp.proto";
message A { int32 a = 1; uint64 b = 2; repeated int32 c = 3; repeated M m = 4; E e = 5; google.protobuf.Int32Value w = 6;
  map<string, M> by = 7; oneof either { int32 left = 8; string right = 9; } bytes raw = 10;
  repeated google.protobuf.Timestamp t = 11; map<string, string> texts = 12; float f = 13; google.protobuf.UInt64Value u = 14; }
message M { string s = 1; uint64 n = 2; } enum E { Z = 0; ONE = 1; }
"""


@pytest.mark.parametrize(
    ("name", "value", "kind", "words"),
    [
        ("a", 2**31, pa.int64(), "a: Value out of range: 2147483648"),
        ("a", "x", pa.string(), "a: the field is int32 in the schema, and the row has str"),
        ("a", [1], pa.list_(pa.int32()), "a: the field is int32 in the schema, and the row has list of int"),
        ("a", 1.0, pa.float64(), "a: the field is int32 in the schema, and the row has float"),
        ("b", 1.5, pa.float64(), "b: the field is uint64 in the schema, and the row has float"),
        ("b", "5", pa.string(), "b: the field is uint64 in the schema, and the row has str"),
        ("b", -1, pa.decimal128(20, 0), "b: Value out of range: -1"),
        ("c", [1, None], pa.list_(pa.int32()), "c: a list or a map has a null in it, and Protobuf has none"),
        ("c", 5, pa.int32(), "c: the field is repeated int32 in the schema, and the row has int"),
        (
            "m",
            [{"s": 5}],
            pa.list_(pa.struct([("s", pa.int32())])),
            r"m\[\]\.s: the field is string in the schema, .* int",
        ),
        ("m", [{"n": -1}], pa.list_(pa.struct([("n", pa.int32())])), r"m\[\]\.n: Value out of range: -1"),
        ("m", [None], pa.list_(pa.struct([("s", pa.string())])), "m: a list or a map has a null in it"),
        ("m", [{"x": 1}], pa.list_(pa.struct([("x", pa.int32())])), "m: M has no field x"),
        ("e", "TWO", pa.string(), "e: 'TWO' is none of E"),
        ("e", "01", pa.string(), "e: '01' is none of E"),
        ("w", 2**40, pa.int64(), "w: Value out of range"),
        ("u", 2**65, pa.decimal128(38, 0), "u: Value out of range: 36893488147419103232"),
        (
            "by",
            [("k", None)],
            pa.map_(pa.string(), pa.struct([("s", pa.string())])),
            "by: a list or a map has a null in it",
        ),
        (
            "texts",
            [("k", 3)],
            pa.map_(pa.string(), pa.int32()),
            "texts: the field is map in the schema, .* dict of int",
        ),
        ("raw", "x", pa.string(), "raw: the field is bytes in the schema, and the row has str"),
        ("t", [None], pa.list_(pa.timestamp("us", "UTC")), "t: a list or a map has a null in it"),
        ("f", 1e39, pa.float64(), r"f: 1e\+39 is too large for a float"),
    ],
)
def test_a_row_that_does_not_fit_names_the_field(tmp_path: Path, name: str, value: Any, kind: Any, words: str) -> None:
    encoder = make_encoder("protobuf", {**file(tmp_path, WRITTEN), "message": "A"})
    with pytest.raises(SinkError, match=f"row 0 of 1 in a batch cannot be written as protobuf: FieldError: {words}"):
        encoder.encode(pa.array([{name: value}], pa.struct([(name, kind)])))


def test_two_fields_of_a_oneof_are_refused(tmp_path: Path) -> None:
    encoder = make_encoder("protobuf", file(tmp_path, WRITTEN))
    assert encoder.encode(pa.array([{"left": 1, "right": None}, {"left": None, "right": "x"}])).to_pylist() == [
        b"@\1",
        b"J\1x",
    ]
    with pytest.raises(
        SinkError, match="right: the row has left, too, and only one field of the oneof either may be set"
    ):
        encoder.encode(pa.array([{"left": 0, "right": "x"}]))
