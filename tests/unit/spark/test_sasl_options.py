"""`kafka.sasl.*`: logging in, by the names of Kafka's Java client."""

from __future__ import annotations

import pickle

import pytest

from pykafka import OAuthBearer, OidcClientCredentials, Plain, Scram
from pykafka.exceptions import SaslAuthenticationFailed
from pykafka.security import Mechanism
from pykafka.spark.cluster import OffsetReader
from pykafka.spark.errors import OptionError
from pykafka.spark.options import read_options, write_options
from pykafka.spark.optiontable import Mode
from tests.support.sasl import SaslBroker

READ = {"kafka.bootstrap.servers": "localhost:9093", "subscribe": "a"}
SCRAM = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="alice" password="x-secret";',
}
OAUTH = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://idp.test/token",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="c" clientSecret="x-secret" scope="k";',
}


def sasl(options: dict[str, str]) -> Mechanism | None:
    found = read_options({**READ, **options}, Mode.BATCH_READ).client.sasl
    written = write_options({"kafka.bootstrap.servers": "localhost:9093", **options}, Mode.BATCH_WRITE).client
    assert written.sasl == found
    assert hash(written) == hash(pickle.loads(pickle.dumps(written)))
    assert "x-secret" not in repr(written)
    return found


def test_credentials() -> None:
    assert sasl({}) is None
    assert sasl(SCRAM) == Scram("alice", "x-secret")
    plain = SCRAM["kafka.sasl.jaas.config"].replace("scram.Scram", "plain.Plain")
    assert sasl({**SCRAM, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": plain}) == Plain(
        "alice", "x-secret"
    )
    token = OidcClientCredentials("https://idp.test/token", "c", "x-secret", scope="k")
    assert sasl(OAUTH) == OAuthBearer(token)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_tls_goes_with_it(protocol: str) -> None:
    client = read_options({**READ, **SCRAM, "kafka.security.protocol": protocol}, Mode.BATCH_READ).client
    assert (client.tls is not None) == (protocol == "SASL_SSL")
    assert client.sasl is not None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kafka.sasl.jaas.config": "x-secret"}, "is about SASL, but 'kafka.security.protocol' is PLAINTEXT"),
        ({**SCRAM, "kafka.security.protocol": "SSL"}, "is about SASL, but 'kafka.security.protocol' is SSL"),
        ({"kafka.security.protocol": "SASL_SSL"}, "'kafka.sasl.jaas.config' is missing"),
        ({**SCRAM, "kafka.sasl.mechanism": "PLAIN"}, "needs PlainLoginModule"),
        ({**SCRAM, "kafka.sasl.jaas.config": 'x-secret "'}, "the JAAS text has"),
        ({**SCRAM, "kafka.sasl.client.callback.handler.class": "x-secret"}, "is a Java class"),
        ({"kafka.security.protocol": "SASL_TLS"}, "must be plaintext or ssl or sasl_plaintext or sasl_ssl"),
    ],
)
def test_what_cannot_be(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as refused:
        read_options({**READ, **options}, Mode.BATCH_READ)
    assert "x-secret" not in str(refused.value)


def test_tuning_of_the_java_client_has_no_effect() -> None:
    assert sasl({**SCRAM, "kafka.sasl.login.refresh.window.factor": "0.8"}) == Scram("alice", "x-secret")


def test_refused_credentials_are_not_tried_again() -> None:
    with SaslBroker() as broker:
        options = {**READ, **SCRAM, "kafka.bootstrap.servers": broker.hosts, "fetchOffset.numRetries": "3"}
        asked = OffsetReader(read_options(options, Mode.BATCH_READ))
        answers: list[bytes] = []

        def count(frame: bytes) -> bytes:
            answers.append(frame)
            return frame

        broker.damage_login = count
        with pytest.raises(SaslAuthenticationFailed):
            asked._retrying(lambda cluster: cluster.brokers)
        assert len(answers) == 4  # ApiVersions, SaslHandshake, two SaslAuthenticate: one login
