"""Calls of transactions that fail after the last fault: which of them programs have caused themselves."""

from __future__ import annotations

import pytest

from pykafka.testing.history import AbortTransaction, Action, BeginTransaction, Call, Fault, History
from pykafka.testing.simulation.calm import failures

#: The time for which calls may still fail after the last fault (ms).
GRACE_MS = 4_000
ABORTABLE = "TransactionAbortableError"


class Calm:
    """A history whose last fault is over, and the time of which its test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.history = History(lambda: self.now_ms)
        self.calm_ms = self.history.note("simulation", Fault("all is well", ends=True)).time_ms
        self.now_ms += GRACE_MS

    def call(self, who: str, what: str | Action, error: str = "") -> None:
        """Add a call that takes a millisecond."""
        begun = self.history.invoke(who, Call(what) if isinstance(what, str) else what)
        self.now_ms += 1
        if error:
            self.history.unknown(begun, error)
        else:
            self.history.ok(begun)

    def transform(self, polls: int, error: str = ABORTABLE, who: str = "x1") -> None:
        """Add a transaction whose offsets fail."""
        self.call(who, BeginTransaction())
        for _ in range(polls):
            self.call(who, "poll")
        self.call(who, "send_offsets", error)
        self.call(who, AbortTransaction())

    def failures(self) -> list[str]:
        """Return what is wrong."""
        return [f"{name}: {error}" for name, error in failures(self.history, self.calm_ms, GRACE_MS)]


@pytest.fixture
def calm() -> Calm:
    return Calm()


@pytest.mark.parametrize("move", ["subscribe", "close consumer"])
def test_another_member_moves_between_two_polls(calm: Calm, move: str) -> None:
    calm.call("x1", BeginTransaction())
    calm.call("x1", "poll")
    calm.call("x2", move)
    calm.call("x1", "poll")
    calm.call("x1", "send_offsets", ABORTABLE)
    assert calm.failures() == []


def test_another_member_moved_shortly_before(calm: Calm) -> None:
    """The rebalance waits for its members, of which one begins a transaction meanwhile."""
    calm.call("x2", "subscribe")
    calm.now_ms += 2_000
    calm.transform(polls=2)
    assert calm.failures() == []


@pytest.mark.parametrize(
    ("polls", "pause_ms", "mover", "error"),
    [
        pytest.param(1, 0, "x2", ABORTABLE, id="all records are of one poll"),
        pytest.param(2, 5_000, "x2", ABORTABLE, id="the rebalance was over"),
        pytest.param(2, 0, "x1", ABORTABLE, id="the member itself has moved"),
        pytest.param(2, 0, "m1", ABORTABLE, id="a member of another group has moved"),
        pytest.param(2, 0, "x2", "ProducerFencedError", id="another error"),
    ],
)
def test_a_rebalance_does_not_explain_it(calm: Calm, polls: int, pause_ms: int, mover: str, error: str) -> None:
    calm.call(mover, "subscribe")
    calm.now_ms += pause_ms
    calm.transform(polls, error)
    assert len(calm.failures()) == 1


def test_calls_may_fail_for_a_while(calm: Calm) -> None:
    calm.now_ms = calm.calm_ms + GRACE_MS - 1_000
    calm.call("x1", "send_offsets", ABORTABLE)
    assert calm.failures() == []
