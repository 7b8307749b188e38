"""Messages of Protobuf made from rows; and facts about fields, which descriptors say in more than one way."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import Any

_TIMESTAMP = "google.protobuf.Timestamp"
_ANY = "google.protobuf.Any"
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
#: By the numbers of FieldDescriptorProto.Label and FieldDescriptorProto.Type.
REPEATED, GROUP, MESSAGE, ENUM = 3, 10, 11, 14

_FLOAT, _UINT64, _FIXED64 = 2, 4, 6
#: The largest number of 32 bits with a fraction.
_FLOAT_MAX = float.fromhex("0x1.fffffep+127")
#: Sets a field of a message, or a message, to a value of a row.
_Put = Callable[[Any, Any], None]


def described_fields(message: Any) -> dict[str, Any]:
    """Return FieldDescriptorProto by name: it says alike in all releases whether a field repeats."""
    from google.protobuf.descriptor_pb2 import DescriptorProto

    copied = DescriptorProto()
    message.CopyToProto(copied)
    return {one.name: one for one in copied.field}


def method(message: Any, name: str) -> Any:
    """Return a method of a message's class: a field of the same name hides that of an object.

    :param message: the descriptor
    :param name: of the method
    """
    from google.protobuf.message_factory import GetMessageClass

    return getattr(GetMessageClass(message), name)


def is_map(field: Any) -> bool:
    """Return whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def is_timestamp(message: Any) -> bool:
    """Return whether a message is the well-known one for a time."""
    return message.full_name == _TIMESTAMP and set(message.fields_by_name) == {"seconds", "nanos"}


def is_wrapper(message: Any) -> bool:
    """Return whether a message is a well-known one around a single value."""
    return message.full_name in _WRAPPERS and list(message.fields_by_name) == ["value"]


def is_any(message: Any) -> bool:
    """Return whether a message is the well-known one around a message of any type."""
    return message.full_name == _ANY and set(message.fields_by_name) == {"type_url", "value"}


def json_of_any(value: Any) -> str:
    """Return a `google.protobuf.Any` as JSON text.

    :raises TypeError: the schema and its imports do not have the type of the message in it
    """
    from google.protobuf.json_format import MessageToDict

    made = MessageToDict(value, descriptor_pool=value.DESCRIPTOR.file.pool)
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"))


def _set_any(target: Any, text: str) -> None:
    from google.protobuf.json_format import Parse

    Parse(text, target, descriptor_pool=target.DESCRIPTOR.file.pool)


def message_of(field: Any) -> Any:
    """Return the message of a field's values, of a map that of its items; None if they are none."""
    return (field.message_type.fields_by_name["value"] if is_map(field) else field).message_type


def without_values(message: Any) -> set[str]:
    """Return the names of the messages that can hold no value: without fields, or with fields of such only.

    :param message: which is one of them, or has them in it
    """
    seen, left = {message.full_name}, [message]
    around: dict[str, list[str]] = {}
    filled: list[str] = []
    while left:
        outer = left.pop()
        for field in outer.fields:
            inner = message_of(field)
            if inner is None or is_timestamp(inner) or is_wrapper(inner):
                filled.append(outer.full_name)
                continue
            around.setdefault(inner.full_name, []).append(outer.full_name)
            if inner.full_name not in seen:
                seen.add(inner.full_name)
                left.append(inner)
    while filled:
        name = filled.pop()
        if name in seen:
            seen.remove(name)
            filled += around.get(name, ())
    return seen


class FieldError(ValueError):
    """A value does not fit a field, which the text begins with."""


def writer(message: Any, any_as_json: bool) -> Callable[[dict[str, Any]], bytes]:
    """Return what makes the bytes of a message from a row; null leaves a field out.

    :param message: its descriptor
    :param any_as_json: whether rows have `google.protobuf.Any` as JSON text
    """
    from google.protobuf.message_factory import GetMessageClass

    make, serialize = GetMessageClass(message), method(message, "SerializeToString")
    fill = _Putters(without_values(message), any_as_json).of_row(message, "")

    def write(row: dict[str, Any]) -> bytes:
        made = make()
        fill(made, row)
        return bytes(serialize(made))

    return write


