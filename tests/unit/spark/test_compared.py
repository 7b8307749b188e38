"""The table of docs/spark.md that compares the formats feature by feature: the tests that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: Where Spark offers a Python source nothing, there is nothing to show.
CANNOT = "no: Spark"


def rows() -> list[list[str]]:
    """Return the cells of each row that compares a feature."""
    text = (ROOT / "docs" / "spark.md").read_text()
    table = text.partition("### Feature by feature\n")[2].partition("\n## ")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in cells[2:] if not row[0].strip().startswith("**")]


def test_each_row_names_a_test() -> None:
    compared = rows()
    assert len(compared) > 30
    for feature, _, ours, shown in compared:
        named = re.findall(r"`(test_\w+)::(test_\w+)`", shown)
        assert named or ours.startswith(CANNOT), feature
        for module, test in named:
            files = (ROOT / "tests").rglob(f"{module}.py")
            assert any(f"\ndef {test}(" in path.read_text() for path in files), (feature, test)
