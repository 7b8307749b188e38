"""Random schemas, versions of them, and records: rows are what fastavro reads with the same two schemas."""

from __future__ import annotations

import json
import random
import struct
from datetime import UTC, datetime, time
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from pykafka.exceptions import SchemaError
from pykafka.registry.schemas import AVRO, Schema
from pykafka.spark.formats import make_decoder
from tests.support.formats import file, values

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
PLACES = {"millis": 10**3, "micros": 10**6}
COUNTED = [
    {"type": "int", "logicalType": "date"},
    *({"type": "long", "logicalType": f"{local}timestamp-{unit}"} for local in ("", "local-") for unit in PLACES),
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
]
#: What each may become in another version; the last one of some is none of Avro's.
OTHERS: dict[str, list[Any]] = {
    "int": ["long", "float", "double", ["null", "int"], ["int", "long"], "string"],
    "long": ["float", "double", ["null", "long"], ["int", "long"], "int"],
    "float": ["double", ["float", "double"], ["null", "float"], "long"],
    "double": [["null", "double"], "float"],
    "string": ["bytes", ["null", "bytes"], ["string", "null"]],
    "bytes": ["string", ["null", "string"], "int"],
}
DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 2**40,
    "float": 1.5,
    "double": 3,
    "bytes": "ÿ",
    "string": "ä",
}
#: What fastavro refuses even where an array or a map has no item.
EAGER = ("{'type': 'map'", "{'type': 'array'")


class Maker:
    """Makes schemas, other versions of them, and records, by chance.

    :param seed: of the chance
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.count = 0

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def schema(self, depth: int) -> Any:
        chance = self.chance
        match chance.randrange(10 if depth > 0 else 6):
            case 0:
                return dict(chance.choice(COUNTED))
            case 1:
                digits = chance.randint(1, 38)
                return {
                    **{"type": "bytes", "logicalType": "decimal", "precision": digits},
                    "scale": chance.randint(0, digits),
                }
            case 2:
                symbols = [f"S{number}" for number in range(chance.randint(1, 5))]
                return {"type": "enum", "name": self.name("E"), "symbols": symbols}
            case 6:
                return {"type": "array", "items": self.schema(depth - 1)}
            case 7:
                return {"type": "map", "values": self.schema(depth - 1)}
            case 8:
                inner = self.schema(depth - 1)
                left = "long" if inner == "null" or isinstance(inner, list) else inner
                return chance.choice(
                    [["null", left], [left, "null"], [left], chance.sample(PRIMITIVES, 3), self.union(depth)]
                )
            case 9:
                return self.record(depth)
        return chance.choice([*PRIMITIVES, {"type": "fixed", "name": self.name("F"), "size": chance.randint(1, 16)}])

    def union(self, depth: int) -> Any:
        """Return a union of several types, of different kinds; without logical types, which fastavro makes no mere numbers."""
        kinds = {
            str(one["type"] if isinstance(one, dict) else one): one
            for one in (self.schema(depth - 1) for _ in range(5))
        }
        left = [
            one
            for kind, one in kinds.items()
            if kind != "null" and not isinstance(one, list) and "logicalType" not in one
        ]
        return left if len(left) > 1 else ["int", "string"]

    def record(self, depth: int) -> Any:
        fields = [{"name": f"f{n}", "type": self.schema(depth - 1)} for n in range(self.chance.randint(1, 5))]
        return {"type": "record", "name": self.name("R"), "namespace": self.chance.choice("ab"), "fields": fields}

    def version(self, schema: Any) -> Any:
        """Return another version of a schema."""
        chance = self.chance
        changed = chance.random() < 0.2
        if isinstance(schema, str):
            return chance.choice(OTHERS.get(schema, [schema])) if changed else schema
        if isinstance(schema, list):
            left = [one for one in schema if one != "null"]
            return chance.sample(["null", chance.choice(left)], 2)
        kind = schema["type"]
        if kind == "record":
            return {**schema, "fields": self.fields(schema["fields"])}
        if kind == "array":
            return {**schema, "items": self.version(schema["items"])}
        if kind == "map":
            return {**schema, "values": self.version(schema["values"])}
        if kind == "enum" and changed:
            symbols = [*schema["symbols"][1:], "NEW"]
            return {**schema, "symbols": symbols, **({"default": "NEW"} if chance.random() < 0.5 else {})}
        return ["null", schema] if changed else schema

    def fields(self, fields: Any) -> list[Any]:
        chance, made = self.chance, list[Any]()
        for one in fields:
            name, kind = one["name"], self.version(one["type"])
            match chance.randrange(8):
                case 0:
                    continue
                case 1:
                    made.append({"name": f"n_{name}", "aliases": [name, "z"], "type": kind})
                case _:
                    made.append({"name": name, "type": kind})
        for _ in range(chance.choice([0, 1, 2]) if made else 1):
            kind = chance.choice(PRIMITIVES)
            default = {} if chance.random() < 0.1 else {"default": DEFAULTS[kind]}
            made.append({"name": self.name("new"), "type": kind, **default})
        return chance.sample(made, len(made))

    def data(self, schema: Any) -> bytes:
        """Return the bytes of some value."""
        chance = self.chance
        if isinstance(schema, list):
            index = chance.randrange(len(schema))
            return number(index) + self.data(schema[index])
        kind = schema if isinstance(schema, str) else schema["type"]
        match kind:
            case "null":
                return b""
            case "boolean":
                return bytes([chance.randrange(2)])
            case "int" | "long":
                return number(self.whole(schema, 31 if kind == "int" else 63))
            case "float":
                return chance.choice([struct.pack("<f", chance.uniform(-9, 9)), chance.randbytes(4)])
            case "double":
                return chance.choice([struct.pack("<d", chance.uniform(-9, 9)), chance.randbytes(8)])
            case "string" | "bytes":
                text = chance.choice(["", "a", "ä€😀", "x" * 200, "\0"]).encode()
                if isinstance(schema, dict):  # a decimal
                    limit = 10 ** schema["precision"]
                    text = chance.randint(1 - limit, limit - 1).to_bytes(chance.randint(16, 18), "big", signed=True)
                return number(len(text)) + text
            case "fixed":
                return chance.randbytes(schema["size"])
            case "enum":
                return number(chance.randrange(len(schema["symbols"])))
            case "record":
                return b"".join(self.data(one["type"]) for one in schema["fields"])
        return self.blocks(schema)

    def whole(self, schema: Any, bits: int) -> int:
        chance = self.chance
        logical = schema["logicalType"] if isinstance(schema, dict) else ""
        if logical == "date":
            return chance.randint(-700_000, 2_900_000)
        if logical:
            many = PLACES[logical.rpartition("-")[2]]
            first, last = (0, 86_399) if logical.startswith("time-") else (-62_135_596_800, 253_402_300_799)
            return chance.randint(first * many, last * many)
        limit = 1 << bits
        return chance.choice([0, -1, 2**24 + 1, limit - 1, -limit, chance.randint(-limit, limit - 1)])

    def blocks(self, schema: Any) -> bytes:
        made = b""
        for _ in range(self.chance.choice([0, 1, 1, 2])):
            count, items = self.chance.randint(1, 3), b""
            for _ in range(count):
                if schema["type"] == "map":
                    items += number(8) + self.chance.randbytes(4).hex().encode()
                items += self.data(schema["values" if schema["type"] == "map" else "items"])
            made += (number(-count) + number(len(items)) if self.chance.random() < 0.5 else number(count)) + items
        return made + b"\0"


def number(value: int) -> bytes:
    left, made = (value << 1) ^ (value >> 63), bytearray()
    while left > 127:
        made.append(left & 127 | 128)
        left >>= 7
    return bytes([*made, left])


def comparable(value: Any, kind: pa.DataType) -> Any:
    """Return a value of fastavro's, or of a row, in one form."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(n) for n in range(kind.num_fields)]
        if fields[0].name == "member0":
            return of_member(value, fields)
        return {one.name: comparable(value[one.name], one.type) for one in fields}
    if pa.types.is_list(kind):
        return [comparable(one, kind.value_type) for one in value]
    if pa.types.is_map(kind):
        return {key: comparable(one, kind.item_type) for key, one in dict(value).items()}
    if isinstance(value, time):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
        return micros // 1000 if pa.types.is_int32(kind) else micros
    if pa.types.is_binary(kind) and isinstance(value, str):  # a default, which fastavro leaves as JSON has it
        return value.encode("latin-1")
    if pa.types.is_floating(kind):  # NaN, and the sign of 0, are to be the same
        return repr(pa.array([float(value)], kind)[0].as_py())
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return (type(value).__name__, value) if isinstance(value, bool) else value


