"""Effects of altered configurations that clients can notice."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.admin.configs import AlterOperation, ConfigType
from pykafka.exceptions import (
    InvalidRecord,
    InvalidRequest,
    InvalidTimestamp,
    MessageSizeTooLarge,
    NotEnoughReplicas,
    OffsetOutOfRangeError,
    PolicyViolation,
)
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from tests.testing.datapath import TIME_MS, Brokers, batch, formats


def alter(brokers: Brokers, kind: int, resource: str, name: str, value: str | None, node: int = 1) -> int:
    """Set a value, or delete it (None); return the error code."""
    asked = wire.IncrementalAlterConfigsRequest.Resource
    operation = AlterOperation.DELETE if value is None else AlterOperation.SET
    config = asked.Config(name=name, config_operation=operation, value=value)
    request = wire.IncrementalAlterConfigsRequest(
        resources=[asked(resource_type=kind, resource_name=resource, configs=[config])]
    )
    return brokers.ask(request, 1, node).responses[0].error_code


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("message.max.bytes", "50", MessageSizeTooLarge),
        ("min.insync.replicas", "3", NotEnoughReplicas),
        ("log.cleanup.policy", "compact", InvalidRecord),
        ("log.message.timestamp.before.max.ms", "1000", InvalidTimestamp),
    ],
)
@pytest.mark.parametrize("broker", ["", "1"])
def test_defaults_of_topics_at_brokers(name: str, value: str, error: Any, broker: str) -> None:
    brokers = Brokers(2)
    assert alter(brokers, ConfigType.BROKER, broker, name, value) == 0
    assert brokers.produce(batch("x")).error_code == error.ERROR_CODE
    assert alter(brokers, ConfigType.BROKER, broker, name, None) == 0
    assert brokers.produce(batch("x")).error_code == 0


def test_the_topics_own_value_and_the_brokers_own_one_go_before() -> None:
    brokers = Brokers(2, partitions=2)
    alter(brokers, ConfigType.BROKER, "", "message.max.bytes", "50")
    alter(brokers, ConfigType.BROKER, "2", "message.max.bytes", "5000", node=2)
    assert brokers.produce(batch("x"), index=1, node=2).error_code == 0
    assert brokers.produce(batch("x")).error_code == MessageSizeTooLarge.ERROR_CODE
    alter(brokers, ConfigType.TOPIC, "orders", "max.message.bytes", "6000")
    assert brokers.produce(batch("x")).error_code == 0


def test_compression_and_time_of_appending() -> None:
    brokers = Brokers()
    alter(brokers, ConfigType.BROKER, "", "compression.type", "gzip")
    alter(brokers, ConfigType.BROKER, "", "log.message.timestamp.type", "LogAppendTime")
    answer = brokers.produce(batch("x", time_ms=TIME_MS))
    assert answer.log_append_time_ms > TIME_MS
    assert formats(brokers.fetch().records) == {(2, 1)}


def test_what_a_cleanup_policy_forbids() -> None:
    brokers = Brokers()
    alter(brokers, ConfigType.BROKER, "", "log.cleanup.policy", "compact")
    topic = wire.DeleteRecordsRequest.Topic
    parts = [topic.Partition(partition_index=0, offset=0)]
    answer = brokers.ask(wire.DeleteRecordsRequest(topics=[topic(name="orders", partitions=parts)]), 2)
    assert answer.topics[0].partitions[0].error_code == PolicyViolation.ERROR_CODE


@pytest.mark.parametrize("at_broker", [True, False])
def test_unclean_elections(at_broker: bool) -> None:
    brokers = Brokers(2)
    partition, replicas = brokers.partition, brokers.state.replicas
    replicas.hold_back(partition, 2, in_sync=False)
    brokers.produce(batch("lost"), acks=1)
    brokers.state.on_stop(brokers.state.nodes[1])
    assert partition.leader == -1
    kind, name = (ConfigType.BROKER, "") if at_broker else (ConfigType.TOPIC, "orders")
    assert alter(brokers, kind, name, "unclean.leader.election.enable", "true", node=2) == 0
    assert (partition.leader, partition.log.end) == (2, 0)
    brokers.state.on_start(brokers.state.nodes[1])
    replicas.hold_back(partition, 1, in_sync=False)
    brokers.produce(batch("lost"), acks=1, node=2)
    brokers.state.on_stop(brokers.state.nodes[2])
    assert (partition.leader, partition.log.end) == (1, 0)


def test_times_of_a_group() -> None:
    brokers = Brokers()

    def interval(group: str) -> int:
        beat = wire.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            rebalance_timeout_ms=1,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        return brokers.ask(beat, 1).heartbeat_interval_ms

    def session_ms(group: str) -> int:
        found = brokers.state.groups.consumer(group)
        assert found is not None
        due_ms = found.members["m"].session.due_ms
        assert due_ms is not None
        return due_ms - brokers.state.now_ms()

    assert alter(brokers, ConfigType.GROUP, "g", "consumer.heartbeat.interval.ms", "9000") == 0
    assert alter(brokers, ConfigType.GROUP, "g", "consumer.session.timeout.ms", "60000") == 0
    assert (interval("g"), interval("other")) == (9000, 5000)
    assert session_ms("other") <= 45_000 < session_ms("g")


@pytest.mark.parametrize(
    "name",
    [
        "auto.create.topics.enable",
        "default.replication.factor",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.min.session.timeout.ms",
        "num.partitions",
        "transaction.max.timeout.ms",
    ],
)
@pytest.mark.parametrize("replaces", [True, False])
def test_what_brokers_read_at_their_start_is_not_altered(name: str, replaces: bool) -> None:
    brokers = Brokers()
    value = "true" if name.endswith("enable") else "7000"
    if not replaces:
        assert alter(brokers, ConfigType.BROKER, "", name, value) == InvalidRequest.ERROR_CODE
        return
    asked = wire.AlterConfigsRequest.Resource
    resource = asked(resource_type=ConfigType.BROKER, resource_name="", configs=[asked.Config(name=name, value=value)])
    request: Request[wire.AlterConfigsResponse] = wire.AlterConfigsRequest(resources=[resource])
    assert brokers.ask(request, 2).responses[0].error_code == InvalidRequest.ERROR_CODE


@pytest.mark.parametrize(
    ("kind", "name"), [(ConfigType.BROKER, "log.retention.ms"), (ConfigType.TOPIC, "retention.ms"), (None, "")]
)
def test_records_that_are_too_old(kind: int | None, name: str) -> None:
    """A log is one segment, so it goes when its newest record is too old."""
    brokers = Brokers(partitions=2)
    now_ms, days = brokers.state.now_ms(), 7
    if kind is not None:
        days = 1
        alter(brokers, kind, "orders" if kind == ConfigType.TOPIC else "", name, str(24 * 3600 * 1000))
    for time_ms in (now_ms, now_ms + 600_000):
        brokers.produce(batch("x", time_ms=time_ms))
    log = brokers.partition.log
    with brokers.state.lock:
        brokers.state.waiters.advance(days * 24 * 3600 * 1000)
        assert (log.start, log.end) == (0, 2)
        brokers.state.waiters.advance(600_000)
        brokers.state.waiters.advance(600_000)
    assert (log.start, log.end, log.size) == (2, 2, 0)
    assert brokers.fetch(0).error_code == OffsetOutOfRangeError.ERROR_CODE


@pytest.mark.parametrize(
    ("configs", "open_transaction"),
    [({"retention_ms": "-1"}, False), ({"cleanup_policy": "compact"}, False), ({}, True)],
)
def test_records_that_stay(configs: dict[str, str], open_transaction: bool) -> None:
    brokers = Brokers(1, 1, **configs)
    brokers.produce(batch("x", keys=("k",), time_ms=brokers.state.now_ms()))
    if open_transaction:
        brokers.partition.log.open_transactions[7] = 0
    with brokers.state.lock:
        brokers.state.waiters.advance(100 * 24 * 3600 * 1000)
    assert brokers.partition.log.start == 0
