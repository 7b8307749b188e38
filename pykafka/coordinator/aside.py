"""`JoinAside`: a worker that joins and syncs for a cooperative member, while the application goes on with its share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Worker


class JoinAside:
    """One attempt to take part in a rebalance, by a worker of its own, until the member has its share or is out.

    From `start` until `done`, the membership belongs to that worker.

    :param handler: supplies the worker
    :param join: called with this object; ends soon after `given_up` is set
    :param ended: called on that worker at its end
    :param name: of the worker
    """

    def __init__(
        self, handler: Handler, join: Callable[[JoinAside], None], ended: Callable[[], object], name: str
    ) -> None:
        self._handler = handler
        self._join = join
        self._tell = ended
        self._name = name
        self._ended = handler.Event()
        self._worker: Worker | None = None
        #: Set by the member that leaves, or could not start the worker.
        self.given_up = False
        #: What has ended it, but for the member's share.
        self.error: Exception | None = None

    def start(self) -> None:
        """Start the worker.

        :raises RuntimeError: the system cannot start a thread at present
        """
        try:
            self._worker = self._handler.spawn(self._run, name=self._name)
        except BaseException:
            self.given_up = True
            raise

    @property
    def done(self) -> bool:
        """Whether the worker has ended."""
        return self._ended.is_set() or (self.given_up and self._worker is None)

    def wait(self, seconds: float) -> bool:
        """Wait until the worker has ended; return False if the time (s) is up before."""
        return self.done or self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            if not self.given_up:
                self._join(self)
        except Exception as error:  # noqa: BLE001 - `serve` raises it in a call of the application
            self.error = error
        finally:
            self._ended.set()
            self._tell()
