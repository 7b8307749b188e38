"""kafka-tools fake: its line, its end, its command's status, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from pykafka import KafkaClient
from pykafka.handlers import ThreadingHandler

ROOT = Path(__file__).resolve().parents[3]
FAKE = (sys.executable, "-m", "pykafka.cli", "fake")
LIMIT = 30.0
handler = ThreadingHandler()


@contextmanager
def running(*arguments: str, stdin: int | None = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """Run the command; it is killed if the test fails."""
    process = subprocess.Popen(
        [*FAKE, *arguments], cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=LIMIT)


def ran(*arguments: str) -> tuple[int, str, str]:
    """Return the status and the output of a call that ends by itself."""
    done = subprocess.run(
        [*FAKE, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end; return the status and the errors."""
    return process.wait(LIMIT), process.communicate()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    arguments = ("--topic", "orders:2:3", "-c", "num.partitions=7", "--as-version", "2.8", "--ready-file", str(ready))
    with running(*arguments, "--control", "0", "--json") as process:
        addresses = json.loads(line_of(process))
        assert json.loads(ready.read_text()) == addresses
        with urlopen(addresses["control"] + "/has_topic?name=orders", timeout=LIMIT) as answer:
            assert json.load(answer) is True
        with KafkaClient(addresses["bootstrap"]) as client:
            described = client.admin.describe_topics(["orders"])["orders"]
            assert [len(one.replicas) for one in described.partitions] == [3, 3]
            assert len(client.topics["created"].partitions) == 7
        process.send_signal(number)
        assert ended(process) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_the_line_is_text_by_default() -> None:
    with running("--brokers", "1") as process:
        name, _, host = line_of(process).strip().partition("=")
        assert name == "bootstrap"
        with KafkaClient(host) as client:
            assert len(client.brokers) == 1
        process.terminate()
        assert ended(process) == (0, "")


def test_a_signal_ends_it_while_controls_and_clients_wait() -> None:
    with running("--control", "0", "--json") as process:
        control = json.loads(line_of(process))["control"].removeprefix("http://")
        host, _, port = control.partition(":")
        address = handler.resolve(host, int(port))[0]
        idle = [handler.connect(address, LIMIT) for _ in range(3)]
        for stream, path in zip(idle[1:], (b"hold?api=Fetch", b"await_met?id=1&timeout=9999"), strict=True):
            stream.send([b"POST /" + path + b" HTTP/1.1\r\n\r\n"], LIMIT)
        idle[1].recv_into(bytearray(4096), LIMIT)
        process.terminate()
        assert ended(process) == (0, "")
        for stream in idle:
            stream.close()


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 128 + signal.SIGTERM),
        ('test -n "$KAFKA_BOOTSTRAP_SERVERS" -a "$KAFKA_BOOTSTRAP_SERVERS" = "$PYKAFKA_BOOTSTRAP_SERVERS"', 0),
        ('test -z "$KAFKA_CONTROL_URL"', 0),
    ],
)
def test_a_command_runs_with_the_addresses_and_gives_its_status(script: str, status: int) -> None:
    assert ran("--brokers", "1", "--", "sh", "-c", script) == (status, "", "")


def test_a_command_has_the_control_port_and_the_default_signals() -> None:
    code = (
        "import os, signal, urllib.request as r; assert r.urlopen(os.environ['KAFKA_CONTROL_URL']).status == 200;"
        "assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())"
    )
    assert ran("--control", "0", sys.executable, "-c", code) == (0, "", "")


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [("no-such-program", 127, "No such file or directory"), (str(ROOT / "setup.cfg"), 126, "Permission denied")],
)
def test_a_command_that_cannot_be_run_is_named(command: str, status: int, text: str) -> None:
    assert ran("--", command) == (status, "", f"kafka-tools: cannot run {command}: {text}\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_to_the_command(number: signal.Signals) -> None:
    script = "trap 'exit 9' INT TERM; echo up; while :; do sleep 0.05; done"
    with running("--", "sh", "-c", script) as process:
        assert line_of(process) == "up\n"
        process.send_signal(number)
        assert ended(process) == (9, "")


def test_a_command_that_does_not_end_is_killed(tmp_path: Path) -> None:
    code = "from pykafka.cli import cmd_fake, main; cmd_fake._COMMAND_S = 1; main()"
    script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    command = [sys.executable, "-c", code, "fake", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert line_of(process) == "up\n"
        process.terminate()
        assert process.wait(LIMIT) == 128 + signal.SIGKILL


def test_a_port_in_use_is_named() -> None:
    with running("--brokers", "1", "--json") as process:
        port = json.loads(line_of(process))["bootstrap"].partition(":")[2]
        status, out, errors = ran("--port", port)
        assert (status, out) == (1, "")
        assert errors == f"kafka-tools: broker 1 cannot listen at 127.0.0.1:{port}: Address already in use\n"
        status, out, errors = ran("--control", port, "--", "true")
        assert (status, out) == (1, "")
        assert errors == f"kafka-tools: the control port cannot listen at 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--as-version", "0.7"], "as_version is '0.7', which is older than the oldest release that can be played"),
        (["--as-version", "new"], "as_version is 'new': give a release of Kafka as text"),
        (["--topic", "a:b"], "'a:b' is not NAME[:PARTITIONS[:REPLICAS]], such as orders:4"),
        (["--topic", "a:1:9"], "replication_factor is 9: there are 3 brokers"),
        (["--topic", "a:0"], "partitions is 0: a whole number from 1 on"),
        (["-c", "num.partitions"], "'num.partitions' is not NAME=VALUE"),
        (["-c", "num.partitions=0"], "num.partitions is '0': a whole number from 1"),
        (["-c", "auto.create.topics.enable=no"], "auto.create.topics.enable is 'no': true or false"),
        (["-c", "log.dirs=/tmp"], "fake brokers cannot be started with log.dirs; they know auto.create.topics.enable,"),
        (["--host", "0.0.0.0"], "--advertise names where they can"),
        (["--port", "65534"], "there are no 3 ports from 65534 on"),
        (["--brokers", "0"], "0 is not in the range 1<=x<=100"),
    ],
)
def test_wrong_options_are_refused(arguments: Sequence[str], text: str) -> None:
    status, out, errors = ran(*arguments)
    assert (status, out) == (2, "")
    assert text in errors


def test_brokers_tell_clients_another_host_than_they_listen_at() -> None:
    with running("--host", "0.0.0.0", "--advertise", "localhost", "--json") as process:
        hosts = json.loads(line_of(process))["bootstrap"]
        assert [host.partition(":")[0] for host in hosts.split(",")] == ["localhost"] * 3
        with KafkaClient(hosts) as client:
            assert {broker.host for broker in client.brokers.values()} == {"localhost"}
