"""Metrics that clients push to real brokers (KIP-714), as OpenTelemetry's own classes read them there."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import ConfigResource, ConfigType, NewTopic
from pykafka.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Buckets, Metric, MetricName, Metrics
from pykafka.telemetry import sources
from pykafka.telemetry.names import PREFIX, STANDARD
from pykafka.telemetry.subscription import Subscription
from tests.support.features import KAFKA_VERSION
from tests.support.kafka_tools import runner
from tests.support.loops import Concurrency
from tests.support.telemetry import Push, TelemetryCluster
from tests.support.waiting import until
from tests.unit.telemetry.test_names import of_java

pytestmark = [pytest.mark.kafka, pytest.mark.needs("latest"), pytest.mark.on_asyncio]

INTERVAL_MS = 100


@pytest.fixture(scope="module")
def receiving() -> Iterator[TelemetryCluster]:
    """Yield two brokers that take metrics of clients, little at a time."""
    cluster = TelemetryCluster(KAFKA_VERSION, brokers=2, config={"telemetry.max.bytes": 30_000})
    with cluster:
        yield cluster


class Subscribed:
    """A client whose metrics brokers want.

    :param name: of the client and of the subscription
    """

    def __init__(
        self, cluster: TelemetryCluster, name: str, concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._monkeypatch = monkeypatch
        self._metrics: Callable[[], Any] = list
        self.name = name
        self._cluster = cluster
        self._concurrency = concurrency
        self._admin = KafkaClient(cluster.hosts, enable_metrics_push=False, **concurrency())

    def subscribe(self, metrics: str) -> None:
        """Subscribe to metrics of this client, and wait until all brokers know."""
        wanted = {"metrics": metrics, "interval.ms": INTERVAL_MS, "match": f"client_id={self.name}"}
        self._admin.admin.alter_configs({ConfigResource.client_metrics(self.name): wanted})
        # A client that asked a broker which does not know of it yet would ask again after five minutes.
        for id_, broker in self._admin.brokers.items():
            with KafkaClient(broker.address, enable_metrics_push=False, **self._concurrency()) as client:
                resource = ConfigResource.client_metrics(self.name)
                until(client.cluster.handler, partial(self._knows, client, resource, metrics), 20)
                assert id_ in client.brokers
        self._admin.cluster.handler.sleep(0.2)

    @staticmethod
    def _knows(client: KafkaClient, resource: ConfigResource, metrics: str) -> bool:
        found = client.admin.describe_configs(resource)[resource]
        return "metrics" in found and found["metrics"].value == metrics

    def client(self, metrics: Callable[[], Any], **more: Any) -> KafkaClient:
        """Return a client that has these metrics."""
        self._monkeypatch.setattr(sources, "read_own", self._read_own)
        self._metrics = metrics
        return KafkaClient(self._cluster.hosts, client_id=self.name, **self._concurrency(), **more)

    def _read_own(self, cluster: Any) -> list[Metric]:
        found = self._metrics() if cluster.client_id == self.name else []
        return list(found.values() if isinstance(found, Metrics) else found)

    @property
    def pushes(self) -> list[Push]:
        """The pushes so far."""
        return self._cluster.pushes(self.name)

    def close(self) -> None:
        """Remove the subscription."""
        resource = ConfigResource.client_metrics(self.name)
        self._admin.admin.alter_configs({resource: dict.fromkeys(("metrics", "interval.ms", "match"))})
        self._admin.close()


@pytest.fixture
def subscribed(
    receiving: TelemetryCluster, concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Subscribed]:
    made = Subscribed(receiving, f"client-{uuid.uuid4().hex[:8]}", concurrency, monkeypatch)
    yield made
    made.close()


def counted(step: int = 1) -> Callable[[], Metrics]:
    """Return the metrics of a client: a counter that grows, a gauge with tags and a histogram."""
    total = 0

    def read() -> Metrics:
        nonlocal total
        total += step
        client = ("client-id", "x")
        return Metrics(
            [
                Metric(MetricName("record-send-total", "producer-metrics", (client,)), total, COUNTER, "records", ""),
                Metric(
                    MetricName(
                        "records-lag", "consumer-fetch-manager-metrics", (client, ("partition", "0"), ("topic", "ü"))
                    ),
                    -2.5,
                    GAUGE,
                    "records",
                    "",
                ),
                Metric(
                    MetricName("wait", "producer-metrics", (client,)),
                    total,
                    HISTOGRAM,
                    "ms",
                    "",
                    Buckets((1.0, 10.0), (0, total, 0), total * 2.0),
                ),
            ]
        )

    return read


def test_names_and_values_arrive(subscribed: Subscribed) -> None:
    subscribed.subscribe("org.apache.kafka.")
    with subscribed.client(counted(3), client_rack="r1") as client:
        handler = client.cluster.handler
        client.register_metric(MetricName("orders-open", "my-shop", (("region", "eu"),)), lambda: 42, unit="orders")
        until(handler, lambda: len(subscribed.pushes) >= 3)
        instance = str(client.instance_id())
    pushes = subscribed.pushes
    assert {(push.instance, push.broker) for push in pushes} == {(instance, pushes[0].broker)}
    assert [push.terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    rows = {one.name.removeprefix(PREFIX): one for one in pushes[1].metrics}
    total, lag, wait = (
        rows["producer.record.send.total"],
        rows["consumer.fetch.manager.records.lag"],
        rows["producer.wait"],
    )
    assert (total.kind, total.value, total.tags, total.row["unit"]) == ("sum", 3.0, {}, "records")
    assert (total.row["monotonic"], total.row["temporality"]) == (True, 1)
    assert (lag.kind, lag.value, lag.tags) == ("gauge", -2.5, {"partition": "0", "topic": "ü"})
    assert (wait.kind, wait.value, wait.row["sum"]) == ("histogram", 3, 6.0)
    assert (wait.row["counts"], wait.row["bounds"], wait.row["temporality"]) == ([0, 3, 0], [1.0, 10.0], 1)
    assert (rows["my.shop.orders.open"].value, rows["my.shop.orders.open"].tags) == (42.0, {"region": "eu"})
    assert {tuple(one.labels.items()) for one in rows.values()} == {(("client_rack", "r1"),)}
    # Deltas follow each other without a gap, and are of now.
    spans = [(one.row["start"], one.row["time"]) for push in pushes for one in push.metrics if one.kind == "sum"]
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert abs(spans[-1][1] / 1e9 - time.time()) < 60
    # Each look at the metrics added three: one look was that of register_metric.
    assert [push.values("producer.record.send.total") for push in pushes] == [[6.0]] + [[3.0]] * (len(pushes) - 1)


@pytest.mark.later("threads", "greenlets")
def test_totals(subscribed: Subscribed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers of today ask for deltas alone, so the answer is changed here."""
    subscribed.subscribe("org.apache.kafka.producer.")
    made = Subscription.of

    def totals(*arguments: Any) -> Subscription:
        return made(*arguments)._replace(is_delta=False)

    monkeypatch.setattr(Subscription, "of", totals)
    with subscribed.client(counted()) as client:
        until(client.cluster.handler, lambda: len(subscribed.pushes) >= 3)
    pushes = subscribed.pushes
    assert [push.values("producer.record.send.total") for push in pushes] == [
        [float(number + 1)] for number in range(len(pushes))
    ]
    sums = [one for push in pushes for one in push.metrics if one.kind == "sum"]
    assert {one.row["temporality"] for one in sums} == {2}
    assert len({one.row["start"] for one in sums}) == 1


