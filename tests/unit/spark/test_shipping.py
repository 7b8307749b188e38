"""Copies for Spark's workers: what a worker's Python lacks is said with its host and path."""

from __future__ import annotations

import pickle
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructField, StructType

import pykafka
from pykafka import _version
from pykafka.cli import packing
from pykafka.cli.packing import spark_archives
from pykafka.spark import KafkaDataSource, pythons, ship
from pykafka.spark.arrival import FOLDER
from pykafka.spark.connect import ArrivingSource
from pykafka.spark.errors import PackageMissingError, ShippedVersionError

ROOT = Path(__file__).resolve().parents[3]
#: What a worker does with a task, in a Python without pythons.
WORKER = """
import pickle, sys
sys.path[:0] = sys.argv[1:]
import pyspark.serializers
try:
    pickle.load(sys.stdin.buffer)
except Exception as error:
    print(type(error).__module__, type(error).__qualname__, error)
"""


def dumps(what: object) -> bytes:
    """Return what Spark sends to a worker."""
    shipped: bytes = cloudpickle.dumps(what)  # type: ignore[no-untyped-call]
    return shipped


def in_bare_python(shipped: bytes, *path: str) -> str:
    """Return what unpickling raises in this Python without its pythons."""
    command = [sys.executable, "-I", "-S", "-c", WORKER, *path, *spark_archives()]
    return subprocess.run(command, input=shipped, capture_output=True, timeout=60, check=True).stdout.decode()


def test_worker_without_the_package() -> None:
    """Not only `No module named 'pykafka'`."""
    said = in_bare_python(dumps(KafkaDataSource({})))
    assert said.startswith(f"builtins ImportError the Python of Spark on {platform.node()}, {sys.executable},")
    assert f"does not have pykafka {pykafka.__version__}" in said
    assert "`kafka-tools spark-pack`" in said


def test_worker_without_the_other_packages() -> None:
    """This package alone is not enough, as with --py-files."""
    said = in_bare_python(dumps(KafkaDataSource({})), str(ROOT))
    assert said.startswith("pykafka.spark.errors PackageMissingError")
    assert f"{platform.node()}, {sys.executable}, lacks pyarrow, crc32c, cramjam" in said


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker compares before it decodes any state; both versions are named."""
    with monkeypatch.context() as driver:
        driver.setattr(_version, "__version__", "2.99")
        shipped = dumps(KafkaDataSource({}))
    with pytest.raises(
        ShippedVersionError, match=r"has pykafka 3\..* in .*pykafka, and the driver .* with 2\.99: make"
    ):
        pickle.loads(shipped)


def test_the_same_version() -> None:
    """The copy has the options; one by plain pickle as well."""
    source = KafkaDataSource({"subscribe": "clicks"})
    for shipped in (dumps(source), pickle.dumps(source)):
        copy = pickle.loads(shipped)
        assert type(copy) is KafkaDataSource
        assert copy.options == {"subscribe": "clicks"}


def test_archive_of_a_session(tmp_path: Path) -> None:
    """A class that is pickled by value finds this package in the archive's folder, in the directory of the process."""
    (tmp_path / packing.FOLDER).symlink_to(ROOT)
    program = WORKER.replace("pickle.load(sys.stdin.buffer)", "pickle.load(sys.stdin.buffer)({})")
    command = [sys.executable, "-I", "-S", "-c", program, *spark_archives()]
    for directory, said in ((tmp_path, "lacks pyarrow, crc32c"), (ROOT.parent, "does not have pykafka")):
        done = subprocess.run(
            command, input=dumps(ArrivingSource), cwd=directory, capture_output=True, timeout=60, check=True
        )
        assert said in done.stdout.decode(), done


def test_archive_that_is_not_there(tmp_path: Path) -> None:
    """Before anything is asked of the session."""
    with pytest.raises(PackageMissingError, match=r"there is no archive .*: make it with `kafka-tools spark-pack -o"):
        ship(None, tmp_path / "pykafka.tar.gz")  # type: ignore[arg-type]


def test_the_source_of_an_archive() -> None:
    """It hands all to the real one; and the folder has one name."""
    assert FOLDER == packing.FOLDER
    found = pickle.loads(dumps(ArrivingSource))
    source = found({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"})
    assert source.name() == "pykafka"
    assert source.schema() == KafkaDataSource(source.options).schema()
    assert type(source.streamReader(StructType([StructField("value", BinaryType())]))).__module__.startswith("pykafka.")


def test_planner_without_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's planner would end without a word: it imports pyarrow before it can report anything."""
    monkeypatch.setitem(pythons.NEEDED, "no_such_module", "no-such-package")
    pythons.need_all.cache_clear()
    try:
        with pytest.raises(PackageMissingError, match=rf"{sys.executable}, lacks no-such-package, which pykafka"):
            KafkaDataSource({})
    finally:
        pythons.need_all.cache_clear()