class _Putters:
    """Functions that set the fields of messages.

    :param empty: names of the messages that can hold no value
    :param any_as_json: whether rows have `google.protobuf.Any` as JSON text
    """

    def __init__(self, empty: set[str], any_as_json: bool) -> None:
        self._empty = empty
        self._any_as_json = any_as_json

    def of_row(self, message: Any, path: str) -> _Put:
        """Return what fills a message from a dict.

        :param path: of the message's field, for errors
        """
        if message.full_name in self._empty:  # it may contain itself
            return _nothing(message)
        described = described_fields(message)
        paths = {field.name: f"{path}.{field.name}" if path else field.name for field in message.fields}
        kinds = {one.name: _kind(one, described[one.name]) for one in message.fields}
        puts = {one.name: self._of_field(one, described[one.name], paths[one.name]) for one in message.fields}

        def fill(target: Any, row: dict[str, Any]) -> None:
            for name, value in row.items():
                if value is None:
                    continue
                put = puts.get(name)
                if put is None:
                    raise ValueError(f"{message.full_name} has no field {name}")
                try:
                    put(target, value)
                except FieldError:
                    raise
                except Exception as error:
                    raise FieldError(f"{paths[name]}: {_why(error, value, kinds[name])}") from error

        return fill

    def _of_field(self, field: Any, described: Any, path: str) -> _Put:
        name = field.name
        if is_map(field):
            return self._of_map(field, path)
        if described.label == REPEATED:
            return self._of_list(field, described, path)
        if described.type not in (MESSAGE, GROUP):
            value_of = _scalar(field)
            if value_of is _same:
                return _alone(field, lambda target, value: setattr(target, name, value))
            return _alone(field, lambda target, value: setattr(target, name, value_of(value)))
        put, present = self._of_value(field.message_type, path), method(field.message_type, "SetInParent")

        def fill(target: Any, value: Any) -> None:
            inner = getattr(target, name)
            present(inner)  # a message without fields that are set is there nevertheless
            put(inner, value)

        return _alone(field, fill)

    def _of_list(self, field: Any, described: Any, path: str) -> _Put:
        name = field.name
        if described.type not in (MESSAGE, GROUP):
            value_of = _scalar(field)
            return lambda target, value: getattr(target, name).extend(map(value_of, value))
        put = self._of_value(field.message_type, f"{path}[]")

        def extend(target: Any, value: Any) -> None:
            for each in value:
                put(getattr(target, name).add(), each)

        return extend

    def _of_map(self, field: Any, path: str) -> _Put:
        name, parts = field.name, field.message_type.fields_by_name
        key_of, item = _scalar(parts["key"]), parts["value"]
        if item.message_type is None:
            value_of = _scalar(item)
            return lambda target, value: getattr(target, name).update(
                {key_of(key): value_of(each) for key, each in value.items()}
            )
        put = self._of_value(item.message_type, f"{path}{{}}")

        def fill(target: Any, value: Any) -> None:
            for key, each in value.items():
                put(getattr(target, name)[key_of(key)], each)

        return fill

    def _of_value(self, message: Any, path: str) -> _Put:
        """Return what sets a message to a value."""
        if is_timestamp(message):
            return lambda target, value: target.FromDatetime(value)
        if is_wrapper(message):
            value_of = _scalar(message.fields_by_name["value"])
            return lambda target, value: setattr(target, "value", value_of(value))
        if self._any_as_json and is_any(message):
            return _set_any
        made: list[_Put] = []

        def fill(target: Any, value: Any) -> None:
            if not made:  # not before there is a value: it may contain itself
                made.append(self.of_row(message, path))
            made[0](target, value)

        return fill


def _kind(field: Any, described: Any) -> str:
    """Return the type of a field, for errors."""
    if is_map(field):
        return "map"
    named = field.enum_type or field.message_type
    kind = described.Type.Name(described.type).removeprefix("TYPE_").lower() if named is None else named.full_name
    return f"repeated {kind}" if described.label == REPEATED else kind


def _why(error: Exception, value: Any, kind: str) -> str:
    """Return what is wrong with a value.

    :param error: what the library says of it, which is vague about types
    :param kind: the type of the field
    """
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if None in items:
        return "a list or a map has a null in it, and Protobuf has none: leave the item out"
    if isinstance(error, TypeError | AttributeError):
        inside = ", ".join(sorted({type(each).__name__ for each in items}))
        given = type(value).__name__ + (f" of {inside}" if inside else "")
        return f"the field is {kind} in the schema, and the row has {given}: {error}"
    return str(error)


def _nothing(message: Any) -> _Put:
    def fill(target: Any, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if value is not None:
                raise ValueError(f"{message.full_name} has no field that holds a value, such as {name}")

    return fill


def _alone(field: Any, put: _Put) -> _Put:
    """Return what sets a field, and refuses a second one of the same `oneof`."""
    if field.containing_oneof is None or len(field.containing_oneof.fields) == 1:
        return put
    oneof, which = field.containing_oneof.name, method(field.containing_type, "WhichOneof")

    def fill(target: Any, value: Any) -> None:
        other = which(target, oneof)
        if other is not None:
            raise ValueError(
                f"the row has {other}, too, and only one field of the oneof {oneof} may be set: make one null"
            )
        put(target, value)

    return fill


def _scalar(field: Any) -> Callable[[Any], Any]:
    """Return what makes a value of Protobuf."""
    if field.type == ENUM:
        return _enum(field.enum_type)
    return {_FLOAT: _in_range, _UINT64: _whole, _FIXED64: _whole}.get(field.type, _same)


def _enum(enum: Any) -> Callable[[str], int]:
    numbers: dict[str, int] = {name: one.number for name, one in enum.values_by_name.items()}

    def number(value: str) -> int:
        if value in numbers:
            return numbers[value]
        # A number without a name is read as its text.
        if not enum.is_closed and value.removeprefix("-").isdecimal() and str(int(value)) == value:
            return int(value)
        raise ValueError(f"{value!r} is none of {enum.full_name}")

    return number


def _whole(value: Any) -> Any:
    """Return a number of 64 bits without a sign, which is a DECIMAL in rows."""
    if not isinstance(value, Decimal):
        return value
    number = int(value)
    if number != value:
        raise ValueError(f"{value} is no whole number")
    return number


def _in_range(value: Any) -> Any:
    if abs(value) > _FLOAT_MAX and isfinite(value):
        raise ValueError(f"{value} is too large for a float")
    return value


def _same(value: Any) -> Any:
    return value
