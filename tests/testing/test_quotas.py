"""Clients of a fake cluster with quotas are throttled, by the cluster's clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, Plain
from pykafka.admin import QuotaEntity, QuotaName
from pykafka.exceptions import ProtocolClientError, ThrottlingQuotaExceeded
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from tests.testing.connection import Connection, connected, produce

MIB = 1 << 20


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=1, topics={"t": 1}) as made:
        yield made


def fetch(connection: Connection, offset: int = 0) -> wire.FetchResponse:
    part = wire.FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=8 * MIB)
    topic = wire.FetchRequest.Topic(topic="t", partitions=[part])
    return connection.ask(wire.FetchRequest(min_bytes=1, max_bytes=8 * MIB, topics=[topic]), 8)


def test_a_writer_is_throttled_when_its_ten_seconds_are_used_up(cluster: FakeCluster) -> None:
    cluster.set_quota("producer_byte_rate", MIB // 10, client_id="test")
    with connected(cluster) as connection:
        assert connection.ask(produce("t", bytes(MIB // 2)), 9).throttle_time_ms == 0
        answer = connection.ask(produce("t", bytes(MIB * 9 // 10)), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert 3_500 < answer.throttle_time_ms < 4_500
        # The broker reads nothing from the connection until then (KIP-219).
        connection.send(produce("t", b"a"), 9)
        with pytest.raises(TimeoutError):
            connection.read(0.1)
        cluster.advance(6)
        throttled = connection.read()[1]
        assert isinstance(throttled, wire.ProduceResponse)
        assert throttled.throttle_time_ms == 0


def test_a_reader_gets_nothing_until_it_may_go_on(cluster: FakeCluster) -> None:
    cluster.set_quota("consumer_byte_rate", MIB // 20, client_id="*")
    with connected(cluster) as connection:
        connection.ask(produce("t", bytes(MIB * 9 // 10)), 9)
        first = fetch(connection)
        assert first.throttle_time_ms == 0
        assert first.responses[0].partitions[0].records
        second = fetch(connection)
        assert second.responses == []
        assert 7_000 < second.throttle_time_ms < 9_000
        cluster.advance(11)
        third = fetch(connection)
        assert third.throttle_time_ms == 0
        assert third.responses[0].partitions[0].records


@pytest.mark.parametrize("version", [5, 7])
def test_changes_of_topics_are_refused_or_throttled(cluster: FakeCluster, version: int) -> None:
    cluster.set_quota("controller_mutation_rate", 1, client_id="test")

    def create(connection: Connection, name: str, partitions: int) -> wire.CreateTopicsResponse:
        topic = wire.CreateTopicsRequest.Topic(name=name, num_partitions=partitions, replication_factor=1)
        return connection.ask(wire.CreateTopicsRequest(topics=[topic], timeout_ms=1000), version)

    with connected(cluster) as connection:
        assert create(connection, "a", 12).topics[0].error_code == 0
    with connected(cluster) as connection:
        answer = create(connection, "b", 1)
        is_strict = version >= 6
        assert answer.topics[0].error_code == (ThrottlingQuotaExceeded.ERROR_CODE if is_strict else 0)
        assert 1_000 < answer.throttle_time_ms <= (2_000 if is_strict else 3_000)
    assert cluster.has_topic("b") != is_strict


def test_the_most_specific_quota_counts() -> None:
    with FakeCluster(brokers=1, topics={"t": 1}, sasl={"alice": "a", "bob": "b"}) as cluster:
        cluster.set_quota("producer_byte_rate", 1, user="*")
        cluster.set_quota("producer_byte_rate", MIB, user="alice")
        cluster.set_quota("producer_byte_rate", 2, user="alice", client_id="slow")
        quotas = cluster._state.quotas
        limits = [quotas.limit("producer_byte_rate", *who) for who in (("alice", "x"), ("alice", "slow"), ("bob", "x"))]
        assert limits == [(MIB, "alice", None), (2, "alice", "slow"), (1, "bob", None)]
        assert quotas.limit("consumer_byte_rate", "alice", "x") is None


def test_administrators_change_quotas(cluster: FakeCluster) -> None:
    with KafkaClient(cluster.hosts) as client:
        admin = client.admin
        one, default = QuotaEntity(user="alice"), QuotaEntity(user="alice", client_id=QuotaName.DEFAULT)
        admin.alter_client_quotas({one: {"producer_byte_rate": 5}, default: {"request_percentage": 50}})
        assert admin.describe_client_quotas() == {
            one: {"producer_byte_rate": 5.0},
            default: {"request_percentage": 50.0},
        }
        admin.alter_client_quotas({one: {"producer_byte_rate": None}})
        assert list(admin.describe_client_quotas()) == [default]
        with pytest.raises(ProtocolClientError):
            admin.alter_client_quotas({one: {"no_such_rate": 1}})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key": "no_such_rate", "user": "alice"}, "key is 'no_such_rate': one of consumer_byte_rate,"),
        ({}, r'set user= or client_id=; client_id="\*" is each client id'),
        ({"user": ""}, "user is '': a name"),
        ({"client_id": 3}, "client_id is 3: a name"),
        *(({"user": "alice", "rate": rate}, f"rate is {rate!r}") for rate in (-1, 0, "1", True, float("nan"))),
    ],
)
def test_wrong_quotas_are_refused_by_parameter(cluster: FakeCluster, arguments: dict[str, Any], said: str) -> None:
    fields: dict[str, Any] = {"key": "producer_byte_rate", "rate": 1, **arguments}
    with pytest.raises(ValueError, match=said):
        cluster.set_quota(**fields)
    assert cluster._state.quotas.values == {}


def test_a_throttle_of_centuries_fits_its_field(cluster: FakeCluster) -> None:
    cluster.set_quota("producer_byte_rate", 0.0001, client_id="test")
    with connected(cluster) as connection:
        assert connection.ask(produce("t", bytes(MIB)), 9).throttle_time_ms == 2**31 - 1


def test_a_producer_of_this_package_waits() -> None:
    with (
        FakeCluster(brokers=1, topics={"t": 1}, sasl={"alice": "a"}) as cluster,
        KafkaClient(cluster.hosts, sasl=Plain("alice", "a")) as client,
        client.producer() as producer,
    ):
        cluster.set_quota("producer_byte_rate", MIB // 20, user="alice")
        cluster.track_requests()
        producer.produce("t", bytes(MIB * 53 // 100)).get(10)
        assert producer.produce("t", b"later").get(10).offset == 1
        first, second = (one.timestamp_us for one in cluster.requests("Produce"))
        assert second - first > 400_000
