"""Logins that are renewed at real brokers whose sessions last three seconds (KIP-368)."""

from __future__ import annotations

import logging

import pytest

from pykafka import OAuthBearer
from pykafka.handlers import Handler
from pykafka.security import Mechanism
from tests.brokers import KafkaCluster
from tests.support.logins import credentials, log_in
from tests.support.traffic import check_round_trips

pytestmark = [pytest.mark.kafka, pytest.mark.needs("sasl", "sessions"), pytest.mark.timeout(400)]

LOAD_S = 8.0


def renewals(caplog: pytest.LogCaptureFixture) -> int:
    return sum("renewed the login" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
@pytest.mark.later("threads-PLAIN", "gevent-SCRAM", "threads-OAUTHBEARER", "gevent-OAUTHBEARER")
def test_nothing_is_lost_while_logins_are_renewed(
    secure_kafka: KafkaCluster, handler: Handler, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pykafka.network")
    sasl: Mechanism = (
        OAuthBearer(lambda: secure_kafka.token(secure_kafka.user, 10))
        if mechanism == "OAUTHBEARER"
        else credentials(secure_kafka, mechanism)
    )
    with log_in(secure_kafka, "SHORT_PLAINTEXT", sasl, handler=handler) as client:
        check_round_trips(client, handler, LOAD_S)
    assert renewals(caplog) >= 3
    assert "could not be renewed" not in caplog.text


@pytest.mark.later("threads")
def test_an_idle_connection_is_renewed_after_the_end_of_its_session(
    secure_kafka: KafkaCluster, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pykafka.network")
    with log_in(secure_kafka, "SHORT_PLAINTEXT", handler=handler) as client:
        client.update_cluster()  # over the connection to the broker itself, as later
        handler.sleep(3.5)
        client.update_cluster()
        assert renewals(caplog) == 1
