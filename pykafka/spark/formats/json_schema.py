"""JSON Schema: rows of what a schema describes."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Context, Decimal
from math import isfinite
from typing import Any, NamedTuple
from urllib.parse import urljoin

import pyarrow as pa

from pykafka.exceptions import SchemaError
from pykafka.registry.schemas import JSON, Schema
from pykafka.spark.formats.arrowtypes import DECIMAL_MAX, DEPTH_MAX, TIMESTAMP, Bounds, TooManyColumnsError
from pykafka.spark.formats.decoder import Decoder, Read
from pykafka.spark.formats.encoder import Encoder, Write
from pykafka.spark.formats.json_shapes import (
    ANYTHING,
    EVERY,
    TYPES,
    Digits,
    Node,
    Shape,
    Shapes,
    UnknownPartError,
    followed,
    part,
)

#: The field of rows whose schema is no object.
VALUE = "value"
#: Longer whole numbers are no BIGINT.
_DIGITS_MAX = 20
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1
_DRAFT_3 = "http://json-schema.org/draft-03/schema#"
#: So often columns are made, with more and more types cut, before a schema is refused: each time takes some 0.2 s.
_TRIES_MAX = 10
_EXACT = Context(prec=2 * DECIMAL_MAX)


class Column(NamedTuple):
    """The column that a schema becomes.

    :param kind: type of Arrow
    :param read: makes a value of Arrow of one of JSON, which is not null
    :param write: makes a value of JSON of one of Spark, which is not null
    :param takes_null: whether null is a value of it, and is written
    :param reads_null: whether null is read: OpenAPI's word for it means nothing to validators
    :param fields: of an object with properties
    """

    kind: pa.DataType
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    takes_null: bool = False
    reads_null: bool = False
    fields: Mapping[str, Column] | None = None


class JsonDecoder(Decoder):
    """Rows of one JSON Schema; what a record has beyond it is left out, and what it lacks is null."""

    def _arrow(self) -> pa.StructType:
        column, self.notes = _columns(self.schema, self.needed)
        kind = column.kind
        if self.side.validate:
            _validator(self.schema, self.needed)  # a schema that is none is refused here, not by each record
        return kind if pa.types.is_struct(kind) else pa.struct([(VALUE, kind)])

    def _reader(self, schema: Schema | None, path: bytes | None) -> Read:
        if schema is not None and schema.kind != JSON:
            raise SchemaError(f"it is of {schema.kind}, not of JSON")
        column = _column(self.schema, self.needed)
        wrap = not pa.types.is_struct(column.kind)
        check = _validator(self.schema, self.needed) if self.side.validate else None

        parse = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant).decode

        def read(data: bytes, start: int) -> Any:
            own = data[start:]
            text = own.decode(json.detect_encoding(own), "surrogatepass")
            value = parse(text)
            if check is not None:
                check(json.loads(text))  # which knows no decimals
            if wrap:
                return {VALUE: None if value is None else column.read(value)}
            return None if value is None and column.reads_null else column.read(value)

        return read


class JsonEncoder(Encoder):
    """Rows as JSON of one schema."""

    def _names(self) -> list[str]:
        column, self.notes = _columns(self.schema, self.needed)
        kind = column.kind
        if self.side.validate is not False:
            _validator(self.schema, self.needed)
        if not pa.types.is_struct(kind):
            return [VALUE]
        return [kind.field(number).name for number in range(kind.num_fields)]

    def _writer(self) -> Write:
        column = _column(self.schema, self.needed)
        wrapped = not pa.types.is_struct(column.kind)
        check = None if self.side.validate is False else _validator(self.schema, self.needed)

        def write(row: dict[str, Any]) -> bytes:
            value = row.get(VALUE) if wrapped else row
            text = _compact(None if value is None else column.write(value))
            if check is not None:
                check(json.loads(text))
            return text.encode()

        return write


def _documents(schema: Schema | None, needed: Mapping[str, Schema]) -> tuple[Any, Any]:
    """Return a schema's JSON, and the registry of the documents that it refers to.

    :raises SchemaError: one of them is no JSON
    """
    import referencing
    from jsonschema_specifications import REGISTRY

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
    resources = {
        name: referencing.Resource.from_contents(content, default_specification=_words(content))
        for name, content in found.items()
    }
    own = referencing.Resource.from_contents(main, default_specification=_words(main))
    bases = [uri for uri in (own.id(), *(resource.id() for resource in resources.values())) if uri]
    # A reference is a name of the registry, and not relative to what the schema calls itself.
    named = [(urljoin(base, name), one) for base in ("", *bases) for name, one in resources.items()]
    return main, REGISTRY.with_resources(named)  # with the schemas of JSON Schema itself


def _validator(schema: Schema | None, needed: Mapping[str, Schema]) -> Callable[[Any], None]:
    """Return what raises ValueError for a value that is not of a schema."""
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import SchemaError as WrongSchemaError
    from jsonschema.validators import validator_for

    main, documents = _documents(schema, needed)
    kind = validator_for({"$schema": _dialect(main)}, default=Draft7Validator)
    try:
        kind.check_schema(main)
    except WrongSchemaError as error:
        raise SchemaError(f"not a valid JSON Schema: {error.message}") from error
    except RecursionError as error:
        raise SchemaError("the schema has too many levels to be checked: take one with fewer") from error
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
    words, siblings_count, seen = _words(main), _siblings_count(main), set[int]()
    left = [(main, documents.resolver_with_root(words.create_resource(main)))]
    while left:
        part, resolver = left.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        for word in ("$ref", "$dynamicRef"):
            if word in part:
                found = followed(part[word], resolver, "the schema")
                left.append((found.contents, found.resolver))
        if "$ref" in part and not siblings_count:
            continue
        # Definitions matter only if something refers to them.
        used = {word: value for word, value in part.items() if word not in ("definitions", "$defs")}
        # Of a single schema that draft 3's `extends` has, the words are taken for schemas.
        inner = [*words.subresources_of(used), *([used["extends"]] if "extends" in used else [])]
        left += ((one, resolver.in_subresource(words.create_resource(one))) for one in inner if isinstance(one, dict))


def _words(main: Any) -> Any:
    """Return the specification of a schema's draft."""
    from referencing.jsonschema import DRAFT7, specification_with

    dialect = _dialect(main)
    return DRAFT7 if dialect is None else specification_with(dialect, default=DRAFT7)


