"""OAUTHBEARER on a real broker, which checks the signature of each token, with a token endpoint on 127.0.0.1."""

from __future__ import annotations

import itertools
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from pykafka.security import OAuthBearer, OidcClientCredentials, OidcJwtBearer, SignedAssertion
from tests.brokers import KafkaCluster
from tests.brokers.tokens import AUDIENCE, ISSUER
from tests.support.logins import log_in
from tests.support.signing_keys import Key
from tests.support.token_endpoint import TokenEndpoint
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("signed tokens"), pytest.mark.timeout(400)]


def bearer(endpoint: TokenEndpoint, timeout_s: float = 10) -> OAuthBearer:
    return OAuthBearer(
        OidcClientCredentials(
            endpoint.url, endpoint.client_id, endpoint.client_secret, scope="kafka", timeout_s=timeout_s
        )
    )


def client_of(
    kafka: KafkaCluster, handler: Handler, sasl: OAuthBearer, listener: str = "SASL_PLAINTEXT"
) -> KafkaClient:
    return log_in(kafka, listener, sasl, handler=handler)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_one_token_for_all_connections(
    secure_kafka: KafkaCluster, token_endpoint: TokenEndpoint, handler: Handler, listener: str
) -> None:
    with client_of(secure_kafka, handler, bearer(token_endpoint), listener) as client:
        topic = create_topic(client)
        with topic.get_sync_producer() as producer:
            producer.produce(b"one")
        with topic.get_simple_consumer(consumer_timeout_ms=20_000) as consumer:
            message = consumer.consume()
            assert message is not None
            assert message.value == b"one"
    assert len(token_endpoint.given) == 1
    assert token_endpoint.asked[0].form["scope"] == "kafka"


@pytest.mark.later("threads")
def test_tokens_are_refreshed_under_load(
    secure_kafka: KafkaCluster, token_endpoint: TokenEndpoint, handler: Handler
) -> None:
    """Sessions end with the token of five seconds: each connection shows the next one in time, and nothing is lost."""
    token_endpoint.lifetime_s = 5
    produced = 0
    with client_of(secure_kafka, handler, bearer(token_endpoint)) as client:
        topic = create_topic(client)
        consumer = topic.get_simple_consumer(consumer_timeout_ms=20_000, fetch_wait_max_ms=100)
        found = []
        with topic.get_producer(linger_ms=1) as producer:
            end = time.monotonic() + 14
            while time.monotonic() < end:
                for _ in range(50):
                    producer.produce(b"%d" % produced)
                    produced += 1
                while (message := consumer.consume(block=False)) is not None:
                    found.append(message.value)
                handler.sleep(0.01)
        found += [message.value for message in itertools.islice(consumer, produced - len(found))]
        consumer.stop()
    assert found == [b"%d" % number for number in range(produced)]
    assert 3 <= len(token_endpoint.given) <= 12


@pytest.mark.parametrize("kind", ["refused", "broken", "nonsense", "hangs"])
@pytest.mark.later("threads-hangs", "gevent-broken", "gevent-nonsense")
def test_an_endpoint_that_gives_no_token(
    secure_kafka: KafkaCluster, token_endpoint: TokenEndpoint, handler: Handler, kind: str
) -> None:
    """The error says which endpoint answered what; afterwards the same credentials log in."""
    sasl = bearer(token_endpoint, timeout_s=2)
    if kind == "hangs":
        token_endpoint.hang(times=20)
    else:
        status, body = {
            "refused": (401, b'{"error": "invalid_client", "error_description": "no such client"}'),
            "broken": (500, b"it is broken"),
            "nonsense": (200, b"<html>no token"),
        }[kind]
        token_endpoint.fail(status, body, times=20)
    started = time.monotonic()
    with pytest.raises(KafkaException, match=token_endpoint.url) as failed:
        client_of(secure_kafka, handler, sasl)
    assert time.monotonic() - started < 60
    said = {"refused": "invalid_client", "broken": "500", "nonsense": "without a token", "hangs": "answer"}[kind]
    assert said in str(failed.value)
    assert token_endpoint.client_secret not in str(failed.value)
    token_endpoint.work()

    def logs_in() -> bool:
        # A failure is told to all who ask within some seconds: the endpoint has rest.
        with suppress(KafkaException):
            client_of(secure_kafka, handler, sasl).close()
            return True
        return False

    until(handler, logs_in, 60)


