"""A `ZooKeeperSession` that connects; its worker, by a clock that the tests set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pykafka.exceptions import ZooKeeperError
from pykafka.groups.zookeeper import session as module
from pykafka.groups.zookeeper.session import SignsOfLife, ZooKeeperSession, _watch
from pykafka.handlers import Worker
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler

TIMEOUT_S = 6.0
#: How long a client of these tests takes to connect again (s).
AGAIN_S = 0.5


class Unlucky:
    """A client that loses its first connections before anyone can use them.

    :param losses: how many
    """

    def __init__(self, handler: VirtualHandler, losses: int) -> None:
        self._handler = handler
        self._losses = losses
        self._live = handler.Event()
        self._session_timeout = TIMEOUT_S * 1000

    @property
    def connected(self) -> bool:
        return self._live.is_set()

    def start_async(self) -> Any:
        self._handler.spawn(self._connect, name="connects")
        return self._live

    def _connect(self) -> None:
        for _ in range(self._losses):
            self._live.set()
            self._live.clear()
            self._handler.sleep(AGAIN_S)
        self._live.set()

    def add_listener(self, listener: object) -> None:
        """No state changes."""

    remove_listener = add_listener

    def stop(self) -> None:
        """It has no session."""

    close = stop


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(3)


@pytest.fixture
def virtual(scheduler: Scheduler) -> VirtualHandler:
    return VirtualHandler(scheduler, Network(scheduler))


def connecting(
    monkeypatch: pytest.MonkeyPatch, virtual: VirtualHandler, losses: int, signs: SignsOfLife | None = None
) -> ZooKeeperSession:
    """Return a session whose client loses its first connections."""
    monkeypatch.setattr(module, "new_client", lambda *_: Unlucky(virtual, losses))
    return ZooKeeperSession(virtual, "g", "anywhere:2181", TIMEOUT_S, TIMEOUT_S, lambda: None, "managed=True", signs)


@pytest.mark.parametrize("losses", [0, 1, 3, 100])
def test_a_connection_that_is_lost_at_once_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler, virtual: VirtualHandler, losses: int
) -> None:
    """A balanced consumer that starts has a session then, or the error that says what to check."""

    def program() -> None:
        session, began = connecting(monkeypatch, virtual, losses), virtual.now()
        if losses * AGAIN_S > TIMEOUT_S:
            with pytest.raises(ZooKeeperError, match="did not answer within"):
                session.connect(None)
        else:
            assert session.connect(None)
            assert session.connected
        assert virtual.now() - began == pytest.approx(min(losses * AGAIN_S, TIMEOUT_S), abs=0.01)
        session.end()

    scheduler.run(program)


@pytest.mark.parametrize("losses", [1, 100])
def test_an_interrupt_ends_the_wait_for_a_connection(
    monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler, virtual: VirtualHandler, losses: int
) -> None:
    def program() -> None:
        session = connecting(monkeypatch, virtual, losses)

        def interrupt() -> None:
            virtual.sleep(AGAIN_S / 2)
            session.interrupt()

        worker = virtual.spawn(interrupt, name="interrupts")
        assert not session.connect(None)
        assert session.state is None
        worker.join()
        session.end()

    scheduler.run(program)


@pytest.mark.parametrize("begins", [False, True])
def test_an_interrupt_as_the_watch_starts_leaves_one_that_watches(
    monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler, virtual: VirtualHandler, begins: bool
) -> None:
    """A member that nobody watched kept its partitions for ever, whatever its application did."""
    watches, looks = list[Worker](), list[float]()

    def signs() -> tuple[int, bool]:
        looks.append(virtual.now())
        return len(looks), False

    def program() -> None:
        session, spawn = connecting(monkeypatch, virtual, 0, signs), virtual.spawn

        def interrupted(*args: Any, name: str, **options: Any) -> Worker:
            if not name.startswith("pykafka.ZooKeeper"):
                return spawn(*args, name=name, **options)
            if begins:
                watches.append(spawn(*args, name=name, **options))
                virtual.sleep(0.001)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(virtual, "spawn", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.connect(None)
        assert session.connect(None)
        assert session.connect(None)
        virtual.sleep(TIMEOUT_S)
        assert len(looks) > 1
        assert len(set(looks)) == len(looks)
        session.end()
        virtual.sleep(1.0)
        assert not watches or not watches[0].is_alive()
        assert session.connect(None)  # and the next session has a watch of its own
        count = len(looks)
        virtual.sleep(TIMEOUT_S)
        assert len(looks) > count
        session.end()

    scheduler.run(program)


class Outage:
    """A clock, the event that ends the worker, and a session that can be relied on until a moment."""

    def __init__(self) -> None:
        self.time, self.ends, self.timeout_s = 0.0, math.inf, TIMEOUT_S
        self.happens: list[tuple[float, Callable[[], object]]] = []
        self.told: list[float] = []
        self.silent: list[str] = []
        self.looks = 0

    @property
    def sure_s(self) -> float:
        return self.ends - self.time

    def wait(self, seconds: float) -> bool:
        self.looks += 1
        self.time += seconds
        while self.happens and self.happens[0][0] <= self.time:
            self.happens.pop(0)[1]()
        return self.time >= 60

    def watch(self, pulse: Callable[[], tuple[int, bool] | None], patience_s: float = 1000.0) -> None:
        place: Any = self
        _watch(place, place, pulse, patience_s, self.silent.append, lambda: self.told.append(self.time))

    def end_at(self, ends: float) -> Callable[[], object]:
        return lambda: setattr(self, "ends", ends)


@pytest.mark.parametrize("timeout_s", [2.0, 6.0, 30.0])
def test_an_outage_is_told_once_when_time_is_up(timeout_s: float) -> None:
    place = Outage()
    place.timeout_s = timeout_s
    ends = 10.1 + timeout_s / 4
    place.happens = [(10.1, place.end_at(ends)), (30, place.end_at(math.inf)), (40.5, place.end_at(45))]
    place.watch(lambda: (place.looks, False))
    assert len(place.told) == 2
    assert all(0 <= told - due < 0.1 for told, due in zip(place.told, [ends, 45], strict=True)), place.told
    assert place.looks < 60 * 4 / min(timeout_s, 4) + 10


def test_the_time_without_calls_is_what_has_passed() -> None:
    place = Outage()
    place.happens = [(5.0, place.end_at(7.0))]
    place.watch(lambda: (1, False), 20.0)
    assert len(place.silent) == 1
    assert 20 < place.time < 23


def test_a_consumer_that_is_gone_ends_it() -> None:
    place = Outage()
    place.watch(lambda: None)
    assert place.silent == ["the consumer was dropped without close()"]
    assert place.time == 1.0
