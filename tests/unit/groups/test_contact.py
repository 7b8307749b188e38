"""`SessionState`: how long a member can be sure of its session in ZooKeeper, by a clock that the tests set."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.protocol.states import KazooState

from pykafka.exceptions import ZooKeeperError
from pykafka.groups.zookeeper.session import SessionState

TIMEOUT_S = 6.0


class Result:
    """An answer of kazoo's that a test gives."""

    def __init__(self, go_on: Callable[[float], object]) -> None:
        self._go_on = go_on
        self._done = False
        self.exception: Exception | None = None
        self._called: list[Callable[[Any], object]] = []

    def wait(self, seconds: float) -> None:
        if not self._done:
            self._go_on(seconds)

    def ready(self) -> bool:
        return self._done

    def get(self) -> str:
        if self.exception is not None:
            raise self.exception
        return "answer"

    def rawlink(self, called: Callable[[Any], object]) -> None:
        self._called.append(called)

    def end(self, exception: Exception | None = None) -> None:
        self._done, self.exception = True, exception
        for called in self._called:
            called(self)


class Place:
    """A clock, a KazooClient and its contact."""

    def __init__(self) -> None:
        self.time = 100.0
        self.asked: list[Result] = []
        self.changes = 0
        self.pinging = False
        self.client = SimpleNamespace(
            connected=True,
            _session_timeout=TIMEOUT_S * 1000,
            _pending=[],
            _connection=SimpleNamespace(ping_outstanding=SimpleNamespace(is_set=lambda: self.pinging)),
            add_listener=lambda listener: None,
            remove_listener=lambda listener: None,
            get_async=self._get,
        )
        self.contact = self.join()

    def join(self) -> SessionState:
        """Make a contact on the client, which others may have, too."""
        return SessionState(SimpleNamespace(now=lambda: self.time), self.client, self._changed)  # type: ignore[arg-type]

    def _changed(self) -> None:
        self.changes += 1

    def _get(self, _path: str) -> Result:
        self.asked.append(Result(self.go_on))
        return self.asked[-1]

    def go_on(self, seconds: float) -> None:
        self.time += seconds

    def ask(self) -> Result:
        (result,) = self.contact.ask("get", ["/a"], 1.0, topic="t")
        assert isinstance(result, Result)
        return result

    def state(self, state: str) -> None:
        self.client.connected = state == KazooState.CONNECTED
        self.contact._session_changed(state)

    def owns_for(self) -> float:
        """How long this member may own its partitions from now on (s)."""
        before, found = self.time, 0.0
        while self.contact.may_own() and found < 60:
            found += 0.01
            self.time = before + found
        self.time = before
        return round(found, 1)


@pytest.fixture
def place() -> Place:
    return Place()


def test_it_is_sure_while_zookeeper_answers(place: Place) -> None:
    assert place.contact.sure_s == math.inf
    place.ask().end()
    place.go_on(100)
    assert (place.contact.sure_s, place.contact.away_s, place.contact.may_own()) == (math.inf, 0, True)


@pytest.mark.parametrize("silent_s", [TIMEOUT_S - 1, TIMEOUT_S + 1])
def test_what_was_owned_at_the_end_stays_so(place: Place, silent_s: float) -> None:
    """An answer that comes after the end returns no partitions: other members may have them."""
    place.ask().end()
    late = place.ask()
    place.go_on(silent_s)
    owned = place.contact.may_own()
    assert owned == (silent_s < TIMEOUT_S)
    place.contact.end()
    late.end()
    assert place.contact.may_own() == owned


def test_the_session_may_end_its_timeout_after_the_last_request_that_was_answered(place: Place) -> None:
    place.ask().end()
    place.go_on(0.5)
    place.ask()
    place.go_on(0.5)
    assert place.owns_for() == TIMEOUT_S - 1
    assert place.contact.sure_s == TIMEOUT_S - 1 - TIMEOUT_S / 12
    assert place.contact.away_s == 0.5


@pytest.mark.parametrize(("pinging", "heard_before_s"), [(False, TIMEOUT_S / 3), (True, 2 * TIMEOUT_S / 3)])
def test_of_one_that_asked_long_ago_kazoo_has_told_zookeeper(
    place: Place, pinging: bool, heard_before_s: float
) -> None:
    place.ask().end()
    place.go_on(100)
    place.pinging = pinging
    place.ask()
    assert place.owns_for() == TIMEOUT_S - heard_before_s


def test_a_lost_connection_is_told_two_thirds_of_the_timeout_late(place: Place) -> None:
    place.state(KazooState.SUSPENDED)
    assert place.owns_for() == TIMEOUT_S / 3
    assert place.contact.is_silent
    place.state(KazooState.CONNECTED)
    assert place.contact.sure_s == math.inf
    assert not place.contact.is_silent


def test_an_unanswered_request_counts_on_when_kazoo_loses_the_connection(place: Place) -> None:
    place.ask().end()
    place.go_on(1)
    result = place.ask()
    place.go_on(4)
    place.client.connected = False
    result.end(ConnectionLoss())  # before it tells of it
    assert place.owns_for() == TIMEOUT_S - 5
    place.state(KazooState.SUSPENDED)
    assert place.owns_for() == TIMEOUT_S - 5
    with pytest.raises(ZooKeeperError, match="has not answered for 4.0 s"):
        place.ask()
    place.state(KazooState.CONNECTED)
    place.ask()
    assert place.owns_for() == TIMEOUT_S - TIMEOUT_S / 3


def test_a_request_that_was_made_without_a_connection_counts_from_the_next_one_on(place: Place) -> None:
    place.state(KazooState.SUSPENDED)
    place.ask()
    place.go_on(10)
    place.state(KazooState.CONNECTED)
    assert place.owns_for() == TIMEOUT_S


