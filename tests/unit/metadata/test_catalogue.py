"""`MetadataCache`: topic ids, leader epochs, and which of two answers counts."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from pykafka.metadata.cache import NO_EPOCH, MetadataCache
from pykafka.protocol import wire

NAME = "t"
FIRST, SECOND = UUID(int=1), UUID(int=2)
NO_ID = UUID(int=0)


def told(id_: UUID, *leaders: tuple[int, int], name: str = NAME) -> wire.MetadataResponse:
    """Return an answer about one topic.

    :param leaders: (broker, leader epoch) of each partition
    """
    topic = wire.MetadataResponse.Topic
    partitions = [
        topic.Partition(partition_index=index, leader_id=leader, leader_epoch=epoch)
        for index, (leader, epoch) in enumerate(leaders)
    ]
    return wire.MetadataResponse(topics=[topic(name=name, topic_id=id_, partitions=partitions)])


def known(catalogue: MetadataCache, partition: int = 0) -> tuple[int | None, int]:
    """Return the leader of a partition, and its epoch."""
    return catalogue.leader_of(NAME, partition), catalogue.leader_epoch(NAME, partition)


def test_ids_and_epochs_are_kept() -> None:
    catalogue = MetadataCache()
    assert (catalogue.topic_id(NAME), known(catalogue)) == (None, (None, NO_EPOCH))
    catalogue.take_over(told(FIRST, (1, 4), (2, 0)), [NAME])
    assert catalogue.topic_id(NAME) == FIRST
    assert (known(catalogue, 0), known(catalogue, 1)) == ((1, 4), (2, 0))


def test_an_older_epoch_replaces_nothing() -> None:
    """A broker that lags behind sent producers and consumers back to the former leader."""
    catalogue = MetadataCache()
    catalogue.take_over(told(FIRST, (1, 4), (2, 7)), [NAME])
    found = catalogue.take_over(told(FIRST, (3, 3), (3, 8)), [NAME])
    assert (known(catalogue, 0), known(catalogue, 1)) == ((1, 4), (3, 8))
    assert [found[NAME].partitions[id_].leader for id_ in (0, 1)] == [1, 3]


def test_an_answer_of_the_same_epoch_counts() -> None:
    catalogue = MetadataCache()
    catalogue.take_over(told(FIRST, (1, 4)), [NAME])
    catalogue.take_over(told(FIRST, (-1, 4)), [NAME])
    assert known(catalogue) == (-1, 4)


def test_another_id_replaces_everything(caplog: pytest.LogCaptureFixture) -> None:
    catalogue = MetadataCache()
    catalogue.take_over(told(FIRST, (1, 4)), [NAME])
    with caplog.at_level(logging.INFO):
        catalogue.take_over(told(SECOND, (2, 0)), [NAME])
    assert (catalogue.topic_id(NAME), known(catalogue)) == (SECOND, (2, 0))
    assert str(FIRST) in caplog.text
    assert str(SECOND) in caplog.text


def test_without_ids_each_answer_counts() -> None:
    """Kafka 2.1 to 2.7: nothing tells an old answer from that about a topic that was made anew."""
    catalogue = MetadataCache()
    catalogue.take_over(told(NO_ID, (1, 4)), [NAME])
    catalogue.take_over(told(NO_ID, (2, 0)), [NAME])
    assert (catalogue.topic_id(NAME), known(catalogue)) == (None, (2, 0))


def test_an_answer_without_the_id_keeps_it() -> None:
    """In a cluster that is being upgraded, some brokers tell ids, and others do not."""
    catalogue = MetadataCache()
    catalogue.take_over(told(FIRST, (1, 4)), [NAME])
    catalogue.take_over(told(NO_ID, (2, NO_EPOCH)), [NAME])
    assert (catalogue.topic_id(NAME), known(catalogue)) == (FIRST, (2, NO_EPOCH))


def test_a_topic_that_is_gone_is_forgotten() -> None:
    catalogue = MetadataCache()
    catalogue.take_over(told(FIRST, (1, 4)), [NAME])
    catalogue.take_over(wire.MetadataResponse(), [NAME])
    assert (catalogue.topic_id(NAME), known(catalogue)) == (None, (None, NO_EPOCH))
    catalogue.take_over(told(SECOND, (2, 0)), [NAME])
    assert (catalogue.topic_id(NAME), known(catalogue)) == (SECOND, (2, 0))


def test_a_hint_counts_if_it_is_newer() -> None:
    catalogue = MetadataCache()
    catalogue.take_over(told(FIRST, (1, 4), (1, 4)), [NAME])
    found = catalogue.take_leader(NAME, 0, 2, 5)
    assert found is not None
    assert (found.id, found.leader) == (0, 2)
    assert (known(catalogue, 0), known(catalogue, 1)) == ((2, 5), (1, 4))
    assert catalogue.take_leader(NAME, 0, 3, 5) is None
    assert catalogue.take_leader(NAME, 0, 3, 4) is None
    assert catalogue.take_leader(NAME, 9, 3, 9) is None
    assert catalogue.take_leader("other", 0, 3, 9) is None
    assert known(catalogue, 0) == (2, 5)
    catalogue.take_over(told(FIRST, (1, 4), (1, 4)), [NAME])  # from a broker that has not heard of it
    assert (known(catalogue, 0), known(catalogue, 1)) == ((2, 5), (1, 4))


def test_what_brokers_refuse_to_describe_is_known_until_they_do() -> None:
    def refused(name: str, code: int) -> wire.MetadataResponse:
        return wire.MetadataResponse(topics=[wire.MetadataResponse.Topic(name=name, error_code=code)])

    catalogue = MetadataCache()
    catalogue.take_over(refused(NAME, 29), [NAME])
    catalogue.take_over(told(FIRST, (1, 4), name="other"), ["other"])
    assert catalogue.errors == {NAME: 29}
    assert catalogue.metadata(NAME) is None
    catalogue.take_over(told(FIRST, (1, 4)), [NAME])
    assert catalogue.errors == {}
    catalogue.take_over(refused(NAME, 29), [NAME])
    assert catalogue.errors == {NAME: 29}
    assert known(catalogue) == (1, 4)  # an error tells nothing about the partitions
    catalogue.take_over(refused(NAME, 3), [NAME])
    assert catalogue.errors == {}
