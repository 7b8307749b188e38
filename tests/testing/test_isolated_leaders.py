"""Leaders that are cut off from the controller write on in their old epoch: the fake ones do as real ones do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import NotLeaderForPartition, RequestTimedOut
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from tests.support.isolation import CURRENT, CUT_OFF, EXPECTED, OWN, SHARED, Speaker, story
from tests.testing.connection import Connection, connected, produce

TIMED_OUT, NOT_LEADER = RequestTimedOut.ERROR_CODE, NotLeaderForPartition.ERROR_CODE


def make(as_version: str = "4.4") -> FakeCluster:
    """Return a cluster of two brokers, of which the second one leads all."""
    cluster = FakeCluster(2, as_version=as_version)
    with cluster._locked() as state:
        state.add_topic(SHARED, [[CUT_OFF, CURRENT]])
        state.add_topic(OWN, [[CUT_OFF]])
    return cluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with make() as made:
        yield made


@pytest.mark.parametrize("as_version", ["2.8", "3.9", "4.4"])
def test_it_answers_as_real_brokers_did(as_version: str) -> None:
    """`tests/integration/test_isolated_leaders.py` asks real ones."""
    with make(as_version) as cluster:

        def elect() -> None:
            cluster.set_leader(SHARED, 0, CURRENT)
            cluster.set_leader(OWN, 0, None)

        assert story(cluster, elect) == EXPECTED


def _values(cluster: FakeCluster, topic: str = SHARED) -> list[bytes]:
    return [record.value for record in cluster.records(topic)]


def test_a_record_of_acks_1_is_acknowledged_and_lost(cluster: FakeCluster) -> None:
    """`tests/testing/test_stale_metadata.py` has acks=all: such a record is sent again, to the new leader."""
    host = cluster.hosts.split(",")[CUT_OFF - 1]
    with KafkaClient(host) as client, client.producer(acks=1, linger_ms=0) as producer:
        leader = client.topics[SHARED].partitions[0].leader
        assert leader is not None
        assert leader.id == CUT_OFF
        cluster.isolate(CUT_OFF)
        cluster.set_leader(SHARED, 0, CURRENT)
        assert producer.produce(SHARED, b"lost").get(10).offset == 0
        Speaker(cluster).produce("new", CURRENT, b"new", -1)
    cluster.rejoin(CUT_OFF)
    assert _values(cluster) == [b"new"]


def test_a_log_that_no_other_broker_leads_is_kept(cluster: FakeCluster) -> None:
    """It was alone in sync: what it has acknowledged to acks=all is there when it comes back."""
    speaker = Speaker(cluster)
    cluster.isolate(CUT_OFF)
    cluster.set_leader(OWN, 0, None)
    speaker.produce("acks=all", CUT_OFF, b"kept", -1, OWN)
    assert cluster.leader(OWN, 0) is None
    cluster.rejoin(CUT_OFF)
    assert speaker.transcript == [("acks=all", (0, 0))]
    assert (cluster.leader(OWN, 0), _values(cluster, OWN)) == (CUT_OFF, [b"kept"])


def test_an_unclean_election_loses_what_was_committed_meanwhile(cluster: FakeCluster) -> None:
    """Even acks=all: a replica that is not in sync is elected while the only one in sync is cut off, which goes on."""
    speaker = Speaker(cluster)
    cluster.lag(SHARED, 0, CURRENT)
    cluster.isolate(CUT_OFF)
    cluster.set_leader(SHARED, 0, None)
    speaker.produce("no leader", CUT_OFF, b"before", -1)
    cluster.set_leader(SHARED, 0, CURRENT)
    speaker.produce("another leader", CUT_OFF, b"after", -1)
    speaker.fetch("both", CUT_OFF, 1, 0)
    cluster.rejoin(CUT_OFF)
    speaker.produce("the new leader", CURRENT, b"new", -1)
    assert speaker.transcript == [
        ("no leader", (0, 0)),
        ("another leader", (0, 1)),
        ("both", (0, 2, True, -1)),
        ("the new leader", (0, 0)),
    ]
    assert _values(cluster) == [b"new"]


def _begun(cluster: FakeCluster, connection: Connection) -> None:
    """Send a record with acks=all to the broker that is cut off, and wait until it is in the broker's log."""
    connection.send(produce(SHARED, b"lost"), 9)
    with cluster._locked() as state:
        partition = state.held_by(CUT_OFF, state.topics[SHARED].partitions[0])
        assert state.waiters.wait(lambda: partition.log.end == 1, state.now_ms() + 5_000, partition)


