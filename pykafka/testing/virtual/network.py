"""`Network`: names, listeners and streams in virtual time, and what goes wrong with them, drawn from the seed."""

from __future__ import annotations

import errno
import ipaddress
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from pykafka.handlers.base import Address, Handler
from pykafka.testing.virtual.primitives import Line, Numbered
from pykafka.testing.virtual.scheduler import Scheduler
from pykafka.testing.virtual.streams import Connections, Link, VirtualStream

if TYPE_CHECKING:
    from pykafka.testing.virtual.zookeeper import ZooKeeper

#: Of all addresses here, whatever they look like: nothing in virtual time asks for it.
FAMILY = 2
#: The first port that a listener gets, and the first one of a connection.
FIRST_PORT, FIRST_CLIENT_PORT = 19092, 32768
#: How often a connect asks whether it is still wanted (s).
_WANTED_S = 0.1
_ANY = ("0.0.0.0", "::")


@dataclass
class NetworkFaults:
    """The latency of connections and their faults, drawn when one is made; chances are from 0 to 1, and 0 by default.

    :param latency_ms: how long bytes take at least, and at most, in one direction; each connection has a latency of its own
    :param jitter_ms: what each piece may take longer; pieces stay in order
    :param split: chance of a write to arrive in pieces
    :param cut: chance of a connection to be reset
    :param half_open: chance of a connection to lose, from some time on, all that one end sends, without an error
    :param hang: chance of a connect to get no answer
    :param unresolved: chance of a name to have no address
    :param within_ms: a cut, or the loss of one direction, comes so long after the connect at the latest
    """

    latency_ms: tuple[float, float] = (0.1, 1.0)
    jitter_ms: float = 0.0
    split: float = 0.0
    cut: float = 0.0
    half_open: float = 0.0
    hang: float = 0.0
    unresolved: float = 0.0
    within_ms: float = 30_000.0


class VirtualListener(Numbered):
    """A place where peers connect. As `Listener`.

    :param network: of it
    :param address: where it listens
    """

    __slots__ = ("_backlog", "_closed", "_line", "_network", "_turns", "address")

    def __init__(self, network: Network, address: Address) -> None:
        super().__init__(network.scheduler)
        self._turns = network.scheduler
        self._network = network
        self.address = address
        self._backlog: deque[VirtualStream] = deque()
        self._line = Line(network.scheduler)
        self._closed = False

    def __repr__(self) -> str:
        return f"<VirtualListener {self.address.text} {'closed' if self._closed else 'open'}>"

    def offer(self, stream: VirtualStream) -> None:
        """Add a connection for `accept`."""
        self._backlog.append(stream)
        self._line.wake()

    def accept(self, timeout: float) -> VirtualStream:
        """Wait for a connection and return its stream. As `Listener.accept`."""
        until = self._turns.until(timeout)
        while True:
            if self._closed:
                raise OSError(errno.EBADF, "the listener is closed")
            if self._backlog:
                return self._backlog.popleft()
            if not self._line.wait(until):
                raise TimeoutError(f"no peer connected to {self.address.text} in time")

    def close(self) -> None:
        """Stop listening, wake the worker that accepts, and hang up on peers that were not accepted."""
        if self._closed:
            return
        self._closed = True
        self._network.forget(self)
        for stream in self._backlog:
            stream.close()
        self._backlog.clear()
        self._line.wake_all()


