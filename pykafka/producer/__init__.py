"""Producing messages to a topic: batched by partition, sent by a worker for each leader in use.

`Producer` and `OwnedBroker`, which the reference documents here, are loaded from `pykafka.compat` when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.utils import old_names

__all__ = ["OwnedBroker", "Producer"]

if TYPE_CHECKING:
    from pykafka.compat.producer import OwnedBroker, Producer
else:
    __getattr__ = old_names(__name__)
