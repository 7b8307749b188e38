"""Avro's resolution: how records of a writer's schema become rows of the reader's, as steps over the columns of the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from pykafka.exceptions import SchemaError
from pykafka.registry.avro import Parsed, is_recursive
from pykafka.spark.formats.arrowtypes import VALUES_MAX, fields_of
from pykafka.spark.formats.avrocolumns import Fields, Items, Leaf
from pykafka.spark.formats.avromembers import is_struct, kind_of, member, members, merged, named
from pykafka.spark.formats.avrorows import (
    INT,
    LONG,
    Blocks,
    Boolean,
    Bytes,
    Constant,
    Digits,
    Member,
    Nested,
    Number,
    Parser,
    Real,
    Record,
    Step,
    Symbol,
    Text,
    Time,
    Union,
    Wrong,
    converted,
)

_LIMITS = {"int": INT, "long": LONG}
_SIZES = {"float": 4, "double": 8}
#: The types that values of a type may become.
_BECOMES = {
    "int": {"int", "long", "float", "double"},
    "long": {"long", "float", "double"},
    "float": {"float", "double"},
    "string": {"string", "bytes"},
    "bytes": {"string", "bytes"},
}
#: What logical types count, and how many of it are a second, or a day.
_COUNTS = {
    "date": ("days", 1),
    **{f"time-{unit}": ("time of a day", many) for unit, many in (("millis", 10**3), ("micros", 10**6))},
    **{
        f"{local}timestamp-{unit}": ("timestamps", many)
        for local in ("", "local-")
        for unit, many in (("millis", 10**3), ("micros", 10**6), ("nanos", 10**9))
    },
}
#: Columns of timestamps count so many a second.
_MICROS = 10**6


class Counted(NamedTuple):
    """The unit that whole numbers of a logical type count.

    :param what: days, times of a day or timestamps
    :param many: of them a second
    """

    what: str
    many: int


def columns_of(kind: pa.DataType) -> Any:
    """Return an empty column of a type."""
    if pa.types.is_struct(kind):
        return Fields({field.name: columns_of(field.type) for field in fields_of(kind)})
    if pa.types.is_map(kind):
        return Items(Leaf(), columns_of(kind.item_type))
    if pa.types.is_list(kind):
        return Items(columns_of(kind.value_type))
    return Leaf()


def array_of(column: Any, kind: pa.DataType) -> pa.Array:
    """Return what is in a column.

    :param column: from `columns_of`
    :param kind: its type, with times in microseconds
    """
    if isinstance(column, Fields):
        fields = fields_of(kind)
        arrays = [array_of(column.columns[field.name], field.type) for field in fields]
        missing = None if all(column.present) else pa.array([not there for there in column.present], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=missing)
    if isinstance(column, Items):
        # A null if a list begins is a list that is null.
        starts = [0, *column.ends[:-1]] if column.ends else []
        shown = [start if there else None for start, there in zip(starts, column.present, strict=True)]
        offsets = pa.array([*shown, column.ends[-1] if column.ends else 0], pa.int32())
        if pa.types.is_map(kind):
            keys, items = column.columns
            made = pa.MapArray.from_arrays(offsets, array_of(keys, kind.key_type), array_of(items, kind.item_type))
        else:
            made = pa.ListArray.from_arrays(offsets, array_of(column.columns[0], kind.value_type))
        return made if made.type == kind else made.cast(kind)
    return pa.array(column.values, kind)


class ColumnRows:
    """Rows that parsers of Avro put into columns.

    :param reader: the schema of the rows
    :param kind: their type, with times in microseconds
    :param field: the only field of rows whose schema is no record; None for a record
    """

    def __init__(self, reader: Parsed, kind: pa.StructType, field: str | None) -> None:
        self._reader = reader
        self._kind = kind
        self._field = field
        self._column = columns_of(kind)

    def parser(self, writer: Parsed) -> Parser:
        """Return the parser of records of a schema, which adds rows.

        :raises SchemaError: a default is no value of its type
        """
        resolution, reader, column = _Resolution(writer, self._reader), self._reader.tree, self._column
        if self._field is None:
            return Parser(resolution.step(writer.tree, reader, column, self._kind, ""), VALUES_MAX)
        kind = self._kind.field(self._field).type
        inner = resolution.step(writer.tree, reader, column.columns[self._field], kind, "")
        return Parser(Record("", column, [inner]), VALUES_MAX)

    def add(self, _: Any) -> None:
        """Do nothing: the parser has done it."""

    def follow(self, read: Any, records: list[bytes | None], number: int, prefix: bytes) -> int:
        """Add the rows of records that begin alike; return how many.

        :param read: their parser; anything else is a function that refuses each record
        """
        if not isinstance(read, Parser):
            return 0
        count = read.follow(records, number, prefix)
        if read.failed:
            self._column.cut(number + count)
        return count

    def lose(self, number: int) -> None:
        """Make a row null, whatever of it is there.

        :param number: of the row, the last one, from 0 on
        """
        self._column.cut(number)
        self._column.put(None)

    def finish(self, _: list[str | None]) -> pa.Array:
        """Return the rows."""
        return array_of(self._column, self._kind)

    def clear(self) -> None:
        """Forget all rows."""
        self._column.cut(0)


class _Resolution:
    """The steps from one schema to another one.

    :param writer: that of the records
    :param reader: that of the rows
    """

    def __init__(self, writer: Parsed, reader: Parsed) -> None:
        self._writer = writer.names
        self._reader = reader.names
        self._tree = writer.tree  # so that no identity changes its meaning
        self._is_recursive = is_recursive(writer)
        #: By name, and by the identities of type and column: each is made once, however often it is in the schema.
        self._skips: dict[str, Step] = {}
        self._steps: dict[tuple[int, int], Step] = {}

    def step(self, writer: Any, reader: Any, column: Any, kind: pa.DataType, path: str) -> Step:
        """Return what reads values of one type as those of another one.

        :param writer: the type in the record
        :param reader: the type of the column
        :param column: where they go
        :param kind: its type
        :param path: of the field, for errors
        :raises SchemaError: a default is no value of its type
        """
        writer = named(writer, self._writer)
        found = self._steps.get((id(writer), id(column)))
        if found is None:
            found = self._steps[id(writer), id(column)] = self._stepping(writer, reader, column, kind, path)
        return found

    def _stepping(self, writer: Any, reader: Any, column: Any, kind: pa.DataType, path: str) -> Step:
        if isinstance(writer, list):
            return Union(path, [self.step(one, reader, column, kind, path) for one in writer])
        fits = _best(writer, [named(one, self._reader) for one in (reader if isinstance(reader, list) else [reader])])
        if fits is None:
            why = f"is {_shown(writer)} in the schema of the record, and {_shown(reader)} in that of the rows"
            return Wrong(path, why)
        if isinstance(reader, list) and kind_of(fits) != "null":
            if is_struct(reader, self._reader):
                return self._member(writer, reader, fits, column, kind, path)
            fits = merged(reader, self._reader) or fits
        return self._same(writer, fits, column, kind, path)

    def _member(self, writer: Any, reader: list[Any], fits: Any, column: Fields, kind: pa.DataType, path: str) -> Step:
        """Return what reads values of one type of a union of several.

        :param fits: the type in the reader's union
        """
        types = [named(one, self._reader) for one in members(reader, self._reader)]
        name = member(next(number for number, one in enumerate(types) if one is fits))
        others = [one for other, one in column.columns.items() if other != name]
        if name not in column.columns:  # it contains itself too often
            return Member(path, column, self.skip(writer, path), others)
        step = self.step(writer, fits, column.columns[name], kind.field(name).type, _joined(path, name))
        return Member(path, column, step, others)

    def skip(self, writer: Any, path: str) -> Step:
        """Return what reads values of a type that the rows do not have."""
        made = self._skip(writer, path)
        return Nested(path, made) if self._is_recursive and isinstance(made, Record | Union | Blocks) else made

    def _skip(self, writer: Any, path: str) -> Step:
        """Return the same for use within others: it may lead to itself."""
        writer = named(writer, self._writer)
        name = writer.get("name") if isinstance(writer, dict) else None
        if name is not None and name in self._skips:
            return self._skips[name]
        if kind_of(writer) == "record":
            steps: list[Step] = []
            self._skips[writer["name"]] = made = Record(path, None, steps)
            steps += [self._skip(one["type"], f"{path}.{one['name']}") for one in writer["fields"]]
            return made
        return self._skipping(writer, path)

    def _skipping(self, writer: Any, path: str) -> Step:
        if isinstance(writer, list):
            return Union(path, [self._skip(one, path) for one in writer])
        kind = kind_of(writer)
        if kind == "array":
            return Blocks(path, None, self._skip(writer["items"], f"{path}[]"))
        if kind == "map":
            return Blocks(path, None, Bytes(path, None), self._skip(writer["values"], f"{path}{{}}"))
        if kind in _LIMITS:
            return Number(path, None, _LIMITS[kind])
        if kind in _SIZES:
            return Real(path, None, _SIZES[kind])
        if kind == "enum":
            return Symbol(path, None, writer["symbols"])
        if kind == "boolean":
            return Boolean(path, None)
        if kind == "null":
            return Constant(path, None, None)
        return Bytes(path, None, writer["size"] if kind == "fixed" else -1)

    def _same(self, writer: Any, reader: Any, column: Any, kind: pa.DataType, path: str) -> Step:
        """Return what reads values of a type that matches that of the column."""
        form, wanted = kind_of(writer), kind_of(reader)
        if form == "record":
            return self._record(writer, reader, column, kind, path)
        if form == "array":
            inner = self.step(writer["items"], reader["items"], column.columns[0], kind.value_type, f"{path}[]")
            return Blocks(path, column, inner, width=_width(kind.value_type))
        if form == "map":
            keys, items = column.columns
            inner = self.step(writer["values"], reader["values"], items, kind.item_type, f"{path}{{}}")
            return Blocks(path, column, Text(path, keys), inner, width=1 + _width(kind.item_type))
        if form in _LIMITS:
            return _number(writer, reader, column, path)
        if form in _SIZES:
            return Real(path, column, _SIZES[form])
        if form == "enum":
            kept, default = set(reader["symbols"]), reader.get("default")
            return Symbol(path, column, [symbol if symbol in kept else default for symbol in writer["symbols"]])
        if form == "boolean":
            return Boolean(path, column)
        if form == "null":
            return Constant(path, column, None)
        if pa.types.is_decimal(kind):
            digits = (kind.precision, kind.scale)
            has_own = isinstance(writer, dict) and writer.get("logicalType") == "decimal"
            written = (writer["precision"], writer.get("scale", 0)) if has_own else digits
            return Digits(path, column, writer["size"] if form == "fixed" else -1, written, digits)
        if wanted == "string":
            return Text(path, column)
        return Bytes(path, column, writer["size"] if form == "fixed" else -1)

    def _record(self, writer: Any, reader: Any, column: Fields, kind: pa.DataType, path: str) -> Step:
        # Fields whose type contains itself too often are no columns.
        fields = {field["name"]: field for field in reader["fields"] if field["name"] in column.columns}
        # A field's own name comes before the other names of another one.
        names = {alias: one for one in fields.values() for alias in one.get("aliases", ())} | fields
        left, steps = dict(fields), list[Step]()
        own = {one["name"] for one in writer["fields"]}
        for one in writer["fields"]:
            found = names.get(one["name"])
            inside = _joined(path, one["name"])
            if found is None or found["name"] not in left or (found["name"] != one["name"] and found["name"] in own):
                steps.append(self.skip(one["type"], inside))
                continue
            name = found["name"]
            del left[name]
            inside = _joined(path, name)
            steps.append(self.step(one["type"], found["type"], column.columns[name], kind.field(name).type, inside))
        for name, one in left.items():
            inside = _joined(path, name)
            if "default" not in one:
                why = "is not in the schema of the record, and has no default in that of the rows"
                steps.append(Wrong(inside, why))
                continue
            value = self._default(one["default"], one["type"], inside)
            _check_default(value, kind.field(name).type, inside)
            steps.append(Constant(inside, column.columns[name], value))
        return Record(path, column, steps)

    def _default(self, value: Any, reader: Any, path: str) -> Any:
        """Return a default as the columns have it."""
        reader = named(reader, self._reader)
        if value is None:
            return None
        if isinstance(reader, list):
            made = self._default(value, next(iter(members(reader, self._reader)), "null"), path)
            return {member(0): made} if is_struct(reader, self._reader) else made
        kind = kind_of(reader)
        if kind == "record":
            # The fields' own defaults are in it already.
            return {one["name"]: self._default(value.get(one["name"]), one["type"], path) for one in reader["fields"]}
        if kind == "array":
            return [self._default(one, reader["items"], path) for one in value]
        if kind == "map":
            return {name: self._default(one, reader["values"], path) for name, one in value.items()}
        counted = _counted(reader)
        if counted is not None and counted.what == "timestamps":
            return converted(path, value, _MICROS, counted.many, LONG)
        return value


def _width(kind: pa.DataType) -> int:
    """Return how many values one of a type is, if it has no lists."""
    if not pa.types.is_struct(kind):
        return 1
    return sum(_width(field.type) for field in fields_of(kind))


def _number(writer: Any, reader: Any, column: Leaf, path: str) -> Step:
    """Return what reads whole numbers; what counts in another unit is converted, and what counts something else is wrong."""
    form, wanted = kind_of(writer), kind_of(reader)
    written, counted = _counted(writer), _counted(reader)
    if written is not None and counted is not None and written.what != counted.what:
        return Wrong(path, f"counts {written.what} in the schema of the record, and {counted.what} in that of the rows")
    if counted is None or counted.what == "days":
        return Number(path, column, _LIMITS[form], wanted in _SIZES)
    many = counted.many if written is None else written.many
    goal = _MICROS if counted.what == "timestamps" else counted.many
    if many == goal:
        return Number(path, column, _LIMITS[form])
    return Time(path, column, _LIMITS[form], goal, many, _LIMITS[wanted])


def _counted(schema: Any) -> Counted | None:
    """Return what values of a type count; None for mere numbers."""
    if not isinstance(schema, dict) or kind_of(schema) not in _LIMITS:
        return None
    found = _COUNTS.get(str(schema.get("logicalType")))
    wants_int = schema.get("logicalType") in ("date", "time-millis")
    return None if found is None or wants_int != (kind_of(schema) == "int") else Counted(*found)


def _matches(writer: Any, reader: Any) -> bool:
    """Return whether values of a type may be values of another one; what is in them is matched later."""
    form, wanted = kind_of(writer), kind_of(reader)
    if form in ("record", "enum", "fixed"):
        if form != wanted or (form == "fixed" and writer["size"] != reader["size"]):
            return False
        others = {_short(alias) for alias in reader.get("aliases", ())}
        return _short(writer["name"]) in {_short(reader["name"]), *others}
    return wanted in _BECOMES.get(form, {form})


def _best(writer: Any, wanted: list[Any]) -> Any:
    """Return the type that values of a type become: one of the same name, or else kind, before those that it may become."""
    fits = [one for one in wanted if not isinstance(one, list) and _matches(writer, one)]
    return min(fits, key=lambda one: _distance(writer, one), default=None)


def _distance(writer: Any, reader: Any) -> int:
    if kind_of(writer) != kind_of(reader):
        return 2
    return int(isinstance(writer, dict) and isinstance(reader, dict) and writer.get("name") != reader.get("name"))


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _shown(schema: Any) -> str:
    if isinstance(schema, list):
        return f"union of {', '.join(map(_shown, schema))}"
    return str(schema.get("name") or schema["type"]) if isinstance(schema, dict) else str(schema)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_default(value: Any, kind: pa.DataType, path: str) -> None:
    column = columns_of(kind)
    try:
        column.put(value)
        array_of(column, kind)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise SchemaError(f"the default of {path} is no value of its type: {error}") from error
