"""The debug log of requests: each request, and its response or error.

It shows names, numbers and sizes, never the contents of messages, keys or members' metadata. Logs on the handler's workers;
heartbeats, which a native thread sends, are not logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import ERROR_CODES
from pykafka.network.channel import Outgoing

if TYPE_CHECKING:
    from pykafka.network.in_flight import ResponseFuture
    from pykafka.protocol.schema import Request, Struct

log = logging.getLogger(__name__)


def is_wanted() -> bool:
    """Return whether requests are logged at present."""
    return log.isEnabledFor(logging.DEBUG)


class LoggedOutgoing(Outgoing):
    """A request that is logged when it is written, and when its response or an error arrives.

    :param where: the broker's address and the channel, for the log
    :param now: the handler's clock (s)
    """

    __slots__ = ("_now", "_number", "_started", "_where")

    logged = True

    def __init__(
        self,
        request: Request[Any],
        version: int,
        client_id: str,
        tell: Callable[[str, float], object] | None,
        where: tuple[str, str],
        now: Callable[[], float],
    ) -> None:
        super().__init__(request, version, client_id, tell)
        self._where = where
        self._now = now
        self._started = now()
        self._number = 0

    @property
    def _name(self) -> str:
        return type(self.request).__name__.removesuffix("Request")

    def encode(self, correlation_id: int) -> Sequence[bytes | bytearray | memoryview]:
        """Return the frame as buffers, its length first."""
        frame = super().encode(correlation_id)
        self._number, self._started = correlation_id, self._now()
        size = sum(map(len, frame))
        log.debug(
            "to %s (%s): %s v%d, request %d, %d bytes", *self._where, self._name, self.version, self._number, size
        )
        return frame

    def answered(self, frame: memoryview, response: Struct) -> None:
        """Log a response."""
        codes = sorted(error_codes(response))
        errors = ", ".join(_error_name(code) for code in codes)
        log.debug(
            "from %s (%s): %s v%d, request %d, %d bytes after %.1f ms: %s",
            *self._where,
            self._name,
            self.version,
            self._number,
            len(frame),
            1000 * (self._now() - self._started),
            errors or "no error",
        )

    def done(self, future: ResponseFuture) -> None:
        """Log the error of a request that gets no response."""
        if future.error is not None:
            log.debug(
                "from %s (%s): %s v%d, request %d: no response after %.1f ms: %s",
                *self._where,
                self._name,
                self.version,
                self._number,
                1000 * (self._now() - self._started),
                future.error,
            )


def error_codes(struct: Struct) -> set[int]:
    """Return all error codes in a response, except 0."""
    found: set[int] = set()
    for field in struct.fields:
        value = getattr(struct, field.name)
        if field.name == "error_code":
            found.add(value)
        elif field.kind == "struct" and value is not None:
            for one in value if field.is_array else [value]:
                found |= error_codes(one)
    return found - {0}


def _error_name(code: int) -> str:
    known = ERROR_CODES.get(code)
    return known.NAME if known is not None and known.NAME else f"error {code}"
