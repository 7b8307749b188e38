"""The errors of a member's worker: each is raised once, and one that lasts is not heaped up."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka.compat.group_worker import UnraisedErrors
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.exceptions import KafkaException, OffsetsNotCommitted


class Engine:
    """An engine of a consumer, running or not."""

    def __init__(self, running: bool) -> None:
        self.running = running
        self.errors: deque[BaseException] = deque()

    def worker_failed(self, error: BaseException) -> None:
        self.errors.append(error)


def consumer(running: bool = True) -> Any:
    return cast(SimpleConsumer, SimpleNamespace(_engine=Engine(running)))


def uncommitted(offset: int) -> OffsetsNotCommitted:
    return OffsetsNotCommitted("not committed", {("t", 0): offset})


def test_the_oldest_is_raised_first_and_once() -> None:
    unraised = UnraisedErrors([KeyError("one"), ValueError("two")])
    with pytest.raises(KeyError):
        unraised.raise_first()
    with pytest.raises(ValueError, match="two"):
        unraised.raise_first()
    unraised.raise_first()


def test_a_running_consumer_gets_it_and_gets_one_that_lasts_once() -> None:
    unraised, running = UnraisedErrors(), consumer()
    first = KafkaException("no share")
    unraised.report(first, running)
    unraised.report(KafkaException("no share yet"), running)
    assert list(running._engine.errors) == [first]
    assert not unraised


@pytest.mark.parametrize("there", [None, consumer(running=False)], ids=["none", "stopped"])
def test_without_a_running_consumer_it_is_kept_and_one_that_lasts_once(there: Any) -> None:
    unraised, first = UnraisedErrors(), KafkaException("no share")
    unraised.report(first, there)
    unraised.report(KafkaException("no share yet"), there)
    assert list(unraised) == [first]


def test_of_failed_commits_the_last_one_is_raised_and_others_stay() -> None:
    other = KeyError("of the callback")
    last = uncommitted(2)
    unraised = UnraisedErrors([uncommitted(1), other, last])
    with pytest.raises(OffsetsNotCommitted) as caught:
        unraised.raise_uncommitted()
    assert caught.value is last
    assert list(unraised) == [other]
    unraised.raise_uncommitted()
