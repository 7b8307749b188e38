"""Calls that wait for their group longer than `max_poll_interval_ms`, in virtual time: only the application can be idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.coordinator.consumer import ConsumerCoordinator
from pykafka.exceptions import ConsumerStoppedException
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, NetworkFaults, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper
from tests.support.groups import Reader

GROUP, TOPIC = "readers", "orders"
HEARTBEAT_MS, SESSION_MS, MAX_POLL_MS = 200, 6_000, 1_000
#: How long the group makes a member wait, and how long a callback takes (s): longer than `MAX_POLL_MS` by far.
LONG_S = 5 * MAX_POLL_MS / 1000
#: How long a call may wait at most (s), and how soon a member has its assignment when its group waits no more.
CALL_S, SOON_S = 60.0, 3.0
#: How soon a call ends that another worker ends while its group makes it wait (s).
STEPS_S = 2.0
CLASSIC: dict[str, Any] = {
    "heartbeat_interval_ms": HEARTBEAT_MS,
    "session_timeout_ms": SESSION_MS,
    "protocol": "classic",
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "consumer": {"protocol": "consumer"},
    "eager": CLASSIC,
    "cooperative": {**CLASSIC, "assignor": "cooperative-sticky"},
    "zookeeper": {"protocol": "zookeeper", "zookeeper_hosts": "zookeeper:2181", "session_timeout_ms": SESSION_MS},
}
#: What makes a member of each protocol wait: the APIs whose answers are held back, or "zookeeper" is paused.
WAITS = [
    ("consumer", "ConsumerGroupHeartbeat"),
    ("consumer", "FindCoordinator"),
    ("eager", "FindCoordinator"),
    ("eager", "JoinGroup"),
    ("eager", "SyncGroup"),
    ("cooperative", "SyncGroup"),
    ("zookeeper", "zookeeper"),
]
Program = Callable[[FakeCluster, KafkaClient], None]
Run = Callable[[Program], None]


@pytest.fixture
def run(scheduler: Scheduler, network: Network, virtual: VirtualHandler) -> Run:
    """Return a function that runs a program with a cluster of one broker, a ZooKeeper and a client."""

    def main(program: Program) -> None:
        network.zookeeper = server = ZooKeeper(virtual)
        with (
            FakeCluster(brokers=1, topics={TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(consumer_heartbeat_interval_ms=HEARTBEAT_MS, initial_rebalance_delay_ms=0)
            program(cluster, client)
        server.heal()
        server.close()

    def begin(program: Program) -> None:
        scheduler.run(lambda: main(program))
        assert scheduler.errors == []

    return begin


@contextmanager
def kept_waiting(cluster: FakeCluster, network: Network, what: str) -> Iterator[None]:
    """Keep members waiting for their group within this context."""
    server = network.zookeeper
    assert server is not None
    if what == "zookeeper":
        server.pause()
        yield
        server.start()
    else:
        with cluster.hold(what):
            yield


def left_idle(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what members have logged that left their group because the application took no messages."""
    return [record.getMessage() for record in caplog.records if "max_poll_interval_ms" in record.getMessage()]


