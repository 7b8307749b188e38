"""Properties of JSON Schema as people's tools write them, with the columns that they become; and JSON compared with rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

NULL: dict[str, Any] = {"type": "null", "title": "Not included"}
TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
DEFINITIONS: dict[str, Any] = {
    "Null": {"type": "null", "description": "nothing"},
    "Name": {"type": "string", "minLength": 1},
    "MaybeName": {"oneOf": [NULL, {"$ref": "#/definitions/Name"}]},
    "Item": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"sku": TEXT, "count": {"oneOf": [NULL, WHOLE]}},
    },
    "Base": {"type": "object", "required": ["id"], "properties": {"id": WHOLE, "label": {"type": ["null", "string"]}}},
    "Color": {"enum": ["RED", "BLUE"]},
    "Tree": {
        "type": "object",
        "properties": {"v": WHOLE, "next": {"oneOf": [NULL, {"$ref": "#/definitions/Tree"}]}},
    },
    "Branch": {
        "type": "object",
        "properties": {"v": WHOLE, "branches": {"type": "array", "items": {"$ref": "#/definitions/Branch"}}},
    },
}
ITEM, BASE = {"$ref": "#/definitions/Item"}, {"$ref": "#/definitions/Base"}
ITEM_DDL = "STRUCT<`sku`: STRING, `count`: BIGINT>"
BASE_DDL = "STRUCT<`id`: BIGINT, `label`: STRING"


class Property(NamedTuple):
    """A property, the DDL of its column, the paths of JSON text in it, and values."""

    schema: Any
    ddl: str
    texts: tuple[str, ...]
    values: tuple[Any, ...]


def _typed(schema: Any, ddl: str, *values: Any) -> Property:
    return Property(schema, ddl, (), (*values, None))


def _text(schema: Any, *values: Any) -> Property:
    return Property(schema, "STRING", ("",), (*values, None))


def _partly(schema: Any, ddl: str, texts: tuple[str, ...], *values: Any) -> Property:
    return Property(schema, ddl, texts, (*values, None))


_AT = "2024-02-03T04:05:06+00:00"
_CONNECT_DECIMAL = {
    **{
        "type": "number",
        "title": "org.apache.kafka.connect.data.Decimal",
        "connect.version": 1,
        "connect.type": "bytes",
    },
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "24"},
}
#: By the names of the columns.
PROPERTIES: dict[str, Property] = {
    # mbknor-jackson-jsonSchema, which Confluent's Java serializer has
    "java_text": _typed({"oneOf": [NULL, TEXT]}, "STRING", "a", ""),
    "java_whole": _typed({"oneOf": [NULL, WHOLE]}, "BIGINT", 1, -5),
    "java_number": _typed({"oneOf": [NULL, {"type": "number"}]}, "DOUBLE", 1.5),
    "java_flag": _typed({"oneOf": [NULL, {"type": "boolean"}]}, "BOOLEAN", True, False),
    "java_tags": _typed({"oneOf": [NULL, TEXT], "confluent:tags": ["PII"]}, "STRING", "a"),
    "java_list": _typed({"oneOf": [NULL, {"type": "array", "items": TEXT}]}, "ARRAY<STRING>", ["a"], []),
    "java_items": _typed(
        {"oneOf": [NULL, {"type": "array", "items": ITEM}]}, f"ARRAY<{ITEM_DDL}>", [{"sku": "a", "count": None}]
    ),
    "java_map": _typed(
        {"oneOf": [NULL, {"type": "object", "additionalProperties": ITEM}]},
        f"MAP<STRING, {ITEM_DDL}>",
        {"k": {"sku": "a"}},
    ),
    "java_object": _typed({"oneOf": [NULL, ITEM], "javaType": "com.example.Item"}, ITEM_DDL, {"sku": "a", "count": 2}),
    "java_enum": _typed({"oneOf": [NULL, {"type": "string", "enum": ["A", "B"]}]}, "STRING", "A"),
    "java_time": _typed({"oneOf": [NULL, {"type": "string", "format": "date-time"}]}, "TIMESTAMP", _AT),
    "java_any": _text({"oneOf": [NULL, {}]}, "a", 1, {"k": [1.25, None]}),
    "java_tree": _partly(
        {"$ref": "#/definitions/Tree"}, "STRUCT<`v`: BIGINT, `next`: STRING>", (".next",), {"v": 1, "next": {"v": 2}}
    ),
    "branch": _partly(
        {"$ref": "#/definitions/Branch"},
        "STRUCT<`v`: BIGINT, `branches`: ARRAY<STRING>>",
        (".branches[]",),
        {"v": 1, "branches": [{"v": 2, "branches": [{"v": 3}]}, {}]},
    ),
    # Kafka Connect's JsonSchemaConverter
    "connect_text": _typed({"connect.index": 0, "oneOf": [{"type": "null"}, TEXT]}, "STRING", "a"),
    "connect_int64": _typed(
        {"oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int64"}]}, "BIGINT", 2**62 + 1
    ),
    "connect_int64_number": _typed(
        {"oneOf": [{"type": "null"}, {"type": "number", "connect.type": "int64"}]}, "BIGINT", 2**53 + 1
    ),
    "connect_float32": _typed({"type": "number", "connect.type": "float32"}, "DOUBLE", 0.5),
    "connect_time": _typed(
        {"oneOf": [{"type": "null"}, {"type": "integer", "title": "org.apache.kafka.connect.data.Timestamp"}]},
        "BIGINT",
        1644345809665,
    ),
    "connect_decimal": _typed({"oneOf": [{"type": "null"}, _CONNECT_DECIMAL]}, "DECIMAL(24,2)", 12.25, 7),
    "connect_bytes": _typed({"type": "string", "connect.type": "bytes"}, "STRING", "AQI="),
    "connect_pairs": _typed(
        {
            "type": "array",
            "connect.type": "map",
            "items": {"type": "object", "properties": {"key": WHOLE, "value": TEXT}},
        },
        "ARRAY<STRUCT<`key`: BIGINT, `value`: STRING>>",
        [{"key": 1, "value": "a"}],
    ),
    "connect_nulls": _typed(
        {"type": "array", "items": {"oneOf": [{"type": "null"}, TEXT]}}, "ARRAY<STRING>", ["a", None]
    ),
    # pydantic
    "pydantic_ref": _typed({"title": "Item", "allOf": [ITEM], "default": {"sku": "x"}}, ITEM_DDL, {"sku": "a"}),
    "pydantic_maybe": _typed({"anyOf": [TEXT, {"type": "null"}], "default": None, "title": "M"}, "STRING", "a"),
    "pydantic_maybe_ref": _typed({"anyOf": [ITEM, {"type": "null"}]}, ITEM_DDL, {"sku": "a"}),
    "pydantic_time": _typed({"anyOf": [{"format": "date-time", "type": "string"}, {"type": "null"}]}, "TIMESTAMP", _AT),
    "pydantic_day": _typed({"anyOf": [{"format": "date", "type": "string"}, {"type": "null"}]}, "DATE", "2024-02-03"),
    "pydantic_decimal": _text({"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9.]+$"}]}, "1.10", 1.5),
    "pydantic_union": _text({"anyOf": [WHOLE, TEXT]}, 1, "a"),
    "pydantic_dict": _typed({"additionalProperties": WHOLE, "type": "object"}, "MAP<STRING, BIGINT>", {"a": 1}),
    "pydantic_any_dict": _text({"additionalProperties": True, "type": "object"}, {"a": [1, {"b": None}]}),
    "pydantic_tuple": _text({"type": "array", "prefixItems": [WHOLE, TEXT], "maxItems": 2, "minItems": 2}, [1, "a"]),
    "pydantic_literal": _typed({"const": "cat", "title": "Kind"}, "STRING", "cat"),
    "pydantic_enum": _typed({"allOf": [{"$ref": "#/definitions/Color"}]}, "STRING", "RED"),
    "pydantic_maps": _typed(
        {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}},
        "MAP<STRING, ARRAY<DOUBLE>>",
        {"a": [1, 2.5]},
    ),
    # NJsonSchema
    "net_text": _typed({"type": ["null", "string"]}, "STRING", "a"),
    "net_time": _typed({"type": ["null", "string"], "format": "date-time"}, "TIMESTAMP", _AT),
    "net_double": _typed({"type": ["null", "number"], "format": "double"}, "DOUBLE", 2.5),
    "net_ref": _typed({"oneOf": [{"type": "null"}, ITEM]}, ITEM_DDL, {"sku": "a"}),
    "net_object": _typed({"type": ["null", "object"], "properties": {"a": WHOLE}}, "STRUCT<`a`: BIGINT>", {"a": 1}),
    "net_child": _typed(
        {"allOf": [BASE, {"type": "object", "additionalProperties": False, "properties": {"extra": TEXT}}]},
        f"{BASE_DDL}, `extra`: STRING>",
        *[{"id": 1}] * 0,
    ),
    "net_enum": _typed({"type": "integer", "enum": [0, 1], "x-enumNames": ["A", "B"]}, "BIGINT", 1),
    # quicktype, by hand, OpenAPI
    "quick_union": _text({"anyOf": [{"type": "array", "items": TEXT}, {"type": "null"}, TEXT]}, "a", ["a"]),
    "null_behind": _typed({"anyOf": [{"$ref": "#/definitions/Null"}, TEXT]}, "STRING", "a"),
    "null_const": _typed({"oneOf": [{"const": None}, WHOLE]}, "BIGINT", 3),
    "null_enum": _typed({"oneOf": [WHOLE, {"enum": [None], "title": "none"}]}, "BIGINT", 3),
    "null_listed": _typed({"enum": ["a", None, "b"]}, "STRING", "a"),
    "null_nested": _typed({"oneOf": [NULL, {"anyOf": [{"type": "null"}, {"oneOf": [TEXT]}]}]}, "STRING", "a"),
    "null_of_ref": _typed({"$ref": "#/definitions/MaybeName"}, "STRING", "a"),
    "null_words": _typed(
        {"oneOf": [{"type": "null", "description": "d", "default": None, "examples": [None], "$comment": "c"}, TEXT]},
        "STRING",
        "a",
    ),
    "null_last": _typed({"oneOf": [{"type": "array", "items": WHOLE}, {"type": ["null"]}]}, "ARRAY<BIGINT>", [1]),
    "only_one": _typed({"oneOf": [{"anyOf": [{"allOf": [WHOLE]}]}]}, "BIGINT", 1),
    "never": _typed({"anyOf": [False, TEXT]}, "STRING", "a"),
    "titles": _typed({"oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}, "STRING", "a"),
    "numbers": _typed({"anyOf": [WHOLE, {"type": "number"}]}, "DOUBLE", 1, 1.5),
    "limited": _typed({"allOf": [{"type": "number"}, {"minimum": 0}, {"type": "integer"}]}, "BIGINT", 4),
    "formats": _typed(
        {"type": "string", "anyOf": [{"format": "date"}, {"format": "email"}]}, "STRING", "2024-02-03", "a@b"
    ),
    "base": _typed(
        {"properties": {"own": TEXT}, "allOf": [BASE]}, f"STRUCT<`own`: STRING, {BASE_DDL[7:]}>", {"own": "a", "id": 1}
    ),
    "bases": _typed(
        {"allOf": [{"allOf": [BASE, ITEM]}, {"required": ["sku"], "properties": {"z": {"type": "boolean"}}}]},
        "STRUCT<`id`: BIGINT, `label`: STRING, `sku`: STRING, `count`: BIGINT, `z`: BOOLEAN>",
    ),
    "refined": _typed(
        {"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"a": WHOLE}}]},
        "STRUCT<`a`: BIGINT>",
        {"a": 1},
    ),
    "inner_merged": _typed(
        {
            "properties": {"p": {"properties": {"x": TEXT}}},
            "allOf": [{"properties": {"p": {"properties": {"y": WHOLE}}}}],
        },
        "STRUCT<`p`: STRUCT<`x`: STRING, `y`: BIGINT>>",
        {"p": {"x": "a", "y": 1}},
    ),
    "required_only": _typed(
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "STRUCT<`a`: STRING, `b`: STRING>",
        {"a": "1"},
        {"b": "2"},
    ),
    "conditional": _partly(
        {
            **{"type": "object", "properties": {"kind": TEXT}, "if": {"properties": {"kind": {"const": "card"}}}},
            **{"then": {"properties": {"number": TEXT}}, "else": {"properties": {"iban": TEXT}}},
        },
        "STRUCT<`kind`: STRING, `number`: STRING, `iban`: STRING>",
        (".number", ".iban"),
        {"kind": "card", "number": "1"},
        {"kind": "bank", "iban": "2", "number": 3},
    ),
    "both_ways": _typed(
        {
            **{"type": "object", "properties": {"kind": TEXT}, "if": {"properties": {"kind": {"const": "a"}}}},
            **{"then": {"properties": {"n": {"const": 1}}}, "else": {"properties": {"n": WHOLE}}},
        },
        "STRUCT<`kind`: STRING, `n`: BIGINT>",
        {"kind": "a", "n": 1},
    ),
    "dependent": _partly(
        {"type": "object", "properties": {"a": TEXT}, "dependentSchemas": {"a": {"properties": {"b": WHOLE}}}},
        "STRUCT<`a`: STRING, `b`: STRING>",
        (".b",),
        {"a": "x", "b": 1},
    ),
    "one_of_beside": _typed(
        {
            **{"type": "object", "properties": {"kind": TEXT}},
            "oneOf": [
                {"properties": {"kind": {"const": "a"}, "x": WHOLE}, "required": ["x"], "additionalProperties": False},
                {"properties": {"kind": {"const": "b"}, "y": TEXT}, "required": ["y"], "additionalProperties": False},
            ],
        },
        "STRUCT<`kind`: STRING, `x`: BIGINT, `y`: STRING>",
        {"kind": "a", "x": 1},
        {"kind": "b", "y": "z"},
    ),
    "several_forms": _text(
        {"oneOf": [ITEM, {"type": "object", "properties": {"q": WHOLE}, "required": ["q"]}]}, {"q": 1}
    ),
    "conflict": _text({"allOf": [TEXT, WHOLE]}),
    "anything": _text(True, 1, "a", [None]),
    "nothing": _text(False),
    "untyped": _text({"description": "d"}, {"a": 1}),
    "bare_object": _text({"type": "object"}, {"a": 1}),
    "bare_array": _text({"type": "array"}, [1, "a"]),
    "several_types": _text({"type": ["string", "integer", "null"]}, "a", 1),
    "mixed_enum": _text({"enum": ["a", 1, None]}, "a", 1),
    "list_of_any": _partly({"type": "array", "items": {}}, "ARRAY<STRING>", ("[]",), [1, "a", {"b": 1}]),
    "map_of_any": _partly(
        {"type": "object", "additionalProperties": {}}, "MAP<STRING, STRING>", ("{}",), {"a": 1, "b": "c"}
    ),
    "tail": _partly({"type": "array", "prefixItems": [WHOLE], "items": TEXT}, "ARRAY<STRING>", ("[]",), [1, "a"]),
    "patterns": _partly(
        {"type": "object", "patternProperties": {"^n": WHOLE}, "additionalProperties": TEXT},
        "MAP<STRING, STRING>",
        ("{}",),
        {"n1": 1, "a": "b"},
    ),
}


def differences(kind: pa.DataType, row: Any, value: Any, path: str, texts: set[str]) -> Iterator[str]:
    """Report where a value of a row is not the one of the JSON.

    :param kind: type of the value
    :param texts: paths of the columns that are JSON text
    """
    if value is None:
        if row is not None:
            yield f"{path}: {row!r} for null"
    elif path in texts:
        if json.loads(row) != value:
            yield f"{path}: {row!r} for {value!r}"
    elif pa.types.is_struct(kind):
        fields = {kind.field(number).name: kind.field(number).type for number in range(kind.num_fields)}
        yield from (f"{path}.{name} is lost" for name in value if name not in fields)
        for name, one in fields.items():
            yield from differences(one, row[name], value.get(name), f"{path}.{name}".removeprefix("."), texts)
    elif pa.types.is_map(kind):
        inside = dict(row)
        if inside.keys() != value.keys():
            yield f"{path}: the keys {list(inside)} for {list(value)}"
        for name in inside.keys() & value.keys():
            yield from differences(kind.item_type, inside[name], value[name], f"{path}{{}}", texts)
    elif pa.types.is_list(kind):
        for one, other in zip(row, value, strict=True):
            yield from differences(kind.value_type, one, other, f"{path}[]", texts)
    elif isinstance(row, datetime | date):
        if row.isoformat() != value:
            yield f"{path}: {row!r} for {value!r}"
    elif isinstance(row, Decimal):
        if float(row) != value:
            yield f"{path}: {row!r} for {value!r}"
    elif row != value or isinstance(row, bool) != isinstance(value, bool):
        yield f"{path}: {row!r} for {value!r}"
