"""Keys and values of records: framings of a schema registry, Avro, Protobuf, JSON Schema, and the plain deserializers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from pykafka.exceptions import KafkaException
from pykafka.registry.avro import _loaded, check_bounded, is_recursive, parsed
from pykafka.registry.schemas import AVRO, Schema, read_header, read_id, read_indexes, with_id, with_indexes
from pykafka.serialization import builtin
from pykafka.spark.formats import make_decoder
from pykafka.spark.formats.decoder import Decoder
from tests.fuzz.judge import Target, UnstableError
from tests.fuzz.targets.traps import json_traps
from tests.support.formats import JSON_SCHEMA, PROTO

_PLAIN: list[builtin.Deserializer[Any]] = [
    builtin.StringDeserializer(),
    builtin.JsonDeserializer(),
    builtin.ShortDeserializer(),
    builtin.IntegerDeserializer(),
    builtin.LongDeserializer(),
    builtin.BytesDeserializer(),
]
_RECORD: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "raw", "type": "bytes"},
        {"name": "sum", "type": {"type": "fixed", "name": "F", "size": 4}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ratio", "type": ["double", "boolean", "float"]},
    ],
}


def framing(data: bytes) -> object:
    """Read the id, the header, or the path to a message; what was read is written the same."""
    if not data:
        return None
    kind, rest = data[0] % 3, data[1:]
    if kind == 0:
        found, at = read_id(rest)
        if with_id(found) != rest[:at]:
            raise UnstableError(f"id {found} is written as {with_id(found)!r}")
        return found, at
    if kind == 1:
        return read_header(rest)
    path, at = read_indexes(rest, 0)
    if read_indexes(with_indexes(path), 0)[0] != path:
        raise UnstableError(f"path {path} is written as {with_indexes(path)!r}")
    return path, at


def plain(data: bytes) -> object:
    """Read a value as text, as JSON, or as a number."""
    if not data:
        return None
    try:
        return _PLAIN[data[0] % len(_PLAIN)](data[1:])
    except ValueError as error:  # of any kind, as promised: the consumer puts the record's place around it
        return type(error).__name__


@cache
def _decoder(kind: str) -> Decoder:
    """Return the decoder of Spark's columns for a kind of schema."""
    texts = {"avro": json.dumps(_RECORD), "protobuf": PROTO, "json-schema": json.dumps(JSON_SCHEMA)}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "schema")
        path.write_text(texts[kind], encoding="utf-8")
        options = {"schema_file": str(path)} | ({"message": "shop.Order"} if kind == "protobuf" else {})
        return make_decoder(kind, options)


