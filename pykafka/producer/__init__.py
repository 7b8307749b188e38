"""Producing messages to a topic: batched by partition, sent by a worker for each leader in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.compat.producer import OwnedBroker, Producer
from pykafka.utils import old_names

__all__ = ["OwnedBroker", "Producer"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
