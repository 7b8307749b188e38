"""Sessions of members and time-outs of transactions, if their coordinator is away, comes back, or is another broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pykafka.exceptions import UnknownMemberId
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from tests.testing.connection import connected

CODE = UnknownMemberId.ERROR_CODE


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2, topics={"t": 1}) as made:
        made.set_group_settings(initial_rebalance_delay_ms=0, consumer_session_timeout_ms=10_000)
        made.set_coordinator("g", 1)
        made.set_coordinator("id", 1, "transaction")
        yield made


def joined(cluster: FakeCluster) -> Callable[[int], int]:
    """Join by the classic protocol; return a function that sends a heartbeat to a broker, and returns the error code."""
    offer = wire.JoinGroupRequest.Protocol(name="range", metadata=b"")
    request = wire.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[offer],
    )
    with connected(cluster) as broker:
        member_id = broker.ask(request, 3).member_id
        assert not broker.ask(wire.SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id), 3).error_code

    def heartbeat(node: int) -> int:
        with connected(cluster, node) as broker:
            beat = wire.HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
            return broker.ask(beat, 3).error_code

    return heartbeat


def joined_next_generation(cluster: FakeCluster) -> Callable[[int], int]:
    """Join by KIP-848; return the same."""
    beat = wire.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=10_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    with connected(cluster) as broker:
        epoch = broker.ask(beat).member_epoch

    def heartbeat(node: int) -> int:
        with connected(cluster, node) as broker:
            request = wire.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
            return broker.ask(request).error_code

    return heartbeat


def crash(cluster: FakeCluster) -> Callable[[], None]:
    cluster.stop(1, noticed=False)
    return lambda: cluster.start(1)


def pause(cluster: FakeCluster) -> Callable[[], None]:
    cluster.pause(1)
    return lambda: cluster.resume(1)


Join = Callable[[FakeCluster], Callable[[int], int]]


@pytest.mark.parametrize("join", [joined, joined_next_generation])
def test_sessions_begin_anew_when_the_coordinator_has_started_again(cluster: FakeCluster, join: Join) -> None:
    heartbeat = join(cluster)
    come_back = crash(cluster)
    cluster.advance(60)
    come_back()
    cluster.advance(9)
    assert heartbeat(1) == 0
    cluster.advance(11)
    assert heartbeat(1) == CODE


@pytest.mark.parametrize("join", [joined, joined_next_generation])
@pytest.mark.parametrize(("seconds", "code"), [(9, 0), (11, CODE)])
def test_sessions_go_on_during_a_pause(cluster: FakeCluster, join: Join, seconds: int, code: int) -> None:
    """The same was seen at a broker of 4.3.1 that had SIGSTOP: heartbeats that wait for its end are too late."""
    heartbeat = join(cluster)
    go_on = pause(cluster)
    cluster.advance(seconds)
    go_on()
    assert heartbeat(1) == code


@pytest.mark.parametrize("join", [joined, joined_next_generation])
def test_sessions_begin_anew_at_another_coordinator(cluster: FakeCluster, join: Join) -> None:
    heartbeat = join(cluster)
    cluster.advance(9)
    cluster.set_coordinator("g", 2)
    cluster.advance(9)
    assert heartbeat(2) == 0
    cluster.stop(1)
    cluster.advance(9)
    cluster.start(1)
    cluster.advance(2)
    assert heartbeat(2) == CODE, "what happens to other brokers renews nothing"


@pytest.mark.parametrize("leave", [crash, pause])
def test_a_transaction_that_is_too_old_is_aborted_when_its_coordinator_is_back(
    cluster: FakeCluster, leave: Callable[[FakeCluster], Callable[[], None]]
) -> None:
    state = cluster._state
    with connected(cluster) as broker:
        made = broker.ask(wire.InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=10_000), 4)
        topic = wire.AddPartitionsToTxnRequest.Topic(name="t", partitions=[0])
        add = wire.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_producer_id=made.producer_id,
            v3_and_below_producer_epoch=made.producer_epoch,
            v3_and_below_topics=[topic],
        )
        assert not broker.ask(add, 3).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    come_back = leave(cluster)
    cluster.advance(60)
    assert state.transactions.by_id["id"].state.value == "Ongoing"
    come_back()
    cluster.advance(0)
    assert state.transactions.by_id["id"].state.value == "CompleteAbort"
