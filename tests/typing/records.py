"""Types of records, serializers and dead letters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar, assert_type
from uuid import UUID

from pykafka.record import Record
from pykafka.serialization import (
    BytesSerializer,
    Deserializer,
    DeserializerLike,
    IntegerDeserializer,
    IntegerSerializer,
    JsonDeserializer,
    LongDeserializer,
    Serializer,
    SerializerLike,
    StringDeserializer,
    StringSerializer,
    UuidDeserializer,
)

T = TypeVar("T")


@dataclass
class Order:
    """A value of an application."""

    id: int


class OrderSerializer(Serializer[Order]):
    """A serializer of an application."""

    def __call__(self, value: Order, /) -> bytes:
        """Return the order as bytes."""
        return json.dumps({"id": value.id}).encode()


class OldOrders:
    """The interface of kafka-python 2."""

    def serialize(self, topic: str, value: Order) -> bytes:
        """Return the order as bytes."""
        return str(value.id).encode()

    def deserialize(self, topic: str, data: bytes) -> Order:
        """Return the order that the bytes stand for."""
        return Order(int(data))


class NewOrders:
    """The interface of kafka-python 3."""

    def serialize(self, topic: str, headers: list[tuple[str, bytes]], data: Order) -> bytes:
        """Return the order as bytes."""
        return str(data.id).encode()

    def deserialize(self, topic: str, headers: list[tuple[str, bytes]], data: bytes) -> Order:
        """Return the order that the bytes stand for."""
        return Order(int(data))


def order_of(data: bytes) -> Order:
    """Return the order that the bytes stand for."""
    return Order(int(data))


def with_context(data: bytes, ctx: Any) -> Order:
    """Return the order, as a deserializer of confluent-kafka does."""
    return Order(int(data))


def records(raw: Record, typed: Record[str, Order]) -> None:
    """Records have the types of their keys and values, or None."""
    assert_type(raw.key, bytes | None)
    assert_type(raw.value, bytes | None)
    assert_type(typed.key, str | None)
    assert_type(typed.value, Order | None)
    assert_type(typed.raw_value, bytes | None)
    assert_type(typed.topic, str)
    assert_type(typed.partition, int)
    assert_type(typed.timestamp, int | None)
    wider: Record[object, Order | int] = typed
    wider.ack()
    print(typed.value.id)  # type: ignore[union-attr]
    typed.value = Order(1)  # type: ignore[misc]
    typed.offset = 5  # type: ignore[misc]
    print(typed.payload)  # type: ignore[attr-defined]
    narrower: Record[bytes, Order] = typed  # type: ignore[assignment]
    print(narrower)


def serialized(serializer: SerializerLike[Order]) -> None:
    """Take a serializer of orders, as a producer does."""


def deserialized(deserializer: DeserializerLike[T]) -> T:
    """Return what a deserializer makes, as a consumer does."""
    raise NotImplementedError(deserializer)


def serializers() -> None:
    """Serializers of all forms are taken, for values of their type."""
    serialized(OrderSerializer())
    serialized(OldOrders())
    serialized(NewOrders())
    serialized(lambda order: str(order.id).encode())
    serialized(lambda order: order.id)  # pyright: ignore (mypy infers no types of lambdas among several kinds of functions)
    serialized(StringSerializer())  # type: ignore[arg-type]
    serialized(IntegerSerializer())  # type: ignore[arg-type]
    serialized(BytesSerializer())  # type: ignore[arg-type]
    serialized(json.dumps)  # type: ignore[arg-type]
    serialized("json")  # type: ignore[arg-type]
    serialized(OrderSerializer)  # type: ignore[arg-type]


def deserializers() -> None:
    """Deserializers of all forms are taken, and say what they make."""
    assert_type(deserialized(order_of), Order)
    assert_type(deserialized(OldOrders()), Order)
    assert_type(deserialized(NewOrders()), Order)
    assert_type(deserialized(with_context), Order)
    assert_type(deserialized(StringDeserializer()), str)
    assert_type(deserialized(IntegerDeserializer()), int)
    assert_type(deserialized(LongDeserializer()), int)
    assert_type(deserialized(UuidDeserializer()), UUID)
    assert_type(deserialized(JsonDeserializer()), Any)
    assert_type(deserialized(json.loads), Any)
    assert_type(deserialized(bytes.decode), str)
    deserialized(str.encode)  # type: ignore[arg-type]
    deserialized(5)  # type: ignore[arg-type]


class Orders(Deserializer[Order]):
    """A deserializer of an application."""

    def __call__(self, data: bytes, /) -> Order:
        """Return the order that the bytes stand for."""
        return Order(int(data))


assert_type(deserialized(Orders()), Order)
