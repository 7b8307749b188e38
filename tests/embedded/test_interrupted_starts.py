"""Calls that Ctrl-C ends while they start a thread of the client: the next call goes on with it, and its owner ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest import mock

import pytest

from pykafka import KafkaClient, KafkaConsumer
from pykafka.compat.coordinator.consumer import AutoCommitTask
from pykafka.compat.statistics import Statistics
from pykafka.consumer.background_worker import BackgroundWorker
from pykafka.consumer.fetch_request import FetchSettings
from pykafka.consumer.fetcher import Fetcher
from pykafka.consumer.partition_discovery import PartitionDiscovery
from pykafka.exceptions import NoBrokersAvailableError
from pykafka.handlers import ThreadingHandler
from pykafka.handlers.interrupts import is_at_work
from pykafka.health.watch import Watch
from pykafka.network.patience import Patience
from pykafka.otel.finisher import SpanFinisher
from pykafka.prometheus import KafkaCollector
from pykafka.security.background_calls import BackgroundCalls
from pykafka.telemetry.telemetry import Telemetry
from pykafka.testing import FakeCluster
from tests.support.interrupts import Interrupted, interrupted_starts
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

TOPIC = "jobs"


@pytest.fixture
def client() -> Iterator[KafkaClient]:
    with FakeCluster(brokers=1, topics={TOPIC: 1}) as cluster, KafkaClient(cluster.hosts) as client:
        yield client


def threads(name: str) -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.ident is not None and one.name.startswith(name)]


class Site(NamedTuple):
    """Where a thread is started.

    :param begin: starts it, unless it runs
    :param end: ends it; what it waits for has come by then
    """

    begin: Callable[[], object]
    end: Callable[[], object]


class Setting(NamedTuple):
    """A site may use this.

    :param work: what the thread does, if it would end at once: it waits until both calls are over
    """

    client: KafkaClient
    directory: Path
    patch: pytest.MonkeyPatch
    work: Callable[..., Any]


def fetcher(setting: Setting) -> Site:
    broker, consumer = mock.Mock(), cast("Any", mock.Mock())
    setting.patch.setattr(Fetcher, "_run", setting.work)
    owner = Fetcher(broker, ThreadingHandler(), FetchSettings())
    return Site(lambda: owner.attach(mock.Mock(fetcher=None), consumer), owner.stop)


def background_worker(setting: Setting) -> Site:
    class Owner(BackgroundWorker):
        worker_name = purpose = "pykafka.Background"

        def _is_left(self) -> bool:
            return True

        def _step(self) -> bool:
            return bool(setting.work())

    consumer = mock.Mock(handler=ThreadingHandler())
    owner = Owner(consumer)
    owner.is_stranded = True

    def begin(_: object = consumer) -> None:
        owner.revive()

    return Site(begin, owner.join)


def partition_discovery(setting: Setting) -> Site:
    consumer = mock.Mock(handler=ThreadingHandler(), whole_topics=[TOPIC])
    consumer.cluster.refresh_older = setting.work
    owner = PartitionDiscovery(consumer, 0.0)

    def begin(_: object = consumer) -> None:
        owner.tick()

    return Site(begin, owner.join)


def delivery_callbacks(setting: Setting) -> Site:
    producer = setting.client.producer(linger_ms=0, on_delivery=setting.work)
    owner = producer._engine.completion.callbacks
    setting.patch.setattr(owner, "begin", lambda: None)
    producer.produce(TOPIC, b"1")
    until(ThreadingHandler(), owner.waiting)
    setting.patch.undo()
    return Site(owner.begin, producer.close)


def delivery_deadlines(setting: Setting) -> Site:
    producer = setting.client.producer(linger_ms=60_000)
    producer.produce(TOPIC, b"1")
    owner = producer._engine.routing.deadlines
    owner.stop()
    return Site(owner.start, producer.close)


def leader_lookup(setting: Setting) -> Site:
    producer = setting.client.producer()
    owner = producer._engine.routing.lookup
    setting.patch.setattr(owner, "_look_up", setting.work)
    return Site(lambda: owner.begin(1e9), lambda: owner.join(10))


def auto_commit(setting: Setting) -> Site:
    consumer = setting.client.consumer(TOPIC, group="g", auto_commit=False)
    owner = consumer._engine.commits
    assert owner is not None

    def begin() -> None:
        if not is_at_work(owner.worker):
            owner.start()

    return Site(begin, consumer.close)


def old_auto_commit(setting: Setting) -> Site:
    coordinator = SimpleNamespace(
        _handler=ThreadingHandler(), group_id="g", _cluster=SimpleNamespace(socket_timeout_ms=5000)
    )
    owner = AutoCommitTask(cast("Any", coordinator), 60.0)
    return Site(owner.reschedule, owner.disable)


def statistics(setting: Setting) -> Site:
    owner = Statistics(setting.client.cluster)
    return Site(owner.start, owner.stop)


def telemetry(setting: Setting) -> Site:
    setting.patch.setattr(Telemetry, "step", lambda _: 60.0)
    owner = Telemetry(setting.client.cluster)

    def end() -> None:
        setting.patch.undo()
        owner.stop()

    return Site(owner.start, end)


def librdkafka(setting: Setting) -> Site:
    pytest.importorskip("confluent_kafka")
    producer = setting.client.topics[TOPIC].get_producer(use_rdkafka=True)
    producer.stop()
    return Site(producer.start, producer.stop)


def patience(setting: Setting) -> Site:
    owner = Patience(ThreadingHandler(), "of the test")

    def begin() -> None:
        if owner.is_over:
            owner.begin(setting.work)

    return Site(begin, lambda: owner.wait(10))


def prometheus(setting: Setting) -> Site:
    owner = KafkaCollector(directory=setting.directory)
    others: Iterator[Any] = iter([setting.client, setting.client.producer()])
    return Site(lambda: owner.add(next(others)), owner.close)


def topic_lookup(setting: Setting) -> Site:
    producer = setting.client.producer(max_block_ms=200)
    setting.patch.setattr(producer._engine.metadata_wait, "_look_up", setting.work)

    def begin() -> None:
        with pytest.raises(NoBrokersAvailableError):
            producer.produce(TOPIC, b"1")

    return Site(begin, producer.close)


def gone(name: str) -> None:
    until(ThreadingHandler(), lambda: not threads(name))


def watch(setting: Setting) -> Site:
    owner = Watch(ThreadingHandler())
    owner._know(setting.client.cluster)

    def end() -> None:
        setting.client.close()
        owner.hurry()
        gone("pykafka.Watch")

    return Site(owner._start, end)


def spans(setting: Setting) -> Site:
    owner = SpanFinisher(ThreadingHandler(), lambda *_: None)

    def end() -> None:
        owner.stop()
        gone("pykafka.otel")

    return Site(lambda: owner.add(mock.Mock(end=setting.work)), end)


def token_call(setting: Setting) -> Site:
    owner = BackgroundCalls("pykafka.Call")
    return Site(lambda: owner.join(ThreadingHandler(), setting.work), lambda: gone("pykafka.Call"))


SITES: dict[str, Callable[[Setting], Site]] = {
    "pykafka.Fetcher": fetcher,
    "pykafka.Background": background_worker,
    "pykafka.PartitionDiscovery": partition_discovery,
    "pykafka.on_delivery": delivery_callbacks,
    "pykafka.DeliveryDeadlines": delivery_deadlines,
    "pykafka.LeaderLookup": leader_lookup,
    "pykafka.AutoCommit": auto_commit,
    "pykafka.AutoCommit.g": old_auto_commit,
    "pykafka.statistics": statistics,
    "pykafka.telemetry": telemetry,
    "pykafka.RdKafka": librdkafka,
    "pykafka.Patience": patience,
    "pykafka.prometheus": prometheus,
    "pykafka.look_up": topic_lookup,
    "pykafka.Watch": watch,
    "pykafka.otel": spans,
    "pykafka.Call": token_call,
}


@pytest.mark.parametrize("name", SITES)
def test_a_thread_whose_start_was_interrupted_is_the_only_one_and_ends(
    client: KafkaClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Nobody stopped it or waited for it, and the next call started another one beside it."""
    gate = threading.Event()

    def work(*_: object, **__: object) -> None:
        gate.wait(20)

    site = SITES[name](Setting(client, tmp_path, monkeypatch, work))
    before = threads(name)
    with interrupted_starts(name), pytest.raises(Interrupted):
        site.begin()
    first = [one for one in threads(name) if one not in before]
    assert len(first) == 1
    site.begin()
    assert [one for one in threads(name) if one not in before] == first
    gate.set()
    site.end()
    assert threads(name) == []


