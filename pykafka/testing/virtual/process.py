"""`VirtualProcess`: the handler of a client that may be killed, as a process of its own would be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka.handlers.base import Worker
from pykafka.testing.virtual.handler import Closable, VirtualHandler
from pykafka.testing.virtual.scheduler import VirtualWorker


class VirtualProcess(VirtualHandler):
    """A handler that knows the workers and streams that were made by it, and can end them all at once.

    :param parent: the handler of the simulation, whose scheduler, network and chance it shares
    :param name: of the process
    """

    def __init__(self, parent: VirtualHandler, name: str = "") -> None:
        super().__init__(parent._scheduler, parent._network)
        self.random = parent.random
        self.name_of_process = name
        self._workers: list[VirtualWorker] = []
        self._streams: list[Closable] = []

    def spawn(self, target: Callable[..., object], *args: Any, name: str | None = None, **kwargs: Any) -> Worker:
        """Start a worker of this process. As `Handler.spawn`."""
        worker = super().spawn(target, *args, name=name, **kwargs)
        assert isinstance(worker, VirtualWorker)
        self._workers.append(worker)
        return worker

    def _made(self, stream: Closable) -> None:
        self._streams.append(stream)

    def crash(self) -> None:
        """End the process: its workers get no further turn, not even to clean up, and its streams are closed.

        The caller is a worker of another handler: it must not use what it has made by this one any more.
        """
        for worker in self._workers:
            self._scheduler.freeze(worker)
        for stream in self._streams:
            stream.close()
        self._workers.clear()
        self._streams.clear()
