"""Groups balanced through ZooKeeper: what `post_rebalance_callback` is told, what it may do, and how it may fail."""

from __future__ import annotations

from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.exceptions import ConsumerStoppedException, KafkaException
from tests.support.groups import Balanced, Place, balanced

pytestmark = [pytest.mark.kafka, pytest.mark.no_loop("consume in groups of ZooKeeper")]


@pytest.fixture
def group(client: KafkaClient, place: Place) -> Balanced:
    return balanced(client, place)


def test_the_callback_is_told_of_shares_and_says_where_to_go(group: Balanced) -> None:
    group.produce(300)
    group.join().commit_offsets()
    group.members.pop().stop()
    told: list[tuple[Any, dict[int, int], dict[int, int]]] = []

    def callback(consumer: Any, old: dict[int, int], new: dict[int, int]) -> dict[int, int] | None:
        told.append((consumer, old, new))
        return {0: 9} if not old else None

    one = group.join(post_rebalance_callback=callback)
    group.sizes(3)
    assert told == [(one, {}, {0: -2, 1: -2, 2: -2})]
    assert one.held_offsets[0] == 9
    held = one.held_offsets
    group.join()
    group.sizes(1, 2)
    consumer, old, new = told[1]
    assert (consumer, old) == (one, held)
    assert new == {id_: held[id_] for id_ in one.partitions}


@pytest.mark.parametrize("error", [AttributeError("no such thing"), KafkaException("no")])
def test_nothing_is_consumed_until_the_callback_has_gone_through(group: Balanced, error: Exception) -> None:
    """It says where to begin: consuming went on without its offsets, after its error had been raised once."""
    values = group.produce(30)
    failing = True

    def callback(*_: Any) -> None:
        if failing:
            raise error

    with pytest.raises(type(error), match=str(error)):
        group.join(post_rebalance_callback=callback)
    failing = False
    one = group.join(post_rebalance_callback=callback)
    group.sizes(3)  # nothing of the one that could not start is left
    failing = True
    group.join()
    for _ in range(2):
        with pytest.raises(type(error), match=str(error)):
            for _ in range(1000):
                assert one.consume(block=False) is None
                group.client.cluster.handler.sleep(0.02)
    failing = False
    group.sizes(1, 2)
    assert group.drain(30) == values


class Sudden(BaseException):
    """No error that anybody expects."""


@pytest.mark.parametrize("kind", [Sudden, gevent.Timeout], ids=["sudden", "timeout"])
def test_a_callback_that_ends_the_worker_ends_the_consumer(
    group: Balanced, kazoo: Any, kind: type[BaseException]
) -> None:
    """The worker was gone without a word, and its partitions were kept from the others."""
    calls = 0

    def callback(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise kind()

    values = group.produce(30)
    one = group.join(post_rebalance_callback=callback, consumer_timeout_ms=20_000)
    group.sizes(3)
    two = group.join(rebalance_max_retries=50)
    with pytest.raises(ConsumerStoppedException, match="post_rebalance_callback") as told:
        assert one.consume() is None
    assert isinstance(told.value.__cause__, kind)
    group.until(lambda: kazoo.get_children(f"/consumers/{group.name}/ids") == [two._consumer_id])
    group.members.remove(one)
    group.sizes(3)
    assert group.drain(30) == values
    one.start()
    group.members.append(one)
    group.sizes(1, 2)


@pytest.mark.parametrize("call", [1, 2])
def test_the_callback_may_stop_the_consumer(group: Balanced, kazoo: Any, call: int) -> None:
    calls: list[Any] = []

    def callback(consumer: Any, *_: Any) -> None:
        calls.append(consumer)
        if len(calls) == call:
            consumer.stop()

    one = group.join(post_rebalance_callback=callback)
    if call == 2:
        group.join()
    group.until(lambda: len(calls) == call and not one._running)
    with pytest.raises(ConsumerStoppedException):
        one.consume()
    ids = f"/consumers/{group.name}/ids"
    group.until(lambda: one._consumer_id not in kazoo.get_children(ids))
    assert one.partitions == {}
