"""One call at a time, whatever interrupts it."""

from __future__ import annotations

from contextlib import suppress

from pykafka.handlers import Handler, ThreadingHandler
from pykafka.handlers.interrupts import SingleCaller
from tests.support.interrupts import Interrupted, interrupting


def test_one_call_is_inside_at_a_time(handler: Handler) -> None:
    turnstile = SingleCaller(handler)
    with (turn := handler.Lock()):
        assert turnstile.enter(turn)
        assert turnstile.locked()
        with (second := handler.Lock()):
            assert not turnstile.enter(second)
            assert not turnstile.await_entry(second, 0.02)
        assert turnstile.locked()
    assert not turnstile.locked()
    with (third := handler.Lock()):
        assert turnstile.await_entry(third, 0.0)


def test_a_call_waits_until_the_one_inside_is_gone(handler: Handler) -> None:
    turnstile, inside, came = SingleCaller(handler), handler.Event(), []

    def second() -> None:
        inside.wait(5)
        with (turn := handler.Lock()):
            came.append(turnstile.await_entry(turn, 5.0))

    worker = handler.spawn(second)
    with (turn := handler.Lock()):
        assert turnstile.enter(turn)
        inside.set()
        handler.sleep(0.05)
        assert came == []
    assert worker.join(5)
    assert came == [True]


def test_an_interrupt_at_any_step_leaves_it_open() -> None:
    """The lock was taken, and the `try` that releases it not entered: nobody could ever come in again."""
    handler = ThreadingHandler()
    turnstile = SingleCaller(handler)
    steps = 0

    def work() -> None:
        with (turn := handler.Lock()):
            assert turnstile.await_entry(turn, 1.0)
            handler.now()

    for call in interrupting("interrupts.py", "threads.py"):
        steps += 1
        with suppress(Interrupted):
            call(work)
        assert not turnstile.locked(), f"interrupted at step {steps}"
        with (turn := handler.Lock()):
            assert turnstile.enter(turn), f"interrupted at step {steps}"
    assert steps > 5
