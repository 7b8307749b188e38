"""Protobuf: rows of one message, by its descriptor; fields that it does not know are skipped, as Protobuf says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from pykafka.exceptions import SchemaError
from pykafka.registry import protobuf
from pykafka.registry.schemas import FramingError, Schema, read_indexes, with_indexes
from pykafka.spark.data_loss import warn
from pykafka.spark.errors import OptionError
from pykafka.spark.formats.arrowtypes import TIMESTAMP, VALUES_MAX, Bounds
from pykafka.spark.formats.decoder import Decoder, Read
from pykafka.spark.formats.encoder import Encoder, Write
from pykafka.spark.formats.options import NONE, Side, recursion_refused
from pykafka.spark.formats.protobuf_messages import (
    ENUM,
    GROUP,
    MESSAGE,
    REPEATED,
    described_fields,
    is_any,
    is_map,
    is_timestamp,
    is_wrapper,
    json_of_any,
    message_of,
    method,
    without_values,
    writer,
)

_MICROS, _NANOS, _NANOS_MAX = 1_000_000, 1_000, 1_000_000_000
#: The first second of the year 1, and the last one of 9999, since 1970.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
#: By the numbers of FieldDescriptorProto.Type.
_SCALARS = {
    **{1: pa.float64(), 2: pa.float32(), 8: pa.bool_(), 9: pa.string(), 12: pa.binary()},
    **dict.fromkeys((3, 16, 18), pa.int64()),
    **dict.fromkeys((5, 15, 17), pa.int32()),
    **dict.fromkeys((13, 7), pa.int64()),
    **dict.fromkeys((4, 6), pa.decimal128(20, 0)),
}
#: So many fields that are left out are named.
_NAMED_MAX = 20
#: Makes a value of Arrow of one of Protobuf; None if it is the same.
_Convert = Callable[[Any], Any] | None


class _Column(NamedTuple):
    """A column of fields.

    :param kind: its type
    :param convert: makes a value of Arrow from a message
    """

    kind: pa.DataType
    convert: Callable[[Any], Any]


class _Message:
    """The message of a column's options, which its decoder and encoder find by name."""

    side: Side
    schema: Schema | None
    needed: dict[str, Schema]

    def found(self) -> tuple[protobuf.ProtoFile, Any]:
        """Return the file, and the descriptor of the message.

        :raises SchemaError: the schema has none of that name
        """
        file = (
            protobuf.of_set(self.side.descriptors)
            if self.side.descriptors is not None
            else protobuf.compiled(_some(self.schema), self.needed)
        )
        if not file.messages:
            raise SchemaError("the schema has no message")
        return file, file.named(self.side.message or file.messages[0])


class ProtobufDecoder(_Message, Decoder):
    """Rows of one message of Protobuf."""

    def _arrow(self) -> pa.StructType:
        _, message = self.found()
        self._name = message.full_name
        columns = _Columns(message, self.side.max_depth, self.side.any_as_json)
        columns.warn()
        return columns.kind

    def _reader(self, schema: Schema | None, path: bytes | None) -> Read:
        own, mine = self.found()
        parse, columns = method(mine, "FromString"), _Columns(mine, self.side.max_depth, self.side.any_as_json)
        convert, bounds = columns.convert, columns.bounds

        def parsed(data: bytes, start: int) -> Any:
            bounds.values_left = VALUES_MAX
            return convert(parse(data[start:]))

        if schema is None:
            return parsed
        file = own if schema == self.schema else protobuf.compiled(schema, self._needed(schema))
        right: set[tuple[int, ...]] = set()

        def check(at: tuple[int, ...]) -> None:
            if at not in right:
                names = file.names_at(at)
                if self._name not in names:
                    raise FramingError(f"it is a message {names[0]}, not a {self._name}")
                right.add(at)

        if path is not None:  # of a header, for all its records
            fixed, _ = read_indexes(path, 0)

            def read_value(data: bytes, start: int) -> Any:
                check(fixed)
                return parsed(data, start)

            return read_value

        def read(data: bytes, start: int) -> Any:
            at, start = read_indexes(data, start)
            check(at)
            return parsed(data, start)

        return read


class ProtobufEncoder(_Message, Encoder):
    """Rows as one message of Protobuf."""

    def __init__(self, side: Side) -> None:
        if side.descriptors is not None and side.framing != NONE:
            raise OptionError(
                "'descriptor_file' cannot say the id of the schema: leave it out, and name a version of the subject, or give "
                "'schema_file'"
            )
        super().__init__(side)

    def _names(self) -> list[str]:
        file, message = self.found()
        self._at = file.path_of(message.full_name) if self.side.framing != NONE else ()
        _Columns(message, self.side.max_depth or 1, self.side.any_as_json)  # what has no type cannot be written either
        return [field.name for field in message.fields]

    def _path(self) -> bytes:
        return with_indexes(self._at)

    def _writer(self) -> Write:
        _, message = self.found()
        return writer(message, self.side.any_as_json)


