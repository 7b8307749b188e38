"""A fake cluster that speaks TLS, with and without certificates of clients."""

from __future__ import annotations

import ssl
from pathlib import Path

import confluent_kafka
import pytest

from pykafka import KafkaClient, Scram, SslConfig
from pykafka.exceptions import NoBrokersAvailableError
from pykafka.handlers import Handler
from pykafka.testing import FakeCluster
from tests.support.certs import Pems, make_pems
from tests.testing.connection import connected

LIMIT = 20.0


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Pems:
    return make_pems(Path(tmp_path_factory.mktemp("certs")))


def server(pems: Pems, *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pems.path("ca.pem"))
    context.load_cert_chain(pems.path("server.pem"), pems.path("server.key"))
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def writes(client: KafkaClient, size: int = 1) -> bool:
    with client.producer() as producer:
        return producer.produce("t", bytes(size)).get(LIMIT).offset >= 0


@pytest.mark.parametrize("size", [1, 900_000])
def test_tls(pems: Pems, size: int, handler: Handler) -> None:
    with FakeCluster(brokers=2, topics={"t": 1}, tls=server(pems)) as cluster:
        with KafkaClient(cluster.hosts, ssl_config=SslConfig(pems.path("ca.pem")), handler=handler) as client:
            assert writes(client, size)
            with client.consumer("t", auto_offset_reset="earliest") as consumer:
                assert next(iter(consumer)).value == bytes(size)
        with pytest.raises(NoBrokersAvailableError):
            KafkaClient(cluster.hosts, ssl_config=SslConfig(pems.path("stranger.pem")))
        with pytest.raises(NoBrokersAvailableError, match="TLS"):
            KafkaClient(cluster.hosts)


def test_tls_with_a_login(pems: Pems) -> None:
    with (
        FakeCluster(brokers=1, topics={"t": 1}, tls=server(pems), sasl={"alice": "secret"}) as cluster,
        KafkaClient(cluster.hosts, ssl_config=SslConfig(pems.path("ca.pem")), sasl=Scram("alice", "secret")) as client,
    ):
        assert writes(client)


def test_a_certificate_is_a_principal(pems: Pems) -> None:
    trusted = pems.path("ca.pem")
    ours = SslConfig(trusted, pems.path("client.pem"), pems.path("client.key"))
    with FakeCluster(brokers=1, topics={"t": 1}, tls=server(pems, asks=True), authorizer=True) as cluster:
        cluster.allow("User:CN=client", "WRITE", topic="t")
        with KafkaClient(cluster.hosts, ssl_config=ours) as client:
            assert writes(client)
        with pytest.raises(NoBrokersAvailableError):
            KafkaClient(cluster.hosts, ssl_config=SslConfig(trusted))


def test_librdkafka(pems: Pems) -> None:
    with FakeCluster(brokers=1, topics={"t": 1}, tls=server(pems)) as cluster:
        settings = {
            "bootstrap.servers": cluster.hosts,
            "security.protocol": "SSL",
            "ssl.ca.location": pems.path("ca.pem"),
        }
        producer = confluent_kafka.Producer(settings)
        producer.produce("t", b"a")
        assert producer.flush(LIMIT) == 0
        assert len(cluster.records("t")) == 1


def test_a_cluster_closes_while_a_client_shakes_hands(pems: Pems) -> None:
    with FakeCluster(brokers=1, tls=server(pems)) as cluster:
        with connected(cluster) as connection:
            connection.stream.send([b"\x16"], LIMIT)
            cluster.close()
            assert connection.is_cut()
