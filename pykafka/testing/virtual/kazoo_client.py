"""`FakeKazooClient`: stands for kazoo's client in virtual time, with the calls of it that PyKafka makes.

It pings, connects again, and reports states as kazoo does: PyKafka relies on when it does that (`groups/zookeeper/session.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, KazooException, SessionExpiredError
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent

from pykafka.handlers.base import KAZOO_RETRY_MAX_S, Handler
from pykafka.testing.virtual.zookeeper import EVENTS, LATENCY_S, TICK_S, Connection, Request, ZooKeeper

#: The pause before a client connects again (s), at first: it doubles each time up to `KAZOO_RETRY_MAX_S`, drawn from the seed.
RETRY_S = 0.1
#: kazoo pings so much before it has to, by chance (s).
JITTER_S = 0.4
#: How long `stop()` waits for the client's workers at least (s), as kazoo does.
STOP_S = 10.0
_CLOSED = (KeeperState.EXPIRED_SESSION, KeeperState.CLOSED)


class Result:
    """The answer to come of one request: what PyKafka uses of kazoo's AsyncResult."""

    def __init__(self, client: FakeKazooClient) -> None:
        self._client = client
        self._done = client.handler.Event()
        self._links: list[Callable[[Result], object]] = []
        self._value: Any = None
        self.exception: Exception | None = None

    def ready(self) -> bool:
        """Return whether there is an answer."""
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for an answer; return whether there is one (s)."""
        return self._done.wait(timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the answer, or raise it if it is an error."""
        if block:
            self._done.wait(timeout)
        if self.exception is not None:
            raise self.exception
        if not self.ready():
            raise TimeoutError
        return self._value

    def rawlink(self, callback: Callable[[Result], object]) -> None:
        """Call a function with this, by a worker of the client, when there is an answer."""
        if self.ready():
            self._client.call_back(partial(callback, self))
        else:
            self._links.append(callback)

    def end(self, answer: Any) -> None:
        """Set the answer, or the error."""
        if isinstance(answer, Exception):
            self.exception = answer
        else:
            self._value = answer
        self._done.set()
        for callback in self._links:
            self._client.call_back(partial(callback, self))
        self._links.clear()


class _Sent:
    """A request on its way, with the place of its answer (None: nobody waits), and its watch."""

    def __init__(self, request: Request, result: Result | None, watch: Callable[..., object] | None = None) -> None:
        self.request = request
        self.result = result
        self.watch = watch


class _Link:
    """The parts of kazoo's connection that PyKafka uses: `_connect`, which it may replace, and the ping on its way."""

    def __init__(self, client: FakeKazooClient) -> None:
        self.ping_outstanding = client.handler.Event()
        self._connect = client.connect_once


