"""A plain consumer of very many partitions: what it costs grows as their number, and not as its square."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.partitioners import HashingPartitioner
from pykafka.utils.ordered import Ordered
from tests.support.scripted import TOPIC, ManyPartitions, batch

#: So many took more than a minute to start, and half a minute to close, while each was searched for among all others.
COUNT = 16_000
#: What takes some seconds has so long on a busy machine (s).
LIMIT_S = 60.0


def read(consumer: Any, count: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while count > 0 and time.monotonic() < deadline:
        count -= len(consumer.poll(10_000, timeout=1.0))
    assert count == 0


@pytest.mark.timeout(240)
@pytest.mark.later("greenlets")
def test_start_revoke_and_close(concurrency: Callable[[], dict[str, Any]]) -> None:
    with ManyPartitions(COUNT) as broker:
        broker.logs = dict.fromkeys(range(COUNT), batch([b"x"]))
        with KafkaClient(hosts=broker.hosts, **concurrency()) as client:
            began = time.monotonic()
            consumer = client.consumer(TOPIC)
            read(consumer, COUNT)
            keys = consumer.assignment()
            assert len(keys) == COUNT
            assert [consumer.position(key) for key in keys[:100]] == [1] * 100
            consumer.pause(*keys)
            consumer.resume(*keys)
            for key in keys:
                consumer.seek(key, 0)
            read(consumer, COUNT)
            consumer.assign([TopicPartition(TOPIC, 0)])
            consumer.close()
            assert time.monotonic() - began < LIMIT_S


def test_partitions_of_a_producer_are_not_sorted_for_each_message() -> None:
    class Compared(int):
        """A partition that counts comparisons."""

        compared = 0

        def __lt__(self, other: Any) -> bool:
            Compared.compared += 1
            return int(self) < int(other)

    partitions = [Compared(number) for number in range(100)]
    shuffled = random.Random(1).sample(partitions, 100)
    choose = HashingPartitioner(int)
    assert (choose(Ordered(partitions), b"7"), Compared.compared) == (7, 0)
    assert choose(shuffled, b"7") == 7
    assert Compared.compared > 0