@pytest.mark.parametrize(("protocol", "what"), WAITS)
@pytest.mark.parametrize("timeout", [CALL_S, None], ids=["timeout", "iteration"])
def test_a_call_that_waits_for_its_group_is_a_sign_of_life(
    run: Run,
    network: Network,
    virtual: VirtualHandler,
    caplog: pytest.LogCaptureFixture,
    protocol: str,
    what: str,
    timeout: float | None,
) -> None:
    """The member left whenever it had begun to join, so the call did not end: a KIP-848 member joined without a pause."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with client.producer() as producer:
            producer.produce(TOPIC, b"one", partition=0).get()
        consumer = client.consumer(
            TOPIC, group=GROUP, max_poll_interval_ms=MAX_POLL_MS, auto_offset_reset="earliest", **PROTOCOLS[protocol]
        )
        over = virtual.Event()

        def wait() -> None:
            with kept_waiting(cluster, network, what):
                over.set()
                virtual.sleep(LONG_S)

        waits = virtual.spawn(wait)
        over.wait()
        began = virtual.now()
        records = consumer.poll(timeout=timeout) if timeout is not None else [next(iter(consumer))]
        assert [record.value for record in records] == [b"one"]
        assert LONG_S <= virtual.now() - began < LONG_S + SOON_S
        waits.join(CALL_S)
        consumer.close()

    run(program)
    assert left_idle(caplog) == []


def _refuse_lookups(cluster: FakeCluster) -> Callable[[], object]:
    """Refuse all look-ups of coordinators, as in an election."""
    return cluster.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", 100_000).end


def _hold_metadata(cluster: FakeCluster) -> Callable[[], object]:
    """Answer no request for metadata, which a KIP-848 member needs for the names of its topics."""
    return cluster.hold("Metadata").release


def _pause_broker(cluster: FakeCluster) -> Callable[[], object]:
    """Pause the only broker, which answers nothing."""
    cluster.pause(1)
    return lambda: cluster.resume(1)


def _hold_lookups(cluster: FakeCluster) -> Callable[[], object]:
    """Answer no look-up of a coordinator."""
    return cluster.hold("FindCoordinator").release


FAULTS = [_refuse_lookups, _hold_lookups, _hold_metadata, _pause_broker]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fn: fn.__name__[1:])
@pytest.mark.parametrize("protocol", ["consumer", "eager", "cooperative", "auto"])
def test_wakeup_ends_a_call_that_waits_for_its_group(
    run: Run, virtual: VirtualHandler, fault: Callable[[FakeCluster], Callable[[], object]], protocol: str
) -> None:
    """It was heard when the outage was over: of the classic protocol while the coordinator was looked up, of KIP-848's while
    heartbeats came faster than the names of topics. Then a step of the call took the socket timeout of the client, or two.
    """

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        consumer = client.consumer(TOPIC, group=GROUP, **PROTOCOLS.get(protocol, {}))
        over = fault(cluster)
        polls = virtual.spawn(consumer.poll, timeout=None)
        virtual.sleep(LONG_S)
        assert polls.is_alive()
        consumer.wakeup()
        assert polls.join(STEPS_S)
        assert polls.error is None
        over()
        consumer.poll(timeout=SOON_S)
        assert len(consumer.assignment()) == 2
        consumer.close()

    run(program)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fn: fn.__name__[1:])
@pytest.mark.parametrize("protocol", ["consumer", "eager", "cooperative", "auto"])
def test_close_ends_a_call_that_waits_for_its_group(
    run: Run, virtual: VirtualHandler, fault: Callable[[FakeCluster], Callable[[], object]], protocol: str
) -> None:
    """Another worker's `close()` waited until the call had given up a step: for the socket timeout of the client."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        consumer = client.consumer(TOPIC, group=GROUP, **PROTOCOLS.get(protocol, {}))
        over = fault(cluster)

        def read() -> None:
            with pytest.raises(ConsumerStoppedException):
                consumer.poll(timeout=None)

        polls = virtual.spawn(read)
        virtual.sleep(LONG_S)
        assert polls.is_alive()
        began = virtual.now()
        consumer.close()
        assert virtual.now() - began < STEPS_S
        assert polls.join(STEPS_S)
        assert polls.error is None
        over()

    run(program)


def test_wakeup_ends_a_call_that_waits_for_zookeeper(run: Run, network: Network, virtual: VirtualHandler) -> None:
    """The call went on until it connected, and raised that ZooKeeper did not answer."""

    def program(_: FakeCluster, client: KafkaClient) -> None:
        server = network.zookeeper
        assert server is not None
        server.pause()
        consumer = client.consumer(TOPIC, group=GROUP, **PROTOCOLS["zookeeper"])
        polls = virtual.spawn(consumer.poll, timeout=None)
        virtual.sleep(SESSION_MS / 1000 / 2)
        assert polls.is_alive()
        consumer.wakeup()
        assert polls.join(STEPS_S)
        assert polls.error is None
        server.start()
        consumer.close()

    run(program)


