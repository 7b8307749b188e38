"""`ResponseFuture`: the answer to a request that is on its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.exceptions import KafkaException, ResponseTimeoutError

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler


E = TypeVar("E", bound=KafkaException)


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
