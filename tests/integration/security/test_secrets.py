"""Secrets appear nowhere: in no log, no text of an object, no error, traceback with locals or pickle, not in the process."""

from __future__ import annotations

import base64
import gc
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient, SslConfig
from pykafka.connection import BrokerConnection
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from pykafka.network.authentication import Ask
from pykafka.protocol import wire
from pykafka.security import DelegationToken, Mechanism, OAuthBearer, OidcClientCredentials, Plain, Scram
from tests.brokers import KafkaCluster
from tests.support.logins import credentials, log_in
from tests.support.sasl import OLD, USERS, Cut, SaslBroker
from tests.support.secrets import Search
from tests.support.token_endpoint import TokenEndpoint
from tests.support.topics import create_topic

PASSWORD = USERS["alice"]
TOKENS = pytest.param("OAUTHBEARER", marks=pytest.mark.needs("signed tokens"))
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", TOKENS]


def look_for_salted(search: Search, sasl: Mechanism) -> None:
    """Look for the salted password, too: with it anybody can log in."""
    if isinstance(sasl, Scram):
        assert sasl._salted
        search.add(*sasl._salted.values())


def test_the_search_finds_what_is_there() -> None:
    search = Search("a secret here")
    with search.logging():
        logging.getLogger("pykafka.x").debug("%s", [b"a secret here"])
    search.look("base64", base64.b64encode(b"a secret here"))
    assert len(search.verdict()) == 3


@pytest.mark.needs("sasl")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_of_a_client_at_work(secure_kafka: KafkaCluster, handler: Handler, mechanism: str) -> None:
    secret = secure_kafka.token() if mechanism == "OAUTHBEARER" else secure_kafka.password
    sasl = credentials(secure_kafka, mechanism, secret)
    search = Search(secret)
    with search.logging():
        with log_in(secure_kafka, "SASL_SSL", sasl, handler=handler) as client:
            topic = create_topic(client)
            with topic.get_producer(linger_ms=1) as producer:
                producer.produce(b"one")
            consumer = topic.get_balanced_consumer(f"group-of-{topic.name}", managed=True, consumer_timeout_ms=20_000)
            assert consumer.consume() is not None
            look_for_salted(search, sasl)
            search.look_at_objects()
            search.look_at_process()
            consumer.stop()
    assert search.verdict() == []


@pytest.mark.needs("sasl")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_of_a_refused_login(secure_kafka: KafkaCluster, handler: Handler, mechanism: str) -> None:
    secret = secure_kafka.token(aud="another") if mechanism == "OAUTHBEARER" else "Pw-that-is-wrong-8811"
    sasl = credentials(secure_kafka, mechanism, secret)
    search = Search(secret)
    with search.logging(), pytest.raises(KafkaException) as refused:
        log_in(secure_kafka, "SASL_PLAINTEXT", sasl, handler=handler)
        look_for_salted(search, sasl)
    search.look_at_error(refused.value)
    search.look_at_objects()
    search.look_at_process()
    assert search.verdict() == []


#: Makes a client, of hosts, a wrong password and further options.
WAYS: dict[str, Callable[..., KafkaClient]] = {
    "other names": lambda hosts, secret, **options: KafkaClient(hosts=hosts, **names(secret), **options),
    "a mapping": lambda hosts, secret, **options: KafkaClient.from_config(
        {
            "bootstrap.servers": hosts,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="alice" password="{secret}";',
        },
        **options,
    ),
    "overrides": lambda hosts, secret, **options: KafkaClient.from_config(
        {"bootstrap.servers": hosts}, **names(secret), **options
    ),
    "a proxy": lambda hosts, secret, **options: KafkaClient(
        hosts=hosts, proxy=f"http://alice:{secret}@{hosts}", **options
    ),
}


def names(secret: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "alice",
        "sasl_plain_password": secret,
    }


@pytest.mark.needs("sasl")
@pytest.mark.parametrize("way", list(WAYS))
def test_of_options_as_text(secure_kafka: KafkaCluster, handler: Handler, way: str) -> None:
    """The constructor is one of the functions whose local variables reports of errors show."""
    search = Search("Pw-that-is-wrong-8811")
    hosts = secure_kafka.hosts_of("SASL_PLAINTEXT")
    with search.logging(), pytest.raises(KafkaException) as refused:
        WAYS[way](hosts, "Pw-that-is-wrong-8811", handler=handler)
    search.look_at_error(refused.value)
    search.look_at_objects()
    assert search.verdict() == []


