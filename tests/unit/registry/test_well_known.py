"""Files of Protobuf that Confluent's serializers know: schemas import them without a reference."""

from __future__ import annotations

import base64
import sys
from typing import Any

import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from google.protobuf import descriptor_pb2

from pykafka.exceptions import SchemaError
from pykafka.registry import protobuf
from pykafka.registry.schemas import PROTOBUF, Schema
from pykafka.registry.well_known import known_file

#: Each file, and a message or an enum of it.
FILES = {
    **{f"google/type/{name}.proto": f"google.type.{kind}" for name, kind in (
        ("calendar_period", "CalendarPeriod"), ("color", "Color"), ("date", "Date"), ("datetime", "DateTime"),
        ("dayofweek", "DayOfWeek"), ("decimal", "Decimal"), ("expr", "Expr"), ("fraction", "Fraction"),
        ("interval", "Interval"), ("latlng", "LatLng"), ("localized_text", "LocalizedText"), ("money", "Money"),
        ("month", "Month"), ("phone_number", "PhoneNumber"), ("postal_address", "PostalAddress"),
        ("quaternion", "Quaternion"), ("timeofday", "TimeOfDay"),
    )},
    **{f"google/protobuf/{name}.proto": f"google.protobuf.{kind}" for name, kind in (
        ("any", "Any"), ("api", "Api"), ("descriptor", "FileOptions"), ("duration", "Duration"), ("empty", "Empty"),
        ("field_mask", "FieldMask"), ("source_context", "SourceContext"), ("struct", "Struct"),
        ("timestamp", "Timestamp"), ("type", "Type"), ("wrappers", "StringValue"),
    )},
    "confluent/meta.proto": "confluent.Meta",
    "confluent/type/decimal.proto": "confluent.type.Decimal",
    "confluent/type/variant.proto": "confluent.type.Variant",
    "confluent/types/decimal.proto": "confluent.type.Decimal",
}  # fmt: skip


def schema(*names: str, text: str = "message A { int32 a = 1; }") -> Schema:
    return Schema(PROTOBUF, 'syntax = "proto3"; ' + "".join(f'import "{name}"; ' for name in names) + text)


def described(*names: str, kinds: tuple[str, ...] = (), name: str = "") -> Schema:
    """Return a schema as some clients register it: the descriptor of its file."""
    made = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3", dependency=names)
    message = made.message_type.add(name="A")
    for number, kind in enumerate(kinds, 1):
        message.field.add(name=f"f{number}", number=number, label=1, type=11, type_name=f".{kind}")
    return Schema(PROTOBUF, base64.b64encode(made.SerializeToString()).decode())


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_needs_no_reference(name: str) -> None:
    file = protobuf.compiled(schema(name, text=f"message A {{ {FILES[name]} f = 1; }}"), {})
    field = file.named("A").fields_by_name["f"]
    kind = field.message_type or field.enum_type
    assert (kind.full_name, kind.file.name) == (FILES[name], name.replace("types/", "type/"))


def test_a_descriptor_needs_no_reference_and_no_protoc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    enums = {
        name for name in FILES if name.rpartition("/")[2] in ("calendar_period.proto", "dayofweek.proto", "month.proto")
    }
    kinds = tuple(kind for name, kind in FILES.items() if name not in enums)
    message = protobuf.compiled(described(*FILES, kinds=kinds), {}).named("A")
    assert tuple(field.message_type.full_name for field in message.fields) == kinds


def test_a_descriptor_file_that_was_written_without_its_imports() -> None:
    main = base64.b64decode(described("google/type/money.proto", kinds=("google.type.Money",), name="a.proto").text)
    made = descriptor_pb2.FileDescriptorSet(file=[descriptor_pb2.FileDescriptorProto.FromString(main)])
    message = protobuf.of_set(made.SerializeToString()).named("A")
    assert message.fields_by_name["f1"].message_type.full_name == "google.type.Money"
    made.file[0].dependency.append("shop/order.proto")
    with pytest.raises(SchemaError, match="imports 'shop/order.proto', but has no reference of that name"):
        protobuf.of_set(made.SerializeToString())


@pytest.mark.parametrize("theirs", [meta_pb2, decimal_pb2, variant_pb2])
def test_confluents_files_are_those_of_its_own_client(theirs: Any) -> None:
    wanted = descriptor_pb2.FileDescriptorProto.FromString(theirs.DESCRIPTOR.serialized_pb)
    wanted.ClearField("options")
    assert known_file(wanted.name) == wanted


