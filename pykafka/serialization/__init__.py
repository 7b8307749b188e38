"""Keys and values as bytes, and back: serializers of this package, plain functions, and those of other clients."""

from typing import TYPE_CHECKING

from pykafka.utils import names_on_use

if TYPE_CHECKING:
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
    from pykafka.serialization.interfaces import DeserializerLike, SerializationContext, SerializerLike
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

if not TYPE_CHECKING:
    __getattr__ = names_on_use(
        __name__,
        {
            "adapting": "deserializer_of serializer_of",
            "builtin": """
                BooleanDeserializer BooleanSerializer BytesDeserializer BytesSerializer Deserializer DoubleDeserializer
                DoubleSerializer FloatDeserializer FloatSerializer IntegerDeserializer IntegerSerializer JsonDeserializer
                JsonSerializer LongDeserializer LongSerializer Serializer ShortDeserializer ShortSerializer
                StringDeserializer StringSerializer UuidDeserializer UuidSerializer
            """,
            "interfaces": "DeserializerLike SerializationContext SerializerLike",
            "offloading": "may_wait",
            "reading": "OnBadRecord RecordReader",
        },
    )
