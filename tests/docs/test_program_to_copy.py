"""One FastAPI program is the one to copy: docs/asyncio-service.md shows it, and each other one names it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, programs

PAGE = ROOT / "docs" / "asyncio-service.md"
PROGRAM = ROOT / "examples" / "fastapi_service.py"
#: An opening has at most so many lines.
OPENING_LINES = 12


def is_ours(text: str) -> bool:
    return "FastAPI(" in text and "pykafka" in text


SOURCES = sorted(path for path in (ROOT / "examples").rglob("*.py") if is_ours(path.read_text()))
OTHERS = [path for path in PAGES if path != PAGE and any(is_ours(block.text) for block in programs(path))]


def test_the_page_shows_the_example() -> None:
    source = PROGRAM.read_text()
    opening = ast.parse(source).body[0].end_lineno
    assert opening is not None
    (shown,) = (block.text for block in programs(PAGE) if "FastAPI(" in block.text)
    assert shown.strip() == "".join(source.splitlines(keepends=True)[opening:]).strip()


def test_there_are_others() -> None:
    assert len(SOURCES) > 1
    assert OTHERS


@pytest.mark.parametrize("path", [*SOURCES, *OTHERS], ids=lambda path: str(Path(path).relative_to(ROOT)))
def test_each_names_the_page(path: Path) -> None:
    lines = path.read_text().splitlines()
    opening = lines[:OPENING_LINES] if path.suffix == ".py" else lines
    assert any("asyncio-service.md" in line for line in opening)
