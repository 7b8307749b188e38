"""`SimpleConsumer` at its documented place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.consumer.buffers import OwnedPartition
from pykafka.utils import old_names

__all__ = ["OwnedPartition", "SimpleConsumer"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
