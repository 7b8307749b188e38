"""`Bounds`: how much may wait, in messages and in bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """How much may wait for somebody.

    :param messages: from this many on it is too much
    :param bytes: or from this many bytes on
    """

    messages: int
    bytes: int

    def reached(self, messages: float, nbytes: float) -> bool:
        """Return whether so much is too much."""
        return messages >= self.messages or nbytes >= self.bytes
