"""The bridge between blocking functions and an event loop: `bridged` runs a blocking function in a greenlet of a task.

The greenlet's parent is the task. If the function has to wait, it switches to the task with what it waits for
(`await_in_bridge`); the task awaits that, and switches back with the result, or throws the exception, cancellation included.
Only the task's own steps switch to the greenlet, never a callback of the loop. So any loop will do, and everything of
asyncio works as in any other task: `asyncio.timeout`, TaskGroups, cancellation, context variables.

Greenlets are used again: a bridged call that does not wait costs a few microseconds.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context
from typing import Any, ParamSpec, Self, TypeVar, cast
from weakref import WeakKeyDictionary

from pykafka.exceptions import WouldBlockError
from pykafka.handlers.patching import original

try:
    import greenlet
except ImportError as error:
    raise ImportError("asyncio needs greenlet: pip install greenlet", name="greenlet") from error

P = ParamSpec("P")
R = TypeVar("R")

#: How many idle greenlets a thread keeps for the next calls.
IDLE_MAX = 64


class Carrier(greenlet.greenlet):  # type: ignore[misc]  # a class of C
    """A greenlet that runs one bridged call after another.

    State: belongs to the task whose call it runs; idle, to its thread.
    """

    #: What `Handler.local` keeps for the present call, by object.
    values: dict[BridgeLocal, dict[str, Any]] | None = None
    #: Whether the task is being closed, so that nothing can be awaited any more.
    closing = False


class _Idle(original("_thread", "_local")):  # type: ignore[misc]
    """The idle greenlets of each thread: none can leave the thread that made it."""

    def __init__(self) -> None:
        self.carriers: list[Carrier] = []


_idle = _Idle()
_getcurrent = greenlet.getcurrent


def _carry(call: list[Any]) -> None:
    """Run calls, in a greenlet. An idle one refers to nothing, also not to itself: it ends when its thread drops it.

    :param call: function, positional and keyword arguments; afterwards whether it succeeded, and its result or exception
    """
    while True:
        _run(call)
        call = cast("greenlet.greenlet", _getcurrent().parent).switch(call)


def _run(call: list[Any]) -> None:
    fn, args, kwargs = call
    call.clear()
    try:
        call[:] = True, fn(*args, **kwargs)
    except greenlet.GreenletExit:  # the greenlet itself is being freed
        raise
    except BaseException as error:  # noqa: BLE001 - the task raises it
        call[:] = False, error


@types.coroutine
def _turn() -> Generator[None]:
    """Await one turn of the loop."""
    yield


def elsewhere(loop: Any) -> RuntimeError:
    """Return the error of a wait in another loop than the client's."""
    if loop.is_closed():
        return RuntimeError("the event loop of this client is closed: open a client in the loop that runs now")
    return RuntimeError(
        "this client belongs to another event loop, where it was opened: open one in this loop, or hand the call over by "
        "asyncio.run_coroutine_threadsafe()"
    )


def running() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread; None: none does."""
    return asyncio._get_running_loop()


def require_home(home: asyncio.AbstractEventLoop | None) -> None:
    """Raise an error if another loop runs than the one to which an object belongs, or that one is closed.

    :param home: the loop that ran when the object was made
    :raises RuntimeError: another one runs, or none does
    """
    if home is not None and asyncio._get_running_loop() is not home:
        raise elsewhere(home)


async def bridged(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function so that its waits become those of the present task; return its result.

    :param fn: a function that blocks by means of an `AsyncioHandler` of the running loop
    """
    idle = _idle.carriers
    carrier = idle.pop() if idle else Carrier(_carry)
    call: list[Any] = [fn, args, kwargs]
    del args, kwargs
    here = _getcurrent()
    carrier.gr_context = here.gr_context
    carrier.parent = here
    awaited = carrier.switch(call)
    while awaited is not call:
        try:
            given = await (_turn() if awaited is None else awaited)
        except GeneratorExit:
            _close(carrier, call)
            raise
        except BaseException as error:  # noqa: BLE001 - the function receives it
            del awaited
            _aim(carrier)
            # Greenlets drop the traceback unless they get it by name: it has the frames of a user's coroutine, below this one.
            trace = error.__traceback__
            awaited = carrier.throw(type(error), error, trace and trace.tb_next)
            del trace
        else:
            _aim(carrier)
            awaited = carrier.switch(given)
            del given
    carrier.gr_context = carrier.values = None
    if len(idle) < IDLE_MAX:
        idle.append(carrier)
    succeeded, result = call
    call.clear()
    if succeeded:
        return cast("R", result)
    try:
        raise result
    finally:
        del result


