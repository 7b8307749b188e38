"""`BufferPool`: a budget in bytes of the messages that are not acknowledged yet; of a producer, or of all of a client's."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType


try:
    import cython
except ImportError:
    from pykafka.compiled import cython


#: The limit of a budget without one (bytes).
NO_LIMIT = 2**62


class Spender(Protocol):
    """A producer, as its budget knows it."""

    def hurry(self) -> None: ...


class BufferPool:
    """A budget in bytes, counted as messages are written into batches and as batches are completed.

    State: compiled, `take` and `give` are atomic; the pure source takes a lock of its own.

    :param handler: supplies the lock
    :param limit: what messages may take together (bytes)
    :param shared: the budget of the client above this one; None for none
    """

    def __init__(self, handler: Handler, limit: int = NO_LIMIT, shared: BufferPool | None = None) -> None:
        self._handler = handler
        self.limit = limit
        self.used = 0
        self.shared = shared
        #: The events of callers that wait for room; they are set when some is given back.
        self.waiting: dict[int, EventType] = {}
        self._lock = handler.Lock()
        self._spenders: weakref.WeakKeyDictionary[Spender, None] = weakref.WeakKeyDictionary()  # in their order

    @property
    def room(self) -> int:
        """The bytes that another message may take now."""
        left: int = self.limit - self.used
        if self.shared is not None:
            left = min(left, self.shared.limit - self.shared.used)
        return max(left, 0)

    @property
    def short(self) -> bool:
        """Whether a caller waits for room: batches do not linger meanwhile."""
        return bool(self.waiting) or (self.shared is not None and bool(self.shared.waiting))

    @property
    def most(self) -> int:
        """The bytes that a single message may take."""
        return self.limit if self.shared is None else min(self.limit, self.shared.limit)

    def take(self, nbytes: int) -> None:
        """Count a message, here and in the budget above; compiled, `append` does this itself."""
        with self._lock:
            self.used += nbytes
        if self.shared is not None:
            self.shared.take(nbytes)

    def give(self, nbytes: int) -> None:
        """Count the messages of a completed batch no more, and wake callers that wait for room."""
        if cython.compiled:
            self.used -= nbytes
        else:
            with self._lock:
                self.used -= nbytes
        if self.waiting:
            for event in list(self.waiting.values()):
                event.set()
        if self.shared is not None:
            self.shared.give(nbytes)

    def join(self, spender: Spender) -> None:
        """Wake a producer, as callers wait for room."""
        self._spenders[spender] = None

    def after_fork(self) -> None:
        """Begin again in a forked child, whose producers have sent nothing."""
        self._lock = self._handler.Lock()
        self.used = 0
        self.waiting = {}

    def hurry(self) -> None:
        """Ask all producers under this budget, and under the one above, to send what lingers."""
        for spender in list(self._spenders):
            spender.hurry()
        if self.shared is not None:
            self.shared.hurry()

    def wait(self, event: EventType, seconds: float) -> None:
        """Wait for room, so long at most; what lingers is sent meanwhile.

        :param event: of the waiting caller alone
        """
        for buffer_pool in (self, self.shared):
            if buffer_pool is not None:
                buffer_pool.waiting[id(event)] = event
        try:
            self.hurry()
            event.wait(seconds)
            event.clear()
        finally:
            for buffer_pool in (self, self.shared):
                if buffer_pool is not None:
                    buffer_pool.waiting.pop(id(event), None)


@dataclass(frozen=True)
class Bounds:
    """The limit of bytes that wait.

    :param messages: from this many on it is too much
    :param bytes: or from this many bytes on
    """

    messages: int
    bytes: int

    def reached(self, messages: float, nbytes: float) -> bool:
        """Return whether so much is too much."""
        return messages >= self.messages or nbytes >= self.bytes
