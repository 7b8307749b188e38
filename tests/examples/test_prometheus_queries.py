"""A real Prometheus scrapes the collector, and runs each query of the dashboards."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from pykafka.prometheus import KafkaCollector
from tests.support.all_metrics import full_client
from tests.support.prometheus_server import PrometheusServer, executable, free_port, prometheus, served
from tests.support.promql import queries

pytestmark = [pytest.mark.matrix]

#: What Grafana puts in the place of its variables.
VARIABLES = {"$__rate_interval": "10s", "$client_id": ".*", "$topic": ".*"}


@pytest.fixture
def scraping(tmp_path: Path) -> Iterator[PrometheusServer]:
    """Yield a Prometheus that has scraped clients by both kinds of names."""
    client = full_client()
    base, jmx = CollectorRegistry(), CollectorRegistry()
    (tmp_path / "shared").mkdir()
    collector = KafkaCollector(client, registry=base, directory=tmp_path / "shared")
    KafkaCollector(client, registry=jmx, names="jmx", partition_labels=True)
    with served(base) as one, served(jmx) as other:
        with prometheus(tmp_path, free_port(), {"base": one, "jmx": other}) as server:
            server.await_scrapes(4)
            yield server
    collector.close()


def test_each_query_of_the_dashboards_finds_series(scraping: PrometheusServer) -> None:
    nothing = []
    for query in queries():
        text = query.text
        for variable, value in VARIABLES.items():
            text = text.replace(variable, value)
        assert "$" not in text
        if not scraping.query(text):
            nothing.append(f"{query.place}: {text}")
    assert nothing == []


def test_the_series_of_the_jmx_exporter_are_there(scraping: PrometheusServer) -> None:
    lag = "kafka_consumer_consumer_fetch_manager_metrics_records_lag_max"
    found = scraping.query(f'topk(10, {lag}{{client_type="consumer", topic="orders", partition="1"}})')
    assert [series["metric"]["client_id"] for series in found] == ["c"]
    assert scraping.query("kafka_producer_producer_metrics_record_send_total")  # a gauge, as in the JMX exporter
    types = scraping.get("/api/v1/metadata")
    assert types["kafka_client_producer_record_send"][0]["type"] == "counter"
    assert types["kafka_client_producer_request_latency_avg_seconds"][0]["type"] == "gauge"


def test_promtool_finds_nothing_to_mend() -> None:
    """Names, units and types are as Prometheus wants them."""
    client, registry = full_client(), CollectorRegistry()
    KafkaCollector(client, registry=registry)
    with served(registry) as target:
        with urllib.request.urlopen(f"http://{target}/metrics", timeout=30) as answer:
            text = answer.read()
    done = subprocess.run([executable("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.stderr.decode(), done.returncode) == ("", 0)


def test_dashboards_are_json_that_grafana_imports() -> None:
    for path in (Path(__file__).resolve().parents[2] / "examples" / "dashboards").glob("*.json"):
        board = json.loads(path.read_text())
        assert board["uid"].startswith("pykafka-")
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
