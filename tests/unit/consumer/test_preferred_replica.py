"""Where a partition is fetched: the leader, or a replica that it has named, until that fails or time is over."""

from __future__ import annotations

from pykafka.common import TopicPartition
from pykafka.consumer.preferred_replica import AVOID_S, PreferredReplicas, Source

KEY, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_replica_is_used_until_its_time_is_over() -> None:
    sources = PreferredReplicas("north", 60.0)
    assert sources.of(KEY) == Source(None, "north")
    sources.told(KEY, 3, now=100.0)
    assert sources.of(KEY) == Source(3, "north")
    assert sources.of(OTHER) == Source(None, "north")
    assert sources.expired(159.9) == []
    assert sources.expired(160.0) == [KEY]
    assert sources.expired(160.0) == [], "each partition is told once"
    assert sources.of(KEY) == Source(None, "north")


def test_a_replica_that_fails_is_avoided_and_the_leader_not_asked_for_another() -> None:
    sources = PreferredReplicas("north", 60.0)
    assert not sources.failed(KEY, now=0.0), "it was fetched from its leader"
    sources.told(KEY, 3, now=0.0)
    assert sources.failed(KEY, now=5.0)
    assert sources.of(KEY) == Source(None, ""), "a request that names the rack would be sent back"
    assert not sources.failed(KEY, now=6.0)
    assert sources.expired(5.0 + AVOID_S) == [KEY]
    assert sources.of(KEY) == Source(None, "north")


def test_a_replica_is_avoided_no_longer_than_replicas_are_used() -> None:
    sources = PreferredReplicas("north", 1.0)
    sources.told(KEY, 3, now=0.0)
    sources.failed(KEY, now=0.0)
    assert sources.expired(1.0) == [KEY]


def test_a_consumer_without_a_rack_keeps_to_leaders() -> None:
    sources = PreferredReplicas("", 60.0)
    assert sources.of(KEY) == Source(None, "")
    assert sources.expired(1e9) == []


def test_a_replica_that_names_another_one_is_avoided() -> None:
    """Two that name each other would send the client to and fro."""
    sources = PreferredReplicas("north", 60.0)
    sources.told(KEY, 3, now=0.0)
    sources.told(KEY, 4, now=1.0)
    assert sources.of(KEY) == Source(None, "")
    assert sources.expired(1.0 + AVOID_S) == [KEY]
    sources.told(KEY, 4, now=20.0)
    assert sources.of(KEY) == Source(4, "north")
