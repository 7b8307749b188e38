"""Workers, time, and what keeps a hub turning."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any

import pytest

from pykafka.handlers import Handler, Worker
from pykafka.handlers.base import KAZOO_RETRY_MAX_S
from pykafka.handlers.bridge import await_in_bridge
from pykafka.handlers.patching import original
from pykafka.handlers.thread_pool import POOL
from tests.support.waiting import CutOff, cut_off

VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="none")


def test_workers_have_the_context_that_they_are_given(handler: Handler) -> None:
    """A copy each, which is that of none of the others; without one they have none of the caller's that would live as long."""
    seen: list[str] = []

    def run(name: str) -> None:
        seen.append(VARIABLE.get())
        VARIABLE.set(name)
        handler.sleep(0.01)
        seen.append(VARIABLE.get())

    context = Context()
    context.run(VARIABLE.set, "given")
    workers = [handler.spawn_in(context, run, name, name=f"pykafka.{name}") for name in "ab"]
    assert all(worker.join(10) for worker in workers)
    assert workers[0].name == "pykafka.a"
    assert sorted(seen) == ["a", "b", "given", "given"]
    assert context[VARIABLE] == "given"
    assert VARIABLE.get() == "none"


def test_workers_are_named_and_joinable(handler: Handler) -> None:
    go = handler.Event()
    worker = handler.spawn(go.wait, 10, name="pykafka.test")
    assert worker.name == "pykafka.test"
    assert "pykafka.test" in repr(worker)
    assert worker.is_alive()
    assert not worker.join(0.02)
    go.set()
    assert worker.join(5)
    assert worker.join()
    assert not worker.is_alive()
    assert worker.error is None
    assert handler.spawn(int).name != handler.spawn(int).name


def test_a_join_that_is_cut_off_leaves_the_worker_alive(handler: Handler) -> None:
    """After Ctrl-C in the middle of it, a thread that was running passed for one that had ended."""
    go = handler.Event()
    worker = handler.spawn(go.wait, 20)
    with pytest.raises(CutOff), cut_off(handler, 0.1):
        worker.join(10)
    assert worker.is_alive()
    assert not worker.join(0.05)
    go.set()
    assert worker.join(10)
    assert not worker.is_alive()


def test_a_worker_that_waits_can_be_interrupted_but_for_threads(handler: Handler) -> None:
    go = handler.Event()
    ended = []

    def wait() -> None:
        try:
            go.wait(20)
        except BaseException as error:
            ended.append(error)
            raise

    worker = handler.spawn(wait)
    handler.sleep(0.01)
    began = handler.now()
    if worker.interrupt():
        assert worker.join(10)
        assert not isinstance(ended[0], Exception)
        assert handler.now() - began < 5
    else:
        assert "asyncio" not in handler.name
        assert handler.name != "gevent"
        assert worker.is_alive()
    go.set()
    assert worker.join(10)
    worker.interrupt()  # one that has ended


def test_async_functions_are_awaited_by_tasks_and_refused_elsewhere(handler: Handler) -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0.001)
        return 2 * number

    if handler.name == "asyncio":
        assert handler.awaited(double(4)) == 8
    else:
        with pytest.raises(TypeError, match=f"async function cannot be called on {handler.name}"):
            handler.awaited(double(4))


def test_workers_get_their_arguments(handler: Handler) -> None:
    found = []
    worker = handler.spawn(lambda *args, **kwargs: found.append((args, kwargs)), 1, 2, three=3)
    assert worker.join(5)
    assert found == [((1, 2), {"three": 3})]


def test_a_worker_cannot_wait_for_itself(handler: Handler) -> None:
    workers: list[Worker] = []
    go = handler.Event()

    def work() -> None:
        go.wait(5)
        workers[0].join(1)

    workers.append(handler.spawn(work))
    go.set()
    assert workers[0].join(5)
    assert isinstance(workers[0].error, RuntimeError)


