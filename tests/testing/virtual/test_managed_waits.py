"""Calls of a managed consumer, in virtual time: they end in `consumer_timeout_ms`, whatever its worker waits for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import ConsumerStoppedException, KafkaException, OffsetsNotCommitted
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

GROUP, TOPIC = "readers", "orders"
HEARTBEAT_MS, SESSION_MS, MAX_POLL_MS, CALL_MS = 200, 6_000, 1_000, 500
#: How late a call may end (s), and how long the member needs until it reads once its worker waits no more.
LATE_S, SOON_S = 0.01, 12.0
#: How often a wait of the internal consumer looks whether the call's time is over (s).
LOOKS_S = 0.1
#: The answers that the worker waits for while the application is idle.
APIS = ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch", "OffsetCommit", "Metadata"]


def _member(client: KafkaClient, **options: Any) -> Any:
    return client.topics[TOPIC].get_balanced_consumer(
        GROUP,
        managed=True,
        max_poll_interval_ms=MAX_POLL_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=SESSION_MS,
        consumer_timeout_ms=CALL_MS,
        **options,
    )


def _produce(client: KafkaClient, value: bytes) -> None:
    with client.producer() as producer:
        for partition in range(2):
            producer.produce(TOPIC, value, partition=partition).get()


@pytest.mark.parametrize("auto_commit", [True, False], ids=["commits", "reads"])
@pytest.mark.parametrize("idle_s", [0.0, 2.5], ids=["at-once", "idle"])
@pytest.mark.parametrize("api", APIS)
def test_a_call_ends_in_its_time_while_the_worker_waits(
    scheduler: Scheduler, virtual: VirtualHandler, api: str, idle_s: float, auto_commit: bool
) -> None:
    """A call after `max_poll_interval_ms` waited for the rebalance, or committed: up to the session's time and more."""
    took: list[float] = []

    def timed(consumer: Any, block: bool = True) -> Any:
        began = virtual.now()
        message = None
        with suppress(OffsetsNotCommitted):  # of a member that has left, raised once
            message = consumer.consume(block)
        took.append(virtual.now() - began - (CALL_MS / 1000 if block else 0.0))
        return message

    def program() -> None:
        with (
            FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
        ):
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            _produce(client, b"before")
            consumer = _member(client, auto_commit_enable=auto_commit)
            assert {timed(consumer).value for _ in range(2)} == {b"before"}
            with cluster.hold(api):
                joins = virtual.spawn(_member, other)
                virtual.sleep(1.0 + idle_s)
                for _ in range(8):
                    timed(consumer, block=False)
                    timed(consumer)
            ends = virtual.now() + SOON_S
            while not consumer.partitions:
                assert virtual.now() < ends
                timed(consumer)
            joins.join(SOON_S)
            with suppress(OffsetsNotCommitted):
                consumer.stop()

    scheduler.run(program)
    assert max(took) <= LATE_S


