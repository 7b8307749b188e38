"""Source and sink log in by Kerberos, on the driver and on the executors of a cluster, with tickets of Apache Kerby's KDC.

The package `gssapi` is used where it is installed, else a stand-in over the system's library (tests/support/gssapi_library.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pykafka import Gssapi
from tests.brokers import LATEST, KafkaCluster, Sasl
from tests.brokers.kerberos import SERVICE
from tests.support.kerberos import install_library
from tests.support.logins import log_in
from tests.support.spark.kerberos_job import ROWS
from tests.support.spark.standalone import StandaloneCluster, spark_environment
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(600)]
JOB_S = 400.0


def with_library(directory: Path) -> dict[str, str]:
    """Return the environment of Spark's processes, in whose Pythons `import gssapi` works."""
    environment = spark_environment()
    if find_spec("gssapi") is None:
        (directory / "library").mkdir()
        (directory / "library" / "gssapi.py").write_text("from tests.support.gssapi_library import *\n")
        environment["PYTHONPATH"] = os.pathsep.join([str(directory / "library"), environment["PYTHONPATH"]])
    return environment


@pytest.mark.usefixtures("quick_spark")
def test_a_job_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keytab is a file that Spark sends to the executors (`--files`); without it an executor says what it lacks."""
    environment = with_library(tmp_path)
    install_library(monkeypatch)
    with KafkaCluster(LATEST, sasl=Sasl(kerberos=True)) as kafka:
        kdc = kafka.kdc
        assert kdc is not None
        driver = tmp_path / "driver"
        driver.mkdir()
        for directory in (driver, tmp_path):
            shutil.copy(kdc.keytab, directory / "user.keytab")
        # No tickets of this machine's user.
        own = {"KRB5_CONFIG": str(kdc.config), "KRB5CCNAME": f"FILE:{tmp_path / 'none'}"}
        for name, value in own.items():
            monkeypatch.setenv(name, value)
        with log_in(
            kafka, "SASL_PLAINTEXT", Gssapi(SERVICE, principal=kdc.principal, keytab=str(kdc.keytab))
        ) as client:
            topic, copy = create_topic(client, 2).name, create_topic(client, 2).name
        with StandaloneCluster(tmp_path, environment | own) as cluster:
            job = [
                cluster.url,
                kafka.hosts_of("SASL_PLAINTEXT"),
                topic,
                copy,
                kdc.principal,
                str(tmp_path / "user.keytab"),
            ]
            done = subprocess.run(
                [sys.executable, "-m", "tests.support.spark.kerberos_job", *job, str(tmp_path)],
                cwd=driver,
                env=environment | own,
                capture_output=True,
                text=True,
                timeout=JOB_S,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            executors = cluster.executors()
    found = json.loads(
        next(line for line in done.stdout.splitlines() if line.startswith("FOUND ")).removeprefix("FOUND ")
    )
    assert found["rows"] == list(range(ROWS))
    assert executors == {"worker1", "worker2"}
    assert "from an executor on host" in found["refusal"]
    assert f"it finds no keys of {kdc.principal} in of-the-driver.keytab" in found["refusal"]
    assert "check that this process can read the file" in found["refusal"]