def test_options_of_confluent() -> None:
    text = """
        option (confluent.file_meta).doc = "a" 'b';
        message A {
          option (confluent.message_meta) = { doc: "x" params: [{key: "k" value: "v"}, {key: "l", value: "w"}] };
          int32 a = 1 [(confluent.field_meta) = { tags: ["PII"], rules: [{ name: "n" expr: "e" }] }];
          E e = 2;
        }
        enum E { option (confluent.enum_meta).tags = "t"; Z = 0 [(confluent.enum_value_meta).doc = "z"]; }
    """
    message = protobuf.compiled(schema("confluent/meta.proto", text=text), {}).named("A")
    assert list(message.fields_by_name) == ["a", "e"]


@pytest.mark.parametrize("form", ["text", "descriptor", "descriptor and text", "text and descriptor"])
@pytest.mark.parametrize(
    "name", ["google/type/money.proto", "confluent/type/decimal.proto", "google/protobuf/any.proto"]
)
def test_a_reference_wins_over_what_is_known(name: str, form: str) -> None:
    package, _, kind = FILES[name].rpartition(".")
    main = described(name, kinds=(FILES[name],)) if form.startswith("descriptor") else schema(
        name, text=f"message A {{ {FILES[name]} f1 = 1; }}"
    )  # fmt: skip
    if form.endswith("text"):
        own = Schema(PROTOBUF, f'syntax = "proto3"; package {package}; message {kind} {{ string mine = 1; }}')
    else:
        made = descriptor_pb2.FileDescriptorProto(name="else.proto", package=package, syntax="proto3")
        made.message_type.add(name=kind).field.add(name="mine", number=1, label=1, type=9)
        own = Schema(PROTOBUF, base64.b64encode(made.SerializeToString()).decode())
    if form == "text and descriptor" and name.startswith("google/"):
        with pytest.raises(
            SchemaError, match=f"imports '{name}', which is a descriptor, and another file of it is text"
        ):
            protobuf.compiled(main, {name: own})
        return
    file = protobuf.compiled(main, {name: own})
    assert list(file.named("A").fields_by_name["f1"].message_type.fields_by_name) == ["mine"]


def test_what_a_reference_imports_needs_none_either() -> None:
    inner = schema("google/type/money.proto", text="package shop; message Price { google.type.Money money = 1; }")
    outer = schema(
        "google/type/money.proto", "shop/price.proto", text="message A { shop.Price p = 1; google.type.Money m = 2; }"
    )
    message = protobuf.compiled(outer, {"shop/price.proto": inner}).named("A")
    assert (
        message.fields_by_name["p"].message_type.fields_by_name["money"].message_type.full_name == "google.type.Money"
    )


@pytest.mark.parametrize(
    "imports",
    [
        'import public "google/type/date.proto";',
        "import weak 'google/type/date.proto';",
        'import "google/" "type/date" ".proto";',
        'import "google\\x2ftype/date.proto"; import "google/type/color.proto"; import "google/api/annotations.proto";',
    ],
)
def test_ways_to_import(imports: str) -> None:
    file = protobuf.compiled(
        Schema(PROTOBUF, f'syntax = "proto3"; {imports} message A {{ google.type.Date d = 1; }}'), {}
    )
    assert file.named("A").fields_by_name["d"].message_type.full_name == "google.type.Date"


def test_what_a_reference_imports_publicly() -> None:
    public = Schema(PROTOBUF, 'syntax = "proto3"; import public "google/type/date.proto";')
    file = protobuf.compiled(schema("all.proto", text="message A { google.type.Date d = 1; }"), {"all.proto": public})
    assert file.named("A").fields_by_name["d"].message_type.full_name == "google.type.Date"


@pytest.mark.parametrize(
    "name",
    [
        "money.proto",
        "type/money.proto",
        "google/type/nothing.proto",
        "confluent/nothing.proto",
        "google/protobuf/x.proto",
        "b.proto",
    ],
)
@pytest.mark.parametrize("form", ["text", "descriptor"])
def test_an_import_that_is_missing(name: str, form: str) -> None:
    words = f"the schema imports '{name}', but has no reference of that name.*register the schema with such a reference"
    with pytest.raises(SchemaError, match=words):
        protobuf.compiled(schema(name) if form == "text" else described(name), {})


def test_the_package_that_has_googles_files_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("google.type")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.type", None)
    monkeypatch.setitem(sys.modules, "google.api", None)
    words = "imports google/{}.proto, which the package googleapis-common-protos has: install it"
    with pytest.raises(ImportError, match=words.format("type/money")):
        protobuf.compiled(schema("google/type/money.proto"), {})
    with pytest.raises(ImportError, match=words.format("api/quota")):
        protobuf.compiled(described("google/api/quota.proto"), {})
    # Others need nothing of it.
    protobuf.compiled(schema("confluent/meta.proto", "google/protobuf/any.proto"), {})
