"""Protobuf: rows of one message, by its descriptor; fields that it does not know are skipped, as Protobuf says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pykafka.exceptions import SchemaError
from pykafka.registry import protobuf
from pykafka.registry.framing import FramingError, read_indexes, with_indexes
from pykafka.registry.schemas import Schema
from pykafka.spark.errors import OptionError
from pykafka.spark.formats.arrowtypes import TIMESTAMP, VALUES_MAX, Bounds
from pykafka.spark.formats.decoder import Read, SchemaDecoder
from pykafka.spark.formats.encoder import SchemaEncoder, Write
from pykafka.spark.formats.options import NONE, Side

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_MICROS, _NANOS, _NANOS_MAX = 1_000_000, 1_000, 1_000_000_000
#: The first second of the year 1, and the last one of 9999, since 1970.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
_REPEATED, _GROUP, _MESSAGE, _ENUM = 3, 10, 11, 14
#: By the numbers of FieldDescriptorProto.Type.
_SCALARS = {
    **{1: pa.float64(), 2: pa.float32(), 8: pa.bool_(), 9: pa.string(), 12: pa.binary()},
    **dict.fromkeys((3, 16, 18), pa.int64()),
    **dict.fromkeys((5, 15, 17), pa.int32()),
    **dict.fromkeys((13, 7), pa.int64()),
    **dict.fromkeys((4, 6), pa.decimal128(20, 0)),
}
#: Makes a value of Arrow of one of Protobuf; None where it is the same.
_Convert = Callable[[Any], Any] | None


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


class ProtobufDecoder(_Message, SchemaDecoder):
    """Rows of one message of Protobuf."""

    def _arrow(self) -> pa.StructType:
        _, message = self.found()
        self._name = message.full_name
        kind, _ = _of_message(message, (), "", Bounds())
        return kind

    def _reader(self, schema: Schema | None, path: bytes | None) -> Read:
        from google.protobuf import message_factory

        own, mine = self.found()
        parse, bounds = message_factory.GetMessageClass(mine).FromString, Bounds()
        _, convert = _of_message(mine, (), "", bounds)

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


class ProtobufEncoder(_Message, SchemaEncoder):
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
        _of_message(message, (), "", Bounds())  # what has no type cannot be written either
        return [one.name for one in message.fields]

    def _path(self) -> bytes:
        return with_indexes(self._at)

    def _writer(self) -> Write:
        from google.protobuf import message_factory

        _, descriptor = self.found()
        make, fill = message_factory.GetMessageClass(descriptor), _filler(descriptor)

        def write(row: dict[str, Any]) -> bytes:
            message = make()
            fill(message, row)
            return bytes(message.SerializeToString())

        return write


def _some(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema


def _described(message: Any) -> dict[str, Any]:
    """Return FieldDescriptorProto by name: it says alike in all releases whether a field repeats."""
    from google.protobuf.descriptor_pb2 import DescriptorProto

    copied = DescriptorProto()
    message.CopyToProto(copied)
    return {one.name: one for one in copied.field}


def _of_message(
    message: Any, around: tuple[str, ...], path: str, bounds: Bounds
) -> tuple[pa.StructType, Callable[[Any], Any]]:
    """Return the type of a message, and what makes a dict of one.

    :param around: names of the messages that it lies in
    :param path: of the field, for errors
    :param bounds: of the schema
    :raises SchemaError: Spark has no type for it
    """
    name = message.full_name
    if name in around:
        raise SchemaError(f"{path} is a {name} within a {name}: Spark has no type that contains itself")
    if not message.fields:
        raise SchemaError(f"{path or 'the schema'} is a message without fields, {name}: Spark has no such type")
    kinds: list[tuple[str, pa.DataType]] = []
    getters: list[tuple[str, Callable[[Any], Any]]] = []
    described = _described(message)
    with bounds.within(path or "the schema"):
        for one in message.fields:
            inside = f"{path}.{one.name}" if path else one.name
            kind, get = _of_field(one, described[one.name], (*around, name), inside, bounds)
            kinds.append((one.name, kind))
            getters.append((one.name, get))

    def convert(value: Any) -> dict[str, Any]:
        # A message of two bytes may have a thousand fields, and a list any number of those.
        bounds.values_left -= len(getters)
        if bounds.values_left < 0:
            raise ValueError(f"{path} makes it more than {VALUES_MAX:,} values: such records are not read")
        return {field: get(value) for field, get in getters}

    return pa.struct(kinds), convert


def _of_field(
    field: Any, told: Any, around: tuple[str, ...], path: str, bounds: Bounds
) -> tuple[pa.DataType, Callable[[Any], Any]]:
    """Return the type of a field, and what gets it of its message."""
    name = field.name
    if told.label == _REPEATED and told.type == _MESSAGE and field.message_type.GetOptions().map_entry:
        parts = field.message_type.fields_by_name
        key, _ = _of_value(parts["key"], told=None, around=around, path=path, bounds=bounds)
        item, convert = _of_value(parts["value"], told=None, around=around, path=f"{path}{{}}", bounds=bounds)
        if convert is None:
            return pa.map_(key, item), lambda message: list(getattr(message, name).items())
        return pa.map_(key, item), lambda message: [(k, convert(v)) for k, v in getattr(message, name).items()]
    kind, convert = _of_value(field, told, around, f"{path}[]" if told.label == _REPEATED else path, bounds)
    if told.label == _REPEATED:
        if convert is None:
            return pa.list_(kind), lambda message: list(getattr(message, name))
        return pa.list_(kind), lambda message: [convert(each) for each in getattr(message, name)]
    if field.has_presence:
        same = convert or _same
        return kind, lambda message: same(getattr(message, name)) if message.HasField(name) else None
    if convert is None:
        return kind, lambda message: getattr(message, name)
    return kind, lambda message: convert(getattr(message, name))


def _of_value(
    field: Any, told: Any, around: tuple[str, ...], path: str, bounds: Bounds
) -> tuple[pa.DataType, _Convert]:
    """Return the type of one value of a field, and what makes a value of Arrow."""
    kind = field.type if told is None else told.type
    if kind == _ENUM:
        names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
        return pa.string(), lambda number: names.get(number) or str(number)
    if kind not in (_MESSAGE, _GROUP):
        return _SCALARS[kind], None
    full = field.message_type.full_name
    if full == _TIMESTAMP:
        return TIMESTAMP, _micros
    if full in _WRAPPERS:
        inner, _ = _of_value(field.message_type.fields_by_name["value"], None, around, path, bounds)
        return inner, lambda value: value.value
    return _of_message(field.message_type, around, path, bounds)


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


def _filler(message: Any) -> Callable[[Any, dict[str, Any]], None]:
    """Return what fills a message from a dict; null leaves a field out."""
    described = _described(message)
    fields = {one.name: _setter(one, described[one.name]) for one in message.fields}

    def fill(target: Any, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if value is not None:
                if name not in fields:
                    raise ValueError(f"{target.DESCRIPTOR.full_name} has no field {name}")
                fields[name](target, value)

    return fill


def _setter(field: Any, told: Any) -> Callable[[Any, Any], None]:
    name = field.name
    if told.type not in (_MESSAGE, _GROUP):
        value_of = _scalar(field)
        if told.label == _REPEATED:
            return lambda target, value: getattr(target, name).extend(map(value_of, value))
        return lambda target, value: setattr(target, name, value_of(value))
    if told.label == _REPEATED and field.message_type.GetOptions().map_entry:
        return _map_setter(name, field.message_type.fields_by_name["value"])
    put = _putter(field.message_type)
    if told.label == _REPEATED:

        def extend(target: Any, value: Any) -> None:
            for each in value:
                put(getattr(target, name).add(), each)

        return extend

    def one(target: Any, value: Any) -> None:
        inner = getattr(target, name)
        inner.SetInParent()  # a message without fields that are set is there nevertheless
        put(inner, value)

    return one


def _map_setter(name: str, item: Any) -> Callable[[Any, Any], None]:
    if item.type == _MESSAGE:
        put = _putter(item.message_type)

        def fill(target: Any, value: Any) -> None:
            for key, each in value.items():
                put(getattr(target, name)[key], each)

        return fill
    value_of = _scalar(item)
    return lambda target, value: getattr(target, name).update({key: value_of(each) for key, each in value.items()})


def _putter(message: Any) -> Callable[[Any, Any], None]:
    """Return what sets a message of a value."""
    if message.full_name == _TIMESTAMP:
        return lambda target, value: target.FromDatetime(value)
    if message.full_name in _WRAPPERS:
        value_of = _scalar(message.fields_by_name["value"])
        return lambda target, value: setattr(target, "value", value_of(value))
    return _filler(message)


def _scalar(field: Any) -> Callable[[Any], Any]:
    """Return what makes a value of Protobuf."""
    if field.type == _ENUM:
        numbers = {name: one.number for name, one in field.enum_type.values_by_name.items()}
        full = field.enum_type.full_name

        def number(value: str) -> Any:
            if value not in numbers:
                raise ValueError(f"{value!r} is none of {full}")
            return numbers[value]

        return number
    return int if field.type in (4, 6) else _same
