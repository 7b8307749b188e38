"""Workers in virtual time: their order, the clock, and all the ways in which a run ends."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from greenlet import greenlet

from pykafka.testing.virtual import (
    DeadlockError,
    Network,
    OutsideSchedulerError,
    RunawayError,
    Scheduler,
    SchedulerError,
    VirtualHandler,
)


def test_a_run_returns_what_its_function_returns(scheduler: Scheduler) -> None:
    assert scheduler.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        scheduler.run(divmod, 7, 0)
    assert scheduler.run(int) == 0


def test_the_clock_jumps_to_the_next_deadline(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    woken: list[tuple[int, int]] = []

    def sleeper(seconds: int) -> None:
        virtual.sleep(seconds)
        woken.append((seconds, scheduler.now_ms()))

    def program() -> None:
        for worker in [virtual.spawn(sleeper, seconds) for seconds in (3600, 1, 86400)]:
            worker.join()

    scheduler.run(program)
    assert woken == [(1, 1000), (3600, 3_600_000), (86400, 86_400_000)]
    assert virtual.time_ms() % 86_400_000 == 0


def _order(seed: int, preemption: float = 0.0) -> list[int]:
    scheduler = Scheduler(seed, preemption=preemption)
    handler = VirtualHandler(scheduler, Network(scheduler))
    order: list[int] = []
    lock = handler.Lock()

    def work(number: int) -> None:
        for _ in range(3):
            with lock:
                order.append(number)

    def program() -> None:
        for worker in [handler.spawn(work, number) for number in range(6)]:
            worker.join()

    scheduler.run(program)
    return order


@pytest.mark.parametrize("preemption", [0.0, 0.5])
def test_the_seed_decides_the_order(preemption: float) -> None:
    orders = [_order(seed, preemption) for seed in range(10)]
    assert orders == [_order(seed, preemption) for seed in range(10)]
    assert len({tuple(order) for order in orders}) > 5
    together = [order for order in orders if all(len(set(order[at : at + 3])) == 1 for at in range(0, 18, 3))]
    assert len(together) == (10 if preemption == 0 else 0)  # a worker gives way at free locks, or does not


def test_a_deadlock_names_the_workers_and_their_places(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    ended: list[str] = []

    def waits_for_ever() -> None:
        try:
            virtual.Event().wait()
        finally:
            ended.append("ended")

    def program() -> None:
        virtual.spawn(waits_for_ever, name="patient")
        virtual.Queue().get()

    with pytest.raises(
        DeadlockError, match=r"seed 7: all workers wait for ever.*first \(waits at .*in program\).*patient"
    ):
        scheduler.run(program)
    assert ended == ["ended"]


def test_workers_that_are_left_are_ended_and_named(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    steps: list[str] = []
    lock = virtual.Lock()

    def tidy() -> None:
        try:
            virtual.sleep(10)
        finally:
            steps.append("tidied")
            with lock:  # free, so that it does not have to wait
                steps.append("with the lock")
            virtual.sleep(1)
            steps.append("never")

    def stubborn() -> None:
        while True:
            try:
                virtual.sleep(10)
            except BaseException:  # noqa: BLE001 - as the worst of programs
                steps.append("no")

    def program() -> None:
        virtual.spawn(tidy, name="tidy")
        virtual.spawn(stubborn, name="stubborn")
        virtual.sleep(1)
        virtual.spawn(print, name="late")

    scheduler.run(program)
    assert scheduler.leftovers == ["tidy", "stubborn", "late"]
    assert steps[:2] == ["tidied", "with the lock"]
    assert set(steps[2:]) == {"no"}
    assert scheduler.errors == []
    assert virtual.has_ended


def test_errors_of_workers_are_collected(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    scheduler.run(lambda: virtual.spawn(divmod, 1, 0, name="divides").join())
    ((what, error),) = scheduler.errors
    assert what == "worker divides"
    assert isinstance(error, ZeroDivisionError)


def _still(virtual: VirtualHandler) -> None:
    virtual.spawn(_still_too, virtual)
    _still_too(virtual)


def _still_too(virtual: VirtualHandler) -> None:
    while True:
        virtual.breathe()


def _busy(_: VirtualHandler) -> None:
    while True:
        pass


def _polling(virtual: VirtualHandler) -> None:
    while True:
        virtual.sleep(0)


@pytest.mark.parametrize(
    ("program", "why"),
    [(_still, "did not move the clock"), (_busy, "processor's time .* in _busy"), (_polling, "20000 turns")],
)
def test_a_seed_that_runs_away_is_ended(program: Callable[[VirtualHandler], None], why: str) -> None:
    scheduler = Scheduler(7, busy_limit=0.5, turns_max=300_000 if program is _still else 20_000)
    handler = VirtualHandler(scheduler, Network(scheduler))
    with pytest.raises(RunawayError, match=rf"seed 7 does not end: .*{why}.*first"):
        scheduler.run(program, handler)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_a_slow_machine_ends_no_seed(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """However much of the processor's time all turns take together: only one that does not end counts."""
    scheduler.busy_limit = 0.05

    def program() -> int:
        began_s, pauses = process_time(), 0
        while process_time() - began_s < 0.3:
            virtual.sleep(1)
            pauses += 1
        return pauses

    assert scheduler.run(program) > 0


