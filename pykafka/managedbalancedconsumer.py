"""`ManagedBalancedConsumer` at its documented place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.compat.managed_balanced_consumer import ManagedBalancedConsumer
from pykafka.utils import old_names

__all__ = ["ManagedBalancedConsumer"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
