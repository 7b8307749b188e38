"""Consumers with `protocol="consumer"`: each message once, no pause of what stays, transactions, and members that churn."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient, SubscriptionPattern
from pykafka.admin import ConfigResource
from pykafka.common import TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.exceptions import TransactionAbortableError
from pykafka.groups.listener import RebalanceListener
from pykafka.protocol import wire
from tests.brokers import KafkaCluster
from tests.integration.groups.test_consumer_groups import Readers
from tests.integration.groups.test_consumer_histories import History, finish, stall
from tests.support import churn
from tests.support.inside import listener_of, membership_of
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("assigning"), pytest.mark.timeout(120)]

CONSUMER: dict[str, Any] = {"protocol": "consumer"}
#: Of the long form, for each kind of concurrency.
REBALANCES = int(os.environ.get("REBALANCES", "300"))


@pytest.fixture
def readers(client: KafkaClient) -> Iterator[Readers]:
    group = Readers(client)
    yield group
    group.close()


@pytest.mark.on_asyncio
@pytest.mark.later("threads", "greenlets")
def test_what_stays_flows_while_a_slow_member_holds_the_rebalance_open(readers: Readers) -> None:
    """Records come all the time, and are committed; neither poll nor commit waits for the member that is slow."""
    now, sleep = readers.client.cluster.handler.now, readers.client.cluster.handler.sleep
    one, slow = readers.join(**CONSUMER), readers.join(**CONSUMER)
    readers.shared(3, 3)
    readers.produce(360)
    held = set(slow.assignment())
    readers.consumers.remove(slow)  # it makes no call from now on, and its heartbeats keep it in the group
    three = readers.join(**CONSUMER)
    readers.until(lambda: len(one.assignment()) == 2 and len(three.assignment()) == 1)
    stays = set(one.assignment())
    read: Counter[TopicPartition] = Counter()
    longest = 0.0
    for _ in range(30):
        started = now()
        records = one.poll(5, 1.0)
        one.commit()
        longest = max(longest, now() - started)
        read.update(TopicPartition(record.topic, record.partition) for record in records)
        readers.read.update(record.value for record in records)
        sleep(0.02)
    assert set(one.assignment()) == stays
    assert set(read) == stays
    assert read.total() > 100
    assert longest < 0.7
    assert set(slow.assignment()) == held
    readers.consumers.append(slow)
    readers.shared(2, 2, 2)
    readers.until(lambda: set(readers.read) == readers.all_values())
    readers.turn(0.3)
    assert set(readers.read.values()) == {1}


@pytest.mark.later("greenlets")
def test_a_pattern_for_the_broker_reads_topics_that_come(readers: Readers) -> None:
    begin = f"re-{readers.group}"
    first = create_topic(readers.client, 2, name=f"{begin}-1").name
    readers.topics = [first]
    readers.join(SubscriptionPattern(f"{begin}-.*"), committing=False, **CONSUMER)
    readers.produce(10)
    readers.until(lambda: set(readers.read) == readers.all_values())
    assert readers.consumers[0].subscription() == [first]
    assert begin in repr(readers.consumers[0])


def test_another_pattern_for_the_broker_ends_the_topics_of_the_former_one(readers: Readers) -> None:
    a, b = readers.topics
    both = SubscriptionPattern(f"({a}|{b})")
    one = readers.join(SubscriptionPattern(a), group_instance_id="host-1", **CONSUMER)
    readers.produce(10)
    readers.until(lambda: {key.topic for key in one.assignment()} == {a} and len(readers.read) == 10)
    readers.produce(10)
    one.subscribe(SubscriptionPattern(b))
    readers.read.clear()
    readers.until(lambda: {key.topic for key in one.assignment()} == {b} and len(readers.read) == 20)
    assert not any(value.startswith(a.encode()) for value in readers.read if value)
    one.subscribe(both)  # b matches before and after
    readers.until(lambda: {key.topic for key in one.assignment()} == {a, b} and len(readers.read) == 30)
    readers.close(one)
    readers.produce(10)
    readers.read.clear()
    one = readers.join(SubscriptionPattern(b), group_instance_id="host-1", **CONSUMER)
    readers.until(lambda: len(readers.read) == 10)
    assert not any(value.startswith(a.encode()) for value in readers.read if value)
    one.subscribe(SubscriptionPattern(f"{b}|{b}"))  # the same topics
    readers.produce(10)
    readers.until(lambda: len(readers.read) == 20)


def test_patterns_for_the_broker_and_assignors_are_refused_where_they_enter(client: KafkaClient) -> None:
    pattern = SubscriptionPattern("a.*")
    with pytest.raises(ValueError, match="group="):
        client.consumer(pattern)
    with pytest.raises(ValueError, match='protocol="consumer"'):
        client.consumer(pattern, group="g", protocol="classic")
    with pytest.raises(ValueError, match="must not be empty"):
        client.consumer(SubscriptionPattern(""), group="g", **CONSUMER)
    with pytest.raises(ValueError, match="one SubscriptionPattern"):
        client.consumer(pattern, "b", group="g", **CONSUMER)
    for assignor in ("sticky", ["range", "roundrobin"]):
        with pytest.raises(ValueError, match="uniform"):
            client.consumer("a", group="g", assignor=assignor, **CONSUMER)
    with pytest.raises(ValueError, match="'uniform'"):
        client.consumer("a", group="g", assignor="uniform", protocol="classic")
    with pytest.raises(ValueError, match="protocol"):
        client.consumer("a", group="g", protocol="newest")


@pytest.mark.later("threads")
def test_members_that_come_and_go_in_good_order_read_each_message_once(client: KafkaClient) -> None:
    history = History(client, **CONSUMER)
    history.join()
    history.rebalances(6)
    assert finish(history, once=True) >= 4


@pytest.mark.matrix
@pytest.mark.timeout(600)
@pytest.mark.on_asyncio
def test_two_hundred_rebalances(client: KafkaClient) -> None:
    history = History(client, **CONSUMER)
    history.join()
    history.rebalances(200)
    assert finish(history, once=True) >= 150


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_members_that_stall_lose_no_message(client: KafkaClient) -> None:
    stall(History(client, max_poll_interval_ms=1000, **CONSUMER))


@pytest.mark.on_asyncio
def test_a_transaction_commits_offsets_by_epoch_and_not_of_who_is_out(client: KafkaClient) -> None:
    topic, made = create_topic(client, 2).name, create_topic(client).name
    group, two = f"g-{uuid.uuid4().hex[:8]}", None
    with client.producer() as producer:
        producer.produce_many(topic, [b"%d" % number for number in range(20)])
    with (
        client.producer(transactional_id=group) as producer,
        client.consumer(topic, group=group, isolation_level="read_committed", **CONSUMER) as one,
    ):
        read: list[Any] = []
        while len(read) < 20:
            with producer.transaction():
                read += (found := one.poll(5, 10))
                for record in found:
                    producer.produce(made, record.value)
                producer.send_offsets(one)
        keys = sorted(TopicPartition(topic, id_) for id_ in range(2))
        offsets = GroupOffsets(client.cluster, group, 100, 5).fetch(keys)
        assert sum(found.offset for found in offsets.values()) == 20
        epoch = membership_of(one).identity.generation_id
        producer.begin_transaction()
        two = client.consumer(topic, group=group, **CONSUMER)
        while len(two.assignment()) < 1:
            two.poll(timeout=0.1)
            one.poll(timeout=0.1)
        assert membership_of(one).identity.generation_id > epoch
        (gone,) = two.assignment()
        with pytest.raises(TransactionAbortableError):
            producer.send_offsets(one, {gone: 3})
        producer.abort_transaction()
        two.close()


@pytest.mark.matrix
def test_a_timeout_inside_of_on_revoked_loses_nothing(kafka: KafkaCluster) -> None:
    with KafkaClient(hosts=kafka.hosts, use_greenlets=True) as client:
        readers = Readers(client)
        one = readers.join(committing=False, **CONSUMER)
        readers.shared(6)
        readers.produce(60)
        calls: list[set[TopicPartition]] = []

        class Slow(RebalanceListener):
            def on_revoked(self, partitions: list[TopicPartition]) -> None:
                calls.append(set(partitions))
                if len(calls) == 1:
                    gevent.sleep(10)
                one.commit()

        listener_of(one).on_revoked = Slow().on_revoked
        readers.join(committing=False, **CONSUMER)
        with pytest.raises(gevent.Timeout), gevent.Timeout(4):
            readers.shared(3, 3)
        readers.shared(3, 3)
        readers.until(lambda: set(readers.read) == readers.all_values())
        assert set(readers.read.values()) == {1}
        assert calls[0] == calls[1]
        readers.close()


class NextGenMember(churn.Member):
    """A member of the next-generation protocol."""

    def be_put_out(self) -> None:
        """Remove it from its group by another request, as the coordinator does with one that it has not heard of."""
        shares: Any = membership_of(self.consumer)
        place = None if shares is None else shares.heartbeats.target
        if place is not None and place.instance_id is None:
            group, id_ = place.group, shares.member_id
            request = wire.ConsumerGroupHeartbeatRequest(group_id=group, member_id=id_, member_epoch=-1)
            place.broker.call(request, "put out")


def new_churn(client: KafkaClient, seed: int, chances: churn.Chances) -> churn.Churn:
    """Return a churn of members of the next-generation protocol, whose sessions end soon."""
    made = churn.Churn(client, seed, chances, NextGenMember, protocol="consumer", max_poll_interval_ms=6000)
    client.admin.alter_configs({ConfigResource.group(made.group): {"consumer.session.timeout.ms": "3000"}})
    return made


@pytest.mark.later("greenlets")
def test_churn(client: KafkaClient) -> None:
    new_churn(client, 1, churn.Chances(0, 0.3, 0, 0)).run(15)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.on_asyncio
def test_churn_for_long(client: KafkaClient, record_property: Any) -> None:
    made = new_churn(client, 4, churn.Chances(vanishes=0.05, static=0.2))
    try:
        made.run(REBALANCES)
    finally:
        record_property("churn", made.report())
        print(made.report())
