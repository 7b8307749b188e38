"""Calls of classes that ask a schema registry, and wait for HTTP: away from a hub or an event loop.

They ask the registry once for a schema, and keep the answer. So only the first call for each is offloaded; the others cost
what they cost on threads (4 to 20 us; offloaded it would be ten times that).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pykafka.serialization.interfaces import Headers

#: `Handler.offload`.
Offload: TypeAlias = Callable[..., Any]

_FRAMED_BY_ID, _FRAMED_BY_GUID = 0, 1


def asks_registry(given: Any) -> bool:
    """Return whether an object asks a schema registry: of a class of `pykafka.registry` or confluent-kafka, or a subclass."""
    theirs = any(base.__module__.startswith("confluent_kafka.schema_registry") for base in type(given).__mro__)
    return theirs or getattr(given, "asks_registry", False) is True


def may_wait(function: Any) -> bool:
    """Return whether a function of `serializer_of` or `deserializer_of` may wait for a schema registry.

    On an event loop such a call belongs into the bridge.

    :param function: that function, or None
    """
    return bool(getattr(function, "may_wait", False))


def offloaded_serializer(call: Callable[..., Any], offload: Offload) -> Callable[..., Any]:
    """Return a call of a serializer whose first success with each topic is offloaded.

    :param call: `(topic, value, headers)`
    :param offload: of the handler
    """
    known: set[str] = set()

    def serialize(topic: str, value: Any, headers: Any) -> Any:
        if topic in known or value is None:
            return call(topic, value, headers)
        data = offload(call, topic, value, headers)
        known.add(topic)
        return data

    return serialize


def offloaded_deserializer(call: Callable[..., Any], offload: Offload, is_key: bool) -> Callable[..., Any]:
    """Return a call of a deserializer whose first success with each topic and schema is offloaded.

    :param call: `(topic, data, headers)`
    :param offload: of the handler
    :param is_key: whether it deserializes keys, whose schemas have a header of their own
    """
    known: set[tuple[str, bytes]] = set()
    header = "__key_schema_id" if is_key else "__value_schema_id"

    def deserialize(topic: str, data: bytes | None, headers: Headers) -> Any:
        if data is None:
            return call(topic, data, headers)
        schema = topic, _schema(data, headers, header)
        if schema in known:
            return call(topic, data, headers)
        value = offload(call, topic, data, headers)
        known.add(schema)
        return value

    return deserialize


def _schema(data: bytes, headers: Headers, header: str) -> bytes:
    """Return the bytes that name a record's schema."""
    for name, value in headers:
        if name == header and value is not None:
            return value
    return data[: {_FRAMED_BY_ID: 5, _FRAMED_BY_GUID: 17}.get(data[0], 0)] if data else b""
