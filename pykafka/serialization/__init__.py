"""Keys and values as bytes, and back: serializers of this package, plain functions, and those of other clients."""

from pykafka.serialization.adapting import deserializer_of, serializer_of
from pykafka.serialization.builtin import (
    BooleanDeserializer,
    BooleanSerializer,
    BytesDeserializer,
    BytesSerializer,
    Deserializer,
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
    Serializer,
    ShortDeserializer,
    ShortSerializer,
    StringDeserializer,
    StringSerializer,
    UuidDeserializer,
    UuidSerializer,
)
from pykafka.serialization.context import SerializationContext
from pykafka.serialization.interfaces import DeserializerLike, SerializerLike
from pykafka.serialization.offloading import may_wait
from pykafka.serialization.reading import OnBadRecord, RecordReader

__all__ = [
    "BooleanDeserializer",
    "BooleanSerializer",
    "BytesDeserializer",
    "BytesSerializer",
    "Deserializer",
    "DeserializerLike",
    "DoubleDeserializer",
    "DoubleSerializer",
    "FloatDeserializer",
    "FloatSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "JsonDeserializer",
    "JsonSerializer",
    "LongDeserializer",
    "LongSerializer",
    "OnBadRecord",
    "RecordReader",
    "SerializationContext",
    "Serializer",
    "SerializerLike",
    "ShortDeserializer",
    "ShortSerializer",
    "StringDeserializer",
    "StringSerializer",
    "UuidDeserializer",
    "UuidSerializer",
    "deserializer_of",
    "may_wait",
    "serializer_of",
]
