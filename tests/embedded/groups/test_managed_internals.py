"""`ManagedBalancedConsumer`: documented internals that programs call, and starts that fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from pykafka import EmbeddedCluster, KafkaClient, ManagedBalancedConsumer
from pykafka.exceptions import GroupAuthorizationFailed, RebalanceInProgress

#: The cluster expects a member that has left until its session ends.
MANAGED: dict[str, Any] = {"managed": True, "heartbeat_interval_ms": 200, "session_timeout_ms": 3000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics={"t": 3}) as cluster:
        yield cluster


@pytest.fixture
def member(client: KafkaClient) -> Iterator[ManagedBalancedConsumer]:
    """Yield a member that has no worker."""
    member = client.topics["t"].get_balanced_consumer("internals", auto_start=False, **MANAGED)
    yield member
    member.stop()


def test_a_program_joins_and_syncs_by_hand(member: ManagedBalancedConsumer) -> None:
    ((member_id, assignment),) = member._join_group()
    assert member_id == member._member.member_id
    assert [(name, list(ids)) for name, ids in assignment.partition_assignment] == [("t", [0, 1, 2])]
    assert member._sync_group([(member_id, assignment)]) == [("t", [0, 1, 2])]
    assert not member._member.need_rejoin()
    member._handle_error(RebalanceInProgress.ERROR_CODE)
    assert member._member.need_rejoin()
    with pytest.raises(GroupAuthorizationFailed):
        member._handle_error(GroupAuthorizationFailed.ERROR_CODE)
    assert RebalanceInProgress.ERROR_CODE in member._build_default_error_handlers()


def test_a_start_that_failed_has_not_used_up_reset_offset_on_start(
    cluster: EmbeddedCluster, client: KafkaClient
) -> None:
    name = f"t-{uuid4()}"
    cluster.create_topic(name, partitions=3)
    topic = client.topics[name]
    with topic.get_sync_producer() as producer:
        values = {b"%d" % number for number in range(6)}
        for value in values:
            producer.produce(value)
    with topic.get_balanced_consumer(name, consumer_timeout_ms=3000, **MANAGED) as member:
        assert {member.consume().value for _ in values} == values
        member.commit_offsets()
    calls: list[dict[int, int]] = []

    def callback(_: object, old: dict[int, int], new: dict[int, int]) -> None:
        calls.append(new)
        if len(calls) == 1:
            raise KeyError("of the callback")

    member = topic.get_balanced_consumer(
        name,
        auto_start=False,
        reset_offset_on_start=True,
        post_rebalance_callback=callback,
        consumer_timeout_ms=3000,
        **MANAGED,
    )
    with pytest.raises(KeyError):
        member.start()
    with member:
        assert {member.consume().value for _ in values} == values
    assert calls == [{0: -2, 1: -2, 2: -2}] * 2
