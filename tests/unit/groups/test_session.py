"""The worker of a `ZooKeeperSession`, by a clock that the tests set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pykafka.groups.zookeeper.session import _watch

TIMEOUT_S = 6.0


class Outage:
    """A clock, the event that ends the worker, and a session that can be relied on until a moment."""

    def __init__(self) -> None:
        self.time, self.ends, self.timeout_s = 0.0, math.inf, TIMEOUT_S
        self.happens: list[tuple[float, Callable[[], object]]] = []
        self.told: list[float] = []
        self.silent: list[str] = []
        self.looks = 0

    @property
    def sure_s(self) -> float:
        return self.ends - self.time

    def wait(self, seconds: float) -> bool:
        self.looks += 1
        self.time += seconds
        while self.happens and self.happens[0][0] <= self.time:
            self.happens.pop(0)[1]()
        return self.time >= 60

    def watch(self, pulse: Callable[[], tuple[int, bool] | None], patience_s: float = 1000.0) -> None:
        place: Any = self
        _watch(place, place, pulse, patience_s, self.silent.append, lambda: self.told.append(self.time))

    def end_at(self, ends: float) -> Callable[[], object]:
        return lambda: setattr(self, "ends", ends)


@pytest.mark.parametrize("timeout_s", [2.0, 6.0, 30.0])
def test_an_outage_is_told_once_when_time_is_up(timeout_s: float) -> None:
    place = Outage()
    place.timeout_s = timeout_s
    ends = 10.1 + timeout_s / 4
    place.happens = [(10.1, place.end_at(ends)), (30, place.end_at(math.inf)), (40.5, place.end_at(45))]
    place.watch(lambda: (place.looks, False))
    assert len(place.told) == 2
    assert all(0 <= told - due < 0.1 for told, due in zip(place.told, [ends, 45], strict=True)), place.told
    assert place.looks < 60 * 4 / min(timeout_s, 4) + 10


def test_the_time_without_calls_is_what_has_passed() -> None:
    place = Outage()
    place.happens = [(5.0, place.end_at(7.0))]
    place.watch(lambda: (1, False), 20.0)
    assert len(place.silent) == 1
    assert 20 < place.time < 23


def test_a_consumer_that_is_gone_ends_it() -> None:
    place = Outage()
    place.watch(lambda: None)
    assert place.silent == ["the consumer was dropped without close()"]
    assert place.time == 1.0
