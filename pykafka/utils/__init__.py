"""Small helpers that belong to no part."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from operator import index
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.exceptions import UnicodeException
from pykafka.utils.api_versions import ApiVersionAware, msg_protocol_version

__all__ = [
    "INT64_MAX",
    "ApiVersionAware",
    "Serializable",
    "as_datetime",
    "deserialize_utf8",
    "get_bytes",
    "get_string",
    "is_legal_name",
    "milliseconds",
    "msg_protocol_version",
    "names_on_use",
    "old_attributes",
    "old_names",
    "serialize_utf8",
]

T = TypeVar("T")

#: The highest offset, and the latest time (ms), that Kafka can write down.
INT64_MAX = 2**63 - 1
#: How many digits offsets and numbers of partitions have at most.
OFFSET_DIGITS, PARTITION_DIGITS = 19, 10

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Serializable:
    """Base of objects with a bytes form."""

    def __len__(self) -> int:
        """Return the size when written (bytes)."""
        raise NotImplementedError(f"{type(self).__name__} does not say its size")

    def pack_into(self, buff: bytearray | memoryview, offset: int) -> None:
        """Write this into a buffer.

        :param buff: to write into
        :param offset: where to begin
        """
        raise NotImplementedError(f"{type(self).__name__} does not write itself into a buffer")

    def get_bytes(self) -> bytes | bytearray:
        """Return this as bytes."""
        buff = bytearray(len(self))
        self.pack_into(buff, 0)
        return buff


def is_legal_name(name: str) -> bool:
    """Return whether Kafka takes this as the name of a topic or of a static member."""
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


def is_number(text: str, digits: int = 9) -> bool:
    """Return whether text from outside is a whole number, which `int` reads: not "²", nor one of a thousand digits.

    :param digits: that it may have: OFFSET_DIGITS, PARTITION_DIGITS, or few enough for 32 bits
    """
    return len(text) <= digits and text.isascii() and text.isdigit()


def milliseconds(moment: int | datetime, name: str = "a time") -> int:
    """Return a time as whole milliseconds since 1970.

    :param moment: a datetime (a naive one is UTC), or that number already
    :param name: what the error calls it
    :raises TypeError: it is neither
    """
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MILLISECOND
    try:
        return index(moment)
    except TypeError:
        raise TypeError(f"{name} must be a datetime, or an int, not {type(moment).__name__}: {moment!r}") from None


def as_datetime(timestamp: int) -> datetime:
    """Return a time as an aware datetime (UTC); the opposite of `milliseconds`.

    :param timestamp: ms since 1970
    :raises OverflowError: a datetime cannot express it
    """
    return _EPOCH + timestamp * _MILLISECOND


def get_string(value: str | bytes, name: str = "") -> str:
    """Return plain text for text, also of a subclass of `str`, or UTF-8 bytes.

    :param value: what was given
    :param name: what the errors call it
    :raises UnicodeException: the bytes are no UTF-8
    :raises TypeError: it is neither
    """
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)  # str() is what the class makes of it, such as "Topic.ORDERS" of an enumeration
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"{name}: {value!r}" if name else repr(value)
        raise UnicodeException(f"{what} is no UTF-8: give text, or UTF-8 bytes") from error
    except AttributeError:
        what = f"{name} must be" if name else "give"
        raise TypeError(f"{what} text, or UTF-8 bytes, not {type(value).__name__}: {value!r}") from None


def get_bytes(value: str | bytes) -> bytes:
    """Return UTF-8 bytes for text or bytes."""
    return value if isinstance(value, bytes) else value.encode("utf-8")


def serialize_utf8(value: str | None, partition_key: str | None) -> tuple[bytes | None, bytes | None]:
    """Return a message's value and key as UTF-8; a `serializer` for producers of text.

    :param value: the message; None is a tombstone
    :param partition_key: its key, or None
    :return: both as UTF-8
    """
    return (
        None if value is None else get_bytes(value),
        None if partition_key is None else get_bytes(partition_key),
    )


def deserialize_utf8(value: bytes | None, partition_key: bytes | None) -> tuple[str | None, str | None]:
    """Return a message's value and key as text; a `deserializer` for consumers, the opposite of `serialize_utf8`.

    :raises UnicodeDecodeError: the bytes are no UTF-8
    """
    return (
        None if value is None else value.decode("utf-8"),
        None if partition_key is None else partition_key.decode("utf-8"),
    )


def names_on_use(package: str, families: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that loads each of its modules when a program first uses one of its names.

    :param package: the package's name
    :param families: {module of the package: its names, with spaces between them}
    """
    homes = {name: module for module, names in families.items() for name in names.split()}

    def find(name: str) -> Any:
        if name in families:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def old_names(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that PyKafka 2 had, too: it finds names that only PyKafka 2 had there.

    It also finds documented classes that live in a higher room. This and `OldAttribute` are the only places where the
    engine loads a module of a higher room, by `pykafka.compat`.

    :param module: the module's name
    """

    def find(name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # Python asks for such names at each import
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        is_class = name[:1].isupper()
        if not is_class and hasattr(sys.modules[module], "__path__") and find_spec(f"{module}.{name}") is not None:
            return import_module(f"{module}.{name}")
        return import_module("pykafka.compat.names").find(module, name)

    return find


class OldAttribute:
    """A private attribute of PyKafka 2, for programs that read it: `pykafka.compat.attributes` finds its value.

    An instance that sets the attribute hides this.

    :param owner: the name of the class
    :param name: the attribute's
    """

    __slots__ = ("_name", "_owner")

    def __init__(self, owner: str, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: Any, kind: type | None = None) -> Any:
        """Return its value; of a class, this object."""
        if instance is None:
            return self
        return import_module("pykafka.compat.attributes").read(self._owner, self._name, instance)


def old_attributes(names: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator of a class: it gives the class private attributes that PyKafka 2 had.

    :param names: with spaces between them
    """

    def decorate(cls: type[T]) -> type[T]:
        for name in names.split():
            setattr(cls, name, OldAttribute(cls.__name__, name))
        return cls

    return decorate


if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
