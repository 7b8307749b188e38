"""kafka-tools produce and consume on the embedded cluster: a round trip, wrong lines, failures, signals, broken outputs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner, Result

from pykafka.cli.app import tools
from pykafka.cli.exit_status import Status
from pykafka.embedded import EmbeddedCluster

ROOT = Path(__file__).resolve().parents[3]
Run = Callable[..., Result]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, topics={"t": 3, "one": 1, "copy": 3}) as cluster:
        yield cluster


@pytest.fixture
def run(cluster: EmbeddedCluster) -> Run:
    def run(*arguments: str, given: bytes | str = b"", status: int = 0) -> Result:
        result = CliRunner().invoke(tools, ["-b", cluster.hosts, *arguments], input=given)
        assert result.exit_code == status, result.output
        return result

    return run


def messages(run: Run, topic: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("consume", topic, "--format", "json").stdout.splitlines()]


def values(run: Run, topic: str) -> list[str | None]:
    return sorted(one["value"] or "" for one in messages(run, topic))


@pytest.fixture
def start(cluster: EmbeddedCluster) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Yield a function that starts `kafka-tools produce` as a program."""
    started = []

    def start(*arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pykafka.cli", "-b", cluster.hosts, "produce", *arguments]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | {"PYTHONPATH": path}
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        process: subprocess.Popen[Any] = subprocess.Popen(command, cwd=ROOT, env=environment, **streams)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_lines(run: Run) -> None:
    result = run("produce", "one", given=b"a\n\nlast")
    assert result.stdout == "Delivered 3 messages (5 bytes) to one.\n"
    assert [one["value"] for one in messages(run, "one")] == ["a", "", "last"]
    assert run("consume", "one").stdout == "a\n\nlast\n"


def test_a_topic_that_the_broker_does_not_know_yet(run: Run, cluster: EmbeddedCluster) -> None:
    """Another broker has just created it."""
    cluster.set_topic_error("one", "UNKNOWN_TOPIC_OR_PARTITION")
    timer = threading.Timer(0.3, cluster.set_topic_error, ["one", "NO_ERROR"])
    timer.start()
    try:
        assert run("produce", "one", given=b"a\n").stdout == "Delivered 1 message (1 bytes) to one.\n"
    finally:
        timer.join()


def test_keys_and_tombstones(run: Run) -> None:
    lines = "k\ta\nk\tNIL\nNIL\tb\n"
    run("produce", "one", "-k", "\\t", "--null", "NIL", "-H", "from=test", "-H", "none", given=lines)
    found = messages(run, "one")
    assert [(one["key"], one["value"]) for one in found] == [("k", "a"), ("k", None), (None, "b")]
    assert found[0]["headers"] == [{"name": "from", "value": "test"}, {"name": "none", "value": None}]
    assert run("consume", "one", "-k", "\\t", "--null", "NIL").stdout == lines


def test_a_round_trip_in_json(run: Run) -> None:
    odd = {"key_base64": "/w==", "value_base64": "AP8=", "headers": [{"name": "h", "value_base64": "/w=="}]}
    lines: list[dict[str, Any]] = [
        {"key": "a", "value": "ä\n", "partition": 2, "timestamp": "2020-01-02T03:04:05.678Z"},
        {"key": None, "value": None, "partition": 0, "timestamp": "2020-01-02T03:04:05.678Z"},
        odd | {"partition": 1, "timestamp": "2021-01-02T03:04:05.000Z"},
    ]
    run("produce", "t", "--format", "json", given="".join(json.dumps(one) + "\n" for one in lines))
    written = run("consume", "t", "--format", "json").stdout
    run("produce", "copy", "--format", "json", "-z", "gzip", given=written)
    copies = [one | {"topic": "t"} for one in messages(run, "copy")]
    assert sorted(copies, key=str) == sorted(messages(run, "t"), key=str)
    found = {one["partition"]: one for one in messages(run, "copy")}
    assert {id_: one["timestamp"] for id_, one in found.items()} == {
        one["partition"]: one["timestamp"] for one in lines
    }
    assert found[2]["value"] == "ä\n"
    # Into a topic with fewer partitions.
    refused = run("produce", "one", "--format", "json", given=written, status=Status.FAILED)
    assert "there is no partition 2" in refused.stderr
    assert "Delivered 1 message " in refused.stdout
    run("produce", "one", "--format", "json", "--repartition", given=written)


def test_keys_choose_partitions_as_javas_producer_does(run: Run) -> None:
    run("produce", "t", "-k", "=", given="".join(f"key{n % 7}={n}\n" for n in range(70)))
    partitions: dict[str, set[int]] = {}
    for one in messages(run, "t"):
        partitions.setdefault(one["key"], set()).add(one["partition"])
    assert {len(ids) for ids in partitions.values()} == {1}
    assert len(set().union(*partitions.values())) > 1
    run("produce", "t", "-p", "2", given="here\n")
    assert [one["partition"] for one in messages(run, "t") if one["value"] == "here"] == [2]


def test_wrong_lines_are_named_and_the_others_delivered(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text('{"value": "1"}\n{"valeu": "2"}\n{"value": "3"}\nno\nno\n{"value": "' + "x" * 2000 + '"}\n')
    options = ("--format", "json", "--max-message-bytes", "100", "--json")
    checked = run("produce", "one", str(file), *options, "--dry-run", status=Status.FAILED)
    assert messages(run, "one") == []
    done = run("produce", "one", str(file), *options, status=Status.FAILED)
    for result, is_dry in ((checked, True), (done, False)):
        summary = json.loads(result.stdout)
        assert (summary["lines"], summary["dry_run"]) == (6, is_dry)
        assert "kafka-tools: line 2: it has an unknown field 'valeu'; did you mean 'value'?\n" in result.stderr
        assert "kafka-tools: lines 4 to 5: it is not JSON" in result.stderr
        assert "line 6: it has 2,000 bytes" in result.stderr
        assert (summary["messages"], summary["failed"]) == (2, 4)
    assert values(run, "one") == ["1", "3"]


def test_a_line_that_is_too_long(run: Run) -> None:
    result = run("produce", "one", given=b"a\n" + b"x" * 2_000_000 + b"\nb\n", status=Status.FAILED)
    assert "line 2: it is longer" in result.stderr
    assert "--max-message-bytes" in result.stderr
    assert values(run, "one") == ["a", "b"]


def test_what_the_broker_refuses_is_told_by_line(run: Run, cluster: EmbeddedCluster) -> None:
    cluster.inject_errors("Produce", *["INVALID_RECORD"] * 100)
    result = run("produce", "one", given="a\nb\nc\n", status=Status.FAILED)
    assert "kafka-tools: lines 1 to 3: " in result.stderr
    assert "topic=one" in result.stderr
    assert result.stdout == "Delivered 0 messages (0 bytes) to one; 3 lines failed.\n"


def test_a_topic_that_is_missing(run: Run) -> None:
    assert "no such topic" in run("produce", "missing", given="a\n", status=Status.NOT_FOUND).stderr
    assert "0 to 0" in run("produce", "one", "-p", "1", given="a\n", status=Status.NOT_FOUND).stderr


def test_an_empty_input(run: Run) -> None:
    assert run("produce", "one").stdout == "Delivered 0 messages (0 bytes) to one.\n"


# -- as a program


def give(stream: IO[bytes] | None, content: bytes) -> None:
    assert stream is not None
    stream.write(content)
    stream.flush()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.later("[2]")
def test_a_signal_ends_the_reading_and_what_was_read_is_delivered(
    run: Run, start: Callable[..., subprocess.Popen[bytes]], number: signal.Signals
) -> None:
    process = start("one")
    give(process.stdin, b"a\nb\n")
    deadline = 200
    while len(messages(run, "one")) < 2 and deadline:  # both were read, and it waits for more
        deadline -= 1
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (128 + number, b"")
    assert output == b"Interrupted after line 2. Delivered 2 messages (2 bytes) to one.\n"
    assert values(run, "one") == ["a", "b"]


def test_a_line_is_delivered_before_the_next_one_comes(run: Run, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start("one")
    give(process.stdin, b"a\n")
    assert run("consume", "one", "-l", "1", "--follow", "-t", "30000").stdout == "a\n"
    assert process.communicate(b"b\n", timeout=60)[0] == b"Delivered 2 messages (2 bytes) to one.\n"


def test_a_full_disk(run: Run, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    with Path("/dev/full").open("wb") as full:
        process = start("one", stdout=full)
        assert process.communicate(b"a\n", timeout=60)[1] == b"kafka-tools: No space left on device\n"
    assert process.returncode == 1
    assert values(run, "one") == ["a"]


def test_closed_streams(run: Run, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start("one")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    process.stdout = process.stderr = None
    process.communicate(b"a\nb\n", timeout=60)
    assert values(run, "one") == ["a", "b"]


def test_much_in_little_memory(run: Run, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """The input is larger than what may wait; both are read again."""
    file = tmp_path / "file"
    line = b"x" * 99_999 + b"\n"
    with file.open("wb") as out:
        for _ in range(1000):
            out.write(line)
    process = start("t", str(file), "-z", "zstd", "--json")
    output, errors = process.communicate(timeout=200)
    assert (process.returncode, errors) == (0, b"")
    assert json.loads(output)["bytes"] == 99_999_000
