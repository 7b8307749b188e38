"""Values made at random, some of which do not fit: what the quick test lets through is what fastavro's own check takes."""

from __future__ import annotations

import json
import random
from datetime import date
from decimal import Decimal
from typing import Any

from fastavro.validation import validate
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka.registry.avro import parsed, written
from pykafka.registry.avro_exactness import exactness
from pykafka.registry.schemas import AVRO, Schema

PLAIN: dict[str, Any] = {
    **{"int": 5, "long": 2**40, "boolean": True, "string": "x", "bytes": b"y"},
    **{"double": 1.5, "float": 2.0, "null": None},
}
LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
]
MISFITS = [1.5, "false", 2**40, 2**70, None, b"x", True, 7, {}, [], Decimal("1.5"), {"a": 1}, [None]]


class Maker:
    """Schemas, and values that nearly always fit them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._records = 0

    def schema(self, depth: int = 0) -> Any:
        kind = self._random.choice([*PLAIN, "logical", *(["record", "record", "array", "map", "union"] * (depth < 3))])
        if kind == "logical":
            return self._random.choice(LOGICAL)
        if kind == "record":
            return self._record(depth)
        if kind in ("array", "map"):
            return {"type": kind, "items" if kind == "array" else "values": self.schema(depth + 1)}
        if kind == "union":
            return self._random.sample(["null", "long", "string", "boolean", "double"], 3)
        return kind

    def _record(self, depth: int) -> Any:
        self._records += 1
        name = f"R{self._records}"
        types = [self.schema(depth + 1) for _ in range(self._random.randint(1, 3))]
        types += self._random.choice([[], [["null", name]], [{"type": "array", "items": name}]])
        return {
            "type": "record",
            "name": name,
            "fields": [{"name": f"f{at}", "type": one} for at, one in enumerate(types)],
        }

    def value(self, tree: Any, names: dict[str, Any], depth: int = 0) -> Any:
        if self._random.random() < 0.05:
            return self._random.choice(MISFITS)
        tree = self._random.choice(tree) if isinstance(tree, list) else tree
        tree = names.get(tree, tree) if isinstance(tree, str) else tree
        kind = tree["type"] if isinstance(tree, dict) else tree
        if isinstance(tree, dict) and "logicalType" in tree:
            return self._random.choice([date(2026, 11, 26), 17]) if kind == "int" else Decimal("1.25")
        if kind == "record":
            fields = [one for one in tree["fields"] if self._random.random() > 0.03]
            return {one["name"]: self.value(one["type"], names, depth + 1) for one in fields}
        count = self._random.randint(0, 2 if depth < 6 else 0)
        if kind == "array":
            return [self.value(tree["items"], names, depth + 1) for _ in range(count)]
        if kind == "map":
            return {str(at): self.value(tree["values"], names, depth + 1) for at in range(count)}
        return PLAIN[kind]


def outcome(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - any: of fastavro, or of a value that is something else
        return error


@given(seed=st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_what_passes_quickly_fits(seed: int) -> None:
    maker = Maker(seed)
    schema = parsed(Schema(AVRO, json.dumps(maker.schema())), {})
    is_exact = exactness(schema.tree, schema.names)
    for _ in range(5):
        value = maker.value(schema.tree, schema.names)
        if outcome(is_exact, value) is True and isinstance(outcome(written, value, schema.tree), bytes):
            assert outcome(validate, value, schema.tree, None, False) is True
