"""Links between files of the checkout lead somewhere; `make docs` looks at those among pages of docs/ as well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ALL_PAGES, ROOT


def prose(text: str) -> str:
    """Return a page without its code."""
    text = re.sub(r"^( *)```.*?^ *```+ *$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda match: re.sub(r"[\[\]()]", "", match[0]), text)


def links(text: str) -> Iterator[str]:
    """Yield where a page's links lead, those out of the checkout left out."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def anchors(text: str) -> set[str]:
    """Return what headings of a page can be linked by, as forges make it."""
    headings = re.findall(r"^#+ +(.*?) *$", prose(text), re.MULTILINE)
    cleaned = (re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading)) for heading in headings)
    return {heading.lower().replace(" ", "-") for heading in cleaned}


@pytest.mark.parametrize("path", ALL_PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_of_a_page(path: Path) -> None:
    broken = []
    for link in links(path.read_text()):
        file, _, anchor = link.partition("#")
        target = (path.parent / file) if file else path
        there = target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target.read_text()))
        if not there:
            broken.append(link)
    assert broken == []


def test_links_are_found() -> None:
    text = "see [a](b.md#c), `[no](link)`\n\n```md\n[no](link)\n```\n[out](https://example.org)\n"
    assert list(links(text)) == ["b.md#c"]
    assert anchors("# One `two`: three\n## Four/five\n") == {"one-two-three", "fourfive"}


def test_each_page_has_its_place_at_the_side() -> None:
    """`make docs` fails for a page that is in no toctree."""
    text = (ROOT / "docs" / "index.md").read_text()
    trees = "".join(re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL))
    listed = [line for line in trees.splitlines() if line and not line.startswith(":")]
    folders = ("", "api/", "development/")
    pages = {f"{folder}{page.stem}" for folder in folders for page in (ROOT / "docs" / folder).glob("*.md")} - {"index"}
    assert pages - set(listed) == set()
    assert len(listed) == len(set(listed))


def test_ci_builds_the_pages() -> None:
    steps = re.findall(r"step make ([^&;]*)", (ROOT / ".ci" / "run").read_text())
    assert any("docs" in step.split() for step in steps)
    assert "--fail-on-warning" in (ROOT / "Makefile").read_text()
