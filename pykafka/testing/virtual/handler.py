# ruff: noqa: N802  (Event(), Lock() and the rest bear the documented names of what they make)
"""`VirtualHandler`: PyKafka in virtual time, on the greenlets of a `Scheduler` and the streams of a `Network`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Protocol, TypeVar

from greenlet import getcurrent

from pykafka.handlers.base import (
    Address,
    EventType,
    Handler,
    Listener,
    LockType,
    QueueType,
    RLockType,
    SemaphoreType,
    Stream,
    Worker,
)
from pykafka.testing.virtual.network import Network
from pykafka.testing.virtual.primitives import (
    VirtualEvent,
    VirtualLocal,
    VirtualLock,
    VirtualQueue,
    VirtualRLock,
    VirtualSemaphore,
)
from pykafka.testing.virtual.scheduler import Scheduler

if TYPE_CHECKING:
    from pykafka.testing.virtual.zookeeper import ZooKeeper

P = ParamSpec("P")
R = TypeVar("R")

#: What `time_ms` returns at the beginning: the 1st of January 2026.
EPOCH_MS = 1_767_225_600_000
#: How likely it is that `breathe` gives way.
BREATH = 0.25


class Closable(Protocol):
    """A connection that a process has, and that ends with it."""

    def close(self) -> None:
        """Close it."""


class _NoSocket:
    """The class of sockets in virtual time: its constructor raises."""

    def __init__(self, *_: object, **__: object) -> None:
        raise NotImplementedError("there are no sockets in virtual time: use handler.connect() and handler.listen()")


class VirtualHandler(Handler):
    """The handler of a simulation. Whoever waits has to run in a worker of the scheduler.

    :param scheduler: runs the workers, and has the clock
    :param network: what `resolve`, `connect` and `listen` meet
    """

    name = "virtual"
    cooperative = True
    system_clock = False

    def __init__(self, scheduler: Scheduler, network: Network) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._network = network
        self.random = Random(f"chance of {scheduler.seed}")
        self.now = scheduler.now

    def Event(self) -> EventType:
        """Make a flag that is not set."""
        return VirtualEvent(self._scheduler)

    def Lock(self) -> LockType:
        """Make a lock that is not re-entrant."""
        return VirtualLock(self._scheduler)

    def RLock(self) -> RLockType:
        """Make a re-entrant lock."""
        return VirtualRLock(self._scheduler)

    def Semaphore(self, value: int = 1) -> SemaphoreType:
        """Make a semaphore. As `Handler.Semaphore`."""
        return VirtualSemaphore(self._scheduler, value)

    def Queue(self, maxsize: int = 0) -> QueueType[Any]:
        """Make a queue. As `Handler.Queue`."""
        return VirtualQueue(self._scheduler, maxsize)

    def local(self) -> Any:
        """Make an object whose attributes are separate for each worker."""
        return VirtualLocal(self._scheduler)

    def spawn(self, target: Callable[..., object], *args: Any, name: str | None = None, **kwargs: Any) -> Worker:
        """Start `target(*args, **kwargs)` in a worker of the scheduler. As `Handler.spawn`."""
        return self._scheduler.spawn(partial(target, *args, **kwargs), name, self.report)

    def sleep(self, seconds: float = 0.0) -> None:
        """Sleep for so long of the virtual time (s), one microsecond at least."""
        self._scheduler.park(self._scheduler.until(seconds))

    def time_ms(self) -> int:
        """Return the date of the virtual clock (ms since 1970): it begins with the year 2026."""
        return EPOCH_MS + self._scheduler.now_ms()

    def breathe(self) -> None:
        """Give way to another worker now and then, as the seed decides."""
        scheduler = self._scheduler
        if scheduler.draw() < BREATH:
            scheduler.give_way()

    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` in place: it takes no time."""
        return fn(*args, **kwargs)

    @property
    def Socket(self) -> type[Any]:
        """A class whose constructor raises: there are no sockets in virtual time."""
        return _NoSocket

    def resolve(
        self, host: str, port: int, timeout: float | None = None, wanted: Callable[[], bool] | None = None
    ) -> list[Address]:
        """Return the addresses that the network has for a host name, at once. As `Handler.resolve`."""
        return self._network.resolve(host, port)

    def name_of(self, address: Address, timeout: float, wanted: Callable[[], bool] | None = None) -> str:
        """Return the name that the network has for an address. As `Handler.name_of`."""
        return self._network.name_of(address)

    def connect(
        self,
        address: Address,
        timeout: float,
        source_address: tuple[str, int] | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Stream:
        """Connect to a listener of the network. As `Handler.connect`."""
        return self._network.connect(address, timeout, source_address, wanted, self._made)

    def _made(self, stream: Closable) -> None:
        """Note a connection that this handler has made, for subclasses."""

    def listen(self, address: Address) -> Listener:
        """Listen in the network. As `Handler.listen`."""
        return self._network.listen(address)

    def wrap_tls(self, stream: Stream, context: Any, server_hostname: str | None, timeout: float) -> NoReturn:
        """Refuse.

        :raises NotImplementedError: OpenSSL draws its own random numbers
        """
        raise NotImplementedError(
            "there is no TLS in virtual time, since OpenSSL's random numbers differ in each run: connect without TLS"
        )

    @property
    def native(self) -> Handler:
        """This handler itself: in virtual time nothing can hold its workers."""
        return self

    @property
    def here(self) -> Callable[[], object]:
        """As `Handler.here`: a greenlet."""
        current: Callable[[], object] = getcurrent
        return current

    @property
    def has_ended(self) -> bool:
        """Whether the scheduler does not run: then nothing can wait."""
        return self._scheduler.has_ended

    def kazoo(self) -> ZooKeeper:
        """Return the ZooKeeper of the network, a fake: kazoo has threads and sockets of its own.

        :raises NotImplementedError: there is none
        """
        if self._network.zookeeper is None:
            raise NotImplementedError(
                "there is no ZooKeeper in this network: use groups that the brokers keep, or give it one, by "
                "network.zookeeper = ZooKeeper(handler) of pykafka.testing.virtual.zookeeper"
            )
        return self._network.zookeeper

    def kazoo_client(self, hosts: str, timeout: float, read_only: bool = False) -> Any:
        """Make a client of the network's ZooKeeper, whatever its address. As `Handler.kazoo_client`."""
        server = self.kazoo()
        from pykafka.testing.virtual.kazoo_client import FakeKazooClient  # needs kazoo

        return FakeKazooClient(server, self, timeout, self._made)

    def report(self, what: str, error: BaseException) -> None:
        """Keep an exception that no caller can receive any more in the scheduler's `errors`, and log it.

        Those of workers that are being ended, as `run` has returned, are logged alone.
        """
        if not self._scheduler.is_closing:
            self._scheduler.errors.append((what, error))
        super().report(what, error)
