"""Brokers that take metrics of clients (KIP-714), by a plugin in Java that writes each push as a line of JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.brokers import KafkaCluster, classpath
from tests.brokers.jars import BrokerSetupError
from tests.brokers.releases import release

_SOURCE = Path(__file__).with_name("Receiver.java")
_COMPILE_S = 100


class Sent(NamedTuple):
    """A metric that a broker has received; as of `Receiver.java`."""

    name: str
    kind: str
    value: float
    tags: dict[str, str]
    labels: dict[str, str]
    row: dict[str, Any]


class Push(NamedTuple):
    """A push that a broker has received."""

    broker: int
    client: str
    instance: str
    terminating: bool
    metrics: list[Sent]

    def values(self, name: str) -> list[float]:
        """Return the values of a metric, without "org.apache.kafka."."""
        return [one.value for one in self.metrics if one.name == f"org.apache.kafka.{name}"]


class TelemetryCluster(KafkaCluster):
    """Brokers with the plugin; parameters as of `KafkaCluster`."""

    def __init__(self, version: str, brokers: int = 1, **more: Any) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="pykafka-telemetry-"))
        try:
            make_plugin(version, self._scratch / "plugins")
        except BaseException:
            shutil.rmtree(self._scratch)
            raise
        config = {
            "metric.reporters": "pykafka.Receiver",
            "pykafka.telemetry.file": str(self._scratch / "pushes"),
            **more.pop("config", {}),
        }
        super().__init__(version, brokers, config=config, jars=self._scratch / "plugins", **more)

    def close(self) -> None:
        """End all processes, and remove what they wrote."""
        super().close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def pushes(self, client: str) -> list[Push]:
        """Return what a client has pushed so far.

        :param client: its client id
        """
        path = self._scratch / "pushes"
        text = path.read_text() if path.exists() else ""
        rows = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # the broker may be writing one
        errors = [row["error"] for row in rows if "error" in row]
        assert not errors, errors
        return [
            Push(
                row["broker"],
                row["client"],
                row["instance"],
                row["terminating"],
                [
                    Sent(one["name"], one["kind"], one["value"], one["tags"], one["labels"], one)
                    for one in row["metrics"]
                ],
            )
            for row in rows
            if row["client"] == client
        ]


def make_plugin(version: str, target: Path) -> None:
    """Compile the plugin against the jars of a release of Kafka, into a jar of its own.

    :param target: the directory of the jar
    :raises BrokerSetupError: there is no compiler
    """
    compiler = shutil.which("javac")
    if compiler is None:
        raise BrokerSetupError("there is no `javac` here: install a JDK 17, not only its runtime")
    target.mkdir()
    jars = classpath(release(version).coordinates)
    with tempfile.TemporaryDirectory() as classes:
        command = [compiler, "-nowarn", "-d", classes, "-cp", f"{jars}/*", str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
        if done.returncode:
            raise BrokerSetupError(f"the plugin cannot be compiled: {done.stderr}")
        with zipfile.ZipFile(target / "receiver.jar", "w") as archive:
            for path in Path(classes).rglob("*.class"):
                archive.write(path, path.relative_to(classes))