def of_member(value: Any, fields: list[pa.Field]) -> Any:
    """Return a value of a union: the only one of a row, or what it can be of one of fastavro's."""
    if isinstance(value, dict) and "member0" in value:
        (there,) = [one for one in fields if value[one.name] is not None]
        return comparable(value[there.name], there.type)
    fitting = [one for one in fields if fits(value, one.type)]
    return comparable(value, fitting[0].type)


def fits(value: Any, kind: pa.DataType) -> bool:
    """Return whether a value of fastavro's is of a type; long and double before int and float, which print the same."""
    if isinstance(value, dict):
        return bool(pa.types.is_map(kind) or (pa.types.is_struct(kind) and value.keys() == {one.name for one in kind}))
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    alike = ((str, pa.types.is_string), (bool, pa.types.is_boolean), (datetime, pa.types.is_timestamp))
    return all(isinstance(value, one) == is_one(kind) for one, is_one in alike)


def read(old: Any, new: Any, data: bytes) -> Any:
    """Return what fastavro reads, or its error."""
    writer, reader = (fastavro.parse_schema(json.loads(json.dumps(one))) for one in (old, new))
    try:
        return fastavro.schemaless_reader(BytesIO(data), writer, reader)
    except Exception as error:  # noqa: BLE001 - it raises many kinds
        return error


def test_rows_are_what_fastavro_reads(tmp_path: Path) -> None:
    same, refused, unfit = 0, 0, list[str]()
    for seed in range(300):
        maker = Maker(seed)
        old = maker.record(3)
        new = maker.version(old)
        try:
            decoder: Any = make_decoder("avro", file(tmp_path, new))
            decoder.decode(values(), None)
            decoder._readers[b""] = decoder._reader(Schema(AVRO, json.dumps(old)), None)
        except SchemaError as error:
            unfit.append(str(error))
            continue
        data = [maker.data(old) for _ in range(10)]
        rows, reasons = decoder.decode(values(*data), None)
        rows.validate(full=True)
        for one, row, why in zip(data, rows.to_pylist(), reasons.to_pylist(), strict=True):
            theirs = read(old, new, one)
            shown = f"seed {seed}: {why}\n{json.dumps(old)}\n{json.dumps(new)}\n{one.hex()}"
            if isinstance(theirs, Exception):
                assert why is not None or any(part in str(theirs) for part in EAGER), shown
                refused += 1
            else:
                assert why is None, shown
                assert comparable(row, rows.type) == comparable(theirs, rows.type), shown
                same += 1
    assert all("items have no bytes" in why for why in unfit), unfit
    assert same > 500
    assert refused > 100