def _dialect(main: Any) -> Any:
    """Return the address of a schema's draft; None if it does not say which."""
    if not isinstance(main, dict) or "$schema" in main:
        return main.get("$schema") if isinstance(main, dict) else None
    # Jackson's first module for schemas names types by `id`, as draft 3 does, and does not name the draft.
    return _DRAFT_3 if str(main.get("id")).startswith("urn:jsonschema:") else None


def _siblings_count(main: Any) -> bool:
    """Return whether words beside `$ref` have a meaning: in all drafts behind number 7."""
    return isinstance(main, dict) and "draft-0" not in str(main.get("$schema", "draft-07"))


def _columns(schema: Schema | None, needed: Mapping[str, Schema]) -> tuple[Column, tuple[str, ...]]:
    """Return what a schema is for Spark, and a sentence about each part that is no typed column.

    :raises SchemaError: Spark has no type for it
    """
    import referencing

    try:
        main, documents = _documents(schema, needed)
        resource = referencing.Resource.from_contents(main, default_specification=_words(main))
        shapes = Shapes(_words(main), _siblings_count(main))
        return _shortened(shapes, part(main, documents.resolver_with_root(resource)))
    except SchemaError:
        raise
    except RecursionError as error:
        raise SchemaError("the schema has too many levels in one part: take one with fewer") from error
    except (AttributeError, TypeError, ValueError) as error:  # a word has a value that it cannot have
        raise SchemaError(f"not a valid JSON Schema: {type(error).__name__}: {error}") from error


def _column(schema: Schema | None, needed: Mapping[str, Schema]) -> Column:
    return _columns(schema, needed)[0]


def _shortened(shapes: Shapes, main: Node) -> tuple[Column, tuple[str, ...]]:
    """Return the column of a schema, and its notes.

    Types that contain each other, many of them, make endless columns: then those that contain themselves are text wherever
    they are, and not only within themselves.

    :raises SchemaError: Spark has no type for it
    """
    cut, tries_left = frozenset[frozenset[int]](), _TRIES_MAX
    while True:
        columns = _Columns(shapes, cut)
        try:
            return columns.of(main, "the schema", ()), columns.notes
        except TooManyColumnsError:
            tries_left -= 1
            if not tries_left or columns.recursive <= cut:
                raise
            cut |= columns.recursive


