"""`CoordinatorConnection`: how long a call waits for the broker that coordinates its group."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.exceptions import KafkaException, ResponseTimeoutError
from pykafka.groups.coordinator_connection import CoordinatorConnection

#: The limit of a call, and the client's socket timeout (ms).
LIMIT_MS, SOCKET_MS = 1000, 30_000


class Silent:
    """A broker that accepts connections, and does not say which versions it speaks."""

    id = 1
    address = "b:9092"

    def __init__(self, clock: SimpleNamespace) -> None:
        self._clock = clock
        self.is_silent = True
        self.limits_ms: list[int] = []

    def connect_within(self, timeout_ms: int) -> None:
        """Wait for the versions."""
        self.limits_ms.append(timeout_ms)
        if self.is_silent:
            self._clock.now += timeout_ms / 1000
            raise ResponseTimeoutError("the broker did not answer", broker=self.address)


def test_a_coordinator_that_was_found_but_not_reached_is_reached_in_the_time_of_the_next_call() -> None:
    """The next call took it for reached, and waited for its versions for the whole socket timeout."""
    clock = SimpleNamespace(now=1000.0)

    def sleep(seconds: float) -> None:
        clock.now += seconds

    broker = Silent(clock)
    handler = SimpleNamespace(now=lambda: clock.now, sleep=sleep, random=Random(1))
    cluster: Any = SimpleNamespace(
        handler=handler,
        listener=None,
        socket_timeout_ms=SOCKET_MS,
        closed=False,
        brokers={broker.id: broker},
        coordinators=SimpleNamespace(
            find=lambda *args: broker, refused=lambda *args: False, has_successor=lambda *args: False
        ),
    )
    connection = CoordinatorConnection(cluster, "g", 100)
    for _ in range(2):
        began = clock.now
        with pytest.raises(KafkaException, match="did not answer"):
            connection.find(LIMIT_MS)
        assert clock.now - began <= 1.2 * LIMIT_MS / 1000
    asked = len(broker.limits_ms)
    assert asked >= 2
    broker.is_silent = False
    found: Any = connection.find(LIMIT_MS)
    assert found is broker
    assert len(broker.limits_ms) == asked + 1
    again: Any = connection.find()  # without a limit a known one is returned as it is
    assert again is broker
    assert len(broker.limits_ms) == asked + 1
