"""Reports: they send no request, take next to no time, and say what the consumer and the producer are at."""

from __future__ import annotations

import json
import time
import traceback
import uuid
from typing import Any

import pytest

from pykafka import KafkaClient, TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import WorkerNotStartedError
from pykafka.handlers import AsyncioHandler, GEventHandler, ThreadingHandler
from pykafka.handlers.patching import original
from pykafka.health import Problem, Why, clients
from pykafka.network.node import Node
from tests.support.loops import Concurrency
from tests.support.waiting import until

pytestmark = pytest.mark.on_asyncio

PARTITIONS = 100
CLOSED = Problem("closed", "the client is closed", "make another", None, True)
#: Many times what a report takes (s): this is no measurement.
AMPLE_S = 0.05


def test_a_report_of_a_hundred_partitions_sends_no_request(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        EmbeddedCluster(brokers=3, topics={"t": PARTITIONS}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.consumer("t") as consumer,
        client.producer() as producer,
    ):
        until(client.cluster.handler, lambda: all(one.end == 0 for one in consumer.health().partitions))
        here, senders, send = client.cluster.handler.here, [], Node.send

        def noted(*args: Any, **kwargs: Any) -> Any:
            senders.append(here())
            return send(*args, **kwargs)

        monkeypatch.setattr(Node, "send", noted)
        took = []
        for _ in range(20):
            began = time.perf_counter()
            report = client.health()
            took.append(time.perf_counter() - began)
        assert here() not in senders
        assert min(took) < AMPLE_S
        assert len(report.consumers[0].partitions) == PARTITIONS
        assert producer.health().ready
        plain = json.loads(json.dumps(report.to_dict()))
        assert len(plain["consumers"][0]["partitions"]) == PARTITIONS


def test_a_report_follows_what_is_read(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.producer() as producer,
        client.consumer("t", group="g") as consumer,
    ):
        old = round(time.time() * 1000) - 60_000
        for _ in range(4):
            producer.produce("t", b"x", timestamp=old)
        producer.flush()
        assert consumer.health().last_commit_s is None
        record = consumer.one(30)
        assert record is not None
        report = consumer.health()
        (part,) = report.partitions
        assert (part.position, part.end, part.lag, part.committed) == (1, 4, 3, None)
        assert part.lag_seconds is not None
        assert 59 < part.lag_seconds < 120
        assert report.member is not None
        assert report.member.generation >= 1
        assert report.member.coordinator is not None
        consumer.commit(record)
        report = consumer.health()
        assert report.partitions[0].committed == 1
        assert report.last_commit_s is not None
        assert report.last_poll_s is not None
        assert len(consumer.poll(10, timeout=20)) == 3
        (part,) = consumer.health().partitions
        assert (part.lag, part.lag_seconds, part.still_s) == (0, 0.0, None)
        assert consumer.explain().of("t-0").why is Why.AT_END


def test_what_the_application_has_closed_is_no_problem(concurrency: Concurrency) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        client = KafkaClient(cluster.hosts, **concurrency())
        consumer, producer = client.consumer("t"), client.producer()
        consumer.close()
        producer.close()
        report = client.health()
        assert report.ready
        assert (report.consumers, report.producers) == ((), ())
        assert consumer.health().problems[0].kind == "closed"
        client.close()
        report = client.health(probe=True)
        assert [(one.kind, one.restart_helps) for one in report.problems] == [("closed", True)]
        assert not report.alive


def test_a_probe_asks_all_brokers_at_once(concurrency: Concurrency) -> None:
    with EmbeddedCluster(brokers=3) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        assert [one.reachable for one in client.health(probe=True).brokers] == [True] * 3
        cluster.set_latency(2, 3_000)
        began = time.monotonic()
        report = client.health(probe=True, timeout=1.0)
        assert time.monotonic() - began < 2.9
        assert [one.reachable for one in report.brokers] == [True, False, True]
        assert [one.kind for one in report.problems] == ["broker-unreachable"]
        assert report.alive
        assert not report.ready
        cluster.set_latency(2, 0)


def test_brokers_that_hang_take_no_time_of_others(concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "ASKED_MOST", 2)
    with EmbeddedCluster(brokers=4) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        assert client.health(probe=True).ready
        for broker in (1, 2):
            cluster.set_latency(broker, 5_000)
        report = client.health(probe=True, timeout=2.0)
        assert [one.reachable for one in report.brokers] == [False, False, True, True]
        for broker in (1, 2):
            cluster.set_latency(broker, 0)


def test_a_probe_without_a_thread_asks_all_the_same(concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedCluster(brokers=3) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        assert client.health(probe=True).ready
        spawn = client.cluster.handler.spawn

        def refuse(target: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("name") == "pykafka.probe":
                raise WorkerNotStartedError("no thread is left")
            return spawn(target, *args, **kwargs)

        monkeypatch.setattr(client.cluster.handler, "spawn", refuse)
        assert [one.reachable for one in client.health(probe=True).brokers] == [True] * 3


def test_what_is_no_error_of_kafka_is_in_the_report(concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise ValueError("broken")

    with EmbeddedCluster(brokers=1) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        monkeypatch.setattr(Node, "call", broken)
        (broker,) = client.health(probe=True, timeout=2.0).brokers
        assert broker.error == "KafkaException: ValueError: broken"


def test_brokers_die_and_the_client_is_closed_amid_probes(concurrency: Concurrency) -> None:
    with EmbeddedCluster(brokers=3, topics={"t": 3}) as cluster:
        client = KafkaClient(cluster.hosts, socket_timeout_ms=1000, **concurrency())
        handler, reports = client.cluster.handler, list[Any]()
        consumer = client.consumer("t")

        def ask() -> None:
            while not reports or reports[len(reports) - 1].problems[:1] != (CLOSED,):
                reports.append(client.health(probe=True, timeout=0.5))
                handler.sleep(0.005)

        workers = [handler.spawn(ask) for _ in range(4)]
        for broker in (1, 2, 3, 1):
            cluster.broker_down(broker)
            handler.sleep(0.2)
            cluster.broker_up(broker)
        consumer.close()
        client.close()
        for worker in workers:
            assert worker.join(20)
            assert worker.error is None
        assert any(not report.ready for report in reports)
        assert all(report.alive for report in reports if CLOSED not in report.problems)


def test_a_broker_that_cannot_be_reached_is_away_since_its_first_failure(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, reconnect_backoff_ms=10, reconnect_backoff_max_ms=50, **concurrency()) as client,
        client.consumer("t"),
    ):
        handler = client.cluster.handler
        until(handler, lambda: client.health().brokers[0].reachable)
        assert client.health().brokers[0].failing_s is None
        cluster.broker_down(1)
        began = handler.now()
        until(handler, lambda: (client.health().brokers[0].failing_s or 0) > 1)  # while it tries again and again
        (broker,) = client.health().brokers
        assert broker.reachable is False
        assert broker.failing_s is not None
        assert broker.failing_s <= handler.now() - began + 1
        since = [one.since for one in client.health().problems if one.kind == "broker-unreachable"]
        assert since[0] is not None
        assert since[0] > 1
        cluster.broker_up(1)
        until(handler, lambda: client.health().brokers[0].reachable)
        assert client.health().brokers[0].failing_s is None


def test_bad_arguments(concurrency: Concurrency) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        with pytest.raises((TypeError, ValueError), match="timeout"):
            client.health(probe=True, timeout=-1)
        with pytest.raises(TypeError, match="probe"):
            client.health(probe="yes")  # type: ignore[arg-type]
        with client.consumer("t") as consumer, pytest.raises(KeyError):
            consumer.explain().of(str(TopicPartition("t", 7)))


def test_an_answer_that_hangs_counts_more_than_what_an_earlier_try_has_failed_by(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.producer(linger_ms=0) as producer,
    ):
        producer.produce("t", b"x").get(20)
        cluster.inject_errors("Produce", "NOT_LEADER_FOR_PARTITION", broker=1)
        cluster.inject_errors("Produce", "NO_ERROR", broker=1, latency_ms=5_000)
        producer.produce("t", b"y")
        until(client.cluster.handler, lambda: "has not answered" in producer.explain().of("t-0").text, 10)
        assert producer.explain().of("t-0").why in (Why.IN_FLIGHT, Why.UNREACHABLE)
        producer.flush(20)


class Watched:
    """A lock of the handler that notes whether a thread of the test's takes it."""

    def __init__(self, lock: Any, taken: list[str], here: list[int]) -> None:
        self._lock = lock
        self._taken = taken
        self._here = here

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        if original("_thread", "get_ident")() in self._here:
            self._taken.append("".join(traceback.format_stack(limit=6)))
        return bool(self._lock.acquire(*args, **kwargs))

    def release(self) -> None:
        self._lock.release()

    def locked(self) -> bool:
        return bool(self._lock.locked())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def test_views_take_no_lock_of_the_handler(concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch) -> None:
    """A native thread looks at a hub's clients: a greenlet may hold the lock, and needs the hub to give it back."""
    taken: list[str] = []
    here: list[int] = []
    for kind in (ThreadingHandler, GEventHandler, AsyncioHandler):
        for name in ("Lock", "RLock"):
            make = getattr(kind, name)
            monkeypatch.setattr(kind, name, lambda self, make=make: Watched(make(self), taken, here))
    with (
        EmbeddedCluster(brokers=2, topics={"t": 4}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.producer(linger_ms=500) as producer,
        client.consumer("t", group=f"g-{uuid.uuid4().hex}") as consumer,
    ):
        for number in range(40):
            producer.produce("t", b"x", partition=number % 4)
        old = client.topics["t"].get_simple_consumer(consumer_group=b"old", auto_commit_enable=True)
        old_producer = client.topics["t"].get_producer(linger_ms=500)
        old_producer.produce(b"x")
        assert consumer.one(30) is not None
        assert old.consume() is not None
        for node in client.cluster.brokers.values():  # as if they were not used yet
            node._channels._by_name.pop("produce", None)
        views: list[Any] = []

        def look() -> None:
            here.append(original("_thread", "get_ident")())
            members: tuple[Any, ...] = (consumer, producer, old, old_producer)
            for view in [member._view() for member in members]:
                views.append((view.report(), list(view.stalls(0.001)), view.whole()))
            here.clear()

        handler = client.cluster.handler
        worker = handler.native.spawn(look)
        until(handler, lambda: not worker.is_alive())
        assert worker.error is None
        assert len(views) == 4
        assert not taken, taken[0]
        old.stop()
        old_producer.stop()


def test_a_callback_that_waits_is_named_with_its_stack(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
    ):
        handler = client.cluster.handler
        released = handler.Event()

        def hold(value: bytes) -> bytes:
            released.wait(30)
            return value

        with client.producer() as producer:
            for _ in range(3):
                producer.produce("t", b"x")
        with client.consumer("t", value_deserializer=hold) as consumer:
            worker = handler.spawn(consumer.one, 30)
            try:
                until(handler, lambda: consumer.explain(0).of("t-0").why is Why.HELD, 10)
                assert "in hold" in consumer.explain(0).of("t-0").text
            finally:
                released.set()
                assert worker.join(30)
