"""Events about logins, at a scripted broker; no event has the password."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient, Scram
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from pykafka.metrics.listener import AUTHENTICATED, CONNECTED, REAUTHENTICATED, REFUSED
from pykafka.network import reauthentication
from tests.support.sasl import USERS, SaslBroker

LIMIT_S = 20.0


def test_logins_and_their_renewals(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reauthentication, "RENEW_PAUSE_S", 0.0)
    with (
        SaslBroker(lifetime_ms=600) as broker,
        KafkaClient(broker.hosts, handler=handler, sasl=Scram("alice", USERS["alice"])) as client,
    ):
        events: Any = client.cluster.flight
        deadline = handler.now() + LIMIT_S
        while REAUTHENTICATED not in {event[1] for event in events.events} and handler.now() < deadline:
            client.update_cluster()
            handler.sleep(0.02)
        kinds = [event[1] for event in events.events]
        assert kinds.index(AUTHENTICATED) == kinds.index(CONNECTED) + 1
        assert REAUTHENTICATED in kinds
        assert all(event[3] > 0 for event in events.events if event[1] in (AUTHENTICATED, REAUTHENTICATED))
        assert USERS["alice"] not in str(list(events.events))


def test_a_refused_login(handler: Handler) -> None:
    with SaslBroker() as broker, pytest.raises(KafkaException) as caught:
        KafkaClient(broker.hosts, handler=handler, sasl=Scram("alice", "hunter2-wrong"))
    assert f"{REFUSED}  " in str(caught.value.flight)
    assert "hunter2" not in str(caught.value.flight)
