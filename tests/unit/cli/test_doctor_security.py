"""kafka-tools doctor: one sentence for each failure of certificates and logins, with the stage and the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from tests.brokers.tokens import unsecured_token
from tests.support.certs import Pems
from tests.support.sasl import USERS, SaslBroker
from tests.support.token_endpoint import TokenEndpoint

Settings = Mapping[str, str]


def failure(tmp_path: Path, hosts: str, settings: Settings) -> tuple[str, str]:
    """Run it with a configuration file, and give step and detail of the one failure that it finds."""
    file = tmp_path / "client.properties"
    told = {"bootstrap.servers": hosts, **settings}
    file.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
    arguments = ["--socket_timeout_ms", "3000", "doctor", "--config", str(file), "--json"]
    result = CliRunner().invoke(tools, arguments)
    assert result.exit_code == Status.UNREACHABLE, result.output
    found = [one for one in json.loads(result.stdout)["findings"] if one["result"] == "FAILED"]
    assert len(found) == 1, found
    assert "hidden" not in result.output
    detail = str(found[0]["detail"])
    assert "\n" not in detail
    return str(found[0]["step"]), detail


def tls(pems: Pems, **more: str) -> Settings:
    names = {"crl": "ssl.crl.location", "certificate": "ssl.certificate.location", "key": "ssl.key.location"}
    told = {names[key]: pems.path(value) for key, value in more.items() if key != "ca"}
    return {"security.protocol": "SSL", "ssl.ca.location": pems.path(more.get("ca", "ca.pem")), **told}


@pytest.mark.parametrize(
    ("peer", "settings", "said", "remedy"),
    [
        ("tls_broker_expired", tls, "the certificate of 'localhost' has expired", "renew it on the broker"),
        ("tls_broker_early", tls, "the certificate of 'localhost' is not valid yet", "clock"),
        ("tls_broker", lambda pems: tls(pems, ca="stranger.pem"), "is not trusted", "--cafile"),
        ("tls_broker_elsewhere", tls, "does not name 'localhost'", "connect by a name that it has"),
        ("tls_broker_revoked", lambda pems: tls(pems, crl="revoked.crl"), "was revoked", "give the broker a new one"),
        ("tls_broker_asking", tls, "this client has none", "--certfile"),
        ("tls_broker_12_asking", tls, "this client has none", "--certfile"),
        (
            "tls_broker_asking",
            lambda pems: tls(pems, certificate="client-expired.pem", key="client-expired.key"),
            "that of this client has expired, on 20",
            "renew it",
        ),
        (
            "tls_broker_12_asking",
            lambda pems: tls(pems, certificate="client-stranger.pem", key="client-stranger.key"),
            "does not trust the authority of the client certificate",
            "--certfile",
        ),
        ("http", tls, "what answers does not speak TLS", "use the broker's TLS port"),
    ],
)
def test_certificates(
    peers: dict[str, int], pems: Pems, tmp_path: Path, peer: str, settings: Any, said: str, remedy: str
) -> None:
    step, detail = failure(tmp_path, f"localhost:{peers[peer]}", settings(pems))
    assert step == "TLS"
    assert said in detail
    assert remedy in detail


@pytest.mark.parametrize("with_login", [False, True], ids=["without", "with"])
def test_plaintext_to_a_tls_port(peers: dict[str, int], tmp_path: Path, with_login: bool) -> None:
    settings = login("PLAIN", "hidden") if with_login else {}
    step, detail = failure(tmp_path, f"localhost:{peers['tls_broker']}", settings)
    assert step == ("SASL" if with_login else "ApiVersions")
    assert "it answers in TLS: use --tls" in detail


def login(mechanism: str, password: str, user: str = "alice") -> Settings:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(tmp_path: Path, mechanism: str) -> None:
    with SaslBroker() as broker:
        step, detail = failure(tmp_path, broker.hosts, login(mechanism, "hidden"))
    assert step == "SASL"
    assert "the broker refuses the login" in detail
    assert "check user name and password" in detail


def test_a_mechanism_that_is_not_offered(tmp_path: Path) -> None:
    with SaslBroker() as broker:
        broker.mechanisms = {"SCRAM-SHA-256": broker.mechanisms["SCRAM-SHA-256"]}
        step, detail = failure(tmp_path, broker.hosts, login("PLAIN", "hidden"))
    assert step == "SASL"
    assert "does not offer PLAIN here; it offers: SCRAM-SHA-256" in detail


def test_no_login_where_one_is_wanted(tmp_path: Path) -> None:
    with SaslBroker() as broker:
        step, detail = failure(tmp_path, broker.hosts, {})
    assert step == "SASL"
    assert re.search("this listener wants SASL.*PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", detail)
    assert "--config FILE" in detail


def endpoint_down(endpoint: TokenEndpoint) -> None:
    endpoint.fail(503, b"down for a while", times=100)


def endpoint_refuses(endpoint: TokenEndpoint) -> None:
    endpoint.fail(401, b'{"error": "invalid_client"}', times=100)


def endpoint_gives_old_tokens(endpoint: TokenEndpoint) -> None:
    endpoint.lifetime_s = -5


@pytest.mark.parametrize(
    ("prepare", "said", "remedy"),
    [
        (endpoint_gives_old_tokens, "has expired", "get a new one, and compare the clocks"),
        (endpoint_down, "503", "look at it, or wait"),
        (endpoint_refuses, "invalid_client", "check its address, client_id, client_secret"),
    ],
)
def test_tokens(tmp_path: Path, prepare: Callable[[TokenEndpoint], None], said: str, remedy: str) -> None:
    with TokenEndpoint(unsecured_token) as endpoint, SaslBroker() as broker:
        prepare(endpoint)
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.client.id": endpoint.client_id,
            "sasl.oauthbearer.client.secret": endpoint.client_secret,
        }
        step, detail = failure(tmp_path, broker.hosts, settings)
        assert endpoint.client_secret not in detail
    assert step == "SASL"
    assert said in detail
    assert remedy in detail
    assert endpoint.url in detail or said == "has expired"


def test_an_endpoint_that_nobody_listens_at(tmp_path: Path, peers: dict[str, int]) -> None:
    url = f"http://127.0.0.1:{peers['refused']}/token"
    with SaslBroker() as broker:
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "hidden",
        }
        step, detail = failure(tmp_path, broker.hosts, settings)
    assert step == "SASL"
    assert url in detail
    assert "refused" in detail
    assert "check its address, that the service is up" in detail


def test_the_right_password(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    with SaslBroker() as broker:
        told = {"bootstrap.servers": broker.hosts, **login("SCRAM-SHA-512", USERS["alice"])}
        file.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
        result = CliRunner().invoke(tools, ["doctor", "--config", str(file), "--json"])
    assert result.exit_code == Status.OK, result.output
    assert "SASL" in [one["step"] for one in json.loads(result.stdout)["findings"]]