class Network:
    """The machines and lines of a simulation. All addresses of 127.0.0.0/8, ::1, and those that names have are its own.

    :param scheduler: whose clock and seed it has
    :param faults: what goes wrong; None: nothing. They may be changed at any time, for the connections that are made then
    """

    def __init__(self, scheduler: Scheduler, faults: NetworkFaults | None = None) -> None:
        self.scheduler = scheduler
        self.faults = faults or NetworkFaults()
        #: The addresses of host names.
        self.names: dict[str, list[str]] = {"localhost": ["127.0.0.1"]}
        #: Addresses, as text with their port, that answer no connect, as behind a firewall.
        self.unreachable: set[str] = set()
        #: The ZooKeeper that clients of its handlers meet; None: there is none.
        self.zookeeper: ZooKeeper | None = None
        self._random = Random(f"network of {scheduler.seed}")
        self._listeners: dict[tuple[str, int], VirtualListener] = {}
        self._next_port = FIRST_PORT
        self._next_client_port = FIRST_CLIENT_PORT
        self._connections = Connections(scheduler)

    def __repr__(self) -> str:
        return f"<Network of {len(self._listeners)} listeners, {len(self._connections.links)} connections>"

    @property
    def digest(self) -> str:
        """A digest of all bytes that were sent, with their times: it is the same for two runs that have the same history."""
        return self._connections.digest

    @property
    def open_connections(self) -> int:
        """How many connections at least one end has not closed."""
        return len(self._connections.links)

    # -- faults --------------------------------------------------------------------------------------------------------

    def cut_all(self) -> None:
        """Reset all connections now."""
        for link in list(self._connections.links.values()):
            link.cut()

    def heal(self) -> None:
        """End all faults, also those that present connections have yet to meet; those that are half-open are reset."""
        self.faults = NetworkFaults(self.faults.latency_ms)
        self.unreachable.clear()
        for link in self._connections.links.values():
            link.heal()

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance

    def _soon_us(self) -> int:
        return self.scheduler.clock_us + int(self._random.random() * self.faults.within_ms * 1000)

    def _new_link(self) -> Link:
        faults = self.faults
        low, high = faults.latency_ms
        latency_us = int((low + self._random.random() * (high - low)) * 1000)
        link = Link(self._connections, latency_us, self._random.random())
        link.jitter_us, link.split = faults.jitter_ms * 1000, faults.split
        if self._happens(faults.cut):
            link.cut_at = self._soon_us()
        if self._happens(faults.half_open):
            link.lost_from, link.loses_of_client = self._soon_us(), self._random.random() < 0.5
        return link

    # -- names and connections -----------------------------------------------------------------------------------------

    def resolve(self, host: str, port: int) -> list[Address]:
        """Return the addresses of a name or address."""
        found = [host] if _is_address(host) else self.names.get(host.lower())
        if not found or (found[0] != host and self._happens(self.faults.unresolved)):
            raise Handler.GaiError(-2, f"Name or service not known: {host}")
        return [_address(text, port) for text in found]

    def name_of(self, address: Address) -> str:
        """Return the first name of an address; the address itself if it has none."""
        text = str(address.sockaddr[0])
        return next((name for name, texts in self.names.items() if text in texts), text)

    def _is_own(self, host: str) -> bool:
        if host in _ANY or any(host in texts for texts in self.names.values()):
            return True
        return _is_address(host) and ipaddress.ip_address(host).is_loopback

    def _check_own(self, host: str) -> None:
        if not self._is_own(host):
            raise OSError(errno.EADDRNOTAVAIL, f"Cannot assign requested address: {host} is not of this network")

    def listen(self, address: Address) -> VirtualListener:
        """Listen at an address; port 0: any free one."""
        host, port = str(address.sockaddr[0]), int(address.sockaddr[1])
        self._check_own(host)
        if not port:
            while (host, self._next_port) in self._listeners:
                self._next_port += 1
            port, self._next_port = self._next_port, self._next_port + 1
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"Address already in use: {host}:{port}")
        self._listeners[host, port] = listener = VirtualListener(self, _address(host, port))
        return listener

    def forget(self, listener: VirtualListener) -> None:
        """Remove a listener that is closed."""
        host, port = listener.address.sockaddr[:2]
        del self._listeners[host, port]

    def connect(
        self,
        address: Address,
        timeout: float,
        source_address: tuple[str, int] | None,
        wanted: Callable[[], bool] | None,
        made: Callable[[VirtualStream], object],
    ) -> VirtualStream:
        """Connect to a listener. As `Handler.connect`.

        :param made: called with the stream as soon as there is one, before the connection is known to be accepted
        """
        scheduler = self.scheduler
        scheduler.check_inside()
        until = scheduler.until(timeout)
        assert until is not None
        source = self._source(address, source_address)
        link = self._new_link()
        hangs = self._happens(self.faults.hang) or address.text in self.unreachable
        self._await(until if hangs else scheduler.clock_us + link.latency_us, until, address, wanted)
        listener = self._listener(address)
        if listener is None:
            self._await(scheduler.clock_us + link.latency_us, until, address, wanted)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connection refused: nothing listens at {address.text}")
        client, server = link.join(source, _address(*address.sockaddr[:2]))
        listener.offer(server)
        made(client)
        try:
            self._await(scheduler.clock_us + link.latency_us, until, address, wanted)
        except BaseException:
            client.close()
            raise
        return client

    def _source(self, address: Address, source_address: tuple[str, int] | None) -> Address:
        host, port = source_address or (str(address.sockaddr[0]), 0)
        self._check_own(host)
        if not port:
            port, self._next_client_port = self._next_client_port, self._next_client_port + 1
        return _address(host, port)

    def _listener(self, address: Address) -> VirtualListener | None:
        host, port = address.sockaddr[:2]
        hosts = (host, *_ANY)
        return next((found for one in hosts if (found := self._listeners.get((one, port))) is not None), None)

    def _await(self, at_us: int, until_us: int, address: Address, wanted: Callable[[], bool] | None) -> None:
        """Wait until the peer answers.

        :param at_us: when it does
        :param until_us: when that is too late
        :raises TimeoutError: it is
        """
        scheduler = self.scheduler
        end = min(at_us, until_us)
        while scheduler.clock_us < end:
            pause = math.inf if wanted is None else scheduler.clock_us + _WANTED_S * 1_000_000
            scheduler.park(int(min(end, pause)))
            if wanted is not None and not wanted():
                raise ConnectionAbortedError(f"the connect to {address.text} is not wanted any more")
        if until_us <= at_us:
            raise TimeoutError(f"{address.text} did not answer in time")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _address(host: str, port: int) -> Address:
    return Address(FAMILY, (host, port, 0, 0) if ":" in host else (host, port))
