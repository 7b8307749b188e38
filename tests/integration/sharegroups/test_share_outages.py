"""Share consumers while brokers die, hang, or forget the session."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import GroupIdNotFound, InvalidShareSessionEpoch, SocketDisconnectedError
from pykafka.protocol import wire
from pykafka.sharegroups.acquired_records import Acknowledged
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster
from tests.integration.sharegroups.test_share_consumer import filled, new_group, taken
from tests.support.groups import close_before_the_answer
from tests.support.inside import engine_of
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.needs("share groups")]


@pytest.mark.on_asyncio
def test_a_lost_session_is_told_and_another_begins(client: KafkaClient) -> None:
    topic = filled(client, 5)
    with client.share_consumer(topic, group=new_group(client), acknowledgement="explicit") as consumer:
        found = taken(consumer, 5)
        (session,) = engine_of(consumer)._sessions.values()
        session._session._epoch += 5
        assert all(consumer.accept(record) for record in found)
        (error,) = consumer.commit().values()
        assert isinstance(error, InvalidShareSessionEpoch)
        assert not found[0].ack()  # lost, and comes again
        again = taken(consumer, 5)
        assert {record.delivery_count for record in again} == {2}
        assert all(record.ack() for record in again)
        consumer.commit()
        assert consumer.commit() == {}


@pytest.mark.on_asyncio
@pytest.mark.later("greenlets")
def test_records_of_a_lost_session_come_again_though_the_broker_still_has_its_connection(client: KafkaClient) -> None:
    """A broker that gets the next session first keeps the records of the lost one locked, for 30 s."""
    topic = filled(client, 5)
    with client.share_consumer(topic, group=new_group(client), acknowledgement="explicit") as consumer:
        found = taken(consumer, 5)
        (session,) = engine_of(consumer)._sessions.values()
        session._lose(SocketDisconnectedError("cut off"))
        session._channel += "-next"
        assert not found[0].ack()
        again = taken(consumer, 5)
        assert [record.delivery_count for record in again] == [2] * 5
        assert all(record.ack() for record in again)
        assert set(consumer.commit().values()) == {None}


@pytest.mark.on_asyncio
def test_a_member_whose_group_was_deleted_joins_again(client: KafkaClient, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = filled(client, 5), new_group(client)
    with client.share_consumer(topic, group=group) as consumer:
        assert len(taken(consumer, 5)) == 5
        consumer.commit()
        member: Any = engine_of(consumer).member
        gone = wire.ShareGroupHeartbeatRequest(group_id=group, member_id=consumer.member_id, member_epoch=-1)
        assert member.connection.find().call(gone, "forget").error_code == 0
        client.admin.delete_groups(group)
        member._wake.set()
        until(client.cluster.handler, lambda: "GROUP_ID_NOT_FOUND" in caplog.text, 10)

        def is_back() -> object:
            consumer.poll(timeout=0.1)  # raises nothing
            return consumer.assignment() and client.admin.describe_groups(group)[group].members

        until(client.cluster.handler, is_back, 30)


@pytest.mark.later("greenlets")
def test_a_member_that_closes_before_the_answer_to_its_first_heartbeat_leaves(
    client: KafkaClient, brokers: KafkaCluster | FakeCluster
) -> None:
    """It did not leave, and had partitions until its session ended."""
    topic, group = filled(client, 5), new_group(client)
    client.cluster.get_group_coordinator(group)
    handler = client.cluster.handler
    consumer = client.share_consumer(topic, group=group)
    close_before_the_answer(brokers, handler, partial(consumer.poll, timeout=30), consumer.close)
    handler.sleep(0.5)
    with suppress(GroupIdNotFound):  # it looked for its coordinator yet, and has not joined
        assert not client.admin.describe_groups(group)[group].members


@pytest.mark.kafka
def test_leader_and_coordinator_are_killed() -> None:
    """Records of the killed leader come again, and are accepted; close() keeps its deadline with a broker that hangs."""
    told: list[Acknowledged] = []

    def accepted() -> set[tuple[TopicPartition, int]]:
        return {(one.partition, offset) for one in told if one.error is None for offset in one.offsets}

    with KafkaCluster(brokers=3) as kafka, KafkaClient(kafka.hosts) as client:
        topic = create_topic(client, 3, 3).name
        with client.producer() as producer:
            for number in range(300):
                producer.produce(topic, b"%d" % number, partition=number % 3)
        group = new_group(client)
        consumer = client.share_consumer(topic, group=group, acknowledgement="explicit", on_acknowledge=told.append)
        found: list[Any] = taken(consumer, 300, 40)
        assert len(found) == 300
        killed = client.cluster.get_group_coordinator(group).id  # which leads a partition, too
        kafka.kill(killed)
        for record in found:
            consumer.accept(record)
        outcome = consumer.commit(20)
        assert set(outcome) == {TopicPartition(topic, number) for number in range(3)}
        deadline = time.monotonic() + 60
        while len(accepted()) < 300 and time.monotonic() < deadline:
            for record in consumer.poll(timeout=1):
                consumer.accept(record)
            consumer.commit(10)
        assert len(accepted()) == 300
        for broker in kafka.broker_ids:
            if broker != killed:
                kafka.pause(broker)
        started = time.monotonic()
        consumer.close(3)
        assert time.monotonic() - started < 4.5
        for broker in kafka.broker_ids:
            if broker != killed:
                kafka.resume(broker)
