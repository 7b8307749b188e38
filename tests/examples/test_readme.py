"""The examples of README.md work as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pykafka.embedded import EmbeddedCluster
from tests.support.programs import ROOT

README = (ROOT / "README.md").read_text()
BLOCKS = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "spark" not in block]


def test_code(capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks run one after another, on an embedded cluster in the place of a real one."""
    with EmbeddedCluster() as cluster:
        names: dict[str, object] = {}
        for block in BLOCKS:
            exec(compile(block.replace("localhost:9092", cluster.hosts), "README.md", "exec"), names)
    assert len(BLOCKS) == 2
    assert capsys.readouterr().out.count("hello") == 1000


def test_links() -> None:
    """Each link of its own leads somewhere."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link and not link.startswith("#")]
    assert links
    assert [link for link in links if not (ROOT / Path(link)).exists()] == []


def test_make_targets() -> None:
    """Each `make` that it names is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|    )make ([a-z-]+)", README))
    assert named <= targets
    assert {"demo", "test"} <= named
