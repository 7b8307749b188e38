"""`Partition` at its documented place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.metadata.partition import Partition
from pykafka.utils import old_names

__all__ = ["Partition"]

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
