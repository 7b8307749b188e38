"""Services with probes, as users run them: the probes answer over HTTP, and say what is wrong."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.programs import ROOT, Program, program
from tests.support.proxies import CuttingProxy
from tests.support.topics import create_topic

COUNT = 20


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def get(port: int, path: str) -> tuple[int, Any]:
    """Return status and JSON of a request; status 0 if nothing answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except OSError:
        return 0, None
    finally:
        connection.close()


def until(condition: Callable[[], object], running: Program, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, running.output
        assert running.process.poll() is None, running.output
        time.sleep(0.2)


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedCluster]:
    """Run a cluster, and name it to the programs."""
    with EmbeddedCluster(brokers=1, topics={"orders": 2}) as cluster:
        with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            for number in range(COUNT):
                producer.produce("orders", b"order %d" % number)
        monkeypatch.setenv("KAFKA", cluster.hosts)
        monkeypatch.setenv("TOPIC", "orders")
        yield cluster


def probes() -> dict[str, str]:
    """Return the path of each probe of the manifest."""
    manifest = (ROOT / "examples" / "health" / "deployment.yaml").read_text()
    assert '"examples.health.fastapi_app:app"' in manifest
    found = dict(re.findall(r"(\w+Probe):\n\s+httpGet: \{path: (\S+), port: http\}", manifest))
    assert sorted(found) == ["livenessProbe", "readinessProbe", "startupProbe"]
    return found


def test_the_probes_of_the_manifest(orders: EmbeddedCluster) -> None:
    port = free_port()
    with program("uvicorn", "--port", str(port), "examples.health.fastapi_app:app") as running:
        for name, path in probes().items():
            until(lambda path=path: get(port, path)[0] == 200, running)  # type: ignore[misc]
            status, body = get(port, path)
            assert (status, body["status"], body["problems"]) == (200, "ok", []), name
        until(lambda: get(port, "/")[1] == COUNT, running)
        (client,) = get(port, "/health/readyz")[1]["clients"]
        assert [one["lag"] for one in client["consumers"][0]["partitions"]] == [0, 0]


@pytest.mark.kafka
@pytest.mark.matrix
@pytest.mark.slow
def test_an_unreachable_broker_is_no_reason_to_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with KafkaCluster(KAFKA_VERSION) as cluster:
        with KafkaClient(cluster.hosts) as client:
            monkeypatch.setenv("TOPIC", str(create_topic(client).name))
        monkeypatch.setenv("KAFKA", cluster.hosts)
        with program("uvicorn", "--port", str(port), "examples.health.fastapi_app:app") as running:
            until(lambda: get(port, "/health/readyz")[0] == 200, running)
            cluster.stop(1)
            until(lambda: get(port, "/health/readyz")[0] == 503, running)
            status, body = get(port, "/health/livez")
            assert (status, body["status"]) == (200, "ok")
            assert "broker-unreachable" in {problem["kind"] for problem in body["problems"]}
            cluster.start(1)
            until(lambda: get(port, "/health/readyz")[0] == 200, running, 120)


#: {recipe: (its command line, the paths of its probes)}, with the port as {port}.
RECIPES = {
    "fastapi": (["uvicorn", "--port", "{port}", "examples.health.fastapi_app:app"], "/health"),
    "gunicorn": (["gunicorn", "--workers", "1", "--bind", "127.0.0.1:{port}", "examples.health.gunicorn_app:app"], ""),
    "celery": (
        [*("celery", "-A", "examples.health.celery_app", "worker", "--loglevel", "INFO"), "--pool", "threads"],
        "",
    ),
}


@pytest.fixture(params=RECIPES)
def recipe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Recipe]]:
    """Return a function that starts a recipe."""
    arguments, prefix = RECIPES[request.param]
    port = free_port()
    monkeypatch.setenv("PORT", str(port))
    monkeypatch.setenv("QUEUE", "memory://")
    with contextlib.ExitStack() as stack:

        def start() -> Recipe:
            running = stack.enter_context(program(*(argument.format(port=port) for argument in arguments)))
            return Recipe(request.param, running, port, prefix)

        yield start


