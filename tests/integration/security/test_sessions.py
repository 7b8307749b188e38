"""Sessions that end after three seconds (KIP-368): clients log in anew on the same connections, under load and idle."""

from __future__ import annotations

import itertools
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer
from pykafka.admin import Admin, ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from pykafka.exceptions import MessagesNotDelivered, SaslAuthenticationFailed
from pykafka.handlers import Handler
from tests.brokers import KafkaCluster
from tests.support.groups import Group
from tests.support.logins import credentials, eventually, log_in, logs_in
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("sessions"), pytest.mark.timeout(400)]

LISTENERS = ["SHORT_PLAINTEXT", "SHORT_SSL"]
#: Three sessions and a half.
LOAD_S = 10.5


def connections(kafka: KafkaCluster, listener: str) -> set[int]:
    """Return the ports, on the clients' side, of the connections to a listener that are up."""
    port = int(kafka.hosts_of(listener).rpartition(":")[2])
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        if state == "01" and int(remote.rpartition(":")[2], 16) == port:
            found.add(int(local.rpartition(":")[2], 16))
    return found


class User:
    """A user of SCRAM-SHA-256 of the test's own, who has the password of the cluster's user, or none."""

    def __init__(self, kafka: KafkaCluster, admin: Admin) -> None:
        self.name = f"user-{uuid.uuid4().hex[:8]}"
        self._password = kafka.password
        self._admin = admin

    def let_in(self) -> None:
        mechanism = ScramMechanism.SCRAM_SHA_256
        self._admin.alter_user_scram_credentials(UserScramCredentialUpsertion(self.name, mechanism, self._password))

    def shut_out(self) -> None:
        mechanism = ScramMechanism.SCRAM_SHA_256
        self._admin.alter_user_scram_credentials(UserScramCredentialDeletion(self.name, mechanism))


@pytest.fixture
def user(secure_kafka: KafkaCluster) -> Iterator[User]:
    with KafkaClient(secure_kafka.hosts) as client:
        made = User(secure_kafka, client.admin)
        made.let_in()
        sasl = credentials(secure_kafka, "SCRAM-SHA-256", user=made.name)
        eventually(lambda: logs_in(secure_kafka, "SASL_PLAINTEXT", sasl))
        yield made


def short(kafka: KafkaCluster, handler: Handler, listener: str, mechanism: str, user: str | None = None) -> KafkaClient:
    sasl = credentials(kafka, mechanism, user=user)
    return log_in(kafka, listener, sasl, handler=handler)


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize(
    ("listener", "mechanism"), [("SHORT_PLAINTEXT", "SCRAM-SHA-256"), ("SHORT_SSL", "PLAIN")], ids=LISTENERS
)
@pytest.mark.later("SHORT_PLAINTEXT-idempotent", "SHORT_SSL-plain", "threads-SHORT_SSL", "gevent-SHORT_PLAINTEXT")
def test_nothing_is_lost_or_doubled_under_load(
    secure_kafka: KafkaCluster, handler: Handler, listener: str, mechanism: str, idempotent: bool
) -> None:
    """All messages arrive once and in order, with requests in flight at each renewal, and no connection is made anew."""
    with short(secure_kafka, handler, listener, mechanism) as client:
        topic = create_topic(client, partitions=2)
        produced = 0
        gaps = []
        consumer = topic.get_simple_consumer(consumer_timeout_ms=20_000, fetch_wait_max_ms=100)
        with topic.get_producer(enable_idempotence=idempotent, linger_ms=1, required_acks=-1) as producer:
            producer.produce(b"%d" % produced, partition_key=b"0")
            produced += 1
            first = consumer.consume()
            assert first is not None
            found = [first]
            before = connections(secure_kafka, listener)
            last = started = time.monotonic()
            while time.monotonic() - started < LOAD_S:
                for _ in range(100):
                    producer.produce(b"%d" % produced)
                    produced += 1
                while (message := consumer.consume(block=False)) is not None:
                    found.append(message)
                    gaps.append(time.monotonic() - last)
                    last = time.monotonic()
                handler.sleep(0.01)
            after = connections(secure_kafka, listener)
        found += itertools.islice(consumer, produced - len(found))
        consumer.stop()
    assert before <= after
    assert Counter(message.value for message in found) == Counter(b"%d" % number for number in range(produced))
    for partition in (0, 1):
        numbers = [int(one.value or b"") for one in found if one.partition_id == partition]
        assert numbers == sorted(numbers)
    # A consumer goes on within a session: it does not wait for the next one, or for a connection made anew.
    assert max(gaps) < 2.5


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.later("threads-SHORT_SSL", "gevent-SHORT_PLAINTEXT")
def test_after_idle_sessions(secure_kafka: KafkaCluster, handler: Handler, listener: str) -> None:
    """A connection that had nothing to do for longer than its session is used again, or made anew, without an error."""
    with short(secure_kafka, handler, listener, "SCRAM-SHA-256") as client:
        topic = create_topic(client)
        with topic.get_sync_producer() as producer, topic.get_simple_consumer(consumer_timeout_ms=20_000) as consumer:
            for number in range(3):
                producer.produce(b"%d" % number)
                message = consumer.consume()
                assert message is not None
                assert message.value == b"%d" % number
                handler.sleep(4.5)
            client.update_cluster()