@pytest.mark.later("greenlets", "asyncio")
def test_standard_sets(subscribed: Subscribed) -> None:
    subscribed.subscribe("*")
    names = [name for kind in STANDARD for name in of_java(kind)]
    with subscribed.client(lambda: [Metric(name, 1.0, GAUGE, "", "") for name in dict.fromkeys(names)]) as client:
        until(client.cluster.handler, lambda: subscribed.pushes)
    arrived = {one.name for one in subscribed.pushes[0].metrics}
    assert arrived == {PREFIX + name for names in STANDARD.values() for name in names}


def test_a_subscription_that_changes_while_the_client_runs(subscribed: Subscribed) -> None:
    subscribed.subscribe("org.apache.kafka.producer.")
    with subscribed.client(counted()) as client:
        handler = client.cluster.handler
        until(handler, lambda: subscribed.pushes)
        subscribed.subscribe("org.apache.kafka.consumer.")
        until(handler, lambda: subscribed.pushes[-1].values("consumer.fetch.manager.records.lag"))
        assert not subscribed.pushes[-1].values("producer.record.send.total")
        assert {push.instance for push in subscribed.pushes} == {str(client.instance_id())}


@pytest.mark.later("greenlets", "asyncio")
def test_too_many_metrics_for_a_push(subscribed: Subscribed, caplog: pytest.LogCaptureFixture) -> None:
    subscribed.subscribe("*")
    group = "consumer-fetch-manager-metrics"
    names = [MetricName(f"records-lag-{os.urandom(20).hex()}", group, (("partition", str(i)),)) for i in range(1500)]
    metrics = [Metric(MetricName("records-lag-max", group), 7.0, GAUGE, "", "")]
    metrics += [Metric(name, 1.0, GAUGE, "", "") for name in names]
    with subscribed.client(lambda: metrics) as client:
        until(client.cluster.handler, lambda: len(subscribed.pushes) >= 2)
    assert 100 < len(subscribed.pushes[0].metrics) < 1500
    assert subscribed.pushes[0].values("consumer.fetch.manager.records.lag.max") == [7.0]
    assert caplog.text.count("as a push has room for 30000 bytes") == 1


