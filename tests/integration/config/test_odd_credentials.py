"""Logins by users and passwords of signs that files give a meaning, from each kind of file, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykafka import KafkaClient, Scram
from pykafka.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from pykafka.cli.app import tools
from pykafka.handlers import Handler
from tests.brokers import KafkaCluster
from tests.brokers.sasl import ODD, escaped
from tests.integration.security.test_other_clients import produce, settings
from tests.support.logins import eventually, logs_in

pytestmark = [pytest.mark.kafka, pytest.mark.needs("scram users"), pytest.mark.timeout(400)]

USER, PASSWORD = ODD
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
LINES = ("kcat.conf", "librdkafka.config", "app.conf")


@pytest.fixture(scope="module")
def odd_user(secure_kafka: KafkaCluster) -> Iterator[None]:
    """Create the user for SCRAM, too."""
    kind = ScramMechanism.SCRAM_SHA_512
    with KafkaClient(secure_kafka.hosts) as client:
        client.admin.alter_user_scram_credentials(UserScramCredentialUpsertion(USER, kind, PASSWORD))
        eventually(lambda: logs_in(secure_kafka, "SASL_PLAINTEXT", Scram(USER, PASSWORD, "SCRAM-SHA-512")))
        yield
        client.admin.alter_user_scram_credentials(UserScramCredentialDeletion(USER, kind))


def written(directory: Path, name: str, hosts: str, mechanism: str) -> Path:
    """Write a file as its kind wants the user and the password."""
    lines = [f"bootstrap.servers={hosts}", "security.protocol=SASL_PLAINTEXT", f"sasl.mechanism={mechanism}"]
    if name in LINES:
        lines += [f"sasl.username={USER}", f"sasl.password={PASSWORD}", "# the end"]
    else:
        user, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in ODD)
        login = f'{MODULES[mechanism]} required username="{user}" password="{password}";'
        lines += [f"sasl.jaas.config={escaped(login)}", "key.serializer=org.example.A"]
    path = directory / name
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("mechanism", MODULES)
@pytest.mark.parametrize("name", [*LINES, "client.properties", "java.config"])
@pytest.mark.usefixtures("odd_user")
def test_logins(secure_kafka: KafkaCluster, tmp_path: Path, handler: Handler, name: str, mechanism: str) -> None:
    path = written(tmp_path, name, secure_kafka.hosts_of("SASL_PLAINTEXT"), mechanism)
    with KafkaClient.from_config(path, handler=handler) as client:
        assert client.brokers
    result = CliRunner().invoke(tools, ["--config", str(path), "print_topics"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("mechanism", MODULES)
@pytest.mark.usefixtures("odd_user")
def test_librdkafka_logs_in_with_the_same(secure_kafka: KafkaCluster, mechanism: str) -> None:
    theirs = settings(secure_kafka, "SASL_PLAINTEXT", mechanism, PASSWORD) | {"sasl.username": USER}
    assert produce(theirs) is None
