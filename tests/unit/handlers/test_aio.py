"""The bridge and the handler on event loops: what tasks do that threads and greenlets do not. The contract has the rest."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import signal
import subprocess
import sys
import threading
import types
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pykafka.exceptions import WouldBlockError
from pykafka.handlers import AsyncioHandler
from pykafka.handlers.bridge import await_in_bridge, bridged
from tests.support import loops

KINDS = list(loops.KINDS)


@pytest.fixture(params=[(kind, debug) for kind in KINDS for debug in (False, True)], ids=lambda one: "-debug" * one[1])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Return what runs a coroutine on a new loop of each kind, with and without its debug mode."""
    kind, debug = request.param

    def call(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=lambda: loops.new_loop(kind), debug=debug) as runner:
            return runner.run(main)

    return call


Run = Callable[[Coroutine[Any, Any, Any]], Any]
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


def test_results_errors_and_arguments(run: Run) -> None:
    async def main() -> None:
        assert await bridged(divmod, 7, 2) == (3, 1)
        assert await bridged(int, "ff", base=16) == 255
        with pytest.raises(ZeroDivisionError):
            await bridged(divmod, 1, 0)
        assert await bridged(lambda: await_in_bridge(asyncio.sleep(0.001, "slept"))) == "slept"

    run(main())


def test_context_variables_are_the_tasks(run: Run) -> None:
    def change() -> str:
        seen = VARIABLE.get()
        await_in_bridge(asyncio.sleep(0.001))
        VARIABLE.set("from inside")
        return seen

    async def main() -> None:
        VARIABLE.set("from outside")
        assert await bridged(change) == "from outside"
        assert VARIABLE.get() == "from inside"

    run(main())


def test_the_context_of_a_worker_is_its_own(run: Run) -> None:
    """Context variables that a request had set lived as long as the client's workers."""

    async def main() -> None:
        handler, seen = AsyncioHandler(), []
        VARIABLE.set("of a request")
        worker = handler.spawn(lambda: seen.append(VARIABLE.get()))
        assert await bridged(worker.join, 5)
        assert seen == ["unset"]

    run(main())


@pytest.mark.filterwarnings("error")
def test_waiting_outside_of_the_bridge_names_the_awaitable_form(run: Run) -> None:
    async def main() -> None:
        handler = AsyncioHandler()
        lock = handler.Lock()
        assert lock.acquire()  # what need not wait, may be called anywhere
        event = handler.Event()
        handler.breathe()
        worker = handler.spawn(event.wait)
        for wait in (
            lock.acquire,
            event.wait,
            handler.Queue().get,
            handler.Semaphore(0).acquire,
            handler.sleep,
            lambda: handler.sleep(0.01),
            lambda: handler.offload(int),
            worker.join,
            lambda: handler.resolve("localhost", 1, 5),
            lambda: await_in_bridge(asyncio.sleep(0)),
        ):
            with pytest.raises(WouldBlockError, match=r"await.*pykafka\.aio"):
                wait()
        event.set()
        assert await bridged(worker.join, 5)

    run(main())


def test_a_handler_needs_a_running_loop() -> None:
    with pytest.raises(RuntimeError, match="in a coroutine"):
        AsyncioHandler()


def test_trio_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    trio: Any = types.ModuleType("trio")
    trio.lowlevel = types.SimpleNamespace(in_trio_run=lambda: True)
    monkeypatch.setitem(sys.modules, "trio", trio)
    with pytest.raises(RuntimeError, match="not on trio"):
        AsyncioHandler()


def test_cancellation_and_timeouts_come_as_exceptions(run: Run) -> None:
    async def main() -> None:
        handler, steps = AsyncioHandler(), []

        def wait() -> None:
            try:
                handler.sleep(60)
            finally:
                handler.sleep(0.001)  # last steps may wait
                steps.append("ended")

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await bridged(wait)
        task = asyncio.create_task(bridged(wait))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(bridged(wait))
                group.create_task(bridged(divmod, 1, 0))
        assert isinstance(caught.value.exceptions[0], ZeroDivisionError)
        assert steps == ["ended"] * 3

    run(main())


def test_a_lock_goes_on_from_one_that_was_cancelled_as_it_got_it(run: Run) -> None:
    async def main() -> None:
        handler = AsyncioHandler()
        for lock in (handler.Lock(), handler.RLock(), handler.Semaphore(1)):
            assert lock.acquire()
            unlucky = asyncio.create_task(bridged(lock.acquire))
            lucky = asyncio.create_task(bridged(lock.acquire))
            await asyncio.sleep(0.01)
            lock.release()  # the first one has it, and is told at its next step
            unlucky.cancel()
            assert await asyncio.wait_for(lucky, 5)
            with pytest.raises(asyncio.CancelledError):
                await unlucky

    run(main())


def test_what_a_queue_holds_is_not_lost_to_a_cancellation(run: Run) -> None:
    async def main() -> None:
        queue = AsyncioHandler().Queue(maxsize=1)
        unlucky = asyncio.create_task(bridged(queue.get))
        lucky = asyncio.create_task(bridged(queue.get))
        await asyncio.sleep(0.01)
        queue.put_nowait("one")
        unlucky.cancel()
        assert await asyncio.wait_for(lucky, 5) == "one"
        queue.put_nowait("two")
        writers = [asyncio.create_task(bridged(queue.put, item)) for item in ("three", "four")]
        await asyncio.sleep(0.01)
        assert queue.get_nowait() == "two"
        writers[0].cancel()
        assert await bridged(queue.get, timeout=5) == "four"
        await asyncio.gather(*writers, unlucky, return_exceptions=True)
        assert queue.empty()

    run(main())


