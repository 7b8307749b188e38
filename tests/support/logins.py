"""Clients of this package that log in to the brokers of `secure_kafka`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka import KafkaClient, OAuthBearer, Plain, Scram, SslConfig
from pykafka.exceptions import SaslAuthenticationFailed
from pykafka.handlers import ThreadingHandler
from pykafka.security import Mechanism
from tests.brokers import KafkaCluster
from tests.support.waiting import until


def credentials(kafka: KafkaCluster, mechanism: str, secret: str | None = None, user: str | None = None) -> Mechanism:
    """Return credentials that the brokers accept.

    :param mechanism: its name
    :param secret: another password or token than the right one
    :param user: another user
    """
    if mechanism == "PLAIN":
        return Plain(user or kafka.user, secret or kafka.password)
    if mechanism == "OAUTHBEARER":
        return OAuthBearer(secret or (lambda: kafka.token(user or kafka.user)))
    return Scram(user or kafka.user, secret or kafka.password, mechanism)


def log_in(
    kafka: KafkaCluster, listener: str = "SASL_PLAINTEXT", sasl: Mechanism | None = None, **options: Any
) -> KafkaClient:
    """Return a client of one of the listeners, with TLS where that wants it.

    :param sasl: the credentials; None: the cluster's user, by SCRAM-SHA-256
    :param options: of the client
    """
    tls = SslConfig(kafka.cafile) if listener.endswith("SSL") else None
    sasl = sasl or credentials(kafka, "SCRAM-SHA-256")
    return KafkaClient(hosts=kafka.hosts_of(listener), sasl=sasl, ssl_config=tls, **options)


def options_of_spark(kafka: KafkaCluster, user: str, password: str) -> dict[str, str]:
    """Return the options of Spark's source and sink for a user, by SCRAM-SHA-256 without TLS."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "kafka.bootstrap.servers": kafka.hosts_of("SASL_PLAINTEXT"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def logs_in(kafka: KafkaCluster, listener: str, sasl: Mechanism) -> bool:
    """Return whether the brokers accept the credentials."""
    try:
        log_in(kafka, listener, sasl).close()
    except SaslAuthenticationFailed:
        return False
    return True


def eventually(happened: Callable[[], bool]) -> None:
    """Wait for what a broker does some milliseconds after it has answered the request for it."""
    until(ThreadingHandler(), happened, 30)
