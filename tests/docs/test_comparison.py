"""docs/comparison.md is what `python tools/comparison.py` makes of the programs."""

from __future__ import annotations

import runpy

from tests.docs.pages import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "comparison.py"))


def test_the_page_has_the_programs_as_they_are() -> None:
    """A program that has changed is on the page."""
    assert TOOL["PAGE"].read_text() == TOOL["page"](), "run `python tools/comparison.py`"