def test_waits_that_were_cancelled_are_forgotten(run: Run) -> None:
    async def main() -> None:
        handler = AsyncioHandler()
        lock, event, queue = handler.Lock(), handler.Event(), handler.Queue()
        lock.acquire()
        tasks = [asyncio.create_task(bridged(wait)) for wait in (lock.acquire, event.wait, queue.get)]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        lock.release()
        assert not lock.locked()
        event.set()
        queue.put_nowait(1)
        assert queue.get_nowait() == 1

    run(main())


def test_an_event_set_in_another_thread(run: Run) -> None:
    """Finalizers set events, and the garbage collector runs in any thread."""

    async def main() -> None:
        event = AsyncioHandler().Event()
        waiter = asyncio.create_task(bridged(event.wait, 20))
        await asyncio.sleep(0.01)
        thread = threading.Thread(target=event.set)
        thread.start()
        assert await asyncio.wait_for(waiter, 5)
        thread.join()

    run(main())


def test_a_worker_cancelled_before_its_first_step_has_ended(run: Run) -> None:
    async def main() -> None:
        handler = AsyncioHandler()
        calls: list[int] = []
        worker = handler.spawn(calls.append, 1, name="unlucky")
        next(task for task in asyncio.all_tasks() if task.get_name() == "unlucky").cancel()
        assert await bridged(worker.join, 5)
        assert not worker.is_alive()
        assert calls == []

    run(main())


def test_calls_keep_nothing_of_what_they_were_given(run: Run) -> None:
    class Thing:
        pass

    def fail(thing: Thing) -> None:
        raise LookupError(thing)

    async def main() -> None:
        thing = Thing()
        gone = weakref.ref(thing)
        assert await bridged(lambda it: it, thing) is thing
        with pytest.raises(LookupError):
            await bridged(fail, thing)
        del thing
        gc.collect()
        assert gone() is None

    run(main())


def test_a_greenlet_ends_with_its_thread() -> None:
    class Thing:
        pass

    seen = []

    def work() -> None:
        async def main() -> None:
            thing = Thing()
            seen.append(weakref.ref(thing))
            await asyncio.gather(*(bridged(await_in_bridge, asyncio.sleep(0.001, thing)) for _ in range(5)))

        asyncio.run(main())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert [one() for one in seen] == [None] * 4


def test_the_end_of_a_loop_ends_its_workers(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    steps: list[str] = []

    def work(handler: AsyncioHandler) -> None:
        try:
            handler.sleep(60)
        finally:
            steps.append("ended")

    async def main() -> tuple[Any, Any]:
        handler = AsyncioHandler()
        worker = handler.spawn(work, handler)
        await asyncio.sleep(0.01)
        return handler, worker

    handler, worker = run(main())
    assert steps == ["ended"]
    assert not worker.is_alive()
    assert worker.join(1)
    handler.Event().set()
    with pytest.raises(WouldBlockError):
        handler.sleep(1)
    assert caplog.text == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_that_is_closed_in_the_midst_of_a_call(kind: str) -> None:
    """Without `asyncio.run`, which cancels all tasks first."""
    steps: list[str] = []

    def work(handler: AsyncioHandler) -> None:
        try:
            handler.sleep(60)
        finally:
            steps.append("ended")
            handler.sleep(60)

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(bridged(work, AsyncioHandler()))
        await asyncio.sleep(0.01)
        return task

    loop = loops.new_loop(kind)
    loop.set_exception_handler(lambda *_: None)  # that a task was destroyed is said there
    task = loop.run_until_complete(begin())
    loop.close()
    coroutine = task.get_coro()
    assert coroutine is not None
    coroutine.close()
    assert steps == ["ended"]
    del task, coroutine
    gc.collect()


ENDS = """
import asyncio, signal, sys
from pykafka.handlers import AsyncioHandler
from pykafka.handlers.bridge import bridged
from tests.support.loops import new_loop

def end(handler):
    handler.sleep(0.01)
    {end}

async def main():
    handler = AsyncioHandler()
    try:
        worker = handler.spawn(end, handler)
        await bridged(handler.sleep, 30)
    finally:
        await bridged(handler.sleep, 0.01)
        print("told", flush=True)

with asyncio.Runner(loop_factory=lambda: new_loop({kind!r})) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("end", "code", "said"),
    [("signal.raise_signal(signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"), ("sys.exit(7)", 7, "")],
    ids=["sigint", "exit"],
)
def test_ctrl_c_and_exit_end_the_loop(kind: str, end: str, code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ENDS.format(kind=kind, end=end)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout == "told\n"
    assert done.stderr.strip().endswith(said)
    assert "never awaited" not in done.stderr


if sys.version_info >= (3, 12):

    def test_tasks_that_begin_at_once() -> None:
        async def main() -> None:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            handler = AsyncioHandler()

            def nest(depth: int) -> int:
                handler.sleep(0.001)
                return depth if not depth else await_in_bridge(asyncio.create_task(bridged(nest, depth - 1)))

            assert await asyncio.gather(*(bridged(nest, 3) for _ in range(3))) == [0, 0, 0]

        asyncio.run(main())


def test_loops_in_several_threads_side_by_side() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        async def main() -> None:
            handler = AsyncioHandler()
            lock = handler.Lock()

            def count() -> None:
                for _ in range(50):
                    with lock:
                        handler.sleep(0)
                        assert handler.offload(int, "7") == 7
                done.append(number)

            await asyncio.gather(*(bridged(count) for _ in range(4)))

        asyncio.run(main())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == sorted(list(range(4)) * 4)
