"""Brokers that hang cost their own items: what others know is there soon, and waits do not add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import OffsetSpec
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, NoBrokersAvailableError
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler

BROKERS = 8
#: The time of each call of admin, and what brokers that are fine may take (s).
ADMIN_S, QUICK_S = 8.0, 0.5
PARTITIONS = [TopicPartition("orders", number) for number in range(BROKERS)]
GROUPS = [f"group-{number}" for number in range(BROKERS)]


def _led(cluster: FakeCluster) -> None:
    """Give each broker a partition and a group."""
    for number in range(BROKERS):
        cluster.set_leader("orders", number, number + 1)
        cluster.set_coordinator(GROUPS[number], number + 1)


def _silence(cluster: FakeCluster, network: Network, how: str, *brokers: int) -> None:
    addresses = cluster.hosts.split(",")
    for broker in brokers:
        cluster.pause(broker)
        if how == "no connect":
            network.unreachable.add(addresses[broker - 1])
    if how != "no answer":
        network.cut_all()


@contextmanager
def _client(virtual: VirtualHandler, **options: Any) -> Iterator[tuple[FakeCluster, KafkaClient]]:
    with FakeCluster(BROKERS, {"orders": BROKERS, "other": 1}, handler=virtual) as cluster:
        _led(cluster)
        client = KafkaClient(cluster.hosts, handler=virtual, **options)
        try:
            yield cluster, client
        finally:
            cluster.heal()
            client.close()


def _hang(cluster: FakeCluster, client: KafkaClient) -> int:
    """Pause the only broker that metadata is asked of, and return its number."""
    client.cluster.update([])
    (number,) = [broker.id for broker in client.cluster.brokers.values() if broker.is_connected("main")]
    cluster.pause(number)
    return number


ADMIN_CALLS: dict[str, Callable[..., Any]] = {
    "list_offsets": lambda admin, **options: admin.list_offsets(
        dict.fromkeys(PARTITIONS, OffsetSpec.latest()), **options
    ),
    "delete_records": lambda admin, **options: admin.delete_records(dict.fromkeys(PARTITIONS, 0), **options),
    "describe_producers": lambda admin, **options: admin.describe_producers(PARTITIONS, **options),
}


@pytest.mark.parametrize("how", ["no versions", "no connect"])
@pytest.mark.parametrize("silent", [4, 7])
@pytest.mark.parametrize("name", ADMIN_CALLS)
def test_a_call_of_admin_has_what_brokers_know_that_are_fine(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, name: str, silent: int, how: str
) -> None:
    """It connected to one broker after another, with three seconds for each that hangs: no time was left for the others."""
    asked: list[float] = []

    def program() -> Any:
        with _client(virtual, socket_timeout_ms=5_000) as (cluster, client):
            client.cluster.brokers[BROKERS].channel("main").open(1_000)
            client.cluster.update(["orders"])
            _silence(cluster, network, how, *range(1, silent + 1))
            began = virtual.now()
            cluster.on_answer(lambda call, *_: asked.append(virtual.now() - began))
            found = ADMIN_CALLS[name](client.admin, timeout_ms=int(ADMIN_S * 1000), raise_errors=False)
            network.heal()
            return found

    found = scheduler.run(program)
    assert sorted(found) == PARTITIONS[silent:]
    assert sorted(found.errors) == PARTITIONS[:silent]
    assert all(isinstance(error, KafkaException) for error in found.errors.values())
    assert len([at for at in asked if at < QUICK_S]) >= BROKERS - silent


@pytest.mark.parametrize("name", ["describe_cluster", "list_topics", "describe_features"])
def test_a_call_of_admin_that_any_broker_can_answer_gets_past_one_that_hangs(
    scheduler: Scheduler, virtual: VirtualHandler, name: str
) -> None:
    """That one had all of the time, and the next call asked it again, as another connection to it was up."""

    def program() -> list[float]:
        with _client(virtual) as (cluster, client):
            _hang(cluster, client)
            took = []
            for _ in range(2):
                began = virtual.now()
                getattr(client.admin, name)()
                took.append(virtual.now() - began)
            return took

    first, second = scheduler.run(program)
    assert first < 10 + QUICK_S
    assert second < QUICK_S


def test_a_slow_answer_to_a_call_of_admin_counts(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """Brokers that take longer than the share of each are asked one after another, and the first one answers."""

    def program() -> float:
        with _client(virtual) as (cluster, client):
            client.cluster.update([])
            for broker in cluster.broker_ids:
                cluster.latency(broker, 12_000)
            began = virtual.now()
            client.admin.describe_cluster()
            return virtual.now() - began

    assert scheduler.run(program) < 20


def test_groups_of_fine_coordinators_are_described_while_another_hangs(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """They were asked for as classic groups until the end of the call, as one gave no answer, and not as others."""

    def program() -> Any:
        with _client(virtual) as (cluster, client):
            for group in GROUPS:
                with client.consumer("orders", group=group, protocol="consumer") as consumer:
                    consumer.poll(timeout=2)
            cluster.pause(1)
            return client.admin.describe_groups(GROUPS, raise_errors=False)

    found = scheduler.run(program)
    assert sorted(found) == GROUPS[1:]
    assert list(found.errors) == GROUPS[:1]


@pytest.mark.parametrize("how", ["no versions", "no connect"])
@pytest.mark.parametrize("silent", [4, 7, 8])
def test_a_client_begins_with_addresses_that_hang(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, silent: int, how: str
) -> None:
    """Each had three seconds, and in the end its whole time again, one behind the other: 252 s for eight."""

    def program() -> float:
        with FakeCluster(BROKERS, handler=virtual) as cluster:
            _silence(cluster, network, how, *range(1, silent + 1))
            began = virtual.now()
            if silent == BROKERS:
                with pytest.raises(NoBrokersAvailableError) as caught:
                    KafkaClient(cluster.hosts, handler=virtual)
                assert len(caught.value.attempts) == BROKERS
                return virtual.now() - began
            client = KafkaClient(cluster.hosts, handler=virtual)
            took = virtual.now() - began
            client.close()
            return took

    assert scheduler.run(program) < (3 + 0.5 * silent if silent < BROKERS else 30 + 12)


def test_a_look_up_with_a_limit_gets_past_a_broker_that_hangs(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """That broker had all of the limit."""

    def program() -> float:
        with _client(virtual) as (cluster, client):
            producer = client.producer()
            _hang(cluster, client)
            began = virtual.now()
            assert producer.partitions_for("other", timeout=5) == [0]
            return virtual.now() - began

    assert scheduler.run(program) < 2.5


@pytest.mark.parametrize("version", ["4.0.0", "2.8.0"])
def test_a_hint_at_a_misspelt_name_takes_no_longer_than_its_call(
    scheduler: Scheduler, virtual: VirtualHandler, version: str
) -> None:
    """The names of all topics, for the hint alone, were asked for without a limit: of silent brokers for minutes."""

    def program() -> float:
        with (
            FakeCluster(BROKERS, {"orders": BROKERS}, as_version=version, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            client.producer() as producer,
        ):
            producer.produce("orders", b"x").get(5)
            for node in client.cluster.brokers.values():
                node.channel("main").open(1_000)
            for broker in cluster.broker_ids:
                if version == "2.8.0":
                    cluster.hold("Metadata", broker, lambda request: not getattr(request, "topics", None))
                else:
                    cluster.hold("DescribeTopicPartitions", broker)
            began = virtual.now()
            producer.partitions_for("ordres", timeout=2)
            took = virtual.now() - began
            cluster.clear_faults()
            return took

    assert scheduler.run(program) < 2 + QUICK_S


@pytest.mark.parametrize(("brokers", "answer_s", "limit_s"), [(8, 4.0, 9.0), (8, 4.0, None), (2, 12.0, None)])
def test_metadata_of_slow_brokers_arrives(
    scheduler: Scheduler, virtual: VirtualHandler, brokers: int, answer_s: float, limit_s: float | None
) -> None:
    """They take longer than the next one waits for: their answers count when they come, also after all were asked."""

    def program() -> float:
        with (
            FakeCluster(brokers, {"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            for broker in cluster.broker_ids:
                client.cluster.brokers[broker].channel("main").open(1_000)
                cluster.latency(broker, round(answer_s * 1000))
            began = virtual.now()
            client.cluster.update(["orders"], None if limit_s is None else round(limit_s * 1000))
            took = virtual.now() - began
            cluster.heal()
            return took

    assert scheduler.run(program) < answer_s + 3.0


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_message_is_not_lost_by_brokers_that_give_no_metadata(seed: int) -> None:
    """Each cost the socket timeout before the next one was asked: the message was too old when one named its new leader."""
    scheduler = Scheduler(seed, busy_limit=20)
    virtual = VirtualHandler(scheduler, Network(scheduler))

    def program() -> float:
        with _client(virtual) as (cluster, client):
            producer = client.producer()
            for partition in range(BROKERS):
                producer.produce("orders", b"first", partition=partition).get(5)
            for broker in client.cluster.brokers.values():
                broker.channel("main").open(1_000)
            for silent in range(1, 7):
                cluster.hold("Metadata", silent)
            cluster.stop(7)
            cluster.set_leader("orders", 6, 8)
            began = virtual.now()
            producer.produce("orders", b"second", partition=6).get()
            return virtual.now() - began

    assert scheduler.run(program) < 20


def test_a_client_ends_in_a_moment_while_many_brokers_owe_answers(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """It waited a second for each connection, one behind the other."""

    def program() -> float:
        with FakeCluster(BROKERS, {"orders": BROKERS}, handler=virtual) as cluster:
            _led(cluster)
            client = KafkaClient(cluster.hosts, handler=virtual)
            client.admin.list_groups()
            consumer = client.consumer(auto_offset_reset="earliest")
            consumer.assign(PARTITIONS)
            consumer.poll(timeout=1)
            for broker in cluster.broker_ids:
                cluster.pause(broker)
            for partition in PARTITIONS:
                virtual.spawn(
                    client.admin.describe_producers, [partition], raise_errors=False, name="test.describe_producers"
                )
            virtual.sleep(0.5)
            began = virtual.now()
            client.close()
            return virtual.now() - began

    assert scheduler.run(program) < 1.5


@pytest.mark.parametrize("silent", [1, 7])
def test_the_first_message_of_a_topic_waits_little_for_leaders_that_hang(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, silent: int
) -> None:
    """One that hung had the socket timeout to say what it knows, though others led the partition of the message."""

    def program() -> float:
        with _client(virtual) as (cluster, client):
            producer = client.producer(enable_idempotence=True)
            assert client.topics["orders"].partitions
            client.cluster.brokers[BROKERS].channel("main").open(1_000)
            _silence(cluster, network, "no versions", *range(1, silent + 1))
            began = virtual.now()
            producer.produce("orders", b"x", partition=BROKERS - 1).get(30)
            return virtual.now() - began

    assert scheduler.run(program) < 3 + QUICK_S
