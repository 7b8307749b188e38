"""Completion of kafka-tools as a user has it: an interactive bash on a terminal, and the Tab key."""

from __future__ import annotations

import os
import pty
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 200.0
PROMPT = "ready> "

Complete = Callable[[str], str]


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Complete]:
    """Yield `complete(line)`, by one shell for all: what stands on the command line when Tab was pressed behind it."""
    tmp_path = tmp_path_factory.mktemp("completion")
    command = tmp_path / "bin" / "kafka-tools"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pykafka.cli "$@"\n')
    command.chmod(0o755)
    work = tmp_path / "work"
    (work / "more").mkdir(parents=True)
    for name in ("clicks.toml", "my file.toml", "more/views.toml"):
        (work / name).touch()
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": path, "TERM": "dumb"}
    terminal, inner = pty.openpty()
    bash = ["bash", "--norc", "--noprofile", "-i"]
    shell = subprocess.Popen(
        bash, cwd=work, env=environment, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
    )
    os.close(inner)

    def until(text: str) -> str:
        said, deadline = "", time.monotonic() + TIMEOUT_S
        while text not in said:
            assert select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0], f"no {text!r}: {said!r}"
            said += os.read(terminal, 65536).decode()
        return said

    def press_tab(line: str) -> str:
        # What stands on the line is then printed, in quotes; the shell never runs it.
        os.write(terminal, f"{line}\t\x01show '\x05'\n".encode())
        return until(f"<end>\r\n{PROMPT}").rpartition("<begin>")[2].partition("<end>")[0]

    settings = "bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; show() { echo \"<begin>$1<end>\"; }"
    try:
        os.write(terminal, f"{settings}; eval \"$(kafka-tools completion bash)\"; PS1='{PROMPT[:-2]}''> '\n".encode())
        until(f"\n{PROMPT}")
        yield press_tab
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kafka-tools pip", "kafka-tools pipeline "),
        ("kafka-tools pipeline --dry", "kafka-tools pipeline --dry-run "),
        ("kafka-tools pipeline cl", "kafka-tools pipeline clicks.toml "),
        ("kafka-tools pipeline --dry-run my", "kafka-tools pipeline --dry-run my\\ file.toml "),
        ("kafka-tools pipeline more/v", "kafka-tools pipeline more/views.toml "),
        ("kafka-tools -b localhost:9092 pipeline cl", "kafka-tools -b localhost:9092 pipeline clicks.toml "),
        ("kafka-tools -b a:1,b:2 pipe", "kafka-tools -b a:1,b:2 pipeline "),
        ("kafka-tools pipeline --set source.topic=x cl", "kafka-tools pipeline --set source.topic=x clicks.toml "),
        ("kafka-tools pipeline --set source.topic=x --on", "kafka-tools pipeline --set source.topic=x --once "),
        ("kafka-tools pipeline --master spark://h:1 cl", "kafka-tools pipeline --master spark://h:1 clicks.toml "),
        ("kafka-tools --cafile=cl", "kafka-tools --cafile=clicks.toml "),
        ("true && kafka-tools -b a:1 pipeline cl", "true && kafka-tools -b a:1 pipeline clicks.toml "),
    ],
)
def test_tab(complete: Complete, line: str, expected: str) -> None:
    assert complete(line) == expected
