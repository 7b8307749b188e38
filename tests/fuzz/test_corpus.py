"""Replays the inputs that fuzzing has found: named errors only, bounded, and the same compiled and pure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.corpus import KEPT_MAX, kept, outcomes
from tests.fuzz.judge import UNPACKED_MAX, Outcome, Target, judge
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
#: All of corpus/ (bytes).
CORPUS_MAX = 300_000
#: What Python may allocate for an input of N bytes: what compressed data may unpack to, several times, and so many bytes for
#: each byte of the input. An element of an array takes a byte or more on the wire, and an object of some hundred in memory.
ONCE, EACH = 6 * UNPACKED_MAX, 1024


@pytest.fixture(scope="module")
def pure() -> dict[str, list[Outcome]]:
    """Return what comes of each input with the sources of the compiled modules, in a process of their own."""
    command = [sys.executable, "-m", "tests.fuzz", "--replay"]
    environment = {**os.environ, "PYKAFKA_PURE_PYTHON": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, timeout=600)
    found: dict[str, list[Any]] = json.loads(done.stdout)
    return {name: [Outcome(*one) for one in those] for name, those in found.items()}


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_inputs_that_were_found_once(target: Target, pure: dict[str, list[Outcome]]) -> None:
    inputs = list(outcomes(target))
    findings = [(data[:80], outcome.finding, outcome.place) for data, outcome in inputs if outcome.finding]
    findings += [(b"pure", outcome.finding, outcome.place) for outcome in pure[target.name] if outcome.finding]
    assert findings == []
    for (data, outcome), other in zip(inputs, pure[target.name], strict=True):
        assert outcome == other, data


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_an_input_allocates_a_bounded_multiple_of_its_size(target: Target) -> None:
    inputs = [*target.seeds(), *kept(target)]
    for data in inputs[:20]:  # so that what is made once is there
        judge(target, data)
    tracemalloc.start()
    try:
        for data in inputs[-200:]:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            judge(target, data)
            assert tracemalloc.get_traced_memory()[1] - before <= ONCE + EACH * len(data), data
    finally:
        tracemalloc.stop()


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    sizes = {path.stem: path.stat().st_size for path in (ROOT / "tests/fuzz/corpus").iterdir()}
    assert all(size <= KEPT_MAX * TARGETS[name].weight for name, size in sizes.items())
    assert sum(sizes.values()) <= CORPUS_MAX


@pytest.mark.parametrize(
    ("error", "finding"),
    [
        (IndexError("index out of range"), "IndexError: index out of range"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (MemoryError(), "MemoryError: "),
        (ValueError("of Python"), "ValueError: of Python"),
        (BaseException("a panic"), "BaseException: a panic"),
    ],
)
def test_an_error_without_a_name_is_a_finding(error: BaseException, finding: str) -> None:
    def read(data: bytes) -> object:
        raise error

    assert judge(Target("any", read, list), b"").finding == finding


def test_errors_of_the_target_count_if_the_package_itself_raises_them() -> None:
    def by_int(data: bytes) -> object:
        return int(data)

    def by_hand(data: bytes) -> object:
        raise ValueError("write a number")

    assert judge(Target("int", by_int, list, (ValueError,)), b"x").finding
    assert judge(Target("hand", by_hand, list, (ValueError,)), b"x") == Outcome("ValueError", "write a number")


def test_without_atheris_the_command_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['atheris'] = None\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.fuzz", "--minutes", "0.1"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 2
    assert "pip install" in done.stderr
