"""guard: a destructor that costs no step of Python once it has been called."""

from __future__ import annotations

from collections.abc import Callable, Generator


def guard(release: Callable[[], object]) -> Generator[None]:
    """Have `release()` called by `close()` of what this returns, or when that is dropped without: once, in either case.

    A `__del__` runs at every object's end. What is raised in it is lost, the error of a signal's handler too, and a signal
    that comes during a garbage collection is handled in the first step of Python behind it. A generator that has ended is
    freed without one.

    :param release: must be fit for running anywhere: takes no lock, and waits for nobody
    """
    waiting = _wait(release)
    next(waiting)
    return waiting


def _wait(release: Callable[[], object]) -> Generator[None]:
    try:
        yield
    finally:
        release()
