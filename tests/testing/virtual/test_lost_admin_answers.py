"""Changes by administrators whose answers are lost, in virtual time."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import GroupIdNotFound
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

GROUP, ORDERS = "readers", TopicPartition("orders", 0)


@pytest.mark.parametrize("place", ["before", "middle", "after"])
@pytest.mark.parametrize("release", ["2.8.2", "3.9.2", "4.4"])
def test_the_last_offset_of_a_group_is_deleted_once(
    scheduler: Scheduler, virtual: VirtualHandler, release: str, place: str
) -> None:
    """Brokers before 4.0 delete the group with it, so the caller got GROUP_ID_NOT_FOUND, as the request was sent again."""

    def program() -> None:
        with (
            FakeCluster(1, {ORDERS.topic: 1}, handler=virtual, as_version=release) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            client.admin.alter_group_offsets(GROUP, {ORDERS: 5})
            cluster.cut("OffsetDelete", place, times=2)
            client.admin.delete_group_offsets(GROUP, [ORDERS])
            assert ORDERS not in client.admin.list_group_offsets(GROUP)[GROUP]

    scheduler.run(program)


def test_offsets_of_no_group_are_an_error(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """The coordinator answers the first request, so there is no doubt."""

    def program() -> None:
        with (
            FakeCluster(1, {ORDERS.topic: 1}, handler=virtual, as_version="2.8.2") as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            pytest.raises(GroupIdNotFound),
        ):
            cluster.fail("OffsetDelete", "NOT_COORDINATOR", times=2)
            client.admin.delete_group_offsets(GROUP, [ORDERS])

    scheduler.run(program)
