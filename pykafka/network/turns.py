"""`ReadTurn`: which worker reads a connection, its reader or one that waits for an answer. `WriteTurn`: which worker writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pykafka.exceptions import ResponseTimeoutError, SocketDisconnectedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykafka.exceptions import KafkaException
    from pykafka.handlers.base import Handler

#: After a helper, the reader leaves the connection to the next one for this long (s), then reads itself.
GRACE_S = 0.1
#: The same after a helper that reads nearly all answers of the connection (s).
LASTING_GRACE_S = 5.0
#: How often the reader checks the connection while a helper reads (s).
READ_POLL_INTERVAL_S = 1.0
#: A worker that took the turn to write and still has not begun after this time was interrupted (s). One of a thousand threads
#: may have to wait for the interpreter that long before it goes on.
LOST_TURN_S = 10.0


class Awaited(Protocol):
    """The requests in flight on a connection. `InFlightRequests`, which imports this module, documents each member."""

    @property
    def error(self) -> KafkaException | None: ...
    def is_overdue(self, now: float, /) -> bool: ...
    def __len__(self) -> int: ...


class ReadTurn:
    """The turn to read a connection.

    Waking a worker costs more than reading its answer, so a worker that waits for each answer reads it itself. Such a helper
    takes the turn where it is free. After each helper the reader leaves the turn free for a moment, unless answers are due
    that no helper waits for.

    State: the worker that holds `_lock` reads. `_helping`, `_yielding` and `_wanted` are single stores. A helper that leaves
    checks afterwards which requests are pending; a sender checks the flags after its request is pending; so one of the two
    wakes the reader.

    :param handler: supplies lock and event
    :param requests: what is pending
    """

    def __init__(self, handler: Handler, requests: Awaited) -> None:
        self._lock = handler.Lock()
        #: Return the reader's turn.
        self.release: Callable[[], object] = self._lock.release
        self._resume = handler.Event()
        self._requests = requests
        self._now = handler.now
        self._helping = False
        self._yielding = False
        self._wanted = False
        self._grace_s = GRACE_S

    def help(self, lasting: bool = False) -> bool:
        """Take the turn for a helper, if it is free; `leave` returns it.

        :param lasting: whether the helper reads nearly all answers of the connection
        """
        self._wanted = True
        self._grace_s = LASTING_GRACE_S if lasting else GRACE_S
        if not self._lock.acquire(blocking=False):
            return False
        self._helping = True
        return True

    def leave(self) -> None:
        """Return a helper's turn, and wake the reader where answers are due."""
        self._helping = False
        self._lock.release()
        self.answer_due()

    def answer_due(self) -> None:
        """Wake the reader, if it has left reading to helpers and no helper reads."""
        if self._yielding and not self._helping and len(self._requests):
            self._resume.set()

    def end(self) -> None:
        """Wake the reader after the end of the connection."""
        self._resume.set()

    def take(self) -> bool:
        """Take the turn for the reader, after helpers; return False if the connection has ended meanwhile.

        :raises SocketDisconnectedError: a request is overdue because Ctrl-C has interrupted the worker that was reading
        """
        while (self._wanted or self._helping) and self._left_alone():
            self._wanted = False
            self._yielding = True
            if self._left_alone():  # checked again, as senders see `_yielding` only from now on
                self._resume.wait(self._grace_s)
            self._yielding = False
            if self._resume.is_set():
                self._resume.clear()
                break
        while self._requests.error is None:
            if self._lock.acquire(timeout=READ_POLL_INTERVAL_S):
                return True
            if self._requests.is_overdue(self._now() - READ_POLL_INTERVAL_S):
                raise SocketDisconnectedError(
                    "this client gave the connection up: the worker that was reading it was interrupted"
                )
        return False

    def _left_alone(self) -> bool:
        """Return whether the reader has nothing to do: a helper reads that was not interrupted, or no answer is due."""
        if self._requests.error is not None:
            return False
        if not self._helping:
            return not len(self._requests)
        return not self._requests.is_overdue(self._now() - READ_POLL_INTERVAL_S)


class WriteTurn:
    """The turn to write to a connection: frames do not mix, and are in the order of the table of requests.

        turn.take(deadline)
        try:
            turn.begin()
            ...
        finally:
            turn.is_written = False
            turn.leave()

    The last two steps are C, so that Ctrl-C comes before both or behind both. At the entry of a method, it would keep the turn.

    :param handler: supplies lock and clock
    :param address: of the peer, for errors
    :param end: ends the connection, where the turn got lost
    """

    def __init__(self, handler: Handler, address: str, end: Callable[[KafkaException], object]) -> None:
        self._handler = handler
        self._address = address
        self._end = end
        self._lock = handler.Lock()
        #: Return the turn.
        self.leave: Callable[[], object] = self._lock.release
        #: Whether the worker that took the turn has begun.
        self.is_written = False
        # How many workers have begun.
        self._writers = 0
        # What `_writers` was when a worker that waits found the turn taken by one that had not begun, and since when (s).
        self._unbegun: tuple[int, float] | None = None

    def take(self, deadline: float) -> None:
        """Take the turn.

        On threads Ctrl-C may interrupt a worker between taking the lock and the code that releases it. No worker could ever
        write again, so one that waits ends the connection after a while.

        :raises KafkaException: other workers were writing until the deadline, or one was interrupted
        """
        if self._lock.acquire(blocking=False):
            self._unbegun = None
            return
        now = self._handler.now
        while not self._lock.acquire(timeout=min(max(deadline - now(), 0.0), READ_POLL_INTERVAL_S)):
            self._end_if_lost(now())
            if now() >= deadline:
                raise ResponseTimeoutError(
                    "other workers wrote requests until the deadline; the broker reads too slowly", broker=self._address
                )
        self._unbegun = None

    def _end_if_lost(self, now: float) -> None:
        if self.is_written:
            return
        unbegun = self._unbegun
        if unbegun is None or unbegun[0] != self._writers:
            self._unbegun = self._writers, now
        elif now - unbegun[1] >= LOST_TURN_S:
            error = SocketDisconnectedError(
                "a worker was interrupted before it wrote its request", broker=self._address
            )
            self._end(error)
            raise error.again()

    def begin(self) -> None:
        """Note that the worker that took the turn has begun."""
        self._writers += 1
        self.is_written = True