def test_a_stop_that_is_cut_off_leaves_a_failed_commit_to_the_next_one(
    scheduler: Scheduler, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It forgot the commit that no call had raised, and so did all calls after it."""

    def cut_off(**_: object) -> None:
        raise KeyboardInterrupt

    def program() -> None:
        with (
            FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            consumer = _member(client)
            consumer._worker_exceptions.append(OffsetsNotCommitted("the commit before a rebalance failed", {}))
            with monkeypatch.context() as patch:
                patch.setattr(consumer._member, "close", cut_off)
                with pytest.raises(KeyboardInterrupt):
                    consumer.stop()
            with pytest.raises(OffsetsNotCommitted, match="before a rebalance"):
                consumer.stop()
            consumer.stop()

    scheduler.run(program)


def _simple(client: KafkaClient) -> Any:
    return client.topics[TOPIC].get_simple_consumer(GROUP, auto_start=False, consumer_timeout_ms=CALL_MS)


def _managed(client: KafkaClient) -> Any:
    return _member(client, auto_start=False)


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize(
    ("make", "api"),
    [
        *((_simple, api) for api in ("FindCoordinator", "OffsetFetch", "ListOffsets")),
        *((_managed, api) for api in ("FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets")),
    ],
)
def test_the_first_call_of_a_forked_child_ends_in_its_time(
    scheduler: Scheduler, virtual: VirtualHandler, make: Callable[[KafkaClient], Any], api: str, block: bool
) -> None:
    """It starts the consumer that ran in the parent: that took as long as the group, or the brokers, made it wait."""

    def program() -> None:
        with (
            FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            _produce(client, b"before")
            consumer = make(client)
            starts = consumer._starts if make is _managed else consumer._engine.starts
            starts.after_fork(True)
            with cluster.hold(api):
                for _ in range(3):
                    began = virtual.now()
                    assert consumer.consume(block) is None
                    assert virtual.now() - began <= (CALL_MS / 1000 if block else 0.0) + LATE_S
            ends = virtual.now() + SOON_S
            values: list[bytes] = []
            while len(values) < 2 and virtual.now() < ends:
                message = consumer.consume()
                values += [] if message is None else [message.value]
            assert values == [b"before"] * 2
            consumer.stop()

    scheduler.run(program)
    assert scheduler.errors == []


@pytest.mark.parametrize("make", [_simple, _managed])
def test_the_start_of_a_forked_child_takes_its_time_from_the_call(
    scheduler: Scheduler, virtual: VirtualHandler, make: Callable[[KafkaClient], Any]
) -> None:
    """A call whose start ended in time waited for messages as long as a call without a start."""

    def program() -> None:
        with (
            FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            consumer = make(client)
            starts = consumer._starts if make is _managed else consumer._engine.starts
            starts.after_fork(True)
            held = cluster.hold("FindCoordinator")

            def release() -> None:
                virtual.sleep(CALL_MS / 2000)
                held.release()

            virtual.spawn(release)
            began = virtual.now()
            assert consumer.consume() is None
            assert not starts.due
            assert virtual.now() - began <= CALL_MS / 1000 + LOOKS_S + LATE_S
            consumer.stop()

    scheduler.run(program)
    assert scheduler.errors == []


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets"])
def test_a_stop_while_another_worker_starts_ends_by_the_answers_and_leaves_nothing_running(
    scheduler: Scheduler, virtual: VirtualHandler, api: str
) -> None:
    """`start()` ends as well, and undoes what it has done: no member, no heartbeats, no internal consumer."""

    def program() -> None:
        with (
            FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            consumer = _member(client, auto_start=False)

            def start() -> None:
                with suppress(ConsumerStoppedException):
                    consumer.start()

            hold = cluster.hold(api)
            starting = virtual.spawn(start, name="starting")
            virtual.sleep(1.0)
            stopping = virtual.spawn(consumer.stop, name="stopping")
            virtual.sleep(1.0)
            hold.release()
            assert stopping.join(SOON_S)
            assert starting.join(SOON_S)
            assert consumer._consumer is None
            assert consumer._worker is None
            assert consumer._member.sender.has_ended
            with pytest.raises(ConsumerStoppedException):
                consumer.consume()
            description = client.admin.describe_groups([GROUP])[GROUP]
            assert not description.members

    scheduler.run(program)


@pytest.mark.parametrize("again", [False, True], ids=["stopped", "again"])
@pytest.mark.parametrize("api", ["OffsetFetch", "ListOffsets"])
def test_a_stop_does_not_wait_for_a_broker_that_is_silent_as_another_worker_starts(
    scheduler: Scheduler, virtual: VirtualHandler, api: str, again: bool
) -> None:
    """It waited for the answers that say where partitions begin, up to a socket timeout and more."""
    ended: list[str] = []

    def program() -> None:
        with (
            FakeCluster(2, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            _produce(client, b"1")
            consumer = _member(client, auto_start=False)

            def start() -> None:
                try:
                    consumer.start()
                except ConsumerStoppedException as error:
                    ended.append(str(error))

            with cluster.hold(api):
                starting = virtual.spawn(start, name="starting")
                virtual.sleep(1.0)
                began = virtual.now()
                consumer.stop()
                assert starting.join(1.0)
                assert virtual.now() - began < 0.1
            assert len(ended) == 1
            if again:
                consumer.start()
                assert {consumer.consume().value for _ in range(2)} == {b"1"}
                consumer.stop()

    scheduler.run(program)
    assert scheduler.errors == []


@pytest.mark.parametrize("api", ["OffsetFetch", "ListOffsets"])
def test_an_error_of_a_start_is_that_of_the_broker(scheduler: Scheduler, virtual: VirtualHandler, api: str) -> None:
    def program() -> None:
        with (
            FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            error = {"OffsetFetch": "GROUP_AUTHORIZATION_FAILED", "ListOffsets": "TOPIC_AUTHORIZATION_FAILED"}[api]
            cluster.fail(api, error)
            with pytest.raises(KafkaException, match=error):
                _member(client)

    scheduler.run(program)
    assert scheduler.errors == []
