"""stats_cb: what a function written for librdkafka gets of this client, beside what librdkafka itself gives it."""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import re
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.compat.statistics_json import percentile
from tests.support.inside import statistics_of
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(120)]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "statistics.md"
COUNT = 100
MS = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("t", 2)
        yield cluster


class Reports:
    """The texts that a stats_cb got.

    :param then: is called with each report, too
    """

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.texts: list[str] = []
        self.calls = 0
        self._then = then

    def __call__(self, text: str) -> None:
        self.calls += 1
        self.texts.append(text)
        self._then()

    def last(self, kind: str) -> dict[str, Any]:
        """Return the last report of a producer or a consumer; nothing if there is none."""
        found = (json.loads(text) for text in reversed(self.texts.copy()))
        return next((report for report in found if report["type"] == kind), {})


def work(client: KafkaClient, reports: Reports, group: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Produce and consume; return the reports of the producer and of the consumer."""
    with (
        client.producer(linger_ms=0) as producer,
        client.consumer("t", group=group, auto_offset_reset="earliest") as consumer,
    ):
        for number in range(COUNT):
            producer.produce("t", b"v" * 10, partition=number % 2)
        producer.flush()
        read = 0
        while read < COUNT:
            read += len(consumer.poll(10, timeout=30))
        consumer.commit()
        reports.texts.clear()
        until(client.cluster.handler, lambda: bool(reports.last("producer") and reports.last("consumer")))
        return reports.last("producer"), reports.last("consumer")


@pytest.fixture(scope="module")
def given(cluster: EmbeddedCluster) -> tuple[dict[str, Any], dict[str, Any]]:
    reports = Reports()
    config = {"bootstrap.servers": cluster.hosts, "stats_cb": reports, "statistics.interval.ms": str(MS)}
    with KafkaClient.from_config(config) as client:
        return work(client, reports, "ours")


def test_what_a_producer_and_a_consumer_report(given: tuple[dict[str, Any], dict[str, Any]]) -> None:
    producer, consumer = given
    assert (producer["client_id"], producer["name"]) == ("pykafka", "pykafka#producer-1")
    assert (producer["txmsgs"], producer["msg_cnt"]) == (COUNT, 0)
    assert producer["eos"]["idemp_state"] == "Assigned"
    assert {broker["state"] for broker in producer["brokers"].values()} == {"UP"}
    partitions = consumer["topics"]["t"]["partitions"]
    assert set(partitions) == {"0", "1"}
    ends = {part["hi_offset"] for part in partitions.values()}
    assert ends == {COUNT / 2}
    for part in partitions.values():
        assert part["committed_offset"] == part["stored_offset"] == part["hi_offset"]
        assert (part["consumer_lag"], part["consumer_lag_stored"]) == (0, 0)
        assert (part["fetchq_cnt"], part["fetch_state"]) == (0, "active")
    assert consumer["rxmsgs"] >= COUNT
    assert (consumer["cgrp"]["state"], consumer["cgrp"]["assignment_size"]) == ("up", 2)
    toppars = [key for broker in consumer["brokers"].values() for key in broker["toppars"]]
    assert sorted(toppars) == ["t-0", "t-1"]


#: Keys that name something: a broker, a topic, a partition.
NAMES = {"brokers": "BROKER", "toppars": "TOPPAR", "topics": "TOPIC", "partitions": "PARTITION", "req": "API"}


def shape(fields: dict[str, Any], path: str = "") -> dict[str, str]:
    """Return {path of a field: its type in JSON}."""
    found: dict[str, str] = {}
    for key, value in fields.items():
        inside = path.rpartition(".")[2]
        name = f"{path}.{NAMES[inside]}" if inside in NAMES else f"{path}.{key}"
        if isinstance(value, dict):
            found |= shape(value, name)
        else:
            found[name.lstrip(".")] = type(value).__name__
    return found


def theirs(cluster: EmbeddedCluster) -> dict[str, str]:
    """Return what librdkafka reports of a producer and a consumer."""
    reports = Reports()
    config: dict[str, Any] = {"bootstrap.servers": cluster.hosts, "stats_cb": reports, "statistics.interval.ms": 50}
    producer = confluent_kafka.Producer({**config, "enable.idempotence": True})
    consumer = confluent_kafka.Consumer({**config, "group.id": "theirs", "auto.offset.reset": "earliest"})
    try:
        producer.produce("t", b"v", partition=0)
        producer.flush(10)
        consumer.subscribe(["t"])
        while consumer.poll(0.1) is None:
            pass
        reports.texts.clear()
        while not (reports.last("producer") and "cgrp" in reports.last("consumer")):
            producer.poll(0.05)
            consumer.poll(0.05)
    finally:
        consumer.close()
    return shape(reports.last("producer")) | shape(reports.last("consumer"))


def test_each_field_is_librdkafkas_and_the_page_names_those_that_lack(
    cluster: EmbeddedCluster, given: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    ours = {name: kind for report in given for name, kind in shape(report).items()}
    wanted = theirs(cluster)
    assert {name: kind for name, kind in ours.items() if wanted.get(name) != kind} == {}
    listed = re.findall(r"^\| `([\w.]+)` \|", PAGE.read_text(), re.MULTILINE)
    windows = [name for name in wanted if name.rpartition(".")[2] in ("min", "stddev", "outofrange", "hdrsize")]
    percentiles = [name for name in wanted if re.search(r"\.(batchsize|batchcnt|throttle)\.p[\d_]+$", name)]
    absent = {re.sub(r"(int_latency|outbuf_latency)\..*", r"\1", name) for name in wanted if name not in ours}
    assert sorted(absent - set(windows) - set(percentiles)) == sorted(listed)


def test_a_function_that_raises_is_logged_once_and_called_again(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture, concurrency: Callable[[], dict[str, Any]]
) -> None:
    def fail() -> None:
        raise RuntimeError("no disk")

    reports = Reports(fail)
    with KafkaClient(cluster.hosts, stats_cb=reports, statistics_interval_ms=MS, **concurrency()) as client:
        with caplog.at_level(logging.ERROR), client.producer() as producer:
            producer.produce("t", b"v").get(timeout=30)
            until(client.cluster.handler, lambda: reports.calls > 3)
    assert [record.message for record in caplog.records if "no disk" in record.message] == [
        "stats_cb, whose further errors are not logged, failed: no disk"
    ]


def test_a_function_that_blocks_delays_nothing_else(
    cluster: EmbeddedCluster, concurrency: Callable[[], dict[str, Any]]
) -> None:
    with KafkaClient(cluster.hosts, **concurrency()) as other:
        event = other.cluster.handler.Event()
        reports = Reports(lambda: event.wait(60))
        client = KafkaClient(cluster.hosts, stats_cb=reports, statistics_interval_ms=MS, handler=other.cluster.handler)
        with client.producer(linger_ms=0) as producer:
            producer.produce("t", b"v").get(timeout=30)
            until(client.cluster.handler, lambda: reports.calls > 0)
            producer.produce("t", b"v").get(timeout=30)
        began = client.cluster.handler.now()
        client.close()
        assert client.cluster.handler.now() - began < 10
        assert reports.calls == 1
        event.set()


def test_no_call_comes_after_close_or_without_a_running_part(cluster: EmbeddedCluster) -> None:
    reports = Reports()
    with KafkaClient(cluster.hosts, stats_cb=reports, statistics_interval_ms=MS) as client:
        handler = client.cluster.handler
        with client.producer() as producer:
            producer.produce("t", b"v").get(timeout=30)
            until(handler, lambda: reports.calls > 0)
        handler.sleep(0.05)  # one may be under way
        before = reports.calls
        handler.sleep(0.2)
        assert reports.calls == before
    assert statistics_of(client)._worker.is_alive() is False


def test_a_function_may_close_the_client(cluster: EmbeddedCluster) -> None:
    is_due = False

    def close() -> None:
        if is_due:
            client.close()

    reports = Reports(close)
    client = KafkaClient(cluster.hosts, stats_cb=reports, statistics_interval_ms=MS)
    producer = client.producer()
    producer.produce("t", b"v").get(timeout=30)
    is_due = True
    until(client.cluster.handler, lambda: client.cluster.ended)


def test_it_holds_no_client_alive(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka.compat.statistics.OWNER_POLL_S", 0.05)
    client = KafkaClient(cluster.hosts, stats_cb=Reports(), statistics_interval_ms=10_000, enable_metrics_push=False)
    with client.producer() as producer:
        producer.produce("t", b"v").get(timeout=30)
    handler, reference, worker = (
        client.cluster.handler,
        weakref.ref(client.cluster),
        statistics_of(client)._worker,
    )
    del client, producer
    gc.collect()
    until(handler, lambda: reference() is None and not worker.is_alive())


def count_in_child(producer: Any, reports: Reports, results: Any) -> None:
    reports.texts.clear()
    producer.produce("t", b"v").get(timeout=30)
    deadline = time.monotonic() + 30
    while reports.last("producer").get("txmsgs") != 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    results.put(reports.last("producer")["txmsgs"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reports_for_itself(cluster: EmbeddedCluster) -> None:
    reports = Reports()
    with (
        KafkaClient(cluster.hosts, stats_cb=reports, statistics_interval_ms=MS) as client,
        client.producer() as producer,
    ):
        for _ in range(3):
            producer.produce("t", b"v").get(timeout=30)
        until(client.cluster.handler, lambda: reports.last("producer").get("txmsgs") == 3)
        forking = multiprocessing.get_context("fork")
        results = forking.SimpleQueue()
        child = forking.Process(target=count_in_child, args=(producer, reports, results))
        child.start()
        child.join(60)
        assert (child.exitcode, results.get()) == (0, 1)
        results.close()


@pytest.mark.parametrize("options", [{"stats_cb": print}, {"statistics_interval_ms": 10}, {}], ids=str)
def test_without_both_options_there_is_no_worker(cluster: EmbeddedCluster, options: dict[str, Any]) -> None:
    with KafkaClient(cluster.hosts, **options) as client, client.producer() as producer:
        producer.produce("t", b"v").get(timeout=30)
        assert "statistics" not in client.cluster.kept


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"stats_cb": "print"}, TypeError, "stats_cb must be a function"),
        ({"statistics_interval_ms": -1}, ValueError, "statistics_interval_ms"),
        (
            {"stats_cb": print, "statistics_interval_ms": 1, "record_metrics": False},
            ValueError,
            "stats_cb gets what record_metrics=True counts",
        ),
    ],
)
def test_bad_options_are_named(
    cluster: EmbeddedCluster, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        KafkaClient(cluster.hosts, **options)


async def _report(text: str) -> None: ...


def test_a_coroutine_function_is_refused(cluster: EmbeddedCluster) -> None:
    with pytest.raises(TypeError, match="nothing awaits a coroutine"):
        KafkaClient(cluster.hosts, stats_cb=_report)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 1.0), (0.75, 1.5), (1.0, 2.0), (0.25, 0.5)])
def test_percentiles_are_linear_inside_of_a_bucket(share: float, expected: float) -> None:
    assert percentile((1.0, 2.0), [5.0, 5.0, 0.0], share, 2.0) == pytest.approx(expected)


def test_a_percentile_is_not_above_the_largest_value() -> None:
    assert percentile((10.0,), [100.0, 0.0], 0.99, 3.0) == 3.0
    assert percentile((10.0,), [0.0, 4.0], 0.5, 30.0) == pytest.approx(20.0)
    assert percentile((10.0,), [0.0, 0.0], 0.5, 0.0) == 0.0
