"""`Ending`: what is seen through once it has begun, whatever ends those who wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Worker


class Ending:
    """The last steps of something, such as leaving a group.

    A greenlet's timeout or Ctrl-C may come at any wait, and half of these steps would be worse than none: somebody is struck
    off nowhere, or a connection is kept up for ever. So a worker of its own takes them, and whoever wants them waits for it.

    :param handler: whose worker it is
    :param name: of the worker
    """

    def __init__(self, handler: Handler, name: str) -> None:
        self._handler = handler
        self._name = name
        self._worker: Worker | None = None

    def take(self, steps: Callable[[], object], timeout: float | None = None) -> None:
        """Have steps taken, after those that are under way, and wait for them; raises what they raise.

        :param timeout: how long to wait (s); None for as long as they take
        """
        try:
            worker = self._worker = self._handler.spawn(_take, self._worker, steps, name=self._name)
        except RuntimeError:  # no thread can be started, as at the interpreter's end
            _take(self._worker, steps)
            return
        if self.wait(timeout) and worker.error is not None:
            raise worker.error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the steps that are under way; return whether none are left.

        :param timeout: how long (s); None for as long as they take
        """
        worker = self._worker
        return worker is None or worker.join(timeout)


def _take(former: Worker | None, steps: Callable[[], object]) -> None:
    if former is not None:
        former.join()
    steps()
