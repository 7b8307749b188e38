"""Brokers that ask for Kerberos, with Apache Kerby's KDC, as Kafka's Java client meets them; 0.9 and 0.10 start.

They need no library of Kerberos on this machine: the JVM has its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import LATEST, BrokerSetupError, KafkaCluster, Sasl
from tests.support.credentials import run_client

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(400)]


@pytest.fixture(scope="module", params=["2.8.2", LATEST])
def kerberos(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    with KafkaCluster(request.param, sasl=Sasl(kerberos=True)) as cluster:
        yield cluster


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_the_java_client_logs_in(kerberos: KafkaCluster, listener: str) -> None:
    assert kerberos.kdc is not None
    assert kerberos.certificates is not None
    settings = {
        "bootstrap.servers": kerberos.hosts_of(listener),
        "security.protocol": listener,
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": kerberos.kdc.user_jaas,
        "ssl.truststore.location": kerberos.certificates.truststore,
        "ssl.truststore.password": kerberos.certificates.password,
        "ssl.truststore.type": "PKCS12",
    }
    assert "topics" in run_client(kerberos, settings, "topics", options=(kerberos.kdc.jvm_option,))
    stranger = settings | {"sasl.jaas.config": kerberos.kdc.user_jaas.replace("alice@", "nobody@")}
    with pytest.raises(BrokerSetupError, match="LoginException"):
        run_client(kerberos, stranger, "topics", options=(kerberos.kdc.jvm_option,))


@pytest.mark.parametrize(
    ("version", "mechanisms"),
    [("0.9.0.1", ["GSSAPI"]), ("0.10.2.2", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"])],
)
def test_old_brokers_start(version: str, mechanisms: list[str]) -> None:
    with KafkaCluster(version, sasl=Sasl(kerberos=True)) as cluster:
        assert cluster.mechanisms == mechanisms
        assert "Successfully logged in" in cluster.log(1)
