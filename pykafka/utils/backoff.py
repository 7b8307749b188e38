"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass

#: By how much pauses differ from each other, so that clients do not come all at once (KIP-580).
JITTER = 0.2


@dataclass(frozen=True)
class Backoff:
    """Pauses that double with each failure, up to a bound, and differ a little by chance.

    :param first_ms: after the first failure
    :param most_ms: the bound; `first_ms` if that is longer
    :param chance: by which pauses differ: the handler's
    """

    first_ms: float
    most_ms: float
    chance: random.Random

    def seconds(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row (s)."""
        return self.plain_seconds(failures) * self.chance.uniform(1 - JITTER, 1 + JITTER)

    def plain_seconds(self, failures: int) -> float:
        """Return how long to wait on average (s)."""
        doubled = self.first_ms * 2.0 ** min(max(failures - 1, 0), 60)
        return min(doubled, max(self.most_ms, self.first_ms)) / 1000
