"""ReadingTurn: who reads the answers of a connection, its own reader or a worker that waits for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pykafka.exceptions import SocketDisconnectedError

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers.base import Handler

#: How long the reader leaves the connection to helpers after the last one (s); then it watches it itself.
GRACE_S = 0.1
#: How often the reader looks up while a helper reads (s).
LOOK_UP_S = 1.0


class Awaited(Protocol):
    """The requests of a connection whose answers are awaited; `PendingRequests` says what each member does."""

    @property
    def error(self) -> KafkaException | None: ...
    def next_deadline(self) -> float | None: ...
    def __len__(self) -> int: ...


class ReadingTurn:
    """The turn to read a connection.

    Waking a worker to tell it of its answer costs more than reading the answer, so that a worker that waits for each
    answer had better read it itself. Such helpers take the turn where it is free; the reader leaves it free for a moment
    after each helper, unless there are answers due that no helper waits for.

    State: who holds `_lock` reads. `_helping`, `_yielding` and `_wanted` are single stores; whoever leaves looks at what
    is pending afterwards, and whoever sends looks at them after its request is pending, so that one of the two sees it.

    :param handler: supplies lock and event
    :param requests: what is pending
    """

    def __init__(self, handler: Handler, requests: Awaited) -> None:
        self._lock = handler.Lock()
        self._resume = handler.Event()
        self._requests = requests
        self._now = handler.now
        self._helping = False
        self._yielding = False
        self._wanted = False

    def help(self) -> bool:
        """Take the turn for a helper, where it is free; `leave` gives it back."""
        self._wanted = True
        if not self._lock.acquire(blocking=False):
            return False
        self._helping = True
        return True

    def leave(self) -> None:
        """Give a helper's turn back, to the reader where answers are due."""
        self._helping = False
        self._lock.release()
        self.answer_due()

    def answer_due(self) -> None:
        """Have the reader read, where it has left that to helpers and none is there."""
        if self._yielding and not self._helping and len(self._requests):
            self._resume.set()

    def end(self) -> None:
        """Wake the reader, since the connection has ended."""
        self._resume.set()

    def take(self) -> bool:
        """Take the turn for the reader, after helpers; False where the connection has ended meanwhile.

        :raises SocketDisconnectedError: helpers see to deadlines, and one has passed: Ctrl-C has come when one had just
            taken the turn
        """
        while self._wanted and self._left_alone():
            self._wanted = False
            self._yielding = True
            if self._left_alone():  # still, now that whoever sends sees that the reader yields
                self._resume.wait(GRACE_S)
            self._yielding = False
            if self._resume.is_set():
                self._resume.clear()
                break
        while not self._lock.acquire(timeout=LOOK_UP_S):
            if self._requests.error is not None:
                return False
            deadline = self._requests.next_deadline()
            if deadline is not None and self._now() > deadline + LOOK_UP_S:
                raise SocketDisconnectedError(
                    "the connection was given up: a worker that was to read it was interrupted"
                )
        return True

    def _left_alone(self) -> bool:
        """Return whether nothing is for the reader to read: a helper does, or no answer is due."""
        return self._requests.error is None and (self._helping or not len(self._requests))

    def release(self) -> None:
        """Give the reader's turn back."""
        self._lock.release()
