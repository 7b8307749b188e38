"""Judging mutants of state machines, without mutmut, which makes them and is not among the dependencies of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.mutations.apply import ROOT
from tests.mutations.judging import SUBJECTS, put_in

SOURCE = """
TABLE = {"a": 1, "b": 2}
COPY = dict(TABLE)
class Counter:
    def __init__(self): self.count = 0
    def add(self, number): self.count += number
    @classmethod
    def name(cls): return cls.__name__
    @staticmethod
    def twice(number): return 2 * number
def find(key): return [value for name, value in TABLE.items() if name == key]
"""

#: Judges two mutants of a table: one that a test kills, and one that changes nothing.
JUDGE = """
import sys, types
made = types.ModuleType("tests.mutations.mutants")
def mutants(source):
    from typing import NamedTuple
    class Mutant(NamedTuple):
        number: int; line: int; before: str; after: str; source: str
    found = ["self.epoch = JOINS", "self.epoch = 7"], ["self.state = State.OUT", "self.state = State['OUT']"]
    return [Mutant(n, 1, *texts, source.replace(*texts)) for n, texts in enumerate(found)]
made.mutants = mutants
sys.modules[made.__name__] = made
from tests.mutations.judging import judge
print(judge("groups/member_epoch", 0, 0))
"""


@pytest.fixture
def module() -> Any:
    module = ModuleType("counted")
    exec(compile(SOURCE, "", "exec"), vars(module))
    return module


@pytest.mark.parametrize(
    ("before", "after", "expression", "value"),
    [
        ("+= number", "-= number", "counter.count", -3),
        ("return cls.__name__", "return None", "counter.name()", None),
        ("2 * number", "2 / number", "counter.twice(4)", 0.5),
        ("name == key", "name != key", "find('a')", [2]),
        ('{"a": 1, "b": 2}', '{"b": 2}', "(find('a'), table)", ([], {"b": 2})),
    ],
)
def test_objects_that_were_there_before_run_as_the_mutant_does(
    module: Any, before: str, after: str, expression: str, value: object
) -> None:
    names = {"counter": module.Counter(), "find": module.find, "table": module.TABLE}
    put_in(module, SOURCE, SOURCE.replace(before, after))
    names["counter"].add(3)
    assert eval(expression, names) == value


def test_the_state_machines_and_their_tests_are_there() -> None:
    for name, tests in SUBJECTS.items():
        assert (ROOT / f"pykafka/{name}.py").is_file()
        assert all((ROOT / "tests/unit" / test).exists() for test in tests)


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_a_mutant_that_no_test_kills_is_printed() -> None:
    done = run("-c", JUDGE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "   1 groups/member_epoch:1: self.state = State.OUT  ->  self.state = State['OUT']",
        "groups/member_epoch: 2 mutants, 2 tried, 1 killed (50%)",
    ]


def test_without_mutmut_or_with_a_wrong_name_the_command_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'mutmut' else find(name, *rest)\n"
    )
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    done = run("-m", "tests.mutations", "mutants", "groups/member_epoch", PYTHONPATH=path)
    assert done.returncode == 1
    assert "pip install '.[mutants]'" in done.stderr
    done = run("-m", "tests.mutations", "mutants", "groups/nothing", PYTHONPATH=path)
    assert "no module groups/nothing; there are producer/in_flight_window, " in done.stderr
