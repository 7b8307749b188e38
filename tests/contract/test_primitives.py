"""Locks, events, semaphores and queues: the same promises from every handler."""

from __future__ import annotations

import inspect
import sys
import time
from typing import Any

import pytest

from pykafka.handlers import Handler
from pykafka.handlers.base import GAP_BEFORE_WITH

#: Within how long of its deadline a wait must end on a busy machine (s).
SLACK = 1.5


def test_lock_excludes(handler: Handler) -> None:
    lock, steps, inside = handler.Lock(), [0], []

    def work() -> None:
        for _ in range(50):
            with lock:
                inside.append(1)
                assert len(inside) == 1
                step = steps[0]
                handler.sleep(0)
                steps[0] = step + 1
                inside.pop()

    workers = [handler.spawn(work) for _ in range(6)]
    assert all(worker.join(20) for worker in workers)
    assert [worker.error for worker in workers] == [None] * 6
    assert steps == [300]


def test_lock_is_not_reentrant(handler: Handler) -> None:
    lock = handler.Lock()
    assert lock.acquire()
    assert lock.locked()
    assert not lock.acquire(blocking=False)
    assert not lock.acquire(timeout=0.05)
    lock.release()
    assert not lock.locked()
    assert lock.acquire(timeout=0.05)
    lock.release()


def test_lock_released_too_often(handler: Handler) -> None:
    lock = handler.Lock()
    with pytest.raises(RuntimeError):
        lock.release()
    with lock:
        pass
    with pytest.raises(RuntimeError):
        lock.release()


def test_lock_may_be_released_by_another_worker(handler: Handler) -> None:
    lock = handler.Lock()
    lock.acquire()
    worker = handler.spawn(lock.release)
    assert lock.acquire(timeout=5)
    assert worker.join(5)
    lock.release()


def test_taking_a_lock_is_no_step_of_python(handler: Handler) -> None:
    lock, steps = handler.Lock(), []
    if inspect.isfunction(type(lock).acquire):
        # In virtual time Ctrl-C ends all; asyncio.run() cares for it, where its locks are not compiled.
        assert handler.name in ("asyncio", "virtual")
        return

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call":
            steps.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        with lock:
            lock.release()
            lock.acquire()
    finally:
        sys.setprofile(None)
    if GAP_BEFORE_WITH and handler.name != "asyncio":  # tests/unit/handlers/test_entering.py interrupts these
        assert [step.rpartition(".")[2] for step in steps] == ["__enter__", "enter"]
    else:
        assert steps == []


def test_rlock_is_reentrant_and_excludes(handler: Handler) -> None:
    lock, taken = handler.RLock(), []
    with lock, lock:
        worker = handler.spawn(lambda: taken.append(lock.acquire(timeout=0.05)))
        assert worker.join(5)
    assert taken == [False]


def test_event_wakes_all(handler: Handler) -> None:
    event, woken = handler.Event(), []
    workers = [handler.spawn(lambda: woken.append(event.wait(10))) for _ in range(8)]
    handler.sleep(0.05)
    assert woken == []
    assert not event.is_set()
    event.set()
    assert all(worker.join(5) for worker in workers)
    assert woken == [True] * 8
    assert event.is_set()
    assert event.wait()
    event.clear()
    assert not event.is_set()


@pytest.mark.parametrize("timeout", [0.0, 0.1])
def test_timeouts_are_accurate(handler: Handler, timeout: float) -> None:
    lock, queue, semaphore = handler.Lock(), handler.Queue(1), handler.Semaphore(0)
    lock.acquire()
    queue.put(1)

    def timed(call: Any, *args: Any, **kwargs: Any) -> Any:
        started = handler.now()
        try:
            return call(*args, **kwargs)
        finally:
            assert timeout - 0.005 <= handler.now() - started < timeout + SLACK

    assert timed(handler.Event().wait, timeout) is False
    assert timed(lock.acquire, timeout=timeout) is False
    assert timed(semaphore.acquire, timeout=timeout) is False
    with pytest.raises(handler.QueueFullError):
        timed(queue.put, 2, timeout=timeout)
    queue.get()
    with pytest.raises(handler.QueueEmptyError):
        timed(queue.get, timeout=timeout)
    lock.release()


