"""The collector: clients that fail, end or are gone, and options that do not exist."""

from __future__ import annotations

import gc
import logging
import math
import weakref
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pykafka.handlers import Handler
from pykafka.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Metric
from pykafka.prometheus import KafkaCollector
from tests.support.collectors import BUCKETS, OPEN, SENT, Closed, some, values
from tests.support.some_metrics import HasSome, metric

# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"names": "jxm"}, ValueError, "nearest is 'jmx'"),
        ({"names": "bas"}, ValueError, "nearest is 'base'"),
        ({"metrics": "records-lag-max"}, ValueError, "a list of names"),
        ({"metrics": ["record-lag-max"]}, ValueError, "no metric 'record-lag-max'; the nearest is 'records-lag-max'"),
        ({"topic_labels": False, "partition_labels": True}, ValueError, "needs topic_labels=True"),
        ({"write_interval_ms": 1}, ValueError, "at least 100"),
        ({"partitions_labels": True}, TypeError, "partitions_labels"),
    ],
    ids=str,
)
def test_what_does_not_exist_is_refused_by_name(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        KafkaCollector(**options)


def test_a_thing_without_metrics_is_refused() -> None:
    with pytest.raises(TypeError, match="has no metrics"):
        KafkaCollector(object())  # type: ignore[arg-type]


def test_a_second_collector_of_a_registry_is_refused() -> None:
    registry = CollectorRegistry()
    KafkaCollector(registry=registry)
    KafkaCollector(registry=registry, names="jmx")
    with pytest.raises(ValueError, match="add\\(client\\) to that one"):
        KafkaCollector(registry=registry)


def test_registering_asks_no_client() -> None:
    def read() -> list[Metric]:
        raise AssertionError("nothing was scraped")

    client = HasSome(read=read)
    collector = KafkaCollector(client)
    CollectorRegistry(auto_describe=True).register(collector)


# -- clients -----------------------------------------------------------------------------------------------------------


def test_clients_with_one_id_are_one_series() -> None:
    """Prometheus refuses a second sample with the same labels."""
    clients = HasSome(*some(3, 1)), HasSome(*some(4, 2)), HasSome(*some(5, 3, client_id="other"))
    collector = KafkaCollector(*clients)
    found = {
        (one.name, one.labels.get("client_id")): one.value for family in collector.collect() for one in family.samples
    }
    assert found[SENT, "c"] == 7
    assert found[OPEN, "c"] == 3
    assert found[SENT, "other"] == 5


@pytest.mark.parametrize(
    ("name", "unit", "kind", "ones", "merged"),
    [
        ("request-latency-avg", "ms", GAUGE, (2000, 4000), 3),
        ("request-latency-max", "ms", GAUGE, (2000, 4000), 4),
        ("metadata-age", "s", GAUGE, (2, 4), 4),
        ("compression-rate", "ratio", GAUGE, (0.2, 0.4), 0.3),
        ("request-rate", "1/s", GAUGE, (2, 4), 6),
        ("request-latency-avg", "ms", GAUGE, (math.nan, 4000), 4),
        ("request-latency-max", "ms", GAUGE, (math.nan, 4000), 4),
        ("request-total", "", COUNTER, (2, 4), 6),
    ],
)
def test_how_values_become_one(name: str, unit: str, kind: str, ones: tuple[float, float], merged: float) -> None:
    clients = [HasSome(metric("producer-metrics", name, value, kind, unit)) for value in ones]
    for order in (clients, clients[::-1]):
        found = [value for series, value in values(KafkaCollector(*order)).items() if "producer" in series]
        assert found == [pytest.approx(merged)]


def test_histograms_of_clients_are_added() -> None:
    clients = [HasSome(metric("producer-metrics", "request-latency", 4, HISTOGRAM, "ms", BUCKETS)) for _ in range(2)]
    assert values(KafkaCollector(*clients))["kafka_client_producer_request_latency_seconds_count"] == 8


def test_a_client_that_raises_is_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def read() -> list[Metric]:
        if fails:
            raise RuntimeError("closed")
        return some(4)

    fails = False
    failing, other = HasSome(read=read), HasSome(*some(3))
    collector = KafkaCollector(failing, other)
    assert values(collector)[SENT] == 7
    fails = True
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            found = values(collector)
    # A total that fell would be a restart to Prometheus; what is now is only what is known now.
    assert (found[SENT], found[OPEN]) == (7, 1)
    assert (found["kafka_client_collector_clients"], found["kafka_client_collector_failed_clients"]) == (1, 1)
    assert len(caplog.records) == 1
    fails = False
    assert values(collector)[OPEN] == 2


def test_metrics_that_are_none_break_no_scrape(caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        def metrics(self) -> Any:
            return 5

    odd, client = Odd(), HasSome(*some(3))
    assert values(KafkaCollector(odd, client))[SENT] == 3
    assert "gave no metrics" in caplog.text


def test_clients_are_held_weakly_and_totals_of_those_that_are_gone_stay() -> None:
    gone, here = HasSome(*some(4)), HasSome(*some(3))
    collector = KafkaCollector(gone, here)
    assert values(collector)[SENT] == 7
    reference = weakref.ref(gone)
    del gone
    gc.collect()
    assert reference() is None
    for _ in range(2):
        found = values(collector)
        assert (found[SENT], found[OPEN], found["kafka_client_collector_clients"]) == (7, 1, 1)


def test_the_totals_of_a_closed_client_stay(handler: Handler) -> None:
    client = Closed(handler, *some(4))
    collector = KafkaCollector(client)
    assert values(collector)[SENT] == 4
    client.some = some(6)
    client.cluster.close()
    client.some = []
    found = values(collector)
    assert found[SENT] == 6
    assert OPEN not in found


def test_a_total_that_begins_anew_goes_on() -> None:
    """A producer ends, and another one begins under its name, or none does."""
    client = HasSome(*some(4), metric("producer-metrics", "request-latency", 4, HISTOGRAM, "ms", BUCKETS))
    collector = KafkaCollector(client)
    count = "kafka_client_producer_request_latency_seconds_count"
    assert values(collector)[count] == 4
    client.some = some(1)
    for _ in range(2):
        found = values(collector)
        assert (found[SENT], found[count]) == (5, 4)
    client.some = []
    found = values(collector)
    assert (found[SENT], OPEN in found) == (5, False)
    client.some = some(2)
    assert values(collector)[SENT] == 6


def test_scrapes_at_a_time_count_nothing_twice(handler: Handler) -> None:
    """A scrape during another one's reading shows the figures of the reading before."""

    sent, seen = 0, list[float]()

    def read() -> list[Metric]:
        nonlocal sent
        sent += 1
        found = some(sent)
        handler.sleep(handler.random.uniform(0, 0.005))
        return found

    def scrape() -> None:
        for _ in range(30):
            seen.append(values(collector).get(SENT, 0))

    client = HasSome(read=read)
    collector = KafkaCollector(client)
    workers = [handler.spawn(scrape) for _ in range(4)]
    assert all(worker.join(20) for worker in workers)
    assert max(seen) <= sent


def test_names_that_the_application_uses_itself_cannot_collide() -> None:
    registry = CollectorRegistry()
    Gauge("orders", "of the application", registry=registry).set(1)
    client = HasSome(*some(4))
    KafkaCollector(client, registry=registry)
    assert b"orders 1.0" in generate_latest(registry)


def test_metrics_can_be_chosen() -> None:
    client = HasSome(*some(4))
    found = values(KafkaCollector(client, metrics=["connection-count"]))
    assert OPEN in found
    assert SENT not in found


@pytest.mark.parametrize("names", ["base", "jmx"])
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_odd_names_of_topics_and_clients(tmp_path: Path, names: str, shared: bool) -> None:
    odd = ['a"b\\c\nd', "\u00fc\u6f22", "\udc80", "", "\x00\x1b[31m", "a" * 5000, '{x="y"}', "le"]
    client = HasSome(
        *(metric("producer-topic-metrics", "record-send-total", 1, COUNTER, topic=topic) for topic in odd),
        *(metric("producer-metrics", "connection-count", 1, client_id=name) for name in odd),
    )
    registry = CollectorRegistry()
    collector = KafkaCollector(client, registry=registry, names=names, directory=tmp_path if shared else "")
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    topics = {sample.labels["topic"] for family in families for sample in family.samples if "topic" in sample.labels}
    assert topics == {topic.replace("\udc80", "?") for topic in odd}
    collector.close()
