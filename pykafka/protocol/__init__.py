"""Bytes to messages and back.

The names of the reference stand here, and live in `pykafka.protocol.documented`; what the client itself sends and receives is
in `pykafka.protocol.wire`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.protocol.documented import *  # noqa: F403
    from pykafka.protocol.documented.messageset import MessageSet as MessageSet
    from pykafka.protocol.message import Message as Message

_OWN = {"Message": "pykafka.protocol.message", "MessageSet": "pykafka.protocol.documented.messageset"}
_DOCUMENTED = "pykafka.protocol.documented"


def __getattr__(name: str) -> Any:
    """Import a class when it is first asked for: modules below this one pass here when they are imported."""
    if name in _OWN:
        return getattr(import_module(_OWN[name]), name)
    if name[:1].isupper():  # not a module, which is being imported
        found = getattr(import_module(_DOCUMENTED), name, None)
        if found is not None:
            return found
    if name == "__all__":
        return sorted([*import_module(_DOCUMENTED).__all__, *_OWN])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what can be had."""
    return sorted({*globals(), *_OWN, *import_module(_DOCUMENTED).__all__})
