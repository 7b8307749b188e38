"""Functions that are called when the process ends, also in children of multiprocessing, which end without atexit.

Other children end by `os._exit()` and call no function: `warn_of_loss` warns in those.
"""

from __future__ import annotations

import atexit
import dis
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from pykafka.handlers.base import process_number

log = logging.getLogger(__name__)

#: Before pools of processes (15) and queues (-5) of multiprocessing end: the functions may use them.
_PRIORITY = 20
_calls: list[Callable[[], object]] = []
#: The process in which multiprocessing knows the functions; 0 for none.
_known_in = 0
#: The process that was warned, or that leaves a `with` block of a client or producer before it ends; 0 for none.
_settled_in = 0
#: The frame of the function that forked this process and will end it by `os._exit()`; None if there is none.
_forker: FrameType | None = None
#: Flags of the code of generators, coroutines and asynchronous generators.
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
#: Names of methods that deliver what is queued.
_DELIVERING = {"flush", "close", "stop"}
#: Instructions that never pass control to the one behind them.
_LEAVING = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "RETURN", "RAISE", "RERAISE")
#: Where an expression begins in its file: line and column.
_Place = tuple[int | None, int | None]
#: Whether multiprocessing runs `_reach_child` in its children.
_is_announced = False


class _Anchor:
    """An object for `register_after_fork`, which holds it weakly."""


_anchor = _Anchor()


def call_last(fn: Callable[[], object]) -> None:
    """Call `fn()` when this process ends, and when each process ends that it forks."""
    _calls.append(fn)
    atexit.register(fn)
    reach_end()


def reach_end() -> None:
    """Make sure that the functions are called in this process, whoever ends it; call this when there is something to end.

    Children of multiprocessing end by `os._exit()`, after the finalizers of multiprocessing. Celery's pool processes end so
    too, after the signal `worker_process_shutdown`. Neither module is imported here: a process that needs it has it.
    """
    global _known_in, _is_announced
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        if not _is_announced:  # a child forgets all finalizers when it begins, and calls this after that
            util.register_after_fork(_anchor, _reach_child)
            _is_announced = True
        if _is_child() and _known_in != process_number():
            util.Finalize(None, _end, exitpriority=_PRIORITY)
            _known_in = process_number()
    signals: Any = sys.modules.get("celery.signals")
    if signals is not None:
        signals.worker_process_shutdown.connect(_end, weak=False, dispatch_uid="pykafka")


def note_block() -> None:
    """Note that the application has entered a `with` block of a client or producer, whose end delivers what is queued."""
    global _settled_in
    _settled_in = process_number()


def warn_of_loss() -> None:
    """Log once a process that what it queues is lost at its end, if the function that forked it ends it by `os._exit()`."""
    global _settled_in
    forker = abrupt_forker()
    if forker is None or process_number() in (_known_in, _settled_in):
        return
    if forker.startswith("billiard.") and "celery.signals" in sys.modules:
        return
    _settled_in = process_number()
    log.warning(
        "process %d was forked by %s, which ends it by os._exit(): messages that are queued then are lost. Use `with client:` "
        "in this process, or call flush() or close() before it ends; docs/worker-pools.md shows how",
        process_number(),
        forker,
    )


def abrupt_forker() -> str | None:
    """Return the name of the function that forked this process, if it will end the process by `os._exit()`.

    :returns: "module:function"; None if no such function is running or its call of `os._exit()` is not ahead, as in the process
        of a daemon, or if that function, or one that runs now, has a call that may deliver what is queued
    """
    global _forker
    frame = _forker
    if frame is None:
        return None
    if not _is_running(frame):
        _forker = None
        return None
    if "_exit" not in _calls_ahead(frame):  # as after `if os.fork(): os._exit(0)`
        return None
    if any(_delivers(caller) for caller in _callers(frame)):
        return None
    return f"{frame.f_globals.get('__name__', '?')}:{frame.f_code.co_qualname}"


def _is_running(frame: FrameType) -> bool:
    """Return whether a function has not returned, in whatever thread or greenlet; True of coroutines and generators."""
    if frame.f_code.co_flags & _SUSPENDS:  # clear() would close one that is suspended
        return True
    try:
        frame.clear()
    except RuntimeError:
        return True
    return False


def _delivers(caller: FrameType) -> bool:
    """Return whether a function has a call that may deliver what is queued, or waits for a delivery later: `delivery.get()`."""
    names = caller.f_code.co_names
    return not _DELIVERING.isdisjoint(names) or ("get" in names and "get" in _calls_ahead(caller))


def _callers(last: FrameType) -> Iterator[FrameType]:
    """Yield a frame, and those of all threads that are not the package's, in each thread up to that frame."""
    from pykafka.handlers.whereabouts import frames_of_threads  # most programs come here once, or never

    yield last
    for top in frames_of_threads().values():
        frame: FrameType | None = top
        while frame is not None and frame is not last:
            if not frame.f_globals.get("__name__", "").startswith("pykafka."):
                yield frame
            frame = frame.f_back


def _calls_ahead(frame: FrameType) -> set[str]:
    """Return the names whose calls the function reaches from where it is, if nothing raises an exception.

    In `os._exit(main())`, while `main()` runs, the name has been loaded already and the call is still to come; so what
    counts is the call, which begins at the same place in the file as its name.
    """
    steps = list(dis.get_instructions(frame.f_code))
    here = max((index for index, step in enumerate(steps) if step.offset <= frame.f_lasti), default=-1)
    names: dict[_Place, list[tuple[int, str]]] = {}
    for index, step in enumerate(steps):
        if step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST" and isinstance(step.argval, str):
            names.setdefault(_place(step), []).append((index, step.argval))
    found: set[str] = set()
    for index in _reachable(steps, here + 1):
        if index > here and steps[index].opname.startswith("CALL"):
            found.update(name for loaded, name in names.get(_place(steps[index]), ()) if loaded < index)
    return found


def _place(step: dis.Instruction) -> _Place:
    place = step.positions
    return (None, None) if place is None else (place.lineno, place.col_offset)


def _reachable(steps: list[dis.Instruction], first: int) -> Iterator[int]:
    """Yield the indices of the instructions that may be executed from one on; handlers of exceptions are not among them."""
    by_offset = {step.offset: index for index, step in enumerate(steps)}
    seen: set[int] = set()
    todo = [first]
    while todo:
        index = todo.pop()
        if index in seen or index >= len(steps):
            continue
        seen.add(index)
        yield index
        step = steps[index]
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            todo.append(by_offset.get(step.argval, len(steps)))
        if not step.opname.startswith(_LEAVING):
            todo.append(index + 1)


def _is_child() -> bool:
    process: Any = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _reach_child(_: _Anchor) -> None:
    global _known_in
    _known_in = 0  # a number may come again
    reach_end()


def _after_fork() -> None:
    global _forker
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        names = frame.f_code.co_names
        if "_exit" in names and any(name.endswith("fork") for name in names):
            break
        frame = frame.f_back
    _forker = frame
    if _calls:
        reach_end()


def _end(*_: object, **__: object) -> None:
    for fn in reversed(_calls):
        fn()


os.register_at_fork(after_in_child=_after_fork)
