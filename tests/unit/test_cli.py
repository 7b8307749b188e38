"""kafka-tools without a broker: what it takes, what it says when nothing answers, and what it does without its extra."""

from __future__ import annotations

import subprocess
import sys
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import pykafka
from pykafka.cli.app import tools
from pykafka.cli.moments import Moment, parse_moment
from pykafka.cli.releases import speaks_as
from pykafka.cli.statuses import Status, explain, status_of
from pykafka.exceptions import (
    KafkaException,
    NoBrokersAvailableError,
    ResponseTimeoutError,
    TlsError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pykafka.protocol.versions import RANGES_0_8_2, RANGES_0_9_0

ROOT = Path(__file__).resolve().parents[2]
#: What the reference documents, and what this one has besides.
COMMANDS = {
    *("consume_topic", "desc_topic", "print_managed_consumer_groups", "print_consumer_lag", "print_offsets"),
    *("print_topics", "reset_offsets", "create_topic", "delete_topic"),
    *("doctor", "completion"),
}
LISTINGS = [
    "desc_topic",
    "print_managed_consumer_groups",
    "print_consumer_lag",
    "print_offsets",
    "print_topics",
    "doctor",
]


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_all_commands_are_there() -> None:
    assert set(tools.commands) == COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(tools, [command, "--help"])
    assert result.exit_code == 0
    assert all(parameter.help for parameter in tools.commands[command].params if isinstance(parameter, click.Option))


@pytest.mark.parametrize("command", LISTINGS)
def test_every_listing_has_json(command: str) -> None:
    assert "--json" in {option for parameter in tools.commands[command].params for option in parameter.opts}


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("consume_topic", {"-l", "--limit", "-o", "--outfile", "-t", "--timeout", "--from"}),
        ("create_topic", {"-t", "--timeout", "-p", "-r", "-a", "-c", "--num_partitions", "--replication_factor"}),
        ("create_topic", {"--replica_assignment", "--config_entries"}),
        ("delete_topic", {"-t", "--timeout"}),
        ("print_consumer_lag", {"--watch"}),
    ],
)
def test_documented_options(command: str, options: set[str]) -> None:
    assert options <= {option for parameter in tools.commands[command].params for option in parameter.opts}


def test_documented_options_of_all() -> None:
    found = {option for parameter in tools.params for option in parameter.opts}
    assert {"-b", "--broker", "-o", "--broker_version", "--version"} <= found


def test_version() -> None:
    assert CliRunner().invoke(tools, ["--version"]).output == f"kafka-tools, version {pykafka.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(shell: str) -> None:
    result = CliRunner().invoke(tools, ["completion", shell])
    assert result.exit_code == 0
    assert "kafka-tools" in result.output
    assert "_KAFKA_TOOLS_COMPLETE" in result.output


# -- nothing answers


@pytest.mark.parametrize(
    "arguments",
    [
        ("print_topics",),
        ("print_consumer_lag", "topic", "group"),
        ("delete_topic", "topic"),
        ("-o", "0.8.2", "desc_topic", "t"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_nothing_listens(peers: dict[str, int], arguments: tuple[str, ...]) -> None:
    hosts = f"127.0.0.1:{peers['refused']}"
    result = CliRunner().invoke(tools, ["-b", hosts, *arguments])
    assert result.exit_code == Status.UNREACHABLE
    assert result.stdout == ""
    assert f"TCP {hosts}" in result.stderr  # the ledger
    assert f"kafka-tools doctor {hosts}" in result.stderr


@pytest.mark.parametrize("peer", ["hang_up", "http", "tls_broker"])
def test_what_answers_is_no_broker(peers: dict[str, int], peer: str) -> None:
    hosts = f"127.0.0.1:{peers[peer]}"
    result = CliRunner().invoke(tools, ["-b", hosts, "print_topics"])
    assert result.exit_code == Status.UNREACHABLE
    assert f"\n  ApiVersions {hosts}: " in result.stderr


@pytest.mark.parametrize("hosts", ["", "host:port", "[::1", "a:99999"])
def test_addresses_that_are_none(hosts: str) -> None:
    result = CliRunner().invoke(tools, ["-b", hosts, "print_topics"])
    assert result.exit_code == Status.USAGE
    assert "--broker" in result.stderr


def test_wrong_usage() -> None:
    for arguments in (["print_offsets", "topic", "12"], ["print_offsets", "topic", "noon"], ["doctor", "--create"]):
        assert CliRunner().invoke(tools, arguments).exit_code == Status.USAGE
    for arguments in (["--keyfile", "key", "print_topics"], ["print_consumer_lag", "t", "g", "--times", "2"]):
        assert CliRunner().invoke(tools, arguments).exit_code == Status.USAGE


# -- pieces


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("EARLIEST", Moment(-2)),
        ("latest", Moment(-1)),
        ("1970-01-01T00:00:01", Moment(1000)),
        ("1970-01-01T01:00:01+01:00", Moment(1000)),
        ("1970-01-02", Moment(86_400_000)),
        ("12", Moment(offset=12)),
        ("-3", Moment(offset=-3)),
    ],
)
def test_moments(text: str, moment: Moment) -> None:
    assert parse_moment(text) == moment


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoBrokersAvailableError("text"), Status.UNREACHABLE),
        (TlsError("text"), Status.UNREACHABLE),
        (ResponseTimeoutError("text"), Status.UNREACHABLE),
        (UnknownTopicOrPartition("text"), Status.NOT_FOUND),
        (UnsupportedVersion("text"), Status.UNSUPPORTED),
        (KafkaException("text"), Status.FAILED),
    ],
)
def test_statuses(error: KafkaException, status: Status) -> None:
    assert status_of(error) == status


def test_the_version_that_it_takes_is_named() -> None:
    said = explain(UnsupportedVersion("text", broker="host:1", api="CreateTopics"))
    assert "host:1" in said
    assert "Kafka 0.10.1" in said


def test_releases() -> None:
    assert speaks_as(RANGES_0_8_2) == "Kafka 0.8.2"
    assert speaks_as(RANGES_0_9_0) == "Kafka 0.9"
    assert speaks_as({18: (0, 3), 1: (0, 11)}) == "Kafka 2.3"
    assert speaks_as({18: (0, 4), 1: (4, 99)}) == "Kafka 4.1"


# -- the program


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra(missing: str) -> None:
    done = run_python(f"import sys; sys.modules[{missing!r}] = None; from pykafka.cli import main; main([])")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pip install 'pykafka[cli]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_only_the_command_line_imports_them() -> None:
    done = run_python(
        "import sys, pykafka.client, pykafka.producer, pykafka.simpleconsumer, pykafka.cli\n"
        "assert not {'click', 'rich'} & set(sys.modules)"
    )
    assert done.returncode == 0, done.stderr


def test_the_script_is_declared() -> None:
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg")
    scripts = dict(line.split(" = ") for line in parser["options.entry_points"]["console_scripts"].strip().splitlines())
    module, name = scripts["kafka-tools"].split(":")
    assert callable(getattr(import_module(module), name))


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "pykafka.cli", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("Usage: kafka-tools")