def test_spans_end_by_the_next_start_if_an_interrupt_has_prevented_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """No span ended any more."""
    handler, ended = ThreadingHandler(), list[object]()
    owner = SpanFinisher(handler, lambda *_: None)

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(owner._native, "spawn", interrupted)
        with pytest.raises(Interrupted):
            owner.add(mock.Mock(end=ended.append))
    owner.add(mock.Mock(end=ended.append))
    owner.stop()
    assert len(ended) == 2


def test_a_sender_whose_start_was_interrupted_is_the_only_one_and_ends(client: KafkaClient) -> None:
    name = "pykafka.OwnedBroker"
    with client.producer(linger_ms=5) as producer:
        with interrupted_starts(name), pytest.raises(Interrupted):
            producer.produce(TOPIC, b"1")
        first = threads(name)
        producer.produce(TOPIC, b"2")
        producer.flush()
        assert threads(name) == first
        assert len(first) == 1
    client.close()
    assert threads(name) == []


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("pykafka.Membership", {"managed": True}),
        ("pykafka.AutoCommit", {"auto_commit_enable": True}),
    ],
)
def test_a_consumer_whose_start_was_interrupted_leaves_nothing(
    client: KafkaClient, name: str, options: dict[str, Any]
) -> None:
    """The worker that follows an assignment stayed for some seconds, while the consumer had left the group."""
    topic = client.topics[TOPIC]
    make = topic.get_balanced_consumer if "managed" in options else topic.get_simple_consumer
    consumer = make("g", auto_start=False, **options)
    with interrupted_starts(name), pytest.raises(Interrupted):
        consumer.start()
    consumer.stop()
    assert threads(name) == []
    consumer.start()
    assert len(threads(name)) == 1
    consumer.stop()
    assert threads(name) == []


def test_parallel_work_whose_start_was_interrupted_is_over_when_it_says_so(client: KafkaClient) -> None:
    """It went on, and `stop()` returned at once."""
    name, gate, begun = "pykafka.parallel.read", threading.Event(), threading.Event()
    with client.producer() as producer:
        producer.produce(TOPIC, b"1").get(timeout=10)

    def handle(_: object) -> None:
        begun.set()
        gate.wait(20)

    consumer: KafkaConsumer[Any, Any] = client.consumer(TOPIC, group="g", auto_offset_reset="earliest")
    run = consumer.parallel(handle)
    with interrupted_starts(name), pytest.raises(Interrupted):
        run.start()
    gate.set()
    assert run.stop()
    assert threads(name) == []
    consumer.close()
