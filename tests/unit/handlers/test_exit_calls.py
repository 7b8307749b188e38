"""Which function forked a process, and will end it by `os._exit()`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka.handlers import exit_calls

# pytest may have threads; the children do next to nothing.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def told(status: int) -> bool:
    assert os.waitstatus_to_exitcode(status) in (0, 1)
    return os.waitstatus_to_exitcode(status) == 0


def plain(check: Callable[[], bool]) -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if check() else 1)
    return os.waitpid(pid, 0)[1]


def by_generator(check: Callable[[], bool]) -> Iterator[int]:
    pid = os.fork()
    if pid == 0:
        yield -1
        os._exit(0 if check() else 1)
    yield os.waitpid(pid, 0)[1]


def test_this_process_was_not_forked_by_a_function_that_ends_it() -> None:
    assert exit_calls.abrupt_forker() is None


def test_a_function_that_forks_and_ends_the_child_is_named() -> None:
    assert told(plain(lambda: exit_calls.abrupt_forker() == f"{__name__}:plain"))


def test_a_generator_that_is_suspended_meanwhile_stays_whole() -> None:
    steps = by_generator(lambda: True)
    status = next(steps)
    if status == -1:
        exit_calls.abrupt_forker()
        next(steps, None)
        os._exit(1)  # the generator has been closed
    assert told(status)


@pytest.mark.parametrize("name", ["flush", "close"])
def test_a_function_that_delivers_is_not_named(name: str) -> None:
    def job(producer: Any = None) -> bool:
        found = exit_calls.abrupt_forker()
        if producer is not None:
            producer.flush() if name == "flush" else producer.close()
        return found is None

    assert told(plain(job))


def in_line(check: Callable[[], bool]) -> int:
    """Fork as a daemon does: the parent's branch ends the parent, and the child ends as a program."""
    if os.fork() > 0:
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    return 0 if check() else 1


def supervised(check: Callable[[], bool]) -> int:
    """Fork as a prefork server does: only an error ends the child by os._exit()."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    try:
        raise SystemExit(0 if check() else 1)
    except SystemExit:
        raise
    except BaseException:  # noqa: BLE001 - the shape that the test is about
        os._exit(3)


def by_finally(check: Callable[[], bool]) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if check() else 1
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]


def in_loop(check: Callable[[], bool]) -> int:
    pid = os.fork()
    for _ in range(2):
        if pid:
            continue
        if not check():
            os._exit(1)
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)[1]


@pytest.mark.parametrize("fork", [by_finally, in_loop])
def test_the_end_of_a_child_may_be_further_ahead(fork: Callable[[Callable[[], bool]], int]) -> None:
    assert told(fork(lambda: exit_calls.abrupt_forker() == f"{__name__}:{fork.__name__}"))


@pytest.mark.parametrize("fork", [in_line, supervised])
def test_a_child_that_ends_as_a_program_is_not_named(fork: Callable[[Callable[[], bool]], int]) -> None:
    def child() -> int:
        """The function forks once more, and this process is what it may end."""
        pid = os.fork()
        if pid:
            return os.waitpid(pid, 0)[1]
        try:
            status = fork(lambda: exit_calls.abrupt_forker() is None)
        except SystemExit as ended:
            status = int(str(ended.code))
        os._exit(min(status, 1))

    assert told(child())


class Queue:
    """A stand-in for a producer, its delivery, and a dictionary."""

    def __init__(self, found: list[bool]) -> None:
        self.found = found

    def produce(self, _value: object = None) -> Queue:
        self.found.append(exit_calls.abrupt_forker() is None)
        return self

    def get(self, _key: object = None) -> object:
        """Wait, as `delivery.get()` does."""
        return self


def test_a_function_that_waits_for_its_delivery_is_not_named() -> None:
    def waits() -> bool:
        found: list[bool] = []
        Queue(found).produce(b"v").get()
        delivery = Queue(found).produce(b"v")
        delivery.get()
        return found == [True, True]

    assert told(plain(waits))


def test_a_get_before_the_message_is_no_wait() -> None:
    def looks_up() -> bool:
        found: list[bool] = []
        for _ in range(2):
            Queue(found).produce(Queue(found).get("key"))
        return found == [False, False]

    assert told(plain(looks_up))
