"""Errors of serializers and deserializers. Import them from `pykafka.exceptions`."""

from __future__ import annotations

from typing import Any

from pykafka.errors.base import KafkaException

__all__ = ["DeadLetterError", "DeserializationError", "SerializationError"]


class SerializationError(KafkaException):
    """Raised by `produce()` when a serializer fails or does not return bytes; `__cause__` is the serializer's error.

    The message is not sent. The text leaves out key and value, as they may be secret.

    :param text: what happened and what to do
    :param part: what could not be serialized: "key" or "value"
    :param context: as for KafkaException
    """

    def __init__(self, text: str, part: str, **context: Any) -> None:
        self.part = part
        super().__init__(text, **context)


class DeserializationError(KafkaException):
    """Raised when a deserializer of the consumer fails; `__cause__` is the deserializer's error.

    The text leaves out key and value, as they may be secret.

    :param text: what happened and what to do
    :param offset: of the message
    :param value: the message's value, as bytes
    :param partition_key: its key, as bytes
    :param part: what could not be deserialized: "key" or "value"; None where one function deserializes both
    :param context: as for KafkaException
    """

    def __init__(
        self,
        text: str,
        offset: int,
        value: bytes | None,
        partition_key: bytes | None,
        part: str | None = None,
        **context: Any,
    ) -> None:
        self.offset = offset
        self.value = value
        self.partition_key = partition_key
        self.part = part
        super().__init__(text, **context)

    @property
    def raw_value(self) -> bytes | None:
        """The message's value, as bytes."""
        return self.value

    @property
    def raw_key(self) -> bytes | None:
        """The message's key, as bytes."""
        return self.partition_key


class DeadLetterError(KafkaException):
    """Raised when a record could be neither read or handled, nor written as dead letter. The consumer stays at the record.

    :param text: what happened and what to do
    :param offset: of the record
    :param error: why it was to be a dead letter; `__cause__` says why there is none
    :param context: as for KafkaException
    """

    def __init__(self, text: str, offset: int, error: BaseException, **context: Any) -> None:
        self.offset = offset
        self.error = error
        super().__init__(text, **context)
