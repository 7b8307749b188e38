"""Conversion between bytes and messages, without I/O.

The documented names are importable here and live in `pykafka.compat.messages`. The messages that the client sends
and receives live in `pykafka.protocol.wire`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pykafka.utils import old_names

if TYPE_CHECKING:
    from pykafka.compat.messages import *  # noqa: F403
    from pykafka.compat.messages.produce_fetch import MessageSet as MessageSet
    from pykafka.protocol.message import Message as Message

_OWN = {"Message": "pykafka.protocol.message", "MessageSet": "pykafka.compat.messages.produce_fetch"}
_DOCUMENTED = "pykafka.compat.messages"
_old_name = old_names(__name__)


def __getattr__(name: str) -> Any:
    """Import a class on first use: modules below this one import this package while they load."""
    if name in _OWN:
        return getattr(import_module(_OWN[name]), name)
    if name[:1].isupper():  # not a module, which is being imported
        found = getattr(import_module(_DOCUMENTED), name, None)
        if found is not None:
            return found
    if name == "__all__":
        return sorted([*import_module(_DOCUMENTED).__all__, *_OWN])
    return _old_name(name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *_OWN, *import_module(_DOCUMENTED).__all__})
