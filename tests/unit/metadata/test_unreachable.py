"""`KafkaClient` and `kafka-tools doctor` say why a cluster cannot be reached, and how to mend it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from pykafka import KafkaClient, SslConfig
from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.exceptions import (
    ConnectionRefused,
    ConnectTimeoutError,
    KafkaException,
    LeaderNotFoundError,
    NameResolutionError,
    NoBrokersAvailableError,
    NotKafkaError,
    ResponseTimeoutError,
    SocketDisconnectedError,
    TlsError,
)
from pykafka.handlers import Address, GEventHandler, Handler, ThreadingHandler
from pykafka.protocol import wire
from tests.support.certs import Pems
from tests.support.scripted import ScriptedBroker


class Trouble(NamedTuple):
    """One way in which a cluster cannot be reached, and the sentences about it.

    :param peer: a name of `peers`, or "host:port"
    :param error: of the one broker, in the ledger of the client's
    :param step: that the doctor says fails
    :param said: by both
    :param remedies: of the client, and of the doctor
    :param tls: whom to trust; None for plaintext
    """

    peer: str
    error: type[KafkaException]
    step: str
    said: str
    remedies: tuple[str, str]
    tls: str | None = None


#: An authority that has signed nothing here.
STRANGER = "stranger.pem"
TROUBLES = {
    "DNS": Trouble(
        "nonexistent.invalid:9092", NameResolutionError, "DNS", "cannot be resolved", ("check the name",) * 2
    ),
    "refused": Trouble("refused", ConnectionRefused, "TCP", "refused", ("is that its port?",) * 2),
    "unanswered": Trouble("swallows", ConnectTimeoutError, "TCP", "did not answer within", ("a firewall",) * 2),
    "untrusted": Trouble("tls_broker", TlsError, "TLS", "is not trusted", ("cafile", "--cafile"), STRANGER),
    "another name": Trouble(
        "tls_broker_elsewhere", TlsError, "TLS", "does not name 'localhost'", ("connect by a name",) * 2, "ca.pem"
    ),
    "no client certificate": Trouble(
        "tls_broker_asking", TlsError, "TLS", "refused the handshake", ("certfile", "--certfile"), "ca.pem"
    ),
    "plaintext to TLS": Trouble("tls_broker", KafkaException, "ApiVersions", "TLS", ("ssl_config=", "use --tls")),
    "TLS to plaintext": Trouble("hang_up", TlsError, "TLS", "TLS port", ("leave ssl_config out", "--tls"), "ca.pem"),
    "TLS unanswered": Trouble("silent", TlsError, "TLS", "in time", ("leave ssl_config out", "--tls"), "ca.pem"),
    "no Kafka": Trouble("http", NotKafkaError, "ApiVersions", "no Kafka broker", ("its listeners",) * 2),
    "ApiVersions unanswered": Trouble(
        "silent", ResponseTimeoutError, "ApiVersions", "did not answer the request for its versions", ("TLS", "TLS")
    ),
    "hangs up": Trouble(
        "hang_up", SocketDisconnectedError, "ApiVersions", "closed the connection", ("not be a Kafka broker",) * 2
    ),
}


@pytest.fixture(params=list(TROUBLES))
def trouble(request: pytest.FixtureRequest) -> Trouble:
    return TROUBLES[request.param]


def where(trouble: Trouble, peers: dict[str, int]) -> str:
    return f"localhost:{peers[trouble.peer]}" if trouble.peer in peers else trouble.peer


@pytest.fixture(autouse=True)
def one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve `localhost` to one address, whatever this machine says."""
    for kind in (ThreadingHandler, GEventHandler):
        monkeypatch.setattr(kind, "resolve", _resolving(kind.resolve))


def _resolving(own: Callable[..., list[Address]]) -> Callable[..., list[Address]]:
    def resolve(self: Handler, host: str, port: int, timeout: float | None = None, **wanted: Any) -> list[Address]:
        return own(self, "127.0.0.1" if host == "localhost" else host, port, timeout, **wanted)

    return resolve


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
def test_the_client_says(trouble: Trouble, peers: dict[str, int], pems: Pems, greenlets: bool) -> None:
    hosts = where(trouble, peers)
    config = None if trouble.tls is None else SslConfig(pems.path(trouble.tls))
    with pytest.raises(NoBrokersAvailableError) as caught:
        KafkaClient(hosts=hosts, ssl_config=config, use_greenlets=greenlets, socket_timeout_ms=500)
    text = str(caught.value)
    for wanted in (trouble.said, trouble.remedies[0], hosts.partition(":")[0] if "invalid" in hosts else hosts[9:]):
        assert wanted in text
    ((address, error),) = caught.value.ledger
    assert address == hosts
    assert isinstance(error, trouble.error)
    assert error.ledger[-1].stage == trouble.step


def test_the_doctor_says(trouble: Trouble, peers: dict[str, int], pems: Pems) -> None:
    options = [] if trouble.tls is None else ["--cafile", pems.path(trouble.tls)]
    asked = ["--socket_timeout_ms", "500", *options, "doctor", where(trouble, peers), "--json"]
    result = CliRunner().invoke(tools, asked)
    assert result.exit_code == Status.UNREACHABLE
    (failure,) = [one for one in json.loads(result.stdout)["findings"] if one["result"] == "FAILED"]
    assert failure["step"] == trouble.step
    assert trouble.said in failure["detail"]
    assert trouble.remedies[1] in failure["detail"]


def test_each_address_of_a_host_is_named(peers: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(_: object, host: str, port: int, timeout: float | None = None, **wanted: Any) -> list[Address]:
        return [Address(socket.AF_INET, (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(ThreadingHandler, "resolve", resolve)
    port = peers["refused"]
    with pytest.raises(NoBrokersAvailableError, match=rf"127\.0\.0\.2:{port}.*127\.0\.0\.1:{port}") as caught:
        KafkaClient(hosts=f"localhost:{port}")
    assert [step.stage for step in caught.value.ledger[0][1].ledger] == ["TCP", "TCP"]


class NoBrokers(ScriptedBroker):
    """A broker that knows of none, itself not excepted."""

    def _metadata(self) -> wire.MetadataResponse:
        return wire.MetadataResponse(cluster_id="one")


@pytest.fixture
def lonely() -> Iterator[ScriptedBroker]:
    with NoBrokers() as broker:
        yield broker


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
def test_a_cluster_without_brokers(lonely: ScriptedBroker, greenlets: bool, caplog: pytest.LogCaptureFixture) -> None:
    with KafkaClient(hosts=lonely.hosts, use_greenlets=greenlets, socket_timeout_ms=500) as client:
        assert client.brokers == {}
        assert "names no brokers" in caplog.text
        with pytest.raises((LeaderNotFoundError, KeyError), match="names no brokers: it is starting"):
            client.topics["any"]


def test_the_doctor_of_a_cluster_without_brokers(lonely: ScriptedBroker) -> None:
    result = CliRunner().invoke(tools, ["doctor", lonely.hosts, "--json"])
    assert result.exit_code == Status.UNREACHABLE
    (failure,) = [one for one in json.loads(result.stdout)["findings"] if one["result"] == "FAILED"]
    assert failure["step"] == "Metadata"
    assert "names no brokers: it is starting" in failure["detail"]
