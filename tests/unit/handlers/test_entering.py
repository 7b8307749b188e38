"""Ctrl-C and the `with` block of a lock: whenever it comes, the lock is free afterwards."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from pykafka.handlers import Handler, ThreadingHandler
from pykafka.handlers.base import GAP_BEFORE_WITH, RLockType
from pykafka.handlers.entering import GuardedLock, GuardedRLock
from pykafka.handlers.events import allocate_lock, allocate_rlock
from pykafka.handlers.native import NativeQueue, NativeSemaphore
from pykafka.handlers.patching import original
from pykafka.handlers.thread_pool import POOL, Job
from tests.support.interrupts import Interrupted

#: With CPython 3.14 and a plain lock, every second interrupt kept the lock.
TIMES = 300


@pytest.fixture(params=["of the handler", "native", "native and re-entrant", "guarded", "guarded and re-entrant"])
def lock(request: pytest.FixtureRequest, handler: Handler) -> RLockType:
    makers: dict[str, Callable[[], RLockType]] = {
        "of the handler": handler.Lock,
        "native": handler.native.Lock,
        "native and re-entrant": handler.native.RLock,
        "guarded": lambda: GuardedLock(original("_thread", "allocate_lock")()),
        "guarded and re-entrant": lambda: GuardedRLock(original("_thread", "RLock")()),
    }
    return makers[request.param]()


def take_for_ever(lock: RLockType) -> None:
    while True:
        with lock:
            pass


def test_an_interrupt_leaves_the_lock_free(lock: RLockType) -> None:
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
            with suppress(RuntimeError):  # it is free
                lock.release()
                kept += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert kept == 0


def test_locks_within_the_handlers_are_guarded_too() -> None:
    """Those of the pool that hubs and event loops offload calls to, and of native semaphores and queues."""
    holders: list[Any] = [POOL, Job(int, int), NativeSemaphore(1), NativeQueue(0)]
    assert {type(holder._lock) for holder in holders} == {type(allocate_lock())}
    assert isinstance(allocate_lock(), GuardedLock) == isinstance(allocate_rlock(), GuardedRLock) == GAP_BEFORE_WITH


def test_a_guarded_rlock_is_reentrant_and_excludes() -> None:
    handler = ThreadingHandler()
    lock, taken = GuardedRLock(original("_thread", "RLock")()), []
    with lock, lock:
        assert handler.spawn(lambda: taken.append(lock.acquire(timeout=0.05))).join(5)
    assert taken == [False]
    with pytest.raises(RuntimeError):
        lock.release()


def test_a_guarded_lock_is_a_lock() -> None:
    lock = GuardedLock(original("_thread", "allocate_lock")())
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

    lock = GuardedLock(original("_thread", "allocate_lock")())
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
