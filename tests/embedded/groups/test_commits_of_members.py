"""Members whose generation, membership or coordinator goes while they commit, and that fail or are closed while they join."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import OffsetAndMetadata, OffsetType, TopicPartition
from pykafka.exceptions import ShareLostError
from pykafka.groups.assignors.range_and_roundrobin import RangePartitionAssignor
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from tests.support.waiting import until

KEY = TopicPartition("orders", 0)
#: So seldom that no heartbeat says first what a test is about.
SELDOM: dict[str, Any] = {"heartbeat_interval_ms": 20_000, "session_timeout_ms": 60_000}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=cluster.hosts) as client:
        with client.producer() as producer:
            for number in range(4):
                producer.produce("orders", b"%d" % number, partition=0)
        yield client


def member(client: KafkaClient, **options: Any) -> KafkaConsumer[Any, Any]:
    options = {"auto_commit": False, "auto_offset_reset": OffsetType.EARLIEST, "protocol": "classic", **options}
    return client.consumer("orders", group="g", **options)


def received(cluster: FakeCluster, kind: type[Any]) -> list[Any]:
    """Return a list that grows with each request of a kind."""
    found: list[Any] = []
    cluster.on_request(lambda call: found.append(call.request) if isinstance(call.request, kind) else None)
    return found


def test_a_commit_names_the_generation_in_which_it_was_asked_for(cluster: FakeCluster, client: KafkaClient) -> None:
    commits = received(cluster, wire.OffsetCommitRequest)
    with member(client, **SELDOM) as consumer:
        assert consumer.poll(1, timeout=20)
        identity = consumer._engine.membership
        with cluster.hold("OffsetCommit") as held:
            consumer.commit_async({KEY: 1})
            held.await_met()
            consumer.commit_async({KEY: 2}, lambda error, offsets: None)
            former, identity.generation_id = identity.generation_id, identity.generation_id + 1  # as by a rebalance
        until(client.cluster.handler, lambda: len(commits) > 1)
        identity.generation_id = former
    assert [request.generation_id_or_member_epoch for request in commits[:2]] == [former, former]


def test_a_member_joins_again_when_a_commit_says_that_it_is_out(cluster: FakeCluster, client: KafkaClient) -> None:
    joins = received(cluster, wire.JoinGroupRequest)
    with member(client, **SELDOM) as consumer:
        assert consumer.poll(1, timeout=20)
        before = len(joins)
        cluster.fail("OffsetCommit", "ILLEGAL_GENERATION")
        with pytest.raises(ShareLostError):
            consumer.commit()
        assert consumer.poll(1, timeout=5)
        assert len(joins) > before


def test_a_commit_finds_the_coordinator_that_has_moved(cluster: FakeCluster, client: KafkaClient) -> None:
    with client.consumer(group="g", auto_commit=False) as consumer:
        consumer.assign([KEY])
        for broker in (*cluster.broker_ids, *cluster.broker_ids):
            cluster.set_coordinator("g", broker)
            consumer.commit({KEY: broker + 1})
            assert consumer.committed(KEY) == {KEY: OffsetAndMetadata(broker + 1, "")}


def test_a_commit_goes_to_the_coordinator_that_heartbeats_have_found(cluster: FakeCluster, client: KafkaClient) -> None:
    """It went to the former one first, and its second attempt came a second later: a rebalance overtook it."""
    commits = received(cluster, wire.OffsetCommitRequest)
    with member(client, heartbeat_interval_ms=100, session_timeout_ms=6000) as consumer:
        assert consumer.poll(4, timeout=20)
        for broker in (*cluster.broker_ids, *cluster.broker_ids):
            cluster.set_coordinator("g", broker)
            until(client.cluster.handler, partial(finds, consumer, broker))
            del commits[:]
            consumer.commit({KEY: 1})
            assert len(commits) == 1


def finds(consumer: KafkaConsumer[Any, Any], broker: int) -> bool:
    """Return whether a member knows its coordinator, as it finds it in a call that reads."""
    consumer.poll(1, timeout=0.1)
    known = consumer._engine.cluster.coordinators._found.get("g")
    return known is not None and known[1].id == broker


def test_a_member_whose_assignor_has_failed_takes_part_again(client: KafkaClient) -> None:
    class Failing(RangePartitionAssignor):
        calls = 0

        @classmethod
        def on_assignment(cls, assignment: Any) -> None:
            cls.calls += 1
            if cls.calls == 1:
                raise ZeroDivisionError("a mistake in an assignor")

    with member(client, assignor=Failing) as consumer:
        with pytest.raises(ZeroDivisionError):
            consumer.poll(4, timeout=20)
        assert consumer.poll(4, timeout=5)


def test_a_member_that_is_closed_while_it_joins_leaves(cluster: FakeCluster) -> None:
    cluster.set_versions("JoinGroup", 0, 3)  # which tell a member its id with the end of its join only
    cluster.set_group_settings(initial_rebalance_delay_ms=1500)
    joins, leaves = received(cluster, wire.JoinGroupRequest), received(cluster, wire.LeaveGroupRequest)
    with KafkaClient(hosts=cluster.hosts) as client:
        consumer = member(client)
        assert consumer.poll(1, timeout=0.5) == []
        assert len(joins) == 1
        consumer.close()
        assert len(leaves) == 1
        with cluster._locked() as state:
            assert not vars(state.groups._groups["g"])["members"]
