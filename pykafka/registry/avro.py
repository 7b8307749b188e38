"""Avro: schemas with those that they refer to, and values as fastavro writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Context, Decimal
from io import BytesIO
from typing import Any, NamedTuple

from pykafka.exceptions import KafkaException, SchemaError
from pykafka.registry.schemas import AVRO, Schema

#: Types may nest so deep, as one record in another: code that follows them calls itself.
DEPTH_MAX = 50
_PRIMITIVE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED = ("record", "error", "enum", "fixed")
#: No digit is lost by it: Python's own context has 28.
_EXACT = Context(prec=1_000)


class Parsed(NamedTuple):
    """A schema as fastavro takes it.

    :param tree: the schema
    :param names: the definitions of its named types, and of those that it refers to, by full name
    """

    tree: Any
    names: dict[str, Any]


def parsed(schema: Schema, needed: Mapping[str, Schema]) -> Parsed:
    """Return a schema as fastavro takes it, with defaults of fields as values.

    :param schema: the schema
    :param needed: those that it refers to, each behind those that it refers to itself
    :raises SchemaError: it is not a valid Avro schema
    """
    import fastavro

    names: dict[str, Any] = {}
    with refused():
        for one in needed.values():
            fastavro.parse_schema(_loaded(one), named_schemas=names)
        tree = fastavro.parse_schema(_loaded(schema), named_schemas=names)
        defaults = _Defaults(names)
        for one in (tree, *names.values()):
            defaults.set(one)
        return Parsed(_with_names(tree, names), names)


def _with_names(tree: Any, names: dict[str, Any]) -> Any:
    """Return a schema in which fastavro finds the definitions of named types: it adds them to records only.

    :param tree: the schema, from fastavro: a record, another type, a union, or the name of a type
    :param names: the definitions
    """
    if isinstance(tree, list):
        return [_with_names(one, names) for one in tree]
    if isinstance(tree, str):
        if tree not in names:
            return tree
        tree = names[tree]
    return {**tree, "__fastavro_parsed": True, "__named_schemas": names}


@contextmanager
def refused() -> Iterator[None]:
    """Raise SchemaError if a schema is not valid Avro, for any error of the block: fastavro takes any names and logical types.

    :raises SchemaError: with that error
    """
    try:
        yield
    except KafkaException:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise SchemaError(f"not a valid Avro schema: {type(error).__name__}: {error}") from error
    except Exception as error:
        if not type(error).__module__.startswith("fastavro"):
            raise
        raise SchemaError(f"not a valid Avro schema: {type(error).__name__}: {error}") from error


def check_bounded(schema: Parsed) -> None:
    """Refuse schemas by which a few bytes end or fill the process.

    :raises SchemaError: values of a type nest without end, types nest too deep, or an array has items without bytes
    """
    with refused():  # unions in unions, which Avro does not have, nest as deep as JSON goes
        _check_ends(schema.names)
        _check(schema.tree, schema.names, (), 0, {})


def is_recursive(schema: Parsed) -> bool:
    """Return whether a type contains itself; of a schema from `check_bounded`."""
    with refused():
        return _leads_back(schema.tree, schema.names, (), set())


def _leads_back(tree: Any, names: Mapping[str, Any], around: tuple[str, ...], done: set[str]) -> bool:
    """Return whether a type has one in it that contains itself.

    :param around: names of those that it lies in
    :param done: names of those that have none in them
    """
    if isinstance(tree, list):
        return any(_leads_back(one, names, around, done) for one in tree)
    if not isinstance(tree, dict):
        return tree in names and _leads_back(names[tree], names, around, done)
    name: Any = tree.get("name") if tree["type"] in _NAMED else None
    if name is None or name in around or name in done:
        return (
            name in around if name is not None else any(_leads_back(one, names, around, done) for one in _parts(tree))
        )
    found = any(_leads_back(one, names, (*around, name), done) for one in _parts(tree))
    done.add(name)
    return found


def _parts(tree: Mapping[str, Any]) -> list[Any]:
    """Return the types that a type has in it, and None."""
    return [tree.get(key) for key in ("type", "items", "values")] + [field["type"] for field in tree.get("fields", ())]


def _check_ends(names: Mapping[str, Any]) -> None:
    """Refuse types of which each value contains another one: some have no bytes.

    :raises SchemaError: there is one
    """
    ending: set[str] = set()
    left = dict(names)
    while left:
        more = [name for name, tree in left.items() if _ends(tree, ending, outer=True)]
        if not more:
            name = next(iter(left))
            raise SchemaError(f"each {name} contains another one: such a value has no end")
        ending.update(more)
        for name in more:
            del left[name]


def _ends(tree: Any, ending: set[str], outer: bool = False) -> bool:
    """Return whether a type has values that end.

    :param ending: names of types that have
    :param outer: whether the type is to be searched, though it has a name
    """
    if isinstance(tree, list):
        return any(_ends(one, ending) for one in tree)
    if not isinstance(tree, dict):
        return tree in ending or tree in _PRIMITIVE
    if tree["type"] in _NAMED and not outer:
        return tree["name"] in ending
    if tree["type"] in ("record", "error"):
        return all(_ends(field["type"], ending) for field in tree["fields"])
    return tree["type"] in ("array", "map", "enum", "fixed") or _ends(tree["type"], ending)


def _check(tree: Any, names: Mapping[str, Any], around: tuple[str, ...], depth: int, known: dict[str, int]) -> int:
    """Return how many types lie within each other in a type.

    :param around: names of those that it lies in
    :param depth: how many those are, with others
    :param known: the results by name
    """
    if isinstance(tree, list):
        return max((_check(one, names, around, depth, known) for one in tree), default=0)
    if not isinstance(tree, dict):
        return _check(names[tree], names, around, depth, known) if tree in names else 0
    name: Any = tree.get("name")
    if name in around:
        return 0
    if depth + known.get(name, 1) > DEPTH_MAX:
        raise SchemaError(f"it has types that nest more than {DEPTH_MAX} deep: such records are not read")
    if name in known:
        return known[name]
    inner = around if name is None else (*around, name)
    height = 1 + max(_check(part, names, inner, depth + 1, known) for part in _parts(tree))
    # Behind the walk, which has bounded the depth.
    if tree["type"] == "array" and _is_empty(tree["items"], names):
        raise SchemaError("it has an array whose items have no bytes: not read, for few bytes can fill the memory")
    if name is not None:
        known[name] = height
    return height


def _is_empty(tree: Any, names: Mapping[str, Any]) -> bool:
    """Return whether values of a type have no bytes; of a type whose values end."""
    if isinstance(tree, dict):
        if tree["type"] in ("record", "error"):
            return all(_is_empty(field["type"], names) for field in tree["fields"])
        return tree["size"] == 0 if tree["type"] == "fixed" else _is_empty(tree["type"], names)
    return tree == "null" or (isinstance(tree, str) and tree in names and _is_empty(names[tree], names))


def logical_types(schema: Schema, needed: Mapping[str, Schema]) -> set[str]:
    """Return the logical types in a schema."""
    found: set[str] = set()
    for one in (schema, *needed.values()):
        _gather(_loaded(one), found)
    return found


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
        raise SchemaError("not a valid Avro schema: its text is not JSON") from None


class _Defaults:
    """Makes the defaults of fields values as fastavro has them; it takes them as JSON has them, as text of bytes.

    :param names: the definitions of named types
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        #: By the identity of a field: each is made once, however often its record is in the default of another one.
        self._made: dict[int, Any] = {}

    def set(self, tree: Any) -> None:
        """Set those of the fields in a type."""
        for one in tree if isinstance(tree, list) else ():
            self.set(one)
        if isinstance(tree, dict):
            for key in ("type", "items", "values"):
                self.set(tree.get(key))
            for one in tree.get("fields", ()):
                self.set(one["type"])
                if "default" in one:
                    one["default"] = self._of_field(one)

    def _of_field(self, field: Mapping[str, Any]) -> Any:
        if id(field) not in self._made:
            self._made[id(field)] = self._value(field.get("default"), field["type"])
        return self._made[id(field)]

    def _value(self, value: Any, tree: Any) -> Any:
        if isinstance(tree, list):
            left = [one for one in tree if one != "null"]
            return value if value is None or not left else self._value(value, left[0])
        if isinstance(tree, str):
            if tree in self._names:
                return self._value(value, self._names[tree])
            return value.encode("latin-1") if tree == "bytes" and isinstance(value, str) else value
        kind = tree["type"]
        if kind in ("bytes", "fixed") and isinstance(value, str):
            data = value.encode("latin-1")
            if tree.get("logicalType") != "decimal":
                return data
            return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-tree.get("scale", 0), _EXACT)
        if kind == "record" and isinstance(value, dict):
            return {
                field["name"]: self._value(value[field["name"]], field["type"])
                if field["name"] in value
                else self._of_field(field)
                for field in tree["fields"]
            }
        if kind == "array" and isinstance(value, list):
            return [self._value(one, tree["items"]) for one in value]
        if kind == "map" and isinstance(value, dict):
            return {name: self._value(one, tree["values"]) for name, one in value.items()}
        return value if isinstance(kind, str) and kind not in self._names else self._value(value, kind)


def _gather(schema: Any, found: set[str]) -> None:
    for one in schema if isinstance(schema, list) else schema.values() if isinstance(schema, dict) else ():
        _gather(one, found)
    if isinstance(schema, dict) and isinstance(schema.get("logicalType"), str):
        found.add(schema["logicalType"])
