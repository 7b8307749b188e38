"""The `with` block of a lock, which CPython 3.14 lets Ctrl-C come before with the lock taken.

3.14 looks for signals as the C function `__enter__` returns, and only then enters the block that calls `__exit__`: an
exception that a signal's handler raises there would keep the lock for ever. No other release looks between the two, so only
handlers on 3.14 (`base.GAP_BEFORE_WITH`) load this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka.handlers.base import LockType, RLockType

_ONCE = (True,)


def enter(acquire: Callable[[bool], bool], release: Callable[[], object]) -> bool:
    """Take a lock, or leave it free if this is interrupted.

    Taking it and noting that is one step for Python: `extend` and `map` are C, which looks for no signals in between.

    :param acquire: takes it; a function of C
    """
    taken: list[bool] = []
    try:
        taken.extend(map(acquire, _ONCE))
    except BaseException:
        if taken:
            release()
        raise
    return True


class GuardedRLock:
    """A re-entrant lock of the operating system whose `with` block no interrupt can miss.

    Only `__enter__` executes Python code, which the interpreter runs without a look for signals at its end. All else is the
    lock's own methods, `__exit__` included: Python code there could be interrupted before it has released the lock.

    :param lock: of `_thread`
    """

    __slots__ = ("__exit__", "__weakref__", "acquire", "release")

    def __init__(self, lock: RLockType) -> None:
        self.acquire: Any = lock.acquire
        self.release: Any = lock.release
        self.__exit__: Any = lock.__exit__

    def __enter__(self) -> bool:
        """Take the lock."""
        return enter(self.acquire, self.release)


class GuardedLock(GuardedRLock):
    """A lock that is not re-entrant. As `GuardedRLock`."""

    __slots__ = ("locked",)

    def __init__(self, lock: LockType) -> None:
        super().__init__(lock)
        self.locked: Any = lock.locked
