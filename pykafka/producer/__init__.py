"""Producing messages to a topic: batched by partition, sent by a worker for each leader in use.

`Producer` and `OwnedBroker`, which the reference documents here, are loaded from `pykafka.compat` when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pykafka.utils import old_names

if TYPE_CHECKING:
    from pykafka.compat.producer import OwnedBroker, Producer

__all__ = ["OwnedBroker", "Producer"]

_old_name = old_names(__name__)


def __getattr__(name: str) -> Any:
    """Import a documented class, or find a name that only PyKafka 2 had here."""
    if name in __all__:
        return getattr(import_module("pykafka.compat.producer"), name)
    return _old_name(name)