def _aim(carrier: Carrier) -> None:
    """Make the greenlet switch back to this one: a task's first step may have been another greenlet's."""
    here = _getcurrent()
    if carrier.parent is not here:
        carrier.parent = here


def _close(carrier: Carrier, call: list[Any]) -> None:
    """End a call whose task is closed without having ended, as at the end of a loop that is just closed."""
    carrier.closing = True
    with suppress(greenlet.error):  # the garbage collector runs in any thread, and greenlets only in theirs
        _aim(carrier)
        carrier.throw(asyncio.CancelledError())
    call.clear()


def in_bridge() -> bool:
    """Return whether the caller may wait: it runs inside of `bridged`."""
    return isinstance(_getcurrent(), Carrier)


def require_bridge() -> None:
    """Raise an error if the caller may not wait.

    :raises WouldBlockError: the caller does not run inside of `bridged`
    """
    if not isinstance(_getcurrent(), Carrier):
        raise WouldBlockError(
            "this call has to wait, which would block the event loop: make it with `await` on the objects of pykafka.aio, "
            "or as `await bridged(function, ...)` from pykafka.handlers.bridge"
        )


def await_in_bridge(awaitable: Awaitable[R] | None) -> R:
    """Await something in a blocking function, and return its result; None waits for one turn of the loop.

    :raises WouldBlockError: the caller does not run inside of `bridged`
    """
    current = _getcurrent()
    if not isinstance(current, Carrier):
        _drop(awaitable)
        require_bridge()
    elif current.closing:
        _drop(awaitable)
        raise asyncio.CancelledError("the task was closed")
    return cast("R", cast("greenlet.greenlet", current.parent).switch(awaitable))


def await_call(awaitable: Awaitable[R]) -> R:
    """Await what a function of the application has returned; its steps see the context variables that the function has seen.

    The task that awaits has its own context, which is another one if the function was called by `Context.run`.
    """
    current = _getcurrent()
    if isinstance(current, Carrier) and current.gr_context is not current.parent.gr_context:
        return await_in_bridge(_InContext(awaitable, current.gr_context.copy()))
    return await_in_bridge(awaitable)


class _InContext(Coroutine[Any, Any, R]):
    """An awaitable whose steps run in a context; the task is the one that awaits, so timeouts and cancellations work.

    :param awaitable: a coroutine, or another awaitable
    :param context: that no call has entered
    """

    def __init__(self, awaitable: Awaitable[R], context: Context) -> None:
        self._run = context.run
        self._steps: Any = awaitable if isinstance(awaitable, Coroutine) else context.run(awaitable.__await__)

    def __await__(self) -> Generator[Any, Any, R]:
        return cast("Generator[Any, Any, R]", self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Run the next step. As `send` of a coroutine."""
        if value is None and not hasattr(self._steps, "send"):  # a plain iterator, as futures written in C have
            return self._run(next, self._steps)
        return self._run(self._steps.send, value)

    def throw(self, *error: Any) -> Any:
        """Raise an error if the awaitable waits. As `throw` of a coroutine."""
        if not hasattr(self._steps, "throw"):
            raise error[0]
        return self._run(self._steps.throw, *error)

    def close(self) -> None:
        """End the awaitable. As `close` of a coroutine."""
        if hasattr(self._steps, "close"):
            self._run(self._steps.close)


def _drop(awaitable: object) -> None:
    """Close a coroutine that will not be awaited, which would warn otherwise."""
    if isinstance(awaitable, (types.CoroutineType, _InContext)):
        awaitable.close()


class BridgeLocal:
    """An object whose attributes are separate for each bridged call; those of all code outside of the bridge are one set."""

    def __init__(self) -> None:
        object.__setattr__(self, "_outside", {})

    def _values(self) -> dict[str, Any]:
        current = _getcurrent()
        if not isinstance(current, Carrier):
            outside: dict[str, Any] = object.__getattribute__(self, "_outside")
            return outside
        if current.values is None:
            current.values = {}
        return current.values.setdefault(self, {})

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values()[name] = value

    def __delattr__(self, name: str) -> None:
        if self._values().pop(name, self) is self:
            raise AttributeError(name)


class TaskLocal(BridgeLocal):
    """An object whose attributes are separate for each task, within the bridge or not; those outside of tasks are one set."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_tasks", WeakKeyDictionary())

    def _values(self) -> dict[str, Any]:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs in this thread
            task = None
        if task is None:
            return super()._values()
        tasks: WeakKeyDictionary[asyncio.Task[Any], dict[str, Any]] = object.__getattribute__(self, "_tasks")
        return tasks.setdefault(task, {})
