"""`client.set_credentials()` on real brokers: passwords, tokens and certificates change, and nothing is restarted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest

from pykafka import KafkaClient
from pykafka.admin import ScramMechanism, UserScramCredentialUpsertion
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from pykafka.security import DelegationToken, Mechanism, OAuthBearer, Plain
from tests.brokers import KafkaCluster
from tests.integration.security.test_sessions import connections
from tests.support.credentials import delegation_token
from tests.support.logins import credentials, eventually, log_in, logs_in
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("signed tokens"), pytest.mark.timeout(200)]


class Work:
    """A producer and a member of a group that go on through all that changes.

    :param client: whose
    """

    def __init__(self, client: KafkaClient) -> None:
        self.handler = client.cluster.handler
        self.topic = create_topic(client).name
        self.producer = client.producer(linger_ms=1)
        self.consumer = client.consumer(
            self.topic, group=f"g-{uuid.uuid4().hex[:8]}", session_timeout_ms=6000, heartbeat_interval_ms=300
        )
        self.produced = 0
        self.read: list[bytes | None] = []

    def works(self, seconds: float = 0.0) -> None:
        """Produce and read for so long, each message once and in order."""
        end = time.monotonic() + seconds
        while True:
            self.producer.produce(self.topic, b"%d" % self.produced, partition=0).get(20)
            self.produced += 1
            until(self.handler, self._has_read_all, 20)
            if time.monotonic() >= end:
                return
            self.handler.sleep(0.05)

    def _has_read_all(self) -> bool:
        self.read += [record.value for record in self.consumer.poll(100, 0.2)]
        return self.read == [b"%d" % number for number in range(self.produced)]

    def close(self) -> None:
        self.producer.close()
        self.consumer.close()


@pytest.fixture
def set_password(secure_kafka: KafkaCluster) -> Callable[[str, str], None]:
    """Return a function that gives a SCRAM user a password, by the API of administrators."""

    def change(name: str, password: str) -> None:
        with KafkaClient(secure_kafka.hosts) as direct:
            direct.admin.alter_user_scram_credentials(
                UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_256, password)
            )
        sasl = credentials(secure_kafka, "SCRAM-SHA-256", password, name)
        eventually(lambda: logs_in(secure_kafka, "SASL_PLAINTEXT", sasl))

    return change


@pytest.mark.parametrize("listener", ["SHORT_PLAINTEXT", "SASL_PLAINTEXT"])
@pytest.mark.later("threads-SASL", "gevent-SHORT")
def test_a_password_is_changed(
    secure_kafka: KafkaCluster, handler: Handler, listener: str, set_password: Callable[[str, str], None]
) -> None:
    """Sessions of three seconds are renewed by the new password, on the same connections; others live on."""
    name = f"user-{uuid.uuid4().hex[:8]}"
    set_password(name, "first-password")
    sasl = credentials(secure_kafka, "SCRAM-SHA-256", "first-password", name)
    with log_in(secure_kafka, listener, sasl, handler=handler) as client:
        work = Work(client)
        work.works(1)
        set_password(name, "second-password")
        client.set_credentials(credentials(secure_kafka, "SCRAM-SHA-256", "second-password", name))
        work.works(1)  # a renewal may have come between the two changes
        before = connections(secure_kafka, listener)
        work.works(3.6)
        assert before & connections(secure_kafka, listener)  # heartbeats connect again, others renew their session
        with log_in(secure_kafka, "SASL_PLAINTEXT", client.cluster.sasl, handler=handler) as another:
            another.update_cluster()
        work.close()


@pytest.mark.later("gevent")
def test_wrong_credentials_are_put_right(
    secure_kafka: KafkaCluster, handler: Handler, set_password: Callable[[str, str], None]
) -> None:
    """The renewals fail until the application gives the new password."""
    name = f"user-{uuid.uuid4().hex[:8]}"
    set_password(name, "first-password")
    sasl = credentials(secure_kafka, "SCRAM-SHA-256", "first-password", name)
    with log_in(secure_kafka, "SHORT_PLAINTEXT", sasl, handler=handler) as client:
        work = Work(client)
        work.works()
        set_password(name, "second-password")

        def is_refused() -> bool:
            try:
                client.update_cluster()
            except KafkaException as error:
                return "SaslAuthenticationFailed" in repr(error) or "refuses the login" in str(error)
            return False

        until(handler, is_refused, 30)
        client.set_credentials(credentials(secure_kafka, "SCRAM-SHA-256", "second-password", name))
        until(handler, lambda: not is_refused(), 30)
        work.works()
        work.close()


@pytest.mark.parametrize(
    "steps",
    [
        ("SCRAM-SHA-256", "PLAIN"),
        ("PLAIN", "OAUTHBEARER"),
        ("OAUTHBEARER", "SCRAM-SHA-256"),
        ("SCRAM-SHA-256", "delegation token"),
    ],
    ids="-to-".join,
)
@pytest.mark.later("gevent-PLAIN", "gevent-OAUTH", "threads-SCRAM-SHA-256")
def test_another_mechanism(secure_kafka: KafkaCluster, handler: Handler, steps: tuple[str, str]) -> None:
    """Brokers refuse another mechanism on a connection that exists, so those end when their session does."""
    before, after = steps
    with log_in(secure_kafka, "SHORT_SSL", credentials(secure_kafka, before), handler=handler) as client:
        work = Work(client)
        work.works()
        if after == "delegation token":
            token = delegation_token(secure_kafka)
            new: Mechanism = DelegationToken(token.token_id, token.hmac, "SCRAM-SHA-256")
            eventually(lambda: logs_in(secure_kafka, "SASL_PLAINTEXT", new))
        else:
            new = credentials(secure_kafka, after)
        client.set_credentials(new)
        work.works(3.6)
        assert client.cluster.sasl is new
        work.close()


@pytest.mark.later("gevent")
def test_a_token_replaces_a_token(secure_kafka: KafkaCluster, handler: Handler) -> None:
    old, new = secure_kafka.token(lifetime_s=6), secure_kafka.token(lifetime_s=300)
    with log_in(secure_kafka, "SASL_PLAINTEXT", OAuthBearer(old), handler=handler) as client:
        work = Work(client)
        work.works()
        client.set_credentials(OAuthBearer(new))
        work.works(7)
        work.close()


def test_what_cannot_be_set(secure_kafka: KafkaCluster) -> None:
    with log_in(secure_kafka, "SASL_PLAINTEXT") as client:
        before = client.cluster.sasl
        with pytest.raises(TypeError, match="needs sasl= or tls="):
            client.set_credentials()
        with pytest.raises(TypeError, match="must be a mechanism, as Scram") as told:
            client.set_credentials("user-and-secret")  # type: ignore[arg-type]
        assert "user-and-secret" not in str(told.value)
        with pytest.raises(ValueError, match="does not speak TLS"):
            client.set_credentials(tls=True)
        assert client.cluster.sasl is before
    with KafkaClient(secure_kafka.hosts) as direct, pytest.raises(ValueError, match="does not log in"):
        direct.set_credentials(Plain("user", "secret"))
