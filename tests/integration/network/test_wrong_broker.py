"""Real brokers refuse connections that were meant for others, and the client finds the right one (KIP-1242)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import NoBrokersAvailableError, RebootstrapRequired, WrongBrokerError
from pykafka.handlers import Address, Handler
from pykafka.protocol import wire
from pykafka.protocol.schema import decode_response, encode_request
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("broker identity")]


@pytest.fixture
def lead(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Return a function that leads connections from one port to another."""
    ports: dict[int, int] = {}
    really = handler.resolve

    def resolve(host: str, port: int, *args: Any, **options: Any) -> list[Address]:
        return really(host, ports.get(port, port), *args, **options)

    monkeypatch.setattr(handler, "resolve", resolve)
    return ports.__setitem__


def cut(client: KafkaClient, id_: int) -> None:
    """Make the next request to a broker open a new connection, as after the broker was restarted."""
    client.brokers[id_].drop_connections()
    client.brokers[id_].forget_versions()


def test_another_broker_of_the_cluster_refuses(
    kafka3: KafkaCluster, handler: Handler, lead: Callable[[int, int], None]
) -> None:
    with KafkaClient(kafka3.hosts, handler=handler) as client:
        topic = create_topic(client, replicas=3)
        client.brokers[1].call(wire.MetadataRequest(topics=[]))
        lead(kafka3.ports[1], kafka3.ports[2])
        cut(client, 1)
        with pytest.raises(WrongBrokerError, match="no longer leads to broker 1 of cluster"):
            client.brokers[1].call(wire.MetadataRequest(topics=[]))
        client.update_cluster()  # by the others
        assert sorted(client.brokers) == [1, 2, 3]
        lead(kafka3.ports[1], kafka3.ports[1])
        with client.producer() as producer:
            producer.produce(topic.name, b"found again").get(20)


def test_another_cluster_refuses(kafka: KafkaCluster, handler: Handler, lead: Callable[[int, int], None]) -> None:
    with KafkaCluster(kafka.version) as other, KafkaClient(kafka.hosts, handler=handler) as client:
        topic = create_topic(client)
        client.brokers[1].call(wire.MetadataRequest(topics=[]))
        lead(kafka.ports[1], other.ports[1])
        cut(client, 1)
        with pytest.raises(WrongBrokerError):
            client.brokers[1].call(wire.MetadataRequest(topics=[]))
        with pytest.raises(NoBrokersAvailableError, match="another broker refuses"):
            client.update_cluster()
        lead(kafka.ports[1], kafka.ports[1])
        with client.producer() as producer:
            producer.produce(topic.name, b"found again").get(20)
        with KafkaClient(other.hosts) as theirs:
            assert topic.name not in theirs.topics


def test_a_proxy_with_numbers_of_its_own_needs_the_option(
    kafka3: KafkaCluster, handler: Handler, lead: Callable[[int, int], None]
) -> None:
    with KafkaClient(kafka3.hosts, handler=handler, metadata_cluster_check_enable=False) as client:
        lead(kafka3.ports[1], kafka3.ports[2])
        cut(client, 1)
        assert client.brokers[1].call(wire.MetadataRequest(topics=[])).brokers


def test_brokers_do_not_check_before_a_login(secure_kafka: KafkaCluster) -> None:
    """So credentials reach a wrong broker, as docs/connections.md says. If this fails, logins can name the broker they mean."""
    wrong = wire.ApiVersionsRequest(
        client_software_name="pykafka", client_software_version="3", cluster_id="another", node_id=77
    )

    def answer(address: str) -> int:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), 10) as sock:
            sock.sendall(b"".join(encode_request(wrong, 5, 1, "test")))
            size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
            return decode_response(type(wrong), 5, sock.recv(size, socket.MSG_WAITALL))[1].error_code

    assert answer(secure_kafka.hosts) == RebootstrapRequired.ERROR_CODE
    assert answer(secure_kafka.hosts_of("SASL_PLAINTEXT")) == 0
