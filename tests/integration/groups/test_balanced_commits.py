"""`commit_offsets()` in a rebalance: what is still the member's is committed, and nothing to commit is no error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka import BalancedConsumer, KafkaClient, ManagedBalancedConsumer
from pykafka.exceptions import ConsumerStoppedException, OffsetsNotCommitted
from tests.support.groups import Balanced, Group, Place, balanced

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]


@pytest.fixture
def group(client: KafkaClient, place: Place) -> Balanced:
    return balanced(client, place, partitions=5)


def halted(group: Balanced, kazoo: Any, before: Callable[[BalancedConsumer], object]) -> BalancedConsumer:
    """Return a member of partitions 2 and 3 that has been asked to read 3 and 4, and waits for another to release 4.

    :param before: called when the member has its first share
    """
    ids, owners = f"/consumers/{group.name}/ids", f"/consumers/{group.name}/owners/{group.topic.name}"
    for other in ("!first", "~last"):
        kazoo.create(f"{ids}/{other}", group.topic.name.encode(), makepath=True)
    kazoo.create(f"{owners}/7-4", b"~last", makepath=True)
    one = group.join(auto_commit_enable=False, rebalance_max_retries=100)
    group.until(lambda: sorted(one.partitions) == [2, 3])
    before(one)
    kazoo.delete(f"{ids}/~last")
    group.until(lambda: one._consumer is None)
    return one


def committed(group: Balanced) -> dict[int, int]:
    """Return what the group has committed: {partition id: offset}."""
    consumer = group.topic.get_simple_consumer(consumer_group=group.name, auto_start=False, reset_offset_on_fetch=False)
    return {id_: answer.offset for id_, answer in consumer.fetch_offsets() if answer.offset > 0}


def read_all(group: Balanced) -> Callable[[BalancedConsumer], object]:
    """Return a function that has a member read ten messages of each of its partitions."""
    with group.client.producer() as producer:
        for id_ in range(5):
            for number in range(10):
                producer.produce(group.topic.name, b"%d" % number, partition=id_)

    def read(one: BalancedConsumer) -> None:
        group.until(lambda: (one.consume(block=False), one.held_offsets)[1] == {2: 9, 3: 9})

    return read


def test_what_is_still_the_members_is_committed_in_a_rebalance(group: Balanced, kazoo: Any) -> None:
    one = halted(group, kazoo, read_all(group))
    one.commit_offsets()
    assert committed(group) == {3: 10}
    one.commit_offsets([(group.topic.partitions[3], 7)])
    assert committed(group) == {3: 7}
    with pytest.raises(OffsetsNotCommitted, match="rebalance") as caught:
        one.commit_offsets([(group.topic.partitions[3], 8), (group.topic.partitions[2], 7)])
    assert caught.value.failures == {(group.topic.name, 2): 7}
    one.commit_offsets([])
    kazoo.delete(f"/consumers/{group.name}/owners/{group.topic.name}/7-4")
    group.until(lambda: sorted(one.partitions) == [3, 4])
    assert one.held_offsets[3] == 9
    one.commit_offsets()
    assert committed(group) == {3: 10}
    one.stop()
    with pytest.raises(ConsumerStoppedException, match="is not running"):
        one.commit_offsets()


def test_nothing_to_commit_in_a_rebalance_is_no_error(group: Balanced, kazoo: Any) -> None:
    one = halted(group, kazoo, lambda _: None)
    one.commit_offsets()
    assert committed(group) == {}
    one.stop()


def test_a_managed_consumer_that_has_lost_its_share_has_nothing_to_commit(client: KafkaClient) -> None:
    managed = Group(ManagedBalancedConsumer, client, 2, heartbeat_interval_ms=100, auto_commit_enable=False)
    managed.produce(10)
    one = managed.join(max_poll_interval_ms=500, session_timeout_ms=6000)
    managed.drain(10)
    managed.until(lambda: one._consumer is None)  # it took no message for too long
    one.commit_offsets()
    with pytest.raises(OffsetsNotCommitted, match="rebalance"):
        one.commit_offsets([(managed.topic.partitions[0], 1)])
    one.stop()
