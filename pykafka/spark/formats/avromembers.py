"""Avro's unions of several types: structs with a field for each type, `member0`, `member1`, ..., as in Spark's `from_avro`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from pykafka.spark.formats.arrowtypes import fields_of

#: Two types of a union that are one column, and its type.
_MERGED = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
#: Makes a value as fastavro takes it from one of a row.
_Convert = Callable[[Any], Any]


def named(schema: Any, names: Mapping[str, Any]) -> Any:
    """Return the definition if a schema is a name, or has nothing but another schema in it."""
    while True:
        if isinstance(schema, str) and schema in names:
            schema = names[schema]
        elif isinstance(schema, dict) and (not isinstance(schema["type"], str) or schema["type"] in names):
            schema = schema["type"]
        else:
            return schema


def kind_of(schema: Any) -> str:
    """Return the name of a type of Avro, "record" for errors as well."""
    kind = str(schema["type"] if isinstance(schema, dict) else schema)
    return "record" if kind == "error" else kind


def members(union: list[Any], names: Mapping[str, Any]) -> list[Any]:
    """Return the types of a union but null.

    :param names: the definitions of named types
    """
    return [one for one in union if kind_of(named(one, names)) != "null"]


def merged(union: list[Any], names: Mapping[str, Any]) -> str | None:
    """Return the number type that a union of two number types becomes; None for any other union."""
    left = members(union, names)
    return _MERGED.get(frozenset(kind_of(named(one, names)) for one in left)) if len(left) == 2 else None


def is_struct(union: list[Any], names: Mapping[str, Any]) -> bool:
    """Return whether a union is a struct in rows."""
    return len(members(union, names)) > 1 and merged(union, names) is None


def member(number: int) -> str:
    """Return the name of the field for a type.

    :param number: of the type among those that are not null, from 0 on
    """
    return f"member{number}"


def member_columns(
    values: pa.Array, union: list[Any], names: Mapping[str, Any]
) -> list[tuple[str, pa.Array, Any]] | None:
    """Return name, column and type of each field of a struct column for a union; None if the column is none.

    :param values: the column
    """
    types = {member(number): one for number, one in enumerate(members(union, names))}
    if not pa.types.is_struct(values.type) or not {one.name for one in fields_of(values.type)} <= types.keys():
        return None
    fields = zip(fields_of(values.type), values.flatten(), strict=True)
    return [(one.name, column, types[one.name]) for one, column in fields]


class Unions:
    """Makes rows with structs for unions such as fastavro takes.

    :param names: the definitions of named types
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        #: By the name of a record; in a record that contains itself, a function that finds the other one when it is called.
        self._made: dict[str, _Convert | None] = {}

    def converter(self, schema: Any, path: str) -> _Convert | None:
        """Return what makes a value from one of a row; None if it is the same.

        :param path: of the field, for errors
        """
        schema = named(schema, self._names)
        if isinstance(schema, list):
            return self._of_union(schema, path)
        kind = kind_of(schema)
        if kind == "record":
            return self._of_record(schema, path)
        if kind == "array":
            each = self.converter(schema["items"], f"{path}[]")
            return None if each is None else (lambda value: [None if one is None else each(one) for one in value])
        if kind == "map":
            item = self.converter(schema["values"], f"{path}{{}}")
            return (
                None if item is None else (lambda value: {k: None if v is None else item(v) for k, v in value.items()})
            )
        return None

    def _of_record(self, schema: Mapping[str, Any], path: str) -> _Convert | None:
        name = schema["name"]
        if name in self._made:
            return self._made[name]
        found: list[_Convert] = []
        self._made[name] = lambda value: found[0](value)  # noqa: PLW0108 - it is not there yet
        changed = [
            (field["name"], convert)
            for field in schema["fields"]
            if (convert := self.converter(field["type"], f"{path}.{field['name']}" if path else field["name"]))
            is not None
        ]

        def convert_record(value: Any) -> Any:
            if not isinstance(value, dict):  # fastavro says what is wrong with it
                return value
            return value | {field: convert(value[field]) for field, convert in changed if value.get(field) is not None}

        found.append(convert_record)
        self._made[name] = convert_record if changed else None
        return self._made[name]

    def _of_union(self, union: list[Any], path: str) -> _Convert | None:
        left = members(union, self._names)
        if not is_struct(union, self._names):
            return self.converter(left[0], path) if len(left) == 1 else None
        names = [member(number) for number in range(len(left))]
        inner = [self.converter(one, f"{path}.{name}") for one, name in zip(left, names, strict=True)]
        branches = {name: (_branch(one), convert) for name, one, convert in zip(names, left, inner, strict=True)}
        takes_null = len(left) < len(union)

        def choose(value: Any) -> Any:
            if not isinstance(value, dict) or not value or not value.keys() <= branches.keys():
                return value  # fastavro finds the type by the value
            there = [name for name, one in value.items() if one is not None]
            if len(there) > 1:
                raise ValueError(
                    f"{path} has {' and '.join(there)}, and a union is one of its types: make the others null"
                )
            if not there:
                if not takes_null:
                    raise ValueError(
                        f"{path} has only nulls, and its union does not take null: set one of {', '.join(names)}"
                    )
                return None
            branch, convert = branches[there[0]]
            one = value[there[0]]
            return branch, one if convert is None else convert(one)

        return choose


def _branch(schema: Any) -> Any:
    """Return how fastavro names a type of a union."""
    if isinstance(schema, str):
        return schema
    return schema["name"] if schema["type"] in ("record", "error", "enum", "fixed") else schema["type"]
