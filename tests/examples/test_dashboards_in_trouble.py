"""The dashboards while a broker is killed, and while a consumer stalls: an operator sees both, and why.

The figures of all panels are written as a table to build/tests/dashboards.txt.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from pykafka import KafkaClient, KafkaConsumer, KafkaProducer
from pykafka.exceptions import KafkaException
from pykafka.prometheus import KafkaCollector
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.prometheus_server import ROOT, PrometheusServer, free_port, prometheus, served
from tests.support.promql import Query, queries
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.slow, pytest.mark.timeout(600)]

TABLE = ROOT / "build" / "tests" / "dashboards.txt"
VARIABLES = {"$__rate_interval": "15s", "$client_id": ".*", "$topic": ".*"}
TOPIC = "orders"
#: How long the calm before and between the troubles lasts, and the troubles (s): until rates and means of 30 s have changed.
CALM_S, AWAY_S, STALL_S = 20, 25, 20


class Span(NamedTuple):
    """A time, in s since 1970."""

    name: str
    begin: float
    end: float


class Load:
    """A producer, and a group of two consumers, each with a client of its own, on threads."""

    def __init__(self, hosts: str) -> None:
        self._stack = ExitStack()
        self._over = threading.Event()
        #: The second consumer polls while this is set.
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.clients = []
        for name in ("shop", "reader-1", "reader-2"):
            client = KafkaClient(hosts, client_id=name, stall_report_ms=2000, socket_timeout_ms=5000)
            self.clients.append(self._stack.enter_context(client))
        self.errors: list[BaseException] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Produce and consume during the block."""
        shop, one, other = self.clients
        producer = shop.producer(linger_ms=5)
        consumers = [client.consumer(TOPIC, group="readers", auto_commit=True) for client in (one, other)]
        always = threading.Event()
        always.set()
        workers = [
            threading.Thread(target=self._produce, args=(producer,)),
            threading.Thread(target=self._consume, args=(consumers[0], always)),
            threading.Thread(target=self._consume, args=(consumers[1], self.goes_on)),
        ]
        with self._stack:
            for worker in workers:
                worker.start()
            try:
                yield
            finally:
                self._over.set()
                self.goes_on.set()
                for worker in workers:
                    worker.join(30)
                with suppress(KafkaException):
                    producer.close()
                for consumer in consumers:
                    consumer.close()

    def _produce(self, producer: KafkaProducer[Any, Any]) -> None:
        number = 0
        while not self._over.wait(0.02):
            try:
                producer.produce(TOPIC, b"x" * 200, partition=number % 6)
            except KafkaException as error:
                self.errors.append(error)
            number += 1

    def _consume(self, consumer: KafkaConsumer[Any, Any], goes_on: threading.Event) -> None:
        while not self._over.is_set():
            goes_on.wait()
            try:
                consumer.poll(50, timeout=0.2)
            except KafkaException as error:
                self.errors.append(error)


@contextmanager
def spent(spans: list[Span], name: str, seconds: float) -> Iterator[None]:
    """Note the time of the block, which lasts at least so long."""
    begin = time.time()
    yield
    time.sleep(max(0.0, begin + seconds - time.time()))
    spans.append(Span(name, begin, time.time()))


def table(server: PrometheusServer, spans: list[Span]) -> str:
    """Return what each panel showed: at the end of calm times, and between which values in trouble."""
    lines = []
    for query in queries():
        text = of(query)
        columns: dict[str, list[str]] = {}
        for number, span in enumerate(spans):
            for labels, values in server.over_time(text, span.begin, span.end).items():
                cells = columns.setdefault(labels, ["-"] * len(spans))
                low, high = f"{min(values):.4g}", f"{max(values):.4g}"
                calm = span.name.startswith("calm")
                cells[number] = f"{values[-1]:.4g}" if calm else low if low == high else f"{low} to {high}"
        for labels, cells in sorted(columns.items()):
            lines.append([f"{query.place} [{query.legend}]", labels, *cells])
    lines.insert(0, ["panel", "series", *(span.name for span in spans)])
    widths = [max(len(line[number]) for line in lines) for number in range(len(lines[0]))]
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def of(query: Query) -> str:
    """Return the text of a query, with values instead of Grafana's variables."""
    text = query.text
    for variable, value in VARIABLES.items():
        text = text.replace(variable, value)
    return text


