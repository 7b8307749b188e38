"""The fields of messages, declared by one function per type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

#: Higher than any version.
_OPEN_END = 0x8000
_ZERO_UUID = UUID(int=0)
_DEFAULTS: dict[str, Any] = {
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": _ZERO_UUID,
    "bool": False,
    "float64": 0.0,
}
_UNSET: Any = object()


def parse_versions(text: str) -> range:
    """Return the versions of a text: "3-8", "9+", "2" or "none"."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), _OPEN_END)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class StructType(Protocol):
    """A class of structs, as fields and `codegen` see it; `pykafka.protocol.schema.Struct` documents each member."""

    fields: tuple[Field, ...]

    def __call__(self) -> Any: ...


class Field:
    """One declared field; the functions `int8`, `string`, `array`, ... below create it.

    :param kind: type of the value, or of the elements of an array
    :param versions: the versions that have the field
    :param default: its default; None stands for null
    :param nullable: the versions in which it may be null
    :param ignorable: True: a version without the field drops its value; False: that version raises if the field is set
    :param tag: its number among tagged fields
    :param tagged: the versions in which it is a tagged field
    :param rigid: never compact, not even in flexible versions
    :param secret: whether `repr` of a message leaves the value out
    """

    __slots__ = (
        "_struct",
        "default",
        "ignorable",
        "is_array",
        "kind",
        "name",
        "nullable",
        "rigid",
        "secret",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self,
        kind: str,
        versions: str,
        *,
        default: Any = _UNSET,
        nullable: str = "none",
        ignorable: bool = False,
        tag: int | None = None,
        tagged: str | None = None,
        rigid: bool = False,
        is_array: bool = False,
        struct: StructType | None = None,
        secret: bool = False,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = parse_versions(versions)
        self.nullable = parse_versions(nullable)
        self.ignorable = ignorable
        self.tag = tag
        self.tagged = range(0) if tag is None else parse_versions(tagged or versions)
        self.rigid = rigid
        self.is_array = is_array
        self._struct = struct
        self.secret = secret
        self.default = default if default is not _UNSET else _DEFAULTS.get(kind, 0)

    @property
    def struct(self) -> StructType:
        """The class of a field of kind "struct"."""
        if self._struct is None:
            raise TypeError(f"field {self.name} is of kind {self.kind}, not a struct")
        return self._struct

    @property
    def is_mutable(self) -> bool:
        """Whether each instance needs a default of its own."""
        return self.default is not None and (self.is_array or self.kind == "struct")

    def default_value(self) -> Any:
        """Return the default; a new object if it is mutable."""
        if not self.is_mutable:
            return self.default
        return [] if self.is_array else self.struct()

    def is_tagged_in(self, version: int) -> bool:
        """Whether the field is a tagged field in a version."""
        return version in self.tagged


def _number(kind: str, zero: Any = 0) -> Callable[..., Any]:
    def declare(versions: str, default: Any = zero, *, ignorable: bool = False, tag: int | None = None) -> Any:
        return Field(kind, versions, default=default, ignorable=ignorable, tag=tag)

    return declare


int8 = _number("int8")
int16 = _number("int16")
int32 = _number("int32")
int64 = _number("int64")
uint16 = _number("uint16")
uint32 = _number("uint32")
float64 = _number("float64", 0.0)
boolean = _number("bool", False)


def uuid(versions: str, *, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare a UUID; the zero UUID is its default."""
    return Field("uuid", versions, ignorable=ignorable, tag=tag)


def string(versions: str, default: str | None = "", **options: Any) -> Any:
    """Declare text: UTF-8 of at most 32767 bytes; see `Field` for the options."""
    return Field("string", versions, default=default, **options)


def binary(versions: str, default: bytes | None = b"", **options: Any) -> Any:
    """Declare bytes; see `Field` for the options."""
    return Field("bytes", versions, default=default, **options)


def records(versions: str, *, nullable: str = "none") -> Any:
    """Declare record batches or message sets: bytes-like, or a list of them; a memoryview when read; None is null."""
    return Field("records", versions, nullable=nullable)


def array(of: str | StructType, versions: str, default: list[Any] | None = _UNSET, **options: Any) -> Any:
    """Declare a list; its default is empty, or None.

    :param of: the struct, or the name of the type, of its elements
    """
    kind, struct = (of, None) if isinstance(of, str) else ("struct", of)
    return Field(kind, versions, default=default, is_array=True, struct=struct, **options)


def nested(of: StructType, versions: str, default: None = _UNSET, **options: Any) -> Any:
    """Declare a struct within a struct; its default is one of defaults, or None."""
    return Field("struct", versions, default=default, struct=of, **options)