def test_exceptions_are_kept_and_logged(handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    failure = LookupError("nothing there")

    def work() -> None:
        raise failure

    with caplog.at_level(logging.ERROR, logger="pykafka"):
        worker = handler.spawn(work, name="pykafka.unlucky")
        assert worker.join(5)
        assert worker.error is failure
        deadline = time.monotonic() + 5
        while not caplog.records and time.monotonic() < deadline:
            _let_hub_turn(handler)
    assert "pykafka.unlucky" in caplog.text
    assert "nothing there" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(
    "ends", [lambda: signal.raise_signal(signal.SIGINT), lambda: sys.exit(7)], ids=["sigint", "exit"]
)
def test_a_signal_in_a_greenlet_is_raised_in_the_main_one(
    handler: Handler, ends: Callable[[], object], capfd: pytest.CaptureFixture[str]
) -> None:
    if handler.name == "asyncio":  # it ends the loop: tests/unit/handlers/test_aio.py
        return
    if not handler.cooperative:  # the system's threads are never asked, and what one raises by itself is its own
        worker = handler.spawn(lambda: (_ for _ in ()).throw(SystemExit(7)))
        assert worker.join(5)
        assert isinstance(worker.error, SystemExit)
        return

    def work() -> None:
        handler.sleep(0.01)  # until the main greenlet is where it is to be hit
        ends()

    worker = handler.spawn(work)
    with pytest.raises((KeyboardInterrupt, SystemExit)) as caught:
        handler.sleep(5)
    assert worker.join(5)
    assert worker.error is caught.value
    assert capfd.readouterr() == ("", "")


def _let_hub_turn(handler: Handler) -> None:
    # A native worker's words are spoken on the hub, if there is one.
    if handler.name == "native":
        import gevent

        gevent.sleep(0.01)
    else:
        handler.sleep(0.01)


def test_workers_are_daemons(handler: Handler) -> None:
    go = handler.Event()
    worker = handler.spawn(go.wait, 10, name="pykafka.daemon")
    # Greenlets and bare threads never keep a process alive; threads of `threading` must be told.
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "pykafka.daemon")
    go.set()
    assert worker.join(5)


def test_what_a_worker_ran_is_let_go(handler: Handler) -> None:
    class Target:
        def run(self) -> None:
            pass

    target = Target()
    gone = weakref.ref(target)
    worker = handler.spawn(target.run)
    assert worker.join(5)
    del target
    deadline = time.monotonic() + 5
    while gone() is not None and time.monotonic() < deadline:
        handler.sleep(0.01)
        gc.collect()
    assert gone() is None


def test_sleep_zero_yields(handler: Handler) -> None:
    turns: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            turns.append(number)
            handler.sleep(0)

    workers = [handler.spawn(work, number) for number in range(2)]
    assert all(worker.join(5) for worker in workers)
    assert sorted(turns) == [0] * 5 + [1] * 5
    if handler.cooperative:
        assert turns != [0] * 5 + [1] * 5


def test_sleep_and_clocks(handler: Handler) -> None:
    before, started = handler.time_ms(), handler.now()
    handler.sleep(0.1)
    assert 0.095 <= handler.now() - started < 2
    assert 95 <= handler.time_ms() - before < 2000
    if handler.system_clock:
        assert abs(handler.time_ms() - time.time() * 1000) < 1000
    else:
        assert handler.name == "virtual"


def test_random_is_its_own(handler: Handler) -> None:
    assert isinstance(handler.random, random.Random)
    random.seed(5)
    first = handler.random.random()
    random.seed(5)
    assert handler.random.random() != first


@contextmanager
def _ticker(handler: Handler) -> Iterator[Callable[[], float]]:
    """Run a worker that looks at the clock every millisecond; return a function that says how late it was at most."""
    stop, gaps = handler.Event(), [0.0]

    def tick() -> None:
        last = time.monotonic()
        while not stop.is_set():
            handler.sleep(0.001)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    worker = handler.spawn(tick)
    handler.sleep(0.01)
    try:
        yield lambda: max(gaps)
    finally:
        stop.set()
        assert worker.join(5)


