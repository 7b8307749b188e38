"""SIGTERM in each phase of kafka-tools pipeline: it ends within its grace period, with a status and a last line."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_pipeline_programs import CONFIG, landed, numbers
from tests.support.programs import Program, program
from tests.support.spark.standalone import spark_environment
from tests.support.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.matrix, pytest.mark.timeout(600)]
pytestmark += [pytest.mark.usefixtures("quick_spark")]
START_S = 300.0
#: How long the end may take on a busy machine, with a grace period of 2 s (s): Spark itself takes some seconds to end.
END_S = 60.0
SPARK_HAS_STARTED = 'log level to "'


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the address of a listener that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """Return an address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def declare(directory: Path, brokers: str, topic: str, more: str) -> Path:
    """Write a declaration that lands a topic of numbers."""
    file = directory / "numbers.toml"
    file.write_text(
        f'checkpoint = "{directory}/checkpoint"\ntrigger = "30 seconds"\n'
        f'[source]\nbrokers = "{brokers}"\ntopic = "{topic}"\n'
        '[parse]\nformat = "json"\nschema = "n INT"\n'
        f'[sink]\nformat = "parquet"\npath = "{directory}/landed"\n[spark.config]\n{CONFIG}\n{more}'
    )
    return file


def pipeline(file: Path, *arguments: str) -> Any:
    """Start the command with a grace period of 2 s."""
    words = ["pipeline", str(file), "--grace", "2", *arguments]
    return program("pykafka.cli", *words, environment=spark_environment())


def terminated(running: Program) -> list[dict[str, Any]]:
    """Send SIGTERM and wait for the end; return the events, if it prints such."""
    running.signal(signal.SIGTERM)
    assert running.wait(END_S) == 143, running.output
    for sign in ("Traceback", "most recent call first"):
        assert sign not in running.output
    until = time.monotonic() + 20
    while running.descendants() and time.monotonic() < until:
        time.sleep(0.1)  # where it ends at once, Spark's JVM follows by itself
    assert running.descendants() == []
    return [json.loads(line) for line in running.lines if line.startswith("{")]


@pytest.mark.parametrize("form", ["human", "json"])
def test_before_spark_starts(tmp_path: Path, silent: str, form: str) -> None:
    """While brokers do not answer; the webhook and the scraper are there already. It was killed without a word."""
    file = declare(tmp_path, silent, "numbers", '[metrics]\naddress = "127.0.0.1:0"\n')
    with pipeline(file, "--progress", form) as running:
        if form == "json":
            running.wait_for('"started"', START_S)
        else:
            time.sleep(5)  # it says nothing before Spark starts
        events = terminated(running)
    assert "kafka-tools: ended at once by SIGTERM" in running.lines
    if form == "json":
        assert [event["event"] for event in events] == ["started", "ended"]
        assert events[-1]["status"] == "stopped"


def test_in_a_pause_with_a_webhook_that_hangs_and_a_slow_scraper(tmp_path: Path, silent: str, closed: str) -> None:
    more = f'[metrics]\naddress = "127.0.0.1:0"\n[alert]\nurl = "http://{silent}/s3cret"\ntimeout = "1 hour"\n'
    more += '[restart]\nattempts = 5\nbackoff = "100 days"\nmax_backoff = "200 days"\n'
    with pipeline(declare(tmp_path, closed, "numbers", more), "--progress", "json") as running:
        started = json.loads(running.wait_for('"started"', START_S))
        running.wait_for('"restarting"', START_S)
        host, _, port = started["metrics"].rpartition(":")
        with socket.create_connection((host, int(port)), 10) as scraper:
            scraper.sendall(b"GET /met")
            events = terminated(running)
    assert [event["event"] for event in events] == ["started", "failed", "restarting", "ended"]
    assert events[-1]["status"] == "stopped"
    assert "kafka-tools: an alert to 127.0.0.1 was given up: the program ends" in running.lines
    assert "s3cret" not in running.output


def test_while_a_restart_asks_brokers_that_hang(tmp_path: Path, silent: str) -> None:
    """The checks of a start within Spark do not hold the end up."""
    file = declare(tmp_path, silent, "numbers", "[restart]\nattempts = 5\n")
    with pipeline(file) as running:
        running.wait_for(SPARK_HAS_STARTED, START_S)
        time.sleep(8)  # in a start of Spark the program would end at once, which another test has
        terminated(running)
    # The check that was left behind may tell of its last attempt after that; on a busy machine Spark may still be starting.
    ends = {"numbers: stopped before it read anything", "kafka-tools: ended at once by SIGTERM"}
    assert ends & {*running.lines}, running.output


def test_in_a_micro_batch_and_between_two(topics: Topics, tmp_path: Path) -> None:
    """A micro-batch that takes longer than the grace period is given up; the next run does it."""
    topic = topics.create(3)
    numbers(topics, topic, range(300))
    (tmp_path / "slowly.py").write_text(
        "import time\nfrom pathlib import Path\n\n"
        f"def slowly(n: int) -> int:\n    if Path('{tmp_path}/slow').exists():\n"
        f"        Path('{tmp_path}/begun').touch()\n        time.sleep(600)\n    return n\n"
    )
    steps = '[udf]\nmodules = ["slowly"]\n[[transform]]\nsql = "SELECT slowly(n) AS n FROM records"\n'
    file = declare(tmp_path, topics.hosts, topic, steps)
    (tmp_path / "slow").touch()
    with pipeline(file, "--progress", "json") as running:
        until = time.monotonic() + START_S
        while not (tmp_path / "begun").exists() and time.monotonic() < until:
            time.sleep(0.1)
        events = terminated(running)
    assert [event["event"] for event in events] == ["started", "stopping", "ended"]
    assert landed(tmp_path) == []
    (tmp_path / "slow").unlink()
    with pipeline(file) as running:
        running.wait_for("numbers: micro-batch 0,", START_S)
        terminated(running)
    assert landed(tmp_path) == list(range(300))
    assert running.lines[-1].startswith("numbers: 300 records read in 1 micro-batches, to Parquet in ")