class SlowListener:
    """A listener whose first `on_assigned` takes long."""

    def __init__(self, virtual: VirtualHandler) -> None:
        self._virtual = virtual
        self.calls: list[tuple[str, float, set[TopicPartition]]] = []
        self.ended = 0.0

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Sleep once."""
        self._note("assigned", partitions)
        if not self.ended:
            self._virtual.sleep(LONG_S)
            self.ended = self._virtual.now()

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        """Note it."""
        self._note("lost", partitions)

    def _note(self, name: str, partitions: list[TopicPartition]) -> None:
        self.calls.append((name, self._virtual.now(), set(partitions)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_callback_that_takes_long_is_none(
    run: Run, virtual: VirtualHandler, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    """The call that has begun it waits, but the application does not: the other member gets the partitions meanwhile."""
    slow = SlowListener(virtual)

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        options = {"group": GROUP, "max_poll_interval_ms": MAX_POLL_MS, **PROTOCOLS[protocol]}
        first = client.consumer(TOPIC, listener=slow, **options)
        polls = virtual.spawn(first.poll, timeout=CALL_S)
        while not slow.calls:
            virtual.sleep(0.01)
        with KafkaClient(cluster.hosts, handler=virtual) as other:
            second = other.consumer(TOPIC, **options)
            while len(second.assignment()) < 2:
                second.poll(timeout=0.1)
            assert not slow.ended
            ends = virtual.now() + LONG_S + SOON_S
            while len(second.assignment()) != 1 or len(slow.calls) < 3:
                assert virtual.now() < ends
                second.poll(timeout=0.1)
            second.close()
        first.wakeup()
        polls.join(CALL_S)
        first.close()

    run(program)
    assert len(left_idle(caplog)) == 1
    assert [name for name, _, _ in slow.calls[:3]] == ["assigned", "lost", "assigned"]
    assert slow.calls[1][1] < slow.ended + SOON_S


def _managed(client: KafkaClient) -> tuple[Any, Callable[[], object]]:
    consumer = client.topics[TOPIC].get_balanced_consumer(
        GROUP,
        managed=True,
        auto_start=False,
        max_poll_interval_ms=MAX_POLL_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=SESSION_MS,
    )
    return consumer, consumer.start


def _coordinator(client: KafkaClient, reader: Reader | None = None) -> tuple[Any, Callable[[], object]]:
    configs: dict[str, Any] = {"heartbeat_interval_ms": HEARTBEAT_MS, "session_timeout_ms": SESSION_MS}
    member = ConsumerCoordinator(
        client,
        reader or Reader(TOPIC),
        group_id=GROUP,
        max_poll_interval_ms=MAX_POLL_MS,
        enable_auto_commit=False,
        **configs,
    )
    return member, member.poll


@pytest.mark.parametrize("make", [_managed, _coordinator], ids=lambda fn: fn.__name__.strip("_"))
@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
def test_a_member_by_an_old_class_joins_in_one_call(
    run: Run, virtual: VirtualHandler, caplog: pytest.LogCaptureFixture, make: Callable[[KafkaClient], Any], api: str
) -> None:
    """The call of PyKafka 2's consumer, or of kafka-python's coordinator, ended without an assignment, or did not end."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        member, join = make(client)
        with cluster.hold(api):
            joins = virtual.spawn(join)
            virtual.sleep(LONG_S)
        assert joins.join(SOON_S)
        assert joins.error is None
        assert len(member._subscription.share if make is _coordinator else member.partitions) == 2
        (member.close if make is _coordinator else member.stop)()

    run(program)
    assert left_idle(caplog) == []


