"""Ready-made serializers and deserializers: JSON, text, numbers and UUIDs, in the forms of Kafka's Java client.

They are functions of one value, so other Python clients accept them too. A value of another type is refused.
"""

from __future__ import annotations

import codecs
import json
import operator
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

_In_contra = TypeVar("_In_contra", contravariant=True)
_Out_co = TypeVar("_Out_co", covariant=True)


class Serializer(ABC, Generic[_In_contra]):
    """Base of serializers: objects that turn one value into bytes when they are called."""

    @abstractmethod
    def __call__(self, value: _In_contra, /) -> bytes:
        """Return the value as bytes.

        :param value: never None, which producers send as a tombstone without asking
        :raises TypeError: a value of another type
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Deserializer(ABC, Generic[_Out_co]):
    """Base of deserializers: objects that turn bytes into a value when they are called."""

    @abstractmethod
    def __call__(self, data: bytes, /) -> _Out_co:
        """Return the value that the bytes stand for.

        :param data: never None, which consumers return without asking
        :raises ValueError: the bytes are of another form
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class BytesSerializer(Serializer[bytes | bytearray | memoryview]):
    """Bytes as they are."""

    def __call__(self, value: bytes | bytearray | memoryview, /) -> bytes:
        """Return the value as bytes."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _wrong_type(self, "bytes", value)
        return bytes(value)


class BytesDeserializer(Deserializer[bytes]):
    """Bytes as they are."""

    def __call__(self, data: bytes, /) -> bytes:
        """Return the bytes."""
        return data


class StringSerializer(Serializer[str]):
    """Text in UTF-8, or in another encoding.

    :param encoding: name of the encoding
    :raises LookupError: Python does not know the encoding
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = codecs.lookup(encoding).name

    def __call__(self, value: str, /) -> bytes:
        """Return the text as bytes."""
        if not isinstance(value, str):
            raise _wrong_type(self, "str", value)
        return value.encode(self.encoding)


class StringDeserializer(Deserializer[str]):
    """Text in UTF-8, or in another encoding.

    :param encoding: name of the encoding
    :raises LookupError: Python does not know the encoding
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = codecs.lookup(encoding).name

    def __call__(self, data: bytes, /) -> str:
        """Return the text."""
        return data.decode(self.encoding)


class JsonSerializer(Serializer[Any]):
    """JSON in UTF-8, without spaces. NaN and infinite numbers are refused, as JSON has none.

    :param default: called with a value that JSON has no form for; returns one that it has, as of `json.dumps`
    :param sort_keys: write the keys of objects in order, so that equal objects have equal bytes
    """

    def __init__(self, default: Callable[[Any], Any] | None = None, sort_keys: bool = False) -> None:
        self._encode = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default, sort_keys=sort_keys
        ).encode

    def __call__(self, value: Any, /) -> bytes:
        """Return the value as JSON."""
        return self._encode(value).encode()


class JsonDeserializer(Deserializer[Any]):
    """JSON in UTF-8.

    :param object_hook: called with each object as a dict; its result takes the dict's place, as of `json.loads`
    """

    def __init__(self, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> None:
        self._decode = json.JSONDecoder(object_hook=object_hook).decode

    def __call__(self, data: bytes, /) -> Any:
        """Return the value of the JSON.

        :raises ValueError: the bytes are not JSON in UTF-8, or nest deeper than Python's parser goes
        """
        try:
            return self._decode(data.decode())
        except RecursionError:
            raise ValueError(f"{type(self).__name__}: the JSON nests too deep") from None


class _NumberSerializer(Serializer[_In_contra]):
    """A number, in a fixed number of bytes, highest first."""

    _FORM: ClassVar[struct.Struct]
    _KIND: ClassVar[str] = "int"

    def __call__(self, value: _In_contra, /) -> bytes:
        """Return the number as bytes."""
        if isinstance(value, bool | str):
            raise _wrong_type(self, self._KIND, value)
        try:
            return self._FORM.pack(operator.index(value) if self._KIND == "int" else value)  # type: ignore[arg-type]
        except TypeError:
            raise _wrong_type(self, self._KIND, value) from None
        except (struct.error, OverflowError) as error:
            if self._KIND == "float" and not hasattr(value, "__float__"):
                raise _wrong_type(self, self._KIND, value) from None
            raise ValueError(f"{type(self).__name__}: the number does not fit into {self._FORM.size} bytes") from error


class _NumberDeserializer(Deserializer[_Out_co]):
    """A number, in a fixed number of bytes, highest first."""

    _FORM: ClassVar[struct.Struct]

    def __call__(self, data: bytes, /) -> _Out_co:
        """Return the number."""
        if len(data) != self._FORM.size:
            raise ValueError(f"{type(self).__name__}: {self._FORM.size} bytes are a number, not {len(data)}")
        found: _Out_co = self._FORM.unpack(data)[0]
        return found


_SHORT, _INTEGER, _LONG, _FLOAT, _DOUBLE = (struct.Struct(form) for form in (">h", ">i", ">q", ">f", ">d"))


class ShortSerializer(_NumberSerializer[int]):
    """A whole number in 2 bytes, from -2**15 to 2**15 - 1."""

    _FORM = _SHORT


class ShortDeserializer(_NumberDeserializer[int]):
    """A whole number in 2 bytes."""

    _FORM = _SHORT


class IntegerSerializer(_NumberSerializer[int]):
    """A whole number in 4 bytes, from -2**31 to 2**31 - 1."""

    _FORM = _INTEGER


class IntegerDeserializer(_NumberDeserializer[int]):
    """A whole number in 4 bytes."""

    _FORM = _INTEGER


class LongSerializer(_NumberSerializer[int]):
    """A whole number in 8 bytes, from -2**63 to 2**63 - 1."""

    _FORM = _LONG


class LongDeserializer(_NumberDeserializer[int]):
    """A whole number in 8 bytes."""

    _FORM = _LONG


class FloatSerializer(_NumberSerializer[float]):
    """A number in the 4 bytes of IEEE 754's single precision, which rounds it to about 7 digits."""

    _FORM, _KIND = _FLOAT, "float"


