"""`Ending`: final steps that run to their end once they have begun, whatever interrupts the worker that waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Worker


class Ending:
    """The final steps of something, such as signing off at a server.

    A greenlet's timeout or Ctrl-C may come at any wait, and half of these steps would be worse than none: the server would
    keep a client that is gone, or a connection would stay open for ever. So a worker of its own takes the steps, and the caller
    waits for that worker.

    :param handler: starts the worker
    :param name: the worker's name
    """

    def __init__(self, handler: Handler, name: str) -> None:
        self._handler = handler
        self._name = name
        self._worker: Worker | None = None

    def take(self, steps: Callable[[], object], timeout: float | None = None) -> None:
        """Take steps, after those that are under way, and wait for their end; raise the exception that they raise.

        :param steps: takes them
        :param timeout: how long to wait (s); None for as long as they take
        """
        try:
            worker = self._worker = self._handler.spawn(_take, self._worker, steps, name=self._name)
        except RuntimeError:  # the system starts no thread, as at the end of the interpreter
            _take(self._worker, steps)
            return
        if self.wait(timeout) and worker.error is not None:
            raise worker.error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the steps that are under way; return whether they have ended.

        :param timeout: how long (s); None for as long as they take
        """
        worker = self._worker
        return worker is None or worker.join(timeout)


def _take(former: Worker | None, steps: Callable[[], object]) -> None:
    if former is not None:
        former.join()
    steps()
