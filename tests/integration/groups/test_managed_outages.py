"""Members of a group that the brokers keep, while the brokers of their partitions are away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer
from pykafka.exceptions import KafkaException
from tests.brokers import KafkaCluster
from tests.support.groups import Group
from tests.support.inside import membership_of
from tests.support.loops import Concurrency

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups"), pytest.mark.timeout(300)]


@pytest.fixture
def client(concurrency: Concurrency, kafka3: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=kafka3.hosts, **concurrency(), socket_timeout_ms=4000) as client:
        yield client


@pytest.mark.later("greenlets")
def test_a_share_whose_broker_is_away_is_consumed_when_it_is_back(client: KafkaClient, kafka3: KafkaCluster) -> None:
    """The error came once; then the member owned all partitions, sent heartbeats, and never read a message."""
    settings = {"heartbeat_interval_ms": 200, "auto_commit_enable": False}
    group = Group(ManagedBalancedConsumer, client, 6, **settings)
    values = group.produce(80)
    group.topic.get_simple_consumer(group.name, auto_start=False).fetch_offsets()  # there is a coordinator
    # nobody commits anything; and a rebalance fails for longer than its retries last, which would find the broker back
    one, two = group.join(), group.join()
    group.sizes(3, 3)
    coordinator = client.cluster.get_group_coordinator(group.name).id
    leaders = {id_: part.leader.id for id_, part in two.partitions.items() if part.leader is not None}
    victim = next(leader for leader in leaders.values() if leader != coordinator)
    kafka3.kill(victim)
    try:
        two.stop()
        group.members.remove(two)
        found: Counter[bytes | None] = Counter()
        told: list[KafkaException] = []

        def raised() -> bool:
            try:
                while (message := one.consume(block=False)) is not None:
                    found[message.value] += 1
            except KafkaException as error:
                told.append(error)
            return bool(told) and not one.partitions

        group.until(raised, 60)
        assert all(error.retriable for error in told)
        assert membership_of(one).membership.state.name == "STABLE"
    finally:
        kafka3.start(victim)
    # without a commit, what it had read before is read again
    while not values <= found:
        found += group.drain(1, KafkaException)
    assert set(found) == set(values)
    assert len(one.partitions) == 6
