"""Brokers and proxies that close the connection on requests that they do not know, where others answer with an error."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient, Plain, Scram
from pykafka.exceptions import KafkaException, NoBrokersAvailableError
from pykafka.handlers import Handler
from pykafka.network import known_versions
from pykafka.protocol import wire
from tests.support import scripted
from tests.support.loops import Concurrency
from tests.support.sasl import USERS, SaslBroker
from tests.support.scripted import TOPIC, ScriptedBroker

VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA, HEARTBEAT = (
    cls.api_key
    for cls in (
        wire.ApiVersionsRequest,
        wire.SaslHandshakeRequest,
        wire.SaslAuthenticateRequest,
        wire.MetadataRequest,
        wire.HeartbeatRequest,
    )
)
PLAIN, SCRAM = Plain("alice", USERS["alice"]), Scram("alice", USERS["alice"])


@pytest.fixture(autouse=True)
def versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make scripted brokers name the highest version of ApiVersions, and no version of the login's APIs."""
    monkeypatch.setitem(scripted.VERSIONS, wire.ApiVersionsRequest, wire.ApiVersionsRequest.max_version)
    monkeypatch.setattr(known_versions, "_hints", set())


class Picky:
    """Closes on versions of an API above the highest that it takes, and notes what it was asked.

    :param highest: {API key: highest version}
    """

    def __init__(self, highest: dict[int, int]) -> None:
        self._highest = highest
        self.asked: list[tuple[int, int]] = []
        self.closed = 0

    def __call__(self, key: int, version: int) -> bool:
        self.asked.append((key, version))
        closes = version > self._highest.get(key, 99)
        self.closed += closes
        return closes


def _use(hosts: str, **options: Any) -> None:
    with KafkaClient(hosts, socket_timeout_ms=10_000, **options) as client:
        assert list(client.topics) == [TOPIC]
        ranges = client.brokers[1].api_ranges()
        assert ranges[wire.ProduceRequest.api_key] == (0, 7), "it was taken for Kafka 0.8.2"


@pytest.mark.on_asyncio
@pytest.mark.parametrize("highest", [3, 2, 0])
@pytest.mark.parametrize("sasl", [None, PLAIN, SCRAM], ids=["plaintext", "PLAIN", "SCRAM"])
def test_a_broker_that_closes_on_a_version_of_api_versions_is_reached(
    concurrency: Concurrency, highest: int, sasl: Any
) -> None:
    """With SASL no broker was available; in plaintext it was taken for Kafka 0.8.2, without headers and groups."""
    with ScriptedBroker() if sasl is None else SaslBroker() as server:
        server.closes_on = picky = Picky({VERSIONS: highest})
        _use(server.hosts, sasl=sasl, **concurrency())
        # once for each address, of which there are two objects: the seed's and the broker's own
        assert picky.closed <= 2


def test_a_version_that_is_known_is_asked_for_at_once(handler: Handler) -> None:
    with ScriptedBroker() as server:
        server.closes_on = picky = Picky({VERSIONS: 2})
        with KafkaClient(server.hosts, handler=handler) as client:
            before = picky.closed
            for _ in range(3):
                client.brokers[1].forget_versions()
                client.brokers[1].drop_connections()
                client.brokers[1].call(wire.MetadataRequest())
            assert picky.closed == before


@pytest.mark.parametrize("sasl", [None, PLAIN], ids=["plaintext", "PLAIN"])
def test_a_broker_that_closes_on_the_heartbeat_beside_is_reached(handler: Handler, sasl: Any) -> None:
    with ScriptedBroker() if sasl is None else SaslBroker() as server:
        server.closes_on = Picky({HEARTBEAT: -1, HANDSHAKE: -1} if sasl is None else {HEARTBEAT: -1})
        _use(server.hosts, sasl=sasl, handler=handler)


