"""Functions that are called when the process ends, also in children of multiprocessing, which end without atexit."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from pykafka.handlers.base import abrupt_forker, process_number

log = logging.getLogger(__name__)

#: Before pools of processes (15) and queues (-5) of multiprocessing end: the functions may use them.
_PRIORITY = 20
_calls: list[Callable[[], object]] = []
#: The process in which multiprocessing knows the functions; 0 for none.
_known_in = 0
#: The process that was warned, or that leaves a `with` block of a client or producer before it ends; 0 for none.
_settled_in = 0
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


def _is_child() -> bool:
    process: Any = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _reach_child(_: _Anchor) -> None:
    global _known_in
    _known_in = 0  # a number may come again
    reach_end()


def _after_fork() -> None:
    if _calls:
        reach_end()


def _end(*_: object, **__: object) -> None:
    for fn in reversed(_calls):
        fn()


os.register_at_fork(after_in_child=_after_fork)
