"""The forms of serializers and deserializers that producers and consumers accept, as types."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

_In_contra = TypeVar("_In_contra", contravariant=True)
_Out_co = TypeVar("_Out_co", covariant=True)
T = TypeVar("T")

#: Headers as records have them.
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
#: What a producer calls: topic, value (or key), and a list of headers, which the serializer may add to.
Serialize: TypeAlias = Callable[[str, Any, list[tuple[str, bytes | None]]], bytes | None]
#: What a consumer calls: topic, bytes of the value (or key), and the record's headers.
Deserialize: TypeAlias = Callable[[str, bytes | None, Headers], Any]


class TopicSerializer(Protocol[_In_contra]):
    """A serializer of kafka-python 2."""

    def serialize(self, topic: str, value: _In_contra, /) -> bytes | None: ...


class HeadersSerializer(Protocol[_In_contra]):
    """A serializer of kafka-python 3."""

    def serialize(self, topic: str, headers: Any, data: _In_contra, /) -> bytes | None: ...


class TopicDeserializer(Protocol[_Out_co]):
    """A deserializer of kafka-python 2."""

    def deserialize(self, topic: str, data: bytes, /) -> _Out_co: ...


class HeadersDeserializer(Protocol[_Out_co]):
    """A deserializer of kafka-python 3."""

    def deserialize(self, topic: str, headers: Any, data: bytes, /) -> _Out_co: ...


#: Anything that `serializer_of` accepts for values of a type. What takes two arguments is a serializer of confluent-kafka: the
#: second is a `SerializationContext`. (As a Protocol with `__call__` it would have mypy infer no T where both keys and values
#: have one, and Never for a later `json.loads`.)
SerializerLike: TypeAlias = (
    Callable[[T], bytes] | Callable[[T, Any], bytes | None] | TopicSerializer[T] | HeadersSerializer[T]
)
#: Anything that `deserializer_of` accepts and that returns values of a type.
DeserializerLike: TypeAlias = (
    Callable[[bytes], T] | Callable[[bytes, Any], T] | TopicDeserializer[T] | HeadersDeserializer[T]
)


@dataclass
class SerializationContext:
    """The place of a key or value: for functions of two parameters in programs that do not import confluent-kafka.

    :param topic: name of the topic
    :param field: "key" or "value"
    :param headers: the message's headers; a serializer may add to them
    """

    topic: str
    field: str
    headers: list[tuple[str, bytes | None]] | None = None


def contexts(is_key: bool) -> Callable[[str, Any], Any]:
    """Return a function of topic and headers that makes contexts; of confluent-kafka's class if the program imports it.

    :param is_key: whether keys are serialized; values otherwise
    """
    field = "key" if is_key else "value"
    theirs = sys.modules.get("confluent_kafka.serialization")
    if theirs is None:
        return lambda topic, headers: SerializationContext(topic, field, headers)
    context, their_field = theirs.SerializationContext, theirs.MessageField(field)
    return lambda topic, headers: context(topic, their_field, headers)
