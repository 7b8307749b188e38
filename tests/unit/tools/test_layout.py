"""The folders of the tests: named as the rooms of the package, and each for one kind of test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: Folders of unit tests that are about no room.
OTHERS = {"tools"}
#: Fixtures that start a cluster.
CLUSTERS = {"embedded", "kafka", "kafka3", "secure", "secure_kafka"}


def folders(top: Path) -> set[str]:
    """Return the names of the folders with Python files."""
    return {path.parent.name for path in top.glob("*/*.py")}


@pytest.mark.parametrize("kind", ["unit", "embedded", "integration"])
def test_folders_are_named_as_the_rooms(kind: str) -> None:
    rooms = folders(ROOT / "pykafka")
    assert len(rooms) > 10
    assert folders(ROOT / "tests" / kind) - rooms <= OTHERS


def test_unit_tests_start_no_cluster() -> None:
    found = []
    for path in (ROOT / "tests" / "unit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.ImportFrom(names=names):
                    used = {alias.name for alias in names} & {"EmbeddedCluster", "KafkaCluster"}
                case ast.FunctionDef(args=arguments):
                    used = {argument.arg for argument in arguments.args} & CLUSTERS
                case _:
                    continue
            found += [f"{path.relative_to(ROOT)}:{node.lineno} {name}" for name in used]
    assert found == []


def test_helpers_are_in_folders_of_their_own() -> None:
    top = {path.name for path in (ROOT / "tests").glob("*.py")}
    assert top == {"__init__.py", "conftest.py"}
    assert [str(path) for name in ("support", "brokers") for path in (ROOT / "tests" / name).rglob("test_*.py")] == []
