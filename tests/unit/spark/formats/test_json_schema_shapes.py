"""JSON Schema as Confluent's serializers, Kafka Connect, pydantic and others write it: columns, values, warnings."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykafka.exceptions import SchemaError
from pykafka.spark.errors import SinkError
from pykafka.spark.formats import make_decoder, make_encoder
from tests.support.formats import file, values
from tests.support.jsonrows import BASE, DEFINITIONS, ITEM, NULL, PROPERTIES, TEXT, WHOLE, differences
from tests.support.registrystub import RegistryStub

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def whole(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "definitions": DEFINITIONS, **more}


def without_nulls(value: Any) -> Any:
    """Return JSON without properties that are null: a row does not say whether they were there."""
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return {k: without_nulls(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


@pytest.fixture
def made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Any:
    """Return a function that makes a decoder or an encoder of a schema, and what was logged."""

    def make(schema: Any, maker: Any = make_decoder, **options: str) -> tuple[Any, str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "pykafka.spark"):
            found = maker("json-schema", {**file(tmp_path, schema), **options})
        assert len(caplog.messages) <= 1
        return found, "".join(caplog.messages)

    return make


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_is_the_column_that_it_can_be(made: Any, name: str) -> None:
    schema, ddl, texts, examples = PROPERTIES[name]
    decoder, log = made(whole({name: schema}, **{"$schema": DRAFT_2020}))
    assert decoder.ddl == f"`{name}` {ddl}"
    named = {f"{name}{inside}" for inside in texts}
    assert all(f" {path} (" in log for path in named)
    assert bool(log) == bool(named)
    records = [{name: one} for one in examples] + [{}]
    rows, reasons = decoder.decode(values(*(json.dumps(one).encode() for one in records)), None)
    assert reasons.null_count == len(records), reasons
    for record, row in zip(records, rows.to_pylist(), strict=True):
        assert not list(differences(rows.type, row, record, "", named))
    encoder, log = made(whole({name: schema}, **{"$schema": DRAFT_2020}), make_encoder)
    assert bool(log) == bool(named)
    written = encoder.encode(rows)
    for record, text in zip(records, written.to_pylist(), strict=True):
        assert without_nulls(json.loads(text)) == without_nulls(record)
    assert decoder.decode(written, None)[0] == rows


def test_a_schema_of_the_java_serializer(made: Any) -> None:
    schema = {
        **{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object"},
        "additionalProperties": False,
        "properties": {
            "id": WHOLE,
            "customer": {"oneOf": [NULL, {"type": "string"}]},
            "lines": {"oneOf": [NULL, {"type": "array", "items": {"$ref": "#/definitions/Line"}}]},
            "billing": {"oneOf": [NULL, {"$ref": "#/definitions/Address"}]},
        },
        "required": ["id"],
        "definitions": {
            "Line": {
                **{"type": "object", "additionalProperties": False, "required": ["count"]},
                "properties": {"count": WHOLE, "sku": {"oneOf": [NULL, TEXT]}},
            },
            "Address": {"type": "object", "properties": {"city": {"oneOf": [NULL, TEXT]}}},
        },
    }
    decoder, log = made(schema, validate="true")
    assert decoder.ddl == (
        "`id` BIGINT, `customer` STRING, `lines` ARRAY<STRUCT<`count`: BIGINT, `sku`: STRING>>, "
        "`billing` STRUCT<`city`: STRING>"
    )
    assert not log
    full = {"id": 1, "customer": "me", "lines": [{"count": 2, "sku": None}], "billing": {"city": "Bonn"}}
    empty = {"id": 2, "customer": None, "lines": None, "billing": None}
    data = [json.dumps(one, separators=(",", ":")).encode() for one in (full, empty)]
    rows, reasons = decoder.decode(values(*data, b'{"id":3,"customer":4}'), None)
    assert rows.to_pylist() == [full, empty, None]
    assert reasons.to_pylist()[:2] == [None, None]
    assert made(schema, make_encoder)[0].encode(rows).to_pylist()[:2] == data


@pytest.mark.parametrize(
    "top", [{"oneOf": [NULL, BASE]}, {"anyOf": [BASE, {"enum": [None]}]}, {**BASE, "nullable": True}]
)
def test_a_whole_record_that_may_be_null(made: Any, top: Any) -> None:
    decoder, log = made({**top, "definitions": DEFINITIONS})
    assert decoder.ddl == "`id` BIGINT, `label` STRING"
    assert not log
    rows, reasons = decoder.decode(values(b'{"id": 1}', b"null", b"3"), None)
    assert rows.to_pylist() == [{"id": 1, "label": None}, None, None]
    assert reasons.is_valid().to_pylist() == [False, False, True]


@pytest.mark.parametrize(
    ("schema", "kind", "records"),
    [
        ({"oneOf": [ITEM, {**BASE}], "definitions": DEFINITIONS}, "STRING", [{"sku": "a"}, {"id": 1}]),
        ({"type": "array", "items": WHOLE}, "ARRAY<BIGINT>", [[1, 2], []]),
        ({"type": "object", "additionalProperties": TEXT}, "MAP<STRING, STRING>", [{"a": "b"}, {}]),
        ({"oneOf": [NULL, TEXT]}, "STRING", ["a", None]),
        ({"type": "number"}, "DOUBLE", [1.5, 2]),
        (True, "STRING", ["a", {"b": None}, None]),
    ],
)
def test_a_record_that_is_no_object_is_one_column(made: Any, schema: Any, kind: str, records: list[Any]) -> None:
    decoder, _ = made(schema)
    assert decoder.ddl == f"`value` {kind}"
    rows, reasons = decoder.decode(values(*(json.dumps(one).encode() for one in records)), None)
    assert reasons.null_count == len(records)
    encoder, _ = made(schema, make_encoder)
    assert [json.loads(one) for one in encoder.encode(rows).to_pylist()] == records
    with pytest.raises(SinkError, match="column 'other' is not in the schema, whose fields are value"):
        encoder.check(["other"])


def test_null_is_written_where_the_schema_takes_it(made: Any) -> None:
    maybe = {"oneOf": [NULL, TEXT]}
    properties = {
        "a": maybe,
        "b": TEXT,
        "c": {**TEXT, "nullable": True},
        "d": {},
        "e": {"oneOf": [NULL, {}]},
        "f": {"anyOf": [TEXT, WHOLE]},
    }
    encoder, _ = made(whole(properties, required=["a"]), make_encoder)
    rows = pa.array([dict.fromkeys(properties)], pa.struct([(name, pa.string()) for name in properties]))
    assert encoder.encode(rows).to_pylist() == [b'{"a":null,"d":null}']


def test_a_schema_with_an_only_object_in_parts(made: Any) -> None:
    base = {
        "type": "object",
        "properties": {"id": WHOLE, "at": {"type": "string", "format": "date-time"}},
        "required": ["id"],
    }
    schema = whole({"own": TEXT}, allOf=[base, {"if": {"required": ["own"]}, "then": {"required": ["at"]}}])
    decoder, log = made(schema)
    assert decoder.ddl == "`own` STRING, `id` BIGINT, `at` TIMESTAMP"
    assert not log
    data = b'{"own":"x","id":1,"at":"2024-02-03T04:05:06+00:00"}'
    rows, _ = decoder.decode(values(data), None)
    assert made(schema, make_encoder)[0].encode(rows).to_pylist() == [data]


def test_one_warning_names_everything_that_is_no_typed_column(
    stub: RegistryStub, caplog: pytest.LogCaptureFixture
) -> None:
    properties = {
        **{
            "any": {},
            "both": {"type": ["string", "integer"]},
            "odd": {"allOf": [TEXT, WHOLE]},
            "list": {"type": "array"},
        },
        **{"sub": {"type": "object", "properties": {"deep": {"type": "object"}}, "patternProperties": {"^x-": TEXT}}},
        "old": {"type": "any"},
        "either": {"oneOf": [BASE, {"properties": {"z": TEXT}}]},
        "gone": {"anyOf": [{"$ref": "#/nowhere"}, TEXT]},
    }
    stub.add("t-value", whole(properties, additionalProperties=WHOLE, required=["any", "more"]), "JSON")
    with caplog.at_level(logging.WARNING, "pykafka.spark"):
        decoder: Any = make_decoder("json-schema", {"registry": stub.url, "topic": "t"})
    [message] = caplog.messages
    for words in (
        *("version 1 of t-value", "any (no type)", "both (string or integer)", "odd (no value fits all of it)"),
        *("list (an array without one schema for its items)", "sub.deep (an object without properties)"),
        *("either (an object of several forms)", "old ('any' is no type of JSON Schema)"),
        "properties whose names match '^x-' (of sub)",
        "properties that additionalProperties describes (of the schema)",
        "left out of the rows: properties whose",
        "more, which is required and not described (of the schema)",
        "gone (one of its forms refers to '#/nowhere', which is in no schema",
    ):
        assert words in message
    text = {"any": "a", "both": 1, "old": None, "either": {"z": "1"}}
    rows, _ = decoder.decode(values(b"\0\0\0\0\1" + json.dumps(text).encode()), None)
    row = rows.to_pylist()[0]
    assert [row[name] for name in text] == ['"a"', "1", None, '{"z":"1"}']
    assert caplog.messages == [message]


def test_words_beside_a_reference_are_named_where_they_do_not_count(made: Any) -> None:
    schema = whole({"a": {**BASE, "properties": {"b": TEXT}, "title": "A"}, "c": {**BASE, "title": "C"}})
    decoder, log = made(schema)
    assert decoder.ddl == "`a` STRUCT<`id`: BIGINT, `label`: STRING>, `c` STRUCT<`id`: BIGINT, `label`: STRING>"
    assert "a: properties beside $ref: up to draft 7 they have no meaning" in log
    assert " c" not in log.partition("without effect")[2]
    assert "`b`" in made({**schema, "$schema": DRAFT_2020})[0].ddl


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (whole({"a": {"$ref": "#/properties/a"}}), "a contains itself"),
        ({"$ref": "#"}, "the schema contains itself"),
        ({"allOf": [{"$ref": "#"}], "properties": {"a": TEXT}}, "the schema contains itself"),
        (whole({"a": {"type": "array", "items": {"$ref": "#/properties/a/items"}}}), r"a\[\] contains itself"),
        (whole({"a": {"allOf": [{"$ref": "gone.json"}]}}), "a refers to 'gone.json'"),
        (whole({"a": TEXT}, allOf=[{"$ref": "gone.json"}]), "the schema refers to 'gone.json'"),
    ],
)
def test_what_has_no_columns_is_refused_by_name(made: Any, schema: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words) as raised:
        made(schema)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize(
    ("inner", "ddl", "path"),
    [
        ({"$ref": "#"}, "STRING", "a"),
        ({"oneOf": [NULL, {"$ref": "#"}]}, "STRING", "a"),
        ({"allOf": [{"$ref": "#"}], "description": "d"}, "STRING", "a"),
        ({"type": "array", "items": {"$ref": "#"}}, "ARRAY<STRING>", "a[]"),
        ({"oneOf": [NULL, {"type": "array", "items": {"$ref": "#"}}]}, "ARRAY<STRING>", "a[]"),
        ({"type": "object", "additionalProperties": {"$ref": "#"}}, "MAP<STRING, STRING>", "a{}"),
        (whole({"up": {"$ref": "#"}}), "STRUCT<`up`: STRING>", "a.up"),
        (whole({"next": {"$ref": "#/properties/a"}}), "STRUCT<`next`: STRING>", "a.next"),
    ],
)
def test_a_type_within_itself_is_text(made: Any, inner: Any, ddl: str, path: str) -> None:
    """The rest of the topic keeps its columns."""
    decoder, log = made(whole({"v": WHOLE, "a": inner}))
    assert decoder.ddl == f"`v` BIGINT, `a` {ddl}"
    assert f"{path} (it contains itself)" in log


def test_a_tree_is_read_and_written(made: Any, tmp_path: Path) -> None:
    nodes = {"type": "array", "items": {"$ref": "#/definitions/Node"}}
    node = whole({"v": WHOLE, "nodes": {"oneOf": [NULL, nodes]}})
    schema = {**node, "definitions": {"Node": node}}
    decoder, log = made(schema)
    assert decoder.ddl == "`v` BIGINT, `nodes` ARRAY<STRUCT<`v`: BIGINT, `nodes`: ARRAY<STRING>>>"
    assert "nodes[].nodes[] (it contains itself)" in log
    tree = {"v": 1, "nodes": [{"v": 2, "nodes": [{"v": 3, "nodes": [{"v": 4}]}]}]}
    rows, _ = decoder.decode(values(json.dumps(tree).encode()), None)
    assert rows.to_pylist()[0]["nodes"][0]["nodes"] == ['{"v":3,"nodes":[{"v":4}]}']
    (written,) = make_encoder("json-schema", file(tmp_path, schema)).encode(rows).to_pylist()
    assert json.loads(written) == tree


def test_types_that_lie_too_deep_are_text(made: Any) -> None:
    """Spark plans no deeper ones in reasonable time."""
    deep: Any = {"type": "string"}
    for _ in range(200):
        deep = whole({"a": deep})
    decoder, log = made(whole({"a": deep["properties"]["a"], "v": WHOLE}))
    assert decoder.ddl.endswith(", `v` BIGINT")
    assert "a (nested more than 50 deep)" in log
    data = json.dumps({"v": 7}).encode(), ('{"a":' * 60 + "{}" + "}" * 60).encode()
    first, second = decoder.decode(values(*data), None)[0].to_pylist()
    assert first["v"] == 7
    for _ in range(49):
        second = second["a"]
    assert second == '{"a":' * 11 + "{}" + "}" * 11


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [NULL, {"$ref": "gone.json"}]},
        {"allOf": [{"$ref": "gone.json"}, BASE]},
        {"$ref": "#/definitions/Lost"},
        {"anyOf": [{"$ref": "gone.json"}]},
    ],
)
def test_a_reference_that_leads_nowhere_behind_a_choice_is_text(made: Any, schema: Any) -> None:
    lost = {"allOf": [{"$ref": "gone.json"}, {"properties": {"b": TEXT}}]}
    decoder, log = made({"properties": {"a": schema}, "definitions": {**DEFINITIONS, "Lost": lost}})
    assert "a (refers to 'gone.json', which is in no schema that this one names)" in log
    assert decoder.decode(values(b'{"a": {"b": "c"}}'), None)[0].to_pylist() == [{"a": '{"b":"c"}'}]


def test_parts_that_only_some_forms_have_are_followed_no_further_than_they_can_be(made: Any) -> None:
    schema = whole(
        {"a": TEXT}, oneOf=[{"properties": {"b": {"$ref": "#"}}, "additionalProperties": False}, {"$ref": "gone.json"}]
    )
    decoder, log = made(schema)
    assert decoder.ddl == "`a` STRING, `b` STRING"
    assert "b (in some forms of its object only" in log
    assert "the schema: one of its forms refers to 'gone.json'" in log
    assert decoder.decode(values(b'{"b": {"a": "x"}}'), None)[0].to_pylist() == [{"a": None, "b": '{"a":"x"}'}]


@pytest.mark.parametrize(
    ("schema", "text", "words"),
    [
        ({"oneOf": [NULL, WHOLE]}, '"1"', "a is no integer"),
        ({"oneOf": [NULL, WHOLE]}, "1.5", "a is no integer"),
        ({"oneOf": [NULL, TEXT]}, "1", "a is no string"),
        ({"anyOf": [{"type": "boolean"}, NULL]}, "0", "a is no boolean"),
        ({"type": ["null", "number"]}, '"2"', "a is no number"),
        ({"oneOf": [NULL, {"type": "array", "items": WHOLE}]}, '["1"]', "a is no integer"),
        ({"oneOf": [NULL, {"type": "array", "items": WHOLE}]}, "{}", "a is no array"),
        ({"oneOf": [NULL, BASE]}, "[]", "a is no object"),
        ({"oneOf": [NULL, {"type": "string", "format": "date"}]}, '"soon"', "a is no date"),
        (WHOLE, "9223372036854775808", "a does not fit BIGINT"),
        (WHOLE, "-9223372036854775809", "a does not fit BIGINT"),
        (WHOLE, "9223372036854775808.0", "a does not fit BIGINT"),
        (WHOLE, "1e400", "a is no integer"),
        (WHOLE, "1E999999", "a is no integer"),
        ({"oneOf": [NULL, {"type": "number"}]}, "1e999", "a is too large for DOUBLE"),
        (PROPERTIES["connect_decimal"].schema, "1.234", "Rescaling"),
        (PROPERTIES["connect_decimal"].schema, "true", "a is no decimal"),
        (PROPERTIES["connect_decimal"].schema, '"x"', "a is no decimal"),
        (PROPERTIES["connect_decimal"].schema, "1e30", "precision"),
    ],
)
def test_a_value_that_is_not_of_its_column_has_a_reason(made: Any, schema: Any, text: str, words: str) -> None:
    decoder, _ = made(whole({"a": schema}))
    rows, reasons = decoder.decode(values(f'{{"a": {text}}}'.encode()), None)
    assert not rows[0].is_valid
    assert words in reasons[0].as_py()


@pytest.mark.parametrize(
    "text",
    [
        "1.10",
        "12345678901234567890.12",
        "0.1234567890123456789",
        "1E+999",
        "-0.0",
        '{"a":[1.50,"x",null,true]}',
        '"\\"é"',
    ],
)
def test_json_text_is_the_json_of_the_record(made: Any, text: str) -> None:
    decoder, _ = made(whole({"a": {}}))
    data = f'{{"a":{text}}}'.encode()
    rows, _ = decoder.decode(values(data), None)
    assert rows.to_pylist() == [{"a": text}]
    assert made(whole({"a": {}}), make_encoder)[0].encode(rows).to_pylist() == [data]


def test_numbers_keep_their_digits(made: Any) -> None:
    schema = whole({"a": WHOLE, "b": PROPERTIES["connect_decimal"].schema, "c": {"type": "number"}})
    decoder, _ = made(schema)
    form = b'{"a":%s,"b":%s,"c":%s}'
    signed = base64.b64encode((-1234567890123456789012).to_bytes(10, signed=True))
    rows, reasons = decoder.decode(
        values(
            form % (b"9007199254740993.0", b"1234567890123456789012.34", b"0.1"),
            form % (b"1E18", b'"%s"' % signed, b"2"),
            form % (b"-5", b"3", b"1e3"),
        ),
        None,
    )
    assert reasons.null_count == 3
    assert rows.to_pylist() == [
        {"a": 2**53 + 1, "b": Decimal("1234567890123456789012.34"), "c": 0.1},
        {"a": 10**18, "b": Decimal("-12345678901234567890.12"), "c": 2.0},
        {"a": -5, "b": Decimal(3), "c": 1000.0},
    ]
    encoder, _ = made(schema, make_encoder)
    assert encoder.encode(rows).to_pylist() == [
        form % (b"9007199254740993", b"1234567890123456789012.34", b"0.1"),
        form % (b"1000000000000000000", b"-12345678901234567890.12", b"2.0"),
        form % (b"-5", b"3", b"1000.0"),
    ]


def test_a_decimal_that_spark_has_not_is_text(made: Any) -> None:
    schema = PROPERTIES["connect_decimal"].schema["oneOf"][1] | {"connect.parameters": {"scale": "127"}}
    decoder, log = made(whole({"a": schema}))
    assert "a (a decimal of 38 digits, 127 of them a fraction)" in log
    assert decoder.decode(values(b'{"a": 1.23}'), None)[0].to_pylist() == [{"a": "1.23"}]


def test_parameters_that_say_no_digits_make_no_decimal(made: Any) -> None:
    schema = PROPERTIES["connect_decimal"].schema["oneOf"][1]
    odd = {"a": {**schema, "connect.parameters": {"scale": "?"}}, "b": {**schema, "connect.parameters": 3}}
    assert made(whole(odd))[0].ddl == "`a` DOUBLE, `b` DOUBLE"


def test_a_column_within_one_that_the_schema_lacks_is_refused(made: Any) -> None:
    encoder, _ = made(whole({"a": {"oneOf": [NULL, BASE]}}), make_encoder)
    assert encoder.encode(pa.array([{"a": {"id": 1, "more": None}}])).to_pylist() == [b'{"a":{"id":1}}']
    with pytest.raises(SinkError, match="more is no property of a in the schema"):
        encoder.encode(pa.array([{"a": {"id": 1, "more": 2}}]))


def test_text_that_is_no_json_is_not_written(made: Any) -> None:
    encoder, log = made(whole({"a": {}}), make_encoder)
    assert "a (no type)" in log
    for text in ("plain", "NaN", "{"):
        with pytest.raises(SinkError, match="cannot be written as json-schema"):
            encoder.encode(pa.array([{"a": text}]))


@pytest.mark.parametrize("word", ["$id", "id"])
def test_a_reference_by_name_in_a_schema_with_an_id(stub: RegistryStub, word: str) -> None:
    stub.add("sub", {"type": "object", "properties": {"x": {"oneOf": [NULL, WHOLE]}}}, "JSON")
    draft = "http://json-schema.org/draft-07/schema#" if word == "$id" else "http://json-schema.org/draft-04/schema#"
    outer = {"$schema": draft, word: "http://example.com/schemas/outer.json", "properties": {"s": {"$ref": "sub.json"}}}
    stub.add("t-value", outer, "JSON", [{"name": "sub.json", "subject": "sub", "version": 1}])
    options = {"registry": stub.url, "topic": "t", "validate": "true"}
    decoder: Any = make_decoder("json-schema", options)
    assert decoder.ddl == "`s` STRUCT<`x`: BIGINT>"
    assert decoder.decode(values(b'\0\0\0\0\2{"s": {"x": 1}}'), None)[0].to_pylist() == [{"s": {"x": 1}}]


def test_a_reference_is_relative_to_the_part_that_has_an_id(made: Any) -> None:
    inner = {
        "$id": "http://example.com/inner.json",
        "properties": {"b": {"$ref": "#/definitions/T"}},
        "definitions": {"T": WHOLE},
    }
    decoder, _ = made({"$id": "http://example.com/outer.json", "properties": {"a": inner}, "definitions": {"T": TEXT}})
    assert decoder.ddl == "`a` STRUCT<`b`: BIGINT>"


def test_many_types_that_contain_each_other(made: Any) -> None:
    """Health records of FHIR and syntax trees have such: each way through them would be columns of its own."""
    names = [f"T{number}" for number in range(30)]
    fields: dict[str, Any] = {"id": WHOLE, **{name: {"$ref": f"#/definitions/{name}"} for name in names}}
    flat = whole({"x": TEXT})
    schema = {
        **{
            "type": "object",
            "properties": {"id": WHOLE, "first": fields["T0"], "flat": {"$ref": "#/definitions/Flat"}},
        },
        "definitions": {"Flat": flat, **{name: {"type": "object", "properties": fields} for name in names}},
    }
    decoder, log = made(schema)
    assert decoder.ddl == "`id` BIGINT, `first` STRING, `flat` STRUCT<`x`: STRING>"
    assert "first (it contains itself)" in log
    value = {"id": 1, "first": {"T3": {"T4": {"id": 2}}}, "flat": {"x": "a"}}
    (row,) = decoder.decode(values(json.dumps(value).encode()), None)[0].to_pylist()
    assert row == {**value, "first": '{"T3":{"T4":{"id":2}}}'}


def tower(floor: Any) -> dict[str, Any]:
    """Return the schema of a property `a`, whose definition is made of the next one, and so on."""
    floors = {f"T{number}": floor({"$ref": f"#/definitions/T{number + 1}"}) for number in range(60)}
    top = {"type": "object", "properties": {"a": {"$ref": "#/definitions/T0"}}}
    return {**top, "definitions": {**floors, "T60": DEFINITIONS["Base"]}}


@pytest.mark.parametrize(
    "floor",
    [
        lambda after: {"oneOf": [after, {"allOf": [after, {"title": "x"}]}]},
        lambda after: {"allOf": [after, {"anyOf": [after, after]}]},
    ],
)
def test_a_short_schema_with_endless_combinations(made: Any, floor: Any) -> None:
    assert made(tower(floor))[0].ddl == "`a` STRUCT<`id`: BIGINT, `label`: STRING>"


def test_endless_types_in_parts(made: Any) -> None:
    with pytest.raises(SchemaError, match="take a smaller schema"):
        made(tower(lambda after: {"properties": {"x": after, "y": after}, "allOf": [{"properties": {"x": after}}]}))
