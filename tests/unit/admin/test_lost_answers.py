"""Calls whose answer is lost: they repeat their request only if that can do no harm."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import SocketDisconnectedError
from pykafka.handlers import Handler
from pykafka.protocol import wire
from tests.support import scripted


class Tokens(scripted.ScriptedBroker):
    """Make tokens, and hang up on all but the first who ask for one."""

    asked = 0

    def _respond(self, request: Any) -> Any:
        if isinstance(request, wire.CreateDelegationTokenRequest):
            self.asked += 1
            return wire.CreateDelegationTokenResponse(token_id=f"token-{self.asked}")
        return super()._respond(request)


def test_a_token_is_not_made_twice(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.VERSIONS, wire.CreateDelegationTokenRequest, 1)
    broker = Tokens()
    broker.damage = lambda cls, frame: None if cls is wire.CreateDelegationTokenRequest and broker.asked > 1 else frame
    with broker, KafkaClient(broker.hosts, handler=handler) as client:
        assert client.admin.create_delegation_token().token_id == "token-1"
        with pytest.raises(SocketDisconnectedError):
            client.admin.create_delegation_token(timeout_ms=5000)
        assert broker.asked == 2


def test_a_connection_that_was_closed_while_it_was_idle_is_no_loss(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scripted.VERSIONS, wire.CreateDelegationTokenRequest, 1)
    with Tokens() as broker, KafkaClient(broker.hosts, handler=handler) as client:
        client.admin.create_delegation_token()
        for connection in broker._connections:
            connection.shutdown(2)
        handler.sleep(1.2)  # requests look whether the connection stands from one second on
        assert client.admin.create_delegation_token().token_id == "token-2"
