"""The table of documented names in docs/development/: it lists all of them, and tests that are there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

MAKER = Path(__file__).resolve().parents[2] / "tools" / "documented_names.py"
TOOL = runpy.run_path(str(MAKER))
ROWS = re.findall(r"^\| `([^`]+)` \| (.*) \|$", TOOL["TABLE"].read_text(), re.MULTILINE)
REMEDY = "run `python tools/documented_names.py`"


def test_every_documented_name_is_listed() -> None:
    assert [name for name, _ in ROWS] == [name for _, name in TOOL["names"]()], REMEDY


def test_the_tests_that_are_named_are_there() -> None:
    named = {test for _, shown in ROWS for test in re.findall(r"`([^`]+)`", shown)}
    assert named, "the table names no test at all"
    assert named - {test for test, _, _ in TOOL["tests"]()} == set(), REMEDY
