"""JSON Schema: rows of what a schema describes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple

import pyarrow as pa

from pykafka.exceptions import SchemaError
from pykafka.registry.schemas import JSON, Schema
from pykafka.spark.formats.arrowtypes import TIMESTAMP, Bounds
from pykafka.spark.formats.decoder import Read, SchemaDecoder
from pykafka.spark.formats.encoder import SchemaEncoder, Write

#: The field of rows whose schema is no object.
VALUE = "value"
_SCHEMA = "http://json-schema.org/draft-07/schema#"


class Column(NamedTuple):
    """The column that a schema becomes.

    :param kind: type of Arrow
    :param read: makes a value of Arrow of one of JSON, which is not null
    :param write: makes a value of JSON of one of Spark, which is not null
    :param takes_null: whether null is a value of it
    :param fields: of an object with properties
    """

    kind: pa.DataType
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    takes_null: bool = False
    fields: Mapping[str, Column] | None = None


class JsonDecoder(SchemaDecoder):
    """Rows of one JSON Schema; what a record has beyond it is left out, and what it lacks is null."""

    def _arrow(self) -> pa.StructType:
        kind = _column(self.schema, self.needed).kind
        if self.side.validate:
            _validator(self.schema, self.needed)  # a schema that is none is refused here, not by each record
        return kind if pa.types.is_struct(kind) else pa.struct([(VALUE, kind)])

    def _reader(self, schema: Schema | None, path: bytes | None) -> Read:
        if schema is not None and schema.kind != JSON:
            raise SchemaError(f"it is of {schema.kind}, not of JSON")
        column = _column(self.schema, self.needed)
        wrap = not pa.types.is_struct(column.kind)
        check = _validator(self.schema, self.needed) if self.side.validate else None

        def read(data: bytes, start: int) -> Any:
            value = json.loads(data[start:], parse_constant=_refuse_constant)
            if check is not None:
                check(value)
            if wrap:
                return {VALUE: None if value is None else column.read(value)}
            return column.read(value)

        return read


class JsonEncoder(SchemaEncoder):
    """Rows as JSON of one schema."""

    def _names(self) -> list[str]:
        kind = _column(self.schema, self.needed).kind
        if not pa.types.is_struct(kind):
            raise SchemaError("the schema is no object with properties: rows cannot be written by it")
        if self.side.validate is not False:
            _validator(self.schema, self.needed)
        return [kind.field(number).name for number in range(kind.num_fields)]

    def _writer(self) -> Write:
        column = _column(self.schema, self.needed)
        check = None if self.side.validate is False else _validator(self.schema, self.needed)

        def write(row: dict[str, Any]) -> bytes:
            value = column.write(row)
            if check is not None:
                check(value)
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

        return write


def _documents(schema: Schema | None, needed: Mapping[str, Schema]) -> tuple[Any, Any]:
    """Return a schema's JSON, and the registry of the documents that it refers to.

    :raises SchemaError: one of them is no JSON
    """
    import referencing
    from referencing.jsonschema import DRAFT7

    assert schema is not None
    found = {}
    for name, one in {**needed, "": schema}.items():
        if one.kind != JSON:
            raise SchemaError(f"the schema is of {one.kind}, not of JSON")
        try:
            found[name] = json.loads(one.text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the schema is no JSON: {error}") from error
    main = found.pop("")
    resources = [
        (name, referencing.Resource.from_contents(content, default_specification=DRAFT7))
        for name, content in found.items()
    ]
    return main, referencing.Registry().with_resources(resources)


def _validator(schema: Schema | None, needed: Mapping[str, Schema]) -> Callable[[Any], None]:
    """Return what raises ValueError for a value that is not of a schema."""
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import SchemaError as WrongSchemaError
    from jsonschema.validators import validator_for

    main, documents = _documents(schema, needed)
    kind = validator_for(main, default=Draft7Validator)
    try:
        kind.check_schema(main)
    except WrongSchemaError as error:
        raise SchemaError(f"the schema is none of JSON Schema: {error.message}") from error
    _check_references(main, documents)
    validator = kind(main, registry=documents)

    def check(value: Any) -> None:
        for error in validator.iter_errors(value):
            raise ValueError(f"{error.json_path}: {error.message}")

    return check


def _check_references(main: Any, documents: Any) -> None:
    """Follow all references that values may lead to.

    :raises SchemaError: one of them leads nowhere
    """
    from referencing.jsonschema import DRAFT7, specification_with

    dialect = main.get("$schema") if isinstance(main, dict) else None
    words = DRAFT7 if dialect is None else specification_with(dialect, default=DRAFT7)
    siblings_count, seen = _siblings_count(main), set[int]()
    left = [(main, documents.resolver_with_root(words.create_resource(main)))]
    while left:
        part, resolver = left.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        for word in ("$ref", "$dynamicRef"):
            if word in part:
                found = _followed(part[word], resolver, "the schema")
                left.append((found.contents, found.resolver))
        if "$ref" in part and not siblings_count:
            continue
        # What is only defined matters where something refers to it.
        used = {word: value for word, value in part.items() if word not in ("definitions", "$defs")}
        left += (
            (inner, resolver.in_subresource(words.create_resource(inner))) for inner in words.subresources_of(used)
        )


def _followed(reference: Any, resolver: Any, path: str) -> Any:
    """Return what a reference refers to.

    :raises SchemaError: it is in no schema
    """
    from referencing.exceptions import Unresolvable

    try:
        return resolver.lookup(reference)
    except (Unresolvable, TypeError, AttributeError) as error:
        raise SchemaError(f"{path} refers to {reference!r}, which is in no schema that this one names") from error


def _siblings_count(main: Any) -> bool:
    """Return whether words beside `$ref` have a meaning: in all drafts behind number 7."""
    return isinstance(main, dict) and "draft-0" not in str(main.get("$schema", "draft-07"))


def _column(schema: Schema | None, needed: Mapping[str, Schema]) -> Column:
    """Return what a schema is for Spark.

    :raises SchemaError: Spark has no type for it
    """
    import referencing
    from referencing.jsonschema import DRAFT7

    try:
        main, documents = _documents(schema, needed)
        resource = referencing.Resource.from_contents(main, default_specification=DRAFT7)
        return _Columns(_siblings_count(main)).of(main, documents.resolver_with_root(resource), "the schema", ())
    except SchemaError:
        raise
    except (AttributeError, TypeError, ValueError, RecursionError) as error:  # a word has a value that it cannot have
        raise SchemaError(f"the schema is none of JSON Schema: {type(error).__name__}: {error}") from error


class _Columns:
    """Columns of the parts of a schema.

    :param siblings_count: whether words beside `$ref` have a meaning
    """

    def __init__(self, siblings_count: bool) -> None:
        self._siblings_count = siblings_count
        self._bounds = Bounds()

    def of(self, schema: Any, resolver: Any, path: str, around: tuple[int, ...]) -> Column:
        """Return the column of a part.

        :param resolver: of the references in it
        :param path: to it, for errors
        :param around: the parts that it lies in
        :raises SchemaError: Spark has no type for it
        """
        if not isinstance(schema, dict):
            return _ANY
        if id(schema) in around:
            raise SchemaError(f"{path} contains itself: Spark has no such type")
        with self._bounds.within(path):
            return self._of_part(schema, resolver, path, (*around, id(schema)))

    def _of_part(self, schema: dict[str, Any], resolver: Any, path: str, around: tuple[int, ...]) -> Column:
        if "$ref" in schema:
            found = self._of_reference(schema["$ref"], resolver, path, around)
            if not self._siblings_count or "properties" not in schema:
                return found
            own = self._of_part({k: v for k, v in schema.items() if k != "$ref"}, resolver, path, around)
            return found if own.fields is None else _object_of({**(found.fields or {}), **own.fields}, path)
        for word in ("oneOf", "anyOf", "allOf"):
            if word in schema and "properties" not in schema:
                return self._of_choice(schema[word], resolver, path, around)
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else list(kinds or _guessed(schema))
        left = [one for one in kinds if one != "null"]
        found = self._of_type(left, schema, resolver, path, around)
        return found._replace(takes_null=found.takes_null or "null" in kinds)

    def _of_reference(self, reference: Any, resolver: Any, path: str, around: tuple[int, ...]) -> Column:
        found = _followed(reference, resolver, path)
        return self.of(found.contents, found.resolver, path, around)

    def _of_choice(self, choices: Any, resolver: Any, path: str, around: tuple[int, ...]) -> Column:
        left = [one for one in choices if one != {"type": "null"}]
        if len(left) != 1:
            return _ANY
        return self.of(left[0], resolver, path, around)._replace(takes_null=len(left) < len(choices))

    def _of_type(
        self, kinds: list[str], schema: Mapping[str, Any], resolver: Any, path: str, around: tuple[int, ...]
    ) -> Column:
        if set(kinds) == {"integer", "number"}:
            kinds = ["number"]
        if len(kinds) != 1:
            return _ANY
        kind = kinds[0]
        if kind == "string":
            return _STRINGS.get(schema.get("format", ""), _TEXT)
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        if kind == "array" and isinstance(schema.get("items"), dict):
            return _list_of(self.of(schema["items"], resolver, f"{path}[]", around), path)
        if kind == "object" and schema.get("properties"):
            return self._of_object(schema["properties"], resolver, path, around)
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return _map_of(self.of(schema["additionalProperties"], resolver, f"{path}{{}}", around), path)
        return _ANY

    def _of_object(self, properties: Mapping[str, Any], resolver: Any, path: str, around: tuple[int, ...]) -> Column:
        inner = {
            name: self.of(one, resolver, f"{path}.{name}" if len(around) > 1 else name, around)
            for name, one in properties.items()
        }

        return _object_of(inner, path)


class _WrongError(ValueError):
    """A value is not of its type."""


def _object_of(inner: Mapping[str, Column], path: str) -> Column:
    """Return the column of an object.

    :param inner: the columns of its properties
    """

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{path} is no object")
        found: dict[str, Any] = {}
        for name, one in inner.items():
            given = value.get(name)
            if given is not None:
                try:
                    found[name] = one.read(given)
                except _WrongError as error:
                    raise ValueError(f"{name} {error}") from None
        return found

    def write(value: Any) -> Any:
        return {
            name: None if given is None else inner[name].write(given)
            for name, given in value.items()
            if given is not None or (name in inner and inner[name].takes_null)
        }

    return Column(pa.struct([(name, one.kind) for name, one in inner.items()]), read, write, fields=inner)


def _list_of(inner: Column, path: str) -> Column:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"{path} is no array")
        return [None if each is None else inner.read(each) for each in value]

    def write(value: Any) -> Any:
        return [None if each is None else inner.write(each) for each in value]

    return Column(pa.list_(inner.kind), read, write)


def _map_of(inner: Column, path: str) -> Column:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{path} is no object")
        return [(key, None if each is None else inner.read(each)) for key, each in value.items()]

    def write(value: Any) -> Any:
        return {key: None if each is None else inner.write(each) for key, each in value.items()}

    return Column(pa.map_(pa.string(), inner.kind), read, write)


def _guessed(schema: Mapping[str, Any]) -> list[str]:
    """Return the types of a part that names none."""
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if values and all(isinstance(one, str) or one is None for one in values):
        return ["string", *(["null"] if None in values else [])]
    return ["object"] if "properties" in schema else []


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _WrongError("is no string")
    return value


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise _WrongError("is no integer")


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise _WrongError("is no number")
    found = float(value)
    if not isfinite(found):  # JSON's parser takes 1e999 for infinite
        raise _WrongError("is too large for DOUBLE")
    return found


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _WrongError("is no boolean")
    return value


def _date(value: Any) -> date:
    try:
        return date.fromisoformat(_text(value))
    except ValueError:
        raise _WrongError("is no date") from None


def _time(value: Any) -> datetime:
    try:
        found = datetime.fromisoformat(_text(value))
    except ValueError:
        raise _WrongError("is no date-time") from None
    if found.tzinfo is None:
        raise _WrongError("is a date-time without its offset from UTC")
    return found


def _number_of(value: Any) -> Any:
    """Return a number of Spark as one of JSON."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _same(value: Any) -> Any:
    return value


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_TEXT = Column(pa.string(), _text, _same)
_STRINGS = {
    "date": Column(pa.date32(), _date, lambda value: value.isoformat() if isinstance(value, date) else value),
    "date-time": Column(TIMESTAMP, _time, lambda value: value.isoformat() if isinstance(value, date) else value),
}
_SIMPLE = {
    "integer": Column(pa.int64(), _integer, _number_of),
    "number": Column(pa.float64(), _number, _number_of),
    "boolean": Column(pa.bool_(), _boolean, _same),
}
#: What has no type of its own: its JSON as text.
_ANY = Column(pa.string(), _compact, json.loads, takes_null=True)
