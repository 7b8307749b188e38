"""Spark's Pythons describe themselves, and an error helps where Spark does not find the format."""

from __future__ import annotations

import platform
import sys
from dataclasses import astuple, fields, replace

import pyarrow as pa
import pytest

import pykafka
from pykafka.cli.cmd_pipeline import reason
from pykafka.spark import KafkaDataSource, inspection
from pykafka.spark.inspection import COLUMNS, InspectionReader, Worker, lines, this_python
from pykafka.spark.optiontable import INSPECTION


def test_this_python() -> None:
    """It is what a user would look up by hand."""
    one = this_python()
    assert (one.host, one.python, one.release) == (platform.node(), sys.executable, platform.python_version())
    assert (one.pykafka, one.pyarrow) == (pykafka.__version__, pa.__version__)
    assert one.decoding in ("compiled", "pure")
    assert str(one).startswith(f"{one.host}: Python {one.release} ({sys.executable}), pykafka 3")


def test_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for the planner's answer, and as many as asked for."""
    monkeypatch.setattr(inspection, "HOLD_S", 0.0)
    reader = KafkaDataSource({INSPECTION: "3"}).reader(None)  # type: ignore[arg-type]
    assert isinstance(reader, InspectionReader)
    answers = [batch.to_pylist() for task in reader.partitions() for batch in reader.read(task)]
    row = dict(zip([one.name for one in fields(Worker)], astuple(this_python()), strict=True))
    assert answers == [[row]] * 4
    assert ", ".join(f"{name} string" for name in row) == COLUMNS


def test_workers_that_differ() -> None:
    """A line for each kind of worker, then one for each difference from the driver."""
    here = replace(this_python(), decoding="compiled", pyarrow="26.0.1")
    there = replace(here, host="b", decoding="pure", pyarrow="18.0.0")
    assert list(lines(here, [here, here, here])) == [f"worker on {here}"]
    assert list(lines(here, [here, here, there, there])) == [
        f"worker on {here}",
        f"worker on {there}",
        "the worker on b has pyarrow 18.0.0, and the driver 26.0.1",
        "the worker on b has pykafka pure, and the driver compiled",
    ]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "Spark asks python3"),
        (
            {"PYSPARK_PYTHON": "/no/python"},
            "Spark asks /no/python (there is no such program here), by PYSPARK_PYTHON: set",
        ),
        (
            {"PYSPARK_PYTHON": "/no/python", "PYSPARK_DRIVER_PYTHON": "ipython3.99"},
            "Spark asks ipython3.99 (there is no such program here), by PYSPARK_DRIVER_PYTHON: executors run that "
            "program, too; unset PYSPARK_DRIVER_PYTHON, and set PYSPARK_PYTHON to",
        ),
    ],
)
@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: pykafka. Make",
            "Spark does not find format('pykafka'). ",
        ),
        (
            "Job aborted: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): PythonException:\n"
            "Traceback (most recent call last):\n  x\nModuleNotFoundError: No module named 'pyarrow'\n",
            "the Python of 10.0.0.7 executor 1 lacks pyarrow, and perhaps this package. ",
        ),
        (
            'x failed\nCaused by: java.io.IOException: Cannot run program "ipython": error=2',
            "x failed\n  java.io.IOExc",
        ),
    ],
)
def test_a_python_without_the_format(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str, text: str, first: str
) -> None:
    """The sentence names the Python that Spark asked, and why it was that one."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    _, sentence = reason(Exception(text))
    assert sentence.startswith(first)
    assert said in sentence
