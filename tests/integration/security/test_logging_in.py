"""The table: mechanism x protocol x concurrency. Each client produces and consumes behind its login."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import uuid

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer
from pykafka.aio import KafkaClient as AsyncClient
from pykafka.handlers.patching import original
from pykafka.rdkafka import RdKafkaProducer, RdKafkaSimpleConsumer
from pykafka.security import DelegationToken, Mechanism, SslConfig
from tests.brokers import KafkaCluster
from tests.support import loops
from tests.support.groups import Group
from tests.support.logins import credentials, eventually, log_in, logs_in
from tests.support.loops import Concurrency
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("sasl"), pytest.mark.timeout(400)]

PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]
TOKENS = pytest.param("OAUTHBEARER", marks=pytest.mark.needs("bearer tokens"))
DELEGATED = pytest.param("DELEGATION-TOKEN", marks=pytest.mark.needs("scram users"))
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", TOKENS]


def round_trip(client: KafkaClient, count: int = 100) -> None:
    topic = create_topic(client)
    messages = [b"%d" % number for number in range(count)]
    with topic.get_producer(linger_ms=5) as producer:
        for message in messages:
            producer.produce(message)
    with topic.get_simple_consumer(consumer_timeout_ms=20_000) as consumer:
        assert [message.value for message in itertools.islice(consumer, count)] == messages


def allowed(kafka: KafkaCluster, mechanism: str) -> Mechanism:
    """Return credentials that the brokers accept; a delegation token is made for them."""
    if mechanism != "DELEGATION-TOKEN":
        return credentials(kafka, mechanism)
    with log_in(kafka) as owner:
        token = owner.admin.create_delegation_token()
    sasl = token.login("SCRAM-SHA-256")
    eventually(lambda: logs_in(kafka, "SASL_PLAINTEXT", sasl))
    return sasl


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, DELEGATED])
def test_the_table(secure_kafka: KafkaCluster, mechanism: str, protocol: str, concurrency: Concurrency) -> None:
    with log_in(secure_kafka, protocol, allowed(secure_kafka, mechanism), **concurrency()) as client:
        round_trip(client)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, DELEGATED])
@pytest.mark.parametrize("kind", loops.KINDS)
@pytest.mark.later("uvloop", "PLAINTEXT", "PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "DELEGATION")
def test_the_table_on_event_loops(secure_kafka: KafkaCluster, kind: str, mechanism: str, protocol: str) -> None:
    sasl = allowed(secure_kafka, mechanism)
    tls = SslConfig(secure_kafka.cafile) if protocol.endswith("SSL") else None
    messages = [b"%d" % number for number in range(100)]

    async def main() -> None:
        async with AsyncClient(secure_kafka.hosts_of(protocol), sasl=sasl, tls=tls) as client:
            topic = f"loop-{uuid.uuid4().hex}"
            async with client.producer() as producer:
                for message in messages:
                    await producer.produce(topic, message, partition=0)
            async with client.consumer(topic, group=topic, auto_offset_reset="earliest") as consumer:
                found = [await consumer.one(20) for _ in messages]
                assert [record.value for record in found if record is not None] == messages
                await consumer.commit()

    with asyncio.Runner(loop_factory=lambda: loops.new_loop(kind)) as runner:
        runner.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_engine_of_librdkafka(secure_kafka: KafkaCluster, mechanism: str, protocol: str) -> None:
    with log_in(secure_kafka, protocol, credentials(secure_kafka, mechanism)) as client:
        topic = create_topic(client)
        messages = [b"%d" % number for number in range(100)]
        with topic.get_producer(linger_ms=5, use_rdkafka=True) as producer:
            assert isinstance(producer, RdKafkaProducer)
            for message in messages:
                producer.produce(message)
        with topic.get_simple_consumer(consumer_timeout_ms=20_000, use_rdkafka=True) as consumer:
            assert isinstance(consumer, RdKafkaSimpleConsumer)
            assert [message.value for message in itertools.islice(consumer, 100)] == messages


@pytest.mark.needs("scram users")
def test_the_engine_of_librdkafka_refuses_delegation_tokens_by_name(secure_kafka: KafkaCluster) -> None:
    with log_in(secure_kafka, "SASL_PLAINTEXT", allowed(secure_kafka, "DELEGATION-TOKEN")) as client:
        topic = create_topic(client)
        with pytest.raises(ValueError, match="does not log in with delegation tokens"):
            topic.get_producer(use_rdkafka=True)
        with pytest.raises(ValueError, match="does not log in with delegation tokens"):
            topic.get_simple_consumer(use_rdkafka=True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, DELEGATED])
@pytest.mark.later("threads", "SASL_PLAINTEXT", "PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "DELEGATION")
def test_heartbeats_log_in_on_their_native_thread(
    secure_kafka: KafkaCluster, mechanism: str, protocol: str, concurrency: Concurrency
) -> None:
    """The membership outlasts a hub, or a process, that does nothing for longer than the group's session."""
    with log_in(secure_kafka, protocol, allowed(secure_kafka, mechanism), **concurrency()) as client:
        group = Group(ManagedBalancedConsumer, client, partitions=2, session_timeout_ms=6000, heartbeat_interval_ms=500)
        values = group.produce(20)
        one, two = group.join(), group.join()
        group.sizes(1, 1)
        before = [(member._consumer_id, member._generation_id) for member in (one, two)]
        original("time", "sleep")(8)
        client.cluster.handler.sleep(0.5)
        assert [(member._consumer_id, member._generation_id) for member in (one, two)] == before
        assert group.drain(20) == values
        one.stop()
        two.stop()


