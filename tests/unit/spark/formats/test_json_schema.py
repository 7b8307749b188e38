"""JSON Schema as rows of Arrow, and back: types, validation, references."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.exceptions import SchemaError
from pykafka.registry.schemas import with_id
from pykafka.spark.errors import SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import JSON_SCHEMA, file, values
from tests.support.registrystub import RegistryStub


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
        (b'{"id": 99999999999999999999}', "id does not fit BIGINT"),
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
        make_decoder("json-schema", file(tmp_path, {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}))


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
    with pytest.raises(SchemaError, match="not a valid JSON Schema"):
        make_decoder("json-schema", file(tmp_path, schema))


def test_a_schema_that_cannot_check_is_refused_at_the_start(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    with pytest.raises(SchemaError, match="not a valid JSON Schema"):
        make_decoder("json-schema", file(tmp_path, schema) | {"validate": "true"})
    with pytest.raises(SchemaError, match="not a valid JSON Schema"):
        make_encoder("json-schema", file(tmp_path, schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"$ref": "gone.json"}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "if": {"$ref": "#/nowhere"}, "then": {}},
        {
            "properties": {"a": {"allOf": [{"$ref": "#/definitions/A"}, {}]}},
            "definitions": {"A": {"not": {"$ref": "b"}}},
        },
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **{"type": "object", "properties": {"a": {"type": "string"}}, "$ref": "#/$defs/Base"},
            "$defs": {"Base": {"properties": {"b": {"type": "integer"}}, "unevaluatedProperties": {"$ref": "gone"}}},
        },
    ],
)
def test_a_reference_that_leads_nowhere_is_told_at_the_start(tmp_path: Path, schema: Any) -> None:
    options = file(tmp_path, schema)
    with pytest.raises(SchemaError, match="refers to '.*', which is in no schema"):
        make_decoder("json-schema", options | {"validate": "true"})
    with pytest.raises(SchemaError, match="refers to '.*', which is in no schema"):
        make_encoder("json-schema", options)
    assert make_decoder("json-schema", options).ddl  # nothing follows it


def test_a_reference_that_nothing_leads_to_does_no_harm(tmp_path: Path) -> None:
    draft = {"$ref": "#/definitions/A", "if": {"$ref": "gone"}}  # beside which draft 7 sees nothing
    schema = {
        "properties": {"a": draft},
        "definitions": {"A": {"type": "string"}, "B": {"$ref": "gone"}},
    }
    decoder = make_decoder("json-schema", {**file(tmp_path, schema), "validate": "true"})
    assert decoder.ddl == "`a` STRING"
    assert decoder.decode(values(b'{"a": "x"}', b'{"a": 1}'), None)[0].to_pylist() == [{"a": "x"}, None]


def test_properties_beside_a_reference_count_where_the_draft_says_so(tmp_path: Path) -> None:
    schema: dict[str, Any] = {
        "$ref": "#/$defs/Base",
        "properties": {"a": {"type": "string"}},
        "$defs": {"Base": {"type": "object", "properties": {"b": {"type": "integer"}}}},
    }
    assert make_decoder("json-schema", file(tmp_path, schema)).ddl == "`b` BIGINT"
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    decoder = make_decoder("json-schema", {**file(tmp_path, schema), "validate": "true"})
    assert decoder.ddl == "`b` BIGINT, `a` STRING"
    assert decoder.decode(values(b'{"a": "x", "b": 1}'), None)[0].to_pylist() == [{"b": 1, "a": "x"}]


def test_a_number_that_no_double_has(tmp_path: Path) -> None:
    decoder = make_decoder("json-schema", file(tmp_path, JSON_SCHEMA))
    rows, reasons = decoder.decode(values(b'{"score": 1e999}', b'{"score": 1e308}'), None)
    assert [row is None for row in rows.to_pylist()] == [True, False]
    assert "score is too large for DOUBLE" in reasons[0].as_py()
