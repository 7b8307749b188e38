"""How long the search for a coordinator takes when brokers are silent."""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka.exceptions import GroupCoordinatorNotAvailable
from pykafka.handlers import Handler
from pykafka.metadata.elections import Coordinators, Unsettled, wait_for_coordinator
from pykafka.metadata.internal_topics import InternalTopics
from pykafka.protocol import wire
from pykafka.utils.backoff import Backoff


class Silent:
    """A cluster of brokers which says at the end of each search that there is no coordinator yet.

    :param brokers: how many there are
    """

    socket_timeout_ms = 30_000
    allow_auto_create_topics = False

    def __init__(self, brokers: int) -> None:
        self.clock = 0.0
        self.handler = SimpleNamespace(now=lambda: self.clock, sleep=self._sleep)
        self.coordinators = Coordinators(cast("Handler", self.handler))
        self.brokers: Any = dict.fromkeys(range(brokers))
        self.retry_backoff = Backoff(100, 1000, random.Random(1))
        self.internal_topics = cast(
            "InternalTopics", SimpleNamespace(waits=lambda *_: None, explained=lambda error, *_: error)
        )
        self.asked: list[tuple[int | None, int | None]] = []

    def _sleep(self, seconds: float) -> None:
        self.clock += seconds

    def call(self, request: Any, *, timeout_ms: int | None = None, within_ms: int | None = None, **_: object) -> Any:
        self.asked.append((timeout_ms, within_ms))
        self.clock += (within_ms or self.socket_timeout_ms) / 1000
        return wire.FindCoordinatorResponse(error_code=GroupCoordinatorNotAvailable.ERROR_CODE)

    def update(self, topics: Iterable[str | bytes] | None = None) -> None: ...

    def topic_metadata(self, name: str) -> None: ...


@pytest.mark.parametrize(
    ("brokers", "timeout_ms", "each_ms"),
    [(1, 600, 600), (2, 600, 300), (3, 600, 200), (50, 600, 200), (0, 600, 600), (3, 600_000, 30_000)],
)
def test_all_brokers_together_have_the_time_and_a_silent_one_leaves_some(
    brokers: int, timeout_ms: int, each_ms: int
) -> None:
    """Each had all of it: the search took a multiple."""
    cluster = Silent(brokers)
    with pytest.raises(GroupCoordinatorNotAvailable):
        wait_for_coordinator(cast("Unsettled", cluster), "g", timeout_ms)
    assert cluster.asked[0] == (each_ms, timeout_ms)
    assert cluster.clock < timeout_ms / 1000 + 2


def test_without_a_deadline_each_broker_has_the_socket_timeout() -> None:
    cluster = Silent(3)
    with pytest.raises(GroupCoordinatorNotAvailable):
        wait_for_coordinator(cast("Unsettled", cluster), "g", None)
    assert cluster.asked[0] == (None, None)