def _some(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema


class _Columns:
    """The columns of a message.

    :param message: its descriptor
    :param max_depth: levels of a message that contains itself; 0 refuses such messages
    :param any_as_json: whether `google.protobuf.Any` is a column of JSON text
    :raises SchemaError: Spark has no type for it
    :ivar kind: their type
    :ivar convert: makes a row of a message
    :ivar bounds: of the schema
    """

    def __init__(self, message: Any, max_depth: int, any_as_json: bool) -> None:
        self.bounds = Bounds()
        self._name = message.full_name
        self._max_depth = max_depth
        self._any_as_json = any_as_json
        self._empty = without_values(message)
        self._left_out: dict[str, str] = {}
        self.kind, self.convert = self._of_fields(message, {}, "")

    def warn(self) -> None:
        """Log a warning with the fields that are no columns, since their messages have no fields."""
        named = [f"{path} ({name})" for path, name in self._left_out.items()]
        if len(named) > _NAMED_MAX:
            named[_NAMED_MAX:] = [f"{len(named) - _NAMED_MAX} more"]
        if named:
            warn(
                f"these fields of {self._name} are left out, as their messages have no fields, and Spark has no type for "
                f"such: {', '.join(named)}"
            )
        if not self.kind.num_fields:
            warn(f"the rows have no columns, as the message {self._name} has no fields that a column could hold")

    def _of_message(self, message: Any, around: Mapping[str, int], path: str) -> _Column | None:
        """Return the type of a message, and what makes a dict of one; None if all in it is within itself too often.

        :param around: how often it lies in each message, by name
        :param path: of the field, for errors
        :raises SchemaError: Spark has no type for it
        """
        name, depth = message.full_name, around.get(message.full_name, 0)
        if depth and not self._max_depth:
            raise recursion_refused("protobuf", path, name)
        if depth and depth >= self._max_depth:
            return None
        column = self._of_fields(message, around, path)
        return column if column.kind.num_fields else None

    def _of_fields(self, message: Any, around: Mapping[str, int], path: str) -> _Column:
        kinds: list[tuple[str, pa.DataType]] = []
        getters: list[tuple[str, Callable[[Any], Any]]] = []
        described = described_fields(message)
        within = {**around, message.full_name: around.get(message.full_name, 0) + 1}
        with self.bounds.within(path or "the schema"):
            for field in message.fields:
                inside = f"{path}.{field.name}" if path else field.name
                inner = message_of(field)
                if inner is not None and inner.full_name in self._empty:
                    self._left_out[inside] = inner.full_name
                    continue
                column = self._of_field(field, described[field.name], within, inside)
                if column is not None:
                    kinds.append((field.name, column.kind))
                    getters.append((field.name, column.convert))

        def convert(value: Any) -> dict[str, Any]:
            # A message of two bytes may have a thousand fields, and a list any number of those.
            self.bounds.values_left -= len(getters)
            if self.bounds.values_left < 0:
                raise ValueError(f"{path} makes it more than {VALUES_MAX:,} values: such records are not read")
            return {field: get(value) for field, get in getters}

        return _Column(pa.struct(kinds), convert)

    def _of_field(self, field: Any, described: Any, around: Mapping[str, int], path: str) -> _Column | None:
        """Return the type of a field, and what gets it of its message."""
        if is_map(field):
            return self._of_map(field, around, path)
        name, repeated = field.name, described.label == REPEATED
        found = self._of_value(field, described.type, around, f"{path}[]" if repeated else path)
        if found is None:
            return None
        kind, convert = found
        if repeated:
            if convert is None:
                return _Column(pa.list_(kind), lambda message: list(getattr(message, name)))
            return _Column(pa.list_(kind), lambda message: [convert(each) for each in getattr(message, name)])
        if field.has_presence:
            same, has = convert or _same, method(field.containing_type, "HasField")
            return _Column(kind, lambda message: same(getattr(message, name)) if has(message, name) else None)
        if convert is None:
            return _Column(kind, lambda message: getattr(message, name))
        return _Column(kind, lambda message: convert(getattr(message, name)))

    def _of_map(self, field: Any, around: Mapping[str, int], path: str) -> _Column | None:
        name, parts = field.name, field.message_type.fields_by_name
        keys = self._of_value(parts["key"], parts["key"].type, around, path)
        items = self._of_value(parts["value"], parts["value"].type, around, f"{path}{{}}")
        if keys is None or items is None:
            return None
        kind, convert = pa.map_(keys[0], items[0]), items[1]
        if convert is None:
            return _Column(kind, lambda message: list(getattr(message, name).items()))
        return _Column(kind, lambda message: [(k, convert(v)) for k, v in getattr(message, name).items()])

    def _of_value(
        self, field: Any, type: int, around: Mapping[str, int], path: str
    ) -> tuple[pa.DataType, _Convert] | None:
        """Return the type of one value of a field, and what makes a value of Arrow."""
        if type == ENUM:
            # Of several names of a number the first one counts, as in Protobuf's JSON.
            names = {one.number: one.name for one in reversed(field.enum_type.values)}
            return pa.string(), lambda number: names.get(number) or str(number)
        if type not in (MESSAGE, GROUP):
            return _SCALARS[type], None
        if is_timestamp(field.message_type):
            return TIMESTAMP, _micros
        if is_wrapper(field.message_type):
            (inner,) = field.message_type.fields
            return _SCALARS[inner.type], lambda value: value.value
        if self._any_as_json and is_any(field.message_type):
            return pa.string(), json_of_any
        return self._of_message(field.message_type, around, path)


def _micros(value: Any) -> int:
    """Return a timestamp in microseconds.

    :raises ValueError: it is none by Protobuf's own definition
    """
    seconds, nanos = value.seconds, value.nanos
    if not (_FIRST_S <= seconds <= _LAST_S and 0 <= nanos < _NANOS_MAX):
        raise ValueError(f"{seconds} s and {nanos} ns are no Timestamp, which is of the years 1 to 9999")
    return int(seconds * _MICROS + nanos // _NANOS)


def _same(value: Any) -> Any:
    return value
