"""Commits that are repeated: by auto-commit while the group rebalances, and after a refusal; in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets, Membership
from pykafka.exceptions import OffsetsNotCommitted, ShareLostError
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.testing import FakeCluster
from pykafka.testing.faults import Hold
from pykafka.testing.virtual import Scheduler, VirtualHandler

GROUP, ORDERS = "readers", [TopicPartition("orders", 0), TopicPartition("orders", 1)]
HEARTBEAT_MS = 200
OPTIONS: dict[str, Any] = {"group": GROUP, "heartbeat_interval_ms": HEARTBEAT_MS, "session_timeout_ms": 6_000}
#: How long leaving the group may take at a silent coordinator (s).
LEAVING_S = 5.0
#: What the group has committed, which the first member repeats, and what the second member commits.
BEFORE, AFTER = 1, 2


def is_repeated(request: Request[Any]) -> bool:
    """Return whether a request repeats the old commit."""
    return isinstance(request, wire.OffsetCommitRequest) and any(
        partition.committed_offset == BEFORE for topic in request.topics for partition in topic.partitions
    )


@pytest.mark.parametrize(
    "protocol", [{"protocol": "consumer"}, {"protocol": "classic", "assignor": "cooperative-sticky"}]
)
def test_a_repeated_commit_names_no_later_generation(
    scheduler: Scheduler, virtual: VirtualHandler, protocol: dict[str, Any]
) -> None:
    """Its retries took back what another member had committed for a partition that it had got meanwhile."""

    def program() -> tuple[int, bool]:
        with (
            FakeCluster(brokers=1, topics={"orders": 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
        ):
            cluster.set_group_settings(consumer_heartbeat_interval_ms=HEARTBEAT_MS)
            with client.producer() as producer:
                for key in ORDERS:
                    producer.produce(key.topic, b"one", partition=key.partition).get()
            with client.consumer(group=GROUP, auto_commit=False) as consumer:
                consumer.assign(ORDERS)
                consumer.commit(dict.fromkeys(ORDERS, BEFORE))
            first = client.consumer("orders", auto_commit=True, auto_commit_interval_ms=500, **OPTIONS, **protocol)
            while set(first.assignment()) != set(ORDERS):
                first.poll(timeout=0.1)
            asked: list[Any] = []
            cluster.on_request(lambda call: asked.append(call.request) if is_repeated(call.request) else None)
            cut = cluster.cut("OffsetCommit", "before", 100, when=is_repeated)
            while not asked:
                first.poll(timeout=0.1)
            second = other.consumer("orders", auto_commit=False, **OPTIONS, **protocol)
            while not second.assignment():
                first.poll(timeout=0.1)
                second.poll(timeout=0.1)
            (moved,) = second.assignment()
            second.commit({moved: AFTER})
            cut.end()
            count = len(asked)
            for _ in range(50):
                first.poll(timeout=0.1)
                second.poll(timeout=0.1)
            found = second.committed(moved)[moved]
            assert found is not None
            return found.offset, len(asked) > count

    offset, goes_on = scheduler.run(program)
    assert offset == AFTER
    assert goes_on


def _is_committed(consumer: KafkaConsumer[Any, Any], timeout: float | None, held: Hold, held_s: float) -> bool:
    """Return whether a commit succeeds that begins so long before the coordinator answers (s)."""

    def answer() -> None:
        handler.sleep(held_s)
        held.release()

    handler = consumer._cluster.handler
    handler.spawn(answer, name="the coordinator's answers")
    with suppress(OffsetsNotCommitted):
        consumer.commit({ORDERS[0]: AFTER}, timeout=timeout)
        return True
    return False


@pytest.mark.parametrize(
    ("protocol", "api"),
    [
        ({"protocol": "consumer"}, "ConsumerGroupHeartbeat"),
        ({"protocol": "classic", "assignor": "cooperative-sticky"}, "SyncGroup"),
    ],
)
@pytest.mark.parametrize(
    ("held_s", "timeout", "is_committed"), [(1.5, None, True), (1.5, 0.5, False), (4.0, None, False)]
)
def test_a_commit_waits_all_of_its_time_for_the_end_of_a_rebalance(
    scheduler: Scheduler,
    virtual: VirtualHandler,
    protocol: dict[str, Any],
    api: str,
    held_s: float,
    timeout: float | None,
    is_committed: bool,
) -> None:
    """It waited for one socket timeout, of the two that it has: a coordinator waits longer for a member that was killed."""

    def program() -> tuple[bool, float]:
        with (
            FakeCluster(brokers=1, topics={"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=1_000) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
        ):
            cluster.set_group_settings(consumer_heartbeat_interval_ms=HEARTBEAT_MS, has_assignment_epochs=False)
            first = client.consumer("orders", auto_commit=False, **OPTIONS, **protocol)
            while not first.assignment():
                first.poll(timeout=0.1)
            second = other.consumer("orders", auto_commit=False, **OPTIONS, **protocol)
            with cluster.hold(api) as held:
                while held.met < 2:  # so that the coordinator has both members in a later generation
                    first.poll(timeout=0.1)
                    second.poll(timeout=0.1)
                began = virtual.now()
                return _is_committed(first, timeout, held, held_s), virtual.now() - began

    committed, seconds = scheduler.run(program)
    assert committed == is_committed
    assert seconds < 2.1


@pytest.mark.parametrize("of_all", [True, False], ids=["of all that was consumed", "of given offsets"])
def test_a_commit_waits_for_its_turn_within_its_time(
    scheduler: Scheduler, virtual: VirtualHandler, of_all: bool
) -> None:
    """It waited two socket timeouts for the one before, and had two more for itself."""

    def program() -> float:
        with (
            FakeCluster(brokers=1, topics={"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=1_000) as client,
            client.consumer(group=GROUP, auto_commit=False) as consumer,
        ):
            with client.producer() as producer:
                producer.produce("orders", b"one", partition=0).get()
            consumer.assign(ORDERS[:1])
            while not consumer.poll(timeout=0.1):
                pass
            with cluster.hold("OffsetCommit"):
                consumer.commit_async()
                virtual.sleep(0.5)
                began = virtual.now()
                with pytest.raises(OffsetsNotCommitted):
                    consumer.commit(None if of_all else {ORDERS[0]: 1})
                return virtual.now() - began

    assert scheduler.run(program) < 2.5


@pytest.mark.parametrize("auto_commit", [False, True])
@pytest.mark.parametrize(
    ("protocol", "api"),
    [
        ({"protocol": "consumer"}, "ConsumerGroupHeartbeat"),
        ({"protocol": "classic", "assignor": "cooperative-sticky"}, "SyncGroup"),
    ],
)
def test_a_commit_that_waits_for_the_end_of_a_rebalance_delays_no_other_call(
    scheduler: Scheduler, virtual: VirtualHandler, protocol: dict[str, Any], api: str, auto_commit: bool
) -> None:
    """It waits with its place in the order of commits, and with no lock that `poll()` or `close()` takes."""

    def program() -> None:
        with (
            FakeCluster(brokers=1, topics={"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=10_000) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
        ):
            cluster.set_group_settings(consumer_heartbeat_interval_ms=HEARTBEAT_MS, has_assignment_epochs=False)
            with client.producer() as producer:
                producer.produce("orders", b"one", partition=0).get()
            first = client.consumer("orders", auto_commit=auto_commit, **OPTIONS, **protocol)
            while not first.poll(timeout=0.1):
                pass
            second = other.consumer("orders", auto_commit=False, **OPTIONS, **protocol)
            with cluster.hold(api) as held:
                while held.met < 2:
                    first.poll(timeout=0.1)
                    second.poll(timeout=0.1)
                results: list[bool] = []
                waiting = virtual.spawn(
                    lambda: results.append(_is_committed(first, None, held, 1_000.0)), name="committing"
                )
                virtual.sleep(0.5)
                for timeout in (0.0, 0.2, 0.2):
                    began = virtual.now()
                    first.poll(timeout=timeout)
                    assert virtual.now() - began < timeout + 0.01
                assert not results, "the commit was meant to wait"
                began = virtual.now()
                with suppress(OffsetsNotCommitted):
                    first.close(timeout=0.5)
                assert virtual.now() - began < 0.5 + LEAVING_S + 0.01
                assert waiting.join(0.01)
                assert results == [False]

    scheduler.run(program)


@pytest.mark.parametrize("kind", ["the answer is lost", "another partition is refused"])
def test_auto_commit_takes_a_failed_commit_back_that_brokers_have_all_the_same(
    scheduler: Scheduler, virtual: VirtualHandler, kind: str
) -> None:
    """After a seek to the last commit that had succeeded, it took that for the group's: a later member passed over records."""

    def program() -> dict[TopicPartition, Any]:
        with (
            FakeCluster(brokers=1, topics={"orders": 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=500) as client,
        ):
            with client.producer() as producer:
                for number in range(3):
                    producer.produce("orders", b"%d" % number, partition=0).get()
            consumer = client.consumer(group=GROUP, auto_commit=True, auto_commit_interval_ms=100_000)
            consumer.assign(ORDERS)
            assert [record.offset for record in consumer.poll(1)] == [0]
            consumer.commit({ORDERS[0]: 1, ORDERS[1]: 0})
            assert [record.offset for record in consumer.poll()] == [1, 2]
            if kind == "the answer is lost":
                cut = cluster.cut("OffsetCommit", "after", 100)
                with pytest.raises(OffsetsNotCommitted):
                    consumer.commit()
                cut.end()
            else:
                too_long = OffsetAndMetadata(0, 5_000 * "x")
                with pytest.raises(OffsetsNotCommitted) as caught:
                    consumer.commit({ORDERS[0]: OffsetAndMetadata(3), ORDERS[1]: too_long})
                assert set(caught.value.failures) == {ORDERS[1]}
            consumer.seek(ORDERS[0], 1)
            consumer.close()
            with client.consumer(group=GROUP) as later:
                return later.committed(ORDERS[0])

    found = scheduler.run(program)[ORDERS[0]]
    assert found is not None
    assert found.offset == 1


def _commit(client: KafkaClient) -> None:
    with client.consumer(group=GROUP, auto_commit=False) as consumer:
        consumer.assign(ORDERS[:1])
        consumer.commit({ORDERS[0]: BEFORE})


def _commit_as_before(client: KafkaClient) -> None:
    consumer = client.topics["orders"].get_simple_consumer(GROUP, auto_start=False)
    consumer.start()
    consumer.commit_offsets([(client.topics["orders"].partitions[0], BEFORE)])
    consumer.stop()


@pytest.mark.parametrize(
    ("commit", "refused_s", "least", "most"),
    [
        (_commit, 0.0, 0.07, 0.3),
        (_commit, 4.0, 4.0, 5.5),  # it outlasts a coordinator that moves slowly
        (_commit_as_before, 0.0, 0.7, 1.5),
    ],
)
def test_a_refused_commit_is_repeated_soon(
    scheduler: Scheduler,
    virtual: VirtualHandler,
    commit: Callable[[KafkaClient], None],
    refused_s: float,
    least: float,
    most: float,
) -> None:
    """It waited for a second, as PyKafka 2's consumers still do: their option says that."""

    def program() -> float:
        with (
            FakeCluster(brokers=1, topics={"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            with client.producer() as producer:
                producer.produce("orders", b"one").get()
            commit(client)
            began: list[float] = []

            def is_refused(_: Any) -> bool:
                began.append(virtual.now())
                return len(began) == 1 or virtual.now() - began[0] < refused_s

            cluster.fail("OffsetCommit", "NOT_COORDINATOR", 1_000, when=is_refused)
            commit(client)
            return began[-1] - began[0]

    assert least <= scheduler.run(program) < most


@pytest.mark.parametrize("socket_s", [1, 4])
def test_a_commit_outlasts_a_coordinator_that_is_not_there(
    scheduler: Scheduler, virtual: VirtualHandler, socket_s: int
) -> None:
    """It asks for one for two socket timeouts; since retries begin after 0.1 s, it had given up after one."""

    def program() -> float:
        with (
            FakeCluster(brokers=1, topics={"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=1000 * socket_s) as client,
        ):
            with client.producer() as producer:
                producer.produce("orders", b"one").get()
            _commit(client)
            began = virtual.now()

            def is_gone(_: Any) -> bool:
                return virtual.now() - began < 1.5 * socket_s

            cluster.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", 10_000, when=is_gone)
            cluster.fail("OffsetCommit", "NOT_COORDINATOR", 1)
            _commit(client)
            return virtual.now() - began

    assert 1.5 * socket_s <= scheduler.run(program) < 2 * socket_s


@pytest.mark.parametrize("commit", [_commit, _commit_as_before])
@pytest.mark.parametrize(("moves", "least", "most"), [(1, 0.0, 0.05), (2, 0.07, 1.5)])
def test_a_commit_follows_a_coordinator_that_has_moved_at_once(
    scheduler: Scheduler,
    virtual: VirtualHandler,
    commit: Callable[[KafkaClient], None],
    moves: int,
    least: float,
    most: float,
) -> None:
    """It waited for a second, though another broker was named; it does if that one refuses, too."""

    def program() -> float:
        with (
            FakeCluster(brokers=2, topics={"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_coordinator(GROUP, 1)
            with client.producer() as producer:
                producer.produce("orders", b"one").get()
            commit(client)
            tried: list[tuple[float, int]] = []

            def observe(call: Any) -> None:
                if isinstance(call.request, wire.OffsetCommitRequest):
                    tried.append((virtual.now(), call.node.node_id))
                    if len(tried) <= moves:
                        cluster.set_coordinator(GROUP, 3 - call.node.node_id)

            cluster.on_request(observe)
            commit(client)
            assert [broker for _, broker in tried] == [1, 2, 1][: moves + 1]
            return tried[-1][0] - tried[0][0]

    assert least <= scheduler.run(program) < most


def test_a_commit_is_not_repeated_once_the_session_in_zookeeper_has_ended(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """The brokers do not know such groups: they took it, though another member had gone on from there."""

    def program() -> int:
        with (
            FakeCluster(brokers=1, topics={"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            key, sessions = ORDERS[0], [True]
            member = GroupOffsets(client.cluster, GROUP, 1_000, 5, Membership(may_commit=lambda: sessions[0]))
            other = GroupOffsets(client.cluster, GROUP, 1_000, 5)

            def takes_over(request: Request[Any]) -> bool:
                sessions[0] = False
                return is_repeated(request)

            cluster.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", when=takes_over)
            with pytest.raises(ShareLostError) as caught:
                member.commit({key: BEFORE})
            assert caught.value.failures == {key: BEFORE}
            other.commit({key: AFTER})
            return other.fetch([key])[key].offset

    assert scheduler.run(program) == AFTER
