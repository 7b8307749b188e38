"""A cluster of Spark for the job: a master and two workers whose Pythons are bare, and the archive that makes up for it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from examples.flights.job import ROOT, Job
from examples.flights.requirements import RequirementMissingError
from examples.flights.supervision import Interrupts, session
from pykafka.cli.packing import FOLDER, PackError, pack, target

SPARK_HOME = Path(pyspark.__file__).parent
#: How long master and workers may take to start (s).
START_TIMEOUT_S = 120.0
POLL_S = 0.1
#: What the driver needs of this package of examples.
_JOB = ("__init__.py", "flights/__init__.py", "flights/job.py", "flights/pipeline.py")


@dataclass
class Cluster:
    """A master and two workers, with a core each.

    :param directory: of everything that it writes
    :param environment: of its processes, and of `spark-submit`
    :param url: of the master
    :param workers: the processes of the workers
    """

    directory: Path
    environment: Mapping[str, str]
    url: str = ""
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def python_path(self) -> str:
        """Return the driver's path, relative to the directory, so that executors do not see the driver's folders."""
        return os.pathsep.join((f"./{FOLDER}", "./job"))

    def submission(self, job: Job) -> list[str]:
        """Return the command of the pipeline: what `kafka-tools spark-pack` prints, and settings for a small machine."""
        settings = {
            "spark.executorEnv.PYTHONPATH": f"./{FOLDER}",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "700m",
            "spark.ui.enabled": "false",
        }
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        archive = self.directory / "pykafka.tar.gz"
        program = str(self.directory / "job" / "examples" / "flights" / "pipeline.py")
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, "--archives", f"{archive}#{FOLDER}"]
        return [*command, *words, program, *job.arguments()]

    def kill_a_worker(self) -> str:
        """Kill a worker and its executor at once; return what was killed."""
        worker = self.workers[0]
        # Its executor is of its process group; the executor's Python ends with it.
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        return f"worker {worker.pid} with its executor"


@contextmanager
def standalone(job: Job, interrupts: Interrupts, say: Callable[[str], None]) -> Iterator[Cluster]:
    """Make the archive, and start a master and two workers, for the length of the block.

    :param job: whose directory of temporary files is used
    :param say: prints a line
    :raises RequirementMissingError: the archive cannot be made; Spark does not start
    """
    directory = job.work
    venv.create(directory / "bare", symlinks=True)
    python = directory / "bare" / "bin" / "python"
    try:
        made = pack(target(str(python)), directory / "pykafka.tar.gz")
    except PackError as error:
        raise RequirementMissingError(str(error)) from error
    say(
        f"archive: {made.nbytes / 1e6:.0f} MB ({', '.join(made.packages)}); the Pythons of driver and workers have no package"
    )
    with tarfile.open(made.path) as archive:
        archive.extractall(directory / FOLDER, filter="data")
    for name in _JOB:
        (directory / "job" / "examples" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "examples" / name, directory / "job" / "examples" / name)
    cluster = Cluster(directory, _environment(python, directory))
    with ExitStack() as running:

        def start(name: str, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
            log = directory / f"{name}.log"
            program = f"org.apache.spark.deploy.{arguments[0]}"
            command = [str(SPARK_HOME / "bin" / "spark-class"), program, "--host", "127.0.0.1", "--webui-port", "0"]
            with log.open("wb") as file:
                process = running.enter_context(
                    session(
                        interrupts,
                        [*command, *arguments[1:]],
                        environment={**cluster.environment, "SPARK_DAEMON_MEMORY": "256m"},
                        stdout=subprocess.DEVNULL,
                        stderr=file,
                    )
                )
            return process, log

        master, log = start("master", "master.Master", "--port", "0")
        cluster.url = _wait_for(master, log, r"Starting Spark master at (spark://\S+)")
        for name in ("worker1", "worker2"):
            size = ("--cores", "1", "--memory", "800m", "--work-dir", str(directory / name))
            process, log = start(name, "worker.Worker", *size, cluster.url)
            cluster.workers.append(process)
            _wait_for(process, log, r"(Successfully registered) with master")
        yield cluster


def _environment(python: Path, directory: Path) -> dict[str, str]:
    """Return an environment without a way to the packages of this process, or to this checkout."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "SPARK_CONF_DIR", "PYSPARK_DRIVER_PYTHON")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    ours = Path(sys.prefix) / "bin"
    return kept | {
        "PATH": os.pathsep.join(one for one in kept.get("PATH", os.defpath).split(os.pathsep) if Path(one) != ours),
        "PYSPARK_PYTHON": str(python),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(directory),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
        "TMPDIR": str(directory),
    }


def _wait_for(process: subprocess.Popen[str], log: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_TIMEOUT_S
    while (found := re.search(pattern, text := log.read_text())) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RequirementMissingError("Spark's cluster does not start:\n" + "\n".join(text.splitlines()[-5:]))
        time.sleep(POLL_S)
    return found[1]
