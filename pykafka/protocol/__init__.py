"""Conversion between bytes and messages, without I/O.

The documented names are importable here and live in `pykafka.compat.messages`. The messages that the client sends
and receives live in `pykafka.protocol.wire`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.utils import old_names

if TYPE_CHECKING:
    from pykafka.compat.messages import *  # noqa: F403
    from pykafka.protocol.message import Message as Message
else:
    __getattr__ = old_names(__name__)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *old_names(__name__)("__all__")})
