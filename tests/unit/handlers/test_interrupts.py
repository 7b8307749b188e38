"""One call at a time, whatever interrupts it."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from pykafka.exceptions import WorkerNotStartedError
from pykafka.handlers import Handler, ThreadingHandler
from pykafka.handlers.interrupts import OwnedWorker, SingleCaller, is_at_work
from tests.support.interrupts import Interrupted, interrupted_starts, interrupting


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


def test_an_owned_worker_is_a_worker(handler: Handler) -> None:
    gate, ran = handler.Event(), list[object]()

    def run() -> None:
        gate.wait(5)
        with suppress(RuntimeError):
            ran.append(worker.join())
        ran.append(1)
        raise ZeroDivisionError("of the test")

    handler.report = lambda *_: None  # type: ignore[method-assign]
    worker = OwnedWorker(handler, run, "owned")
    assert not worker.is_alive()
    assert not is_at_work(worker)
    assert not is_at_work(None)
    assert worker.join()
    worker.start()
    assert worker.is_alive()
    assert is_at_work(worker)
    assert not worker.join(0.01)
    gate.set()
    assert worker.join(5)
    assert not worker.is_alive()
    assert not is_at_work(worker)
    assert isinstance(worker.error, ZeroDivisionError)
    assert ran == [1]


def test_an_owned_worker_that_cannot_start_is_not_alive(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise WorkerNotStartedError("of the test")

    monkeypatch.setattr(handler, "spawn", refuse)
    worker = OwnedWorker(handler, lambda: None, "owned")
    with pytest.raises(WorkerNotStartedError):
        worker.start()
    assert not worker.is_alive()
    assert not worker.is_started
    assert worker.join()


def test_an_owner_knows_its_worker_if_an_interrupt_ends_the_start() -> None:
    """The worker ran, and nobody could stop it or wait for it."""
    handler, ran = ThreadingHandler(), list[int]()
    gate = handler.Event()

    def run() -> None:
        gate.wait(5)
        ran.append(1)

    worker = OwnedWorker(handler, run, "owned")
    with interrupted_starts("owned"), pytest.raises(Interrupted):
        worker.start()
    assert worker.is_alive()
    assert not worker.join(0.01)
    gate.set()
    assert worker.join(5)
    assert ran == [1]


def test_a_worker_whose_start_was_interrupted_runs_or_is_not_alive() -> None:
    handler, alive = ThreadingHandler(), list[bool]()
    for call in interrupting("interrupts.py", "threads.py"):
        kept, ran = list[OwnedWorker](), list[int]()

        def begin(kept: list[OwnedWorker] = kept, ran: list[int] = ran) -> None:
            kept.append(OwnedWorker(handler, lambda: ran.append(1), "owned"))
            kept[0].start()

        with suppress(Interrupted):
            call(begin)
        assert not kept or kept[0].join(5)
        alive.append(bool(kept) and kept[0].is_started)
        assert ran == [1] * alive[-1]
    assert set(alive) == {False, True}


def test_an_interrupt_inside_of_a_lock_of_threading_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller got a WorkerNotStartedError, and took the thread for one that the system had refused."""
    handler, begin = ThreadingHandler(), threading.Thread.start

    def start(self: threading.Thread) -> None:
        begin(self)
        try:
            raise Interrupted
        finally:
            threading.Lock().release()

    monkeypatch.setattr(threading.Thread, "start", start)
    worker = OwnedWorker(handler, lambda: None, "owned")
    with pytest.raises(Interrupted):
        worker.start()
    assert worker.join(5)
