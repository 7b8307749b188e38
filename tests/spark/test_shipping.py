"""Workers whose Python has nothing but its standard library, and what takes this package to them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykafka.cli.app import tools
from pykafka.cli.packing import FOLDER
from tests.brokers import KafkaCluster
from tests.support.spark.standalone import ROOT, SPARK_HOME, StandaloneCluster, bare_environment
from tests.support.spark.topics import Record, Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.usefixtures("quick_spark")]
JOB = ROOT / "tests" / "support" / "spark" / "shipped_job.py"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "450m",
    "spark.ui.enabled": "false",
    "spark.task.maxFailures": "1",
}
#: The same in a declaration.
SPARK_CONFIG = ", ".join(f'"{name}" = "{value}"' for name, value in SETTINGS.items())
RECORDS = 60


class Shipping:
    """A cluster whose Pythons are bare, and what there is to ship.

    :param directory: for everything
    :param hosts: of the brokers
    """

    def __init__(self, directory: Path, hosts: str, url: str) -> None:
        self.directory, self.url = directory, url
        self.python = directory / "bare" / "bin" / "python"
        self._hosts = hosts
        self._topics = Topics(hosts)
        self._topic = self._topics.create(2)
        self._topics.produce(self._topic, [Record(b"%d" % n, b"k%d" % n, n % 2) for n in range(RECORDS)])

    def declaration(self) -> str:
        """Return a pipeline from the topic to Parquet."""
        return (
            f'checkpoint = "{self.directory}/checkpoint"\n[source]\nbrokers = "{self._hosts}"\ntopic = "{self._topic}"\n'
            f'[sink]\nformat = "parquet"\npath = "{self.directory}/copied"\n[spark]\nconfig = {{{SPARK_CONFIG}}}\n'
        )

    def run(self, words: list[str], python_path: Path | str, how: str = "found") -> dict[str, Any]:
        """Submit the job; return what it found.

        :param words: of `spark-submit`
        :param python_path: of the driver
        :param how: the driver's way to the format: "found", "registered" or "both"
        """
        copy = self._topics.create(1)
        landing = self.directory / copy
        landing.mkdir()
        settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
        arguments = [self._hosts, self._topic, copy, str(landing), how]
        done = subprocess.run(
            [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, *settings, *words, str(JOB), *arguments],
            cwd=landing,
            env=bare_environment(self.python) | {"PYTHONPATH": str(python_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
        assert lines, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(lines[-1].removeprefix("FOUND "))
        if found.get("saved"):
            found["written"] = len(self._topics.read(copy, RECORDS))
        return found


@pytest.fixture(scope="module")
def shipping(kafka: KafkaCluster, quick_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipping]:
    """Yield a master and a worker that have no way to this checkout or its environment."""
    directory = tmp_path_factory.mktemp("shipping")
    venv.create(directory / "bare", symlinks=True)
    environment = bare_environment(directory / "bare" / "bin" / "python")
    with StandaloneCluster(directory, environment, workers=1) as cluster:
        yield Shipping(directory, kafka.hosts, cluster.url)


@pytest.fixture(scope="module")
def packed(shipping: Shipping) -> list[str]:
    """Make the archive as a user would; return the lines of the command's output."""
    archive = shipping.directory / "pykafka.tar.gz"
    words = ["spark-pack", "--python", str(shipping.python), "-o", str(archive)]
    done = CliRunner().invoke(tools, words)
    assert done.exit_code == 0, done.output
    assert "a bare Python has imported it" in done.stderr
    return done.stdout.splitlines()


def test_the_archive(shipping: Shipping, packed: list[str]) -> None:
    """The printed lines, as they are, take everything to the workers: batch, stream and sink, found and registered."""
    # Two commands, as they would be pasted: one makes the driver's folder, the other submits.
    submitting = next(number for number, line in enumerate(packed) if "spark-submit" in line)
    subprocess.run(["sh", "-c", "\n".join(packed[:submitting])], check=True, timeout=120)
    words = shlex.split(" ".join(line.rstrip("\\") for line in packed[submitting:]))
    path, program, master, _, *shipped, job = words
    assert (program, master, job) == ("spark-submit", "--master", "JOB.py")
    assert path.startswith("PYTHONPATH=")
    found = shipping.run(shipped, path.removeprefix("PYTHONPATH="), how="both")
    assert "error" not in found, found["error"]
    assert (found["count"], found["written"], found["landed"]) == (RECORDS, RECORDS, RECORDS)
    assert found["count when registered"] == RECORDS
    assert {one["python"] for one in found["workers"]} == {str(shipping.python)}
    # Each has it from beside itself, and not from the driver's folder.
    places = {Path(one["module"]).parents[3].name for one in found["workers"]}
    assert all("/app-" in one["module"] for one in found["workers"]), places


