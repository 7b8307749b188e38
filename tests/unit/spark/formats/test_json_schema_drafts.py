"""JSON Schema of all drafts: words that only some of them have, and the schemas of JSON Schema itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pykafka.exceptions import SchemaError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import file, values

DRAFT_3, DRAFT_4 = "http://json-schema.org/draft-03/schema#", "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
BASE = {"type": "object", "properties": {"id": {"type": "integer", "required": True}}}


def ddl(tmp_path: Path, properties: dict[str, Any], **more: Any) -> str:
    return make_decoder("json-schema", file(tmp_path, {"type": "object", "properties": properties, **more})).ddl


@pytest.mark.parametrize(
    ("schema", "kind", "value", "row"),
    [
        ({"extends": BASE, "properties": {"b": TEXT}}, "STRUCT<`b`: STRING, `id`: BIGINT>", {"id": 1, "b": "x"}, None),
        ({"extends": [BASE, {"properties": {"b": TEXT}}]}, "STRUCT<`id`: BIGINT, `b`: STRING>", {"id": 1}, None),
        ({"extends": {"$ref": "#/definitions/Base"}}, "STRUCT<`id`: BIGINT>", {"id": 1}, None),
        ({"type": [BASE, "null"]}, "STRUCT<`id`: BIGINT>", {"id": 1}, None),
        ({"type": [{"$ref": "#/definitions/Base"}, "null"]}, "STRUCT<`id`: BIGINT>", {"id": 1}, None),
        ({"type": ["string", {"type": "integer"}]}, "STRING", "x", '"x"'),
        ({"type": [{"type": "string"}]}, "STRING", "x", "x"),
        ({"type": "any"}, "STRING", [1], "[1]"),
        ({"type": "number", "divisibleBy": 2, "exclusiveMinimum": True, "minimum": 0}, "DOUBLE", 4, 4.0),
        ({"type": "array", "items": [TEXT], "additionalItems": False}, "STRING", ["a"], '["a"]'),
    ],
)
def test_words_of_draft_3(tmp_path: Path, schema: Any, kind: str, value: Any, row: Any) -> None:
    whole = {"$schema": DRAFT_3, "type": "object", "properties": {"a": schema}, "definitions": {"Base": BASE}}
    options = file(tmp_path, whole)
    decoder = make_decoder("json-schema", options)
    assert decoder.ddl == f"`a` {kind}"
    rows, reasons = decoder.decode(values(json.dumps({"a": value}).encode()), None)
    assert reasons.to_pylist() == [None]
    (found,) = rows.to_pylist()
    if row is None:  # an object, which lacks what is null
        assert {name: one for name, one in found["a"].items() if one is not None} == value
    else:
        assert found["a"] == row
    (written,) = make_encoder("json-schema", options).encode(rows).to_pylist()
    assert json.loads(written) == {"a": value}


def test_a_schema_that_extends_another_behind_draft_3_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert (
        ddl(tmp_path, {"a": TEXT}, extends={"$ref": "#/definitions/Base"}, definitions={"Base": BASE}) == "`a` STRING"
    )
    assert "without effect: the schema: extends: only draft 3 gives it a meaning" in caplog.text


@pytest.mark.parametrize("validate", ["false", "true"])
def test_the_schemas_of_json_schema_are_known(tmp_path: Path, validate: str) -> None:
    properties = {
        "names": {"$ref": f"{DRAFT_4}/definitions/stringArray"},
        "title": {"$ref": f"{DRAFT_4}/properties/title"},
        "schema": {"$ref": DRAFT_7},
        "core": {"$ref": "https://json-schema.org/draft/2020-12/meta/core"},
    }
    options = {**file(tmp_path, {"type": "object", "properties": properties}), "validate": validate}
    decoder = make_decoder("json-schema", options)
    assert decoder.ddl.startswith("`names` ARRAY<STRING>, `title` STRING, `schema` STRING")
    data = values(b'{"names": ["a"], "title": "b", "schema": {"type": "string"}}')
    rows, reasons = decoder.decode(data, None)
    assert reasons.to_pylist() == [None]
    assert rows.to_pylist()[0]["schema"] == '{"type":"string"}'


def test_a_property_that_no_object_has_is_not_written(tmp_path: Path) -> None:
    """TypeScript's `never`, and what is no null: writing null made all rows invalid."""
    properties = {
        "a": TEXT,
        "never": {"not": {}},
        "some": {"not": {"type": "null"}},
        "text": {"type": ["string", "null"], "not": {"const": None}},
        "inner": {"properties": {"x": TEXT}, "not": {"enum": [None]}},
    }
    options = file(tmp_path, {"type": "object", "properties": properties})
    decoder = make_decoder("json-schema", options)
    assert decoder.ddl == "`a` STRING, `never` STRING, `some` STRING, `text` STRING, `inner` STRUCT<`x`: STRING>"
    rows, _ = decoder.decode(values(b'{"a": "x"}'), None)
    assert make_encoder("json-schema", options).encode(rows).to_pylist() == [b'{"a":"x"}']


