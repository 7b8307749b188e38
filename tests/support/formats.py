"""Schemas, records and columns for tests of Avro, Protobuf and JSON Schema."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import message_factory

from pykafka.registry import protobuf
from pykafka.registry.schemas import PROTOBUF, Schema
from pykafka.spark.formats.decoder import Decoder

CLICK = {
    "type": "record",
    "name": "Click",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": ["null", "string"], "default": None}],
}


NEWER = {**CLICK, "fields": [*CLICK["fields"], {"name": "pages", "type": "int", "default": 7}]}


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1; string who = 2; google.protobuf.Timestamp at = 3; repeated string tags = 4; map<string, int32> counts = 5;
  enum Kind { NONE = 0; BIG = 1; }
  Kind kind = 6; optional double price = 7;
  message Item { uint64 number = 1; bytes raw = 2; }
  Item first = 8; repeated Item items = 9; google.protobuf.StringValue note = 10; map<int32, Item> by_number = 11;
  oneof either { string left = 12; int32 right = 13; }
}
message Other { int32 z = 1; }
"""


JSON_SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "score": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
        "sub": {"$ref": "#/definitions/Sub"},
        "choice": {"oneOf": [{"type": "null"}, {"type": "string", "enum": ["a", "b"]}]},
    },
    "definitions": {"Sub": {"type": "object", "properties": {"yes": {"type": "boolean"}}}},
}


#: The column of headers.
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def avro_bytes(schema: Any, row: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return stream.getvalue()


def proto_class(text: str, name: str = "A") -> Any:
    """Return the class of a message, by the protobuf library itself."""
    return message_factory.GetMessageClass(protobuf.compiled(Schema(PROTOBUF, text), {}).named(name))


def values(*data: bytes | None) -> pa.Array:
    return pa.array(data, pa.binary())


def arrow_of(decoder: Decoder) -> pa.StructType:
    """Return the type of a decoder's rows."""
    return decoder.decode(values(), pa.array([], HEADERS))[0].type


def file(tmp_path: Path, schema: Any) -> dict[str, str]:
    path = tmp_path / "schema"
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return {"schema_file": str(path)}


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}


def order() -> dict[str, Any]:
    return {
        **{"id": 5, "who": "me", "at": datetime(2024, 1, 2, 3, 4, 5, 6, UTC), "tags": ["a", "b"], "counts": [("k", 3)]},
        **{"kind": "BIG", "price": None, "first": {"number": Decimal(2**64 - 1), "raw": b"z"}},
        **{"items": [{"number": Decimal(1), "raw": b""}], "note": "n", "left": None, "right": 7},
        "by_number": [(3, {"number": Decimal(4), "raw": b"q"})],
    }
