"""The debug log of requests: each request, and its response or error.

It shows names, numbers and sizes, never the contents of messages, keys or members' metadata. Logs on the handler's workers;
heartbeats, which a native thread sends, are not logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pykafka.exceptions import ERROR_CODES

if TYPE_CHECKING:
    from pykafka.handlers.base import Buffer
    from pykafka.protocol.schema import Struct

log = logging.getLogger(__name__)


class RequestLog:
    """The log of one request: when it is written, and when its response or an error arrives.

    :param request: the message
    :param version: of its API
    :param address: of the broker
    :param channel: that the request is sent on
    :param now: the handler's clock (s)
    """

    def __init__(self, request: object, version: int, address: str, channel: str, now: Callable[[], float]) -> None:
        self._name = type(request).__name__.removesuffix("Request")
        self._version = version
        self._address = address
        self._channel = channel
        self._now = now
        self._started = now()
        self._number = 0

    def sent(self, correlation_id: int, frame: Sequence[Buffer]) -> None:
        """Log a request that is about to be written."""
        self._number, self._started = correlation_id, self._now()
        log.debug("to %s (%s): %s v%d, request %d, %d bytes", *self._place, sum(map(len, frame)))

    @property
    def _place(self) -> tuple[object, ...]:
        return self._address, self._channel, self._name, self._version, self._number

    @property
    def _elapsed_ms(self) -> float:
        return 1000 * (self._now() - self._started)

    def answered(self, frame: memoryview, response: Struct) -> None:
        """Log a response."""
        errors = ", ".join(_error_name(code) for code in sorted(error_codes(response))) or "no error"
        text = "from %s (%s): %s v%d, request %d, %d bytes after %.1f ms: %s"
        log.debug(text, *self._place, len(frame), self._elapsed_ms, errors)

    def failed(self, error: BaseException) -> None:
        """Log the error of a request that gets no response."""
        text = "from %s (%s): %s v%d, request %d: no response after %.1f ms: %s"
        log.debug(text, *self._place, self._elapsed_ms, error)


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
