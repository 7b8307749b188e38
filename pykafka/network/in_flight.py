"""`ResponseFuture`: the answer to a request that is on its way."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykafka.exceptions import KafkaException, ResponseTimeoutError, SocketDisconnectedError
from pykafka.handlers.base import process_number
from pykafka.network.turns import ReadingTurn

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler


E = TypeVar("E", bound=KafkaException)

#: Why a connection was retired.
IDLE = (
    "this client closed the connection, which was not used for connections_max_idle_ms; the next request makes another"
)
#: Correlation ids are signed 32-bit numbers on the wire.
ID_MAX = 2**31 - 1


def fresh(error: E) -> E:
    """Return a copy of an error to raise: several workers would add their tracebacks to a shared one."""
    copied = error.again()
    copied.args = error.args  # OSError, the base of our timeouts, leaves them out of a copy
    return copied


class ResponseFuture:
    """A result that one worker waits for and another one sets, once.

    State: `response` and `error` are written before `_event` is set and never after. Exactly one worker takes each callback
    off the queue, so there is no lock.

    :param handler: supplies the event
    """

    __slots__ = ("__weakref__", "_callbacks", "_event", "_handler", "due", "error", "response", "unsent")

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._event = handler.Event()
        self._callbacks: deque[Callable[[ResponseFuture], object]] = deque()
        #: The argument of `set_response`.
        self.response: Any = None
        #: The argument of `set_error`.
        self.error: BaseException | None = None
        #: The response is overdue at this time of the handler's clock (s); throttling puts it off. None: never.
        self.due: float | None = None
        #: Whether the request met a connection that had ended with nothing in flight, so that it was not sent.
        self.unsent = False

    @property
    def done(self) -> bool:
        """Whether the response or an error is there."""
        return self._event.is_set()

    def set_response(self, response: Any) -> None:
        """Set the response and run the callbacks; a future that is done only runs those that were interrupted."""
        if not self._event.is_set():
            self.response = response
            self._event.set()
        self._call_back()

    def set_error(self, error: BaseException) -> None:
        """Set the exception that `get` raises; otherwise as `set_response`."""
        if not self._event.is_set():
            self.error = error
            self._event.set()
        self._call_back()

    def _call_back(self) -> None:
        while True:
            try:
                fn = self._callbacks.popleft()
            except IndexError:
                return
            try:
                fn(self)
            except Exception as error:  # noqa: BLE001 - it must not end the reader, which all other answers depend on
                self._handler.report(f"callback {fn!r}", error)
            except BaseException:  # the timeout of a worker that reads for itself, or Ctrl-C
                self._callbacks.appendleft(fn)
                raise

    def add_done_callback(self, fn: Callable[[ResponseFuture], object]) -> None:
        """Register `fn(future)`: the worker that completes the future calls it; this one does if the future is done already.

        That worker is usually the connection's reader, so `fn` must not wait for another answer. The handler logs its
        exceptions.
        """
        self._callbacks.append(fn)
        if self._event.is_set():
            self._call_back()

    def wait(self, timeout: float) -> bool:
        """Wait until the response or an error is there; return False if the time (s) is up before."""
        return self._event.wait(timeout)

    def is_over(self, early: float = 0.0) -> bool:
        """Return whether the response or an error is there, or `get_when_due` would give up."""
        due = self.due
        return self._event.is_set() or (due is not None and self._handler.now() >= due - early)

    def get_when_due(self, early: float = 0.0) -> Any:
        """Wait for the response until it is overdue, also where throttling puts that off, and return it.

        :param early: how long before that to give up (s)
        :raises ResponseTimeoutError: it is overdue, or nearly
        """
        while True:
            due = self.due
            if self._event.wait(None if due is None else max(due - early - self._handler.now(), 0.0)):
                return self.get()
            if due == self.due:
                raise ResponseTimeoutError("no answer in time; the broker may be overloaded, or the timeout too short")

    def get(self, response_cls: Callable[..., Any] | None = None, timeout: float | None = None, **kwargs: Any) -> Any:
        """Wait for the response and return it.

        :param response_cls: called with the response and `kwargs`, and its result returned; None returns the response itself
        :param timeout: how long to wait (s); None until the request's own deadline
        :raises ResponseTimeoutError: no answer came in time; the request itself goes on
        """
        if not self._event.wait(timeout):
            raise ResponseTimeoutError(
                f"no answer within {timeout:.3g} s; the broker may be overloaded, or the timeout too short"
            )
        error = self.error
        if error is not None:
            raise fresh(error) if isinstance(error, KafkaException) else error
        return self.response if response_cls is None else response_cls(self.response, **kwargs)


class Task(NamedTuple):
    """A request and the future of its answer."""

    request: Any
    future: ResponseFuture


class Pending(NamedTuple):
    """One request that waits for its answer; `deadline` and `latest` are on the handler's clock (s).

    `timeout` is how long the peer may be silent (s). Throttling puts the deadline off, but not beyond `latest`.
    """

    request: Task
    future: ResponseFuture
    deadline: float
    timeout: float = 0.0
    latest: float = math.inf


class Throttle(NamedTuple):
    """The throttling that an answer announces.

    :param seconds: its duration
    :param over: True: the peer has waited that long before it answered; False: it reads nothing for that long from now on
    """

    seconds: float
    over: bool


class PendingRequests:
    """The table that a connection's writers and its reader share.

    State: changes under `_lock`, which no worker holds while it waits or completes a future. Once `error` is set it stays, and
    the table takes no more requests.

    :param handler: supplies lock, event, clock and fork hook
    :param max_idle_s: a connection that was not used for so long is retired; 0 for never
    """

    def __init__(self, handler: Handler, max_idle_s: float = 0.0) -> None:
        self._now = handler.now
        self.max_idle_s = max_idle_s
        self._lock = handler.Lock()
        self._tasks: dict[int, Pending] = {}  # in the order in which they were sent
        self._left_over: deque[memoryview] = deque()  # for the worker that has the turn to read
        self._last_id = 0
        self._drained = handler.Event()
        self._closing = False
        self._pid = process_number()
        #: Decides which worker reads the answers.
        self.turn = ReadingTurn(handler, self)
        #: The reason why no answer can come any more; None while answers can.
        self.error: KafkaException | None = None
        #: Whether the peer has answered a request.
        self.proven = False
        #: Whether this client has ended the connection, since a worker was interrupted while it wrote.
        self.interrupted = False
        #: Whether the connection has ended, or is retired, with nothing in flight.
        self.ended_unused = False
        #: Since when there is the connection, and when a request or an answer used it last (on the handler's clock, s).
        self.since = self.used_at = self._now()
        #: The peer, which throttles this client, reads nothing from this connection until then (on the handler's clock, s).
        self.muted_until = 0.0
        #: By how much throttling delayed the peer's last answer (s).
        self.late = 0.0

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child's copy, whose connection is the parent's."""
        return self._pid != process_number()

    def next_id(self) -> int:
        """Return the number of the next request."""
        with self._lock:
            self._last_id = self._last_id + 1 if self._last_id < ID_MAX else 1
            return self._last_id

    def add(self, correlation_id: int, task: Pending) -> None:
        """Add a request that its worker is about to send.

        :raises KafkaException: the connection has ended or is closing
        """
        with self._lock:
            self._check()
            self._tasks[correlation_id] = task
            self.used_at = self._now()

    def add_first(self, correlation_id: int, task: Pending) -> None:
        """Add a request that goes before all others, none of which has been sent; also while the connection is closing.

        :raises KafkaException: the connection has ended
        """
        with self._lock:
            if self.error is not None:
                raise fresh(self.error)
            self._tasks = {correlation_id: task, **self._tasks}

    def check(self) -> None:
        """Raise the error that ended the connection, where it has ended."""
        with self._lock:
            self._check()
            self.used_at = self._now()

    def _check(self) -> None:
        if self.error is not None:
            raise fresh(self.error)
        if self.ended_unused:
            raise SocketDisconnectedError(IDLE)
        if self._closing:
            raise SocketDisconnectedError("this client is closing the connection and sends nothing more on it")

    def peek(self, correlation_id: int) -> Pending | None:
        """Return the request that an answer belongs to; None where there is none."""
        return self._tasks.get(correlation_id)

    def oldest(self) -> int | None:
        """Return the number of the request that is answered next; None where there is none."""
        with self._lock:
            return next(iter(self._tasks), None)

    def take(self, correlation_id: int) -> Pending | None:
        """Remove and return the request that an answer belongs to; None where there is none."""
        with self._lock:
            task = self._tasks.pop(correlation_id, None)
            self.used_at = self._now()
            if self._closing and not self._tasks:
                self._drained.set()
        return task

    def put_back(self, correlation_id: int, task: Pending, frame: memoryview) -> bool:
        """Keep an answer whose delivery was interrupted for the next reader; return False where the connection has ended."""
        with self._lock:
            if self.error is not None:
                return False
            self._tasks = {correlation_id: task, **self._tasks}  # it is the oldest
            self._left_over.append(frame)
        return True

    def left_over(self) -> memoryview | None:
        """Take an answer that was put back; None where there is none."""
        return self._left_over.popleft() if self._left_over else None

    def discard(self, correlation_id: int) -> None:
        """Remove a request that its worker did not send."""
        self.take(correlation_id)

    def throttled(self, throttle: Throttle | None, now: float) -> None:
        """Put the deadlines of later requests off by the throttling that an answer announces (None: it announces none)."""
        with self._lock:
            if throttle is None:
                self.late = 0.0
                return
            if throttle.over:
                self.late = throttle.seconds
            else:
                self.muted_until = max(self.muted_until, now + throttle.seconds)
            begin = max(self.muted_until, now) + self.late
            for number, task in self._tasks.items():
                deadline = min(max(task.deadline, begin + task.timeout), task.latest)
                self._tasks[number] = task._replace(deadline=deadline)
                task.future.due = deadline

    def about_throttling(self, now: float) -> str:
        """Return the sentence about throttling for an error about time; "" where the peer does not throttle."""
        if self.muted_until > now:
            return f"the broker throttles this client by a quota, for {(self.muted_until - now) * 1000:.0f} ms more"
        if self.late:
            return f"the broker throttles this client by a quota: its last answer was {self.late * 1000:.0f} ms late for it"
        return ""

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None where nothing is pending."""
        with self._lock:
            return min((task.deadline for task in self._tasks.values()), default=None)

    def silent_for(self) -> float:
        """Return for how long the oldest request has waited for its answer, throttling not counted (s); 0 where none does."""
        try:
            oldest = next(iter(self._tasks.values()), None)
        except RuntimeError:  # requests come and go just now: the peer answers
            return 0.0
        return 0.0 if oldest is None else max(0.0, self._now() - (oldest.deadline - oldest.timeout))

    def take_overdue(self, now: float) -> list[Pending]:
        """Remove and return the requests whose deadline has passed."""
        with self._lock:
            overdue = [number for number, task in self._tasks.items() if task.deadline <= now]
            return [self._tasks.pop(number) for number in overdue]

    def idle_for(self) -> float:
        """Return for how long the connection was not used (s); 0 while requests are in flight."""
        return 0.0 if self._tasks else self._now() - self.used_at

    def retire_if_idle(self) -> None:
        """Take no more requests if the connection was not used for `max_idle_s`.

        :raises SocketDisconnectedError: it is retired now; its reader ends it
        """
        with self._lock:
            if not self.max_idle_s or self._closing or self.idle_for() < self.max_idle_s:
                return
            self.ended_unused = True
        raise SocketDisconnectedError(IDLE)

    def drain(self, timeout: float) -> bool:
        """Refuse new requests, wait for the answers that are due, and return whether all came in time (s)."""
        with self._lock:
            self._closing = True
            if not self._tasks:
                return True
        return self._drained.wait(timeout)

    def end(self, error: KafkaException) -> list[Pending] | None:
        """Keep the first error that ends the connection and return the requests to be failed; None at later calls."""
        with self._lock:
            if self.error is not None:
                return None
            self.error = fresh(error)  # it lives as long as the connection: a traceback would keep frames alive
            left = list(self._tasks.values())
            self.ended_unused = not left
            self._tasks.clear()
            self._drained.set()
        return left