@pytest.mark.on_asyncio
@pytest.mark.parametrize("sasl", [PLAIN, SCRAM], ids=["PLAIN", "SCRAM"])
@pytest.mark.parametrize(
    "highest",
    [
        {HANDSHAKE: 0},
        {AUTHENTICATE: 1},
        {AUTHENTICATE: 0},
        {AUTHENTICATE: 0, VERSIONS: 2},
        {HANDSHAKE: 0, VERSIONS: 0},
    ],
    ids=str,
)
def test_a_broker_that_closes_on_a_version_of_the_login_is_reached(
    concurrency: Concurrency, sasl: Any, highest: dict[int, int]
) -> None:
    with SaslBroker() as server:
        server.closes_on = picky = Picky(highest)
        options = concurrency()
        with KafkaClient(server.hosts, sasl=sasl, **options) as client:
            assert list(client.topics) == [TOPIC]
            before = picky.closed
            client.brokers[1].drop_connections()
            client.brokers[1].call(wire.MetadataRequest())
            client.brokers[1].drop_connections()
            client.brokers[1].call(wire.MetadataRequest())
            assert picky.closed - before <= 1, "the node does not remember the version"


def test_a_broker_that_closes_on_api_versions_before_the_login_is_reached(handler: Handler) -> None:
    with SaslBroker() as server:
        logged_in = threading.Event()

        def closes(key: int, version: int) -> bool:
            logged_in.set() if key == AUTHENTICATE else None
            return key == VERSIONS and not logged_in.is_set()

        server.closes_on = closes
        _use(server.hosts, sasl=PLAIN, handler=handler)


@pytest.mark.on_asyncio
@pytest.mark.parametrize("sasl", [None, PLAIN], ids=["plaintext", "PLAIN"])
def test_a_broker_that_closes_on_a_version_of_metadata_is_reached(concurrency: Concurrency, sasl: Any) -> None:
    with ScriptedBroker() if sasl is None else SaslBroker() as server:
        server.closes_on = picky = Picky({METADATA: 4})
        with KafkaClient(server.hosts, sasl=sasl, **concurrency()) as client:
            assert list(client.topics) == [TOPIC]
            for _ in range(3):
                client.update_cluster()
            before = picky.closed
            client.update_cluster()
            assert picky.closed == before, "the client does not remember the version"


def test_one_hang_up_on_metadata_is_no_reason_to_ask_in_a_lower_version_for_ever(handler: Handler) -> None:
    with ScriptedBroker() as server, KafkaClient(server.hosts, handler=handler) as client:
        for _ in range(3):
            client.brokers[1].drop_connections()
            cuts = iter([True])
            server.closes_on = lambda key, _, cuts=cuts: key == METADATA and next(cuts, False)  # type: ignore[misc]
            client.update_cluster()
            picky = Picky({})
            server.closes_on = picky
            client.update_cluster()
            assert (METADATA, 5) in picky.asked


def test_wrong_credentials_are_not_sent_again_and_again(handler: Handler) -> None:
    """A peer that closes the connection for them may count the attempts."""
    with SaslBroker() as server:
        picky = Picky({AUTHENTICATE: -1})
        server.closes_on = picky
        with pytest.raises(NoBrokersAvailableError):
            KafkaClient(server.hosts, sasl=PLAIN, handler=handler)
        assert [version for key, version in picky.asked if key == AUTHENTICATE] == [2, 0]


class Slow:
    """A peer that closes each connection some time after the first bytes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Slow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, suppress(OSError):
                peer.recv(1)
                time.sleep(self._seconds)


@pytest.mark.parametrize("sasl", [None, PLAIN], ids=["plaintext", "PLAIN"])
def test_all_tries_together_have_the_time_of_one_connect(handler: Handler, sasl: Any) -> None:
    with Slow(0.8) as server:
        began = handler.now()
        with pytest.raises(KafkaException):
            KafkaClient(server.hosts, handler=handler, sasl=sasl, socket_timeout_ms=1500)
        assert handler.now() - began < 6
