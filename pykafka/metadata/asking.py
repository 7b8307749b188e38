"""Metadata requests to brokers that close the connection on versions which they do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.exceptions import SocketDisconnectedError
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.node import Node

#: The versions to ask in after a hang-up: the last one without tagged fields, and the first that can leave topics uncreated.
LOWER_VERSIONS = (8, 4)
#: How often in a row a broker must hang up on the higher version before the client begins with the lower one.
HANG_UPS = 2


def call_metadata(
    broker: Node, request: wire.MetadataRequest, timeout_ms: int | None, ceiling: int | None, handler: Handler
) -> wire.MetadataResponse:
    """Ask one broker; again in lower versions if it closes the connection, as some proxies do instead of refusing.

    :param timeout_ms: for all of it; None for the socket timeout
    :param ceiling: no version above this one
    :param handler: supplies the clock
    """
    deadline = handler.now() + (broker.socket_timeout_ms if timeout_ms is None else timeout_ms) / 1000
    is_lowered = broker.metadata_hang_ups >= HANG_UPS
    if is_lowered:
        ceiling = min(broker.metadata_ceiling, broker.metadata_ceiling if ceiling is None else ceiling)
    try:
        answer = broker.call(request, timeout_ms=timeout_ms, ceiling=ceiling)
        broker.metadata_hang_ups = HANG_UPS if is_lowered else 0
        return answer
    except SocketDisconnectedError as error:
        if not _is_hang_up(broker, error):
            broker.metadata_hang_ups = 0
            raise
        hung_up = error
    asked = broker.api_version(wire.MetadataRequest, ceiling)
    for lower in LOWER_VERSIONS:
        left_ms = round((deadline - handler.now()) * 1000)
        if lower >= asked or left_ms <= 0:
            continue
        broker.drop_channel("main")  # its pause after a failure is for brokers that are away
        try:
            answer = broker.call(request, timeout_ms=left_ms, ceiling=lower)
        except SocketDisconnectedError as error:
            if not _is_hang_up(broker, error):
                raise
            continue
        broker.metadata_ceiling = lower
        broker.metadata_hang_ups += 1
        return answer
    broker.metadata_hang_ups = 0
    raise hung_up


def _is_hang_up(broker: Node, error: SocketDisconnectedError) -> bool:
    """Return whether the broker closed a connection that had come about."""
    return type(error) is SocketDisconnectedError and not error.ledger and broker.knows_versions
