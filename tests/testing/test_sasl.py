"""Clients that log in to the fake cluster by SASL."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from pykafka import KafkaClient, OAuthBearer, Plain, Scram
from pykafka.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from pykafka.exceptions import (
    IllegalSaslState,
    ResourceNotFound,
    SaslAuthenticationFailed,
    SaslRequiredError,
    UnsupportedSaslMechanism,
)
from pykafka.protocol import wire
from pykafka.security import Mechanism
from pykafka.testing import FakeCluster, Sasl
from tests.testing.connection import Connection, connected, handler

LIMIT = 20.0
PLAIN_AND_SCRAM = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def token(**claims: Any) -> str:
    """Return a token without a signature, as Kafka takes them by default."""
    return f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'iat': 1, 'exp': 4_000_000_000, **claims})}."


def login(mechanism: str, secret: str = "secret") -> Mechanism:
    if mechanism == "OAUTHBEARER":
        return OAuthBearer(token() if secret == "secret" else token(exp=1))
    return Plain("alice", secret) if mechanism == "PLAIN" else Scram("alice", secret, mechanism)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    sasl = Sasl({"alice": "secret"}, mechanisms=[*PLAIN_AND_SCRAM, "OAUTHBEARER"])
    with FakeCluster(brokers=2, topics={"t": 1}, sasl=sasl) as made:
        yield made


def writes(cluster: FakeCluster, mechanism: Mechanism) -> bool:
    with KafkaClient(cluster.hosts, sasl=mechanism) as client, client.producer() as producer:
        return producer.produce("t", b"a").get(LIMIT).offset >= 0


@pytest.mark.parametrize("mechanism", [*PLAIN_AND_SCRAM, "OAUTHBEARER"])
def test_who_proves_it_gets_in_and_others_do_not(cluster: FakeCluster, mechanism: str) -> None:
    assert writes(cluster, login(mechanism))
    with pytest.raises(SaslAuthenticationFailed):
        KafkaClient(cluster.hosts, sasl=login(mechanism, "wrong"))


@pytest.mark.parametrize(("release", "mechanism"), [("0.10.2", "PLAIN"), ("0.10.2", "SCRAM-SHA-256"), ("1.1", "PLAIN")])
def test_old_brokers_take_tokens_without_requests(release: str, mechanism: str) -> None:
    with FakeCluster(brokers=1, topics={"t": 1}, as_version=release, sasl={"alice": "secret"}) as cluster:
        assert writes(cluster, login(mechanism))
        with pytest.raises(SaslAuthenticationFailed):
            KafkaClient(cluster.hosts, sasl=login(mechanism, "wrong"))


@pytest.mark.parametrize("release", ["0.9", "0.8.2"])
def test_a_release_without_such_logins_is_an_error(release: str) -> None:
    with pytest.raises(ValueError, match="Kerberos"):
        FakeCluster(brokers=1, as_version=release, sasl={"alice": "secret"})
    with pytest.raises(ValueError, match="no mechanism GSSAPI"):
        Sasl(mechanisms=["GSSAPI"])


def test_a_client_without_a_login_learns_what_is_offered(cluster: FakeCluster) -> None:
    with pytest.raises(SaslRequiredError) as caught:
        KafkaClient(cluster.hosts)
    assert sorted(caught.value.mechanisms) == sorted([*PLAIN_AND_SCRAM, "OAUTHBEARER"])


def test_a_mechanism_that_is_not_offered() -> None:
    with (
        FakeCluster(brokers=1, sasl=Sasl({"alice": "secret"}, mechanisms=["PLAIN"])) as cluster,
        pytest.raises(UnsupportedSaslMechanism, match="it offers: PLAIN"),
    ):
        KafkaClient(cluster.hosts, sasl=login("SCRAM-SHA-512"))


def test_a_cluster_without_logins_refuses_them() -> None:
    with FakeCluster(brokers=1) as cluster, pytest.raises(IllegalSaslState):
        KafkaClient(cluster.hosts, sasl=login("PLAIN"))


def test_a_test_judges_tokens() -> None:
    sasl = Sasl(check_token=lambda one: "bob" if one == "good" else None)
    with FakeCluster(brokers=1, topics={"t": 1}, sasl=sasl) as cluster:
        assert writes(cluster, OAuthBearer("good"))
        with pytest.raises(SaslAuthenticationFailed, match="invalid_token"):
            KafkaClient(cluster.hosts, sasl=OAuthBearer("bad"))


def test_a_password_is_changed(cluster: FakeCluster) -> None:
    cluster.set_password("alice", "another")
    with pytest.raises(SaslAuthenticationFailed):
        KafkaClient(cluster.hosts, sasl=login("SCRAM-SHA-256"))
    assert writes(cluster, login("SCRAM-SHA-256", "another"))
    cluster.set_password("alice", None)
    with pytest.raises(SaslAuthenticationFailed):
        KafkaClient(cluster.hosts, sasl=login("PLAIN", "another"))


def test_administrators_change_credentials_of_scram(cluster: FakeCluster) -> None:
    with KafkaClient(cluster.hosts, sasl=login("PLAIN")) as client:
        admin, mechanism = client.admin, ScramMechanism.SCRAM_SHA_512
        admin.alter_user_scram_credentials(UserScramCredentialUpsertion("bob", mechanism, "of-bob"))
        assert writes(cluster, Scram("bob", "of-bob", "SCRAM-SHA-512"))
        found = admin.describe_user_scram_credentials()
        assert {user: [one.iterations for one in infos] for user, infos in found.items()} == {
            "alice": [4096, 4096],
            "bob": [8192],
        }
        admin.alter_user_scram_credentials(UserScramCredentialDeletion("bob", mechanism))
        with pytest.raises(ResourceNotFound, match="bob"):
            admin.describe_user_scram_credentials("bob")
        with pytest.raises(ResourceNotFound):
            admin.alter_user_scram_credentials(UserScramCredentialDeletion("bob", mechanism))
    with pytest.raises(SaslAuthenticationFailed):
        KafkaClient(cluster.hosts, sasl=Scram("bob", "of-bob", "SCRAM-SHA-512"))


def plain(connection: Connection, secret: str = "secret", user: str = "alice") -> wire.SaslAuthenticateResponse:
    handshake = connection.ask(wire.SaslHandshakeRequest(mechanism="PLAIN"))
    assert handshake.error_code == 0
    return connection.ask(wire.SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{secret}".encode()))


def test_requests_before_the_login_end_the_connection(cluster: FakeCluster) -> None:
    with connected(cluster) as connection:
        connection.send(wire.MetadataRequest())
        assert connection.is_cut()
    with connected(cluster) as connection:
        assert connection.ask(wire.ApiVersionsRequest(client_software_name="a", client_software_version="1")).api_keys
        connection.send(wire.ApiVersionsRequest(client_software_name="a", client_software_version="1"))
        assert connection.is_cut()
    with connected(cluster) as connection:
        connection.send(wire.SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"))
        assert connection.is_cut()
    with connected(cluster) as connection:
        connection.ask(wire.SaslHandshakeRequest(mechanism="PLAIN"))
        assert connection.ask(wire.ListGroupsRequest()).error_code == IllegalSaslState.ERROR_CODE
        assert connection.is_cut()


def test_a_wrong_password_is_answered_late_and_ends_the_connection() -> None:
    sasl = Sasl({"alice": "secret"}, failure_delay_ms=60_000)
    with FakeCluster(brokers=1, sasl=sasl) as cluster, connected(cluster) as connection:
        connection.ask(wire.SaslHandshakeRequest(mechanism="PLAIN"))
        connection.send(wire.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
        with pytest.raises(TimeoutError):
            connection.read(0.1)
        cluster.advance(60)
        answer = connection.read()[1]
        assert isinstance(answer, wire.SaslAuthenticateResponse)
        assert answer.error_code == SaslAuthenticationFailed.ERROR_CODE
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert connection.is_cut()


def test_sessions_end() -> None:
    sasl = Sasl({"alice": "secret", "bob": "secret"}, max_reauth_ms=60_000)
    with FakeCluster(brokers=1, sasl=sasl) as cluster:
        with connected(cluster) as connection:
            assert plain(connection).session_lifetime_ms == 60_000
            cluster.advance(59)
            assert plain(connection).session_lifetime_ms == 60_000
            # Not twice within a second.
            early = connection.ask(wire.SaslHandshakeRequest(mechanism="PLAIN"))
            assert early.error_code == IllegalSaslState.ERROR_CODE
            cluster.advance(59)
            assert connection.ask(wire.MetadataRequest()).brokers
            cluster.advance(2)
            connection.send(wire.MetadataRequest())
            assert connection.is_cut()
        with connected(cluster) as connection:
            plain(connection)
            answer = plain(connection, user="bob")
            assert "Cannot change principals" in (answer.error_message or "")
            assert connection.is_cut()


def test_sessions_end_with_their_tokens(cluster: FakeCluster) -> None:
    ends = handler.time_ms() // 1000 + 100
    with connected(cluster) as connection:
        connection.ask(wire.SaslHandshakeRequest(mechanism="OAUTHBEARER"))
        bearer = f"n,,\1auth=Bearer {token(exp=ends)}\1\1".encode()
        answer = connection.ask(wire.SaslAuthenticateRequest(auth_bytes=bearer))
        assert 90_000 < answer.session_lifetime_ms <= 100_000


@pytest.mark.parametrize(
    "claims", [b'{"sub":"alice","exp":1e999}', b'{"sub":"alice","exp":-Infinity}', b"[" * 5_000, b"\xff"]
)
def test_a_token_that_says_nonsense_is_refused(claims: bytes) -> None:
    exchange = Sasl({}, mechanisms=["OAUTHBEARER"]).exchange("OAUTHBEARER", "nonce", 0)
    bearer = f"n,,\1auth=Bearer {part({})}.{base64.urlsafe_b64encode(claims).decode()}.\1\1".encode()
    assert exchange.step(bearer) == b'{"status":"invalid_token"}'


def test_this_package_logs_in_again() -> None:
    sasl = Sasl({"alice": "secret"}, max_reauth_ms=3_000)
    with FakeCluster(brokers=1, topics={"t": 1}, sasl=sasl) as cluster:
        cluster.track_requests()
        with KafkaClient(cluster.hosts, sasl=login("SCRAM-SHA-256")) as client, client.producer() as producer:
            while len(cluster.requests("SaslHandshake")) < 4:
                producer.produce("t", b"a").get(LIMIT)
                client.cluster.handler.sleep(0.05)


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
def test_kafka_python(cluster: FakeCluster) -> None:
    import kafka  # which warns, of Python's own libraries

    for mechanism in PLAIN_AND_SCRAM:
        producer = kafka.KafkaProducer(
            bootstrap_servers=cluster.hosts,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="secret",
        )
        assert producer.send("t", b"a").get(LIMIT).offset >= 0
        producer.close()


@pytest.mark.parametrize("mechanism", PLAIN_AND_SCRAM)
def test_aiokafka(cluster: FakeCluster, mechanism: str) -> None:
    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.hosts,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="secret",
        )
        async with producer:
            await asyncio.wait_for(producer.send_and_wait("t", b"a"), LIMIT)

    asyncio.run(main())
    assert len(cluster.records("t")) == 1


@pytest.mark.parametrize("mechanism", [*PLAIN_AND_SCRAM, "OAUTHBEARER"])
@pytest.mark.parametrize("is_right", [True, False])
def test_librdkafka(cluster: FakeCluster, mechanism: str, is_right: bool) -> None:
    errors: list[Any] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.hosts,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "log_level": 0,
        "error_cb": errors.append,
    }
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (token(exp=4_000_000_000 if is_right else 1), 4_000_000_000)
    else:
        settings |= {"sasl.username": "alice", "sasl.password": "secret" if is_right else "wrong"}
    producer = confluent_kafka.Producer(settings)
    producer.produce("t", b"a", on_delivery=lambda error, _: errors.append(error))
    for _ in range(200):
        if producer.poll(0.1) or errors:
            break
    assert (errors[0] is None) == is_right
    if not is_right:
        assert errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    producer.purge()
    producer.flush(LIMIT)
