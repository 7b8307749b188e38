"""What a client knows of its own state, why it stands still, and applications for probes. README.md has the map."""

from __future__ import annotations

from importlib import import_module
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

#: The modules of the names, which are loaded when a program asks for them: every client imports this package.
_HOMES = {
    "Explanation": "explanation",
    "Reason": "explanation",
    "Why": "explanation",
    "Held": "watch",
    "Stalled": "watch",
    "asgi_app": "web",
    "wsgi_app": "web",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'report')}"), name)