class FloatDeserializer(_NumberDeserializer[float]):
    """A number in 4 bytes, of single precision."""

    _FORM = _FLOAT


class DoubleSerializer(_NumberSerializer[float]):
    """A number in the 8 bytes of IEEE 754's double precision: Python's float."""

    _FORM, _KIND = _DOUBLE, "float"


class DoubleDeserializer(_NumberDeserializer[float]):
    """A number in 8 bytes, of double precision."""

    _FORM = _DOUBLE


class BooleanSerializer(Serializer[bool]):
    """True or False, as one byte 1 or 0."""

    def __call__(self, value: bool, /) -> bytes:
        """Return the byte."""
        if not isinstance(value, bool):
            raise _wrong_type(self, "bool", value)
        return b"\x01" if value else b"\x00"


class BooleanDeserializer(Deserializer[bool]):
    """True or False, as one byte 1 or 0."""

    def __call__(self, data: bytes, /) -> bool:
        """Return what the byte says."""
        if data not in {b"\x00", b"\x01"}:
            raise ValueError("BooleanDeserializer: one byte, 0 or 1, is a bool")
        return data == b"\x01"


class UuidSerializer(Serializer[UUID]):
    """A UUID as its text of 36 characters, as of Java's `UUIDSerializer`."""

    def __call__(self, value: UUID, /) -> bytes:
        """Return the UUID's text as bytes."""
        if not isinstance(value, UUID):
            raise _wrong_type(self, "uuid.UUID", value)
        return str(value).encode()


class UuidDeserializer(Deserializer[UUID]):
    """A UUID as its text of 36 characters."""

    def __call__(self, data: bytes, /) -> UUID:
        """Return the UUID."""
        if len(data) != 36:
            raise ValueError(f"UuidDeserializer: 36 bytes are a UUID, not {len(data)}")
        return UUID(data.decode("ascii"))


def _wrong_type(serializer: Serializer[Any], wanted: str, value: Any) -> TypeError:
    # The type, and not the value: errors are logged, and values may be secret.
    return TypeError(f"{type(serializer).__name__} takes {wanted}, not {type(value).__name__}")
