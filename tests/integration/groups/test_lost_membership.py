"""A commit that the coordinator refuses as the member is out of the group: the next call joins again, at once."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import ManagedBalancedConsumer
from pykafka.exceptions import ShareLostError
from tests.integration.groups.test_consumer_groups import Readers, readers
from tests.support.groups import Group
from tests.support.inside import listener_of, membership_of
from tests.support.waiting import until

__all__ = ["readers"]

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]

#: Heartbeats that come too late to notice anything.
SELDOM: dict[str, Any] = {"heartbeat_interval_ms": 15_000, "session_timeout_ms": 30_000}


def reading(readers: Readers, one: Any, into: list[Any], seconds: float) -> None:
    """Poll until there are records."""

    def polled() -> list[Any]:
        into.extend(one.poll(5, 0.1))
        return into

    until(readers.client.cluster.handler, polled, seconds)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"protocol": "classic"}, id="classic"),
        pytest.param({"protocol": "classic", "assignor": "cooperative-sticky"}, id="cooperative"),
        pytest.param({"protocol": "consumer"}, id="consumer", marks=pytest.mark.needs("assigning")),
    ],
)
@pytest.mark.on_asyncio
@pytest.mark.needs("static")
def test_the_next_call_joins_again(readers: Readers, options: dict[str, Any]) -> None:
    readers.produce(100)
    one = readers.join(**SELDOM, **options)
    read: list[Any] = []
    reading(readers, one, read, 20)
    shares: Any = membership_of(one)
    before = shares.member_id, shares.generation
    readers.client.admin.remove_members(readers.group, shares.member_id)  # as if its session had ended
    with pytest.raises(ShareLostError, match="the next call for messages joins again"):
        one.commit()
    told: Any = listener_of(one).on_lost.__self__
    assert not any(name == "lost" for name, _ in told.told)
    again = one.poll(5, 0)  # nothing of what is lost
    assert [name for name, _ in told.told if name == "lost"] == ["lost"]
    assert {(record.topic, record.partition, record.offset) for record in again} <= {
        (record.topic, record.partition, record.offset) for record in read
    }
    reading(readers, one, again, 8)
    assert (shares.member_id, shares.generation) != before
    one.commit()


@pytest.mark.needs("static")
def test_a_managed_consumer_joins_again(group: Group[ManagedBalancedConsumer]) -> None:
    group.produce(30)
    one = group.join(**SELDOM, auto_commit_enable=False)
    group.drain(10)
    member_id = one._consumer_id
    group.client.admin.remove_members(group.name, member_id)
    with pytest.raises(ShareLostError):
        one.commit_offsets()
    group.until(lambda: one._consumer_id not in ("", member_id) and one._consumer is not None, 8)
    group.drain(30)
    one.commit_offsets()
    one.stop()
