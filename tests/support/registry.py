"""A real schema registry on 127.0.0.1: Apicurio's, whose API of `/subjects` and `/schemas` is under `/apis/ccompat/v7`."""

from __future__ import annotations

import json
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.brokers.cluster import free_ports
from tests.brokers.jars import BrokerSetupError, cache_directory, locked, maven_archive
from tests.brokers.process import JavaProcess

COORDINATE = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"
START_S = 90


def unpacked() -> Path:
    """Return the jar that runs the registry; fetch and unpack it once.

    :raises BrokerSetupError: it cannot be fetched
    """
    archive = maven_archive(COORDINATE)
    target = cache_directory() / "apicurio-2.6.13"
    with locked(target.with_suffix(".lock")):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                with tarfile.open(archive) as tar:
                    tar.extractall(scratch, filter="data")
                Path(scratch).rename(target)
                Path(scratch).mkdir()  # which the end of the block removes
    (jar,) = target.rglob("*-runner.jar")
    return jar


@contextmanager
def running_registry() -> Iterator[str]:
    """Yield the address of a new registry, with its state in memory; stop it at the end."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        process = JavaProcess(
            [
                *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"),
                *(f"-Dquarkus.http.port={port}", "-jar", str(unpacked())),
            ],
            log,
        )
        process.start()
        try:
            _wait(f"http://127.0.0.1:{port}/health/ready", process, log)
            yield f"http://127.0.0.1:{port}/apis/ccompat/v7"
        finally:
            process.kill()  # it has no state that could suffer


def _wait(url: str, process: JavaProcess, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urlopen(url, timeout=5):
                return
        except OSError as error:
            if process.pid is None or time.monotonic() > deadline:
                raise BrokerSetupError(f"the schema registry does not start: {log.read_text()[-2000:]}") from error
            time.sleep(0.1)


def register(
    url: str, subject: str, text: str, kind: str = "AVRO", references: list[dict[str, Any]] | None = None
) -> int:
    """Add a schema to a subject, without the client under test; return its id."""
    body = {"schema": text, "schemaType": kind, "references": references or []}
    request = Request(
        f"{url}/subjects/{subject}/versions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=30) as answer:
        return int(json.load(answer)["id"])
