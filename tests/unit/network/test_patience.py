"""`Patience`: a worker does what a call with little time could not wait for, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from pykafka.exceptions import ResponseTimeoutError, SocketDisconnectedError
from pykafka.handlers import Handler, ThreadingHandler
from pykafka.network.patience import PATIENT_MAX_MS, PATIENT_MS, Patience


@pytest.mark.parametrize(
    ("timeout_ms", "takes"), [(None, False), (0, True), (PATIENT_MS - 1, True), (PATIENT_MS, False)]
)
def test_it_takes_over_what_a_call_has_less_time_for_than_a_worker(
    handler: Handler, timeout_ms: int | None, takes: bool
) -> None:
    assert Patience(handler, "Test").takes_over(timeout_ms) is takes


def test_one_worker_at_a_time_does_it(handler: Handler) -> None:
    patience, gate, done = Patience(handler, "Test"), handler.Event(), list[int]()

    def do(number: int) -> None:
        assert gate.wait(10)
        done.append(number)

    assert patience.wait(0)
    for number in (1, 2):
        gate.clear()
        assert patience.takes_over(1)
        patience.begin(do, number)
        assert [patience.is_over, patience.takes_over(1), patience.wait(0.01)] == [False, False, False]
        gate.set()
        assert patience.wait(10)
        assert [patience.is_over, patience.takes_over(1)] == [True, True]
    assert done == [1, 2]


def test_its_worker_has_a_name() -> None:
    spawner = mock.Mock()
    Patience(spawner, "Test").begin(print)
    assert spawner.spawn.call_args.kwargs == {"name": "pykafka.Patience.Test"}


def test_an_error_is_left_to_the_next_call(handler: Handler) -> None:
    patience = Patience(handler, "Test")

    def fail() -> None:
        raise SocketDisconnectedError("cut")

    patience.begin(fail)
    assert patience.wait(10)
    assert patience.takes_over(1)


@pytest.mark.parametrize(("share", "longer"), [(1.0, True), (0.5, False)])
def test_a_worker_that_had_too_little_time_is_followed_by_one_with_more(share: float, longer: bool) -> None:
    """An answer that takes longer than any worker waits would never come."""
    clock, times = [0.0], list[int]()

    def spawn(target: Callable[..., None], *args: Any, name: str) -> Any:
        target(*args)
        return mock.Mock(is_alive=lambda: False)

    handler: Any = SimpleNamespace(now=lambda: clock[0], spawn=spawn, Event=ThreadingHandler().Event)
    handler.here = threading.get_ident
    patience, late = Patience(handler, "Test"), ResponseTimeoutError("late")

    def do(timeout_ms: int) -> None:
        times.append(timeout_ms)
        if timeout_ms < PATIENT_MAX_MS or len(times) < 7:
            clock[0] += share * timeout_ms / 1000
            raise late

    for _ in range(7):
        assert patience.take_over(late, PATIENT_MS - 1, do)
    assert times == ([PATIENT_MS * min(2**number, 12) for number in range(7)] if longer else [PATIENT_MS] * 7)
    assert not patience.takes_over(PATIENT_MS)  # the last one has succeeded
