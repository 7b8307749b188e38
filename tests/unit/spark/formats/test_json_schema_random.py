"""Schemas and values made at random: each value that a schema admits is a row, with everything that is in it."""

from __future__ import annotations

import json
import logging
import random
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator, FormatChecker

from pykafka.exceptions import SchemaError
from pykafka.spark.formats import make_decoder
from tests.support.formats import file, values
from tests.support.jsonrows import differences

DRAFT_7, DRAFT_2020 = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"
#: Properties that values have beyond their schemas.
NEVER_NAMED = tuple(f".{name} is lost" for name in "kxyz")
SCALARS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": ["string", "null"]},
    {"type": ["integer", "null"], "title": "N"},
    {"enum": ["a", "b", None]},
    {"enum": [1, 2]},
    {"const": "a"},
    {"const": None},
    {"type": ["string", "integer"]},
    {"type": "null", "title": "Not included"},
    {},
]


FORMATS = FormatChecker(())
FORMATS.checks("date", ValueError)(lambda one: not isinstance(one, str) or bool(date.fromisoformat(one)))
FORMATS.checks("date-time", ValueError)(
    lambda one: not isinstance(one, str) or datetime.fromisoformat(one).tzinfo is not None
)


class Makers:
    """Makes schemas, and values that may be of them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.definitions: dict[str, Any] = {}

    def main(self) -> dict[str, Any]:
        chance = self._chance
        for name in "AB":
            self.definitions[name] = self.schema(2)
        dialect = chance.choice([DRAFT_7, DRAFT_2020])
        return {"$schema": dialect, **self.object(4), "definitions": self.definitions}

    def schema(self, depth: int) -> dict[str, Any]:
        chance = self._chance
        if depth <= 0 or chance.random() < 0.35:
            return dict(chance.choice(SCALARS))
        if chance.random() < 0.25:
            return (
                {"$ref": f"#/definitions/{chance.choice(list(self.definitions) or ['A'])}"} if self.definitions else {}
            )
        if chance.random() < 0.2:
            return {"type": "array", "items": self.schema(depth - 1)}
        if chance.random() < 0.05:
            return {"type": "array", "prefixItems": [self.schema(depth - 1)], "items": self.schema(depth - 1)}
        if chance.random() < 0.15:
            patterns = {"patternProperties": {"^x": self.schema(depth - 1)}} if chance.random() < 0.3 else {}
            return {"type": "object", "additionalProperties": self.schema(depth - 1), **patterns}
        if chance.random() < 0.4:
            if chance.random() < 0.3:
                return {"allOf": [self.schema(depth - 1), {"title": "T"}]}
            return {chance.choice(["oneOf", "anyOf"]): [self.schema(depth - 1) for _ in range(chance.randint(1, 3))]}
        if chance.random() < 0.4:
            null = chance.choice([{"type": "null"}, {"type": "null", "description": "none"}, {"const": None}])
            both = [null, self.schema(depth - 1)]
            chance.shuffle(both)
            return {chance.choice(["oneOf", "anyOf"]): both}
        return self.object(depth - 1)

    def object(self, depth: int) -> dict[str, Any]:
        chance = self._chance
        found: dict[str, Any] = {"type": "object", "properties": self.properties(depth)}
        if chance.random() < 0.3:
            found["allOf"] = [self.inner(depth) for _ in range(chance.randint(1, 2))]
        if chance.random() < 0.2:
            found[chance.choice(["oneOf", "anyOf"])] = [self.inner(depth) for _ in range(2)]
        if chance.random() < 0.15:
            found |= {"if": {"required": ["a"]}, "then": self.inner(depth), "else": self.inner(depth)}
        if chance.random() < 0.1:
            found["dependentSchemas" if chance.random() < 0.5 else "dependencies"] = {"a": self.inner(depth)}
        if chance.random() < 0.1:
            found["additionalProperties"] = False
        return found

    def inner(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {"properties": self.properties(depth)}
        if self._chance.random() < 0.3:
            found["additionalProperties"] = False
        return found if self._chance.random() < 0.8 else {"required": ["a"]}

    def properties(self, depth: int) -> dict[str, Any]:
        return {name: self.schema(depth - 1) for name in self._chance.sample("abcdef", self._chance.randint(1, 3))}

    def value(self, schema: Any) -> Any:
        chance = self._chance
        if "$ref" in schema:
            return self.value(self.definitions[schema["$ref"][-1]])
        found: Any = None
        parts = [*schema.get("allOf", ())]
        parts += [chance.choice(schema[word]) for word in ("oneOf", "anyOf") if word in schema]
        parts += [schema[chance.choice(["then", "else"])]] if "if" in schema else []
        for word in ("dependentSchemas", "dependencies"):
            parts += schema.get(word, {}).values()
        if "properties" in schema:
            found = {name: self.value(one) for name, one in schema["properties"].items() if chance.random() < 0.7}
        elif "const" in schema or "enum" in schema:
            found = chance.choice(schema.get("enum", [schema.get("const")]))
        elif "type" in schema:
            found = self._of_type(schema)
        elif not parts:
            found = chance.choice([1, "x", 1.5, None, [1, {"k": "v"}], {"k": 1}])
        for one in parts:
            other = self.value(one)
            found = {**other, **found} if isinstance(found, dict) and isinstance(other, dict) else found or other
        return found

    def _of_type(self, schema: Any) -> Any:
        chance = self._chance
        kind = schema["type"] if isinstance(schema["type"], str) else chance.choice(schema["type"])
        if kind == "array":
            first = [self.value(one) for one in schema.get("prefixItems", ())]
            return first + [self.value(schema["items"]) for _ in range(chance.randint(0, 2))]
        if kind == "object":
            return {
                name: self.value(schema["additionalProperties"]) for name in chance.sample("xyz", chance.randint(0, 2))
            }
        if kind == "string":
            return {"date": "2024-02-03", "date-time": "2024-02-03T04:05:06+00:00"}.get(
                schema.get("format"), chance.choice("ab")
            )
        found: Any = {
            "integer": chance.randint(-9, 9),
            "number": chance.choice([1, 2.5]),
            "boolean": True,
            "null": None,
        }[kind]
        return found


@pytest.mark.parametrize("seed", range(4))
def test_each_value_of_a_schema_is_a_row(tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    chance = random.Random(seed)
    count, refused = 0, list[str]()
    for _ in range(200):
        makers = Makers(chance)
        schema = makers.main()
        kind = Draft7Validator if schema["$schema"] == DRAFT_7 else Draft202012Validator
        check = kind(schema, format_checker=FORMATS)
        good = [one for one in (makers.value(schema) for _ in range(40)) if check.is_valid(one)]
        caplog.clear()
        try:
            with caplog.at_level(logging.WARNING):
                decoder: Any = make_decoder("json-schema", file(tmp_path, schema))
        except SchemaError as error:
            refused.append(str(error))
            continue
        rows, reasons = decoder.decode(values(*(json.dumps(one).encode() for one in good)), None)
        assert reasons.null_count == len(good), (schema, good, reasons)
        texts = set(re.findall(r"([\w.{}\[\]]+) \(", caplog.text))
        for one, row in zip(good, rows.to_pylist(), strict=True):
            found = [each for each in differences(rows.type, row, one, "", texts) if not each.endswith(NEVER_NAMED)]
            assert not found, (schema, one, row, caplog.text)
            count += 1
    assert count > 500
    assert all("contains itself" in why for why in refused)