@pytest.mark.later("threads", "asyncio")
def test_a_push_that_is_larger_than_the_broker_takes(subscribed: Subscribed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker refuses what the client took for small enough: TELEMETRY_TOO_LARGE."""
    subscribed.subscribe("*")
    made = Subscription.of
    monkeypatch.setattr(Subscription, "of", lambda *arguments: made(*arguments)._replace(max_bytes=60_000, codec=0))
    names = [MetricName(f"lag-{number}", "consumer-metrics", (("partition", "0"),)) for number in range(1000)]
    with subscribed.client(lambda: [Metric(name, 1.0, GAUGE, "", "") for name in names]) as client:
        until(client.cluster.handler, lambda: subscribed.pushes)
    assert 50 < len(subscribed.pushes[0].metrics) < 600


@pytest.mark.parametrize("how", ["paused", "killed"])
@pytest.mark.later("threads-paused", "greenlets-killed", "asyncio-killed")
def test_another_broker_takes_over(receiving: TelemetryCluster, subscribed: Subscribed, how: str) -> None:
    subscribed.subscribe("*")
    with subscribed.client(counted(), socket_timeout_ms=3000) as client:
        handler = client.cluster.handler
        until(handler, lambda: subscribed.pushes)
        first = subscribed.pushes[-1].broker
        (receiving.pause if how == "paused" else receiving.kill)(first)
        try:
            until(handler, lambda: subscribed.pushes[-1].broker != first, 60)
        finally:
            (receiving.resume if how == "paused" else receiving.start)(first)
        assert {push.instance for push in subscribed.pushes} == {str(client.instance_id())}
        # Nothing is lost on the way; a push whose answer did not come may count twice.
        sent = sum(value for push in subscribed.pushes for value in push.values("producer.record.send.total"))
        assert sent >= len(subscribed.pushes)


def test_producers_and_consumers_are_resources_of_their_own(subscribed: Subscribed) -> None:
    """Their metrics are the client's own, with nothing made up; they have the standard sets."""
    subscribed.subscribe("*")
    topic = subscribed.name
    with subscribed.client(list) as client:
        client.admin.create_topics(NewTopic(topic, 1, 1))
        producer = client.producer(transactional_id=topic)
        consumer = client.consumer(topic, group=topic, group_instance_id="i1", client_rack="r2")

        standard = {PREFIX + name for kind in ("producer", "consumer") for name in STANDARD[kind]}

        def arrived() -> bool:
            with producer.transaction():
                producer.produce(topic, b"value").get(10)
            consumer.poll(timeout=0.1)  # the call that joins
            consumer.commit()
            pushed = {one.name for push in subscribed.pushes for one in push.metrics}
            member = any("group_member_id" in one.labels for one in subscribed.pushes[-1].metrics)
            return standard <= pushed and member

        until(client.cluster.handler, lambda: subscribed.pushes)
        until(client.cluster.handler, arrived)
        last = subscribed.pushes[-1].metrics
        labels = {one.labels["client_component"]: one.labels for one in last}
        assert client.metrics().value("record-send-total", "producer-metrics") >= 1
    assert labels[f"{topic}-producer-1"]["transactional_id"] == topic
    member = labels[f"{topic}-consumer-1"]
    assert (member["group_id"], member["group_instance_id"], member["client_rack"]) == (topic, "i1", "r2")
    assert len(member["group_member_id"]) > 20


@pytest.mark.needs("share groups")
@pytest.mark.later("threads", "asyncio")
def test_share_consumers(subscribed: Subscribed) -> None:
    """Those have a standard set of their own."""
    subscribed.subscribe("*")
    topic = subscribed.name
    with subscribed.client(list) as client:
        client.admin.create_topics(NewTopic(topic, 1, 1))
        client.admin.alter_configs({ConfigResource.group(topic): {"share.auto.offset.reset": "earliest"}})
        producer = client.producer()
        consumer = client.share_consumer(topic, group=topic)

        def arrived() -> bool:
            producer.produce(topic, b"value").get(10)
            consumer.poll(timeout=0.1)
            consumer.commit()
            pushed = {one.name for push in subscribed.pushes for one in push.metrics}
            return {PREFIX + name for name in STANDARD["share consumer"]} <= pushed

        until(client.cluster.handler, arrived, 60)
        labels = {one.labels["client_component"]: one.labels for one in subscribed.pushes[-1].metrics}
        assert labels[f"{topic}-share-consumer-1"]["group_id"] == topic
        assert labels[f"{topic}-share-consumer-1"]["group_member_id"] == consumer.member_id


def test_kafka_tools(receiving: TelemetryCluster) -> None:
    run = runner("-b", receiving.hosts)
    name = f"lag-{uuid.uuid4().hex[:6]}"
    with KafkaClient(receiving.hosts, enable_metrics_push=False) as client:
        handler = client.cluster.handler

        def listed() -> list[Any]:
            return [row for row in json.loads(run("client-metrics", "list", "--json").stdout) if row["name"] == name]

        words = ["--metrics", "org.apache.kafka.consumer.", "-m", "org.apache.kafka.producer.", "--interval-ms", "1000"]
        assert "Nothing was changed" in run("client-metrics", "set", name, *words, "--dry-run").stdout
        assert listed() == []
        run(
            "client-metrics", "set", name, *words, "--match", "client_id=a.*", "--match", "client_software_name=pykafka"
        )
        until(handler, listed)
        assert listed() == [
            {
                "name": name,
                "metrics": ["org.apache.kafka.consumer.", "org.apache.kafka.producer."],
                "interval_ms": 1000,
                "match": ["client_id=a.*", "client_software_name=pykafka"],
            }
        ]
        shown = run("client-metrics", "set", name, "--all-metrics", "--match-all").stdout
        assert "(all)" in shown
        until(handler, lambda: listed()[0]["match"] == [])
        described = json.loads(run("client-metrics", "describe", name, "--json").stdout)
        assert described == [{"name": name, "metrics": ["*"], "interval_ms": 1000, "match": []}]
        assert client.admin.list_config_resources(ConfigType.CLIENT_METRICS)
        run("client-metrics", "delete", name, "--yes", "--dry-run")
        run("client-metrics", "delete", name, "--yes")
        until(handler, lambda: not listed())
    assert "there is no subscription" in run("client-metrics", "delete", name, "--yes", status=2).output
    assert "there is no subscription" in run("client-metrics", "describe", name, status=2).output
