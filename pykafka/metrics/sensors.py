"""`Sensor`: count, sum and maximum of a value, in all and over the last windows, as Java's clients measure rates.

Any worker may record. A call is one stretch of code without a call in it, which no other thread interrupts: compiled by the
GIL, pure since the interpreter switches threads at calls and backward jumps only. Readers take no lock and may be one value
behind.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

#: Rates, averages and maxima are over two windows: the present one and the one before (s).
WINDOW_S = 30.0
#: The upper bounds of the buckets of durations (ms).
DURATIONS_MS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 30000.0)


class Buckets(NamedTuple):
    """A distribution.

    :param bounds: upper bounds of the buckets, ascending; one more bucket has all above
    :param counts: of each bucket, not cumulative: one more than `bounds`
    :param total: the sum of all values
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Sensor:
    """A value that is measured now and then.

    State: `count` and `total` only grow. What they were at the start of the present window and of the one before gives
    rates and averages.

    :param bounds: ascending upper bounds, to count values in buckets; () for none
    """

    def __init__(self, bounds: tuple[float, ...] = ()) -> None:
        self.count = 0
        self.total = 0.0
        #: When the last value came (s of the handler's clock).
        self.last = -math.inf
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self._since = -math.inf
        self._count = 0
        self._total = 0.0
        self._largest = -math.inf
        self._since_before = -math.inf
        self._count_before = 0
        self._total_before = 0.0
        self._largest_before = -math.inf

    def record(self, value: float, now: float) -> None:
        """Measure a value.

        :param now: of the handler's clock (s)
        """
        if now - self._since >= WINDOW_S:
            if now - self._since < 2 * WINDOW_S:
                self._since_before = self._since
                self._count_before = self._count
                self._total_before = self._total
                self._largest_before = self._largest
            else:
                self._since_before = now
                self._count_before = self.count
                self._total_before = self.total
                self._largest_before = -math.inf
            self._since = now
            self._count = self.count
            self._total = self.total
            self._largest = -math.inf
        self.last = now
        self.count += 1
        self.total += value
        if value > self._largest:
            self._largest = value
        if self.bounds:
            self.buckets[bisect_left(self.bounds, value)] += 1

    def take_over(self, other: Sensor) -> None:
        """Add the count and the sum of another sensor, whose values are older than both windows."""
        self.count += other.count
        self.total += other.total
        self._count += other.count
        self._total += other.total
        self._count_before += other.count
        self._total_before += other.total
        self.last = max(self.last, other.last)

    def recent(self, now: float) -> tuple[float, int, float, float]:
        """Return the time (s), count, sum and maximum of the last one to two windows; the maximum is NaN without a value."""
        age = now - self._since
        if age >= 2 * WINDOW_S:
            return 2 * WINDOW_S, 0, 0.0, math.nan
        if age >= WINDOW_S:
            since, count, total, largest = self._since, self._count, self._total, self._largest
        else:
            since, count, total = self._since_before, self._count_before, self._total_before
            largest = max(self._largest, self._largest_before)
        # As Java: at the beginning a rate is over a whole window, so that the first value makes no peak.
        seconds = max(now - since, WINDOW_S)
        return seconds, self.count - count, self.total - total, largest if self.count > count else math.nan

    def distribution(self) -> Buckets:
        """Return the values by bucket."""
        return Buckets(self.bounds, tuple(self.buckets), self.total)
