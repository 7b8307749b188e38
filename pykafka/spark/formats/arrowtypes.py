"""Arrow's types as Spark has them, and rows of Python as Arrow's arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyarrow.compute import CastOptions

from pykafka.exceptions import SchemaError
from pykafka.spark.errors import SinkError

#: What a reason says at most (characters).
REASON_MAX = 300
TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
_DDL = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
}
#: So deep may types lie in each other, and so many of them may a schema become.
DEPTH_MAX, COLUMNS_MAX = 50, 10_000
#: The most values of one record, if few bytes can make many.
VALUES_MAX = 5_000_000
#: Digits of the longest decimal of Spark.
DECIMAL_MAX = 38


def ddl_of_fields(struct: pa.StructType) -> str:
    """Return the fields of a struct as Spark's DDL, by the types that `settled` returns."""
    return ", ".join(f"{quoted(field.name)} {_ddl(field.type)}" for field in fields_of(struct))


def _ddl(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"ARRAY<{_ddl(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_ddl(kind.key_type)}, {_ddl(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {_ddl(field.type)}' for field in fields_of(kind))}>"
    return _DDL[kind]


def quoted(name: str) -> str:
    """Return a name as Spark's SQL writes it; in the methods of DataFrames, too: they read "a.b" as a field of a."""
    return f"`{name.replace('`', '``')}`"


def fields_of(struct: pa.StructType) -> list[pa.Field]:
    """Return the fields of a struct."""
    return [struct.field(number) for number in range(struct.num_fields)]


def decimal(precision: Any, scale: Any, path: str) -> pa.DataType:
    """Return the type of a decimal.

    :param path: of the field, for the error
    :raises SchemaError: Spark has no decimal of so many digits
    """
    if not isinstance(precision, int) or not 0 < precision <= DECIMAL_MAX or not 0 <= scale <= precision:
        raise SchemaError(f"{path} is a decimal of {precision} digits, {scale} of them a fraction: Spark has up to 38")
    return pa.decimal128(precision, scale)


class TooManyColumnsError(SchemaError):
    """A schema becomes more columns than Spark plans in reasonable time."""


class Bounds:
    """Counts the columns that a schema becomes: names that refer to each other can make endless ones of a short text.

    :ivar values_left: how many values a record may still become
    """

    def __init__(self) -> None:
        self.values_left = VALUES_MAX
        self._columns = 0
        self._depth = 0

    @contextmanager
    def within(self, path: str) -> Iterator[None]:
        """Enter a type that has others in it.

        :param path: of the field, for the error
        :raises SchemaError: there are too many, or too many around it
        """
        self._columns += 1
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise SchemaError(f"{path} is nested more than {DEPTH_MAX} deep: take a schema with fewer levels")
        if self._columns > COLUMNS_MAX:
            raise TooManyColumnsError(
                f"{path} is one of more than {COLUMNS_MAX:,} structs, lists and maps: take a smaller schema, or fewer levels "
                "of types that contain themselves"
            )
        try:
            yield
        finally:
            self._depth -= 1


def settled(kind: pa.DataType) -> pa.DataType:
    """Return a type as Spark has it: times in microseconds."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(settled(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(settled(kind.key_type), settled(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, settled(field.type)) for field in fields_of(kind)])
    return kind


class ListRows:
    """Rows as dicts, until they become an array.

    :param kind: the type that they fit
    """

    def __init__(self, kind: pa.StructType) -> None:
        self._kind = kind
        self._rows: list[Any] = []

    def add(self, row: Any) -> None:
        """Add a row."""
        self._rows.append(row)

    def follow(self, read: Any, records: list[bytes | None], number: int, prefix: bytes) -> int:
        """Add none: these parsers read one record at a time."""
        return 0

    def lose(self, _: int) -> None:
        """Add null in place of a row."""
        self._rows.append(None)

    def finish(self, reasons: list[str | None]) -> pa.Array:
        """Return the rows; one that does not fit becomes null, with a reason."""
        return as_array(self._rows, reasons, self._kind)

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.clear()


def as_array(rows: list[Any], reasons: list[str | None], kind: pa.DataType) -> pa.Array:
    """Return rows as an array of the settled type; a row that does not fit becomes null, with a reason.

    :param rows: dicts, or None
    :param reasons: of the same length, which takes the reasons
    :param kind: the type that the rows fit
    """
    wanted = settled(kind)
    # An error of Arrow, or of Python within it, is about some row, with a value that fits no type.
    with suppress(Exception):
        return _made(rows, kind, wanted)
    for number, row in enumerate(rows):
        if row is not None:
            try:
                _made([row], kind, wanted)
            except Exception as error:  # noqa: BLE001 - as above
                rows[number], reasons[number] = None, reason(error)
    return _made(rows, kind, wanted)


def _made(rows: list[Any], kind: pa.DataType, wanted: pa.DataType) -> pa.Array:
    made = pa.array(rows, kind)
    # A time beyond those of microseconds is an error.
    return made if kind == wanted else made.cast(options=CastOptions(wanted, allow_time_truncate=True))


def reason(error: Exception) -> str:
    """Return what a library says about a record, as its reason."""
    said = " ".join(str(error).split()) or "no text"
    return f"{type(error).__name__}: {said}"[:REASON_MAX]


def python_rows(rows: pa.StructArray) -> list[Any]:
    """Return rows as dicts, with dicts for maps as well."""
    convert = _converter(rows.type)
    found = rows.to_pylist()
    return found if convert is None else [None if row is None else convert(row) for row in found]


def check_zones(kind: pa.DataType, path: str = "") -> None:
    """Refuse times without a zone: libraries take them for the worker's own, or for UTC.

    :param path: of the field
    :raises SinkError: there is one
    """
    if pa.types.is_timestamp(kind) and kind.tz is None:
        raise SinkError(
            f"column {path!r} is TIMESTAMP_NTZ, a time without its zone, which the schema has not: cast it to TIMESTAMP"
        )
    if pa.types.is_map(kind):
        check_zones(kind.item_type, f"{path}{{}}")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        check_zones(kind.value_type, f"{path}[]")
    elif pa.types.is_struct(kind):
        for field in fields_of(kind):
            check_zones(field.type, f"{path}.{field.name}" if path else field.name)


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what makes dicts of the maps in a value; None if there are none."""
    if pa.types.is_map(kind):
        inner = _converter(kind.item_type) or _same
        return lambda value: {key: None if item is None else inner(item) for key, item in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = _converter(kind.value_type)
        return None if each is None else (lambda value: [None if item is None else each(item) for item in value])
    if pa.types.is_struct(kind):
        inside = [(field.name, _converter(field.type)) for field in fields_of(kind)]
        changed = [(name, one) for name, one in inside if one is not None]
        return _of_struct(changed) if changed else None
    return None


def _same(value: Any) -> Any:
    return value


def _of_struct(changed: Sequence[tuple[str, Callable[[Any], Any]]]) -> Callable[[Any], Any]:
    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return value | {name: each(value[name]) for name, each in changed if value[name] is not None}

    return convert