@pytest.mark.matrix
def test_python_files(shipping: Shipping, packed: list[str]) -> None:
    """--py-files takes the Python sources to workers that have the other packages: for batches of a registered format."""
    libraries, sources = shipping.directory / "libraries", shipping.directory / "sources.zip"
    with tarfile.open(shipping.directory / "pykafka.tar.gz") as archive:
        archive.extractall(libraries, filter="data")
    with zipfile.ZipFile(sources, "w") as made:
        for top in ("pykafka", "pyspark_pykafka"):
            for path in sorted((libraries / top).rglob("*.py")):
                made.write(path, path.relative_to(libraries))
    with_others = shipping.directory / "others"
    with_others.mkdir()
    for path in libraries.iterdir():
        if "pykafka" not in path.name:
            path.rename(with_others / path.name)
    shipped = ["--py-files", str(sources), "--conf", f"spark.executorEnv.PYTHONPATH={with_others}"]
    found = shipping.run(shipped, with_others, how="registered")
    assert (found["count"], found["written"]) == (RECORDS, RECORDS)
    # Spark starts the driver's process of a stream without those files, and looks formats up without them.
    assert "Failed to plan Python data source initialize source" in found["error"]
    assert f"{shipping.python}, does not have pykafka" in found["error"]
    found = shipping.run(shipped, with_others)
    assert "DATA_SOURCE_NOT_FOUND" in found["error"]


@pytest.mark.matrix
def test_python_files_alone(shipping: Shipping, packed: list[str]) -> None:
    """A bare Python lacks more than this package, and the error says what, where, and what to do."""
    sources = shipping.directory / "alone.zip"
    with zipfile.ZipFile(sources, "w") as made, tarfile.open(shipping.directory / "pykafka.tar.gz") as archive:
        for member in archive.getmembers():
            if member.isfile() and "pykafka/" in member.name and member.name.endswith(".py"):
                content = archive.extractfile(member)
                assert content is not None
                made.writestr(member.name, content.read())
    found = shipping.run(["--py-files", str(sources)], "", how="registered")
    assert "count" not in found
    assert f"{shipping.python}, lacks pyarrow, crc32c, cramjam, python-snappy, kazoo, which pykafka" in found["error"]
    assert "`kafka-tools spark-pack`" in found["error"]


@pytest.mark.matrix
def test_dry_run_names_what_executors_lack(shipping: Shipping, packed: list[str]) -> None:
    """Without the archive the dry run says which Python lacks what; with it, what the workers are."""
    file = shipping.directory / "copy.toml"
    file.write_text(shipping.declaration())
    # The driver has the package from a folder that executors, which work elsewhere, do not see; pyarrow alone they have.
    with tarfile.open(shipping.directory / "pykafka.tar.gz") as archive:
        archive.extractall(shipping.directory / "driver", filter="data")
        arrow = [one for one in archive.getmembers() if one.name.startswith("pyarrow")]
        archive.extractall(shipping.directory / "arrow", arrow, filter="data")
    environment = bare_environment(shipping.python) | {"PYTHONPATH": "./driver"}
    command = ["pykafka.cli", "pipeline", str(file), "--dry-run", "--master", shipping.url]

    def dry_run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", *command, *words],
            cwd=shipping.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    with_arrow = f'"spark.executorEnv.PYTHONPATH" = "{shipping.directory}/arrow"'
    status, output = dry_run("--set", f"spark.config={{{SPARK_CONFIG}, {with_arrow}}}")
    assert status == 1, output
    assert "WRONG  [spark]: " in output
    assert f"{shipping.python}, does not have pykafka" in " ".join(output.split()), output
    shipped = f'"spark.archives" = "{shipping.directory}/pykafka.tar.gz#{FOLDER}"'
    with_folder = f'"spark.executorEnv.PYTHONPATH" = "./{FOLDER}"'
    status, output = dry_run("--set", f"spark.config={{{SPARK_CONFIG}, {shipped}, {with_folder}}}")
    assert status == 0, output
    assert f"({shipping.python}), pykafka" in " ".join(output.split()), output
    assert f"in ./{FOLDER}" in " ".join(output.split()), output
