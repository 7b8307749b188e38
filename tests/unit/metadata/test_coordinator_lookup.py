"""Which broker coordinates a group: the members that start together ask once, and nobody waits for an answer that got lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import GroupCoordinatorNotAvailable
from pykafka.handlers import Handler
from pykafka.metadata import elections
from pykafka.metadata.elections import Coordinators


class Cluster:
    """A cluster of two brokers, which takes its time to say which one coordinates a group."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.brokers: dict[int, Any] = {id_: SimpleNamespace(id=id_) for id_ in (1, 2)}
        self.asked: list[str] = []
        self.given_ms: list[Any] = []
        self.is_ready = True

    def get_group_coordinator(self, consumer_group: str, timeout_ms: int | None = None, /) -> Any:
        """Answer as the present coordinator is: the broker that was asked for most recently."""
        self.asked.append(consumer_group)
        self.given_ms.append(timeout_ms)
        self._handler.sleep(0.1)
        if not self.is_ready:
            raise GroupCoordinatorNotAvailable(f"not within {timeout_ms} ms")
        return self.brokers[1 + len(self.asked) % 2]


@pytest.fixture
def cluster(handler: Handler) -> Cluster:
    return Cluster(handler)


@pytest.fixture
def known(handler: Handler) -> Coordinators:
    return Coordinators(handler)


def test_members_that_start_together_ask_once(
    handler: Handler, cluster: Any, known: Coordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elections, "ASKED_TWICE_AFTER_S", 20.0)
    found: list[Any] = []
    workers = [handler.spawn(lambda: found.append(known.find(cluster, "group"))) for _ in range(20)]
    assert all(worker.join(10) for worker in workers)
    assert cluster.asked == ["group"]
    assert found == [cluster.brokers[2]] * 20
    known.find(cluster, "another")
    assert cluster.asked == ["group", "another"]


def test_what_is_no_longer_true_is_asked_for_again(
    cluster: Any, known: Coordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = known.find(cluster, "group")
    known.forget("group", None)  # a member that knew none has nothing to say
    assert known.find(cluster, "group") is first
    known.forget("group", first)
    second = known.find(cluster, "group")
    assert second is not first
    known.forget("group", first)  # by a member that is late
    assert known.find(cluster, "group") is second
    cluster.brokers[second.id] = SimpleNamespace(id=second.id)  # it has moved to another address
    assert known.find(cluster, "group") is first
    monkeypatch.setattr(elections, "GOOD_S", 0.0)
    assert known.find(cluster, "group") is not first
    assert len(cluster.asked) == 4


def test_an_error_is_its_callers_and_the_next_one_asks(cluster: Any, known: Coordinators) -> None:
    cluster.is_ready = False
    with pytest.raises(GroupCoordinatorNotAvailable, match="not within"):
        known.find(cluster, "group", 300)
    cluster.is_ready = True
    assert known.find(cluster, "group").id in (1, 2)


def test_a_worker_that_was_interrupted_holds_nobody_up(
    handler: Handler, cluster: Any, known: Coordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the lock's being taken and the `try` behind it."""
    monkeypatch.setattr(elections, "ASKED_TWICE_AFTER_S", 0.2)
    known.find(cluster, "group")
    known.forget("group", cluster.brokers[2])
    known._asking["group"].acquire()
    began = handler.now()
    assert known.find(cluster, "group") is cluster.brokers[1]
    assert handler.now() - began < 5
    known.forget("group", cluster.brokers[1])
    known.find(cluster, "group", 1000)
    assert cluster.given_ms[-1] <= 800  # the wait for the other worker is a part of the caller's time
