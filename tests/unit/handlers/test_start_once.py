"""One worker starts something, and the others wait for that."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pykafka.exceptions import NoBrokersAvailableError
from pykafka.handlers import Handler
from pykafka.handlers.start_once import StartOnce
from tests.support.interrupts import Interrupted


class Thing:
    """Something that starts slowly, and stops."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.starts = StartOnce(handler)
        self.running = False
        self.begun = 0
        self.errors: list[BaseException] = []

    def start(self) -> None:
        self.starts.run(self._start, self.stop)

    def _start(self) -> None:
        if self.running:
            return
        self.begun += 1
        self.handler.sleep(0.05)
        if self.errors:
            raise self.errors.pop(0)
        self.running = True

    def stop(self) -> None:
        self.starts.stop()
        self.running = False

    def together(self, count: int = 5) -> list[str]:
        """Start it from many workers at once; return what each of them has met."""
        met: list[str] = []

        def use() -> None:
            try:
                self.start()
                met.append("running" if self.running else "stopped")
            except NoBrokersAvailableError as error:
                met.append(str(error))

        workers = [self.handler.spawn(use) for _ in range(count)]
        assert all(worker.join(10) for worker in workers)
        return met


def test_many_workers_start_once(handler: Handler) -> None:
    thing = Thing(handler)
    thing.starts.after_fork(True)
    assert thing.together() == ["running"] * 5
    assert (thing.begun, thing.starts.due) == (1, False)


def test_a_start_that_fails_fails_for_those_who_waited_and_is_made_again_by_the_next(handler: Handler) -> None:
    thing = Thing(handler)
    thing.starts.after_fork(True)
    thing.errors = [NoBrokersAvailableError("away")]
    assert thing.together() == ["away"] * 5
    assert (thing.begun, thing.starts.due) == (1, True)
    thing.start()
    assert (thing.running, thing.starts.due) == (True, False)


def test_an_interrupted_start_is_made_by_another_worker(handler: Handler) -> None:
    thing = Thing(handler)
    thing.starts.after_fork(True)
    thing.errors = [Interrupted()]
    with pytest.raises(Interrupted):
        thing.start()
    assert thing.starts.due
    assert thing.together() == ["running"] * 5
    assert thing.begun == 2


def test_a_stop_during_a_start_does_not_wait_and_undoes_it(handler: Handler) -> None:
    thing = Thing(handler)
    thing.starts.after_fork(True)
    worker = handler.spawn(thing.start)
    while not thing.begun:
        handler.sleep(0.001)
    thing.stop()
    assert not worker.join(0)
    assert worker.join(5)
    assert (thing.running, thing.starts.due) == (False, False)


def test_a_fork_of_a_fork_owes_the_start_too(handler: Handler) -> None:
    starts = StartOnce(handler)
    starts.after_fork(True)
    starts.after_fork(False)
    assert starts.due
    starts.stop()
    starts.after_fork(False)
    assert not starts.due


def test_a_stop_ends_a_start_that_its_worker_has_not_begun(handler: Handler) -> None:
    """The worker did not see the stop, which came before: the thing ran on, though it was stopped."""
    thing = Thing(handler)
    thing.starts.after_fork(True)
    other = handler.spawn(thing.start)
    while not thing.begun:
        handler.sleep(0.001)
    assert not thing.starts.run_within(thing.start, 0.0)  # its worker waits for the other one
    thing.stop()
    assert thing.starts.run_within(thing.start, 10.0)
    assert other.join(10)
    assert not thing.running
    thing.start()
    assert thing.running


def test_a_start_that_waits_for_another_one_as_a_stop_comes_is_not_made(handler: Handler) -> None:
    """It was made behind the one that the stop had undone, so the thing ran on."""
    thing = Thing(handler)
    starting = [handler.spawn(thing.start) for _ in range(3)]
    while not thing.begun:
        handler.sleep(0.001)
    thing.stop()
    assert all(worker.join(10) for worker in starting)
    assert (thing.running, thing.begun) == (False, 1)
    thing.start()
    assert thing.running


def test_a_start_behind_a_stop_does_not_fail_with_the_one_that_the_stop_has_ended(handler: Handler) -> None:
    thing = Thing(handler)
    thing.errors = [NoBrokersAvailableError("stopped")]

    def start() -> None:
        with suppress(NoBrokersAvailableError):
            thing.start()

    first = handler.spawn(start)
    while not thing.begun:
        handler.sleep(0.001)
    thing.stop()
    thing.start()
    assert first.join(10)
    assert (thing.running, thing.begun) == (True, 2)


def test_what_a_start_asks_for_ends_with_a_stop(handler: Handler) -> None:
    """Elsewhere there is nothing to watch. Without a stop, the answer or the error comes."""
    starts, released = StartOnce(handler), handler.Event()
    assert starts.watch() is None
    found: list[object] = []

    def fail() -> None:
        raise NoBrokersAvailableError("away")

    def start() -> None:
        is_stopped = starts.watch()
        assert is_stopped is not None
        found.append([ask() for ask in [starts.unless_stopped(lambda: 7, is_stopped, "asks")] if ask is not None])
        failing = starts.unless_stopped(fail, is_stopped, "asks")
        assert failing is not None
        with pytest.raises(NoBrokersAvailableError):
            failing()
        found.append(starts.unless_stopped(released.wait, is_stopped, "asks"))

    starting = handler.spawn(lambda: starts.run(start, int))
    while not found:
        handler.sleep(0.001)
    starts.stop()
    assert starting.join(5)
    assert found == [[7], None]
    released.set()
