"""The brokers of the tests with SASL, as librdkafka and Kafka's Java client meet them: whom they let in is their decision."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tests.brokers import BrokerSetupError, KafkaCluster
from tests.support.credentials import change_user, delegation_token, run_client, scram_login

pytestmark = [pytest.mark.kafka, pytest.mark.needs("sasl")]

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def settings(kafka: KafkaCluster, listener: str, mechanism: str, secret: str | None = None) -> dict[str, Any]:
    own = {
        "bootstrap.servers": kafka.hosts_of(listener),
        "security.protocol": "SASL_SSL" if listener.endswith("SSL") else "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "ssl.ca.location": kafka.cafile,
        "log_level": 0,
    }
    if mechanism == "OAUTHBEARER":
        return own | {"oauth_cb": lambda _: (secret or kafka.token(), time.time() + 300)}
    return own | {"sasl.username": kafka.user, "sasl.password": secret or kafka.password}


def produce(settings: dict[str, Any]) -> KafkaError | None:
    """Produce one message; return the first error of the connection, or None as soon as the message is acknowledged."""
    errors: list[KafkaError | None] = []
    producer = Producer(settings | {"error_cb": errors.append})
    producer.produce("by-another-client", b"one", on_delivery=lambda error, _: errors.append(error))
    end = time.monotonic() + 60
    while not errors and time.monotonic() < end:
        producer.poll(0.1)
    producer.purge()
    producer.flush(10)
    return errors[0]


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(
    "mechanism", ["PLAIN", *SCRAM, pytest.param("OAUTHBEARER", marks=pytest.mark.needs("bearer tokens"))]
)
def test_each_mechanism_logs_in(secure_kafka: KafkaCluster, listener: str, mechanism: str) -> None:
    assert mechanism in secure_kafka.mechanisms
    assert produce(settings(secure_kafka, listener, mechanism)) is None


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_a_wrong_password(secure_kafka: KafkaCluster, mechanism: str) -> None:
    error = produce(settings(secure_kafka, "SASL_PLAINTEXT", mechanism, "wrong"))
    assert error is not None
    assert error.code() == KafkaError._AUTHENTICATION


@pytest.mark.needs("signed tokens")
@pytest.mark.parametrize("fault", ["expired", "audience", "signature"])
def test_a_wrong_token(secure_kafka: KafkaCluster, fault: str) -> None:
    token = {
        "expired": secure_kafka.token(lifetime_s=-5),
        "audience": secure_kafka.token(aud="another"),
        "signature": secure_kafka.token().rpartition(".")[0] + "." + secure_kafka.token("bob").rpartition(".")[2],
    }[fault]
    error = produce(settings(secure_kafka, "SASL_PLAINTEXT", "OAUTHBEARER", token))
    assert error is not None
    assert "invalid_token" in error.str()


@pytest.mark.needs("sessions")
def test_a_mechanism_that_the_listener_does_not_offer(secure_kafka: KafkaCluster) -> None:
    error = produce(settings(secure_kafka, "SHORT_PLAINTEXT", "SCRAM-SHA-512"))
    assert error is not None
    assert "supported mechanisms" in error.str()


@pytest.mark.matrix
@pytest.mark.needs("delegation tokens")
def test_a_delegation_token_until_it_expires(secure_kafka: KafkaCluster) -> None:
    token = delegation_token(secure_kafka)
    login = scram_login(secure_kafka, token.token_id, token.hmac, token=True)
    assert "topics" in run_client(secure_kafka, login, "topics")
    owner = scram_login(secure_kafka, secure_kafka.user, secure_kafka.password)
    assert run_client(secure_kafka, owner, "expire", token.hmac) == "expired"
    with pytest.raises(BrokerSetupError, match="SaslAuthenticationException"):
        run_client(secure_kafka, login, "topics")


@pytest.mark.needs("scram users")
def test_a_user_of_kafka_configs(secure_kafka: KafkaCluster) -> None:
    change_user(secure_kafka, "carol", "SCRAM-SHA-256", "Pw-of-carol-2e8d")
    login = settings(secure_kafka, "SASL_PLAINTEXT", "SCRAM-SHA-256", "Pw-of-carol-2e8d") | {"sasl.username": "carol"}
    assert produce(login) is None
    change_user(secure_kafka, "carol", "SCRAM-SHA-256", None)
    assert produce(login) is not None
