"""Whether a hub is held: each hold that is returned has its end, whenever the hub turns, and whatever hears of it raises."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from pykafka.handlers import whereabouts
from pykafka.handlers.whereabouts import HoldProbe


class Hub:
    """A hub in this thread, which turns when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.posted: list[Callable[[], object]] = []
        self.native = SimpleNamespace(now=lambda: self.now, post=self.posted.append)
        handler: Any = self
        self.probe = HoldProbe(handler)
        self.released: list[float] = []

    def look(self, now: float) -> whereabouts.Hold | None:
        self.now = now
        return self.probe.look(1.0, self.released.append)

    def held(self) -> whereabouts.Hold | None:
        return self.probe.held

    def turn(self) -> None:
        self.posted.pop()()


def test_a_hold_is_returned_once_and_ends_once() -> None:
    hub = Hub()
    assert hub.look(1.0) is None
    assert hub.look(1.5) is None
    hold = hub.look(2.5)
    assert hold is not None
    assert hold.seconds == 1.5
    assert hub.held() is hold
    assert hub.look(3.5) is None
    assert hub.probe.is_asking
    hub.now = 4.0
    hub.turn()
    assert hub.held() is None
    assert hub.released == [3.5]
    hub.look(5.0)
    hub.turn()
    assert hub.released == [3.5]  # that one was short


def test_a_listener_that_raises_does_not_end_the_probe() -> None:
    hub = Hub()
    hub.look(1.0)

    def fail(seconds: float) -> None:
        raise ZeroDivisionError

    hub.now = 3.0
    assert hub.probe.look(1.0, fail) is not None
    with pytest.raises(ZeroDivisionError):
        hub.turn()
    assert hub.held() is None
    hub.look(4.0)
    assert hub.look(6.0) is not None
    hub.turn()
    assert hub.released == [2.5]


@pytest.mark.parametrize("place", ["text_of", "Hold"])
def test_a_hub_that_turns_while_it_is_looked_at_is_not_held(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Either the hold is returned, and its end is reported, or neither."""
    hub = Hub()
    hub.look(1.0)
    real = getattr(whereabouts, place)

    def turns_meanwhile(*args: Any) -> Any:
        hub.turn()
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(whereabouts, place, turns_meanwhile)
        assert hub.look(3.0) is None
    assert hub.held() is None
    assert hub.released == []
    hub.look(4.0)
    assert hub.look(6.0) is not None
    hub.turn()
    assert hub.released == [2.5]


def test_an_idle_hub_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def idle(frame: FrameType) -> bool:
        return True

    monkeypatch.setattr(whereabouts, "is_idle", idle)
    hub = Hub()
    assert hub.look(1.0) is None
    assert not hub.posted