class _Columns:
    """Columns of the parts of a schema.

    :param shapes: the values that they admit
    :param cut: parts that are text
    :ivar recursive: parts that contain themselves, as far as is known
    """

    def __init__(self, shapes: Shapes, cut: frozenset[frozenset[int]]) -> None:
        self._shapes = shapes
        self._cut = cut
        self.recursive = set[frozenset[int]]()
        self._bounds = Bounds()
        self._texts: list[str] = []
        self._left_out: list[str] = []
        self._remarks: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the parts of the schema that become no typed column."""
        texts, left_out, remarks = (
            ", ".join(dict.fromkeys(one)) for one in (self._texts, self._left_out, self._remarks)
        )
        return tuple(
            sentence
            for some, sentence in (
                (
                    texts,
                    f"without a single type, and so JSON text, in which a string keeps its quotes: {texts}",
                ),
                (left_out, f"left out of the rows: {left_out}"),
                (remarks, f"without effect: {remarks}"),
            )
            if some
        )

    def of(self, node: Node, path: str, around: tuple[frozenset[int], ...], other: str = "") -> Column:
        """Return the column of a node.

        :param path: to it, for errors and notes
        :param around: the parts that it lies in
        :param other: why it has no type, if the schema says nothing about it
        :raises SchemaError: Spark has no type for it
        """
        shape = self._shapes.of(node, path)
        before = [(notes, len(notes)) for notes in (self._texts, self._left_out, self._remarks)]
        try:
            with self._bounds.within(path):
                column = self._of_shape(shape, path, around, other)
        except UnknownPartError as error:
            if not shape.chosen:
                raise
            for notes, count in before:
                del notes[count:]
            column = self._text(path, str(error))
        if column is not _JSON or shape.kinds != EVERY:
            self._remarks += (f"{path}: {remark}" for remark in shape.remarks)
        takes_null = "null" in shape.settled
        return column._replace(takes_null=takes_null, reads_null=takes_null or shape.nullable)

    def _of_shape(self, shape: Shape, path: str, around: tuple[frozenset[int], ...], other: str) -> Column:
        kinds = shape.settled - TYPES["null"]
        digits = next((one for one in shape.formats if isinstance(one, Digits)), None)
        if digits is not None and kinds and kinds <= TYPES["number"] | TYPES["string"]:
            return self._of_digits(digits, path)
        if kinds == TYPES["string"]:
            return _STRINGS[next(iter(shape.formats))] if len(shape.formats) == 1 else _TEXT
        if kinds in (TYPES["array"], TYPES["object"]):
            return self._of_inner(shape, kinds, path, around)
        for name, column in _SIMPLE.items():
            if kinds and kinds <= TYPES[name]:
                return column
        return self._text(path, _reason(shape, kinds) or "; ".join(filter(None, (other, *shape.remarks))) or "no type")

    def _of_inner(self, shape: Shape, kinds: frozenset[str], path: str, around: tuple[frozenset[int], ...]) -> Column:
        is_map = shape.values is not None and not shape.properties and not shape.variants
        if not (shape.items if kinds == TYPES["array"] else shape.properties or is_map):
            return self._text(path, _reason(shape, kinds))
        if shape.parts in around:
            self.recursive.add(shape.parts)
        if shape.parts in around or (around and shape.parts in self._cut):
            return self._text(path, "it contains itself")
        if len(around) > DEPTH_MAX - 2:
            return self._text(path, f"nested more than {DEPTH_MAX} deep")
        around = (*around, shape.parts)
        if kinds == TYPES["array"]:
            return _list_of(self.of(shape.all_items, f"{path}[]", around), path)
        if is_map:
            return _map_of(self.of(shape.all_values, f"{path}{{}}", around), path)
        return self._of_object(shape, path, around)

    def _of_digits(self, digits: Digits, path: str) -> Column:
        if 0 <= digits.scale <= digits.precision <= DECIMAL_MAX and digits.precision:
            return _decimal_of(digits)
        return self._text(path, f"a decimal of {digits.precision} digits, {digits.scale} of them a fraction")

    def _of_object(self, shape: Shape, path: str, around: tuple[frozenset[int], ...]) -> Column:
        inner = dict[str, Column]()
        for name in (*shape.properties, *(name for name in shape.variants if name not in shape.properties)):
            node, inside = shape.within(name) or ANYTHING, f"{path}.{name}" if len(around) > 1 else name
            if name in shape.properties:
                inner[name] = self.of(node, inside, around)
            else:
                inner[name] = self._variant(node, inside, around)
        missing = [f"{name}, which is required and not described" for name in shape.required if name not in inner]
        self._left_out += (f"{what} (of {path})" for what in (*missing, *shape.left_out))
        return _object_of(inner, path)

    def _variant(self, node: Node, path: str, around: tuple[frozenset[int], ...]) -> Column:
        """Return the column of a property that only some objects have; null is not written, as other objects may refuse it."""
        try:
            return self.of(node, path, around, "in some forms of its object only")._replace(takes_null=False)
        except UnknownPartError as error:
            return self._text(path, str(error))

    def _text(self, path: str, why: str) -> Column:
        self._texts.append(f"{path} ({why})")
        return _JSON


def _numbers(kinds: frozenset[str]) -> set[str]:
    if "fraction" in kinds:
        return {"number"}
    return {"integer"} if "integer" in kinds else set()


def _reason(shape: Shape, kinds: frozenset[str]) -> str:
    """Return why a shape has no type of its own; "" if the schema says no type at all."""
    if kinds == EVERY - TYPES["null"]:
        return ""
    names = sorted(kinds - TYPES["number"]) + [name for name in ("integer", "number") if name in _numbers(kinds)]
    if len(names) > 1:
        return " or ".join(names)
    if not names:
        return "null" if shape.kinds else "no value fits all of it"
    if names == ["array"]:
        return "an array without one schema for its items"
    return "an object of several forms" if shape.variants else "an object without properties"


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
        unknown = [name for name, given in value.items() if given is not None and name not in inner]
        if unknown:
            raise ValueError(f"{unknown[0]} is no property of {path} in the schema")
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


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _WrongError("is no string")
    return value


def _integer(value: Any) -> int:
    if type(value) is Decimal and value.adjusted() < _DIGITS_MAX and value == value.to_integral_value():
        value = int(value)
    if type(value) is not int:
        raise _WrongError("is no integer")
    if not _INTEGER_MIN <= value <= _INTEGER_MAX:
        raise _WrongError("does not fit BIGINT")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, Decimal):
        raise _WrongError("is no number")
    found = float(value)
    if not isfinite(found):  # 1e999
        raise _WrongError("is too large for DOUBLE")
    return found


def _decimal_of(digits: Digits) -> Column:
    """Return the column of a decimal of Kafka Connect, whose JSON is a number, or base64 of its digits as a whole number."""
    kind, scale = pa.decimal128(*digits), digits.scale

    def read(value: Any) -> Decimal:
        if type(value) is str:
            try:
                value = Decimal(int.from_bytes(b64decode(value, validate=True), signed=True)).scaleb(-scale, _EXACT)
            except (ValueError, ArithmeticError):
                raise _WrongError("is no decimal") from None
        if type(value) not in (int, Decimal):
            raise _WrongError("is no decimal")
        return Decimal(value)

    return Column(kind, read, _number_of)


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
        found = datetime.fromisoformat(_text(value).upper())  # RFC 3339 takes small letters
    except ValueError:
        raise _WrongError("is no date-time") from None
    if found.tzinfo is None:
        raise _WrongError("is a date-time without its offset from UTC")
    return found


def _number_of(value: Any) -> Any:
    """Return a number of Spark as one of JSON."""
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


def _same(value: Any) -> Any:
    return value


def _compact(value: Any) -> str:
    try:
        return _encode(value)
    except TypeError:
        return _exact(value)


def _exact(value: Any) -> str:
    """Return JSON with decimals in it, digit by digit."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return f"{{{','.join(f'{_encode(name)}:{_exact(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_exact, value))}]"
    return _encode(value)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
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
_JSON = Column(pa.string(), _compact, json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant).decode)
