"""The watch: each stall and each hold is reported once, with its reason, and the worker ends with the last client."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from prometheus_client import CollectorRegistry

from pykafka import KafkaClient
from pykafka.aio import KafkaClient as AsyncClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import MessagesNotDelivered
from pykafka.handlers import Handler
from pykafka.handlers.whereabouts import HoldProbe, stack_of
from pykafka.health import Held, Stalled, Why
from pykafka.health import watch as module
from pykafka.health.clients import client_health
from pykafka.prometheus import KafkaCollector
from tests.support.health import fill
from tests.support.loops import Concurrency
from tests.support.waiting import until

WATCH = "pykafka.health.watch"


@pytest.mark.on_asyncio
def test_a_stall_is_reported_once(
    concurrency: Concurrency, listened: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1500, **concurrency()) as client,
    ):
        fill(client)
        handler = client.cluster.handler
        with client.consumer("t") as consumer:
            assert consumer.one(20) is not None
            until(handler, lambda: listened)
            handler.sleep(2.5)
            (event,) = listened
            assert isinstance(event, Stalled)
            assert (event.topic, event.partition, event.why) == ("t", 0, Why.NOT_POLLED)
            assert event.seconds >= 1.5
            assert len(consumer.poll(100, timeout=20)) == 19
            handler.sleep(2.5)
            assert len(listened) == 1
    lines = [record for record in caplog.records if record.name == WATCH]
    assert len(lines) == 1
    assert "t-0 has stood still" in lines[0].getMessage()
    assert lines[0].levelno == logging.WARNING


def stalls(client: KafkaClient, group: str) -> dict[tuple[str, str], float]:
    """Return {(name, reason): value} of a client's metrics about stalls."""
    return {
        (name.name, tags["reason"]): metric.value
        for name, metric in client.metrics().items()
        if "reason" in (tags := dict(name.tags)) and name.group == group
    }


@pytest.mark.on_asyncio
def test_a_stall_is_a_metric_by_its_reason(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1500, **concurrency()) as client,
    ):
        fill(client)
        handler = client.cluster.handler
        with client.consumer("t") as consumer:
            assert consumer.one(20) is not None
            assert stalls(client, "consumer-metrics") == {}
            now, begun = ("stalled-partitions", "not-polled"), ("stalls-total", "not-polled")
            until(handler, lambda: stalls(client, "consumer-metrics").get(now) == 1)
            assert stalls(client, "consumer-metrics")[begun] == 1
            name = next(one for one in consumer.metrics() if one.name == "still-seconds")
            assert 1 <= consumer.metrics()[name].value < 20
            assert len(consumer.poll(100, timeout=20)) == 19
            until(handler, lambda: stalls(client, "consumer-metrics")[now] == 0)
            assert stalls(client, "consumer-metrics")[begun] == 1
            assert consumer.metrics()[name].value == 0
        assert client.metrics().value("holds-total", "client-hub-metrics") == 0


def test_a_producer_that_is_closed_leaves_no_stall_to_the_next_one(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1000, **concurrency()) as client,
    ):
        handler = client.cluster.handler
        producer = client.producer(linger_ms=0)
        producer.produce("t", b"x").get(timeout=20)
        cluster.broker_down(1)
        producer.produce("t", b"x")
        until(handler, lambda: stalls(client, "producer-metrics"))
        ((_, reason),) = {key for key in stalls(client, "producer-metrics") if key[0] == "stalled-partitions"}
        assert stalls(client, "producer-metrics")["stalled-partitions", reason] == 1
        with pytest.raises(MessagesNotDelivered):
            producer.close(timeout=0)
        cluster.broker_up(1)
        with client.producer(linger_ms=0) as another:
            another.produce("t", b"x").get(timeout=20)
            gone = {("stalled-partitions", reason): 0, ("stalls-total", reason): 1}
            until(handler, lambda: stalls(client, "producer-metrics") == gone)


def test_a_reason_that_changes_is_told_to_the_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    class Subject:
        running = True
        listener = SimpleNamespace(on_event=lambda kind, *_: heard.append(kind))
        native = property(lambda self: self)
        handler = metrics_settings = limiter = _engine = property(lambda self: self)
        stall_report_ms = hold_report_ms = 1000
        _view: Any = None

        def now(self) -> float:
            return 0.0

        def say(self, fn: Callable[[], object]) -> None:
            fn()

        def warn(self, *_: object) -> None:
            heard.append("log")

    subject: Any = Subject()
    watched = module._Watched(subject, subject)
    for reasons in ([Why.PAUSED], [Why.PAUSED], [Why.THROTTLED], [], [Why.PAUSED]):
        found = [(0, Stalled("c", "t", 0, 2.0, why, "x")) for why in reasons]
        view = SimpleNamespace(stalls=lambda _, found=found: found, whole=lambda: None)
        monkeypatch.setattr(Subject, "_view", lambda _, view=view: view)
        watched.look()
    watched.end()
    watched.end()
    assert heard == [
        *("log", "stalled paused", "stalled throttled", "moves paused", "moves throttled"),
        *("log", "stalled paused", "moves paused"),
    ]


