"""The errors of a member's worker: each is raised once, and one that lasts is not heaped up."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient, ManagedBalancedConsumer
from pykafka.exceptions import KafkaException, OffsetsNotCommitted


class Engine:
    """An engine of an internal consumer, running or not."""

    def __init__(self, running: bool) -> None:
        self.running = running
        self.errors: deque[BaseException] = deque()

    def worker_failed(self, error: BaseException) -> None:
        self.errors.append(error)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics={"t": 1}) as cluster:
        yield cluster


@pytest.fixture
def member(client: KafkaClient) -> Iterator[ManagedBalancedConsumer]:
    """Yield a member that was not started."""
    member = client.topics["t"].get_balanced_consumer("g", managed=True, auto_start=False)
    yield member
    member._consumer = None  # as tests may have set it


def raised(member: ManagedBalancedConsumer) -> list[BaseException]:
    """Return the errors that the calls of an application raise, in order."""
    errors: list[BaseException] = []
    while True:
        try:
            member._raise_worker_exceptions()
        except Exception as error:  # noqa: BLE001 - any of a worker
            errors.append(error)
        else:
            return errors


def uncommitted(offset: int) -> OffsetsNotCommitted:
    return OffsetsNotCommitted("not committed", {("t", 0): offset})


def test_the_oldest_is_raised_first_and_once(member: ManagedBalancedConsumer) -> None:
    errors = [KeyError("one"), ValueError("two")]
    member._worker_exceptions.extend(errors)
    assert raised(member) == errors
    assert raised(member) == []


def test_a_running_consumer_gets_it_and_gets_one_that_lasts_once(member: ManagedBalancedConsumer) -> None:
    running: Any = SimpleNamespace(_engine=Engine(True))
    member._consumer = running
    first = KafkaException("no assignment")
    member._worker_failed(first)
    member._worker_failed(KafkaException("no assignment yet"))
    assert list(running._engine.errors) == [first]
    assert raised(member) == []


@pytest.mark.parametrize("internal", [None, SimpleNamespace(_engine=Engine(False))], ids=["none", "stopped"])
def test_without_a_running_consumer_it_is_kept_and_one_that_lasts_once(
    member: ManagedBalancedConsumer, internal: Any
) -> None:
    member._consumer = internal
    first = KafkaException("no assignment")
    member._worker_failed(first)
    member._worker_failed(KafkaException("no assignment yet"))
    assert raised(member) == [first]


def test_of_failed_commits_the_last_one_is_raised_and_others_stay(member: ManagedBalancedConsumer) -> None:
    other, last = KeyError("of the callback"), uncommitted(2)
    member._worker_exceptions.extend([uncommitted(1), other, last])
    with pytest.raises(OffsetsNotCommitted) as caught:
        member.stop()
    assert caught.value is last
    member.stop()
    assert raised(member) == [other]
