"""Where a partition is fetched: the leader, or a replica that it has named, until that fails or time is over."""

from __future__ import annotations

from pykafka.common import TopicPartition
from pykafka.consumer.leader_epochs import AVOID_S, PreferredReplica, PreferredReplicas

KEY, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_replica_is_used_until_its_time_is_over() -> None:
    preferred_replicas = PreferredReplicas("north", 60.0)
    assert preferred_replicas.of(KEY) == PreferredReplica(None, "north")
    preferred_replicas.named(KEY, 3, now=100.0)
    assert preferred_replicas.of(KEY) == PreferredReplica(3, "north")
    assert preferred_replicas.of(OTHER) == PreferredReplica(None, "north")
    assert preferred_replicas.expired(159.9) == []
    assert preferred_replicas.expired(160.0) == [KEY]
    assert preferred_replicas.expired(160.0) == [], "each partition is told once"
    assert preferred_replicas.of(KEY) == PreferredReplica(None, "north")


def test_a_replica_that_fails_is_avoided_and_the_leader_not_asked_for_another() -> None:
    preferred_replicas = PreferredReplicas("north", 60.0)
    assert not preferred_replicas.failed(KEY, now=0.0), "it was fetched from its leader"
    preferred_replicas.named(KEY, 3, now=0.0)
    assert preferred_replicas.failed(KEY, now=5.0)
    assert preferred_replicas.of(KEY) == PreferredReplica(None, ""), "a request that names the rack would be sent back"
    assert not preferred_replicas.failed(KEY, now=6.0)
    assert preferred_replicas.expired(4.9 + AVOID_S) == []
    assert preferred_replicas.expired(5.0 + AVOID_S) == [KEY]
    assert preferred_replicas.of(KEY) == PreferredReplica(None, "north")


def test_a_replica_is_avoided_no_longer_than_replicas_are_used() -> None:
    preferred_replicas = PreferredReplicas("north", 1.0)
    preferred_replicas.named(KEY, 3, now=0.0)
    preferred_replicas.failed(KEY, now=0.0)
    assert preferred_replicas.expired(1.0) == [KEY]


def test_a_partition_that_is_not_read_any_more_is_forgotten() -> None:
    preferred_replicas = PreferredReplicas("north", 60.0)
    preferred_replicas.named(KEY, 3, now=0.0)
    preferred_replicas.named(OTHER, 3, now=0.0)
    for _ in range(2):
        preferred_replicas.forget(KEY)
        assert preferred_replicas.of(KEY) == PreferredReplica(None, "north")
    assert preferred_replicas.expired(60.0) == [OTHER]


def test_a_consumer_without_a_rack_keeps_to_leaders() -> None:
    preferred_replicas = PreferredReplicas("", 60.0)
    assert preferred_replicas.of(KEY) == PreferredReplica(None, "")
    assert preferred_replicas.expired(1e9) == []


def test_a_replica_that_names_another_one_is_avoided() -> None:
    """Two that name each other would send the client to and fro."""
    preferred_replicas = PreferredReplicas("north", 60.0)
    preferred_replicas.named(KEY, 3, now=0.0)
    preferred_replicas.named(KEY, 4, now=1.0)
    assert preferred_replicas.of(KEY) == PreferredReplica(None, "")
    assert preferred_replicas.expired(1.0 + AVOID_S) == [KEY]
    preferred_replicas.named(KEY, 4, now=20.0)
    assert preferred_replicas.of(KEY) == PreferredReplica(4, "north")
