"""`client.share_consumer(...)` on real and fake brokers: each kind of acknowledgement, locks, members that share partitions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient, ShareConsumer
from pykafka.admin import ConfigResource, ConfigType
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    DeserializationError,
    InvalidRecordState,
    RegistryError,
    RegistryUnavailableError,
    TopicNotFoundError,
    UnpackedTooLargeError,
)
from pykafka.sharegroups.acquired_records import Acknowledged
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster
from tests.support.inside import engine_of
from tests.support.interrupts import Interrupted
from tests.support.topics import create_topic, delete_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.needs("share groups")]


def new_group(client: KafkaClient, **settings: str) -> str:
    """Return the name of a share group that begins at the first record."""
    name = f"share-{uuid.uuid4().hex[:8]}"
    changes = {"share.auto.offset.reset": "earliest", **{key.replace("_", "."): one for key, one in settings.items()}}
    client.admin.alter_configs({ConfigResource(ConfigType.GROUP, name): changes})
    return name


def filled(client: KafkaClient, count: int, partitions: int = 1) -> str:
    topic = create_topic(client, partitions).name
    with client.producer(linger_ms=50) as producer:
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=number % partitions)
    return topic


def taken(consumer: ShareConsumer[Any, Any], count: int, timeout: float = 20) -> list[Any]:
    """Return so many records of as many polls as that takes."""
    found: list[Any] = []
    deadline = time.monotonic() + timeout
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(timeout=1)
    return found


@pytest.mark.on_asyncio
def test_records_are_accepted_by_the_next_call(client: KafkaClient) -> None:
    topic, told = filled(client, 1000, partitions=2), list[Acknowledged]()
    group = new_group(client)
    with client.share_consumer(topic, group=group, on_acknowledge=told.append) as consumer:
        found = taken(consumer, 1000)
        assert sorted(int(record.value) for record in found) == list(range(1000))
        assert {record.delivery_count for record in found} == {1}
        assert consumer.lock_timeout_ms == 30_000
        assert consumer.assignment() == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert set(consumer.commit().values()) <= {None}
    assert sum(len(one.offsets) for one in told) == 1000
    assert {one.error for one in told} == {None}
    with client.share_consumer(topic, group=group) as consumer:
        assert consumer.poll(timeout=1) == []


@pytest.mark.parametrize("step", ["stop", "join", "_send"])
def test_a_close_that_was_interrupted_leaves_the_group_when_it_is_called_again(
    client: KafkaClient, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    group = new_group(client)
    consumer = client.share_consumer(filled(client, 3), group=group)
    assert len(taken(consumer, 3)) == 3
    engine = engine_of(consumer)
    (session,) = engine._sessions.values()
    target: Any = engine.member if step == "_send" else session
    really = getattr(target, step)

    def interrupted(*args: Any, **options: Any) -> Any:
        if step == "_send" and len(args) < 3:  # without a deadline: a heartbeat
            return really(*args, **options)
        monkeypatch.setattr(target, step, really)
        raise Interrupted

    monkeypatch.setattr(target, step, interrupted)
    with pytest.raises(Interrupted):
        consumer.close()
    consumer.close()
    assert not client.admin.describe_groups(group)[group].members


@pytest.mark.on_asyncio
def test_an_iteration_ends_and_accepts_what_it_gave(client: KafkaClient) -> None:
    topic, group = filled(client, 10), new_group(client)
    with client.share_consumer(topic, group=group) as consumer:
        for number, _ in enumerate(consumer):
            if number == 3:
                break
    with client.share_consumer(topic, group=group, consumer_timeout_ms=2000) as consumer:
        rest = {record.offset: record.delivery_count for record in consumer}
    assert sorted(rest) == [4, 5, 6, 7, 8, 9]
    assert set(rest.values()) <= {1, 2}


@pytest.mark.on_asyncio
def test_each_kind_of_acknowledgement(client: KafkaClient) -> None:
    topic, group = filled(client, 4), new_group(client)
    with client.share_consumer(topic, group=group, acknowledgement="explicit") as consumer:
        accepted, released, rejected, renewed = taken(consumer, 4)
        assert consumer.accept(accepted)
        assert released.nack()
        assert consumer.reject(rejected)
        assert consumer.renew(renewed)
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        assert consumer.accept(renewed)
        with pytest.raises(InvalidRecordState, match="was acknowledged"):
            consumer.release(accepted)
        told: list[Any] = []
        consumer.commit_async(told.append)
        (again,) = taken(consumer, 1)
        assert (again.offset, again.delivery_count) == (released.offset, 2)
        assert again.ack()
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        assert told == [{TopicPartition(topic, 0): None}]
        assert consumer.poll(timeout=0.7) == []


def test_what_was_in_hand_at_an_error_comes_again(client: KafkaClient) -> None:
    topic, group = filled(client, 3), new_group(client)
    with pytest.raises(ZeroDivisionError), client.share_consumer(topic, group=group) as consumer:
        assert len(taken(consumer, 3)) == 3
        raise ZeroDivisionError
    with client.share_consumer(topic, group=group) as consumer:
        assert [record.delivery_count for record in taken(consumer, 3)] == [2, 2, 2]


def test_bad_records(client: KafkaClient) -> None:
    """They are raised and released, or rejected."""
    topic, group = filled(client, 1), new_group(client)
    with client.producer() as producer:
        producer.produce(topic, b"bad")

    def read(value: bytes) -> int:
        return int(value)

    with client.share_consumer(topic, group=group, value_deserializer=read) as consumer:
        assert [record.value for record in taken(consumer, 1)] == [0]
        with pytest.raises(DeserializationError, match="the record was released"):
            taken(consumer, 1)
    with client.share_consumer(topic, group=group, value_deserializer=read, on_bad_record="skip") as skipping:
        assert skipping.poll(timeout=2) == []
        skipping.commit()
    with client.share_consumer(topic, group=group) as plain:
        assert plain.poll(timeout=1) == []


def test_a_registry_that_is_away_costs_no_delivery(client: KafkaClient) -> None:
    """The record stays acquired; with a release for each failure, brokers would give it up after five."""
    topic, group = filled(client, 2), new_group(client)
    answers = iter([*[RegistryUnavailableError("away")] * 7, RegistryError("refused"), b"0", b"1"])

    def read(value: bytes) -> bytes:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return value

    with client.share_consumer(topic, group=group, value_deserializer=read, on_bad_record="skip") as consumer:
        for _ in range(8):
            with pytest.raises(DeserializationError, match="the record is not to blame"):
                taken(consumer, 1)
        assert [(record.value, record.delivery_count) for record in taken(consumer, 2)] == [(b"0", 1), (b"1", 1)]


@pytest.mark.on_asyncio
def test_two_members_share_one_partition(client: KafkaClient) -> None:
    topic, group = filled(client, 0), new_group(client)
    with (
        client.share_consumer(topic, group=group, max_records=10, acquire_mode="record_limit") as one,
        client.share_consumer(topic, group=group, max_records=10, acquire_mode="record_limit") as two,
    ):
        until(client.cluster.handler, lambda: not one.poll(timeout=0.1) and bool(one.assignment()))
        until(client.cluster.handler, lambda: not two.poll(timeout=0.1) and bool(two.assignment()))
        with client.producer() as producer:
            for number in range(40):
                producer.produce(topic, b"%d" % number)
        found: dict[int, set[int]] = {1: set(), 2: set()}
        deadline = time.monotonic() + 20
        while sum(map(len, found.values())) < 40 and time.monotonic() < deadline:
            for number, consumer in ((1, one), (2, two)):
                records = consumer.poll(timeout=1)
                assert len(records) <= 10
                found[number] |= {record.offset for record in records}
        assert sorted(found[1] | found[2]) == list(range(40))
        assert not found[1] & found[2]
        assert all(found.values())


def test_a_lock_that_times_out_is_told_by_name(brokers: KafkaCluster | FakeCluster) -> None:
    with KafkaClient(brokers.hosts) as client:
        lock_times_out(client, brokers.advance if isinstance(brokers, FakeCluster) else time.sleep)


def lock_times_out(client: KafkaClient, wait: Callable[[float], None]) -> None:
    topic = filled(client, 2)
    group = new_group(client, share_record_lock_duration_ms="15000")
    with client.share_consumer(topic, group=group, acknowledgement="explicit") as consumer:
        renewed, late = taken(consumer, 2)
        assert consumer.lock_timeout_ms == 15_000
        wait(8)
        consumer.renew(renewed)
        assert set(consumer.commit().values()) == {None}
        wait(8)
        assert consumer.accept(late)
        (error,) = consumer.commit().values()
        assert isinstance(error, InvalidRecordState)
        assert error.topic == topic
        assert consumer.accept(renewed)
        assert set(consumer.commit().values()) == {None}
        (again,) = taken(consumer, 1)
        assert (again.offset, again.delivery_count) == (late.offset, 2)


def test_a_deleted_topic_is_no_longer_read(client: KafkaClient) -> None:
    gone, stays, group = filled(client, 1), filled(client, 1), new_group(client)
    with client.share_consumer(gone, stays, group=group) as consumer:
        assert len(taken(consumer, 2)) == 2
        delete_topic(client, gone)
        until(client.cluster.handler, lambda: not consumer.poll(timeout=0.2) and len(consumer.assignment()) == 1)
        with client.producer() as producer:
            producer.produce(stays, b"more")
        assert [record.value for record in taken(consumer, 1)] == [b"more"]


def test_refusals(client: KafkaClient) -> None:
    topic = filled(client, 1)
    with pytest.raises(TypeError, match="needs group="):
        client.share_consumer(topic)
    with pytest.raises(ValueError, match="acknowledgement must be one of 'implicit', 'explicit'"):
        client.share_consumer(topic, group="g", acknowledgement="none")
    with pytest.raises(ValueError, match="no patterns"):
        client.share_consumer("^a.*", group="g")
    client.cluster.allow_auto_create_topics = False
    with pytest.raises(TopicNotFoundError):
        client.share_consumer(f"no-{topic}", group="g")
    with client.consumer(topic) as other, client.share_consumer(topic, group=new_group(client)) as consumer:
        record = other.one(10)
        assert record is not None
        assert record.delivery_count is None
        with pytest.raises(ValueError, match="not from this consumer"):
            consumer.accept(record)


def test_a_batch_that_unpacks_to_too_much_is_not_read(client: KafkaClient) -> None:
    topic, group = create_topic(client, 2).name, new_group(client)
    with client.producer(linger_ms=0, compression="zstd") as producer:
        for value in (b"before", bytes(900_000)):
            producer.produce(topic, value, partition=0).get(20)
        for number in range(5):
            producer.produce(topic, b"%d" % number, partition=1)
    with client.share_consumer(topic, group=group, unpacked_max_bytes=500_000) as consumer:
        found: set[bytes | None] = set()
        errors: list[UnpackedTooLargeError] = []
        deadline = time.monotonic() + 60
        while (len(found) < 6 or not errors) and time.monotonic() < deadline:
            try:
                found |= {record.value for record in consumer.poll(timeout=1)}
            except UnpackedTooLargeError as error:
                errors.append(error)
    assert found == {b"before", *(b"%d" % number for number in range(5))}
    assert (errors[0].topic, errors[0].partition, errors[0].offset, errors[0].limit) == (topic, 0, 1, 500_000)
    # It was released, so another consumer may take it.
    with client.share_consumer(topic, group=group) as consumer:
        assert [record.value for record in taken(consumer, 1)] == [bytes(900_000)]
