"""Avro: rows by the reader's schema, whatever schema they were written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from pykafka.exceptions import SchemaError
from pykafka.registry import avro
from pykafka.registry.schemas import Schema
from pykafka.spark.errors import SinkError
from pykafka.spark.formats.arrowtypes import Bounds, decimal, settled
from pykafka.spark.formats.avromembers import Unions, member, member_columns, members, merged
from pykafka.spark.formats.avroplan import ColumnRows
from pykafka.spark.formats.decoder import Decoder, Read
from pykafka.spark.formats.encoder import Encoder, Write
from pykafka.spark.formats.options import recursion_refused

#: The field of rows whose schema is no record.
VALUE = "value"
_PRIMITIVE = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}


class AvroDecoder(Decoder):
    """Rows of one schema of Avro; records of its other versions are resolved to it, as Avro says."""

    def _arrow(self) -> pa.StructType:
        assert self.schema is not None
        parsed = avro.parsed(self.schema, self.needed)
        with avro.refused():
            kind = _Types(parsed.names, self.side.max_depth).of(parsed.tree, "the schema", {})
            avro.check_bounded(parsed)
            if kind is None:
                raise SchemaError("the schema has nothing but types within themselves, deeper than rows may have them")
            self._is_record = pa.types.is_struct(kind)
            return kind if self._is_record else pa.struct([(VALUE, kind)])

    def _new_rows(self) -> ColumnRows:
        assert self.schema is not None
        reader = avro.parsed(self.schema, self.needed)
        return ColumnRows(reader, settled(self._kind), None if self._is_record else VALUE)

    def _reader(self, schema: Schema | None, path: bytes | None) -> Read:
        assert self.schema is not None
        assert isinstance(self._rows, ColumnRows)
        if schema is None or schema == self.schema:
            return self._rows.parser(avro.parsed(self.schema, self.needed))
        writer = avro.parsed(schema, self._needed(schema))
        with avro.refused():
            avro.check_bounded(writer)
            return self._rows.parser(writer)


class AvroEncoder(Encoder):
    """Rows as records of one schema of Avro."""

    def _names(self) -> list[str]:
        assert self.schema is not None
        tree, self._named = avro.parsed(self.schema, self.needed)
        if not isinstance(tree, dict) or tree.get("type") != "record":
            raise SchemaError("the schema is no record: rows cannot be written by it")
        types = avro.logical_types(self.schema, self.needed)
        self.takes_local_times = any(name.startswith("local-") for name in types)
        with avro.refused():
            self._required = [
                field["name"] for field in tree["fields"] if "default" not in field and not _takes_null(field["type"])
            ]
            self._kinds = {one["name"]: one["type"] for one in tree["fields"]}
            return list(self._kinds)

    def encode(self, rows: pa.StructArray) -> pa.Array:
        # By types, for all rows at once: fastavro's own check of each value takes four times as long as writing it.
        check = _Fits(self._named)
        for name, kind in self._kinds.items():
            if rows.type.get_field_index(name) >= 0:
                check.column(rows.field(name), kind, name)
        return super().encode(rows)

    def _writer(self) -> Write:
        assert self.schema is not None
        (tree, names), required = avro.parsed(self.schema, self.needed), self._required
        convert = Unions(names).converter(tree, "")

        def write(row: dict[str, Any]) -> bytes:
            for name in required:
                if row.get(name) is None:
                    raise ValueError(f"{name} has no value, and no default in the schema")
            return avro.written(row if convert is None else convert(row), tree)

        return write


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


class _Fits:
    """Refuses columns that fastavro would write as other values: 1.5 as the long 1, the text "false" as true, 2**40 as an int.

    :param names: the definitions of named types
    """

    _KINDS: ClassVar[dict[str, Callable[[pa.DataType], bool]]] = {
        **dict.fromkeys(("int", "long"), pa.types.is_integer),
        **dict.fromkeys(("float", "double"), _is_number),
        **{"boolean": pa.types.is_boolean, "string": _is_text, "bytes": _is_bytes},
    }

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def column(self, values: pa.Array, schema: Any, path: str) -> None:
        """Check a column, or what is in its values.

        :param path: of the column, for errors
        :raises SinkError: it is of another type, or a value is too large
        """
        if isinstance(schema, list):
            left = members(schema, self._names)
            if len(left) != 1:
                # Without such columns fastavro chooses by value.
                for name, column, kind in member_columns(values, schema, self._names) or ():
                    self.column(column, kind, f"{path}.{name}")
                return
            schema = left[0]
        schema = self._names.get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(schema, dict):
            if "logicalType" not in schema:
                self._inside(values, schema, path)
        elif schema in self._KINDS and not pa.types.is_null(values.type):
            if not self._KINDS[schema](values.type):
                raise SinkError(f"column {path!r} is {values.type}, and {schema} in the schema: cast it in a step")
            if schema == "int":
                try:
                    values.cast(pa.int32())
                except pa.ArrowInvalid as error:
                    raise SinkError(
                        f"column {path!r} has a value too large for an int, which it is in the schema"
                    ) from error

    def _inside(self, values: pa.Array, schema: Mapping[str, Any], path: str) -> None:
        kind = schema["type"]
        if kind == "record" and pa.types.is_struct(values.type):
            for field in schema["fields"]:
                index = values.type.get_field_index(field["name"])
                if index >= 0:
                    self.column(values.flatten()[index], field["type"], f"{path}.{field['name']}")
        elif kind == "array" and pa.types.is_list(values.type):
            self.column(values.flatten(), schema["items"], f"{path}[]")
        elif kind == "map" and pa.types.is_map(values.type):
            self.column(values.items, schema["values"], f"{path}{{}}")
        elif not isinstance(kind, str) or kind in self._KINDS:
            self.column(values, kind, path)


def _takes_null(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in schema)


class _Types:
    """The types of columns of Avro's types.

    :param names: the definitions of named types
    :param max_depth: levels of a record that contains itself; 0 refuses such records
    """

    def __init__(self, names: Mapping[str, Any], max_depth: int) -> None:
        self._names = names
        self._max_depth = max_depth
        self._bounds = Bounds()

    def of(self, schema: Any, path: str, around: Mapping[str, int]) -> pa.DataType | None:
        """Return a type; None for what has a record within itself too often, and nothing else.

        :param path: of the field, for errors
        :param around: how often it lies in each record, by name
        :raises SchemaError: Spark has none for it
        """
        if isinstance(schema, list):
            return self._of_union(schema, path, around)
        if isinstance(schema, str):
            return _PRIMITIVE[schema] if schema in _PRIMITIVE else self.of(self._names[schema], path, around)
        with self._bounds.within(path):
            return self._of_dict(schema, path, around)

    def _of_dict(self, schema: Mapping[str, Any], path: str, around: Mapping[str, int]) -> pa.DataType | None:
        kind: Any = schema["type"]
        logical: Any = schema.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return decimal(schema["precision"], schema.get("scale", 0), path)
        if isinstance(kind, str) and (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        if kind in ("record", "error"):
            return self._of_record(schema, path, around)
        if kind == "array":
            items = self.of(schema["items"], f"{path}[]", around)
            return None if items is None else pa.list_(items)
        if kind == "map":
            items = self.of(schema["values"], f"{path}{{}}", around)
            return None if items is None else pa.map_(pa.string(), items)
        if kind == "enum":
            return pa.string()
        if kind == "fixed":
            return pa.binary()
        return self.of(kind, path, around)

    def _of_record(self, schema: Mapping[str, Any], path: str, around: Mapping[str, int]) -> pa.DataType | None:
        name, depth = schema["name"], around.get(schema["name"], 0)
        if depth and not self._max_depth:
            raise recursion_refused("avro", path, name)
        if depth and depth >= self._max_depth:
            return None
        if not schema["fields"]:
            raise SchemaError(f"{path} is a record without fields, {name}: Spark has no such type")
        inside = {**around, name: depth + 1}
        fields = {
            field["name"]: self.of(field["type"], f"{path}.{field['name']}" if around else field["name"], inside)
            for field in schema["fields"]
        }
        return _struct(fields)

    def _of_union(self, schema: list[Any], path: str, around: Mapping[str, int]) -> pa.DataType | None:
        left = members(schema, self._names)
        if any(isinstance(one, list) for one in left):
            raise SchemaError(f"not a valid Avro schema: {path} is a union with a union in it")
        if not left:
            return _PRIMITIVE["null"]
        if len(left) == 1:
            return self.of(left[0], path, around)
        number = merged(schema, self._names)
        if number is not None:
            return _PRIMITIVE[number]
        with self._bounds.within(path):
            names = [member(number) for number in range(len(left))]
            return _struct(
                {name: self.of(one, f"{path}.{name}", around) for name, one in zip(names, left, strict=True)}
            )


def _struct(fields: Mapping[str, pa.DataType | None]) -> pa.DataType | None:
    """Return a struct of the fields that have a type; None if none has."""
    there = [(name, kind) for name, kind in fields.items() if kind is not None]
    return pa.struct(there) if there else None
