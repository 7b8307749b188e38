"""Tests on an event loop: the whole test, fixtures included, runs in the bridge of one task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pykafka.handlers.bridge import await_in_bridge, bridged, in_bridge

KINDS = ("asyncio", "uvloop")
#: What the fixture `concurrency` returns: it makes the options of a client.
Concurrency = Callable[[], dict[str, Any]]
with suppress(ImportError):
    import uvloop

    uvloop.new_event_loop().close()  # the first one of a process makes a pipe that stays

#: The fixtures whose tests run on a loop where their parameter is a kind of loop.
FIXTURES = ("handler", "concurrency")


def new_loop(kind: str = "asyncio") -> asyncio.AbstractEventLoop:
    """Make a loop of a kind."""
    if kind == "uvloop":
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        return loop
    return asyncio.new_event_loop()


def run_coroutine(kind: str, main: Coroutine[Any, Any, Any], debug: bool | None = None) -> Any:
    """Run a coroutine on a new loop of a kind, for a minute at the most."""
    with asyncio.Runner(loop_factory=lambda: new_loop(kind), debug=debug) as runner:
        return runner.run(asyncio.wait_for(main, 60))


def run(fn: Callable[..., Any], *args: Any, kind: str = "asyncio", debug: bool = False) -> Any:
    """Call a blocking function in the bridge, on a new loop."""
    with asyncio.Runner(loop_factory=lambda: new_loop(kind), debug=debug) as runner:
        loop = runner.get_loop()
        task = loop.create_task(bridged(fn, *args))
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # pytest's timeout, or Ctrl-C, came in the loop itself: the test ends by it, too
                task.cancel()
                with suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            raise


def kind_of(item: pytest.Item) -> str | None:
    """Return the kind of loop that a test runs on, by its parameters; None: on none."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return next((params[name] for name in FIXTURES if params.get(name) in KINDS), None)


def pause(seconds: float) -> None:
    """Sleep while the loop turns, where there is one; the thread sleeps elsewhere (s)."""
    if in_bridge():
        await_in_bridge(asyncio.sleep(seconds))
    else:
        time.sleep(seconds)


def tasks() -> set[str]:
    """Return the names of the running loop's tasks; none where no loop runs."""
    return {task.get_name() for task in asyncio.all_tasks()} if in_bridge() else set()


@contextmanager
def cancelled_after(seconds: float, error: type[BaseException]) -> Iterator[None]:
    """Cancel the test's task in the middle of the block, and turn the cancellation into an error."""
    task = asyncio.current_task()
    assert task is not None
    timer = asyncio.get_running_loop().call_later(seconds, task.cancel)
    try:
        yield
    except asyncio.CancelledError:
        task.uncancel()
        raise error from None
    finally:
        timer.cancel()