@pytest.mark.needs("signed tokens")
@pytest.mark.parametrize("answer", ["refused", "broken", "nonsense"])
def test_of_a_token_endpoint(
    secure_kafka: KafkaCluster, token_endpoint: TokenEndpoint, handler: Handler, answer: str
) -> None:
    secret = "Secret-of-client-that-is-wrong" if answer == "refused" else token_endpoint.client_secret
    if answer != "refused":
        token_endpoint.fail(200 if answer == "nonsense" else 400, secret.encode(), times=10)
    search = Search(secret)
    sasl = OAuthBearer(OidcClientCredentials(token_endpoint.url, token_endpoint.client_id, secret))
    with search.logging(), pytest.raises(KafkaException) as refused:
        log_in(secure_kafka, "SASL_PLAINTEXT", sasl, handler=handler)
    search.look_at_error(refused.value)
    search.look_at_objects()
    assert search.verdict() == []


def _garbage(frame: bytes) -> bytes:
    return frame[:8] + b"\xff" * (len(frame) - 8)


def _cut_short(frame: bytes) -> bytes:
    raise Cut(frame[: len(frame) // 2])


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "hangs up": lambda frame: None,
    "garbage": _garbage,
    "cut short": _cut_short,
    "no Kafka": lambda frame: b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


def damaged(how: str, step: int) -> Callable[[bytes], bytes | None]:
    """Return what damages the answer of one step of a login."""
    steps = iter(range(100))
    return lambda frame: DAMAGES[how](frame) if next(steps) % 4 == step else frame


@pytest.mark.parametrize("apis", [OLD, None], ids=["bare tokens", "requests"])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("how", list(DAMAGES))
@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256", "token"])
def test_of_a_login_that_breaks(
    handler: Handler, name: str, how: str, step: int, apis: dict[object, int] | None
) -> None:
    """At the handshake, at the first and at the second token, with the stacks and locals of each error."""
    made: dict[str, Mechanism] = {
        "PLAIN": Plain("alice", PASSWORD),
        "SCRAM-SHA-256": Scram("alice", PASSWORD, "SCRAM-SHA-256"),
        "token": DelegationToken("alice", PASSWORD, "SCRAM-SHA-256"),
    }
    sasl = made[name]
    search = Search(PASSWORD)
    with SaslBroker(apis=apis) as broker:
        broker.damage_login = damaged(how, step)
        with search.logging():
            try:
                KafkaClient(hosts=broker.hosts, sasl=sasl, handler=handler, socket_timeout_ms=2000).close()
            except KafkaException as error:
                search.look_at_error(error)
            else:
                assert name == "PLAIN"  # it has one token only, behind which old brokers say nothing
    assert search.verdict() == []


def break_off(port: int) -> None:
    """End the connections of this process to a port, below its streams."""
    for one in gc.get_objects():
        if isinstance(one, socket.socket) and one.fileno() >= 0 and one.family == socket.AF_INET:
            with suppress(OSError):  # it is not connected
                if one.getpeername()[1] == port:
                    one.shutdown(socket.SHUT_RDWR)


@pytest.mark.needs("sasl")
@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
@pytest.mark.parametrize("bare", [False, True], ids=["request", "bare token"])
def test_of_a_token_that_cannot_be_sent(
    secure_kafka: KafkaCluster, handler: Handler, listener: str, bare: bool
) -> None:
    """The functions that send it have it as an argument, which reports of errors show."""
    search = Search(PASSWORD)
    token = f"\0alice\0{PASSWORD}".encode()
    frame = Ask(None if bare else wire.SaslAuthenticateRequest(auth_bytes=token), 1, "a client", token).encode(7)
    assert PASSWORD.encode() in bytes(frame[0])
    port = int(secure_kafka.hosts_of(listener).rpartition(":")[2])
    tls = SslConfig(secure_kafka.cafile) if listener == "SSL" else None
    connection = BrokerConnection("127.0.0.1", port, handler, ssl_config=tls)
    connection.connect(5000)
    break_off(port)
    with pytest.raises(KafkaException) as broken:
        connection.send(frame)
    search.look_at_error(broken.value)
    assert search.verdict() == []
