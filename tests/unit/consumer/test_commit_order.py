"""The order of commits: turns in the order of the calls, whatever ends the calls and the worker."""

from __future__ import annotations

import math
from collections import deque

import pytest

from pykafka.consumer.commit_order import CommitOrder
from pykafka.handlers import Handler, ThreadingHandler
from tests.support.inside import waiting_commits
from tests.support.interrupts import Interrupted, interrupted_starts, interrupting
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(60), pytest.mark.on_asyncio]


def commit(order: CommitOrder, handler: Handler, made: list[int], number: int, seconds: float = math.inf) -> bool:
    with (turn := handler.Lock()):
        place = order.take(turn)
        try:
            if order.wait(place, handler.now() + seconds):
                made.append(number)
                return True
            return False
        finally:
            order.leave(place)


def add_and_commit(order: CommitOrder, handler: Handler, made: list[int]) -> None:
    order.add(lambda: made.append(1))
    commit(order, handler, made, 2, 10)


def test_turns_come_in_the_order_of_the_calls(handler: Handler) -> None:
    order, made, gate = CommitOrder(handler), list[int](), handler.Event()

    def wait() -> None:
        assert gate.wait(10)
        made.append(0)

    order.add(wait)
    workers = []
    for number in range(1, 20):
        if number % 3:
            workers.append(handler.spawn(commit, order, handler, made, number))
            until(handler, lambda: waiting_commits(order) == number + 1)  # noqa: B023
        else:
            order.add(lambda number=number: made.append(number))  # type: ignore[misc]
    assert not commit(order, handler, made, 99, 0.05)
    assert not order.settle(handler.now() + 0.05)
    assert not order.join(handler.now() + 0.05)
    gate.set()
    assert order.settle(handler.now() + 10)
    assert made == list(range(20))
    assert order.join(handler.now() + 10)
    assert not waiting_commits(order)
    assert all(worker.join(10) for worker in workers)


def test_an_error_of_the_worker_costs_one_commit(handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    order, made, gate = CommitOrder(handler), list[int](), handler.Event()

    def fail() -> None:
        assert gate.wait(10)
        raise ZeroDivisionError("of the test")

    order.add(fail)
    order.add(lambda: made.append(1))
    gate.set()
    assert commit(order, handler, made, 2, 10)
    assert made == [1, 2]
    until(handler, lambda: "of the test" in caplog.text)  # the next commit does not wait for the report


def test_a_worker_that_cannot_start_is_started_later(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    order, made = CommitOrder(handler), list[int]()

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(handler, "spawn", refuse)
        order.add(lambda: made.append(1))
        assert not commit(order, handler, made, 2, 0.2)
        assert "cannot be started for now" in caplog.text
    order.add(lambda: made.append(3))
    assert commit(order, handler, made, 4, 10)
    assert made == [1, 3, 4]
    with monkeypatch.context() as patch:
        patch.setattr(handler, "spawn", refuse)
        order.add(lambda: made.append(5))
        assert order.join(handler.now() + 10)  # it makes them itself
    assert made == [1, 3, 4, 5]


def test_a_fork_leaves_commits_to_the_parent(handler: Handler) -> None:
    order, made, gate = CommitOrder(handler), list[int](), handler.Event()
    order.add(lambda: gate.wait(10))
    order.after_fork()
    assert commit(order, handler, made, 1, 10)
    gate.set()


@pytest.mark.parametrize("handler", ["threads"], indirect=True)
def test_an_interrupt_at_any_step_holds_up_nothing(handler: Handler) -> None:
    order, made, interrupts = CommitOrder(handler), list[int](), 0
    order.add(lambda: made.append(0))
    for call in interrupting("commit_order.py"):
        try:
            call(lambda: add_and_commit(order, handler, made))
        except Interrupted:
            interrupts += 1
        assert commit(order, handler, made, 3, 10)
    assert interrupts
    assert not waiting_commits(order)


def test_a_worker_whose_start_was_interrupted_is_awaited() -> None:
    """It was lost: `close()` came back while its commit was under way, and its thread outlived the consumer."""
    handler, made = ThreadingHandler(), list[int]()
    order, gate = CommitOrder(handler), handler.Event()

    def make() -> None:
        gate.wait(5)
        made.append(1)

    with interrupted_starts("pykafka.CommitAsync"), pytest.raises(Interrupted):
        order.add(make)
    until(handler, lambda: order._calls._waiting == deque())
    assert not order.join(handler.now() + 0.01)
    gate.set()
    assert order.join(handler.now() + 10)
    assert made == [1]
