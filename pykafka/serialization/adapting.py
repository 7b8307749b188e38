"""`serializer_of` and `deserializer_of`: one way to call the serializers of all libraries."""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import Any, NoReturn

from pykafka.exceptions import SerializationError
from pykafka.serialization.context import contexts
from pykafka.serialization.forms import Form, form_of, name_of
from pykafka.serialization.interfaces import Deserialize, Headers, Serialize
from pykafka.serialization.offloading import Offload, asks_registry, offloaded_deserializer, offloaded_serializer


def serializer_of(given: Any, is_key: bool = False, offload: Offload | None = None) -> Serialize | None:
    """Return a function `(topic, value, headers) -> bytes | None` over what a user gave as serializer.

    A plain function never gets None: that is a tombstone, or a message without key, and stays None. Objects of
    kafka-python's and confluent-kafka's interfaces get it, as in their own clients.

    :param given: a function of one value; an object with `serialize(topic, value)` or `serialize(topic, headers, value)`;
        a serializer of confluent-kafka, or a function `(value, SerializationContext)`; None for bytes as they are
    :param is_key: whether it serializes keys; values otherwise
    :param offload: of the handler, for serializers that ask a schema registry
    :return: None if nothing was given. The function raises SerializationError, with the topic. Its `headers` must be a list
        of the message's own: confluent-kafka's serializers may add a header that says the schema
    :raises TypeError: it has none of these forms, it is asynchronous, or it is a class
    """
    if given is None:
        return None
    part, name = "key" if is_key else "value", name_of(given)
    form, function = form_of(given, "serialize", part)
    call = _call_of(form, function, is_key)
    waits = offload is not None and asks_registry(given)
    if offload is not None and waits:
        call = offloaded_serializer(call, offload)

    def serialize(topic: str, value: Any, headers: list[tuple[str, bytes | None]]) -> bytes | None:
        try:
            data = call(topic, value, headers)
        except Exception as error:
            raise SerializationError(
                f"the {part} was not sent: {name} failed by {type(error).__name__}", part, topic=topic
            ) from error
        if type(data) is bytes or (data is None and value is None):
            return data
        return _as_bytes(data, name, part, topic)

    def serialize_plain(topic: str, value: Any, headers: list[tuple[str, bytes | None]]) -> bytes | None:
        if value is None:
            return None
        try:
            data = function(value)
        except Exception as error:
            raise SerializationError(
                f"the {part} was not sent: {name} failed by {type(error).__name__}", part, topic=topic
            ) from error
        return data if type(data) is bytes else _as_bytes(data, name, part, topic)

    serialize.may_wait = waits  # type: ignore[attr-defined]
    return serialize_plain if form is Form.PLAIN else serialize


def deserializer_of(given: Any, is_key: bool = False, offload: Offload | None = None) -> Deserialize | None:
    """Return a function `(topic, data, headers) -> value` over what a user gave as deserializer.

    None as data is treated as in `serializer_of`.

    :param given: a function of bytes; an object with `deserialize(topic, data)` or `deserialize(topic, headers, data)`; a
        deserializer of confluent-kafka, or a function `(data, SerializationContext)`; None for bytes as they are
    :param is_key: whether it deserializes keys; values otherwise
    :param offload: of the handler, for deserializers that ask a schema registry
    :return: None if nothing was given. The function raises what the user's raises
    :raises TypeError: it has none of these forms, it is asynchronous, or it is a class
    """
    if given is None:
        return None
    form, function = form_of(given, "deserialize", "key" if is_key else "value")
    name = name_of(given)
    call = _call_of(form, function, is_key)
    waits = offload is not None and asks_registry(given)
    if offload is not None and waits:
        call = offloaded_deserializer(call, offload, is_key)

    def deserialize(topic: str, data: bytes | None, headers: Headers) -> Any:
        value = call(topic, data, headers if type(headers) is list else list(headers))
        return _refuse_coroutine(value, name) if type(value) is CoroutineType else value

    def deserialize_plain(topic: str, data: bytes | None, headers: Headers) -> Any:
        if data is None:
            return None
        value = function(data)
        return _refuse_coroutine(value, name) if type(value) is CoroutineType else value

    deserialize.may_wait = waits  # type: ignore[attr-defined]
    return deserialize_plain if form is Form.PLAIN else deserialize


def _call_of(form: Form, function: Callable[..., Any], is_key: bool) -> Callable[[str, Any, Any], Any]:
    if form is Form.HEADERS:
        return lambda topic, value, headers: function(topic, headers, value)
    if form is Form.CONTEXT:
        context = contexts(is_key)
        return lambda topic, value, headers: function(value, context(topic, headers))
    return lambda topic, value, headers: function(topic, value)


def _as_bytes(data: Any, name: str, part: str, topic: str) -> bytes:
    """Return what a serializer returned as bytes.

    :raises SerializationError: it cannot be bytes
    """
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    said = f"the {part} was not sent: {name} returned {type(data).__name__}, not bytes"
    if data is None:
        said = (
            f"the {part} was not sent: {name} returned None, which would be a tombstone; to send one, pass {part}=None"
        )
    elif isinstance(data, str):
        said += "; encode it (.encode()), or use pykafka.serialization.StringSerializer or JsonSerializer"
    elif isinstance(data, CoroutineType):
        data.close()
        said += ": it is asynchronous, and a serializer must return its result at once; use its blocking form"
    raise SerializationError(said, part, topic=topic)


def _refuse_coroutine(value: CoroutineType[Any, Any, Any], name: str) -> NoReturn:
    value.close()
    raise TypeError(f"{name} is asynchronous, and a deserializer must return its result at once; use its blocking form")