#: Run in a process of its own, with the tests' modules; `log_in` is told its cluster by what it uses of one.
PRELUDE = """
import sys
if sys.argv[1] == "patched":
    from gevent import monkey; monkey.patch_all()
import os
from types import SimpleNamespace
from pykafka import DelegationToken, KafkaClient
from tests.support.logins import credentials, log_in
_, mode, protocol, mechanism, hosts, cafile, topic = sys.argv
user, password = sys.stdin.readline().split()
kafka = SimpleNamespace(user=user, password=password, cafile=cafile, hosts_of=lambda _: hosts, token=lambda _: password)
delegated = mechanism == "DELEGATION-TOKEN"
sasl = DelegationToken(user, password, "SCRAM-SHA-256") if delegated else credentials(kafka, mechanism)
"""

PATCHED = (
    PRELUDE
    + """
import threading
assert threading.Event.__module__.startswith("gevent")
with log_in(kafka, protocol, sasl) as client:
    with client.topics[topic].get_producer(linger_ms=5) as producer:
        for number in range(100):
            producer.produce(b"%d" % number)
    with client.topics[topic].get_simple_consumer(consumer_timeout_ms=20_000) as consumer:
        found = [consumer.consume().value for _ in range(100)]
assert found == [b"%d" % number for number in range(100)], found
"""
)

FORKED = (
    PRELUDE
    + """
if mode == "greenlets":
    from gevent.os import fork, waitpid
else:
    from os import fork, waitpid
client = log_in(kafka, protocol, sasl, use_greenlets=mode == "greenlets")
producer = client.topics[topic].get_producer(required_acks=-1, linger_ms=5)
producer.produce(b"before")
producer.flush()
child = fork()
name = b"child" if child == 0 else b"parent"
for number in range(50):
    producer.produce(b"%s %d" % (name, number))
producer.stop()
client.close()
if child == 0:
    sys.stdout.flush()
    os._exit(0)
sys.exit(waitpid(child, 0)[1])
"""
)


def run(kafka: KafkaCluster, script: str, mode: str, protocol: str, mechanism: str, topic: str) -> None:
    arguments = [mode, protocol, mechanism, kafka.hosts_of(protocol), kafka.cafile, topic]
    sasl = allowed(kafka, mechanism)
    name, secret = kafka.user, kafka.token() if mechanism == "OAUTHBEARER" else kafka.password
    if isinstance(sasl, DelegationToken):
        name, secret = sasl.username, sasl.password
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, *arguments],
        input=f"{name} {secret}\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, DELEGATED])
def test_a_patched_process(secure_kafka: KafkaCluster, mechanism: str, protocol: str) -> None:
    run(secure_kafka, PATCHED, "patched", protocol, mechanism, f"patched-{uuid.uuid4().hex[:12]}")


@pytest.mark.parametrize("mode", ["threads", "greenlets"])
@pytest.mark.parametrize(("protocol", "mechanism"), [("SASL_PLAINTEXT", "SCRAM-SHA-512"), ("SASL_SSL", "PLAIN")])
@pytest.mark.later("SASL_SSL-PLAIN-threads", "SASL_PLAINTEXT-SCRAM-SHA-512-greenlets")
def test_a_fork(secure_kafka: KafkaCluster, protocol: str, mechanism: str, mode: str) -> None:
    with log_in(secure_kafka, protocol) as client:
        topic = create_topic(client)
        run(secure_kafka, FORKED, mode, protocol, mechanism, topic.name)
        with topic.get_simple_consumer(consumer_timeout_ms=3_000) as consumer:
            found = sorted(message.value for message in consumer if message.value is not None)
    assert found == sorted(
        [b"before", *(b"%s %d" % (name, one) for name in (b"child", b"parent") for one in range(50))]
    )