def test_the_listener_of_a_client_hears_of_both() -> None:
    heard: list[tuple[str, str, float, object]] = []

    class Listener:
        def on_event(self, kind: str, subject: str, seconds: float = 0.0, detail: object = "") -> None:
            heard.append((kind, subject, seconds, detail))

    listener: Any = Listener()
    module.tell(listener, Stalled("consumer of t", "t", 3, 31.0, Why.PAUSED, "paused"))
    module.tell(listener, Held(2.0, "a.py:1 in f"))
    whole = Stalled("consumer of t", "", -1, 31.0, Why.NOT_A_MEMBER, "fenced")
    module.tell(listener, whole)
    module.tell_moves(listener, whole)
    module.tell(None, Held(2.0, ""))
    assert heard == [
        ("stalled paused", "t/3", 31.0, "consumer of t: paused"),
        ("held", "hub or event loop", 2.0, "a.py:1 in f"),
        ("stalled not-a-member", "consumer of t", 31.0, "consumer of t: fenced"),
        ("moves not-a-member", "consumer of t", 0.0, ""),
    ]


def test_a_paused_partition_is_not_reported(concurrency: Concurrency, listened: list[Any]) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1000, **concurrency()) as client,
    ):
        fill(client)
        with client.consumer("t") as consumer:
            assert consumer.one(20) is not None
            consumer.pause(*consumer.assignment())
            client.cluster.handler.sleep(3.5)
            assert listened == []
            assert consumer.health().ready


def test_an_old_message_is_reported(concurrency: Concurrency, listened: list[Any]) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1000, socket_timeout_ms=1000, **concurrency()) as client,
        client.producer(linger_ms=0) as producer,
    ):
        producer.produce("t", b"x").get(20)
        cluster.broker_down(1)
        producer.produce("t", b"y")
        until(client.cluster.handler, lambda: listened)
        assert (listened[0].topic, listened[0].partition) == ("t", 0)
        assert listened[0].why in (Why.UNREACHABLE, Why.NO_LEADER)
        producer.purge()
        cluster.broker_up(1)


def test_a_held_hub_is_reported_with_its_stack(listened: list[Any]) -> None:
    def hold_the_hub() -> None:
        time.sleep(1.5)

    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, use_greenlets=True, hold_report_ms=300) as client,
        client.consumer("t"),
    ):
        gevent.sleep(1.0)
        assert listened == []
        for _ in range(3):
            hold_the_hub()
            gevent.sleep(0.01)
        until(client.cluster.handler, lambda: listened)
        assert isinstance(listened[0], Held)
        assert "in hold_the_hub" in listened[0].stack


