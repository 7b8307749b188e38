"""Credentials that Kafka's own Java programs make and use: SCRAM users, delegation tokens, logins."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.brokers import KafkaCluster
from tests.brokers.settings import properties

_PROGRAM = Path(__file__).with_name("Credentials.java")
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class DelegationToken(NamedTuple):
    """A delegation token: its id and its HMAC are a user and a password for SCRAM."""

    token_id: str
    hmac: str


def change_user(kafka: KafkaCluster, name: str, mechanism: str, password: str | None) -> None:
    """Make a SCRAM user, or give it another password, with kafka-configs.

    :param password: None: delete the user's credentials of this mechanism
    """
    change = (
        ("--delete-config", mechanism) if password is None else ("--add-config", f"{mechanism}=[password={password}]")
    )
    # Before 2.7 (KIP-554) the tool writes to ZooKeeper.
    at = (
        ("--bootstrap-server", kafka.hosts)
        if kafka.release.numbers >= (2, 7)
        else ("--zookeeper", kafka.zookeeper_hosts)
    )
    kafka.run_java(
        "kafka.admin.ConfigCommand", *at, "--alter", *change, "--entity-type", "users", "--entity-name", name
    )


def scram_login(kafka: KafkaCluster, user: str, password: str, token: bool = False) -> dict[str, object]:
    """Return the settings with which Kafka's Java clients log in by SCRAM-SHA-256.

    :param token: user and password are a delegation token
    """
    options = f'username="{user}" password="{password}"' + (' tokenauth="true"' if token else "")
    return {
        "bootstrap.servers": kafka.hosts_of("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f"{_SCRAM} required {options};",
    }


def run_client(
    kafka: KafkaCluster, settings: Mapping[str, object], *command: str, options: tuple[str, ...] = ()
) -> str:
    """Run Kafka's Java client, and return the last line that it prints.

    :param settings: of the client
    :param command: `topics`, `token` or `expire HMAC`
    :param options: of the JVM
    :raises BrokerSetupError: it fails
    """
    path = kafka.directory / f"client-{uuid.uuid4().hex}.properties"
    path.write_text(properties({"default.api.timeout.ms": 20_000, "request.timeout.ms": 10_000} | dict(settings)))
    return kafka.run_java(*options, str(_PROGRAM), str(path), *command).strip().splitlines()[-1]


def delegation_token(kafka: KafkaCluster) -> DelegationToken:
    """Make a delegation token of the cluster's user, with Kafka's Java client."""
    told = run_client(kafka, scram_login(kafka, kafka.user, kafka.password), "token")
    _, token_id, hmac = told.split()
    return DelegationToken(token_id, hmac)
