"""Partitions of which a leader tells no offset, or which metadata leaves out, beside others that are read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import TopicAuthorizationFailed
from tests.support.inside import engine_of
from tests.support.scripted import TOPIC, ManyPartitions, batch
from tests.support.waiting import until

KEYS = [TopicPartition(TOPIC, id_) for id_ in range(3)]
#: Leaders that say so: they lead no more, and may not tell.
NOT_LEADER, DENIED = 6, 29


@pytest.mark.on_asyncio
def test_a_start_that_is_not_known_does_not_hold_up_the_others(concurrency: Callable[[], dict[str, Any]]) -> None:
    with (
        ManyPartitions(3) as broker,
        KafkaClient(hosts=broker.hosts, socket_timeout_ms=2000, **concurrency()) as client,
    ):
        broker.logs = {id_: batch([b"%d" % id_]) for id_ in range(3)}
        broker.refused = {1: NOT_LEADER}
        with client.consumer() as consumer:
            engine_of(consumer).assign(engine_of(consumer).find(KEYS))
            found = [consumer.one(1), consumer.one(1)]
            assert {record.value for record in found if record is not None} == {b"0", b"2"}
            assert consumer.one(0.3) is None
            broker.refused = {}
            record = consumer.one(5)
            assert record is not None
            assert record.value == b"1"


def test_an_error_that_does_not_pass_is_of_its_partition(concurrency: Callable[[], dict[str, Any]]) -> None:
    with ManyPartitions(3) as broker, KafkaClient(hosts=broker.hosts, **concurrency()) as client:
        broker.logs = {id_: batch([b"%d" % id_]) for id_ in range(3)}
        broker.refused = {1: DENIED}
        with client.consumer() as consumer:
            with pytest.raises(TopicAuthorizationFailed) as caught:
                consumer.assign(KEYS)
            assert (caught.value.topic, caught.value.partition) == (TOPIC, 1)
            values: list[Any] = []

            def both() -> bool:
                with suppress(TopicAuthorizationFailed):  # each attempt raises it again
                    values.extend(record.value for record in consumer.poll(timeout=0.1))
                return len(values) == 2

            until(client.cluster.handler, both, 5)
            assert sorted(values) == [b"0", b"2"]
