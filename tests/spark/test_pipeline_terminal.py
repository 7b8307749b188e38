"""kafka-tools pipeline as a person has it: on a terminal, which sends Ctrl-C to all processes in its foreground."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_pipeline_programs import declare, go_on, landed, numbers
from tests.support.programs import TerminalProgram, watched
from tests.support.spark.standalone import spark_environment
from tests.support.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("quick_spark")]
TIMEOUT_S = 200.0
CTRL_C = "\x03"
SPARK_HAS_STARTED = 'log level to "'
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"


@pytest.fixture
def file(topics: Topics, tmp_path: Path) -> Path:
    """Return a declaration that lands 3000 numbers, 100 a second."""
    topic = topics.create(3)
    numbers(topics, topic, range(3000))
    return declare(tmp_path, topics, topic, top='trigger = "1 second"', options="maxOffsetsPerTrigger = 100")


def pipeline(*arguments: str) -> TerminalProgram:
    """Start the command on a terminal."""
    return TerminalProgram("pykafka.cli", "pipeline", *arguments, environment=spark_environment())


def interrupted(running: TerminalProgram) -> None:
    """Wait for the end, which must be a clean one: no stack, nothing left behind, and a cursor."""
    assert running.wait(TIMEOUT_S) == 130, running.output
    for sign in ("Traceback", "Exception", "ERROR", "KeyboardInterrupt"):
        assert sign not in running.output
    assert running.raw.rfind(SHOWN) >= running.raw.rfind(HIDDEN)
    until = time.monotonic() + 20
    while running.descendants() and time.monotonic() < until:
        time.sleep(0.1)  # where it ends at once, Spark's JVM follows by itself
    assert running.descendants() == []


def test_progress_and_ctrl_c(file: Path, tmp_path: Path) -> None:
    """One line that is redrawn; after Ctrl-C the micro-batch ends, and the last line says what was done."""
    with watched(pipeline(str(file))) as running:
        running.wait_for("numbers: waiting for the first micro-batch", TIMEOUT_S)
        running.wait_for("numbers: micro-batch 0, ", TIMEOUT_S)
        running.wait_for("numbers: micro-batch 2, ", TIMEOUT_S)
        running.press(CTRL_C)
        interrupted(running)
    done = landed(tmp_path)
    assert 0 < len(done) < 3000
    assert f"numbers: {len(done):,} records read in " in running.lines[-1]
    drawn = running.raw[running.raw.index(HIDDEN) : running.raw.rindex(SHOWN)]
    # Drawn over each other: one line in the end.
    assert drawn.count("\n") == 1
    assert "stopping after this micro-batch, Ctrl-C again stops at once" in drawn


@pytest.mark.matrix
@pytest.mark.parametrize("presses", [2, 3])
def test_more_than_one_ctrl_c(spark: SparkSession, file: Path, tmp_path: Path, presses: int) -> None:
    """The second stops the queries at once, and the third does not even wait for that; the checkpoint stays good."""
    with watched(pipeline(str(file))) as running:
        running.wait_for("numbers: micro-batch 1, ", TIMEOUT_S)
        for _ in range(presses):
            running.press(CTRL_C)
            time.sleep(0.05)
        interrupted(running)
    go_on(spark, file, "source.options.maxOffsetsPerTrigger=100000")
    assert landed(tmp_path) == list(range(3000))


@pytest.mark.parametrize(
    "arguments", [(), pytest.param(("--dry-run",), marks=pytest.mark.matrix)], ids=["run", "dry-run"]
)
@pytest.mark.parametrize(
    "pause", [pytest.param(0.0, marks=pytest.mark.matrix), 1.0, pytest.param(2.0, marks=pytest.mark.matrix)]
)
def test_ctrl_c_while_spark_starts(file: Path, arguments: tuple[str, ...], pause: float) -> None:
    """Whatever call to Spark's JVM it falls into."""
    with watched(pipeline(str(file), *arguments)) as running:
        running.wait_for(SPARK_HAS_STARTED, TIMEOUT_S)
        time.sleep(pause)
        running.press(CTRL_C)
        interrupted(running)


def test_ctrl_c_in_a_dry_run(file: Path) -> None:
    """The present check ends, and with it what it has made."""
    with watched(pipeline(str(file), "--dry-run")) as running:
        running.wait_for("right  [sink] path", TIMEOUT_S)
        running.press(CTRL_C)
        interrupted(running)
    assert "numbers: interrupted after " in running.lines[-1]
