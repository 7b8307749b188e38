"""TLS with a real broker: what its JVM says when it is spoken to in the wrong way is not what a test's own server says."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer, SslConfig
from pykafka.connection import BrokerConnection
from pykafka.exceptions import KafkaException, SocketDisconnectedError, TlsError
from pykafka.handlers import Handler
from pykafka.handlers.patching import original
from tests.brokers import KafkaCluster
from tests.support.groups import Group

pytestmark = [pytest.mark.kafka, pytest.mark.needs("tls"), pytest.mark.timeout(400)]


def _trusting(cluster: KafkaCluster) -> SslConfig:
    assert cluster.certificates is not None
    return SslConfig(str(cluster.certificates.cafile))


@pytest.mark.parametrize("greenlets", [False, True])
def test_a_round_trip(secure: KafkaCluster, greenlets: bool) -> None:
    messages = [bytes([number]) * 1000 for number in range(100)]
    name = f"tls-{greenlets}"
    with KafkaClient(hosts=secure.tls_hosts, use_greenlets=greenlets, ssl_config=_trusting(secure)) as client:
        topic = client.topics[name]
        with topic.get_producer(linger_ms=5) as producer:
            for message in messages:
                producer.produce(message)
        consumer = topic.get_simple_consumer(consumer_timeout_ms=5000)
        found = [consumer.consume() for _ in messages]
        consumer.stop()
    assert {message.value for message in found if message is not None} == set(messages)


@pytest.mark.parametrize("greenlets", [False, True], ids=["threads", "greenlets"])
@pytest.mark.later("threads")
def test_a_group(secure: KafkaCluster, greenlets: bool) -> None:
    """The heartbeats' own thread speaks TLS as well, and holds the membership while a hub is held."""
    with KafkaClient(hosts=secure.tls_hosts, use_greenlets=greenlets, ssl_config=_trusting(secure)) as client:
        group = Group(ManagedBalancedConsumer, client, partitions=2, session_timeout_ms=6000, heartbeat_interval_ms=500)
        values = group.produce(20)
        one, two = group.join(), group.join()
        group.sizes(1, 1)
        before = [(member._consumer_id, member._generation_id) for member in (one, two)]
        original("time", "sleep")(8)
        client.cluster.handler.sleep(0.5)
        assert [(member._consumer_id, member._generation_id) for member in (one, two)] == before
        assert group.drain(20) == values
        two.stop()
        group.members.remove(two)
        group.sizes(2)


def _port(hosts: str) -> int:
    return int(hosts.split(",", maxsplit=1)[0].rpartition(":")[2])


def _failure(handler: Handler, port: int, config: Any) -> KafkaException:
    class Versions:
        def get_bytes(self) -> bytes:
            """Return an ApiVersions request of version 0."""
            return bytes.fromhex("0000000a00120000000000000000")

    connection = BrokerConnection("127.0.0.1", port, handler, ssl_config=config)
    with pytest.raises(SocketDisconnectedError) as caught:
        _talk(connection, Versions())
    assert not connection.connected
    return caught.value


def _talk(connection: BrokerConnection, request: Any) -> None:
    connection.connect(5_000)
    connection.request(request)
    connection.response()


def test_plaintext_to_the_tls_port(secure: KafkaCluster, handler: Handler) -> None:
    error = _failure(handler, _port(secure.tls_hosts), None)
    assert "TLS port" in str(error)
    assert "ssl_config" in str(error)


def test_tls_to_the_plaintext_port(secure: KafkaCluster, handler: Handler) -> None:
    error = _failure(handler, _port(secure.hosts), _trusting(secure))
    assert isinstance(error, TlsError)
    assert "TLS port" in str(error)


def test_a_broker_that_is_not_trusted(secure: KafkaCluster, handler: Handler) -> None:
    error = _failure(handler, _port(secure.tls_hosts), SslConfig(None))
    assert isinstance(error, TlsError)
    assert "is not trusted" in str(error)
