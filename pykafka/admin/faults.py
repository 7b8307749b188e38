"""Errors about single items of a request, made of a broker's error codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException, error_for

if TYPE_CHECKING:
    from pykafka.network.node import Node
    from pykafka.protocol.schema import Request


def api_name(request_cls: type[Request[Any]]) -> str:
    """Return the name of an API as Kafka has it."""
    return request_cls.__name__.removesuffix("Request")


def fault(
    code: int,
    message: str | None = None,
    *,
    broker: Node,
    api: str,
    what: str = "",
    topic: str | None = None,
    partition: int | None = None,
) -> KafkaException:
    """Return the error for an error code.

    :param message: the broker's own text
    :param what: what the error is about, if that is neither topic nor partition: "group orders"
    """
    context: dict[str, Any] = {"broker": broker.address, "api": api, "topic": topic, "partition": partition}
    if not what:
        return error_for(code, message, **context)
    return error_for(code, f"{what}: {message or error_for(code).description}", **context)


def outcome(code: int, message: str | None = None, **context: Any) -> KafkaException | None:
    """Return the error for an error code, or None for 0; parameters as of `fault`."""
    return fault(code, message, **context) if code else None
