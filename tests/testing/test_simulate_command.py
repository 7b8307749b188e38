"""The command line of simulations: what it refuses, with which status, and what is left when it ends early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pykafka.testing import simulate
from tests.support.entrypoints import ROOT

LINE = '{"seeds": "0..9", "commit": "a", "failed": [], "cpu_s": 1.0, "counts": {}}\n'


def start(*arguments: str, stdout: int | None = subprocess.PIPE) -> subprocess.Popen[str]:
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "pykafka.testing.simulate", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True)


def children(pid: int) -> list[int]:
    """Return the processes that a process has begun, and that run."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runs(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "5..1"], "'5..1' names no seed"),
        (["--seeds=-1"], "'-1' names no seed"),
        (["--seeds=-5..-4"], "'-5..-4' names no seed"),
        (["--seeds", "0"], "'0' names no seed"),
        (["--seeds", "1e3"], "'1e3' is neither a number of seeds nor A..B"),
        (["--jobs", "0"], "'0' is no whole number from 1 on"),
        (["--piece", "0"], "'0' is no whole number from 1 on"),
        (["--next=-3", "--log", "seeds.log"], "'-3' is no whole number from 1 on"),
        (["--minutes", "nan"], "'nan' is no number above 0"),
        (["--jobs", "2", "--history", "seed"], "--history has the last seed of one process"),
    ],
)
def test_an_option_that_is_no_use_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that would run no seed is no success."""
    with pytest.raises(SystemExit) as ended:
        simulate.main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("--plan", None, "No such file or directory"),
        ("--plan", b"", "there is no plan in it"),
        ("--plan", b"\xff", "can't decode byte 0xff"),
        ("--plan", b"\nnonsense\n", "line 2: not a seed with a plan, such as"),
        ("--plan", b'{"seed": 7, "plan": [[1, 2, "nothing", []]]}', "there is no fault 'nothing', but cut, "),
        ("--plan", b'{"seed": 7, "plan": [[1, 2, "stop", []]]}', "stop: missing a required argument: 'broker'"),
        ("--plan", b'{"seed": 7, "plan": [["1", 2, "stop", [1, true]]]}', "the times of stop are whole numbers"),
        ("--sum", None, "there is no such log"),
        ("--sum", b"\xff", "the log cannot be read"),
        ("--sum", LINE.encode() + b'{"seeds": "0..9", "comm', "line 2 is no line of a log; if its end is missing"),
        ("--log", b"{}\n", "line 1 is no line of a log"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    option: str, content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    assert simulate.main([option, str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"python -m pykafka.testing.simulate: error: {path}")
    assert message in error


@pytest.mark.parametrize("option", ["--log", "--history", "--plan"])
def test_a_directory_in_place_of_a_file_is_named(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found before the first seed runs."""
    written: list[str] = []
    assert simulate.main([option, str(tmp_path)], written.append) == 2
    assert (written, "Is a directory" in capsys.readouterr().err) == ([], True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
@pytest.mark.parametrize("option", ["--log", "--history"])
def test_a_full_disk_ends_the_command_with_status_2(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main(["--seeds", "7..7", option, "/dev/full"], lambda _: None) == 2
    assert "No space left on device" in capsys.readouterr().err


def test_the_command_ends_quietly_if_its_reader_has_gone(tmp_path: Path) -> None:
    """As behind `| head -1`: the command ends without a word."""
    path = tmp_path / "seeds.log"
    path.write_text(LINE)
    reading, writing = os.pipe()
    os.close(reading)
    process = start("--sum", str(path), stdout=writing)
    os.close(writing)
    _, error = process.communicate()
    assert error == ""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="a system without /proc")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_command_that_is_killed_leaves_no_process(number: signal.Signals, status: int) -> None:
    """However the command ends, those that run its seeds end, too: at once, or after the seed that they run."""
    process = start("--seeds", "1000000000..1000009999", "--jobs", "2")
    try:
        until = time.monotonic() + 60
        while len(began := children(process.pid)) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
        assert (process.returncode, error) == (status, "")
        while left := [child for child in began if runs(child)]:
            assert time.monotonic() < until, left
            time.sleep(0.05)
    finally:
        process.kill()
