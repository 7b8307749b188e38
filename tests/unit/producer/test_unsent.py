"""Errors of batches that did not reach the broker, and whether the leaders may be others by now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from pykafka.exceptions import (
    GroupLoadInProgress,
    KafkaException,
    SaslAuthenticationFailed,
    SocketDisconnectedError,
    ThrottledError,
    TokenUnavailableError,
    UnsupportedSaslMechanism,
)
from pykafka.handlers import ThreadingHandler
from pykafka.producer.leader_requests import LeaderRequests


@pytest.mark.parametrize(
    ("error", "looked_up"),
    [
        (SocketDisconnectedError("gone"), True),
        (SaslAuthenticationFailed("not let in"), True),  # the partition may be led by a broker that lets the client in
        (UnsupportedSaslMechanism("offers others"), True),
        (TokenUnavailableError("none"), True),
        (GroupLoadInProgress(), False),  # of a request for a producer id
        (ThrottledError("later"), False),
    ],
)
def test_leaders_are_looked_up_where_the_broker_has_not_answered(error: KafkaException, looked_up: bool) -> None:
    handler, owner, broker = ThreadingHandler(), mock.Mock(), mock.Mock(address="127.0.0.1:9092")
    core: Any = SimpleNamespace(
        handler=handler,
        lock=handler.Lock(),
        retry_policy=mock.Mock(),
        listener=None,
        options=SimpleNamespace(idempotent=False, ack_timeout_ms=1000, delivery_timeout_ms=1000),
        cluster=SimpleNamespace(metadata_error=None, refresh_schedule=None, socket_timeout_ms=1000),
    )
    LeaderRequests(core, broker, owner)._unsent([], error)
    assert owner.leaders_moved.called is looked_up