def _error(connection: Connection) -> int:
    _, answer = connection.read()
    assert isinstance(answer, wire.ProduceResponse)
    return int(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("asked_before", [True, False], ids=["asked before", "asked while cut off"])
@pytest.mark.parametrize(("rejoins", "error"), [(False, TIMED_OUT), (True, NOT_LEADER)])
def test_a_record_that_waits_through_the_election_is_not_acknowledged(
    cluster: FakeCluster, asked_before: bool, rejoins: bool, error: int
) -> None:
    """The broker answered such a request, of acks=all, as if the record were committed."""
    cluster.lag(SHARED, 0, CURRENT, in_sync=True)
    with connected(cluster, CUT_OFF) as connection:
        if not asked_before:
            cluster.isolate(CUT_OFF)
        _begun(cluster, connection)
        if asked_before:
            cluster.isolate(CUT_OFF)
        cluster.set_leader(SHARED, 0, CURRENT)
        if rejoins:
            cluster.rejoin(CUT_OFF)
        assert _error(connection) == error
    cluster.heal()
    assert _values(cluster) == []


@pytest.mark.parametrize("asked_before", [True, False], ids=["asked before", "asked in the old epoch"])
def test_a_record_that_waits_is_refused_if_the_broker_is_elected_again(
    cluster: FakeCluster, asked_before: bool
) -> None:
    """It held up all requests behind that on its connection: seed 107002010."""
    cluster.isolate(CUT_OFF)
    with connected(cluster, CUT_OFF) as connection:
        if asked_before:
            cluster.lag(SHARED, 0, CURRENT, in_sync=True)
            _begun(cluster, connection)
        cluster.set_leader(SHARED, 0, CURRENT)
        if not asked_before:
            _begun(cluster, connection)
        cluster.set_leader(SHARED, 0, CUT_OFF)
        cluster.catch_up(SHARED, 0, CURRENT)
        Speaker(cluster).produce("new", CUT_OFF, b"new", -1)
        assert _error(connection) == NOT_LEADER
    assert _values(cluster) == [b"new"]


def test_it_is_in_sync_again_after_it_has_rejoined(cluster: FakeCluster) -> None:
    cluster.isolate(CUT_OFF)
    cluster.set_leader(SHARED, 0, CURRENT)
    with cluster._locked() as state:
        partition = state.topics[SHARED].partitions[0]
        assert partition.isr == [CURRENT]
    cluster.heal()
    assert partition.isr == [CUT_OFF, CURRENT]
    cluster.set_leader(SHARED, 0, CUT_OFF)
    assert cluster.leader(SHARED, 0) == CUT_OFF


def test_the_records_that_it_deletes_stay_with_the_new_leader(cluster: FakeCluster) -> None:
    """Its followers copy from that one, so they never have what it has deleted: the request times out."""
    speaker = Speaker(cluster)
    speaker.produce("first", CUT_OFF, b"first", -1)
    cluster.isolate(CUT_OFF)
    cluster.set_leader(SHARED, 0, CURRENT)
    topic = wire.DeleteRecordsRequest.Topic
    asked = topic(name=SHARED, partitions=[topic.Partition(partition_index=0, offset=1)])
    producers = wire.DescribeProducersRequest.Topic(name=SHARED, partition_indexes=[0])
    with connected(cluster, CUT_OFF) as broker:
        deleted = broker.ask(wire.DeleteRecordsRequest(topics=[asked], timeout_ms=100), 2)
        described = broker.ask(wire.DescribeProducersRequest(topics=[producers]), 0)
    (result,) = deleted.topics[0].partitions
    assert (result.error_code, result.low_watermark) == (TIMED_OUT, 0)
    assert described.topics[0].partitions[0].error_code == 0
    assert _values(cluster) == [b"first"]