@pytest.mark.real_system("offload what takes real time")
def test_offload_does_not_hold_the_hub(handler: Handler) -> None:
    sleep = original("time", "sleep")
    with _ticker(handler) as longest:
        assert handler.offload(lambda: (sleep(0.5), 7)[1]) == 7
    assert longest() < 0.3


def test_offload_passes_arguments_and_errors(handler: Handler) -> None:
    assert handler.offload(divmod, 7, 2) == (3, 1)
    assert handler.offload(int, "ff", base=16) == 255
    with pytest.raises(ZeroDivisionError):
        handler.offload(divmod, 1, 0)


@contextmanager
def _busy_pools(seconds: float) -> Iterator[None]:
    """Use up the threads of the hub and of the event loop, as an application may."""
    sleep = original("time", "sleep")
    jobs: list[Any] = []
    futures: list[asyncio.Future[None]] = []
    if "gevent" in sys.modules:
        import gevent

        pool = gevent.get_hub().threadpool
        jobs = [pool.spawn(sleep, seconds) for _ in range(pool.maxsize)]
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        loop.set_default_executor(ThreadPoolExecutor(1, thread_name_prefix="asyncio_"))
        futures = [loop.run_in_executor(None, sleep, seconds)]
    yield
    for job in jobs:
        job.get()
    for future in futures:
        await_in_bridge(future)


@pytest.mark.real_system("offload what takes real time")
def test_offload_does_not_wait_for_threads_of_the_application(handler: Handler) -> None:
    with _busy_pools(1.5):
        started = time.monotonic()
        assert handler.offload(divmod, 7, 2) == (3, 1)
        took = time.monotonic() - started
    assert took < 1.0


@pytest.mark.real_system("offload what takes real time")
def test_slow_offloaded_calls_do_not_hold_up_others(handler: Handler) -> None:
    """Such as the calls of a schema registry that does not answer."""
    if not handler.cooperative:
        return  # the callers' own threads make the calls
    sleep = original("time", "sleep")
    slow = [handler.spawn(handler.offload, sleep, 1.5) for _ in range(40)]
    handler.sleep(0.05)
    started = time.monotonic()
    assert handler.offload(divmod, 7, 2) == (3, 1)
    assert time.monotonic() - started < 1.0
    assert all(worker.join(20) for worker in slow)


