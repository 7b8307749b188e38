"""The site that `make docs` builds: no link leads nowhere, and the search knows options, errors and calls."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from pykafka import exceptions
from pykafka.exceptions import KafkaException
from tests.docs.pages import ROOT

# It makes an environment of its own.
pytestmark = [pytest.mark.matrix, pytest.mark.timeout(480)]


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.copied = "copybutton" in (text := path.read_text())
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.add(found.get("id") or "")
        if tag == "a" and (link := found.get("href")) is not None:
            self.links.append(link)


@pytest.fixture(scope="module")
def site() -> Path:
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, timeout=450, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return ROOT / "build" / "docs"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def broken(pages: dict[Path, Page]) -> Iterator[str]:
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                yield f"{path.name}: {link}"


def test_every_link_leads_somewhere(pages: dict[Path, Page]) -> None:
    assert sorted(set(broken(pages))) == []


def test_former_names_of_pages_lead_on(pages: dict[Path, Page], site: Path) -> None:
    """Their links are among those of the test above."""
    former = [path.name for path in (ROOT / "docs" / "redirects").iterdir()]
    assert former
    assert all(len(pages[site / name].links) == 1 for name in former)


def test_each_error_has_an_anchor(site: Path, pages: dict[Path, Page]) -> None:
    errors = {
        f"{found.__module__}.{found.__name__}"
        for found in vars(exceptions).values()
        if isinstance(found, type) and issubclass(found, KafkaException)
    }
    shown = pages[site / "api" / "exceptions.html"].anchors
    assert {error for error in errors if f"pykafka.exceptions.{error.rpartition('.')[2]}" not in shown} == set()


def test_each_option_has_an_anchor(site: Path, pages: dict[Path, Page]) -> None:
    assert {"linger_ms", "auto_offset_reset", "record_metrics"} <= pages[site / "configuration.html"].anchors


def test_the_search_knows_options_errors_and_calls(site: Path) -> None:
    index = json.loads((site / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    assert {"linger_ms", "TopicNotFoundError", "produce"} <= {
        entry[4] for entries in index["objects"].values() for entry in entries
    }


def test_code_can_be_copied(site: Path, pages: dict[Path, Page]) -> None:
    assert pages[site / "index.html"].copied