@pytest.mark.later("gevent")
def test_an_old_token_serves_while_the_endpoint_is_down(
    secure_kafka: KafkaCluster, token_endpoint: TokenEndpoint, handler: Handler
) -> None:
    token_endpoint.lifetime_s = 10
    sasl = bearer(token_endpoint)
    with client_of(secure_kafka, handler, sasl) as client:
        topic = create_topic(client)
        token_endpoint.fail(503, b"", times=1000)
        # Past four fifths of the token's life, when the next one is asked for.
        handler.sleep(8.5)
        with client_of(secure_kafka, handler, sasl) as another:
            with another.topics[topic.name].get_sync_producer() as producer:
                producer.produce(b"one")
        token_endpoint.work()
        handler.sleep(2.5)
        with topic.get_sync_producer() as producer:
            producer.produce(b"two")
    assert len(token_endpoint.given) >= 2


# -- assertions --------------------------------------------------------------------------------------------------------


@pytest.mark.later("gevent")
def test_what_is_signed_here_is_taken_by_the_broker(secure_kafka: KafkaCluster, handler: Handler) -> None:
    """Java's library checks signature, times, issuer and audience: with the key of its issuer, an assertion is a token."""
    sign = SignedAssertion(
        secure_kafka.directory / "issuer.key",
        issuer=ISSUER,
        subject="alice",
        audience=AUDIENCE,
        jti=True,
        claims={"scope": "kafka"},
        headers={"kid": secure_kafka.token_key.name},
    )
    with client_of(secure_kafka, handler, OAuthBearer(sign)) as client:
        client.update_cluster()
    stranger = SignedAssertion(
        secure_kafka.directory / "issuer.key",
        issuer=ISSUER,
        subject="alice",
        audience="others",
        claims={"scope": "kafka"},
    )
    with pytest.raises(KafkaException, match="SaslAuthenticationFailed|refuses"):
        client_of(secure_kafka, handler, OAuthBearer(stranger))


@pytest.mark.parametrize("grant", ["jwt-bearer", "client_credentials"])
@pytest.mark.later("gevent-jwt", "threads-client")
def test_a_key_that_is_replaced_under_load(
    secure_kafka: KafkaCluster, token_endpoint: TokenEndpoint, handler: Handler, tmp_path: Path, grant: str
) -> None:
    """Each token of five seconds has an assertion of its own, by the key that is in the file then."""
    key = Key(tmp_path / "key.pem", passphrase="walls")
    token_endpoint.public_key, token_endpoint.lifetime_s = key.public, 5
    assertion = SignedAssertion(
        key.path,
        passphrase="walls",
        issuer=token_endpoint.client_id,
        subject=token_endpoint.client_id,
        audience=token_endpoint.url,
        jti=True,
    )
    source = (
        OidcJwtBearer(token_endpoint.url, assertion, scope="kafka")
        if grant == "jwt-bearer"
        else OidcClientCredentials(token_endpoint.url, token_endpoint.client_id, assertion=assertion, scope="kafka")
    )
    produced = 0
    with client_of(secure_kafka, handler, OAuthBearer(source)) as client:
        topic = create_topic(client).name
        with client.producer(linger_ms=1) as producer:
            for _ in range(2):
                given, end = len(token_endpoint.given), time.monotonic() + 30
                while len(token_endpoint.given) < given + 2:
                    assert time.monotonic() < end
                    producer.produce(topic, b"%d" % produced, partition=0).get(20)
                    produced += 1
                    handler.sleep(0.05)
                key.replace()
                token_endpoint.public_key = key.public
        with client.consumer(topic, consumer_timeout_ms=5000) as consumer:
            assert [record.value for record in itertools.islice(consumer, produced)] == [
                b"%d" % number for number in range(produced)
            ]
    assert len(token_endpoint.assertions) >= 4