@pytest.mark.parametrize("word", ["dependencies", "dependentRequired"])
def test_properties_that_others_require_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture, word: str) -> None:
    assert ddl(tmp_path, {"a": TEXT}, **{word: {"a": ["b"]}}) == "`a` STRING"
    assert "left out of the rows: b, which is required and not described" in caplog.text


def test_words_of_kafka_connect_may_be_anything(tmp_path: Path) -> None:
    assert ddl(tmp_path, {"a": {**WHOLE, "connect.type": ["x"], "connect.parameters": 5}}) == "`a` BIGINT"


def test_times_in_small_letters(tmp_path: Path) -> None:
    options = file(tmp_path, {"properties": {"a": {"type": "string", "format": "date-time"}}})
    rows, _ = make_decoder("json-schema", options).decode(values(b'{"a": "2024-02-03t04:05:06z"}'), None)
    assert rows.to_pylist()[0]["a"].isoformat() == "2024-02-03T04:05:06+00:00"


def test_a_schema_with_too_many_levels_is_refused_by_name(tmp_path: Path) -> None:
    deep: Any = TEXT
    for _ in range(450):  # Python 3.14 can nest more than those before
        deep = {"allOf": [deep]}
    with pytest.raises(SchemaError, match="too many levels in one part: take one with fewer"):
        make_decoder("json-schema", file(tmp_path, {"properties": {"a": {"oneOf": [deep]}}}))
    deep = TEXT
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    with pytest.raises(SchemaError, match="too many levels to be checked"):
        make_encoder("json-schema", file(tmp_path, {"properties": {"a": deep}}))


def test_a_schema_of_jackson_s_first_module(tmp_path: Path) -> None:
    """It has draft 3's words, refers to types by `id`, and does not say which draft it is."""
    name = "urn:jsonschema:com:example"
    address = {"type": "object", "id": f"{name}:Address", "properties": {"city": {"type": "string", "required": True}}}
    properties = {
        "count": WHOLE,
        "home": address,
        "work": {"type": "object", "$ref": f"{name}:Address"},
        "next": {"type": "object", "$ref": f"{name}:Node"},
        "any": {"type": "any"},
    }
    options = file(tmp_path, {"type": "object", "id": f"{name}:Node", "properties": properties})
    decoder = make_decoder("json-schema", {**options, "validate": "true"})
    city = "STRUCT<`city`: STRING>"
    assert decoder.ddl == f"`count` BIGINT, `home` {city}, `work` {city}, `next` STRING, `any` STRING"
    value = {"count": 1, "home": {"city": "a"}, "work": {"city": "b"}, "next": {"count": 2}, "any": [1]}
    data = values(json.dumps(value).encode(), b'{"work": {}}')
    rows, reasons = decoder.decode(data, None)
    assert reasons[0].as_py() is None
    assert "city" in reasons[1].as_py()
    (written, _) = make_encoder("json-schema", options).encode(rows).to_pylist()
    assert json.loads(written) == value
