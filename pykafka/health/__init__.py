"""Reports of a client on its own state, reasons for standing still, and applications for probes. README.md has the map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.health.explanation import Explanation, Reason, Why
    from pykafka.health.report import (
        BrokerHealth,
        ClientHealth,
        ConsumerHealth,
        MemberHealth,
        PartitionHealth,
        Problem,
        ProducerHealth,
    )
    from pykafka.health.watch import Held, Stalled
    from pykafka.health.web import asgi_app, wsgi_app

__all__ = [
    "BrokerHealth",
    "ClientHealth",
    "ConsumerHealth",
    "Explanation",
    "Held",
    "MemberHealth",
    "PartitionHealth",
    "Problem",
    "ProducerHealth",
    "Reason",
    "Stalled",
    "Why",
    "asgi_app",
    "wsgi_app",
]


def __getattr__(name: str) -> Any:
    # Loaded when a program asks for them: every client imports this package.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pykafka.health import explanation, report, watch, web

    return next(getattr(home, name) for home in (report, explanation, watch, web) if hasattr(home, name))
