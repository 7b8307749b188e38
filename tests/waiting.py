"""Waiting for what workers of a handler do, in a way that lets them do it."""

from __future__ import annotations

import time
from collections.abc import Callable

from pykafka.handlers import Handler


def until(handler: Handler, happened: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something has happened.

    :param handler: whose workers go on meanwhile
    :param happened: asked every 20 ms
    :param seconds: after which the test fails
    """
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        handler.sleep(0.02)
