"""Which form a serializer or deserializer has that a user gives; nothing is called to find that out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from pykafka.serialization.builtin import Deserializer, Serializer


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
