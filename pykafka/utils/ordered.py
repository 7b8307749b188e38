"""`Ordered`: a list that is in order, by contract."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Ordered(list[T]):
    """A list whose items are in order: partitioners sort any other one for each message, which costs a lot with thousands."""
