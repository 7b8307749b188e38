"""`BalancedConsumer` at its documented place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.compat.balanced_consumer import BalancedConsumer
from pykafka.utils import old_names

__all__ = ["BalancedConsumer"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
