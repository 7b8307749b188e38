"""`guard`: a destructor that executes no Python code when its object is freed after a proper close."""

from __future__ import annotations

from collections.abc import Callable, Generator


def guard(release: Callable[[], object]) -> Generator[None]:
    """Return a generator that calls `release()` once: when somebody closes it, or when it is freed unclosed.

    Python would call a `__del__` whenever an object is freed, and discards every exception raised there. That includes the
    KeyboardInterrupt of a Ctrl-C: a signal that comes during a garbage collection is handled by the next Python code that
    runs, which would be the `__del__`. Freeing a generator that has ended executes no Python code.

    :param release: may run at any place, so it must take no lock and wait for nothing
    """
    waiting = _wait(release)
    next(waiting)
    return waiting


def _wait(release: Callable[[], object]) -> Generator[None]:
    try:
        yield
    finally:
        release()
