"""The kinds of concurrency that PyKafka runs on, behind one interface. Nothing here knows of Kafka.

`RequestHandler`, `ResponseFuture` and `Throttle`, which the reference documents here, live in `pykafka.network`. This
module imports each of them on first use, and `AsyncioHandler` and `GEventHandler` too, as a program uses one handler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pykafka.handlers.base import Address, Handler, Stream, Worker
from pykafka.handlers.threads import ThreadingHandler
from pykafka.utils import old_names

if TYPE_CHECKING:
    from pykafka.handlers.aio import AsyncioHandler
    from pykafka.handlers.greenlets import GEventHandler
    from pykafka.network.in_flight import ResponseFuture, Throttle
    from pykafka.network.requests import RequestHandler

__all__ = [
    "Address",
    "AsyncioHandler",
    "GEventHandler",
    "Handler",
    "RequestHandler",
    "ResponseFuture",
    "Stream",
    "ThreadingHandler",
    "Throttle",
    "Worker",
]

#: The modules of handlers that are imported on first use.
_HANDLERS = {"AsyncioHandler": "aio", "GEventHandler": "greenlets"}
_old_name = old_names(__name__)


def __getattr__(name: str) -> Any:
    """Import another handler, or find a class that lives elsewhere or a name that only PyKafka 2 had here."""
    if name in _HANDLERS:
        return getattr(import_module(f"pykafka.handlers.{_HANDLERS[name]}"), name)
    return _old_name(name)


def __dir__() -> list[str]:
    """List the names, those imported later included."""
    return sorted({*globals(), *__all__})
