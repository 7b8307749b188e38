"""The commands that docs/kafka-tools.md shows run as they stand there, in their order, against real brokers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka import KafkaClient
from pykafka.admin import NewTopic, OffsetSpec
from tests.brokers import KafkaCluster
from tests.integration.cli.test_nouns import guarded

__all__ = ["guarded"]

pytestmark = [pytest.mark.kafka, pytest.mark.needs("latest")]

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "kafka-tools.md"
ADDRESS = "kafka.example.com:9092"


def sections() -> dict[str, list[str]]:
    """Return {heading: the lines to type below it}, without blocks that a comment leaves out."""
    found: dict[str, list[str]] = {}
    heading, left_out = "", False
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("<!-- not run:"):
            assert re.match(r"<!-- not run: \w.* -->", line), line
            left_out = True
        elif line.startswith("    "):
            if not left_out:
                found.setdefault(heading, []).append(line.strip())
        elif line.strip():
            left_out = False
    return found


SECTIONS = sections()


def prepare(kafka: KafkaCluster, directory: Path, topics: bool) -> None:
    """Make what sections take for given: topics, a group and files. The section about topics creates its own."""
    with KafkaClient(hosts=kafka.hosts) as client:
        client.admin.delete_topics(["clicks", "copies"], raise_errors=False)
        if topics:
            client.admin.create_topics([NewTopic("clicks", 3, 1), NewTopic("copies", 1, 1)])
            with client.topics["clicks"].get_producer(linger_ms=1) as producer:
                for number in range(12):
                    producer.produce(b"%d" % number)
            client.admin.reset_group_offsets("billing", OffsetSpec.earliest(), topics="clicks")
    (directory / "lines.txt").write_text("key\tvalue\nkey\tNIL\n")
    (directory / "messages.json").write_text('{"key": "k", "value": "v", "headers": {"a": "1"}}\n')


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(600)
@pytest.mark.parametrize("heading", list(SECTIONS))
def test_commands_of_a_section(heading: str, guarded: KafkaCluster, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "kafka-tools"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pykafka.cli -b "{guarded.hosts}" "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": path, "ALICE": "secret"}
    lines = [line.replace(ADDRESS, guarded.hosts.split(",")[0]) for line in SECTIONS[heading]]
    prepare(guarded, tmp_path, topics=heading != "Topics")
    # Of a pipe, too, each part must succeed; `||` of a line stays what it is.
    done = subprocess.run(
        ["bash", "-eux", "-o", "pipefail", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr


def test_every_verb_is_in_the_table() -> None:
    from pykafka.cli.app import tools
    from tests.unit.cli.test_commands import NOUNS

    text = PAGE.read_text()
    for name, command in tools.commands.items():
        if name in NOUNS:
            (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
            assert set(command.commands) <= set(re.findall(r"`([\w-]+)`", row)), name  # type: ignore[attr-defined]
        else:
            assert re.search(rf"^\| `{name}\b", text, re.MULTILINE), name
