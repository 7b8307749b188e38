"""kafka-tools pipeline before it starts Spark, and the sentences that it prints for errors of Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka.cli.app import tools
from pykafka.cli.cmd_pipeline import reason
from pykafka.cli.exit_status import Status
from pykafka.spark.pipeline.errors import SparkMissingError
from pykafka.spark.pipeline.example import EXAMPLE
from pykafka.spark.pipeline.launch import session
from tests.support.spark.declarations import MINIMAL, load


def test_init_prints_the_example() -> None:
    result = CliRunner().invoke(tools, ["pipeline", "--init"])
    assert (result.exit_code, result.stdout) == (0, EXAMPLE)


def test_script_is_a_file() -> None:
    result = CliRunner().invoke(tools, ["pipeline", "--script"])
    assert Path(result.stdout.strip()).name == "__main__.py"
    assert Path(result.stdout.strip()).exists()


def test_wrong_usage(file: Path) -> None:
    for arguments in ([], [str(file)], ["--dry-run"], [str(file.parent)]):
        assert CliRunner().invoke(tools, ["pipeline", *arguments]).exit_code == Status.USAGE


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_wrong_declaration(file: Path, options: list[str]) -> None:
    file.write_text(MINIMAL.replace("sink", "snik"))
    result = CliRunner().invoke(tools, ["pipeline", str(file), *options])
    assert result.exit_code == Status.USAGE
    assert result.stderr == (
        f"kafka-tools: {file} cannot be run:\n  sink: missing, but required\n  snik: not known; did you mean 'sink'?\n"
    )


def test_without_pyspark(file: Path) -> None:
    code = f"import sys; sys.modules['pyspark'] = None\nfrom pykafka.cli import main\nmain(['pipeline', {str(file)!r}])"
    file.write_text(MINIMAL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == Status.FAILED
    assert done.stderr == "kafka-tools: pyspark is not installed; pipelines need it: pip install pyspark pyarrow\n"


def without_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the Spark session that other tests may have left in this process."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)


@pytest.mark.parametrize(
    ("home", "words"),
    [("", "there is no `java` on the path"), ("/nowhere", "JAVA_HOME is /nowhere, and has no bin/java")],
)
def test_without_java(file: Path, monkeypatch: pytest.MonkeyPatch, home: str, words: str) -> None:
    without_session(monkeypatch)
    monkeypatch.setenv("PATH", str(file.parent))
    monkeypatch.setenv("JAVA_HOME", home)
    with pytest.raises(SparkMissingError, match=words):
        with session(load(file, MINIMAL)):
            pass


def test_spark_submit_has_a_master_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_session(monkeypatch)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(SparkMissingError, match="give --master to spark-submit itself"):
        with session(load(file, MINIMAL), "local[1]"):
            pass


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        (
            "[STREAM_FAILED] Query q\nTraceback:\npykafka.spark.errors.PollTimeoutError: no record of t-0 came\n\tat java",
            Status.FAILED,
            "no record of t-0 came",
        ),
        (
            "x\npykafka.exceptions.NoBrokersAvailableError: no broker of h:1 answers\n",
            Status.UNREACHABLE,
            "no broker of",
        ),
        ("Job aborted: [USER_RAISED_EXCEPTION] too late SQLSTATE: P0001\n\tat java", Status.FAILED, "too late"),
        ("\n[DIVIDE_BY_ZERO] Division by zero.\n\tat java", Status.FAILED, "[DIVIDE_BY_ZERO] Division by zero."),
    ],
)
def test_reasons(text: str, status: int, sentence: str) -> None:
    """Of an error of Spark that says more than anybody reads."""
    found = reason(PySparkException(text))
    assert found[0] == status
    assert found[1].startswith(sentence)


WORKER = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/python/pyspark/worker.py", line 3414, in main
    func, profiler, deserializer, serializer = read_command(pickleSer, infile)
ModuleNotFoundError: No module named 'pykafka'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Driver stacktrace:
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/python/pyspark/worker.py", line 3414, in main
OSError: another worker's
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (WORKER, "ModuleNotFoundError: No module named 'pykafka'"),
        (
            "[X] failed: Traceback (most recent call last):\n  File 'a', line 1\n    1 / 0\nKeyError: 'a'\n\n"
            "The above exception was the direct cause of the following exception:\n\n"
            "Traceback (most recent call last):\n  File 'b', line 2\npyspark.errors.PicklingError: cannot\n SQLSTATE: 1",
            "KeyError: 'a'",
        ),
        (
            "[X] failed: Traceback (most recent call last):\n  File 'a', line 1\nKeyError: 'a'\n\n"
            "During handling of the above exception, another exception occurred:\n\n"
            "Traceback (most recent call last):\n  File 'b', line 2\nMemoryError\n\tat java",
            "MemoryError",
        ),
        (
            "Job aborted\n\tat a\nCaused by: java.io.IOException: wrapped\n\tat b\n"
            "Caused by: java.net.UnknownHostException: nowhere\n\tat c",
            "java.net.UnknownHostException: nowhere",
        ),
        ("[DIVIDE_BY_ZERO] Division by zero.\n\tat java", None),
    ],
    ids=["worker", "cause", "handling", "java", "none"],
)
def test_why_a_worker_failed_is_told(text: str, cause: str | None) -> None:
    """The first line alone said that a task had failed, and never why."""
    lines = reason(PySparkException(text))[1].splitlines()
    assert lines[0] == text.splitlines()[0]
    assert [line.strip() for line in lines[1:]] == ([] if cause is None else [cause])
