"""The brokers of the tests with SASL, as librdkafka meets them: what they take and refuse is Kafka's own decision."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tests.brokers import KafkaCluster

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
