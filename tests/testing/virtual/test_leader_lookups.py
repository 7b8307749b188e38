"""Producers and consumers that ask who leads their partitions: the answer may be late, and nothing else waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import NoBrokersAvailableError, WorkerNotStartedError
from pykafka.producer.routing import Routing
from pykafka.testing import FakeCluster
from pykafka.testing.faults import Hold
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler

AGE_S = 5.0
#: How often a program sends some messages at a time, which the sender sends, and how long a message may take (s).
EVERY_S, PROMPT_S = 0.25, 0.2


@contextmanager
def _silent_but_one(virtual: VirtualHandler, **options: Any) -> Iterator[tuple[FakeCluster, list[Hold], Any]]:
    """Yield three brokers, of which two answer no question for metadata from now on, these faults, and a producer."""
    with (
        FakeCluster(3, handler=virtual, as_version="3.6") as cluster,  # brokers since 3.7 name leaders by themselves
        KafkaClient(cluster.hosts, handler=virtual, metadata_max_age_ms=int(AGE_S * 1000)) as client,
    ):
        cluster.create_topic("orders", 2, 3)
        for partition in range(2):
            cluster.set_leader("orders", partition, 1)
        producer = client.producer(linger_ms=20, **options)
        for partition in range(2):
            producer.produce("orders", b"first", partition=partition).get(5)
        held = []
        for silent in (2, 3):
            client.cluster.brokers[silent].channel("main").open(1_000)
            held.append(cluster.hold("Metadata", silent))
        yield cluster, held, producer
        cluster.clear_faults()


def _times(producer: Any, virtual: VirtualHandler, partition: int, seconds: float) -> list[float]:
    """Send some messages at a time, again and again; return how long each one has taken (s)."""
    times: list[float] = []
    until = virtual.now() + seconds

    def reported(began: float) -> Callable[..., None]:
        return lambda error, *_: times.append(float("inf") if error else virtual.now() - began)

    while virtual.now() < until:
        for _ in range(3):
            producer.produce("orders", b"x", partition=partition, on_delivery=reported(virtual.now()))
        virtual.sleep(EVERY_S)
    return times


@contextmanager
def _sent_to_one(virtual: VirtualHandler, linger_ms: int) -> Iterator[tuple[FakeCluster, Any]]:
    """Yield two brokers, of which the first leads the only partition, and a producer that has sent it a message."""
    with (
        FakeCluster(2, handler=virtual, as_version="3.6") as cluster,
        KafkaClient(cluster.hosts, handler=virtual) as client,
        client.producer(linger_ms=linger_ms) as producer,
    ):
        cluster.create_topic("orders", 1, 2)
        cluster.set_leader("orders", 0, 1)
        producer.produce("orders", b"first").get(5)
        yield cluster, producer


def _refusing(virtual: VirtualHandler, names: str | tuple[str, ...], times: list[float]) -> Callable[..., Any]:
    """Return a `spawn` that starts no workers of these names.

    :param times: gets when it has refused one (s)
    """
    spawn = virtual.spawn

    def spawn_others(*args: Any, name: str, **kwargs: Any) -> Any:
        if name.startswith(names):
            times.append(virtual.now())
            raise WorkerNotStartedError("the system starts no thread")
        return spawn(*args, name=name, **kwargs)

    return spawn_others


def test_no_message_waits_for_metadata_that_was_old(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """A sender asked itself, and sent nothing for as long as the socket timeouts of the brokers that gave no answer."""

    def program() -> list[float]:
        with _silent_but_one(virtual) as (_, held, producer):
            times = _times(producer, virtual, 0, 10 * AGE_S)
            assert sum(fault.met for fault in held)
            return times

    times = scheduler.run(program)
    assert len(times) > 500
    assert max(times) < PROMPT_S


def test_no_partition_waits_for_the_leader_of_another_one(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """The messages of the other one come as soon as a broker says who leads it."""

    def program() -> tuple[list[float], bool, int]:
        with _silent_but_one(virtual, delivery_timeout_ms=300_000) as (cluster, _, producer):
            held = cluster.hold("Metadata", 1)
            cluster.set_leader("orders", 0, 2)
            moved = producer.produce("orders", b"moved", partition=0)
            times = _times(producer, virtual, 1, 20.0)
            was_sent = moved.done
            held.release()
            cluster.clear_faults("Metadata")
            return times, was_sent, moved.get(5).partition

    times, was_sent, partition = scheduler.run(program)
    assert max(times) < PROMPT_S
    assert (was_sent, partition) == (False, 0)


def test_close_does_not_wait_for_a_look_up_for_long(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    def program() -> float:
        with _silent_but_one(virtual) as (cluster, _, producer):
            cluster.hold("Metadata", 1)
            _times(producer, virtual, 0, 3 * AGE_S)
            began = virtual.now()
            producer.close()
            return virtual.now() - began

    assert scheduler.run(program) < 6.0


def test_the_sender_asks_if_no_worker_can_be_started(
    scheduler: Scheduler, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other senders find that look-up under way: each would ask on its own, too."""
    refused: list[float] = []
    under_way: list[bool] = []
    refresh = Routing.refresh

    def watched(routing: Routing) -> bool:
        under_way.append(routing.lookup.is_under_way)
        return refresh(routing)

    def program() -> int:
        with _sent_to_one(virtual, 20) as (cluster, producer):
            monkeypatch.setattr(virtual, "spawn", _refusing(virtual, "pykafka.LeaderLookup", refused))
            monkeypatch.setattr(Routing, "refresh", watched)
            cluster.set_leader("orders", 0, 2)
            cluster.set_leader("orders", 0, 1)
            cluster.set_leader("orders", 0, 2)
            sent = [producer.produce("orders", b"moved") for _ in range(3)]
            return max(int(one.get(5).offset) for one in sent)

    assert scheduler.run(program) == 3
    assert refused
    assert all(under_way)
    assert under_way


