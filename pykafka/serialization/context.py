"""`SerializationContext`: what serializers of confluent-kafka are told about a message."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
