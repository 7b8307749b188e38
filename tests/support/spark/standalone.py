"""A cluster of Spark: a master and its workers, from the jars that PySpark brings, on 127.0.0.1."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).resolve().parents[3]
#: The variable that gives options to the JVMs of programs, as a shell would read them.
JVM_OPTIONS = "SPARK_SUBMIT_OPTS"
START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 30.0


def spark_environment() -> dict[str, str]:
    """Return the environment of programs that start Spark: of this Python, with this checkout."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_CONF_DIR")}
    return kept | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def bare_environment(python: Path) -> dict[str, str]:
    """Return the environment of a Spark whose Python has no packages: neither this one's nor this checkout.

    :param python: the Python of drivers and workers
    """
    kept = {name: value for name, value in spark_environment().items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    # Neither does the PATH lead to this environment, where Spark looks for `python3`.
    path = os.pathsep.join(one for one in kept["PATH"].split(os.pathsep) if Path(one) != Path(sys.prefix) / "bin")
    return kept | {"PATH": path, "PYSPARK_PYTHON": str(python), "SPARK_HOME": str(SPARK_HOME)}


class StandaloneCluster:
    """Workers with a core and 512 MB each.

    :param directory: for logs and what executors work with
    :param environment: of its processes and their executors; by default this checkout with this Python
    :param workers: their number
    """

    def __init__(self, directory: Path, environment: dict[str, str] | None = None, workers: int = 2) -> None:
        self._directory = directory
        self._workers = workers
        self._environment = spark_environment() if environment is None else environment
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> StandaloneCluster:
        try:
            log = self._start("master", "master.Master", "--port", "0")
            self.url = self._wait_for(log, r"Starting Spark master at (spark://\S+)")
            size = ("--cores", "1", "--memory", "512m")
            logs = [
                self._start(name, "worker.Worker", *size, "-d", str(self._directory / name), self.url)
                for name in (f"worker{number + 1}" for number in range(self._workers))
            ]
            for log in logs:
                self._wait_for(log, r"(Successfully registered) with master")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def executors(self) -> set[str]:
        """Return the names of the workers that have run executors."""
        return {path.parent.parent.name for path in self._directory.glob("worker*/app-*/*")}

    @property
    def pids(self) -> set[int]:
        """The ids of the processes of master and workers; the workers start executors."""
        return {process.pid for process in self._processes}

    def _start(self, name: str, program: str, *arguments: str) -> Path:
        log = self._directory / f"{name}.log"
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}"]
        with log.open("wb") as file:
            self._processes.append(
                subprocess.Popen(
                    [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                    # Executors inherit what each `java` reads by itself, and start quickly as well.
                    env=self._environment
                    | {"SPARK_DAEMON_MEMORY": "256m", "JDK_JAVA_OPTIONS": os.environ.get(JVM_OPTIONS, "")},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            )
        return log

    def _wait_for(self, log: Path, pattern: str) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while (found := re.search(pattern, log.read_text())) is None:
            assert all(process.poll() is None for process in self._processes), log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        return found[1]

    def _end(self) -> None:
        # The workers first: each ends its executors.
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_TIMEOUT_S)
