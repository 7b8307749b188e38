"""Avro: schemas with those that they refer to, and values as fastavro has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any

from pykafka.exceptions import SchemaError
from pykafka.registry.schemas import AVRO, Schema

#: Logical types whose numbers mean the same wherever only one of a line occurs.
_TIMES = (
    {"timestamp-millis", "timestamp-micros", "timestamp-nanos"},
    {"local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"},
    {"time-millis", "time-micros"},
)
#: Logical types that are read as the type below them; `decimal` is not.
PLAIN = frozenset({"date", "uuid", *_TIMES[0], *_TIMES[1], *_TIMES[2]})


def parsed(schema: Schema, needed: Mapping[str, Schema], without: frozenset[str] = frozenset()) -> Any:
    """Return a schema as fastavro takes it.

    :param schema: the schema
    :param needed: those that it refers to, each behind those that it refers to itself
    :param without: logical types to leave out, so that values are those of the type below
    :raises SchemaError: it is none of Avro
    """
    import fastavro

    names: dict[str, Any] = {}
    try:
        for one in needed.values():
            fastavro.parse_schema(_plain(_loaded(one), without), named_schemas=names)
        tree = fastavro.parse_schema(_plain(_loaded(schema), without), named_schemas=names)
        for one in (tree, *names.values()):
            _set_defaults(one, names)
        return tree
    except SchemaError:
        raise
    except Exception as error:
        raise SchemaError(f"the schema is none of Avro: {type(error).__name__}: {error}") from error


def names_of(schema: Schema, needed: Mapping[str, Schema]) -> dict[str, Any]:
    """Return the definitions of a schema's named types, and those that it refers to, by full name."""
    import fastavro

    names: dict[str, Any] = {}
    for one in (*needed.values(), schema):
        fastavro.parse_schema(_loaded(one), named_schemas=names)
    return names


def check_bounded(tree: Any, names: Mapping[str, Any]) -> None:
    """Refuse schemas by which a few bytes end or fill the process: fastavro nests calls of C without a limit.

    :param tree: from `parsed`
    :param names: from `names_of`
    :raises SchemaError: a type contains itself, or an array has items without bytes
    """
    _check_bounded(tree, names, (), set())


def _check_bounded(tree: Any, names: Mapping[str, Any], around: tuple[str, ...], done: set[str]) -> None:
    if isinstance(tree, list):
        for one in tree:
            _check_bounded(one, names, around, done)
    elif isinstance(tree, dict):
        name = tree.get("name")
        if name in around:
            raise SchemaError(
                f"it has a {name} within a {name}: such records are not read, for they can nest without end"
            )
        if name is not None and name in done:
            return
        inner = around if name is None else (*around, name)
        for key in ("type", "items", "values"):
            _check_bounded(tree.get(key), names, inner, done)
        for one in tree.get("fields", ()):
            _check_bounded(one["type"], names, inner, done)
        # Behind the walk, which has found types that contain themselves.
        if tree["type"] == "array" and _is_empty(tree["items"], names):
            raise SchemaError("it has an array whose items have no bytes: not read, for few bytes can fill the memory")
        if name is not None:
            done.add(name)
    elif tree in names:
        _check_bounded(names[tree], names, around, done)


def _is_empty(tree: Any, names: Mapping[str, Any]) -> bool:
    """Return whether values of a type have no bytes; of a type that does not contain itself, or of one in a union."""
    if isinstance(tree, dict):
        if tree["type"] == "record":
            return all(_is_empty(one["type"], names) for one in tree["fields"])
        return tree["size"] == 0 if tree["type"] == "fixed" else _is_empty(tree["type"], names)
    return tree == "null" or (isinstance(tree, str) and tree in names and _is_empty(names[tree], names))


def logical_types(schema: Schema, needed: Mapping[str, Schema]) -> set[str]:
    """Return the logical types in a schema."""
    found: set[str] = set()
    for one in (schema, *needed.values()):
        _gather(_loaded(one), found)
    return found


def mixed_times(types: set[str]) -> bool:
    """Return whether among logical types there are two that count time in different units."""
    return any(len(types & line) > 1 for line in _TIMES)


def read(data: bytes, start: int, writer: Any, reader: Any) -> Any:
    """Return a value; raise any error of fastavro.

    :param data: the bytes of a record
    :param start: where the value begins
    :param writer: the schema that it was written with
    :param reader: the schema that it is to be of; None for the same
    :raises ValueError: there are bytes behind it
    """
    import fastavro

    stream = BytesIO(data)
    stream.seek(start)
    value = fastavro.schemaless_reader(stream, writer, reader)
    if stream.tell() != len(data):
        raise ValueError(f"{len(data) - stream.tell()} of {len(data) - start} bytes are left behind the value")
    return value


def written(value: Any, schema: Any) -> bytes:
    """Return the bytes of a value; raise any error of fastavro.

    :param value: as fastavro takes it
    :param schema: the schema, from `parsed`
    """
    import fastavro

    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


def _loaded(schema: Schema) -> Any:
    if schema.kind != AVRO:
        raise SchemaError(f"the schema is of {schema.kind}, not of Avro")
    try:
        return json.loads(schema.text)
    except (ValueError, RecursionError):
        # The name of a type alone is a schema, too, which some write without quotes.
        if schema.text.strip().isidentifier():
            return schema.text.strip()
        raise SchemaError("the schema is none of Avro: its text is no JSON") from None


def _set_defaults(tree: Any, names: Mapping[str, Any]) -> None:
    """Make the defaults of fields values as fastavro has them; it takes them as JSON has them, as text of bytes."""
    for one in tree if isinstance(tree, list) else ():
        _set_defaults(one, names)
    if isinstance(tree, dict):
        for key in ("type", "items", "values"):
            _set_defaults(tree.get(key), names)
        for one in tree.get("fields", ()):
            _set_defaults(one["type"], names)
            if "default" in one:
                one["default"] = _default(one["default"], one["type"], names)


def _default(value: Any, tree: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(tree, list):
        left = [one for one in tree if one != "null"]
        return value if value is None or not left else _default(value, left[0], names)
    if isinstance(tree, str):
        if tree in names:
            return _default(value, names[tree], names)
        return value.encode("latin-1") if tree == "bytes" and isinstance(value, str) else value
    kind = tree["type"]
    if kind in ("bytes", "fixed") and isinstance(value, str):
        data = value.encode("latin-1")
        if tree.get("logicalType") != "decimal":
            return data
        return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-tree.get("scale", 0))
    if kind == "record" and isinstance(value, dict):
        return {
            one["name"]: _default(value.get(one["name"], one.get("default")), one["type"], names)
            for one in tree["fields"]
        }
    if kind == "array" and isinstance(value, list):
        return [_default(one, tree["items"], names) for one in value]
    if kind == "map" and isinstance(value, dict):
        return {name: _default(one, tree["values"], names) for name, one in value.items()}
    return value if isinstance(kind, str) and kind not in names else _default(value, kind, names)


def _plain(schema: Any, without: frozenset[str]) -> Any:
    if isinstance(schema, list):
        return [_plain(one, without) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key == "default" else _plain(value, without)
        for key, value in schema.items()
        if not (key == "logicalType" and value in without)
    }


def _gather(schema: Any, found: set[str]) -> None:
    for one in schema if isinstance(schema, list) else schema.values() if isinstance(schema, dict) else ():
        _gather(one, found)
    if isinstance(schema, dict) and isinstance(schema.get("logicalType"), str):
        found.add(schema["logicalType"])