class FakeKazooClient:
    """A client of a `ZooKeeper` in memory.

    :param handler: of its two workers: one talks to the server, one calls watches
    :param timeout_s: the session timeout to ask for (s)
    :param made: called with each connection that it makes
    """

    def __init__(
        self, server: ZooKeeper, handler: Handler, timeout_s: float, made: Callable[[Connection], object]
    ) -> None:
        self.handler = handler
        self._made = made
        self._server = server
        self._session_timeout = int(timeout_s * 1000)
        self._connection = _Link(self)
        self._live = handler.Event()
        self._stopped = handler.Event()
        self._stopped.set()
        self._state = KeeperState.CLOSED
        self.state = KazooState.LOST
        self._listeners: list[Callable[[str], object]] = []
        self._queue: deque[_Sent] = deque()
        self._pending: deque[_Sent] = deque()
        self._watches: dict[tuple[str, str], list[Callable[..., object]]] = {}
        self._session: int | None = None
        self._line: Connection | None = None
        self._inbox = handler.Queue()
        self._callbacks = handler.Queue()
        self._workers: list[Any] = []

    # -- the application's side ------------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._live.is_set()

    @property
    def client_id(self) -> tuple[int | None, bytes] | None:
        """The session's number, with a password; None without a connection."""
        return (self._session, b"") if self._live.is_set() else None

    def add_listener(self, listener: Callable[[str], object]) -> None:
        """Call a function with each new state."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[str], object]) -> None:
        """Call a function no more."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def start_async(self) -> Any:
        """Begin to connect; return the event that is set while there is a connection."""
        if not self._live.is_set() and self._stopped.is_set():
            self._stopped.clear()
            self._workers = [
                self.handler.spawn(self._run, name="kazoo.connection"),
                self.handler.spawn(self._call_watches, name="kazoo.callbacks"),
            ]
        return self._live

    def start(self, timeout: float = 15) -> None:
        """Connect.

        :raises TimeoutError: there was no connection in time (s)
        """
        self.start_async().wait(timeout)
        if not self.connected:
            self.stop()
            raise TimeoutError("Connection time-out")

    def stop(self) -> None:
        """End the session, with its nodes."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._inbox.put(None)
        workers, self._workers = self._workers, []
        workers[0].join(max(STOP_S, self._session_timeout / 1000))
        self._callbacks.put(None)
        workers[1].join(STOP_S)

    def close(self) -> None:
        """Free nothing: what `stop()` leaves is memory."""

    def get_async(self, path: str, watch: Callable[..., object] | None = None) -> Result:
        """Ask for content and state of a node."""
        return self._submit(Request("get", path, watches=watch is not None), watch)

    def exists_async(self, path: str, watch: Callable[..., object] | None = None) -> Result:
        """Ask for the state of a node; None if there is none."""
        return self._submit(Request("exists", path, watches=watch is not None), watch)

    def get_children_async(self, path: str, watch: Callable[..., object] | None = None) -> Result:
        """Ask for the names of a node's children."""
        return self._submit(Request("get_children", path, watches=watch is not None), watch)

    def create_async(self, path: str, value: bytes = b"", **options: Any) -> Result:
        """Make a node; options: ephemeral, sequence, makepath."""
        return self._submit(Request("create", path, {"value": value, **options}))

    def ensure_path_async(self, path: str) -> Result:
        """Make a node and those above it, unless they are there."""
        return self._submit(Request("ensure_path", path))

    def set_async(self, path: str, value: bytes, version: int = -1) -> Result:
        """Set the content of a node."""
        return self._submit(Request("set", path, {"value": value, "version": version}))

    def delete_async(self, path: str, version: int = -1) -> Result:
        """Delete a node."""
        return self._submit(Request("delete", path, {"version": version}))

    def get(self, path: str) -> Any:
        """Return content and state of a node."""
        return self.get_async(path).get()

    def get_children(self, path: str) -> Any:
        """Return the names of a node's children."""
        return self.get_children_async(path).get()

    def _submit(self, request: Request, watch: Callable[..., object] | None = None) -> Result:
        result = Result(self)
        if self._state == KeeperState.CLOSED:
            result.end(ConnectionClosedError("Connection has been closed"))
        elif self._state == KeeperState.EXPIRED_SESSION:
            result.end(SessionExpiredError())
        else:
            self._queue.append(_Sent(request, result, watch))
            self._inbox.put(None)
        return result

    # -- the worker that talks to the server -----------------------------------------------------------------------------

    def connect_once(self, *_: object) -> tuple[float, float]:
        """Connect; return how long the client may wait for an answer, and for a connection (ms)."""
        self._set_state(KeeperState.CONNECTING)
        asked_s, server = self._session_timeout / 1000, self._server
        self.handler.sleep(LATENCY_S)
        until = self.handler.now() + asked_s
        while not server.is_reachable(self.handler):
            if self._stopped.wait(TICK_S) or self.handler.now() > until:
                raise ConnectionLoss
        line = self._line = server.connect(self._session, asked_s, self.handler, self._deliver)
        self._made(line)
        self.handler.sleep(LATENCY_S)
        self._session = line.session.number
        return line.session.timeout_s * 1000 * 2 / 3, asked_s * 1000

    def _deliver(self, line: Connection, sent: Any, answer: Any) -> None:
        """Take an answer, an event, or (None) the end of a connection from the server; it does not wait."""
        self._inbox.put((line, sent, answer))

    def _run(self) -> None:
        delay_s = RETRY_S
        while not self._stopped.is_set():
            try:
                read_ms, _ = self._connection._connect("zookeeper", "zookeeper", 2181)
            except SessionExpiredError:
                self._session = None
                self._set_state(KeeperState.EXPIRED_SESSION)
                continue
            except (ConnectionLoss, ConnectionRefusedError):
                self._stopped.wait(delay_s * self.handler.random.random())
                delay_s = min(2 * delay_s, KAZOO_RETRY_MAX_S)
                continue
            delay_s = RETRY_S
            self._set_state(KeeperState.CONNECTED)
            self._talk(read_ms / 1000)
        self._set_state(KeeperState.CLOSED)

    def _talk(self, read_s: float) -> None:
        """Send requests and pings, and take answers, until the connection ends."""
        line, ping = self._line, self._connection.ping_outstanding
        assert line is not None
        ping.clear()
        sent_at, closes = self.handler.now(), False
        while True:
            if self._stopped.is_set() and not closes:
                closes = True
                self._queue.append(_Sent(Request("close"), None))
            while self._queue:
                sent = self._queue.popleft()
                self._pending.append(sent)
                line.send(sent)
                sent_at = self.handler.now()
            jitter_s = self.handler.random.random() * JITTER_S
            wait_s = max(sent_at + read_s / 2 - jitter_s - self.handler.now(), jitter_s)
            try:
                message = self._inbox.get(timeout=wait_s)
            except Handler.QueueEmptyError:
                if ping.is_set():
                    break
                ping.set()
                line.send(_Sent(Request("ping"), None))
                sent_at = self.handler.now()
                continue
            if message is not None and message[0] is line and not self._take(message[1], message[2]):
                break
        line.close()
        if not closes:
            self._set_state(KeeperState.CONNECTING)

    def _take(self, sent: Any, answer: Any) -> bool:
        """Take a message of the server; return whether the connection stays."""
        if sent is None:
            return False
        if sent is EVENTS:
            self._fire(*answer)
            return True
        if sent.request.name == "ping":
            self._connection.ping_outstanding.clear()
            return True
        self._pending.popleft()
        if sent.request.name == "close":
            return False
        if sent.watch is not None and not isinstance(answer, KazooException):
            kind = "children" if sent.request.name == "get_children" else "data"
            watching = self._watches.setdefault((kind, sent.request.path), [])
            if sent.watch not in watching:
                watching.append(sent.watch)
        sent.result.end(answer)
        return True

    def _fire(self, event: str, path: str) -> None:
        kinds = {EventType.CHILD: ("children",), EventType.DELETED: ("data", "children")}.get(event, ("data",))
        for kind in kinds:
            for watch in self._watches.pop((kind, path), ()):
                self.call_back(partial(watch, WatchedEvent(event, self._state, path)))

    # -- states ------------------------------------------------------------------------------------------------------------

    def _set_state(self, state: str) -> None:
        """Take a state; report it, and end requests and watches, as kazoo does."""
        if state == self._state:
            return
        was_closed, self._state = self._state in _CLOSED, state
        if was_closed and state == KeeperState.CONNECTING:
            return
        if state == KeeperState.CONNECTED:
            self._live.set()
            self._report(KazooState.CONNECTED)
            return
        self._live.clear()
        if state in _CLOSED:
            self._report(KazooState.LOST)
            self._end_requests(SessionExpiredError if state == KeeperState.EXPIRED_SESSION else ConnectionLoss)
        else:
            self._end_requests(ConnectionLoss)
            self._report(KazooState.SUSPENDED)
        watches, self._watches = self._watches, {}
        for watching in watches.values():
            for watch in watching:
                self.call_back(partial(watch, WatchedEvent(EventType.NONE, self._state, None)))

    def _report(self, state: str) -> None:
        if self.state != state:
            self.state = state
            for listener in list(self._listeners):
                listener(state)

    def _end_requests(self, error: type[Exception]) -> None:
        for requests in (self._pending, self._queue):
            while requests:
                result = requests.popleft().result
                if result is not None:
                    result.end(error())

    # -- the worker that calls watches -------------------------------------------------------------------------------------

    def call_back(self, fn: Callable[[], object]) -> None:
        """Call a function by the worker for that."""
        self._callbacks.put(fn)

    def _call_watches(self) -> None:
        while (fn := self._callbacks.get()) is not None:
            fn()
