"""kafka-tools without a broker: what it takes, what it says when nothing answers, and what it does without its extra."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

import pykafka
from pykafka.admin import MemberDescription
from pykafka.admin.group_types import classic_member
from pykafka.admin.releases import lacking
from pykafka.cli.app import tools
from pykafka.cli.data import time_text
from pykafka.cli.diagnosis import speaks_as
from pykafka.cli.exit_status import Status, explain, status_of
from pykafka.cli.offset_spec import OffsetSpec, parse_offset_spec
from pykafka.exceptions import (
    KafkaException,
    NoBrokersAvailableError,
    ResponseTimeoutError,
    TlsError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pykafka.protocol import wire
from pykafka.protocol.versions import RANGES_0_8_2, RANGES_0_9_0

ROOT = Path(__file__).resolve().parents[3]
#: What the reference documents, and what this one has besides.
COMMANDS = {
    *("consume_topic", "desc_topic", "print_managed_consumer_groups", "print_consumer_lag", "print_offsets"),
    *("print_topics", "reset_offsets", "create_topic", "delete_topic"),
    *(
        "doctor",
        "completion",
        "flight",
        "pipeline",
        "spark-pack",
        "consume",
        "produce",
        "migrate-offsets",
        "lag",
        "fake",
    ),
}
#: Those that have verbs; see test_nouns.py.
NOUNS = {
    *(
        "topics",
        "configs",
        "groups",
        "acls",
        "users",
        "quotas",
        "tokens",
        "transactions",
        "reassign",
        "elect",
        "log-dirs",
    ),
    *("quorum", "features", "cluster", "client-metrics"),
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
    assert set(tools.commands) == COMMANDS | NOUNS


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


@pytest.mark.parametrize("arguments", [[], ["-b", "127.0.0.1:1"]])
def test_without_a_command_it_shows_its_help(arguments: list[str]) -> None:
    # Status 0, on the standard output: old scripts look in that way whether it is installed.
    result = CliRunner().invoke(tools, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert all(command in result.stdout for command in COMMANDS)


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


@pytest.mark.parametrize("hosts", ["", "x:99999999", "a:1,,b:1"])
def test_addresses_of_zookeeper_that_are_none(hosts: str) -> None:
    result = CliRunner().invoke(tools, ["--zookeeper", hosts, "print_topics"])
    assert result.exit_code == Status.USAGE
    assert "--zookeeper" in result.stderr


def test_zookeeper_does_not_answer(peers: dict[str, int]) -> None:
    """The error does not name the default of --broker, which the command did not try."""
    hosts = f"127.0.0.1:{peers['refused']}"
    for command in ("print_topics", "doctor"):
        result = CliRunner().invoke(tools, ["--socket_timeout_ms", "500", "--zookeeper", hosts, command])
        assert result.exit_code == Status.UNREACHABLE
        assert f"ZooKeeper at {hosts}" in result.stderr
        assert "localhost:9092" not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("print_consumer_lag", "t", "g", "--watch", "nan"), "not a number of seconds"),
        (("print_consumer_lag", "t", "g", "--watch", "inf"), "not in the range"),
        (("print_consumer_lag", "t", "g\udcff"), "not UTF-8"),
        (("reset_offsets", "t", "g\udcff", "LATEST"), "not UTF-8"),
        (("create_topic", "t", "-a", '{"\u00b2": [1]}'), "does not give a partition its brokers"),
    ],
)
def test_values_that_cannot_be(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(tools, arguments)
    assert result.exit_code == Status.USAGE
    assert said in result.stderr


def test_wrong_usage() -> None:
    for arguments in (["print_offsets", "topic", "12"], ["print_offsets", "topic", "noon"], ["doctor", "--create"]):
        assert CliRunner().invoke(tools, arguments).exit_code == Status.USAGE
    for arguments in (["--keyfile", "key", "print_topics"], ["print_consumer_lag", "t", "g", "--times", "2"]):
        assert CliRunner().invoke(tools, arguments).exit_code == Status.USAGE


# -- pieces


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("EARLIEST", OffsetSpec(-2)),
        ("latest", OffsetSpec(-1)),
        ("1970-01-01T00:00:01", OffsetSpec(1000)),
        ("1970-01-01T01:00:01+01:00", OffsetSpec(1000)),
        ("1970-01-02", OffsetSpec(86_400_000)),
        ("1969-12-31T23:59:59.999", OffsetSpec(0)),  # -1 would be the end
        ("1950-01-01", OffsetSpec(0)),
        ("12", OffsetSpec(offset=12)),
        ("-3", OffsetSpec(offset=-3)),
    ],
)
def test_offset_specs(text: str, place: OffsetSpec) -> None:
    assert parse_offset_spec(text) == place


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (None, None),
        (-1, None),
        (1_001, "1970-01-01T00:00:01.001Z"),
        (253_402_300_800_000, "253402300800000"),  # the year 10000
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_times_of_messages(timestamp: int | None, text: str | None) -> None:
    assert time_text(timestamp) == text


@pytest.mark.parametrize("content", [b"", b"\0", b"\0\0\0\0\0\1\xff\xff", b"\0\0\0\0\0\1\0\1\xff\0\0\0\0"])
def test_members_that_are_no_consumers_do_no_harm(content: bytes) -> None:
    member = wire.DescribeGroupsResponse.Group.Member(
        member_id="m", client_id="c", client_host="h", member_metadata=content, member_assignment=content
    )
    assert classic_member(member, of_consumers=True) == MemberDescription("m", "c", "h")


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
    broker: Any = SimpleNamespace(address="host:1")
    said = explain(lacking(wire.CreateTopicsRequest, broker))
    assert "host:1" in said
    assert "Kafka 0.10.1" in said
    assert "--zookeeper" in said
    said = explain(UnsupportedVersion("a part of it needs Kafka 2.4", broker="host:1", api="CreateTopics"))
    assert "--zookeeper" not in said


def test_releases() -> None:
    assert speaks_as(RANGES_0_8_2) == "Kafka 0.8.2"
    assert speaks_as(RANGES_0_9_0) == "Kafka 0.9"
    # The highest versions that the tables of each release's own client have; 3.x with ZooKeeper.
    told = {
        "0.10.0": {0: 2, 1: 2, 2: 0, 8: 2, 9: 1, 11: 0, 16: 0},
        "0.10.1": {0: 2, 1: 3, 2: 1, 8: 2, 9: 1, 11: 1, 16: 0},
        "0.10.2": {0: 2, 1: 3, 2: 1, 8: 2, 9: 2, 11: 1, 16: 0},
        "0.11": {0: 3, 1: 5, 2: 2, 8: 3, 9: 3, 11: 2, 16: 1, 24: 0, 29: 0},
        "1.0": {0: 5, 1: 6, 2: 2, 8: 3, 9: 3, 11: 2, 16: 1, 24: 0, 29: 0, 35: 0},
        "1.1": {0: 5, 1: 7, 2: 2, 8: 3, 9: 3, 11: 2, 16: 1, 24: 0, 29: 0, 35: 0},
        "2.0": {0: 6, 1: 8, 2: 3, 8: 4, 9: 4, 11: 3, 16: 2, 24: 1, 29: 1, 35: 1},
        "2.1": {0: 7, 1: 10, 2: 4, 8: 6, 9: 5, 11: 3, 16: 2, 24: 1, 29: 1, 35: 1},
        "2.2": {0: 7, 1: 10, 2: 5, 8: 6, 9: 5, 11: 4, 16: 2, 24: 1, 29: 1, 35: 1},
        "2.3": {0: 7, 1: 11, 2: 5, 8: 7, 9: 5, 11: 5, 16: 2, 24: 1, 29: 1, 35: 1},
        "2.4": {0: 8, 1: 11, 2: 5, 8: 8, 9: 6, 11: 6, 16: 3, 24: 1, 29: 1, 35: 1},
        "2.5": {0: 8, 1: 11, 2: 5, 8: 8, 9: 7, 11: 7, 16: 3, 24: 1, 29: 2, 35: 1},
        "2.6": {0: 8, 1: 11, 2: 5, 8: 8, 9: 7, 11: 7, 16: 4, 24: 1, 29: 2, 35: 2},
        "2.7": {0: 8, 1: 12, 2: 5, 8: 8, 9: 7, 11: 7, 16: 4, 24: 2, 29: 2, 35: 2},
        "2.8": {0: 9, 1: 12, 2: 6, 8: 8, 9: 7, 11: 7, 16: 4, 24: 3, 29: 2, 35: 2},
        "3.0": {0: 9, 1: 12, 2: 7, 8: 8, 9: 8, 11: 7, 16: 4, 24: 3, 29: 2, 35: 2},
        "3.1": {0: 9, 1: 13, 2: 7, 8: 8, 9: 8, 11: 7, 16: 4, 24: 3, 29: 2, 35: 2},
        "3.2": {0: 9, 1: 13, 2: 7, 8: 8, 9: 8, 11: 9, 16: 4, 24: 3, 29: 2, 35: 3},
        "3.3": {0: 9, 1: 13, 2: 7, 4: 6, 8: 8, 9: 8, 11: 9, 16: 4, 24: 3, 29: 3, 35: 4},
        "3.4": {0: 9, 1: 13, 2: 7, 4: 7, 8: 8, 9: 8, 11: 9, 16: 4, 24: 3, 29: 3, 35: 4},
        "3.3 or 3.4": {0: 9, 1: 13, 2: 7, 8: 8, 9: 8, 11: 9, 16: 4, 24: 3, 29: 3, 35: 4},
        "3.5": {0: 9, 1: 15, 2: 8, 8: 8, 9: 8, 11: 9, 16: 4, 24: 3, 29: 3, 35: 4},
        "3.6": {0: 9, 1: 15, 2: 8, 8: 8, 9: 8, 11: 9, 16: 4, 24: 4, 29: 3, 35: 4},
        "3.7": {0: 10, 1: 16, 2: 8, 8: 9, 9: 9, 11: 9, 16: 4, 24: 4, 29: 3, 35: 4},
        "3.8": {0: 11, 1: 16, 2: 8, 8: 9, 9: 9, 11: 9, 16: 5, 24: 5, 29: 3, 35: 4},
        "3.9": {0: 11, 1: 17, 2: 9, 4: 7, 8: 9, 9: 9, 11: 9, 16: 5, 24: 5, 29: 3, 35: 4},
        "4.0": {0: 12, 1: 17, 2: 10, 8: 9, 9: 9, 11: 9, 16: 5, 24: 5, 29: 3, 35: 4},
        "4.1": {0: 13, 1: 18, 2: 10, 8: 9, 9: 9, 11: 9, 16: 5, 24: 5, 29: 3, 35: 4},
        "4.2": {0: 13, 1: 18, 2: 11, 8: 10, 9: 10, 11: 9, 16: 5, 24: 5, 29: 3, 35: 4},
        "4.3": {0: 13, 1: 18, 2: 11, 8: 10, 9: 10, 11: 9, 16: 5, 24: 5, 29: 3, 35: 5},
        "4.4 or later": {0: 13, 1: 18, 2: 11, 8: 10, 9: 10, 11: 9, 16: 5, 18: 5, 24: 5, 29: 3, 35: 5},
    }
    for release, versions in told.items():
        assert speaks_as({18: (0, 0), **{key: (0, last) for key, last in versions.items()}}) == f"Kafka {release}"


# -- the program


@pytest.mark.parametrize(("missing", "arguments"), [("click", []), ("rich", ["doctor"])])
def test_without_the_extra(missing: str, arguments: list[str]) -> None:
    done = run_python(f"import sys; sys.modules[{missing!r}] = None; from pykafka.cli import main; main({arguments})")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pip install click rich" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_only_the_command_line_imports_them() -> None:
    done = run_python(
        "import sys, pykafka.client, pykafka.producer, pykafka.compat.simple_consumer, pykafka.cli\n"
        "assert not {'click', 'rich'} & set(sys.modules)"
    )
    assert done.returncode == 0, done.stderr


def test_the_script_is_declared() -> None:
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg")
    scripts = dict(line.split(" = ") for line in parser["options.entry_points"]["console_scripts"].strip().splitlines())
    module, name = scripts["kafka-tools"].split(":")
    assert callable(getattr(import_module(module), name))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("--help",), ("completion", "bash")])
def test_a_disk_that_is_full(arguments: tuple[str, ...], unbuffered: str) -> None:
    command = [sys.executable, "-m", "pykafka.cli", *arguments]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=ROOT, env=env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, "kafka-tools: No space left on device\n")


@pytest.mark.parametrize("arguments", ["print_topics", "consume_topic t"])
def test_a_standard_output_that_is_closed(peers: dict[str, int], arguments: str) -> None:
    command = f"exec {sys.executable} -m pykafka.cli -b 127.0.0.1:{peers['refused']} {arguments} >&-"
    done = subprocess.run(command, shell=True, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == Status.UNREACHABLE, done.stderr
    assert "Traceback" not in done.stderr


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "pykafka.cli", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("Usage: kafka-tools")


#: What each command needs besides the options that say where the cluster is.
WORDS = {
    "consume": ["clicks"],
    "consume_topic": ["clicks"],
    "produce": ["clicks"],
    "desc_topic": ["clicks"],
    "migrate-offsets": ["billing", "--yes"],
    "print_managed_consumer_groups": [],
    "print_consumer_lag": ["clicks", "billing"],
    "print_offsets": ["clicks", "EARLIEST"],
    "print_topics": [],
    "reset_offsets": ["clicks", "billing", "EARLIEST"],
    "create_topic": ["clicks"],
    "delete_topic": ["clicks"],
    "doctor": [],
    "lag": [],
    "completion": ["bash"],
    "pipeline": ["--init"],
    # It asks no cluster either; a Python that is too old ends it before it makes anything.
    "spark-pack": ["--python=3.8"],
    "flight": ["missing.jsonl"],
    "fake": ["--brokers=0"],
}
NOWHERE = ["-b", "127.0.0.1:1", "--socket_timeout_ms", "500"]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_where_the_cluster_is_may_stand_anywhere(command: str) -> None:
    words = WORDS[command]
    places = [
        [*NOWHERE, command, *words],
        [command, *NOWHERE, *words],
        [command, *words, *NOWHERE],
        ["-b", "127.0.0.1:2", command, *words[:1], *NOWHERE, *words[1:]],  # the later one counts
    ]
    first, *others = [CliRunner().invoke(tools, place) for place in places]
    local = {"completion": 0, "flight": Status.USAGE, "fake": Status.USAGE, "pipeline": 0, "spark-pack": Status.FAILED}
    assert first.exit_code == local.get(command, Status.UNREACHABLE)
    assert command in local or "127.0.0.1:1" in first.output
    for other in others:
        assert other.exit_code == first.exit_code
        assert "127.0.0.1:2" not in other.output


def test_all_common_options_may_stand_behind_the_command(tmp_path: Path) -> None:
    """But for letters that mean something else there: -o of consume_topic is a file."""
    for command in COMMANDS:
        behind = {flag for param in tools.commands[command].params for flag in param.opts}
        common = {flag for param in tools.params for flag in param.opts} - {"--version", "--help"}
        assert common <= behind
    out = tmp_path / "out"
    found = CliRunner().invoke(tools, ["consume_topic", "clicks", *NOWHERE, "-o", str(out), "--broker_version", "0.9"])
    assert found.exit_code == Status.UNREACHABLE
    wrong = CliRunner().invoke(tools, ["print_topics", "--keyfile", "key.pem", "-b", "nowhere:70000"])
    assert (wrong.exit_code, "port" in wrong.output) == (2, True)
    wrong = CliRunner().invoke(tools, ["--keyfile", "key.pem", "print_topics"])
    assert (wrong.exit_code, "--keyfile needs --certfile" in wrong.output) == (2, True)
    right = CliRunner().invoke(tools, ["--keyfile", "key.pem", "print_topics", "--certfile", "no.pem", *NOWHERE])
    assert "--keyfile needs" not in right.output
