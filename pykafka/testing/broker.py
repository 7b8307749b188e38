"""`Broker`: one broker of a fake cluster: a port, and the connections that clients have to it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka.exceptions import WorkerNotStartedError
from pykafka.testing.connection import Connection

if TYPE_CHECKING:
    from pykafka.handlers.base import Listener, Stream, Worker
    from pykafka.testing.faults import Faults
    from pykafka.testing.state import ClusterState, Node

log = logging.getLogger(__name__)

#: How long a worker waits at most for the next connection (s), before it waits again.
_ACCEPT_S = 3600.0
#: How long workers may take to end (s): they wait for nothing by then.
_JOIN_S = 10.0
#: How many workers a broker keeps at least before it looks for those that have ended.
_WORKERS_MIN = 16


class Broker:
    """One broker. Its methods are called by the holder of the state's lock, unless they say otherwise.

    :param state: of the cluster
    :param faults: what goes wrong
    :param node: what it is, to others
    """

    def __init__(self, state: ClusterState, faults: Faults, node: Node) -> None:
        self.state = state
        self.faults = faults
        self.node = node
        # In the order in which they came: a set would have another one in each run of a simulation.
        self.connections: dict[Connection, None] = {}
        self._listener: Listener | None = None
        self._workers: list[Worker] = []
        # How many there are before those that have ended are left out.
        self._workers_max = _WORKERS_MIN

    def __repr__(self) -> str:
        return f"<Broker {self.node}>"

    def start(self) -> None:
        """Listen, at the port of the time before if there was one.

        :raises OSError: that port is in use
        """
        if self._listener is not None:
            return
        node, handler = self.node, self.state.handler
        try:
            self._listener = listener = handler.listen(handler.resolve(node.bind, node.port)[0])
        except OSError as error:
            place = f"broker {node.node_id} cannot listen at {node.bind}:{node.port}"
            raise OSError(error.errno, f"{place}: {error.strerror or error}") from error
        node.port = listener.address.sockaddr[1]
        node.epoch += 1
        node.is_listening = True
        self._spawn(self._accept, listener)

    def _spawn(self, target: Callable[..., object], *arguments: object) -> None:
        if len(self._workers) >= self._workers_max:
            self._workers = [worker for worker in self._workers if worker.is_alive()]
            self._workers_max = max(_WORKERS_MIN, 2 * len(self._workers))
        name = f"pykafka-fake-broker-{self.node.node_id}"
        self._workers.append(self.state.handler.spawn(target, *arguments, name=name))

    def stop(self) -> None:
        """Close the port and all connections; the caller may join the workers after it has released the lock.

        The others do not notice: `node.is_up` stays as it is.
        """
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        self.node.is_listening = False
        self.cut()

    def cut(self) -> None:
        """Close all connections."""
        for connection in self.connections:
            connection.close()

    def forget(self) -> None:
        """Close this process's descriptors of port and connections, in a forked child: the parent goes on with them."""
        for closable in (self._listener, *(connection.stream for connection in self.connections)):
            if closable is not None:
                closable.close()

    def join(self) -> None:
        """Wait until the workers of a stopped broker have ended; the caller does not hold the lock."""
        for worker in list(self._workers):
            try:
                worker.join(_JOIN_S)
            except RuntimeError:
                continue  # the caller itself: a test's function, called for a request, closes the cluster
        self._workers.clear()

    def _accept(self, listener: Listener) -> None:
        while True:
            try:
                stream = listener.accept(_ACCEPT_S)
            except TimeoutError:
                continue
            except OSError as error:
                log.debug("%r accepts no more: %s", self, error)
                return
            self._take(listener, stream)

    def _take(self, listener: Listener, stream: Stream) -> None:
        with self.state.lock:
            if self._listener is not listener:
                stream.close()
                return
            connection = Connection(self.state, self.faults, self.node, stream, self._spawn)
            try:
                self._spawn(self._serve, connection)
            except WorkerNotStartedError as error:  # the client may come again when the system starts threads again
                log.warning("%r hangs up on a client: %s", self, error)
                stream.close()
                return
            self.connections[connection] = None

    def _serve(self, connection: Connection) -> None:
        try:
            connection.serve()
        finally:
            with self.state.lock:
                self.connections.pop(connection, None)
