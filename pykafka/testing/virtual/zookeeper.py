"""`ZooKeeper`: a small ZooKeeper in memory, for the groups of a simulation: nodes, sessions, watches, and what can go wrong.

    network.zookeeper = ZooKeeper(handler)      # from now on clients of the network's handlers can use groups of ZooKeeper

It has the calls that PyKafka makes, by `FakeKazooClient`, which stands for kazoo's client. It needs kazoo, for its exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType

from pykafka.handlers.base import Handler
from pykafka.metadata import zookeeper  # noqa: F401 - before kazoo: without it, this names the extra

#: How long a message takes from one end to the other (s).
LATENCY_S = 0.0004
#: How often the server looks for sessions that are over (s), and the shortest that it agrees to (s).
TICK_S, SHORTEST_S = 0.1, 2.0


class Stat(NamedTuple):
    """The state of a node, with kazoo's names."""

    version: int
    ephemeralOwner: int  # noqa: N815  (as kazoo has it)


class Request(NamedTuple):
    """A call of a client.

    :param name: "ping", "close", or a method of `Tree` and `ZooKeeper`
    :param watches: whether the client wants to hear of the next change
    """

    name: str
    path: str = ""
    arguments: dict[str, Any] = {}
    watches: bool = False


class Node:
    """A node, with its children by name."""

    def __init__(self, data: bytes = b"", owner: int = 0) -> None:
        self.data = data
        self.owner = owner
        self.version = 0
        self.children: dict[str, Node] = {}
        self.made = 0

    @property
    def stat(self) -> Stat:
        """Its state."""
        return Stat(self.version, self.owner)


class Session:
    """A session of a client.

    :param number: its name
    :param timeout_s: after which it ends without a sign of life (s)
    :param owner: the handler of the client
    """

    def __init__(self, number: int, timeout_s: float, owner: Handler) -> None:
        self.number = number
        self.timeout_s = timeout_s
        self.owner = owner
        self.heard_at = 0.0
        self.connection: Connection | None = None


class Connection:
    """A connection of a client with the server, which serves it in a worker of its own.

    :param deliver: takes answers and events at the client: (this connection, request or None, answer)
    """

    def __init__(self, server: ZooKeeper, session: Session, deliver: Callable[[Connection, Any, Any], object]) -> None:
        self.session = session
        self.is_open = True
        self.deliver = deliver
        #: Events of watches that the client has to hear of before the next answer.
        self.events: list[tuple[str, str]] = []
        self.requests = server.handler.Queue()
        #: Cleared while nothing gets through.
        self.passes = server.handler.Event()
        self.passes.set()

    def send(self, request: Any) -> None:
        """Send a request; it is lost if the connection is closed."""
        self.requests.put(request)

    def close(self) -> None:
        """Close it, from either end."""
        if self.is_open:
            self.is_open = False
            self.passes.set()
            self.requests.put(None)
            self.deliver(self, None, None)