class Shown:
    """The figures of panels in the spans of a run."""

    def __init__(self, server: PrometheusServer, spans: list[Span]) -> None:
        self._server = server
        self._spans = {span.name: span for span in spans}
        self._queries = list(queries())

    def __call__(self, span: str, board: str, panel: str, series: str = "", legend: str = "") -> list[float]:
        """Return all values of the series of a panel whose labels contain a text."""
        (found,) = (
            query
            for query in self._queries
            if query.place == f"{board}.json, {panel}" and query.legend.endswith(legend)
        )
        _, begin, end = self._spans[span]
        values = self._server.over_time(of(found), begin, end)
        return [value for labels, some in values.items() if series in labels for value in some]

    def last(self, *about: str) -> float:
        """Return the last value; parameters as of a call."""
        return [0.0, *self(*about)][-1]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Run through both troubles; write the table."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    config = {"offsets.topic.replication.factor": 3, "offsets.topic.num.partitions": 4, "min.insync.replicas": 2}
    spans: list[Span] = []
    with KafkaCluster(KAFKA_VERSION, brokers=3, config=config) as cluster:
        with KafkaClient(cluster.hosts) as client:
            create_topic(client, partitions=6, replicas=3, name=TOPIC)
        load, registry = Load(cluster.hosts), CollectorRegistry()
        (folder / "shared").mkdir()
        collector = KafkaCollector(*load.clients, registry=registry, directory=folder / "shared")
        with served(registry) as target, load.running():
            with prometheus(folder, free_port(), {"shop": target}, every="3s") as server:
                server.await_scrapes(4)
                with spent(spans, "calm", CALM_S):
                    pass
                with spent(spans, "broker killed", AWAY_S):
                    cluster.kill(2)
                with spent(spans, "broker returns", CALM_S):
                    cluster.start(2)
                with spent(spans, "calm again", CALM_S):
                    pass
                with spent(spans, "consumer stalls", STALL_S):
                    load.goes_on.clear()
                with spent(spans, "consumer recovers", 10):
                    load.goes_on.set()
                with spent(spans, "calm at the end", CALM_S):
                    pass
                TABLE.parent.mkdir(parents=True, exist_ok=True)
                TABLE.write_text(f"{table(server, spans)}\nerrors of calls: {load.errors}\n")
                yield Shown(server, spans)
        collector.close()


#: The legend of what stands still now.
NOW = "{{client_id}} {{reason}}"
CALM = ("calm", "calm again", "calm at the end")


def test_a_killed_broker_shows(shown: Shown) -> None:
    away, reach = "broker killed", ("client", "Brokers within reach", "node_id=2")
    assert shown.last("calm", *reach) == 1
    assert 0 in shown(away, *reach)
    assert not any(0 in shown(calm, *reach) for calm in CALM)
    assert set(shown(away, "client", "Brokers within reach", "node_id=1")) == {1}
    assert max(shown(away, "client", "Failed connections", "node_id=2")) > 0
    # Until another leader is elected, messages to the partitions of that broker wait.
    assert shown.last("calm", "producer", "Oldest unacknowledged message") < 3
    assert max(shown(away, "producer", "Oldest unacknowledged message")) > 3
    assert max(shown(away, "producer", "Time to the acknowledgement", "", "99 of 100")) > 3
    # A message that was not on its way when the broker ended only waits.
    in_all, by_error = (shown(away, "producer", "Retries", "", legend) for legend in ("{{client_id}}", "{{error}}"))
    assert (max(in_all) > 0) == (max([0.0, *by_error]) > 0)
    for legend in ("{{client_id}}", "{{error}}"):
        assert sum(shown(away, "producer", "Records that were not delivered", "", legend)) == 0
    begun = "{{reason}}, begun in the interval"
    assert max(shown(away, "producer", "Partitions that stand still", "broker-unreachable", begun)) > 0
    assert shown.last("calm", "consumer", "Time that fetching has failed") < 1
    assert max(shown(away, "consumer", "Time that fetching has failed")) > 3
    for calm in CALM[1:]:
        assert shown.last(calm, "producer", "Partitions that stand still", "", NOW) == 0
        assert shown.last(calm, "producer", "Oldest unacknowledged message") < 3
        assert shown.last(calm, "consumer", "Time that fetching has failed") < 1


def test_a_consumer_that_stalls_shows(shown: Shown) -> None:
    stall = "consumer stalls"
    for calm in CALM:
        assert shown.last(calm, "consumer", "Lag in records") < 50
        assert shown.last(calm, "consumer", "Lag in seconds") < 2
        assert shown.last(calm, "consumer", "Time since the last poll", "reader-2") < 2
        assert shown.last(calm, "consumer", "Partitions that stand still", "not-polled", NOW) == 0
    lag = shown(stall, "consumer", "Lag in records")
    assert lag[-1] > lag[0] + 5
    assert max(shown(stall, "consumer", "Lag in seconds")) > STALL_S / 2
    assert max(shown(stall, "consumer", "Time since a partition advanced")) > STALL_S / 2
    assert max(shown(stall, "consumer", "Time since the last poll", "reader-2")) > STALL_S / 2
    about = "client_id=reader-2-consumer-1 reason=not-polled"
    assert max(shown(stall, "consumer", "Partitions that stand still", about, NOW)) == 3
    assert max(shown(stall, "consumer", "Time since the last poll", "reader-1")) < 2
    other = "client_id=reader-1-consumer-1 reason=not-polled"
    assert not any(shown(stall, "consumer", "Partitions that stand still", other, NOW))


def test_panels_that_say_nothing_of_either_stay_as_they_are(shown: Shown) -> None:
    for span in (*CALM, "broker killed", "consumer stalls"):
        assert set(shown(span, "client", "Processes", "", "processes")) == {1}
        assert set(shown(span, "client", "Held hubs and event loops")) == {0}
        assert set(shown(span, "consumer", "Assigned partitions")) == {3}
