"""`MetadataQuestion`: asking one broker after another for metadata, each in versions that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka.exceptions import ResponseTimeoutError, SocketDisconnectedError
from pykafka.metadata.elections import ASKED_IN_TIME
from pykafka.protocol import wire
from pykafka.utils.error_handlers import left_ms

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.network.node import Node

#: The versions to ask in after a hang-up: the last one without tagged fields, and the first that can leave topics uncreated.
LOWER_VERSIONS = (8, 4)
#: How often in a row a broker must hang up on the higher version before the client begins with the lower one.
HANG_UPS = 2
#: The least time of each broker in a question with a limit (ms): more questions would be no help to a call with little time.
LEAST_SHARE_MS = 500


class MetadataQuestion:
    """One question for metadata.

    If it has a limit, a broker that hangs leaves time for others. Its answer counts all the same if it comes while they are
    asked: brokers may be slow.

    :param handler: supplies the clock
    :param within_ms: the limit; None for no limit
    :param brokers: how many there are
    """

    def __init__(self, handler: Handler, within_ms: int | None, brokers: int) -> None:
        self._handler = handler
        self._share_ms: int | None = None
        if within_ms is not None:
            self._share_ms = max(LEAST_SHARE_MS, within_ms // max(1, min(ASKED_IN_TIME, brokers)))
        self._sent: dict[Node, InFlightRequest[wire.MetadataResponse]] = {}

    def ask(
        self, broker: Node, request: wire.MetadataRequest, timeout_ms: int | None, ceiling: int | None
    ) -> tuple[Node, wire.MetadataResponse]:
        """Return the answer of a broker, or of one that was asked before; parameters: see `call_metadata`."""
        limited = self._share_ms is not None
        if self._share_ms is not None:
            timeout_ms = self._share_ms if timeout_ms is None else min(timeout_ms, self._share_ms)

        def note(sent: InFlightRequest[wire.MetadataResponse]) -> None:
            self._sent[broker] = sent

        args = broker, request, timeout_ms, ceiling, self._handler
        try:
            return broker, call_metadata(*args, limited, note if limited else None)
        except ResponseTimeoutError:
            for other, sent in self._sent.items():
                if sent.done and sent.error is None:
                    return other, sent.get()
            raise


def call_metadata(
    broker: Node,
    request: wire.MetadataRequest,
    timeout_ms: int | None,
    ceiling: int | None,
    handler: Handler,
    strict: bool = False,
    on_sent: Callable[[InFlightRequest[wire.MetadataResponse]], object] | None = None,
) -> wire.MetadataResponse:
    """Ask one broker; again in lower versions if it closes the connection, as some proxies do instead of refusing.

    :param timeout_ms: for all of it; None for the socket timeout
    :param ceiling: no version above this one
    :param handler: supplies the clock
    :param strict: throttling does not put that time off
    :param on_sent: see `Node.call`
    """
    deadline = handler.now() + (broker.socket_timeout_ms if timeout_ms is None else timeout_ms) / 1000
    is_lowered = broker.metadata_hang_ups >= HANG_UPS
    if is_lowered:
        ceiling = min(broker.metadata_ceiling, broker.metadata_ceiling if ceiling is None else ceiling)
    try:
        answer = broker.call(request, timeout_ms=timeout_ms, ceiling=ceiling, strict=strict, on_sent=on_sent)
        broker.metadata_hang_ups = HANG_UPS if is_lowered else 0
        return answer
    except SocketDisconnectedError as error:
        if not _is_hang_up(broker, error):
            broker.metadata_hang_ups = 0
            raise
        hung_up = error
    asked = broker.api_version(wire.MetadataRequest, ceiling, left_ms(deadline, handler.now(), 1))
    for lower in LOWER_VERSIONS:
        timeout_ms = left_ms(deadline, handler.now(), 0)
        if lower >= asked or not timeout_ms:
            continue
        broker.drop_channel("main")  # its pause after a failure is for brokers that are away
        try:
            answer = broker.call(request, timeout_ms=timeout_ms, ceiling=lower, strict=strict)
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
    return type(error) is SocketDisconnectedError and not error.attempts and broker.knows_versions
