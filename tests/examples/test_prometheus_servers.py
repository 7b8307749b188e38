"""Prefork servers with several workers: each scrape shows the sum of all, whichever worker answers it."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pykafka import EmbeddedCluster
from pykafka.prometheus import KafkaCollector
from tests.brokers.process import hold
from tests.support.programs import Program, program, watched

MODULE = "tests.support.metrics_server"
SENT, OPEN = "kafka_client_producer_record_send_total", "kafka_client_producer_connections"
PROCESSES = "kafka_client_collector_processes"
WORKERS = 4
COUNT = 100
GUNICORN = {
    "threads": ("--worker-class", "gthread", "--threads", "4"),
    "gevent": ("--worker-class", "gevent"),
    "sync": ("--worker-class", "sync"),
    "preload": ("--worker-class", "gthread", "--threads", "4", "--preload"),
}
UWSGI = {
    "threads": ("--threads", "4"),
    "gevent": ("--gevent", "50", "--gevent-early-monkey-patch"),
    "one-thread": ("--enable-threads",),
}


class Answer(NamedTuple):
    """The answer of a worker.

    :param process: the worker's number
    :param seconds: how long it took
    """

    process: int
    body: str
    seconds: float

    @property
    def values(self) -> dict[str, float]:
        """Of a scrape: {name of a series: value}."""
        families = text_string_to_metric_families(self.body)
        return {sample.name: sample.value for family in families for sample in family.samples}


class Server(NamedTuple):
    """A prefork server.

    :param port: where it listens
    :param running: its program
    """

    port: int
    running: Program

    def ask(self, method: str = "GET", path: str = "/metrics") -> Answer:
        """Return the answer to one request, over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        begin = time.monotonic()
        try:
            connection.request(method, path, "event" if method == "POST" else None)
            response = connection.getresponse()
            body = response.read().decode()
            return Answer(int(response.headers.get("X-Process", 0)), body, time.monotonic() - begin)
        finally:
            connection.close()

    def await_values(self, fits: Callable[[dict[str, float]], bool]) -> Answer:
        """Return the first scrape that fits."""
        deadline = time.monotonic() + 30
        while True:
            answer = self.ask()
            if fits(answer.values):
                return answer
            assert time.monotonic() < deadline, f"{answer.values}\n{self.running.output}"
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _await_port(port: int, running: Program) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, running.output
            assert running.process.poll() is None, running.output
            time.sleep(0.1)


@contextmanager
def gunicorn(kind: str, environment: dict[str, str], application: str = f"{MODULE}:application") -> Iterator[Server]:
    """Run gunicorn with four workers during the block."""
    port = _free_port()
    arguments = ("--bind", f"127.0.0.1:{port}", "--workers", str(WORKERS), *GUNICORN[kind], application)
    with program("gunicorn", *arguments, environment=environment) as running:
        _await_port(port, running)
        yield Server(port, running)
        running.signal(signal.SIGTERM)
        running.wait(30)
        assert "Traceback" not in running.output, running.output


class _Uwsgi(Program):
    """The executable of uWSGI, which is no Python module."""

    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        return super()._start([str(Path(sys.executable).with_name("uwsgi")), *command[6:]], environment)


@contextmanager
def uwsgi(kind: str, directory: Path) -> Iterator[Server]:
    """Run uWSGI with four workers during the block."""
    port = _free_port()
    arguments: tuple[str, ...] = (
        "--http-socket",
        f"127.0.0.1:{port}",
        "--module",
        MODULE,
        "--master",
        "--processes",
        str(WORKERS),
    )
    # A worker that has just been started again can miss the signal to end; then uWSGI kills it after some seconds.
    arguments += ("--need-app", "--lazy-apps", "--die-on-term", "--worker-reload-mercy", "5", *UWSGI[kind])
    environment = {"DIRECTORY": str(directory), "VIRTUAL_ENV": sys.prefix, "PYTHONPATH": os.getcwd()}
    with watched(_Uwsgi("uwsgi", *arguments, environment=environment)) as running:
        _await_port(port, running)
        yield Server(port, running)
        running.signal(signal.SIGTERM)
        running.wait(30)
        assert "Traceback" not in running.output, running.output


def _check(server: Server) -> None:
    """Make all workers count, kill one and hold one: each scrape shows what all have counted."""
    server.await_values(lambda values: values.get(PROCESSES, 0) >= WORKERS)
    counting = [server.ask("POST").process for _ in range(COUNT)]
    server.await_values(lambda values: values[SENT] == COUNT)
    answers = [server.ask() for _ in range(20)]
    assert {answer.values[SENT] for answer in answers} == {COUNT}
    os.kill(counting[-1], signal.SIGKILL)
    deadline = time.monotonic() + 30
    while Path(f"/proc/{counting[-1]}").exists():  # until then it may take a connection
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for _ in range(10):
        assert server.ask().values[SENT] == COUNT
    server.await_values(lambda values: values[PROCESSES] >= WORKERS)  # the master has started another one
    held = server.ask().process
    hold(held)
    try:
        answers = [server.ask() for _ in range(10)]
        assert held not in {answer.process for answer in answers}
        assert {answer.values[SENT] for answer in answers} == {COUNT}
        assert max(answer.seconds for answer in answers) < 2
    finally:
        os.kill(held, signal.SIGCONT)


@pytest.mark.parametrize("kind", GUNICORN)
def test_gunicorn(kind: str, tmp_path: Path) -> None:
    with gunicorn(kind, {"DIRECTORY": str(tmp_path)}) as server:
        _check(server)
    _check_end(tmp_path)


@pytest.mark.parametrize("kind", ["threads", "gevent"])
def test_clients_in_gunicorn(kind: str, tmp_path: Path) -> None:
    """The example: real clients in the workers, whose last figures are there after the end of the server."""
    with EmbeddedCluster(topics={"events": 3}) as cluster:
        environment = {"KAFKA": cluster.hosts, "TOPIC": "events", "METRICS": str(tmp_path)}
        with gunicorn(kind, environment, "examples.worker_pools.gunicorn_metrics:app") as server:
            for number in range(COUNT):
                assert server.ask("POST", f"/events/{number % 7}").body.startswith("{")
            server.await_values(lambda values: values.get(SENT) == COUNT)
            for _ in range(10):
                assert server.ask().values[SENT] == COUNT
        _check_end(tmp_path)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", UWSGI)
def test_uwsgi(kind: str, tmp_path: Path) -> None:
    with uwsgi(kind, tmp_path) as server:
        _check(server)
    _check_end(tmp_path)


def _check_end(directory: Path) -> None:
    """A server that is started again goes on from the totals of the last one."""
    collector = KafkaCollector(directory=directory)
    found = {sample.name: sample.value for family in collector.collect() for sample in family.samples}
    assert found[SENT] == COUNT
    assert OPEN not in found
    collector.close()
