"""Commits of a member are made in the order of the calls: between two calls, in a rebalance, beside others, at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import OffsetsNotCommitted
from pykafka.groups.listener import RebalanceListener
from tests.integration.groups.test_consumer_groups import Readers
from tests.support.inside import follower_of

pytestmark = [pytest.mark.kafka, pytest.mark.on_asyncio, pytest.mark.needs("groups"), pytest.mark.timeout(100)]

PROTOCOLS = [
    pytest.param({"assignor": "range"}, id="eager"),
    pytest.param({"assignor": "cooperative-sticky"}, id="cooperative"),
    pytest.param({"protocol": "consumer"}, id="next-gen", marks=pytest.mark.needs("assigning")),
]


@pytest.fixture
def readers(client: KafkaClient) -> Iterator[Readers]:
    group = Readers(client, topics=1)
    yield group
    group.close()


def offsets(consumer: Any, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return what the group has committed of partitions."""
    return {key: at.offset for key, at in consumer.committed(*keys).items() if at is not None}


@pytest.mark.parametrize("options", PROTOCOLS)
def test_a_listener_and_close(readers: Readers, options: dict[str, Any]) -> None:
    """The older commit of `commit_async()` never stands: on three partitions, one of which goes to another member."""
    readers.produce(30)

    class Committing(RebalanceListener):
        def on_revoked(self, partitions: list[TopicPartition]) -> None:
            for key in partitions:
                one.commit_async({key: 2})
                one.commit({key: 3})

    one = readers.join(committing=False, listener=Committing(), **options)
    readers.shared(3)
    key = readers.keys().pop()
    for number in range(10, 30, 2):
        one.commit_async({key: number})
        one.commit({key: number + 1})
        assert offsets(one, [key]) == {key: number + 1}
    readers.join(committing=False, **options)
    readers.shared(1, 2)
    gone = readers.keys() - set(one.assignment())
    assert offsets(one, gone) == dict.fromkeys(gone, 3)
    left = one.assignment()
    readers.close(one)
    with readers.client.consumer(group=readers.group) as reader:
        assert offsets(reader, left) == dict.fromkeys(left, 3)


@pytest.mark.parametrize("options", PROTOCOLS)
def test_a_commit_of_a_member_that_has_left_is_refused(
    readers: Readers, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker's commit came between leaving and the end of `close()`, and an empty group took it from anybody."""
    readers.produce(10)
    one = readers.join(committing=False, **options)
    readers.shared(3)
    key = readers.keys().pop()
    one.commit({key: 9})
    follower, refused = follower_of(one), []
    leave = follower.leave

    def leave_and_commit(midway: bool = False, leave_group: bool | None = None) -> None:
        leave(midway, leave_group=leave_group)
        with pytest.raises(OffsetsNotCommitted) as caught:
            one.commit({key: 3}, timeout=2)
        refused.append(caught.value)

    monkeypatch.setattr(follower, "leave", leave_and_commit)
    readers.close(one)
    assert len(refused) == 1
    with readers.client.consumer(group=readers.group) as reader:
        assert offsets(reader, [key]) == {key: 9}
