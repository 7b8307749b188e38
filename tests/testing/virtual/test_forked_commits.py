"""Commits of a forked child before its first read, in virtual time: they are not those of its parent's member."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import OffsetsNotCommitted
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper
from tests.support.memberships import PROTOCOLS

GROUP, TOPIC = "readers", "orders"
KEY = TopicPartition(TOPIC, 0)
EACH: dict[str, dict[str, Any]] = {"auto": {}, **PROTOCOLS}


def _behind(consumer: Any) -> None:
    consumer.commit(timeout=2.0)


def _named(consumer: Any) -> None:
    consumer.commit({KEY: 1}, timeout=2.0)


def _later(consumer: Any) -> None:
    consumer.commit_async({KEY: 1})
    consumer._later.join(consumer._handler.now() + 5.0)
    consumer._engine.raise_errors()


@pytest.mark.parametrize("commit", [_behind, _named, _later])
@pytest.mark.parametrize("protocol", EACH)
def test_a_child_does_not_commit_as_its_parents_member(
    scheduler: Scheduler,
    network: Network,
    virtual: VirtualHandler,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    commit: Callable[[Any], None],
) -> None:
    """The coordinator took it: it carried the parent's names, and put the group back behind what the parent had committed."""

    def program() -> None:
        network.zookeeper = zookeeper = ZooKeeper(virtual)
        with FakeCluster(1, {TOPIC: 1}, handler=virtual) as cluster:
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            client = KafkaClient(cluster.hosts, handler=virtual)
            with client.producer() as producer:
                for _ in range(3):
                    producer.produce(TOPIC, b"1").get()
            consumer = client.consumer(TOPIC, group=GROUP, auto_offset_reset="earliest", **EACH[protocol])
            found: list[Any] = []
            while len(found) < 3:
                found += consumer.poll(timeout=1.0)
            consumer.commit({KEY: 2})
            membership: Any = consumer._follower.membership
            membership = getattr(membership, "chosen", membership)
            if protocol == "zookeeper":  # in this process the session stays the parent's
                monkeypatch.setattr(membership._session, "leave_to_parent", lambda: None)
            consumer._after_fork()
            membership._after_fork()
            with pytest.raises(OffsetsNotCommitted):
                commit(consumer)
            assert client.admin.list_group_offsets(GROUP)[GROUP][KEY].offset == 2
            client.close()
        zookeeper.close()

    scheduler.run(program)
