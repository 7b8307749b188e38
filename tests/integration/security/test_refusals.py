"""Logins that a real broker refuses: each error is named, says what to do, and comes at once."""

from __future__ import annotations

import time

import pytest

from pykafka import KafkaClient, SslConfig
from pykafka.exceptions import (
    IllegalSaslState,
    KafkaException,
    NoBrokersAvailableError,
    SaslAuthenticationFailed,
    SaslRequiredError,
    UnsupportedSaslMechanism,
)
from pykafka.handlers import Handler
from pykafka.security import Mechanism
from tests.brokers import KafkaCluster
from tests.support.logins import credentials, log_in

pytestmark = [pytest.mark.kafka, pytest.mark.needs("sasl"), pytest.mark.timeout(400)]

LOGINS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def refusal(
    handler: Handler, kafka: KafkaCluster, listener: str, sasl: Mechanism, expected: type[KafkaException]
) -> KafkaException:
    started = time.monotonic()
    with pytest.raises(expected) as refused:
        log_in(kafka, listener, sasl, handler=handler)
    # Not after attempt upon attempt: the next broker would refuse them, too.
    assert time.monotonic() - started < 10
    address = kafka.hosts_of(listener)
    assert address in str(refused.value)
    assert refused.value.ledger
    return refused.value


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", LOGINS)
def test_a_wrong_password(secure_kafka: KafkaCluster, handler: Handler, mechanism: str, listener: str) -> None:
    sasl = credentials(secure_kafka, mechanism, "Pw-that-is-wrong")
    error = refusal(handler, secure_kafka, listener, sasl, SaslAuthenticationFailed)
    assert "check user name and password" in str(error)
    assert "'alice'" in str(error)
    assert "Pw-that" not in str(error)
    assert [attempt.stage for attempt in error.ledger] == ["SASL"]


@pytest.mark.parametrize("mechanism", LOGINS)
def test_an_unknown_user(secure_kafka: KafkaCluster, handler: Handler, mechanism: str) -> None:
    sasl = credentials(secure_kafka, mechanism, user="mallory")
    error = refusal(handler, secure_kafka, "SASL_PLAINTEXT", sasl, SaslAuthenticationFailed)
    assert "'mallory'" in str(error)


@pytest.mark.needs("sessions")
def test_a_mechanism_that_the_listener_does_not_offer(secure_kafka: KafkaCluster, handler: Handler) -> None:
    sasl = credentials(secure_kafka, "SCRAM-SHA-512")
    error = refusal(handler, secure_kafka, "SHORT_SSL", sasl, UnsupportedSaslMechanism)
    assert "it offers: OAUTHBEARER, PLAIN, SCRAM-SHA-256" in str(error)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_a_listener_without_sasl(secure_kafka: KafkaCluster, handler: Handler, listener: str) -> None:
    sasl = credentials(secure_kafka, "PLAIN")
    error = refusal(handler, secure_kafka, listener, sasl, IllegalSaslState)
    assert "this listener takes no login by SASL" in str(error)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_with_sasl_met_without(secure_kafka: KafkaCluster, handler: Handler, listener: str) -> None:
    tls = SslConfig(secure_kafka.cafile) if listener == "SASL_SSL" else None
    hosts = secure_kafka.hosts_of(listener)
    with pytest.raises(KafkaException) as refused:
        KafkaClient(hosts=hosts, ssl_config=tls, handler=handler)
    if tls is not None and secure_kafka.release.numbers < (1, 0):
        # It neither answers nor closes such a connection.
        assert "or SASL (give sasl=)" in str(refused.value)
        return
    assert "wants SASL" in str(refused.value)
    assert isinstance(refused.value, SaslRequiredError)
    assert sorted(refused.value.mechanisms) == sorted(secure_kafka.mechanisms)


@pytest.mark.needs("signed tokens")
@pytest.mark.parametrize("fault", ["expired", "audience", "signature"])
def test_a_wrong_token(secure_kafka: KafkaCluster, handler: Handler, fault: str) -> None:
    token = {
        "expired": secure_kafka.token(lifetime_s=-5),
        "audience": secure_kafka.token(aud="another"),
        "signature": secure_kafka.token().rpartition(".")[0] + "." + secure_kafka.token("bob").rpartition(".")[2],
    }[fault]
    sasl = credentials(secure_kafka, "OAUTHBEARER", token)
    error = refusal(handler, secure_kafka, "SASL_PLAINTEXT", sasl, SaslAuthenticationFailed)
    assert token not in str(error)


@pytest.mark.parametrize("sasl", [False, True], ids=["without", "with"])
def test_tls_and_plaintext_mixed_up(secure_kafka: KafkaCluster, sasl: bool) -> None:
    login = credentials(secure_kafka, "SCRAM-SHA-256") if sasl else None
    with pytest.raises(NoBrokersAvailableError, match="it is a TLS port"):
        KafkaClient(hosts=secure_kafka.hosts_of("SASL_SSL"), sasl=login)
    with pytest.raises(NoBrokersAvailableError, match="may not be a TLS port"):
        KafkaClient(
            hosts=secure_kafka.hosts_of("SASL_PLAINTEXT"), sasl=login, ssl_config=SslConfig(secure_kafka.cafile)
        )