@pytest.mark.real_system("offload what takes real time")
def test_an_interrupted_offload_leaves_nothing(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    if not handler.cooperative:
        return  # its caller makes the call
    monkeypatch.setattr("pykafka.handlers.thread_pool.IDLE_S", 0.1)
    sleep = original("time", "sleep")
    workers = [handler.spawn(handler.offload, sleep, 0.3) for _ in range(3)]
    handler.sleep(0.1)
    for worker in workers:
        worker.interrupt()
    assert all(worker.join(5) for worker in workers)
    assert handler.offload(divmod, 7, 2) == (3, 1)
    deadline = time.monotonic() + 10
    while POOL.count and time.monotonic() < deadline:
        handler.sleep(0.05)
    assert POOL.count == 0


@pytest.mark.real_system("breathe until the real clock moves")
def test_breathe_lets_the_hub_turn(handler: Handler) -> None:
    with _ticker(handler) as longest:
        deadline = time.monotonic() + 0.6
        while time.monotonic() < deadline:
            handler.breathe()
    # A thread may be kept from running by anything; the hub only by us.
    assert longest() < 0.3


@pytest.mark.real_system("breathe until the real clock moves")
def test_breathing_workers_take_turns(handler: Handler) -> None:
    gaps, steps, stop = [0.0], [0] * 4, handler.Event()

    def tick() -> None:
        last = time.thread_time()
        while not stop.is_set():
            handler.sleep(0.001)
            # The processor's time and not the clock's, which runs on while other processes have the machine.
            gaps.append(time.thread_time() - last)
            last = time.thread_time()

    def work(number: int) -> None:
        while not stop.is_set():
            sum(range(1000))
            steps[number] += 1
            handler.breathe()

    workers = [handler.spawn(tick), *(handler.spawn(work, number) for number in range(4))]
    handler.sleep(0.5)
    stop.set()
    assert all(worker.join(5) for worker in workers)
    assert min(steps) > 0
    if handler.cooperative:
        assert max(gaps) < 0.02
        assert min(steps) > max(steps) / 4


def test_breathing_can_be_interrupted(handler: Handler) -> None:
    if handler.name != "gevent":
        handler.breathe()
        return
    import gevent

    def work() -> None:
        while True:
            sum(range(1000))
            handler.breathe()

    greedy = [gevent.spawn(work) for _ in range(3)]
    gevent.sleep(0.02)
    gevent.killall(greedy, timeout=5)
    assert all(one.dead for one in greedy)
    handler.breathe()


def test_breathe_is_cheap(handler: Handler) -> None:
    started = time.process_time()
    for _ in range(10_000):
        handler.breathe()
    assert time.process_time() - started < 0.5


@pytest.mark.real_system("hold the hub")
def test_native_goes_on_while_the_hub_is_held(handler: Handler) -> None:
    native = handler.native
    assert native.native is native
    assert not native.cooperative
    ticks: list[float] = []
    stop = native.Event()

    def tick() -> None:
        while not stop.wait(0.005):
            ticks.append(native.now())

    worker = native.spawn(tick)
    deadline = time.monotonic() + 20
    while len(ticks) < 5 and time.monotonic() < deadline:  # nobody gets the hub meanwhile
        sum(range(1000))
    count = len(ticks)
    stop.set()
    assert handler.offload(worker.join, 5)
    assert count >= 5


def test_native_meets_the_hub_by_events_and_queues(handler: Handler) -> None:
    native = handler.native
    inbox, outbox = native.Queue(), native.Queue()

    def work() -> None:
        while (item := inbox.get(timeout=5)) is not None:
            outbox.put(item * 2)

    worker = native.spawn(work)
    for item in range(10):
        inbox.put_nowait(item)
    inbox.put_nowait(None)
    assert handler.offload(worker.join, 5)
    assert [outbox.get_nowait() for _ in range(10)] == [item * 2 for item in range(10)]


class _Forked:
    def __init__(self) -> None:
        self.calls = 0

    def note(self) -> None:
        self.calls += 1


def test_at_fork_is_called_in_the_child_and_held_weakly(handler: Handler) -> None:
    kept, dropped = _Forked(), _Forked()
    calls: list[int] = []

    def plain() -> None:
        calls.append(1)

    def unlucky() -> None:
        raise LookupError("this must not keep the others from being called")

    handler.at_fork(unlucky)
    handler.at_fork(kept.note)
    handler.at_fork(dropped.note)
    handler.at_fork(plain)
    gone = weakref.ref(dropped)
    del dropped
    gc.collect()
    assert gone() is None
    before = handler.random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child of a process with threads does next to nothing
        pid = os.fork()
    if pid == 0:
        fine = kept.calls == 1 and calls == [1] and handler.random.getstate() != before
        os._exit(17 if fine else 18)
    assert _exit_code(pid) == 17
    assert kept.calls == 0
    assert calls == []


def _exit_code(pid: int) -> int:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the child hangs")


def test_kazoo(handler: Handler) -> None:
    if handler.name in ("native", "asyncio", "virtual"):
        with pytest.raises(NotImplementedError):
            handler.kazoo()
        return
    expected = {"threads": "SequentialThreadingHandler", "gevent": "SequentialGeventHandler"}
    assert type(handler.kazoo()).__name__ == expected[handler.name]
    # after a long outage, too, the client comes back soon
    retry = handler.kazoo_client("127.0.0.1:1", 4.0)._connection.retry_sleeper
    assert (retry.max_tries, retry.max_delay) == (-1, KAZOO_RETRY_MAX_S)
