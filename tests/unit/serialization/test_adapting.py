"""`serializer_of` and `deserializer_of`: the forms of all libraries, and what has none of them."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import pytest
from confluent_kafka import serialization as confluent
from confluent_kafka.schema_registry.avro import AsyncAvroDeserializer, AsyncAvroSerializer

from pykafka.exceptions import KafkaException, SerializationError
from pykafka.serialization import (
    IntegerSerializer,
    JsonDeserializer,
    JsonSerializer,
    StringDeserializer,
    StringSerializer,
    deserializer_of,
    serializer_of,
)

with warnings.catch_warnings():  # of Python's deprecations
    warnings.simplefilter("ignore")
    from kafka.serializer import Deserializer as KafkaPythonDeserializer
    from kafka.serializer import JsonSerializer as KafkaPythonJson
    from kafka.serializer import Serializer as KafkaPythonSerializer


class Old:
    """The interface of kafka-python 2."""

    def serialize(self, topic: str, value: Any) -> bytes:
        return f"{topic}:{value}".encode()

    def deserialize(self, topic: str, bytes_: Any) -> Any:
        return topic, bytes_


class New(KafkaPythonSerializer, KafkaPythonDeserializer):  # type: ignore[misc]
    """The interface of kafka-python 3."""

    def serialize(self, topic: str, headers: Any, data: Any) -> bytes:
        headers.append(("form", b"new"))
        return f"{topic}:{data}".encode()

    def deserialize(self, topic: str, headers: Any, data: Any) -> Any:
        return topic, headers, data


class Callable2(confluent.Serializer):
    """A subclass of confluent-kafka's interface."""

    def __call__(self, obj: Any, ctx: Any = None) -> bytes:
        return f"{ctx.topic}:{ctx.field.value}:{obj}".encode()


async def asynchronous(value: Any) -> bytes:
    return b""


class AsynchronousCall:
    async def __call__(self, value: Any) -> bytes:
        return b""


class AsynchronousMethods:
    async def serialize(self, topic: str, value: Any) -> bytes:
        return b""

    async def deserialize(self, topic: str, data: bytes) -> Any: ...


def with_context(value: Any, context: Any) -> bytes:
    return f"{context.topic}:{context.field.value}:{value}".encode()


def serialized(given: Any, value: Any, *, is_key: bool = False, headers: list[Any] | None = None) -> bytes | None:
    function = serializer_of(given, is_key)
    assert function is not None
    return function("orders", value, [] if headers is None else headers)


def deserialized(given: Any, data: bytes | None, *, is_key: bool = False, headers: Any = ()) -> Any:
    function = deserializer_of(given, is_key)
    assert function is not None
    return function("orders", data, headers)


def test_nothing_stays_nothing() -> None:
    assert serializer_of(None) is None
    assert deserializer_of(None, True) is None


@pytest.mark.parametrize(
    ("given", "value", "data"),
    [
        (str.encode, "a", b"a"),
        (bytearray, b"a", b"a"),
        (memoryview, b"a", b"a"),
        (lambda value, indent=2: b"%d" % indent, 1, b"2"),
        (lambda *values: b"%d" % len(values), 1, b"1"),
        (struct.Struct(">h").pack, 5, b"\x00\x05"),
        (bytes, [1, 2], b"\x01\x02"),
        (IntegerSerializer(), 5, b"\x00\x00\x00\x05"),
        (JsonSerializer(), {}, b"{}"),
        (Old(), 5, b"orders:5"),
        (New(), 5, b"orders:5"),
        (KafkaPythonJson(), {"a": 1}, b'{"a": 1}'),
        (confluent.StringSerializer(), "ë", b"\xc3\xab"),
        (confluent.StringSerializer("latin-1"), "ë", b"\xeb"),
        (confluent.IntegerSerializer(), 5, b"\x00\x00\x00\x05"),
        (confluent.DoubleSerializer(), 1.0, b"\x3f\xf0" + bytes(6)),
        (Callable2(), 5, b"orders:value:5"),
        (with_context, 5, b"orders:value:5"),
        (lambda value, ctx=None: ctx.topic.encode(), 5, b"orders"),
    ],
)
def test_serializers_of_all_forms(given: Any, value: Any, data: bytes) -> None:
    assert serialized(given, value) == data


@pytest.mark.parametrize(
    ("given", "data", "value"),
    [
        (json.loads, b"[1]", [1]),
        (int, b"5", 5),
        (bytes.decode, b"a", "a"),
        (JsonDeserializer(), b"{}", {}),
        (Old(), b"a", ("orders", b"a")),
        (New(), b"a", ("orders", [("h", b"1")], b"a")),
        (KafkaPythonJson(), b"{}", {}),
        (confluent.StringDeserializer(), b"a", "a"),
        (confluent.IntegerDeserializer(), b"\x00\x00\x00\x05", 5),
        (confluent.DoubleDeserializer(), b"\x3f\xf0" + bytes(6), 1.0),
        (lambda data, ctx: (data, ctx.topic, ctx.field, ctx.headers), b"a", (b"a", "orders", "value", [("h", b"1")])),
    ],
)
def test_deserializers_of_all_forms(given: Any, data: bytes, value: Any) -> None:
    assert deserialized(given, data, headers=(("h", b"1"),)) == value


