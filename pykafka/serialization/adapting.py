"""`serializer_of` and `deserializer_of`: one way to call the serializers of all libraries."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from functools import partial
from types import CoroutineType
from typing import Any, NoReturn

from pykafka.exceptions import SerializationError
from pykafka.serialization.builtin import Deserializer, Serializer
from pykafka.serialization.interfaces import Deserialize, Headers, Serialize, contexts
from pykafka.serialization.offloading import Offload, asks_registry, offloaded_deserializer, offloaded_serializer


class Form(Enum):
    """How a serializer or deserializer is called."""

    PLAIN = "(value)"
    CONTEXT = "(value, SerializationContext)"
    TOPIC = "serialize(topic, value)"
    HEADERS = "serialize(topic, headers, value)"


def form_of(given: Any, verb: str, part: str) -> tuple[Form, Callable[..., Any]]:
    """Return the form of what a user gave, and the function to call.

    :param given: a function, or an object of one of the known interfaces
    :param verb: "serialize" or "deserialize"
    :param part: "key" or "value", for the error
    :raises TypeError: it has none of the forms, it is asynchronous, or it is a class
    """
    name = name_of(given)
    if isinstance(given, type) and (_has_method(given, verb) or _has_method(given, "__call__")):
        raise TypeError(f"{part}_{verb}r must be an object, not the class {name}: write {name}(...)")
    _refuse_other_direction(given, verb, name)
    method = getattr(given, verb, None)
    if callable(method):
        _refuse_async(method, given, verb, name)
        return _form_of_method(method, verb, name), method
    if not callable(given):
        raise TypeError(
            f"{part}_{verb}r must be a function of one value, or an object with {verb}(topic, value), not "
            f"{type(given).__name__}"
        )
    _refuse_async(given, given, verb, name)
    return _form_of_callable(given, verb, name), given


def name_of(given: Any) -> str:
    """Return the name of a function, or of an object's class, for errors."""
    if isinstance(given, partial):
        return name_of(given.func)
    found = getattr(given, "__qualname__", None)
    return found if isinstance(found, str) else type(given).__qualname__


def is_confluent(given: Any) -> bool:
    """Return whether an object is a serializer or deserializer of confluent-kafka, or of a subclass of theirs."""
    return any(
        base.__module__ == "confluent_kafka.serialization" and base.__name__ in {"Serializer", "Deserializer"}
        for base in type(given).__mro__
    )


def _has_method(cls: type, name: str) -> bool:
    return any(name in vars(base) for base in cls.__mro__)


def _refuse_other_direction(given: Any, verb: str, name: str) -> None:
    wrong, other = ("Deserializer", "deserialize") if verb == "serialize" else ("Serializer", "serialize")
    ours = Deserializer if verb == "serialize" else Serializer
    right = {"Serializer", "Deserializer"} - {wrong}
    bases = [base for base in type(given).__mro__ if base.__module__.startswith(("confluent_kafka.", "kafka."))]
    theirs = any(base.__name__ == wrong for base in bases) and not any(base.__name__ in right for base in bases)
    half = callable(getattr(given, other, None)) and not callable(getattr(given, verb, None)) and not callable(given)
    if isinstance(given, ours) or theirs or half:
        raise TypeError(f"{name} is a {other}r; here a {verb}r is needed")


def _refuse_async(function: Any, given: Any, verb: str, name: str) -> None:
    while isinstance(function, partial):
        function = function.func
    called = [function, *(vars(base)["__call__"] for base in type(function).__mro__ if "__call__" in vars(base))]
    asynchronous = any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in called)
    # confluent-kafka's asynchronous classes return coroutines from functions that are none.
    theirs = is_confluent(given) and any("_async" in base.__module__ for base in type(given).__mro__)
    if asynchronous or theirs:
        raise TypeError(
            f"{name} is asynchronous, and a {verb}r must return its result at once; use its blocking form"
            + (f" ({name.removeprefix('Async')}, with SchemaRegistryClient)" if theirs else "")
        )


def _parameters(function: Any) -> list[inspect.Parameter] | None:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # builtins without a signature
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    return [one for one in parameters if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}]


def _form_of_method(method: Any, verb: str, name: str) -> Form:
    parameters = _parameters(method)
    if parameters is None:
        return Form.TOPIC
    required = sum(one.default is one.empty for one in parameters)
    if required == 3 or (len(parameters) >= 3 and parameters[1].name == "headers"):
        return Form.HEADERS
    if len(parameters) >= 2 and required <= 2:
        return Form.TOPIC
    raise TypeError(
        f"{name}.{verb}{inspect.signature(method)} is not {verb}(topic, value), nor {verb}(topic, headers, value)"
    )


def _form_of_callable(given: Any, verb: str, name: str) -> Form:
    if is_confluent(given):
        return Form.CONTEXT
    parameters = _parameters(given)
    if parameters is None:
        return Form.PLAIN
    required = sum(one.default is one.empty for one in parameters)
    if required == 2 or (len(parameters) >= 2 and parameters[1].name == "ctx"):
        return Form.CONTEXT
    if parameters and required <= 1:
        return Form.PLAIN
    raise TypeError(
        f"{name}{inspect.signature(given)} cannot be called as a {verb}r, with one value (or with a value and a "
        "SerializationContext)"
    )


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