def test_a_refusal_is_an_answer(place: Place) -> None:
    place.ask().end(NoNodeError())
    assert place.contact.sure_s == math.inf


def test_nothing_is_asked_while_an_answer_is_owed(place: Place) -> None:
    result = place.ask()
    with pytest.raises(ZooKeeperError, match="no answer from ZooKeeper within 0.5 s"):
        place.contact.answer(result, 0.5, "get", "/a", "t")
    assert place.contact.is_silent
    with pytest.raises(ZooKeeperError, match="has not answered for 1.5 s"):
        place.ask()
    assert len(place.asked) == 1
    assert place.changes == 0
    result.end()
    assert place.changes == 1, "an answer that comes late is told"
    assert place.contact.away_s == 0
    place.ask()


def test_it_waits_no_longer_than_it_is_sure(place: Place) -> None:
    place.ask().end()
    place.go_on(1)
    result = place.ask()
    with pytest.raises(ZooKeeperError, match="within 4.5 s"):
        place.contact.answer(result, 60.0, "get", "/a", "t")
    assert place.contact.sure_s <= 0
    assert place.contact.may_own()
    with pytest.raises(ZooKeeperError, match="within 60 s"):  # nothing is left to give up
        place.contact.answer(result, 60.0, "get", "/a", "t")


def test_a_lost_session_owns_nothing(place: Place) -> None:
    place.ask()
    place.state(KazooState.LOST)
    assert not place.contact.may_own()
    assert place.contact.away_s == 0


def test_a_request_that_goes_out_while_the_connection_changes_counts(place: Place) -> None:
    """kazoo's worker does not throw away what it has not seen."""
    place.ask().end()

    clock = place.contact._handler

    def meanwhile() -> float:
        place.contact._handler = clock
        place.ask()
        return place.time

    place.contact._handler = SimpleNamespace(now=meanwhile)  # type: ignore[assignment]
    place.state(KazooState.CONNECTED)
    assert len(place.asked) == 2
    assert place.contact.sure_s < math.inf


# -- several contacts on one client ------------------------------------------------------------------------------------


def test_what_one_contact_owes_counts_for_all_of_the_client(place: Place) -> None:
    another = place.join()
    place.ask().end()
    place.go_on(1)
    place.ask()
    assert another.sure_s == place.contact.sure_s == TIMEOUT_S - 1 - TIMEOUT_S / 12
    place.go_on(TIMEOUT_S)
    assert not another.may_own()
    assert another.away_s == TIMEOUT_S


def test_no_contact_asks_while_another_one_owes_an_answer(place: Place) -> None:
    another = place.join()
    result = place.ask()
    with pytest.raises(ZooKeeperError, match="has not answered for 1.0 s"):
        another.ask("get", ["/a"], 1.0, topic="t")
    assert len(place.asked) == 1
    assert [one.is_silent for one in (place.contact, another)] == [True, True]
    result.end()
    assert place.changes == 2, "both are told"
    assert [one.is_silent for one in (place.contact, another)] == [False, False]
    another.ask("get", ["/a"], 1.0, topic="t")


def test_what_a_contact_owed_counts_on_when_it_ends(place: Place) -> None:
    another = place.join()
    result = place.ask()
    place.contact.end()
    assert another.sure_s < TIMEOUT_S
    result.end()
    assert another.sure_s == math.inf
    another.end()
    assert not another._of_client


class Hanging:
    """A ZooKeeper that answers nothing from 0 s on, and kazoo's loop, which asks, pings, and loses the connection."""

    def __init__(self, members: int) -> None:
        self.time, self.heard_at, self._sent_at, self._pinging = -1.0, -0.5, -0.5, False
        self._listeners: list[Callable[[str], object]] = []
        self.client = SimpleNamespace(
            connected=True,
            _session_timeout=TIMEOUT_S * 1000,
            _pending=[],
            _connection=SimpleNamespace(ping_outstanding=SimpleNamespace(is_set=lambda: self._pinging)),
            add_listener=self._listeners.append,
            get_async=self._get,
        )
        handler: Any = SimpleNamespace(now=lambda: self.time)
        self.contacts = [SessionState(handler, self.client, int) for _ in range(members)]

    def _get(self, _path: str) -> Result:
        result = Result(lambda _: None)
        self._sent_at = self.time
        if self.time < 0:
            self.heard_at = self.time
            result.end()
        else:
            self.client._pending.append(result)
        return result

    def turn(self) -> None:
        if not self.client.connected or self.time - self._sent_at < TIMEOUT_S / 3:
            return
        if not self._pinging:
            self._pinging, self._sent_at = True, self.time
            return
        self.client.connected = False
        for listener in self._listeners:
            listener(KazooState.SUSPENDED)


@pytest.mark.parametrize("members", [1, 2, 4, 8])
def test_members_of_one_client_give_up_before_its_session_ends(members: int) -> None:
    """Each of their requests puts kazoo's ping off."""
    place = Hanging(members)
    for contact in place.contacts:
        contact.ask("get", ["/a"], 1.0, topic="t")
        place.time += 0.01
    asks_at = [(number + 0.5) * TIMEOUT_S / members for number in range(members)]
    place.time = 0.0
    while place.time < place.heard_at + TIMEOUT_S:
        for number, contact in enumerate(place.contacts):
            if place.client.connected and place.time >= asks_at[number]:
                asks_at[number] = math.inf
                with suppress(ZooKeeperError):
                    contact.ask("get", ["/a"], 1.0, topic="t")
        place.turn()
        place.time += 0.01
    place.time += 0.01  # rounding
    assert [contact.may_own() for contact in place.contacts] == [False] * members