@pytest.mark.parametrize("listener", ["SHORT_PLAINTEXT"])
@pytest.mark.later("threads")
def test_heartbeats_go_on(secure_kafka: KafkaCluster, handler: Handler, listener: str) -> None:
    """Neither member leaves its group, for three sessions of its native thread's connection."""
    with short(secure_kafka, handler, listener, "SCRAM-SHA-256") as client:
        group = Group(ManagedBalancedConsumer, client, partitions=2, session_timeout_ms=6000, heartbeat_interval_ms=300)
        values = group.produce(20)
        one, two = group.join(), group.join()
        group.sizes(1, 1)
        before = [(member._consumer_id, member._generation_id) for member in (one, two)]
        handler.sleep(LOAD_S)
        assert [(member._consumer_id, member._generation_id) for member in (one, two)] == before
        assert group.drain(20) == values
        one.stop()
        two.stop()


@pytest.mark.needs("scram users")
@pytest.mark.later("threads")
def test_credentials_revoked_in_mid_connection(secure_kafka: KafkaCluster, handler: Handler, user: User) -> None:
    """Until its session ends a connection works; then producer and consumer say by name that the broker refuses the login.

    Once the user may log in again, both go on.
    """
    with short(secure_kafka, handler, "SHORT_PLAINTEXT", "SCRAM-SHA-256", user.name) as client:
        topic = create_topic(client)
        # messages wait for the credentials to be taken again, for so long
        producer = topic.get_producer(linger_ms=1, delivery_timeout_ms=2000)
        consumer = topic.get_simple_consumer(consumer_timeout_ms=500)
        producer.produce(b"before")
        producer.flush()
        user.shut_out()
        refused: list[MessagesNotDelivered] = []

        def is_told() -> bool:
            producer.produce(b"meanwhile")
            try:
                producer.flush()
            except MessagesNotDelivered as error:
                refused.append(error)
            return bool(refused)

        until(handler, is_told, 60)
        assert "SaslAuthenticationFailed" in str(refused[0])
        assert user.name in str(refused[0])
        told: list[SaslAuthenticationFailed] = []

        def is_told_too() -> bool:
            try:
                consumer.consume()
            except SaslAuthenticationFailed as error:
                told.append(error)
            return bool(told)

        until(handler, is_told_too, 60)
        user.let_in()
        values: list[bytes | None] = []

        def goes_on() -> bool:
            with suppress(MessagesNotDelivered, SaslAuthenticationFailed):
                producer.produce(b"after")
                producer.flush()
                values.extend(message.value for message in itertools.islice(consumer, 10))
            return b"after" in values

        until(handler, goes_on, 60)
        producer.stop()
        consumer.stop()