class Recipe(NamedTuple):
    """A recipe that runs.

    :param prefix: of the paths of its probes
    """

    name: str
    running: Program
    port: int
    prefix: str

    def probe(self, path: str) -> tuple[int, list[str]]:
        """Return the status of a probe, and the kinds of problems."""
        status, body = get(self.port, self.prefix + path)
        return status, [problem["kind"] for problem in body["problems"]] if status else []


def test_a_recipe_starts_without_brokers(
    orders: EmbeddedCluster, recipe: Callable[[], Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart brings no broker: /livez is fine, and /readyz fails until they come."""
    with CuttingProxy(int(orders.hosts.split(",")[0].rsplit(":")[-1])) as proxy:
        proxy.refuse()
        monkeypatch.setenv("KAFKA", f"127.0.0.1:{proxy.port}")
        found = recipe()
        until(lambda: found.probe("/readyz")[0], found.running)
        assert found.probe("/readyz") == (503, ["starting"])
        assert found.probe("/livez") == (200, ["starting"])
        proxy.listen()
        until(lambda: found.probe("/readyz") == (200, []), found.running)
        assert found.probe("/livez") == (200, [])


def test_a_recipe_whose_consumer_has_ended_is_restarted(orders: EmbeddedCluster, recipe: Callable[[], Recipe]) -> None:
    found = recipe()
    until(lambda: found.probe("/readyz") == (200, []), found.running)
    with KafkaClient(orders.hosts) as client, client.producer() as producer:
        producer.produce("orders", b"\xff is no text")
    if found.name == "gunicorn":  # its master starts another worker
        seen: list[str] = []

        def has_begun_again() -> bool:
            seen.append(json.dumps(get(found.port, "/livez")[1]))
            return found.running.output.count("Booting worker") >= 2

        until(has_begun_again, found.running)
        assert not any("is no text" in body for body in seen)
        assert "UnicodeDecodeError" in found.running.output
        return
    until(lambda: found.probe("/livez") == (503, ["intake-ended"]), found.running)
    assert found.probe("/readyz") == (503, ["intake-ended"])
    body = get(found.port, f"{found.prefix}/livez")[1]
    assert "UnicodeDecodeError" in body["problems"][0]["text"]
    assert "is no text" not in json.dumps(body)  # of the record: a probe answers anybody


@pytest.mark.parametrize("kind", ["gthread", "gevent"])
def test_gunicorn_with_consumers_in_workers(orders: EmbeddedCluster, kind: str) -> None:
    port = free_port()
    arguments = ["--workers", "2", "--worker-class", kind, "--bind", f"127.0.0.1:{port}"]
    with program("gunicorn", *arguments, "examples.health.gunicorn_app:app") as running:
        until(lambda: get(port, "/readyz")[0] == 200, running)
        until(lambda: get(port, "/")[1] or 0, running)
        assert get(port, "/livez")[0] == 200


def test_celery_with_a_consumer_in_its_main_process(orders: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("PORT", str(port))
    monkeypatch.setenv("QUEUE", os.environ.get("QUEUE", "memory://"))
    arguments = ["-A", "examples.health.celery_app", "worker", "--loglevel", "INFO", "--pool", "threads"]
    with program("celery", *arguments, "--concurrency", "2") as running:
        until(lambda: get(port, "/livez")[0] == 200, running)
        with socket.create_connection(("127.0.0.1", port)):  # it sends nothing: probes are answered, and the end comes
            until(lambda: running.output.count("handled order") >= COUNT, running)
            until(lambda: get(port, "/readyz")[0] == 200, running)
            running.signal(signal.SIGTERM)
            assert running.wait(30) == 0
            assert "Traceback" not in running.output