@pytest.mark.parametrize("given", [Callable2(), with_context])
def test_contexts_say_whether_it_is_a_key(given: Any) -> None:
    assert serialized(given, 5, is_key=True) == b"orders:key:5"


def test_serializers_may_add_headers() -> None:
    headers: list[Any] = [("a", b"1")]
    serialized(New(), 5, headers=headers)
    serialized(lambda value, ctx: ctx.headers.append(("b", b"2")) or b"", 5, headers=headers)
    assert headers == [("a", b"1"), ("form", b"new"), ("b", b"2")]


def test_plain_functions_never_get_none() -> None:
    """None is a tombstone, or a message without key."""

    def never(value: Any) -> Any:
        raise AssertionError("called")

    assert serialized(never, None) is None
    assert deserialized(never, None) is None


def test_objects_of_other_clients_get_none_as_there() -> None:
    assert serialized(Old(), None) == b"orders:None"
    assert deserialized(Old(), None) == ("orders", None)
    assert serialized(confluent.StringSerializer(), None) is None
    assert deserialized(confluent.StringDeserializer(), None) is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (json.dumps, "dumps returned str, not bytes; encode it"),
        (lambda value: 5, "returned int, not bytes"),
        (lambda value: None, "which would be a tombstone; to send one, pass value=None"),
        (lambda value: asynchronous(value + 0), "returned coroutine, not bytes: it is asynchronous"),
        (StringSerializer(), "StringSerializer failed by TypeError"),
    ],
)
def test_wrong_results_are_refused_by_name(given: Any, text: str) -> None:
    with pytest.raises(SerializationError, match=text) as caught:
        serialized(given, 5)
    assert (caught.value.topic, caught.value.part) == ("orders", "value")
    assert isinstance(caught.value, KafkaException)


def test_errors_of_serializers_say_which_part_failed_and_why_without_the_value() -> None:
    with pytest.raises(SerializationError) as caught:
        serialized(lambda value: {}[value], "secret", is_key=True)
    assert caught.value.part == "key"
    assert isinstance(caught.value.__cause__, KeyError)
    assert "secret" not in str(caught.value)


def test_interruptions_pass_as_they_are() -> None:
    def interrupted(value: Any) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        serialized(interrupted, 5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("json", "value_serializer must be a function of one value.*not str"),
        (JsonSerializer, r"not the class JsonSerializer: write JsonSerializer\(\.\.\.\)"),
        (confluent.StringSerializer, r"not the class StringSerializer"),
        (Old, "not the class Old"),
        (lambda: b"", "cannot be called as a serializer"),
        (lambda one, two, three: b"", "cannot be called as a serializer"),
        (JsonDeserializer(), "JsonDeserializer is a deserializer; here a serializer is needed"),
        (confluent.StringDeserializer(), "StringDeserializer is a deserializer"),
        (type("Half", (), {"deserialize": Old.deserialize})(), "Half is a deserializer"),
        (type("Odd", (), {"serialize": lambda self: b""})(), r"is not serialize\(topic, value\)"),
        (asynchronous, "asynchronous is asynchronous"),
        (partial(asynchronous), "asynchronous is asynchronous"),
        (AsynchronousCall(), "AsynchronousCall is asynchronous"),
        (AsynchronousMethods(), "AsynchronousMethods is asynchronous"),
        (object.__new__(AsyncAvroSerializer), r"use its blocking form \(AvroSerializer, with SchemaRegistryClient\)"),
    ],
)
def test_what_is_no_serializer_is_refused_where_it_is_given(given: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        serializer_of(given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (5, "key_deserializer must be a function of one value.*not int"),
        (JsonSerializer(), "JsonSerializer is a serializer; here a deserializer is needed"),
        (confluent.StringSerializer(), "StringSerializer is a serializer"),
        (StringDeserializer, "write StringDeserializer"),
        (asynchronous, "asynchronous is asynchronous"),
        (AsynchronousMethods(), "AsynchronousMethods is asynchronous"),
        (object.__new__(AsyncAvroDeserializer), "AsyncAvroDeserializer is asynchronous"),
    ],
)
def test_what_is_no_deserializer_is_refused_where_it_is_given(given: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        deserializer_of(given, True)


def test_coroutines_of_a_deserializer_are_refused_and_closed() -> None:
    with pytest.raises(TypeError, match="must return its result at once"):
        deserialized(lambda data: asynchronous(data + b""), b"")


def test_confluent_kafka_is_not_imported_for_functions_with_a_context() -> None:
    script = (
        "import sys\n"
        "from pykafka.serialization import serializer_of\n"
        "made = serializer_of(lambda value, ctx: f'{ctx.topic} {ctx.field} {ctx.headers}'.encode(), True)\n"
        "print(made('orders', 1, [('a', b'1')]).decode(), 'confluent_kafka' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "orders key [('a', b'1')] False\n"
