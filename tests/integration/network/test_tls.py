"""TLS with a real broker: what its JVM says when it is spoken to in the wrong way is not what a test's own server says."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer, SslConfig
from pykafka.connection import BrokerConnection
from pykafka.exceptions import KafkaException, NoBrokersAvailableError, SocketDisconnectedError, TlsError
from pykafka.handlers import Handler
from pykafka.handlers.patching import original
from tests.brokers import KafkaCluster, make_certificates
from tests.brokers.certificates import make_authority
from tests.support.certs import Authority
from tests.support.features import KAFKA_VERSION
from tests.support.groups import Group
from tests.support.loops import Concurrency

pytestmark = [pytest.mark.kafka, pytest.mark.needs("tls"), pytest.mark.timeout(400)]


def _trusting(cluster: KafkaCluster) -> SslConfig:
    assert cluster.certificates is not None
    return SslConfig(str(cluster.certificates.cafile))


@pytest.mark.on_asyncio
def test_a_round_trip(secure: KafkaCluster, concurrency: Concurrency) -> None:
    messages = [bytes([number]) * 1000 for number in range(100)]
    with KafkaClient(hosts=secure.tls_hosts, **concurrency(), ssl_config=_trusting(secure)) as client:
        topic = client.topics[f"tls-{client.cluster.handler.name}"]
        with topic.get_producer(linger_ms=5) as producer:
            for message in messages:
                producer.produce(message)
        consumer = topic.get_simple_consumer(consumer_timeout_ms=5000)
        found = [consumer.consume() for _ in messages]
        consumer.stop()
    assert {message.value for message in found if message is not None} == set(messages)


@pytest.mark.later("threads")
def test_a_group(secure: KafkaCluster, concurrency: Concurrency) -> None:
    """The heartbeats' own thread speaks TLS as well, and holds the membership while a hub is held."""
    with KafkaClient(hosts=secure.tls_hosts, **concurrency(), ssl_config=_trusting(secure)) as client:
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


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, Path]]:
    """Yield a broker that wants a client certificate, and a directory with the certificates of clients."""
    directory = tmp_path_factory.mktemp("clients")
    make_authority(directory / "stranger.key", directory / "stranger.pem", "a stranger")
    with KafkaCluster(KAFKA_VERSION, tls=True, config={"ssl.client.auth": "required"}) as cluster:
        assert cluster.certificates is not None
        cafile = cluster.certificates.cafile
        Authority(cafile, cafile.with_suffix(".key")).sign(directory, "known")
        Authority(cafile, cafile.with_suffix(".key")).sign(directory, "expired", days=(-9, -2))
        Authority(directory / "stranger.pem", directory / "stranger.key").sign(directory, "stranger")
        yield cluster, directory


def _presenting(mutual: tuple[KafkaCluster, Path], name: str, versions: tuple[str, str] | None = None) -> SslConfig:
    cluster, directory = mutual
    assert cluster.certificates is not None
    files = (str(directory / f"{name}.pem"), str(directory / f"{name}.key")) if name else (None, None)
    return SslConfig(str(cluster.certificates.cafile), *files, versions=versions)


@pytest.mark.parametrize("form", ["files", "text", "store"])
def test_a_client_certificate(mutual: tuple[KafkaCluster, Path], concurrency: Concurrency, form: str) -> None:
    cluster, directory = mutual
    assert cluster.certificates is not None
    config = _presenting(mutual, "known")
    if form == "text":
        config = SslConfig(*(Path(str(file)).read_text() for file in (config.cafile, config.certfile, config.keyfile)))
    elif form == "store":
        secret = cluster.certificates.password
        truststore = str(cluster.certificates.truststore)
        config = SslConfig(truststore, str(directory / "known.p12"), password=secret, ca_password=lambda: secret)
    with KafkaClient(hosts=cluster.tls_hosts, **concurrency(), tls=config) as client:
        topic = client.topics[f"presented-{form}-{client.cluster.handler.name}"]
        with topic.get_sync_producer() as producer:
            producer.produce(b"known")
        consumer = topic.get_simple_consumer(consumer_timeout_ms=5000)
        message = consumer.consume()
        assert message is not None
        assert message.value == b"known"
        consumer.stop()


@pytest.mark.needs("alerts")
@pytest.mark.parametrize("newest", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("", ("client certificate", "this client has none")),
        ("expired", ("client certificate", "that of this client has expired, on 20")),
        ("stranger", ("client certificate", "truststore")),
    ],
)
def test_a_client_certificate_that_is_refused(
    mutual: tuple[KafkaCluster, Path], handler: Handler, name: str, texts: tuple[str, ...], newest: str
) -> None:
    error = _failure(handler, _port(mutual[0].tls_hosts), _presenting(mutual, name, (newest, newest)))
    assert isinstance(error, TlsError)
    assert not [text for text in texts if text not in str(error)], str(error)


@pytest.mark.needs("alerts")
def test_every_broker_refuses(mutual: tuple[KafkaCluster, Path]) -> None:
    with pytest.raises(
        NoBrokersAvailableError, match="TLS: the broker refused the handshake.*this client has none"
    ) as caught:
        KafkaClient(hosts=mutual[0].tls_hosts, tls=_presenting(mutual, ""))
    assert caught.value.ledger


@pytest.mark.needs("alerts")
def test_no_version_in_common(secure: KafkaCluster, handler: Handler) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(str(_trusting(secure).cafile))
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    error = _failure(handler, _port(secure.tls_hosts), old)
    assert "no version of TLS in common" in str(error)


@pytest.mark.slow
@pytest.mark.later("greenlets")
def test_a_change_of_all_certificates_under_load(tmp_path: Path, concurrency: Concurrency) -> None:
    """The broker gets a certificate of another authority, and the client's files follow, while it produces."""
    with KafkaCluster(KAFKA_VERSION, tls=True) as cluster:
        assert cluster.certificates is not None
        cafile = tmp_path / "trusted.pem"
        cafile.write_bytes(cluster.certificates.cafile.read_bytes())
        sent = 0
        with KafkaClient(hosts=cluster.tls_hosts, **concurrency(), tls=SslConfig(str(cafile))) as client:
            topic = client.topics["changing"]
            producer = topic.get_producer(linger_ms=5, enable_idempotence=True, required_acks=-1)

            def produce(count: int) -> None:
                nonlocal sent
                for _ in range(count):
                    producer.produce(str(sent).encode())
                    sent += 1

            produce(500)
            new = tmp_path / "new"
            new.mkdir()
            made = make_certificates(new)
            cluster.stop(1)
            produce(500)
            cluster.certificates.keystore.write_bytes(made.keystore.read_bytes())
            cluster.certificates.truststore.write_bytes(made.truststore.read_bytes())
            # As deployments do it: both authorities for a while.
            cafile.write_bytes(cafile.read_bytes() + made.cafile.read_bytes())
            cluster.start(1)
            produce(500)
            producer.stop()
            cafile.write_bytes(made.cafile.read_bytes())
            consumer = topic.get_simple_consumer(consumer_timeout_ms=5000)
            found = sorted(int(message.value or b"") for message in consumer)
            consumer.stop()
    assert found == list(range(sent))