def _plain_rows(column: pa.Array) -> pa.Array:
    """Return a column with numbers in place of times, which Python's calendar may lack."""
    kind = column.type
    if pa.types.is_temporal(kind):
        return column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    if pa.types.is_struct(kind):
        parts = [_plain_rows(column.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, [field.name for field in kind], mask=column.is_null())
    return column


def rows(kind: str, data: bytes) -> object:
    """Read a record into a row; a reason stands for a row that cannot be read."""
    values = pa.array([data, data], pa.binary())
    found, reasons = _decoder(kind).decode(values, None)
    found.validate(full=True)
    first, second = zip(_plain_rows(found).to_pylist(), reasons.to_pylist(), strict=True)
    if repr(first) != repr(second):
        raise UnstableError(f"one record reads as {first!r:.300} and as {second!r:.300}")
    return first


def avro_schema(data: bytes) -> object:
    """Parse the text of a schema of Avro, as a registry has it."""
    found = parsed(Schema(AVRO, data.decode(errors="replace")), {})
    check_bounded(found)
    return is_recursive(found), repr(_loaded(Schema(AVRO, data.decode(errors="replace"))))


def spark_schema(data: bytes) -> object:
    """Make the decoder of a schema of Avro, or of JSON Schema; the first byte has the kind."""
    if not data:
        return None
    with tempfile.NamedTemporaryFile() as file:
        file.write(data[1:])
        file.flush()
        try:
            return make_decoder(("avro", "json-schema")[data[0] & 1], {"schema_file": file.name}).ddl
        except KafkaException as error:
            return str(error).replace(file.name, "FILE")


def _framings() -> Iterator[bytes]:
    yield b"\0" + with_id(7)
    yield b"\1\0\0\0\0\7"
    yield b"\1\1" + bytes(range(16))
    for path in ((0,), (1, 2), (0, 0, 5)):
        yield b"\2" + with_indexes(path)


def _plain_seeds() -> Iterator[bytes]:
    for kind, text in enumerate((b"text", b'{"a": [1, 2.5, null]}', b"\0\1", b"\0\0\0\1", bytes(8), b"x")):
        yield bytes([kind]) + text
    yield from (b"\1" + text for text in json_traps({"a": 1}))


def _avro() -> Iterator[bytes]:
    yield b"\x02\x00\x02\x02a\x00\x02\x02k\x02\x00\x00\x04ab" + b"abcd" + b"\x02\x01" + b"\x02" * 2 + b"\x00" + bytes(8)
    yield b"\x02\x02\x02a\x00\x00\x02\x00" + b"abcd" + b"\x02\x01" + b"\x02" * 2 + b"\x02\x01"


def _protobuf() -> Iterator[bytes]:
    yield b"\x08\x05\x12\x02me\x1a\x04\x08\x01\x10\x02\x22\x01t\x2a\x05\x0a\x01k\x10\x03\x30\x01"
    yield b"\x39" + bytes(8) + b"\x42\x02\x08\x07\x4a\x02\x08\x01\x52\x03\x0a\x01n\x5a\x04\x08\x01\x12\x00\x62\x01l"


def _json() -> Iterator[bytes]:
    yield b'{"id": 1, "score": 2.5, "at": "2024-01-02T03:04:05Z", "day": "2024-01-02", "tags": ["a"], "counts": {"k": 1}}'
    yield b'{"id": 1e3, "any": [1, {"a": null}], "sub": {}, "choice": "a"}'
    yield from json_traps(
        {"id": 1, "score": 2.5, "at": "2024-01-02T03:04:05Z", "day": "2024-01-02", "any": 1, "choice": "a"}
    )


def _avro_schemas() -> Iterator[bytes]:
    yield from (json.dumps(_RECORD).encode(), b'["null", "long"]', b"string")
    for field in _RECORD["fields"]:
        yield json.dumps({"type": "record", "name": "R", "fields": [field]}).encode()
    yield from json_traps({"type": "fixed", "name": "F", "size": 4}, {"type": "enum", "name": "K", "symbols": ["A"]})
    yield from json_traps({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, depths=())
    for part in (b'{"type":"array","items":', b'{"type":"map","values":'):
        yield from (part * depth + b'"int"' + b"}" * depth for depth in (50, 150))


def _spark_schemas() -> Iterator[bytes]:
    yield from (b"\0" + text for text in _avro_schemas())
    yield from (b"\1" + text for text in json_traps(JSON_SCHEMA))
    yield from (b"\1" + b'{"properties":{"a":' * depth + b"{}" + b"}}" * depth for depth in (50, 150))
    yield b"\1" + json.dumps(JSON_SCHEMA).encode()
    decimal = {"title": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2"}}
    yield b"\1" + json.dumps({"properties": {"a": {"type": "number", **decimal}}}).encode()


def _of_rows(kind: str, seeds: Callable[[], Iterator[bytes]]) -> Target:
    return Target(f"{kind}-rows", partial(rows, kind), seeds)


TARGETS = [
    Target("framing", framing, _framings, (ValueError,)),
    Target("deserializers", plain, _plain_seeds),
    _of_rows("avro", _avro),
    _of_rows("protobuf", _protobuf),
    _of_rows("json-schema", _json),
    Target("avro-schemas", avro_schema, _avro_schemas),
    Target("spark-schemas", spark_schema, _spark_schemas),
]
