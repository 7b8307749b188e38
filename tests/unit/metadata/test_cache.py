"""`MetadataCache`: topic ids, leader epochs, and which of two answers counts."""

from __future__ import annotations

import logging
from typing import Any, cast
from uuid import UUID

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.metadata.cache import MetadataCache
from pykafka.metadata.partition import NO_EPOCH
from pykafka.protocol import wire

NAME = "t"
FIRST, SECOND = UUID(int=1), UUID(int=2)
NO_ID = UUID(int=0)


def new_cache() -> MetadataCache:
    return MetadataCache(ThreadingHandler(), cast(Any, None), cast(Any, None))


def described(id_: UUID, *leaders: tuple[int, int], name: str = NAME) -> wire.MetadataResponse:
    """Return an answer about one topic.

    :param leaders: (broker, leader epoch) of each partition
    """
    topic = wire.MetadataResponse.Topic
    partitions = [
        topic.Partition(partition_index=index, leader_id=leader, leader_epoch=epoch)
        for index, (leader, epoch) in enumerate(leaders)
    ]
    return wire.MetadataResponse(topics=[topic(name=name, topic_id=id_, partitions=partitions)])


def known(cache: MetadataCache, partition: int = 0) -> tuple[int | None, int]:
    """Return the leader of a partition, and its epoch."""
    return cache.leader_of(NAME, partition), cache.leader_epoch(NAME, partition)


def test_ids_and_epochs_are_kept() -> None:
    cache = new_cache()
    assert (cache.topic_id(NAME), known(cache)) == (None, (None, NO_EPOCH))
    cache.take_over_topics(described(FIRST, (1, 4), (2, 0)), [NAME])
    assert cache.topic_id(NAME) == FIRST
    assert (known(cache, 0), known(cache, 1)) == ((1, 4), (2, 0))


def test_an_older_epoch_replaces_nothing() -> None:
    """A broker that lags behind sent producers and consumers back to the former leader."""
    cache = new_cache()
    cache.take_over_topics(described(FIRST, (1, 4), (2, 7)), [NAME])
    found = cache.take_over_topics(described(FIRST, (3, 3), (3, 8)), [NAME])
    assert (known(cache, 0), known(cache, 1)) == ((1, 4), (3, 8))
    assert [found[NAME].partitions[id_].leader for id_ in (0, 1)] == [1, 3]


def test_an_answer_of_the_same_epoch_counts() -> None:
    cache = new_cache()
    cache.take_over_topics(described(FIRST, (1, 4)), [NAME])
    cache.take_over_topics(described(FIRST, (-1, 4)), [NAME])
    assert known(cache) == (-1, 4)


def test_another_id_replaces_everything(caplog: pytest.LogCaptureFixture) -> None:
    cache = new_cache()
    cache.take_over_topics(described(FIRST, (1, 4)), [NAME])
    with caplog.at_level(logging.INFO):
        cache.take_over_topics(described(SECOND, (2, 0)), [NAME])
    assert (cache.topic_id(NAME), known(cache)) == (SECOND, (2, 0))
    assert str(FIRST) in caplog.text
    assert str(SECOND) in caplog.text


def test_without_ids_each_answer_counts() -> None:
    """Kafka 2.1 to 2.7: nothing tells an old answer from that about a topic that was made anew."""
    cache = new_cache()
    cache.take_over_topics(described(NO_ID, (1, 4)), [NAME])
    cache.take_over_topics(described(NO_ID, (2, 0)), [NAME])
    assert (cache.topic_id(NAME), known(cache)) == (None, (2, 0))


def test_an_answer_without_the_id_keeps_it() -> None:
    """In a cluster that is being upgraded, some brokers tell ids, and others do not."""
    cache = new_cache()
    cache.take_over_topics(described(FIRST, (1, 4)), [NAME])
    cache.take_over_topics(described(NO_ID, (2, NO_EPOCH)), [NAME])
    assert (cache.topic_id(NAME), known(cache)) == (FIRST, (2, NO_EPOCH))


def test_a_topic_that_is_gone_is_forgotten() -> None:
    cache = new_cache()
    cache.take_over_topics(described(FIRST, (1, 4)), [NAME])
    cache.take_over_topics(wire.MetadataResponse(), [NAME])
    assert (cache.topic_id(NAME), known(cache)) == (None, (None, NO_EPOCH))
    cache.take_over_topics(described(SECOND, (2, 0)), [NAME])
    assert (cache.topic_id(NAME), known(cache)) == (SECOND, (2, 0))


def test_what_stands_behind_an_unknown_topic_counts() -> None:
    cache = new_cache()
    response = described(FIRST, (1, 4))
    topic = wire.MetadataResponse.Topic
    response.topics[:0] = [topic(name="gone", error_code=3), topic(name=None), topic(name="refused", error_code=29)]
    cache.take_over_topics(response, None)
    assert known(cache) == (1, 4)
    assert cache.errors == {"refused": 29}


def test_a_hint_counts_if_it_is_newer() -> None:
    cache = new_cache()
    cache.take_over_topics(described(FIRST, (1, 4), (1, 4)), [NAME])
    found = cache.take_leader(NAME, 0, 2, 5)
    assert found is not None
    assert (found.id, found.leader) == (0, 2)
    assert (known(cache, 0), known(cache, 1)) == ((2, 5), (1, 4))
    assert cache.take_leader(NAME, 0, 3, 5) is None
    assert cache.take_leader(NAME, 0, 3, 4) is None
    assert cache.take_leader(NAME, 9, 3, 9) is None
    assert cache.take_leader("other", 0, 3, 9) is None
    assert known(cache, 0) == (2, 5)
    cache.take_over_topics(described(FIRST, (1, 4), (1, 4)), [NAME])  # from a broker that has not heard of it
    assert (known(cache, 0), known(cache, 1)) == ((2, 5), (1, 4))


def test_what_brokers_refuse_to_describe_is_known_until_they_do() -> None:
    def refused(name: str, code: int) -> wire.MetadataResponse:
        return wire.MetadataResponse(topics=[wire.MetadataResponse.Topic(name=name, error_code=code)])

    cache = new_cache()
    cache.take_over_topics(refused(NAME, 29), [NAME])
    cache.take_over_topics(described(FIRST, (1, 4), name="other"), ["other"])
    assert cache.errors == {NAME: 29}
    assert cache.metadata(NAME) is None
    cache.take_over_topics(described(FIRST, (1, 4)), [NAME])
    assert cache.errors == {}
    cache.take_over_topics(refused(NAME, 29), [NAME])
    assert cache.errors == {NAME: 29}
    assert known(cache) == (1, 4)  # an error tells nothing about the partitions
    cache.take_over_topics(refused(NAME, 3), [NAME])
    assert cache.errors == {}