@pytest.mark.on_asyncio
def test_the_duration_of_holds_is_a_metric(concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three holds of 300 ms, each of which counts as one of 250 ms at least; threads hold nobody else up."""
    monkeypatch.setattr(module, "SHORTEST_S", 0.02)
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, hold_report_ms=50, **concurrency()) as client,
        client.consumer("t"),
    ):
        handler = client.cluster.handler
        handler.sleep(0.5)
        for _ in range(3):
            time.sleep(0.3)
            handler.sleep(0.1)
        metrics, group = client.metrics(), "client-hub-metrics"
        registry = CollectorRegistry()
        KafkaCollector(client, registry=registry)
        total, most = (
            registry.get_sample_value(f"kafka_client_hub_{name}", {"client_id": "pykafka"})
            for name in ("hold_time_seconds_total", "hold_time_max_seconds")
        )
        assert total is not None
        assert most is not None
        if not handler.cooperative:
            assert metrics.value("hold-time-total", group) == total == 0
            assert math.isnan(most)
            return
        assert metrics.value("holds-total", group) >= 3
        assert 750 <= metrics.value("hold-time-total", group) < 15_000
        assert 250 <= metrics.value("hold-time-max", group) < 5000
        assert 0.75 <= total < 15
        assert 0.25 <= most < 5


def test_the_flight_recorder_has_a_hold_and_its_end() -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, use_greenlets=True, hold_report_ms=200) as client,
        client.consumer("t"),
    ):
        gevent.sleep(0.3)
        time.sleep(1.0)
        flight, seconds = client.cluster.flight, dict[str, float]()
        assert flight is not None

        def is_complete() -> bool:
            seconds.update((event[1], event[3]) for event in flight.events)
            return {"held", "released"} <= set(seconds)

        until(client.cluster.handler, is_complete)
        assert 0.2 <= seconds["held"] <= 1.2
        assert 0.8 <= seconds["released"] < 5


def test_the_worker_ends_with_the_last_client(concurrency: Concurrency) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        watch = module.watch_of(client.cluster.handler)
        with client.consumer("t"):
            assert watch._running.locked()
            with client.producer():
                pass
            assert watch._running.locked()
        assert watch._running.locked()  # other consumers of this client may come
        client.close()
        until(client.cluster.handler, lambda: not watch._running.locked(), 3)


def test_zero_switches_it_off() -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=0, hold_report_ms=0) as client,
        client.consumer("t") as consumer,
    ):
        assert not module.watch_of(client.cluster.handler)._watched
        assert consumer.health().ready


def test_an_error_of_one_look_ends_no_other(caplog: pytest.LogCaptureFixture, handler: Handler) -> None:
    class Broken:
        is_gone, hold_s = False, 0.0
        handler: Any = None

        def look(self) -> None:
            raise RuntimeError("broken")

    watch = module.Watch(handler.native)
    watch._watched = {1: Broken(), 2: Broken()}  # type: ignore[dict-item]
    watch.look()
    watch.look()
    handler.sleep(0.1)
    assert caplog.text.count("looking for stalls failed: broken") == 2  # once of each


def test_a_report_names_no_secret() -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, allow_cleartext_credentials=True) as client,
        client.consumer("t", group="g") as consumer,
        client.producer() as producer,
    ):
        producer.produce("t", b"payload-of-it", key=b"key-of-it")
        text = json.dumps(client.health().to_dict()) + str(consumer.explain()) + str(producer.explain())
        assert "payload-of-it" not in text
        assert "key-of-it" not in text


@pytest.mark.parametrize("gone", [True, False])
def test_the_stack_of_a_worker(handler: Handler, gone: bool) -> None:
    marks: list[object] = []
    released = handler.Event()

    def waits_here() -> None:
        marks.append(handler.here())
        released.wait(30)

    worker = handler.spawn(waits_here)
    until(handler, lambda: marks)
    if gone:
        released.set()
        worker.join(10)
        assert "waits_here" not in stack_of(marks[0])
    else:
        assert "in waits_here" in stack_of(marks[0])
        released.set()
        worker.join(10)


def test_an_idle_hub_is_not_woken() -> None:
    posted: list[Callable[[], object]] = []

    class Native:
        now = staticmethod(time.monotonic)

        def post(self, fn: Callable[[], object]) -> None:
            posted.append(fn)

    class Hub:
        native = Native()

    probe = HoldProbe(Hub())  # type: ignore[arg-type]
    looked: list[object] = []

    def look() -> None:
        time.sleep(0.2)
        looked.append(probe.look(0.1))

    pool = gevent.get_hub().threadpool
    pool.spawn(look).get()  # the hub waits for it, and is idle
    assert looked == [None]
    assert not posted


@pytest.mark.on_asyncio
def test_a_hub_is_forgotten_when_nothing_is_watched_on_it(concurrency: Concurrency) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts) as other,
        other.consumer("t"),
        KafkaClient(cluster.hosts, **concurrency()) as client,
    ):
        handler, watch = client.cluster.handler, module.watch_of(client.cluster.handler)
        with client.consumer("t"):
            until(handler, lambda: (id(handler) in watch._probes) is handler.cooperative)
        client.close()
        until(handler, lambda: id(handler) not in watch._probes, 5)
        assert watch._watched  # that of the other client


def test_a_loop_that_is_closed_is_not_held(listened: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    """Its client was not closed, and holds nothing: the loop cannot turn any more."""
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts) as client,
        client.consumer("t"),
    ):
        left: list[Any] = []

        async def main() -> None:
            client = await AsyncClient(cluster.hosts, hold_report_ms=200, stall_report_ms=500)
            left.extend((client, await client.consumer("t")))
            time.sleep(1.5)  # so that the loop owes a turn at its end

        asyncio.run(main())
        inner = left[0]._inner.cluster
        watch = module.watch_of(inner.handler)
        until(client.cluster.handler, lambda: id(inner.handler) not in watch._probes, 5)
        listened.clear()
        time.sleep(1.5)
        assert listened == []
        problem = client_health(inner, probe=True).problems[0]
        assert (problem.kind, problem.restart_helps) == ("closed", True)
        assert "looking for stalls" not in caplog.text


#: A program that forks; its child reads, and prints what it watches.
FORKS = """
import json, os, sys
from pykafka import KafkaClient
from pykafka.health.watch import watch_of

client = KafkaClient(sys.argv[1], use_greenlets=sys.argv[2] == "greenlets")
consumer = client.consumer("t")
assert consumer.one(20) is not None
if os.fork() == 0:
    watch = watch_of(client.cluster.handler)
    before = [len(watch._watched), client.health().ready, [why.why.value for _, why in consumer.explain(0)]]
    assert consumer.one(20) is not None
    print(json.dumps([before, len(watch._watched), watch._running.locked(), consumer.health().alive]), flush=True)
    os._exit(0)
assert os.wait()[1] == 0
client.close()
"""


@pytest.mark.parametrize("kind", ["threads", "greenlets"])
def test_a_forked_child_watches_its_own(kind: str) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        with KafkaClient(cluster.hosts) as client:
            fill(client)
        command = [sys.executable, "-c", FORKS, cluster.hosts, kind]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == [[0, True, ["starting"]], 1, True, True]