def test_a_managed_consumer_waits_for_messages_after_its_start(
    run: Run, virtual: VirtualHandler, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a forked child, whose first `consume()` starts it: it left its group while it waited for a message."""

    def program(_: FakeCluster, client: KafkaClient) -> None:
        consumer, _join = _managed(client)
        consumer._starts.after_fork(True)
        reads = virtual.spawn(consumer.consume)
        virtual.sleep(LONG_S)
        with client.producer() as producer:
            producer.produce(TOPIC, b"one", partition=0).get()
        assert reads.join(SOON_S)
        assert reads.error is None
        consumer.stop()

    run(program)
    assert left_idle(caplog) == []


def test_a_slow_subscription_of_a_coordinator_is_idle(
    run: Run, virtual: VirtualHandler, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka-python's coordinator leaves while the program takes its assignment, and then joins again."""
    members: list[Any] = []
    generations: list[int] = []

    class Slow(Reader):
        def assigned(self, partitions: Any) -> None:
            generations.append(members[0].generation)
            virtual.sleep(LONG_S if len(generations) == 1 else 0)
            super().assigned(partitions)

    def program(_: FakeCluster, client: KafkaClient) -> None:
        members.append(_coordinator(client, Slow(TOPIC))[0])
        members[0].poll()
        members[0].close()

    run(program)
    assert len(left_idle(caplog)) == 1
    first, second = generations
    assert first < second


@pytest.mark.parametrize("protocol", ["consumer", "eager", "cooperative"])
@pytest.mark.parametrize("auto_commit", [True, False])
def test_a_commit_before_a_rebalance_is_a_wait(
    run: Run, virtual: VirtualHandler, caplog: pytest.LogCaptureFixture, protocol: str, auto_commit: bool
) -> None:
    """The member left in the midst of the commit, which was then refused."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        with client.producer() as producer:
            for partition in range(2):
                producer.produce(TOPIC, b"one", partition=partition).get()
        options = {"group": GROUP, "auto_offset_reset": "earliest", "auto_commit": auto_commit, **PROTOCOLS[protocol]}
        first = client.consumer(TOPIC, max_poll_interval_ms=MAX_POLL_MS, auto_commit_interval_ms=60_000, **options)
        for _ in range(2):
            first.one(timeout=CALL_S)
        first.poll(timeout=0)
        with KafkaClient(cluster.hosts, handler=virtual) as other, cluster.hold("OffsetCommit") as held:
            if not auto_commit:
                first.commit_async()
            second = other.consumer(TOPIC, **options)
            joins = virtual.spawn(second.poll, timeout=CALL_S)
            polls = virtual.spawn(first.poll, timeout=2 * LONG_S)
            virtual.sleep(LONG_S)
            held.release()
            assert polls.join(CALL_S)
            # a coordinator that assigns puts out who takes longer to revoke than `max_poll_interval_ms`
            assert first.assignment() or protocol == "consumer"
            second.wakeup()
            joins.join(CALL_S)
            second.close()
        first.close()

    run(program)
    assert left_idle(caplog) == []


def _subscribe_anew(consumer: Any) -> None:
    consumer.subscribe(TOPIC, "others")
    consumer.poll(1, 0.01)


def _close(consumer: Any) -> None:
    consumer.close(1)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("step", [_subscribe_anew, _close], ids=lambda fn: fn.__name__.strip("_"))
def test_a_join_that_is_given_up_holds_no_call_up(
    run: Run, virtual: VirtualHandler, step: Callable[[Any], None], assignor: str
) -> None:
    """The call waited up to a second for the answer to the former JoinGroup, which another member holds up."""

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        cluster.create_topic("others", 1)
        options = {**CLASSIC, "assignor": assignor, "group": GROUP}
        resting, joining = (client.consumer(TOPIC, **options) for _ in range(2))
        while not resting.assignment():
            resting.poll(1, 0.1)
        joining.poll(1, 0.3)
        began = virtual.now()
        step(joining)
        assert virtual.now() - began < 0.1
        joining.close()
        resting.close()

    run(program)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("is_new", [True, False], ids=["without its id", "with its id"])
def test_a_member_that_changes_its_topics_while_it_joins_asks_once(
    run: Run, network: Network, virtual: VirtualHandler, is_new: bool, assignor: str
) -> None:
    """It gave its first request up before the answer had its id, so the group waited for a member that nobody was.

    Or its second request, on another connection, came before its first one, which then took the member's place.
    """
    asked: list[str] = []

    def note(call: Any) -> None:
        if isinstance(call.request, wire.JoinGroupRequest):
            asked.append(str(call.request.member_id))

    def program(cluster: FakeCluster, client: KafkaClient) -> None:
        cluster.create_topic("others", 1)
        options = {**CLASSIC, "assignor": assignor, "group": GROUP}
        resting = client.consumer(TOPIC, **options)
        while not resting.assignment():
            resting.poll(1, 0.1)
        cluster.on_request(note)
        network.faults = NetworkFaults(latency_ms=(50.0, 50.0))
        distant = KafkaClient(cluster.hosts, handler=virtual)
        joining = distant.consumer(TOPIC, **options)
        while len(asked) < (1 if is_new else 2):
            joining.poll(1, 0.01)
        for topics in ((TOPIC, "others"), ("others",), (TOPIC, "others")):
            joining.subscribe(*topics)
            joining.poll(1, 0.01 if is_new else 0.2)
        virtual.sleep(0.2)
        assert [id_ == "" for id_ in asked] == [True, False]
        began = virtual.now()
        while not joining.assignment():
            resting.poll(1, 0.1)
            joining.poll(1, 0.1)
        assert virtual.now() - began < SOON_S
        assert asked.count("") == 1
        joining.close()
        distant.close()
        resting.close()

    run(program)
