"""Docstrings begin with a verb for the caller or with a noun, never with a riddle."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFUSED = {"Be", "Have", "Let", "What", "Who"}
TOPS = ("pykafka", "handlers", "pyspark_pykafka", "tests", "tools", "benchmarks", "examples", "docs")
SOURCES = sorted([*ROOT.glob("*.py"), *(path for top in TOPS for path in (ROOT / top).rglob("*.py"))])


def openings(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and first word of each docstring in a source."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words = (ast.get_docstring(node) or "").split()
            if words:
                yield node.body[0].lineno, words[0].split("'")[0].strip(",.:;")


def test_docstrings_begin_plainly() -> None:
    """They begin with a verb (Return, Send, Raise, Wait, ...); those of classes with a noun phrase."""
    refused = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in SOURCES
        for line, word in openings(path.read_text())
        if word in REFUSED
    ]
    assert refused == []


def test_a_riddle_is_found() -> None:
    assert list(openings('"""A module."""\n\n\nclass A:\n    """What is."""\n')) == [(1, "A"), (5, "What")]
