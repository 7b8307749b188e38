"""The names of tests/public_names.json stay, which a release writes: docs/stability.md calls them public."""

from __future__ import annotations

import json
import runpy
from importlib import import_module
from typing import Any

import pytest

from tests.docs.pages import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "public_names.py"))
RELEASED: dict[str, list[str]] = json.loads(TOOL["NAMES"].read_text())


def test_the_page_names_these_modules() -> None:
    page = (ROOT / "docs" / "stability.md").read_text()
    assert list(RELEASED) == list(TOOL["MODULES"])
    assert [name for name in RELEASED if f"`{name}`" not in page] == []


@pytest.mark.parametrize("module", RELEASED)
def test_no_name_has_gone(module: str) -> None:
    """A name that shall go warns first: docs/stability.md says for how long."""
    loaded = import_module(module)
    gone = []
    for name in RELEASED[module]:
        found: Any = loaded
        for part in name.split("."):
            if not hasattr(found, part):
                gone.append(name)
                break
            found = getattr(found, part)
    assert gone == [], f"{gone}; if it is right that they are gone, docs/stability.md is not"
