"""Facts about the fields of a message of Protobuf that its descriptors say in more than one way."""

from __future__ import annotations

from typing import Any

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
#: By the numbers of FieldDescriptorProto.Label and FieldDescriptorProto.Type.
REPEATED, GROUP, MESSAGE, ENUM = 3, 10, 11, 14


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
