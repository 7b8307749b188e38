"""The order of a partition's batches while its leader changes: those that the former leader has come first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.producer.accumulator import PartitionQueue
from pykafka.producer.leader_requests import LeaderRequests


@pytest.fixture
def leaders() -> list[LeaderRequests]:
    handler = ThreadingHandler()
    core: Any = SimpleNamespace(
        handler=handler,
        lock=handler.Lock(),
        retry_policy=mock.Mock(),
        listener=None,
        options=SimpleNamespace(idempotent=True, ack_timeout_ms=1000, delivery_timeout_ms=1000),
        cluster=SimpleNamespace(metadata_error=None, refresh_schedule=None, socket_timeout_ms=1000),
    )
    return [LeaderRequests(core, mock.Mock(address=f"127.0.0.1:{port}"), mock.Mock()) for port in (9092, 9093)]


def test_a_new_leader_gets_nothing_before_the_former_has_answered(leaders: list[LeaderRequests]) -> None:
    former, new = leaders
    queue = PartitionQueue(0, "orders")
    window = queue.window
    window.adopt(7, 0)
    first = window.begin(mock.Mock(), 1)
    window.number(first)
    window.on_result(first, None)  # from now on several may be in flight
    queue.sender = former
    second = window.begin(mock.Mock(), 1)
    window.number(second)

    assert not former.must_wait(queue)
    assert new.must_wait(queue)
    window.on_result(second, None)
    assert not new.must_wait(queue)