class ZooKeeper:
    """The server. Any worker may call its methods, which do not wait.

    State: the nodes and sessions belong to whoever runs: on a handler with threads, use one lock around it.

    :param handler: of its workers and its clock
    :param on_owner: called with (path, session) when an ephemeral node comes, and with (path, None) when it goes
    """

    def __init__(self, handler: Handler, on_owner: Callable[[str, Session | None], object] | None = None) -> None:
        self.handler = handler
        self.root = Node()
        self.sessions: dict[int, Session] = {}
        self._on_owner = on_owner or (lambda path, session: None)
        self._watches: dict[tuple[str, str], dict[Connection, None]] = {}
        self._next_session = 0x1_0000
        self._isolated: set[Handler] = set()
        self._stopped = handler.Event()
        #: Set while the server runs; while it is paused connections stand still, while it is down there are none.
        self.runs = handler.Event()
        self.runs.set()
        self.is_down = False
        #: Whether a session ends by `expire` now.
        self.is_forced = False
        handler.spawn(self._expire, name="zookeeper")

    def close(self) -> None:
        """End it, with all connections."""
        self._stopped.set()
        for session in list(self.sessions.values()):
            self._disconnect(session)

    # -- what goes wrong -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take the server down: connections end, sessions stay."""
        self.is_down = True
        for session in list(self.sessions.values()):
            self._disconnect(session)

    def pause(self) -> None:
        """Stop the server in its tracks; its connections stay."""
        self.runs.clear()

    def start(self) -> None:
        """Start or resume the server; after a stop, each session has its whole time."""
        if self.is_down:
            for session in self.sessions.values():
                session.heard_at = self.handler.now()
        self.is_down = False
        self.runs.set()

    def cut(self) -> None:
        """Cut all connections; clients may come back at once."""
        for session in list(self.sessions.values()):
            self._disconnect(session)

    def expire(self, number: int) -> None:
        """End the session with a number, counted from 0 among those that there are, if there is one."""
        if self.sessions:
            self.is_forced = True
            self._end(list(self.sessions.values())[number % len(self.sessions)])
            self.is_forced = False

    def isolate(self, number: int) -> Handler | None:
        """Cut the client of a session off, in silence; return the client's handler.

        :param number: as for `expire`
        """
        if not self.sessions:
            return None
        owner = list(self.sessions.values())[number % len(self.sessions)].owner
        self._isolated.add(owner)
        for session in self.sessions.values():
            if session.owner is owner and session.connection is not None:
                session.connection.passes.clear()
        return owner

    def rejoin(self, owner: Handler | None) -> None:
        """End the isolation of a client."""
        if owner in self._isolated:
            self._isolated.remove(owner)
            for session in self.sessions.values():
                if session.owner is owner and session.connection is not None:
                    session.connection.passes.set()

    def heal(self) -> None:
        """Put all right: the server runs, and everything gets through."""
        self._isolated.clear()
        for session in self.sessions.values():
            if session.connection is not None:
                session.connection.passes.set()
        self.start()

    def is_reachable(self, owner: Handler) -> bool:
        """Return whether a client's messages get through now."""
        return owner not in self._isolated and self.runs.is_set()

    # -- sessions --------------------------------------------------------------------------------------------------------

    def connect(
        self, number: int | None, timeout_s: float, owner: Handler, deliver: Callable[[Connection, Any, Any], object]
    ) -> Connection:
        """Return a new connection, of a new session or of one that is still there.

        :param number: of that session; None: a new one
        :raises SessionExpiredError: that session is over
        :raises ConnectionRefusedError: the server is down
        """
        if self.is_down:
            raise ConnectionRefusedError("ZooKeeper is down")
        if number is None:
            self._next_session += 1
            number = self._next_session
            self.sessions[number] = Session(number, max(timeout_s, SHORTEST_S), owner)
        session = self.sessions.get(number)
        if session is None:
            raise SessionExpiredError
        self._disconnect(session)
        session.heard_at = self.handler.now()
        session.connection = connection = Connection(self, session, deliver)
        self.handler.spawn(self._serve, connection, name=f"zookeeper.{number:x}")
        return connection

    def _disconnect(self, session: Session) -> None:
        connection, session.connection = session.connection, None
        if connection is not None:
            for watching in self._watches.values():
                watching.pop(connection, None)
            connection.close()

    def _end(self, session: Session) -> None:
        """End a session, with its nodes."""
        if self.sessions.pop(session.number, None) is not None:
            for path in list(_owned(self.root, session.number, "")):
                self._delete(path)
            self._disconnect(session)

    def _expire(self) -> None:
        while not self._stopped.wait(TICK_S):
            if self.runs.is_set() and not self.is_down:
                now = self.handler.now()
                for session in [one for one in self.sessions.values() if now - one.heard_at > one.timeout_s]:
                    self._end(session)

    def _serve(self, connection: Connection) -> None:
        while (request := connection.requests.get()) is not None and connection.is_open:
            if request is EVENTS and not connection.events:
                continue  # they went with an answer
            self.handler.sleep(LATENCY_S)
            self._await_passage(connection)
            answer = self._answer(connection, request) if request is not EVENTS else None
            events, connection.events = connection.events, []
            self.handler.sleep(LATENCY_S)
            self._await_passage(connection)
            if connection.is_open:
                for event in events:
                    connection.deliver(connection, EVENTS, event)
                if request is not EVENTS:
                    connection.deliver(connection, request, answer)

    def _await_passage(self, connection: Connection) -> None:
        while connection.is_open and not (connection.passes.is_set() and self.runs.is_set()):
            connection.passes.wait(TICK_S)
            self.runs.wait(TICK_S)

    def _answer(self, connection: Connection, sent: Any) -> Any:
        """Do what a request asks for; return the answer, or the error."""
        session, request = connection.session, sent.request
        if not connection.is_open or session.number not in self.sessions:
            return SessionExpiredError()
        session.heard_at = self.handler.now()
        if request.name == "close":
            self._end(session)
            return None
        if request.name == "ping":
            return None
        try:
            answer = getattr(self, f"_{request.name}")(request.path, session=session, **request.arguments)
        except KazooException as error:
            return error
        if request.watches:
            kind = "children" if request.name == "get_children" else "data"
            self._watches.setdefault((kind, request.path), {})[connection] = None
        return answer

    # -- nodes -----------------------------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes = b"") -> None:
        """Make a node that no session owns, with those above it."""
        self._create(path, None, data, makepath=True)

    def _find(self, path: str) -> Node:
        node = self.root
        for name in _names(path):
            if name not in node.children:
                raise NoNodeError
            node = node.children[name]
        return node

    def _create(
        self,
        path: str,
        session: Session | None,
        value: bytes = b"",
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
    ) -> str:
        above, _, name = path.rpartition("/")
        if makepath:
            self._ensure_path(above, session)
        parent = self._find(above)
        if sequence:
            name = f"{name}{parent.made:010d}"
        if name in parent.children:
            raise NodeExistsError
        owner = session.number if ephemeral and session is not None else 0
        parent.children[name] = Node(value, owner)
        parent.made += 1
        made = f"{above}/{name}"
        if owner:
            self._on_owner(made, session)
        self._fire("data", made, EventType.CREATED)
        self._fire("children", above or "/", EventType.CHILD)
        return made

    def _ensure_path(self, path: str, session: Session | None) -> bool:
        names = _names(path)
        for end in range(1, len(names) + 1):
            part = "/" + "/".join(names[:end])
            try:
                self._find(part)
            except NoNodeError:
                self._create(part, session)
        return True

    def _get(self, path: str, session: Session) -> tuple[bytes, Stat]:
        node = self._find(path)
        return node.data, node.stat

    def _exists(self, path: str, session: Session) -> Stat | None:
        try:
            return self._find(path).stat
        except NoNodeError:
            return None

    def _get_children(self, path: str, session: Session) -> list[str]:
        return sorted(self._find(path).children)

    def _set(self, path: str, session: Session, value: bytes, version: int = -1) -> Stat:
        node = self._find(path)
        if version not in (-1, node.version):
            raise BadVersionError
        node.data = value
        node.version += 1
        self._fire("data", path, EventType.CHANGED)
        return node.stat

    def _delete(self, path: str, session: Session | None = None, version: int = -1) -> bool:
        node = self._find(path)
        if version not in (-1, node.version):
            raise BadVersionError
        if node.children:
            raise NotEmptyError
        above, _, name = path.rpartition("/")
        del self._find(above).children[name]
        if node.owner:
            self._on_owner(path, None)
        self._fire("data", path, EventType.DELETED)
        self._fire("children", path, EventType.DELETED)
        self._fire("children", above or "/", EventType.CHILD)
        return True

    def _fire(self, kind: str, path: str, event: str) -> None:
        """Notify the connections that watch a node, once."""
        for connection in self._watches.pop((kind, path), {}):
            connection.events.append((event, path))
            connection.send(EVENTS)


#: Stands for a request: there are events to deliver.
EVENTS: Any = object()


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _owned(node: Node, owner: int, path: str) -> Iterable[str]:
    """Return the paths of the nodes of a session."""
    for name, child in node.children.items():
        if child.owner == owner:
            yield f"{path}/{name}"
        yield from _owned(child, owner, f"{path}/{name}")
