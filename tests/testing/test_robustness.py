"""Garbled, huge and many requests: a broker answers or hangs up, and goes on to serve others."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka.exceptions import PolicyViolation, UnknownError
from pykafka.handlers.base import Stream
from pykafka.protocol import wire
from pykafka.protocol.schema import Request, encode_request
from pykafka.testing import FakeCluster
from pykafka.testing.call import APIS
from tests.testing.connection import LIMIT, Connection, connected, handler, produce

REQUESTS = [api.request for api in APIS.values()]


@pytest.fixture
def cluster(caplog: pytest.LogCaptureFixture) -> Iterator[FakeCluster]:
    """A cluster that still answers after the test, and in which no worker has failed."""
    with FakeCluster(1, {"t": 2}) as made:
        yield made
        with connected(made) as broker:
            assert broker.ask(wire.MetadataRequest(topics=None)).brokers
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def raw(cluster: FakeCluster) -> Stream:
    host, port = cluster.hosts.split(":")
    return handler.connect(handler.resolve(host, int(port))[0], LIMIT)


def is_closed(stream: Stream) -> bool:
    """Return whether the broker has ended the connection, after waiting for that."""
    try:
        return stream.recv_into(bytearray(1), LIMIT) == 0
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x01\x00",
        b"\x00\x00\x00\x04\x00\x03\x00\x01",
        b"\x00\x00\x00\x08\x7f\xff\x00\x00\x00\x00\x00\x01",
        b"\x00\x00\x00\x08\x00\x03\xff\xff\x00\x00\x00\x01",
        b"\x00\x00\x00\x0a\x00\x03\x00\x01\x00\x00\x00\x01\x7f\xff",
        b"\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff",
    ],
)
def test_a_broker_hangs_up_on_what_is_no_request(cluster: FakeCluster, data: bytes) -> None:
    stream = raw(cluster)
    stream.send([data], LIMIT)
    assert is_closed(stream)
    stream.close()


@pytest.mark.parametrize("request_class", REQUESTS, ids=lambda one: one.__name__)
def test_each_version_of_an_empty_request_is_answered(cluster: FakeCluster, request_class: type[Request[Any]]) -> None:
    for version in cluster._state.versions.get(request_class.api_key, ()):
        with connected(cluster) as broker:
            request = request_class()
            if isinstance(request, wire.ProduceRequest):
                request.acks = 1
            if isinstance(request, wire.DescribeAclsRequest):
                # Brokers hang up on a filter of no type.
                request.resource_type_filter = request.pattern_type_filter = 3
                request.operation = request.permission_type = 1
            assert broker.ask(request, version)


@pytest.mark.parametrize("seed", range(4))
def test_a_garbled_request_is_answered_or_ends_its_connection(cluster: FakeCluster, seed: int) -> None:
    chance = random.Random(seed)
    for request_class in REQUESTS:
        version = chance.choice([*APIS[request_class.api_key].versions])
        frame = bytearray(b"".join(encode_request(request_class(), version, 1, "garbled")))
        for _ in range(3):
            place = chance.randrange(8, len(frame) + 1)
            frame[place : place + chance.randrange(4)] = chance.choice(
                [b"\x7f\xff\xff\xff", b"\xff", chance.randbytes(9)]
            )
        stream = raw(cluster)
        stream.send([(len(frame) - 4).to_bytes(4, "big"), frame[4:]], LIMIT)
        stream.close()


def test_many_connections_are_served_while_one_reads_nothing(cluster: FakeCluster) -> None:
    with connected(cluster) as broker:
        broker.ask(produce("t", bytes(500_000)), 12)
    topic = wire.FetchRequest.Topic(
        topic="t", partitions=[wire.FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1_000_000)]
    )
    slow = Connection(cluster)
    for _ in range(100):
        slow.send(wire.FetchRequest(max_bytes=1_000_000, topics=[topic]), 12)
    others = [Connection(cluster) for _ in range(100)]
    for other in others:
        assert other.ask(wire.MetadataRequest(topics=None)).topics
    for other in (slow, *others):
        other.close()


def test_a_request_creates_so_many_partitions_at_most(cluster: FakeCluster) -> None:
    many = wire.CreateTopicsRequest.Topic(name="many", num_partitions=2**31 - 1, replication_factor=1)
    more = wire.CreatePartitionsRequest.Topic(name="t", count=2**31 - 1, assignments=None)
    with connected(cluster) as broker:
        assert broker.ask(wire.CreateTopicsRequest(topics=[many])).topics[0].error_code == PolicyViolation.ERROR_CODE
        assert broker.ask(wire.CreatePartitionsRequest(topics=[more])).results[0].error_code == UnknownError.ERROR_CODE
    with pytest.raises(PolicyViolation, match="Excessively large number of partitions"):
        cluster.create_topic("many", 2**31 - 1)
    assert not cluster.has_topic("many")
