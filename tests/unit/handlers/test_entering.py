"""Ctrl-C and the `with` block of a lock: whenever it comes, the lock is free afterwards."""

from __future__ import annotations

import signal
import time
from types import FrameType

import pytest

from pykafka.handlers import Handler
from pykafka.handlers.base import LockType
from pykafka.handlers.entering import GuardedLock
from pykafka.handlers.events import allocate_lock
from tests.support.interrupts import Interrupted

#: With CPython 3.14 and a plain lock, every second interrupt kept the lock.
TIMES = 300


@pytest.fixture(params=["of the handler", "native", "guarded"])
def lock(request: pytest.FixtureRequest, handler: Handler) -> LockType:
    if request.param == "guarded":
        return GuardedLock(allocate_lock())
    return (handler if request.param == "of the handler" else handler.native).Lock()


def take_for_ever(lock: LockType) -> None:
    while True:
        with lock:
            pass


def test_an_interrupt_leaves_the_lock_free(lock: LockType) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    kept = 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for turn in range(TIMES):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + turn % 7 * 0.0001)
                take_for_ever(lock)
            except Interrupted:
                pass
            if lock.locked():
                kept += 1
                lock.release()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert kept == 0


def test_a_guarded_lock_is_a_lock() -> None:
    lock = GuardedLock(allocate_lock())
    with lock as taken:
        assert taken
        assert lock.locked()
        assert not lock.acquire(blocking=False)
        began = time.monotonic()
        assert not lock.acquire(timeout=0.05)
        assert time.monotonic() - began < 5
    assert not lock.locked()
    with pytest.raises(RuntimeError):
        lock.release()
    with pytest.raises(ValueError, match="inside"), lock:
        raise ValueError("inside")
    assert not lock.locked()


def test_an_interrupt_while_waiting_takes_nothing() -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    lock = GuardedLock(allocate_lock())
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        lock.acquire()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted), lock:
            raise AssertionError("the lock was not free")
    finally:
        signal.signal(signal.SIGALRM, before)
    lock.release()
    assert not lock.locked()
