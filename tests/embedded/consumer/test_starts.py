"""Where `client.consumer(...)` begins: rules, commits, and what `explain_start()` says of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pykafka import KafkaClient, StartRules
from pykafka.common import TopicPartition
from pykafka.consumer.startrules import Start
from pykafka.exceptions import OffsetOutOfRangeError, OffsetResetNeededError
from tests.embedded.consumer.test_kafkaconsumer import cluster, drain, fill, make, numbers
from tests.support.inside import engine_of
from tests.support.waiting import until

__all__ = ["cluster", "make"]
pytestmark = [pytest.mark.timeout(120), pytest.mark.on_asyncio]


@pytest.fixture
def group() -> str:
    return f"g{next(numbers)}"


def commit(client: KafkaClient, group: str, key: TopicPartition, offset: int) -> None:
    with client.consumer(group=group) as consumer:
        consumer.assign([key])
        consumer.commit({key: offset})


@pytest.mark.parametrize(
    ("options", "offset", "rule", "said"),
    [
        ({}, 0, "no_commit", "there is no group; no_commit is earliest"),
        ({"auto_offset_reset": "latest"}, 5, "no_commit", "no_commit is latest"),
        ({"start": StartRules(no_commit="latest")}, 5, "no_commit", "no_commit is latest"),
        ({"auto_offset_reset": "none"}, None, "no_commit", "no_commit is raise"),
    ],
    ids=["earliest", "latest", "start", "none"],
)
def test_without_a_commit(client: KafkaClient, make: Any, options: Any, offset: Any, rule: str, said: str) -> None:
    topic = make()
    values = fill(client, topic, 5)
    key = TopicPartition(topic, 0)
    with client.consumer(**options) as consumer:
        # before it reads, and it moves nothing
        (start,) = consumer.explain_start(key)
        assert start[:4] == (*key, offset, rule)
        assert said in start.reason
        assert consumer.assignment() == []
        consumer.assign([key])
        if offset is None:
            with pytest.raises(OffsetResetNeededError) as info:
                consumer.one(10)
            assert (info.value.topic, info.value.partition, info.value.earliest, info.value.latest) == (*key, 0, 5)
            with pytest.raises(OffsetResetNeededError):
                consumer.position(key, 10)
            consumer.seek(key, 2)
            assert drain(consumer, 3) == values[2:]
        else:
            assert consumer.position(key) == offset
            assert consumer.explain_start() == [
                Start(*key, offset, "position", "the consumer reads it, and this is the offset of the next record")
            ]
            assert drain(consumer, 5 - offset) == values[offset:]


def test_at_the_commit(client: KafkaClient, make: Any, group: str) -> None:
    topic = make(2)
    values = fill(client, topic, 5)
    key = TopicPartition(topic, 0)
    commit(client, group, key, 3)
    with client.consumer(group=group, auto_offset_reset="latest") as consumer:
        starts = consumer.explain_start(key, TopicPartition(topic, 1))
        assert starts[0] == Start(*key, 3, "committed", f"group {group} has committed offset 3")
        assert starts[1][2:4] == (0, "no_commit")
        assert f"group {group} has committed nothing" in starts[1].reason
        consumer.assign([key])
        assert drain(consumer, 2) == values[3:]


@pytest.mark.parametrize(
    ("rule", "committed", "offset"),
    [("earliest", 99, 0), ("latest", 99, 5), ("nearest", 99, 5), ("raise", 99, None)],
    ids=["earliest", "latest", "nearest", "raise"],
)
def test_out_of_range(
    client: KafkaClient, make: Any, group: str, rule: Any, committed: int, offset: int | None
) -> None:
    topic = make()
    fill(client, topic, 5)
    key = TopicPartition(topic, 0)
    commit(client, group, key, committed)
    with client.consumer(group=group, start=StartRules(out_of_range=rule)) as consumer:
        (start,) = consumer.explain_start(key)
        assert start[2:4] == (offset, "out_of_range")
        consumer.assign([key])
        if offset is not None:
            until(client.cluster.handler, lambda: consumer.position(key) == offset)
        values = fill(client, topic, 2, first=5)
        if offset is None:
            with pytest.raises(OffsetResetNeededError) as info:
                consumer.one(10)
            assert info.value.offset == committed
            assert isinstance(info.value.__cause__, OffsetOutOfRangeError)
            consumer.seek_to_beginning(key)
            assert len(drain(consumer, 7)) == 7
        else:
            assert drain(consumer, 7 - offset)[-2:] == values


def test_partitions_that_come_later_have_a_rule_of_their_own(client: KafkaClient, make: Any) -> None:
    topic = make(2)
    fill(client, topic, 5, 1)
    new = TopicPartition(topic, 1)
    with client.consumer(auto_offset_reset="latest", start=StartRules(new_partition=timedelta(0))) as consumer:
        engine_of(consumer).added = frozenset([new])
        (start,) = consumer.explain_start(new)
        assert start[3] == "new_partition"
        assert "new_partition is by duration, 0:00:00 back" in start.reason
