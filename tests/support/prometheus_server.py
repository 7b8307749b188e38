"""A real Prometheus: Debian's package, unpacked under build/ without root."""

from __future__ import annotations

import fcntl
import http.server
import json
import math
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "prometheus"


def executable(name: str = "prometheus") -> str:
    """Return the path of a program of the package, which is fetched if the system does not have it.

    :raises AssertionError: it cannot be had; the error says why
    """
    found = shutil.which(name)
    if found is not None:
        return found
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "root" / "usr" / "bin" / name
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for command in (["apt-get", "download", "prometheus"], ["sh", "-c", "dpkg -x prometheus_*.deb root"]):
                done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=200, check=False)
                assert done.returncode == 0, f"Prometheus cannot be had here, so no query was run: {done.stderr}"
    return str(path)


class PrometheusServer:
    """A Prometheus that runs.

    :param port: where it listens
    """

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        """Return the answer of its HTTP API.

        :raises AssertionError: it refuses the question
        """
        try:
            with urllib.request.urlopen(
                f"{self._url}{path}?{urllib.parse.urlencode(parameters)}", timeout=30
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return the series that a query finds now."""
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=text)["result"]
        return found

    def over_time(self, text: str, begin: float, end: float) -> dict[str, list[float]]:
        """Return what a query has found each second of a time: {labels of a series: its values that are numbers}.

        :param begin: s since 1970, as `end`
        """
        answer = self.get("/api/v1/query_range", query=text, start=str(begin), end=str(end), step="1")
        found: dict[str, list[float]] = {}
        for series in answer["result"]:
            labels = " ".join(f"{name}={value}" for name, value in sorted(series["metric"].items()))
            values = [value for _, text in series["values"] if not math.isnan(value := float(text))]
            if values:
                found[labels] = values
        return found

    def await_scrapes(self, count: int) -> None:
        """Wait until it has scraped so often that rates are there."""
        deadline = time.monotonic() + 60
        while True:
            try:
                found = self.query("min(count_over_time(up[5m]) and up == 1)")
                if found and float(found[0]["value"][1]) >= count:
                    return
            except (OSError, AssertionError):  # it does not listen yet, or answers that it is not ready
                pass
            assert time.monotonic() < deadline, self.get("/api/v1/targets")
            time.sleep(0.2)


def free_port() -> int:
    """Return a port that is free at present."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def served(registry: CollectorRegistry) -> Iterator[str]:
    """Serve a registry during the block; yield host and port."""
    server: http.server.HTTPServer
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def prometheus(folder: Path, port: int, targets: dict[str, str], every: str = "1s") -> Iterator[PrometheusServer]:
    """Run a Prometheus during the block.

    :param folder: for its data
    :param port: where it listens
    :param targets: {job: "host:port"} of what it scrapes, at /metrics
    :param every: how often, and how long a scrape may take
    """
    jobs = [
        {"job_name": job, "scrape_interval": every, "scrape_timeout": every, "static_configs": [{"targets": [target]}]}
        for job, target in targets.items()
    ]
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": jobs}))  # JSON is YAML
    command = [executable(), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command.append(f"--web.listen-address=127.0.0.1:{port}")
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as running:
        try:
            yield PrometheusServer(port)
        finally:
            running.terminate()
            running.wait(30)
