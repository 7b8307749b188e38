"""A timeout or a cancellation that comes within `produce()`: the message was not taken, and the log has none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.producer.accumulator import BREATHE_EVERY
from tests.support.waiting import CutOff

pytestmark = pytest.mark.on_asyncio


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, topics={"one": 1}) as cluster:
        yield cluster


def _any_topic(client: KafkaClient) -> tuple[Any, Callable[[bytes], Any]]:
    producer = client.producer()
    return producer, lambda value: producer.produce("one", value)


def _one_topic(client: KafkaClient) -> tuple[Any, Callable[[bytes], Any]]:
    producer = client.topics["one"].get_producer()
    return producer, producer.produce


@pytest.mark.parametrize("make", [_any_topic, _one_topic], ids=["any-topic", "one-topic"])
def test_where_the_hub_turns_nothing_is_taken_yet(
    client: KafkaClient, make: Callable[[KafkaClient], tuple[Any, Callable[[bytes], Any]]]
) -> None:
    """Each 256 messages `produce()` lets other greenlets or tasks run, and a timeout of its caller may end it there."""
    producer, produce = make(client)
    engine = getattr(producer, "_engine", producer)
    accumulator = engine.accumulator
    breathe, taken, lost = accumulator.breathe, [], 0
    accumulator.cooperative = True

    def cut_off() -> None:
        raise CutOff

    for number in range(3 * BREATHE_EVERY):
        accumulator.breathe = cut_off if number else breathe
        try:
            produce(b"%d" % number)
        except CutOff:
            lost += 1
        else:
            taken.append(b"%d" % number)
    accumulator.breathe = breathe
    producer.close() if hasattr(producer, "close") else producer.stop()
    assert lost == 3
    consumer = client.topics["one"].get_simple_consumer(consumer_timeout_ms=20_000)
    found = [consumer.consume() for _ in taken]
    assert [None if message is None else message.value for message in found] == taken
    assert consumer.held_offsets == {0: len(taken) - 1}
    assert client.topics["one"].latest_available_offsets()[0].offset == [len(taken)]
    consumer.stop()
