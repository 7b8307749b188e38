"""Members by PyKafka 2's classes that end and start again, while the worker of their former life is still there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import FencedInstanceId, KafkaException
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper

GROUP, TOPIC = "readers", "orders"
#: How long a call may wait for a message (ms), how often members commit (ms), and how long a rebalance may take (s).
CALL_MS, COMMIT_MS, SOON_S = 300, 200, 10.0
KINDS: dict[str, dict[str, Any]] = {
    "managed": {"managed": True, "heartbeat_interval_ms": 200, "session_timeout_ms": 6_000},
    "zookeeper": {"zookeeper_hosts": "anywhere:2181", "zookeeper_connection_timeout_ms": 4_000},
}


class Place(NamedTuple):
    """Virtual time, brokers with a topic of two partitions and ten messages each, and two clients."""

    virtual: VirtualHandler
    cluster: FakeCluster
    client: KafkaClient
    other: KafkaClient
    options: dict[str, Any]

    def member(self, callback: Any = None, **options: Any) -> Any:
        return self.client.topics[TOPIC].get_balanced_consumer(
            GROUP, post_rebalance_callback=callback, **{**self.options, "auto_start": False, **options}
        )

    def second(self) -> None:
        """Join by another member, on a worker of its own."""
        self.virtual.spawn(self.other.topics[TOPIC].get_balanced_consumer, GROUP, **self.options)

    def read(self, consumer: Any, count: int) -> set[tuple[int, int]]:
        """Read so many messages; errors come through."""
        seen: set[tuple[int, int]] = set()
        ends = self.virtual.now() + SOON_S
        while len(seen) < count and self.virtual.now() < ends:
            message = consumer.consume()
            if message is not None:
                seen.add((message.partition_id, message.offset))
        assert len(seen) == count
        return seen

    def until(self, is_so: Callable[[], object]) -> None:
        ends = self.virtual.now() + SOON_S
        while not is_so():
            assert self.virtual.now() < ends
            self.virtual.sleep(0.01)


@pytest.fixture
def run(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler
) -> Callable[[str, Callable[[Place], object]], None]:
    """Return what runs a program with a cluster and a ZooKeeper; nothing is left at its end."""

    def run(kind: str, program: Callable[[Place], object]) -> None:
        options = {
            "consumer_timeout_ms": CALL_MS,
            "rebalance_backoff_ms": 500,
            "auto_commit_enable": True,
            "auto_commit_interval_ms": COMMIT_MS,
            **KINDS[kind],
        }

        def inner() -> None:
            network.zookeeper = server = ZooKeeper(virtual)
            with (
                FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster,
                KafkaClient(cluster.hosts, handler=virtual) as client,
                KafkaClient(cluster.hosts, handler=virtual) as other,
            ):
                cluster.set_group_settings(initial_rebalance_delay_ms=0)
                with client.producer() as producer:
                    for number in range(20):
                        producer.produce(TOPIC, b"%d" % number, partition=number % 2).get()
                program(Place(virtual, cluster, client, other, options))
            server.close()
            virtual.sleep(1)

        scheduler.run(inner)
        assert scheduler.errors == []
        assert scheduler.leftovers == []

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_waits_for_the_callback_that_has_stopped_the_consumer(run: Any, kind: str) -> None:
    """Its worker went on in the next life, and `consume()` raised for each auto-commit that was refused before."""

    def program(place: Place) -> None:
        calls: list[dict[int, int]] = []
        has_returned = False

        def callback(consumer: Any, _: Any, new: dict[int, int]) -> None:
            nonlocal has_returned
            calls.append(new)
            if len(calls) == 2:
                consumer.stop()
                place.virtual.sleep(1.0)
                has_returned = True

        consumer = place.member(callback)
        consumer.start()
        place.read(consumer, 1)
        place.second()
        place.until(lambda: len(calls) == 2 and not consumer._running)
        consumer.start()
        assert has_returned
        assert len(place.read(consumer, 10)) == 10
        consumer.stop()

    run(kind, program)


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_callback_may_start_the_consumer_again(run: Any, kind: str, auto_commit: bool) -> None:
    """The former life took the place of the next one: the consumer of that fetched, and committed, for ever."""

    def program(place: Place) -> None:
        calls: list[dict[int, int]] = []

        def callback(consumer: Any, _: Any, new: dict[int, int]) -> None:
            calls.append(new)
            if len(calls) == 2:
                consumer.stop()
                consumer.start()

        consumer = place.member(callback, auto_commit_enable=auto_commit)
        consumer.start()
        place.read(consumer, 20)
        place.second()
        place.until(lambda: len(calls) == 3 and len(consumer.partitions) == 1)
        with place.client.producer() as producer:
            for partition in range(2):
                producer.produce(TOPIC, b"new", partition=partition).get()
        place.read(consumer, 1 if auto_commit else 11)
        consumer.stop()

    run(kind, program)


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_callback_that_stops_the_consumer_in_its_start_is_no_error(run: Any, kind: str, auto_commit: bool) -> None:
    """With auto-commit, `start()` of a managed consumer raised: it committed where it began, as a member that had left."""

    def program(place: Place) -> None:
        consumer = place.member(lambda consumer, *_: consumer.stop(), auto_commit_enable=auto_commit)
        consumer.start()
        assert not consumer._running

    run(kind, program)


@pytest.mark.parametrize("kind", KINDS)
def test_a_callback_that_starts_the_consumer_in_its_start_is_told_so(run: Any, kind: str) -> None:
    """It waited for two minutes: for itself."""

    def program(place: Place) -> None:
        def callback(consumer: Any, *_: Any) -> None:
            consumer.stop()
            with pytest.raises(KafkaException, match=r"by something that start\(\) itself calls"):
                consumer.start()

        began = place.virtual.now()
        consumer = place.member(callback)
        consumer.start()
        assert not consumer._running
        assert place.virtual.now() - began < SOON_S

    run(kind, program)


def test_a_start_behind_the_error_that_ends_the_consumer_is_one(run: Any) -> None:
    """It did nothing while the consumer was about to end, and the next call said that it was not running."""

    def program(place: Place) -> None:
        consumer = place.member(group_instance_id="one")
        consumer.start()
        place.read(consumer, 5)
        with place.cluster.hold("OffsetCommit") as held:
            held.await_met()  # by auto-commit
            second = place.other.topics[TOPIC].get_balanced_consumer(
                GROUP, group_instance_id="one", **{**place.options, "auto_commit_enable": False}
            )

            def release() -> None:
                place.virtual.sleep(2.0)
                held.release()

            place.virtual.spawn(release)
            with pytest.raises(FencedInstanceId):
                place.read(consumer, 100)
            second.stop()
            consumer.start()
        assert consumer._running
        assert not consumer._stopping.is_set()
        assert len(place.read(consumer, 10)) == 10
        consumer.stop()

    run("managed", program)


@pytest.mark.parametrize("then", ["stop", "start"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_that_is_cut_off_leaves_no_worker_to_the_next_call(run: Any, kind: str, then: str) -> None:
    """`stop()` had noted that the consumer does not run, and not yet that its worker is to end: the next one did nothing."""

    def program(place: Place) -> None:
        member = place.member()
        member.start()
        place.read(member, 20)
        worker, on_stop = member._worker, member._on_stop

        def interrupt() -> None:
            member._on_stop = on_stop
            raise KeyboardInterrupt

        member._on_stop = interrupt
        with pytest.raises(KeyboardInterrupt):
            member.stop()
        assert worker.is_alive()
        if then == "start":
            member.start()
            assert member._worker is not worker
        else:
            place.virtual.sleep(SOON_S)  # the group rebalances without it
        began = place.virtual.now()
        member.stop()
        assert not worker.is_alive()
        assert place.virtual.now() - began < SOON_S

    run(kind, program)
