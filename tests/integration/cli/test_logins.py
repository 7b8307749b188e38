"""kafka-tools and its doctor at listeners that ask for a login: what they say of each failure, and tokens."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from tests.brokers import KafkaCluster
from tests.integration.cli.test_nouns import eventually
from tests.support.token_endpoint import TokenEndpoint

pytestmark = [pytest.mark.kafka, pytest.mark.needs("latest")]


def run(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(tools, ["--socket_timeout_ms", "10000", *arguments])
    assert result.exit_code == status, result.output
    return result


def config(path: Path, listener: str, kafka: KafkaCluster, user: str, password: str, mechanism: str) -> str:
    """Write a configuration for a listener, and return the file."""
    lines = {
        "bootstrap.servers": kafka.hosts_of(listener),
        "security.protocol": listener,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
    if listener.endswith("SSL"):
        lines["ssl.ca.location"] = str(kafka.cafile)
    file = path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return str(file)


def failures(result: Result) -> list[dict[str, Any]]:
    return [one for one in json.loads(result.stdout)["findings"] if one["result"] == "FAILED"]


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_login_that_works(secure_kafka: KafkaCluster, tmp_path: Path, listener: str) -> None:
    kafka = secure_kafka
    file = config(tmp_path, listener, kafka, kafka.user, kafka.password, "SCRAM-SHA-256")
    found = json.loads(run("doctor", "--config", file, "--json").stdout)["findings"]
    expected = ["DNS", "TCP", *(["TLS"] if listener == "SASL_SSL" else []), "SASL", "ApiVersions", "Metadata"]
    assert [one["step"] for one in found][: len(expected)] == expected
    assert run("topics", "list", "--config", file).exit_code == Status.OK


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password(secure_kafka: KafkaCluster, tmp_path: Path, mechanism: str) -> None:
    kafka = secure_kafka
    file = config(tmp_path, "SASL_PLAINTEXT", kafka, kafka.user, "hidden-from-all", mechanism)
    result = run("doctor", "--config", file, "--json", status=Status.UNREACHABLE)
    assert {one["step"] for one in failures(result)} == {"SASL"}
    listed = run("topics", "list", "--config", file, "-vv", status=Status.FAILED)
    assert "check user name and password" in listed.stderr
    assert "hidden-from-all" not in result.output + listed.output


def test_a_mechanism_that_the_listener_does_not_offer(secure_kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka = secure_kafka
    file = config(tmp_path, "SHORT_SSL", kafka, kafka.user, kafka.password, "SCRAM-SHA-512")
    Path(file).write_text(Path(file).read_text().replace("protocol=SHORT_SSL", "protocol=SASL_SSL"))
    (found,) = failures(run("doctor", "--config", file, "--json", status=Status.UNREACHABLE))
    assert found["step"] == "SASL"
    assert "it offers: OAUTHBEARER, PLAIN, SCRAM-SHA-256" in found["detail"]


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_a_login_where_none_is_wanted(secure_kafka: KafkaCluster, tmp_path: Path, listener: str) -> None:
    kafka = secure_kafka
    file = config(tmp_path, listener, kafka, kafka.user, kafka.password, "PLAIN")
    Path(file).write_text(Path(file).read_text().replace(f"protocol={listener}", f"protocol=SASL_{listener}"))
    (found,) = failures(run("doctor", "--config", file, "--json", status=Status.UNREACHABLE))
    assert found["step"] == "SASL"
    assert "this listener takes no login by SASL" in found["detail"]
    assert "leave sasl out" in found["detail"]


def test_a_tls_port_without_tls(secure_kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka = secure_kafka
    file = config(tmp_path, "SASL_PLAINTEXT", kafka, kafka.user, kafka.password, "PLAIN")
    there, hosts = kafka.hosts_of("SASL_PLAINTEXT"), kafka.hosts_of("SASL_SSL")
    Path(file).write_text(Path(file).read_text().replace(there, hosts))
    (found,) = failures(run("doctor", "--config", file, "--json", status=Status.UNREACHABLE))
    assert "it answers in TLS: use --tls" in found["detail"]


@pytest.mark.parametrize("fault", ["expired", "refused", "down"])
def test_tokens_of_an_endpoint(secure_kafka: KafkaCluster, tmp_path: Path, fault: str) -> None:
    """The token has expired by the clock of this machine; the broker refuses it; the endpoint is down."""
    kafka = secure_kafka
    told = {
        "expired": ("has expired", "get a new one"),
        "refused": ("the broker refuses the login", "invalid_token"),
        "down": ("answers 503", "look at it, or wait"),
    }[fault]

    def token(subject: str, lifetime_s: float) -> str:
        return kafka.token(subject, lifetime_s, **({"aud": "another"} if fault == "refused" else {}))

    with TokenEndpoint(token, lifetime_s=-5 if fault == "expired" else 300) as endpoint:
        if fault == "down":
            endpoint.fail(503, b"", times=100)
        file = tmp_path / "client.properties"
        lines = {
            "bootstrap.servers": kafka.hosts_of("SASL_PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.client.id": endpoint.client_id,
            "sasl.oauthbearer.client.secret": endpoint.client_secret,
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        result = run("doctor", "--config", str(file), "--json", status=Status.UNREACHABLE)
        (found,) = failures(result)
        assert endpoint.client_secret not in result.output
    assert found["step"] == "SASL"
    assert not [text for text in told if text not in found["detail"]], found


def test_tls_where_none_is_spoken(secure_kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka = secure_kafka
    file = config(tmp_path, "SASL_PLAINTEXT", kafka, kafka.user, kafka.password, "PLAIN")
    Path(file).write_text(Path(file).read_text().replace("SASL_PLAINTEXT", "SASL_SSL"))
    result = run("doctor", "--config", file, "--json", status=Status.UNREACHABLE)
    assert {one["step"] for one in failures(result)} == {"TLS"}


def test_no_login_where_one_is_wanted(secure_kafka: KafkaCluster) -> None:
    hosts = secure_kafka.hosts_of("SASL_PLAINTEXT")
    (found,) = failures(run("doctor", hosts, "--json", status=Status.UNREACHABLE))
    assert found["step"] == "SASL"
    assert "this listener wants SASL" in found["detail"]
    assert "SCRAM-SHA-256" in found["detail"]
    assert "--config FILE" in found["detail"]


def _contains(text: str, part: str) -> None:
    assert part in text


def test_tokens(secure_kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka = secure_kafka
    file = config(tmp_path, "SASL_PLAINTEXT", kafka, kafka.user, kafka.password, "SCRAM-SHA-256")
    password = tmp_path / "password"
    made = run("tokens", "create", "--password-file", str(password), "--lifetime", "1h", "--json", "--config", file)
    (token,) = json.loads(made.stdout)
    assert token["owner"] == f"User:{kafka.user}"
    assert password.stat().st_mode & 0o777 == 0o600
    secret = password.read_text().strip()
    assert len(base64.b64decode(secret)) > 30
    id_ = token["token_id"]
    eventually(lambda: _contains(run("tokens", "list", "--config", file).stdout, id_))
    listed = run("tokens", "list", "--config", file)
    assert secret not in made.output + listed.output
    assert "expires" in run("tokens", "renew", id_, "--for", "30m", "--config", file).stdout
    assert "Nothing was changed" in run("tokens", "expire", id_, "--dry-run", "--config", file).stdout
    assert "expires" in run("tokens", "expire", id_, "--yes", "--config", file).stdout
    run("tokens", "renew", "missing", "--config", file, status=Status.NOT_FOUND)