def test_a_wait_outside_of_the_scheduler_is_an_error(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    event, lock = virtual.Event(), virtual.Lock()
    lock.acquire()
    waits: list[Callable[[], Any]] = [
        lambda: event.wait(1),
        lock.acquire,
        lambda: virtual.sleep(1),
        virtual.Queue().get,
        virtual.spawn(int).join,
    ]
    for wait in waits:
        with pytest.raises(OutsideSchedulerError, match=r"scheduler\.run"):
            wait()

    def elsewhere() -> list[str]:
        failed: list[str] = []

        def try_to_wait() -> None:
            try:
                event.wait(1)
            except OutsideSchedulerError as error:
                failed.append(type(error).__name__)

        greenlet(try_to_wait).switch()
        thread = threading.Thread(target=try_to_wait)
        thread.start()
        thread.join()
        return failed

    assert scheduler.run(elsewhere) == ["OutsideSchedulerError"] * 2


def test_one_run_at_a_time(scheduler: Scheduler) -> None:
    with pytest.raises(SchedulerError, match="runs already"):
        scheduler.run(lambda: scheduler.run(int))


@pytest.mark.parametrize("in_worker", [False, True])
def test_ctrl_c_ends_the_run(scheduler: Scheduler, virtual: VirtualHandler, in_worker: bool) -> None:
    def program() -> None:
        if in_worker:
            virtual.spawn(signal.raise_signal, signal.SIGINT, name="hit")
            virtual.Event().wait()
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        scheduler.run(program)
    assert scheduler.run(int) == 0


def test_garbage_is_not_collected_meanwhile(scheduler: Scheduler) -> None:
    assert gc.isenabled()
    assert not scheduler.run(gc.isenabled)
    assert gc.isenabled()


def test_a_lock_that_an_interrupted_worker_was_given_goes_to_the_next(
    virtual: VirtualHandler, scheduler: Scheduler
) -> None:
    lock, taken = virtual.Lock(), []

    def take(number: int) -> None:
        with lock:
            taken.append(number)

    def program() -> None:
        lock.acquire()
        workers = []
        for number in range(2):
            workers.append(virtual.spawn(take, number))
            virtual.sleep(0.1)
        lock.release()  # wakes the first one
        workers[0].interrupt()
        workers[1].join()
        assert not workers[0].is_alive()

    scheduler.run(program)
    assert taken == [1]


def test_without_greenlet_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['greenlet'] = None; import pykafka.testing.virtual"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: virtual time needs greenlet: pip install greenlet" in done.stderr
