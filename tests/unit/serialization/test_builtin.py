"""The ready-made serializers: the forms of Kafka's Java client, and values that they refuse."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

import pytest

from pykafka import serialization
from pykafka.serialization import (
    BooleanDeserializer,
    BooleanSerializer,
    BytesDeserializer,
    BytesSerializer,
    DoubleDeserializer,
    DoubleSerializer,
    FloatDeserializer,
    FloatSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    JsonDeserializer,
    JsonSerializer,
    LongDeserializer,
    LongSerializer,
    ShortDeserializer,
    ShortSerializer,
    StringDeserializer,
    StringSerializer,
    UuidDeserializer,
    UuidSerializer,
)

ID = UUID("123e4567-e89b-12d3-a456-426614174000")
FORMS: list[tuple[Any, Any, Any, bytes]] = [
    (BytesSerializer(), BytesDeserializer(), b"\x00\xff", b"\x00\xff"),
    (StringSerializer(), StringDeserializer(), "Zoë €", b"Zo\xc3\xab \xe2\x82\xac"),
    (StringSerializer("utf-16-be"), StringDeserializer("utf-16-be"), "ë", b"\x00\xeb"),
    (StringSerializer(), StringDeserializer(), "", b""),
    (ShortSerializer(), ShortDeserializer(), -2, b"\xff\xfe"),
    (IntegerSerializer(), IntegerDeserializer(), 2**31 - 1, b"\x7f\xff\xff\xff"),
    (LongSerializer(), LongDeserializer(), -(2**63), b"\x80" + bytes(7)),
    (FloatSerializer(), FloatDeserializer(), 1.5, b"\x3f\xc0\x00\x00"),
    (DoubleSerializer(), DoubleDeserializer(), 0.1, b"\x3f\xb9\x99\x99\x99\x99\x99\x9a"),
    (DoubleSerializer(), DoubleDeserializer(), -math.inf, b"\xff\xf0" + bytes(6)),
    (BooleanSerializer(), BooleanDeserializer(), True, b"\x01"),
    (BooleanSerializer(), BooleanDeserializer(), False, b"\x00"),
    (UuidSerializer(), UuidDeserializer(), ID, b"123e4567-e89b-12d3-a456-426614174000"),
    (JsonSerializer(), JsonDeserializer(), {"né": [1, None, "€"]}, '{"né":[1,null,"€"]}'.encode()),
]


@pytest.mark.parametrize(("serializer", "deserializer", "value", "data"), FORMS)
def test_both_directions(serializer: Any, deserializer: Any, value: Any, data: bytes) -> None:
    assert serializer(value) == data
    assert deserializer(data) == value


@pytest.mark.parametrize(
    ("serializer", "value", "error", "text"),
    [
        (StringSerializer(), b"x", TypeError, "takes str, not bytes"),
        (BytesSerializer(), "x", TypeError, "takes bytes, not str"),
        (IntegerSerializer(), "5", TypeError, "takes int, not str"),
        (IntegerSerializer(), True, TypeError, "takes int, not bool"),
        (IntegerSerializer(), 1.5, TypeError, "takes int, not float"),
        (IntegerSerializer(), 2**31, ValueError, "does not fit into 4 bytes"),
        (ShortSerializer(), -(2**15) - 1, ValueError, "does not fit into 2 bytes"),
        (LongSerializer(), 2**63, ValueError, "does not fit into 8 bytes"),
        (FloatSerializer(), 1e300, ValueError, "does not fit into 4 bytes"),
        (DoubleSerializer(), 10**400, ValueError, "does not fit into 8 bytes"),
        (DoubleSerializer(), "1", TypeError, "takes float, not str"),
        (DoubleSerializer(), [], TypeError, "takes float, not list"),
        (BooleanSerializer(), 1, TypeError, "takes bool, not int"),
        (UuidSerializer(), str(ID), TypeError, "takes uuid.UUID, not str"),
        (JsonSerializer(), math.nan, ValueError, "not JSON compliant"),
        (JsonSerializer(), {1, 2}, TypeError, "set is not JSON"),
        (JsonSerializer(), "\ud800", UnicodeEncodeError, "surrogates"),
        (StringSerializer(), "\ud800", UnicodeEncodeError, "surrogates"),
    ],
)
def test_other_values_are_refused(serializer: Any, value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        serializer(value)


@pytest.mark.parametrize(
    ("deserializer", "data", "error"),
    [
        (StringDeserializer(), b"\xff", UnicodeDecodeError),
        (ShortDeserializer(), b"\x00", ValueError),
        (IntegerDeserializer(), bytes(5), ValueError),
        (LongDeserializer(), b"", ValueError),
        (DoubleDeserializer(), bytes(4), ValueError),
        (BooleanDeserializer(), b"\x02", ValueError),
        (BooleanDeserializer(), b"", ValueError),
        (UuidDeserializer(), b"x" * 36, ValueError),
        (UuidDeserializer(), b"{123e4567e89b12d3a456426614174000}", ValueError),
        (JsonDeserializer(), b"", ValueError),
        (JsonDeserializer(), b"[" * 5_000, ValueError),
        (JsonDeserializer(), b"{} {}", ValueError),
        (JsonDeserializer(), '{"a": 1}'.encode("utf-16"), ValueError),
    ],
)
def test_other_bytes_are_refused(deserializer: Any, data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        deserializer(data)


def test_unknown_encodings_are_refused_at_once() -> None:
    with pytest.raises(LookupError):
        StringSerializer("utf-9")
    with pytest.raises(LookupError):
        StringDeserializer("utf-9")


def test_json_takes_values_of_other_types_by_a_function_of_the_user() -> None:
    assert JsonSerializer(default=str)({"id": ID}) == b'{"id":"123e4567-e89b-12d3-a456-426614174000"}'
    assert JsonSerializer(sort_keys=True)({"b": 1, "a": 2}) == b'{"a":2,"b":1}'
    assert JsonDeserializer(object_hook=lambda found: list(found.items()))(b'{"a":1}') == [("a", 1)]


def test_each_serializer_has_a_deserializer() -> None:
    names = {name for name in serialization.__all__ if name.endswith("Serializer") and name != "Serializer"}
    assert {name.removesuffix("Serializer") + "Deserializer" for name in names} < set(serialization.__all__)


def test_they_show_their_names() -> None:
    assert repr(JsonSerializer()) == "JsonSerializer()"
    assert repr(LongDeserializer()) == "LongDeserializer()"
