"""Which function forked a process, and will end it by `os._exit()`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka.handlers import forks

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
    assert forks.abrupt_forker() is None


def test_a_function_that_forks_and_ends_the_child_is_named() -> None:
    assert told(plain(lambda: forks.abrupt_forker() == f"{__name__}:plain"))


def test_a_generator_that_is_suspended_meanwhile_stays_whole() -> None:
    steps = by_generator(lambda: True)
    status = next(steps)
    if status == -1:
        forks.abrupt_forker()
        next(steps, None)
        os._exit(1)  # the generator has been closed
    assert told(status)


@pytest.mark.parametrize("name", ["flush", "close"])
def test_a_function_that_delivers_is_not_named(name: str) -> None:
    def job(producer: Any = None) -> bool:
        found = forks.abrupt_forker()
        if producer is not None:
            producer.flush() if name == "flush" else producer.close()
        return found is None

    assert told(plain(job))