@pytest.mark.parametrize("refused", ["pykafka.OwnedBroker", ("pykafka.OwnedBroker", "pykafka.LeaderLookup")])
def test_a_new_leader_whose_sender_cannot_be_started_is_looked_up_again(
    scheduler: Scheduler, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch, refused: str | tuple[str, ...]
) -> None:
    """The error ended the former leader's sender, or kept it asleep, and messages were given up at the end of their time."""
    spawn = virtual.spawn
    times: list[float] = []

    def program() -> float:
        with _sent_to_one(virtual, 5) as (cluster, producer):
            monkeypatch.setattr(virtual, "spawn", _refusing(virtual, refused, times))
            cluster.set_leader("orders", 0, 2)
            moved = producer.produce("orders", b"moved")
            virtual.sleep(2)
            waits = not moved.done
            assert waits
            monkeypatch.setattr(virtual, "spawn", spawn)
            began = virtual.now()
            while not moved.done and virtual.now() < began + 200:
                virtual.sleep(0.1)
            assert moved.error is None
            return virtual.now() - began

    assert scheduler.run(program) < 2.0
    assert times


def test_a_leader_that_a_broker_has_named_is_not_forgotten(
    scheduler: Scheduler, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up that began at that moment, and got no answer, kept messages from the new leader for a pause."""

    def unanswered(*_: Any) -> None:
        raise NoBrokersAvailableError("no answer")

    def program() -> bool:
        with (
            FakeCluster(1, {"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            client.producer() as producer,
        ):
            producer.produce("orders", b"first").get(5)
            routing = producer._engine.routing
            with monkeypatch.context() as patched:
                patched.setattr(producer._engine.cluster, "refresh", unanswered)
                routing.moved = True
                assert not routing.refresh()
            return routing.moved

    assert scheduler.run(program)


def test_what_a_look_up_raises_is_raised_by_the_next_call(
    scheduler: Scheduler, virtual: VirtualHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a mistake of a subclass: messages would wait for ever."""

    def mistaken(_: Routing) -> bool:
        raise ZeroDivisionError("a mistake")

    def program() -> None:
        with _silent_but_one(virtual) as (_, _held, producer):
            monkeypatch.setattr(Routing, "refresh", mistaken)
            virtual.sleep(3 * AGE_S)
            with pytest.raises(ZeroDivisionError, match="a mistake"):
                _times(producer, virtual, 0, 2 * AGE_S)
            producer.close()

    scheduler.run(program)


@pytest.mark.parametrize("group", [None, "billing"])
def test_a_consumer_goes_back_to_the_leader_that_has_cut_its_connection(
    scheduler: Scheduler, virtual: VirtualHandler, group: str | None
) -> None:
    """It read nothing for as long as the socket timeouts of the brokers that gave no answer."""

    def program() -> float:
        with _silent_but_one(virtual) as (cluster, held, producer):
            client = KafkaClient(cluster.hosts.split(",")[0], handler=virtual)
            for silent in (2, 3):
                client.cluster.brokers[silent].channel("main").open(1_000)
            topics = () if group is None else ("orders",)
            with client, client.consumer(*topics, group=group, auto_offset_reset="earliest") as consumer:
                if group is None:
                    consumer.assign([TopicPartition("orders", 0)])
                while not consumer.poll(timeout=1):
                    pass
                asked = sum(fault.met for fault in held)
                worst, until = 0.0, virtual.now() + 40
                while virtual.now() < until:
                    cluster.hang_up(1)
                    producer.produce("orders", b"x", partition=0).get(5)
                    began = virtual.now()
                    while not consumer.poll(timeout=1):
                        pass
                    worst = max(worst, virtual.now() - began)
                assert sum(fault.met for fault in held) > asked
                return worst

    assert scheduler.run(program) < 3.0


@pytest.mark.parametrize("answer_s", [0.5, 2.5])
def test_a_consumer_follows_an_answer_that_comes_late(
    scheduler: Scheduler, virtual: VirtualHandler, answer_s: float
) -> None:
    """The former leader is gone, and it was fetched from there until the connection was given up."""

    def program() -> float:
        with (
            FakeCluster(3, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            client.producer() as producer,
            client.consumer(auto_offset_reset="earliest") as consumer,
        ):
            cluster.create_topic("orders", 1, 3)
            cluster.set_leader("orders", 0, 1)
            producer.produce("orders", b"first").get(5)
            consumer.assign([TopicPartition("orders", 0)])
            assert consumer.poll(timeout=1)
            for broker in (1, 2, 3):
                client.cluster.brokers[broker].channel("main").open(1_000)
            for silent in (2, 3):
                cluster.hold("Metadata", silent)
            cluster.hang_up(1)
            cluster.pause(1)
            cluster.set_leader("orders", 0, 2)
            began = virtual.now()
            assert not consumer.poll(timeout=answer_s)
            cluster.clear_faults()
            producer.produce("orders", b"second")
            while not consumer.poll(timeout=0.1):
                pass
            return virtual.now() - began

    assert scheduler.run(program) < answer_s + 1.0


def test_calls_without_a_limit_ask_one_after_the_other_at_once(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """Each one looked every 10 ms whether it was its turn."""
    callers = 50

    def program() -> float:
        with (
            FakeCluster(1, {"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            held = cluster.hold("Metadata")
            workers = [virtual.spawn(client.cluster.update, ["orders"]) for _ in range(callers)]
            virtual.sleep(1)
            began = virtual.now()
            held.release()
            for worker in workers:
                assert worker.join(60)
            return virtual.now() - began

    assert scheduler.run(program) < callers * 0.002


@pytest.mark.parametrize("seed", range(10))
def test_a_call_that_waits_for_others_ends_by_its_time(seed: int) -> None:
    """Two that saw the question before them end both went on, and the second one waited for all the time of the first."""
    scheduler = Scheduler(seed, busy_limit=20, preemption=0.5)
    virtual = VirtualHandler(scheduler, Network(scheduler))
    late: list[tuple[float, float]] = []

    def program() -> None:
        with (
            FakeCluster(1, {"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=60_000) as client,
        ):
            cluster.hold("Metadata")

            def ask(seconds: float) -> None:
                began = virtual.now()
                with pytest.raises(NoBrokersAvailableError):
                    client.cluster.update(["orders"], int(seconds * 1000))
                if virtual.now() - began > seconds + PROMPT_S:
                    late.append((seconds, virtual.now() - began))

            workers = [virtual.spawn(ask, seconds) for seconds in (0.5, *(10.0, 1.0) * 5)]
            for worker in workers:
                assert worker.join(60)
            cluster.clear_faults()

    scheduler.run(program)
    assert not late