def test_a_wait_with_a_timeout_ends_when_it_can(handler: Handler) -> None:
    event = handler.Event()
    started = time.monotonic()

    def set_soon() -> None:
        handler.sleep(0.02)
        event.set()

    worker = handler.spawn(set_soon)
    assert event.wait(30)
    assert time.monotonic() - started < 5
    assert worker.join(5)


def test_semaphore_counts(handler: Handler) -> None:
    semaphore, inside, most = handler.Semaphore(2), [], []

    def work() -> None:
        with semaphore:
            inside.append(1)
            most.append(len(inside))
            handler.sleep(0.01)
            inside.pop()

    workers = [handler.spawn(work) for _ in range(6)]
    assert all(worker.join(5) for worker in workers)
    assert max(most) == 2
    assert semaphore.acquire()
    assert semaphore.acquire(blocking=False)
    assert not semaphore.acquire(blocking=False)
    semaphore.release()
    assert semaphore.acquire(timeout=1)


def test_queue_is_first_in_first_out(handler: Handler) -> None:
    queue = handler.Queue()
    assert queue.empty()
    assert not queue.full()
    for item in range(100):
        queue.put(item)
    assert queue.qsize() == 100
    assert [queue.get() for _ in range(100)] == list(range(100))
    with pytest.raises(handler.QueueEmptyError):
        queue.get_nowait()
    with pytest.raises(handler.QueueEmptyError):
        queue.get(block=False)


def test_queue_of_limited_size(handler: Handler) -> None:
    queue = handler.Queue(maxsize=2)
    queue.put(1)
    queue.put_nowait(2)
    assert queue.full()
    with pytest.raises(handler.QueueFullError):
        queue.put_nowait(3)
    with pytest.raises(handler.QueueFullError):
        queue.put(3, block=False)
    worker = handler.spawn(queue.put, 3)
    handler.sleep(0.02)
    assert worker.is_alive()
    assert queue.get() == 1
    assert worker.join(5)
    assert [queue.get(), queue.get()] == [2, 3]


def test_queue_hands_each_item_to_one_worker(handler: Handler) -> None:
    queue, found = handler.Queue(maxsize=5), []

    def work() -> None:
        while (item := queue.get(timeout=10)) is not None:
            found.append(item)

    workers = [handler.spawn(work) for _ in range(4)]
    for item in range(500):
        queue.put(item, timeout=10)
    for _ in workers:
        queue.put(None, timeout=10)
    assert all(worker.join(10) for worker in workers)
    assert sorted(found) == list(range(500))


def test_queue_join_and_task_done(handler: Handler) -> None:
    queue, done = handler.Queue(), []

    def work() -> None:
        for _ in range(3):
            done.append(queue.get(timeout=5))
            handler.sleep(0.01)
            queue.task_done()

    for item in range(3):
        queue.put(item)
    worker = handler.spawn(work)
    queue.join()
    assert done == [0, 1, 2]
    assert worker.join(5)
    with pytest.raises(ValueError, match="task_done"):
        queue.task_done()


def test_local_is_each_workers_own(handler: Handler) -> None:
    local, seen = handler.local(), []
    local.value = "main"

    def work(value: int) -> None:
        seen.append(hasattr(local, "value"))
        local.value = value
        handler.sleep(0.01)
        seen.append(local.value == value)

    workers = [handler.spawn(work, number) for number in range(4)]
    assert all(worker.join(5) for worker in workers)
    assert sorted(seen) == [False] * 4 + [True] * 4
    assert local.value == "main"
