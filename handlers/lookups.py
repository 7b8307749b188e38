"""`Lookups`: names looked up in threads of their own, since the system's resolver has no deadline and cannot be stopped."""

from __future__ import annotations

import copy
import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka.handlers.base import Address
from pykafka.handlers.deadline import Deadline

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

#: How long other workers that want the same name join a lookup under way, instead of starting another (s).
SHARED_S = 5.0
#: How many lookups of one name may be under way: the system continues those that no name server answers.
RUNNING_MAX = 3


#: The kind of a look-up (None: of a name's addresses), host and port.
_Key = tuple[Any, str, int]


class Lookup:
    """One call of the resolver, and the callbacks of the workers that wait for it.

    State: changes under the lock of its `Lookups`.

    :param since: when the call began (s)
    """

    __slots__ = ("_outcome", "since", "waiting")

    def __init__(self, since: float) -> None:
        self.since = since
        self.waiting: list[Callable[[], object]] = []
        self._outcome: list[Address] | Exception = OSError(errno.ECANCELED, "the lookup was ended")

    def ask(self, getaddrinfo: Callable[..., list[Any]], host: str, port: int) -> None:
        """Call the resolver and keep its result or exception."""
        try:
            self._outcome = look_up(getaddrinfo, host, port)
        except Exception as error:  # noqa: BLE001 - the workers that wait raise it
            self._outcome = error

    def fail(self, error: Exception) -> None:
        """Keep the reason why the resolver was not called."""
        self._outcome = error

    def result(self) -> list[Address]:
        """Return the addresses, or raise the resolver's exception."""
        if isinstance(self._outcome, Exception):
            raise copy.copy(self._outcome)  # several workers may raise it at the same time
        return self._outcome


class Reverse:
    """A `getaddrinfo` that gives the canonical name of an IP address in the place of the address.

    Two of them are equal: look-ups of one address are shared.

    :param getnameinfo: the system's, or gevent's
    """

    __slots__ = ("_getnameinfo",)

    def __init__(self, getnameinfo: Callable[..., Any]) -> None:
        self._getnameinfo = getnameinfo

    def __call__(self, host: str, port: int, family: int = 0, kind: int = 0) -> list[Any]:
        """Return one entry, as `getaddrinfo` does: the name, or the address if it has none."""
        try:
            name = self._getnameinfo((host, port), socket.NI_NAMEREQD)[0]
        except socket.gaierror:
            name = host
        return [(family, kind, 0, "", (name, port))]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reverse)

    def __hash__(self) -> int:
        return hash(Reverse)


class Lookups:
    """The lookups of one handler that are under way, a few for each name at most.

    An abandoned lookup continues in its daemon thread until the resolver gives up.

    State: `_running` changes under `_lock`.

    :param handler: a handler over OS threads, which starts the workers
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._after_fork()
        handler.at_fork(self._after_fork)

    def _after_fork(self) -> None:
        self._lock = self._handler.Lock()
        self._running: dict[_Key, list[Lookup]] = {}

    def join(self, getaddrinfo: Callable[..., list[Any]], host: str, port: int, done: Callable[[], object]) -> Lookup:
        """Begin a lookup, or join one that began a moment ago.

        :param getaddrinfo: the resolver
        :param done: called by the lookup's thread when it has ended
        :raises WorkerNotStartedError: the system starts no thread at present
        """
        key = getaddrinfo if isinstance(getaddrinfo, Reverse) else None, host, port
        with self._lock:
            running = self._running.setdefault(key, [])
            now = self._handler.now()
            if running and (now - running[-1].since < SHARED_S or len(running) >= RUNNING_MAX):
                running[-1].waiting.append(done)
                return running[-1]
            found = Lookup(now)
            found.waiting.append(done)
            running.append(found)
        try:
            self._handler.spawn(self._run, getaddrinfo, key, found, name=f"pykafka.resolve.{host}")
        except Exception as error:
            found.fail(error)  # for workers that have joined it meanwhile, too
            self._settle(key, found)
            raise
        return found

    def resolve(self, getaddrinfo: Callable[..., list[Any]], host: str, port: int, deadline: Deadline) -> list[Address]:
        """Look a name up in a worker of its own and wait for it, on OS threads. As `Handler.resolve`."""
        done = self._handler.Event()
        lookup = self.join(getaddrinfo, host, port, done.set)
        await_lookup(done.wait, host, deadline)
        return lookup.result()

    def _run(self, getaddrinfo: Callable[..., list[Any]], key: _Key, lookup: Lookup) -> None:
        try:
            lookup.ask(getaddrinfo, *key[1:])
        finally:
            self._settle(key, lookup)

    def _settle(self, key: _Key, lookup: Lookup) -> None:
        with self._lock:
            running = self._running.get(key, [])
            if lookup in running:
                running.remove(lookup)
            if not running:
                self._running.pop(key, None)
            waiting, lookup.waiting = lookup.waiting, []
        for done in waiting:
            done()


def look_up(getaddrinfo: Callable[..., list[Any]], host: str, port: int) -> list[Address]:
    """Return the addresses of a name, each once, in the order given."""
    addresses: dict[Address, None] = {}
    for family, _, _, _, sockaddr in getaddrinfo(host, port, 0, socket.SOCK_STREAM):
        addresses[Address(family, sockaddr)] = None
    return list(addresses)


def await_lookup(wait: Callable[[float], object], host: str, deadline: Deadline) -> None:
    """Wait for a lookup.

    :param wait: waits for the given time at most (s), and returns whether the lookup has ended
    :param host: the name that is looked up
    :param deadline: how long to wait
    :raises TimeoutError: the lookup has not ended in time
    :raises ConnectionAbortedError: the address is not wanted any more
    """
    if not deadline.wait(wait):
        raise TimeoutError(f"no name server answered for {host!r} within {deadline.timeout:.3g} s")


def is_numeric(host: str) -> bool:
    """Return whether looking this host up needs no network."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
