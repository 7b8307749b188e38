"""Functions of the application that do not return, in virtual time: what stops a consumer ends all the same, and says why."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import ConsumerStoppedException, KafkaException, PartitionOwnedError
from pykafka.handlers.base import EventType
from pykafka.membershipprotocol import GroupMembershipProtocol
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper
from tests.support.memberships import PROTOCOLS

GROUP, TOPIC = "readers", "orders"
#: Of the clients, and of ZooKeeper's sessions (ms).
SOCKET_MS, ZOOKEEPER_MS = 10_000, 4_000
#: What `close()` has for all commits; it waits half of it for a listener. How long leaving takes, and a rebalance (s).
CLOSE_S, LEAVES_S, SOON_S = 8.0, 1.0, 20.0
BALANCED: dict[str, dict[str, Any]] = {
    "managed": {"managed": True, "heartbeat_interval_ms": 200, "session_timeout_ms": 6_000},
    "zookeeper": {"zookeeper_connect": "zookeeper:2181", "zookeeper_connection_timeout_ms": ZOOKEEPER_MS},
}


class Place:
    """A cluster with ten records in each partition, a ZooKeeper, and clients."""

    def __init__(self, virtual: VirtualHandler, cluster: FakeCluster) -> None:
        self.virtual = virtual
        self.cluster = cluster
        self.never: EventType = virtual.Event()
        self.clients: list[KafkaClient] = []
        with self.client().producer() as producer:
            for partition in range(2):
                for number in range(10):
                    producer.produce(TOPIC, b"%d" % number, partition=partition)

    def client(self) -> KafkaClient:
        """Return a client of its own connections."""
        client = KafkaClient(self.cluster.hosts, handler=self.virtual, socket_timeout_ms=SOCKET_MS)
        self.clients.append(client)
        return client

    def consumer(self, protocol: str, **options: Any) -> Any:
        """Return a member of the group, which commits by itself."""
        options = {"auto_commit": True, "auto_offset_reset": "earliest", **PROTOCOLS[protocol], **options}
        return self.client().consumer(TOPIC, group=GROUP, **options)

    def balanced(self, kind: str, **options: Any) -> Any:
        """Return a balanced consumer of PyKafka 2."""
        options = {"consumer_timeout_ms": 500, **BALANCED[kind], **options}
        return self.client().topics[TOPIC].get_balanced_consumer(GROUP, **options)

    def wait(self, condition: Callable[[], object]) -> None:
        """Wait until something holds."""
        ends = self.virtual.now() + SOON_S
        while not condition():
            assert self.virtual.now() < ends
            self.virtual.sleep(0.1)

    def hang(self, *_: object) -> None:
        """Do not return."""
        self.never.wait()


Run = Callable[[Callable[[Place], None]], None]


@pytest.fixture
def run(scheduler: Scheduler, network: Network, virtual: VirtualHandler) -> Run:
    """Return a function that runs a program in virtual time; nothing is left when it has ended."""

    def run(program: Callable[[Place], None]) -> None:
        def main() -> None:
            network.zookeeper = zookeeper = ZooKeeper(virtual)
            with FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster:
                cluster.set_group_settings(initial_rebalance_delay_ms=0)
                place = Place(virtual, cluster)
                program(place)
                for client in place.clients:
                    client.close()
            zookeeper.close()
            virtual.sleep(1)

        scheduler.run(main)
        assert scheduler.errors == []
        assert scheduler.leftovers == []

    return run


def _read(consumer: Any) -> None:
    """Poll until the consumer is closed."""
    with suppress(ConsumerStoppedException):
        while True:
            consumer.poll(timeout=0.5)


def _messages(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


def _listener(method: str, call: Callable[..., object]) -> Any:
    return type("Listener", (), {method: lambda _, partitions: call(partitions)})()


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
@pytest.mark.parametrize("method", ["on_assigned", "on_revoked"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_listener_that_hangs_does_not_keep_another_worker_from_leaving(
    run: Run, caplog: pytest.LogCaptureFixture, protocol: str, method: str, how: str
) -> None:
    """`close()` and `unsubscribe()` waited for it without limit. Others get the partitions, from where the member has read."""

    def program(place: Place) -> None:
        virtual, called = place.virtual, []

        def hang(partitions: object) -> None:
            called.append(partitions)
            place.hang()

        consumer = place.consumer(protocol, listener=_listener(method, hang))
        reading = virtual.spawn(lambda: _read(consumer), name="reading")
        if method == "on_revoked":
            place.wait(lambda: sum(consumer.position(key) or 0 for key in consumer.assignment()) == 20)
        other = place.consumer(protocol)
        others = virtual.spawn(lambda: _read(other), name="others")
        place.wait(lambda: called)
        began = virtual.now()
        if how == "close":
            consumer.close(CLOSE_S)
        else:
            consumer.unsubscribe(timeout=CLOSE_S)
        assert CLOSE_S / 2 - 0.1 <= virtual.now() - began <= CLOSE_S / 2 + LEAVES_S
        assert f"{method}() has not returned" in _messages(caplog)
        place.wait(lambda: len(other.assignment()) == 2)
        place.wait(lambda: {other.position(key) for key in other.assignment()} == {10})
        place.never.set()
        if how == "unsubscribe":
            virtual.sleep(3.0)
            assert consumer.assignment() == []
            assert len(other.assignment()) == 2
        consumer.close()
        other.close()
        assert reading.join(SOON_S)
        assert others.join(SOON_S)

    run(program)


@pytest.mark.parametrize("how", ["stop", "close"])
@pytest.mark.parametrize("function", ["on_assigned", "on_abandoned"])
def test_a_function_that_hangs_amid_a_parallel_run_does_not_keep_it_from_stopping(
    run: Run, caplog: pytest.LogCaptureFixture, function: str, how: str
) -> None:
    """`stop()` of the run, and `close()` of its consumer, waited for the worker that reads without limit."""

    def program(place: Place) -> None:
        virtual, called = place.virtual, []

        def hang(_: object) -> None:
            called.append(function)
            place.hang()

        listener = _listener("on_assigned", hang) if function == "on_assigned" else None
        consumer = place.consumer("consumer", listener=listener, auto_commit=False)
        options = {"on_abandoned": hang} if function == "on_abandoned" else {}
        work = consumer.parallel(place.hang, revoke_timeout=0.5, stop_timeout=CLOSE_S, **options)
        work.start()
        other = None
        if function == "on_abandoned":
            place.wait(lambda: work.stats().under_way)
            other = place.consumer("consumer")
            virtual.spawn(lambda: _read(other))
        place.wait(lambda: called)
        began = virtual.now()
        if how == "stop":
            assert not work.stop()
            assert virtual.now() - began <= CLOSE_S + LEAVES_S
        consumer.close(CLOSE_S)
        assert virtual.now() - began <= 2.5 * CLOSE_S + LEAVES_S
        assert f"{function}() has not returned" in _messages(caplog)
        place.never.set()
        if other is not None:
            other.close()
        place.wait(lambda: not work.running)

    run(program)


@pytest.mark.parametrize("when", ["start", "rebalance"])
@pytest.mark.parametrize("kind", BALANCED)
def test_a_balanced_consumer_stops_though_its_callback_hangs(
    run: Run, caplog: pytest.LogCaptureFixture, kind: str, when: str
) -> None:
    """`stop()` waited for it without limit. When it returns, nothing is read, and the consumer can be started again."""

    def program(place: Place) -> None:
        virtual = place.virtual
        hangs_at = {"start": 1, "rebalance": 2}[when]
        called: list[object] = []

        def callback(*_: object) -> None:
            called.append(None)
            if len(called) == hangs_at:
                place.hang()

        consumer = place.balanced(kind, post_rebalance_callback=callback, auto_start=False)
        starting = virtual.spawn(consumer.start, name="starting")
        if when == "rebalance":
            assert starting.join(SOON_S)
        others = virtual.spawn(lambda: place.balanced(kind), name="others")
        place.wait(lambda: len(called) == hangs_at)
        began = virtual.now()
        consumer.stop()
        bound = 2 * (SOCKET_MS + (ZOOKEEPER_MS if kind == "zookeeper" else 0)) / 1000
        assert bound - 0.1 <= virtual.now() - began <= bound + LEAVES_S
        assert "post_rebalance_callback has not returned" in _messages(caplog)
        with pytest.raises(ConsumerStoppedException):
            consumer.consume()
        if when == "rebalance":
            with pytest.raises(KafkaException, match="post_rebalance_callback"):
                consumer.start()
        place.never.set()
        assert starting.join(SOON_S)
        assert others.join(SOON_S)
        virtual.sleep(2.0)
        assert consumer._consumer is None
        with pytest.raises(ConsumerStoppedException):
            consumer.consume()
        consumer.start()
        assert consumer.consume() is not None
        consumer.stop()

    run(program)


def test_a_stop_that_waits_for_a_membership_protocol_stops_what_is_read(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked which partitions are to be read while the former ones still are."""

    def program(place: Place) -> None:
        called: list[object] = []

        def decide(participants: Any, partitions: Any, consumer_id: Any) -> Any:
            called.append(None)
            if len(called) > 1:
                place.hang()
            return set(partitions.values())

        protocol = GroupMembershipProtocol("consumer", "own", b"", decide)
        consumer = place.balanced("zookeeper", membership_protocol=protocol, auto_commit_enable=True)
        assert consumer.consume() is not None

        def join() -> None:
            with suppress(PartitionOwnedError):  # the first member releases nothing meanwhile
                place.balanced("zookeeper")

        others = place.virtual.spawn(join, name="others")
        place.wait(lambda: len(called) > 1)
        internal = consumer._consumer
        consumer.stop()
        assert "decide_partitions() of membership_protocol has not returned" in _messages(caplog)
        assert not internal._engine.running
        place.never.set()
        assert others.join(SOON_S)

    run(program)


def test_a_callback_is_not_called_once_the_consumer_stops(run: Run) -> None:
    """It was called for an assignment that nobody would read."""

    def program(place: Place) -> None:
        called: list[object] = []
        consumer = place.balanced("managed", post_rebalance_callback=called.append, auto_start=False)

        def start() -> None:
            with suppress(ConsumerStoppedException):
                consumer.start()

        with place.cluster.hold("SyncGroup"):
            starting = place.virtual.spawn(start, name="starting")
            place.virtual.sleep(1.0)
            stopping = place.virtual.spawn(consumer.stop, name="stopping")
            place.virtual.sleep(1.0)
        assert stopping.join(SOON_S)
        assert starting.join(SOON_S)
        assert called == []

    run(program)
