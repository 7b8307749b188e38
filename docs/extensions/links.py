"""Check links to files of the checkout that are no pages, and have them lead to the repository, or to pages made of the files.

A page links to them as a forge shows them: [examples](../examples/). The Markdown files at the top have pages below
project/, which include them. If setup.cfg names an address of the sources (`project_urls`, "Source"), links to other files lead
there; otherwise each linked file gets a page below source/, so that no link of the site leads nowhere.
"""

from __future__ import annotations

import configparser
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

log = logging.getLogger(__name__)

#: The pages that include a file of the top, by its name.
INCLUDED = {
    "README.md": "project/readme",
    "DESIGN.md": "project/design",
    "CONTRIBUTING.md": "project/contributing",
    "SECURITY.md": "project/security",
    "CHANGES.rst": "project/changes",
}
LEFT_OUT = {"__pycache__"}


def source_address(root: Path) -> str | None:
    """Return the address of the sources that setup.cfg names; None: there is none."""
    config = configparser.ConfigParser()
    config.read(root / "setup.cfg")
    lines = config.get("metadata", "project_urls", fallback="").splitlines()
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    found = {name.strip().lower(): address.strip() for name, address in pairs.items()}
    return found.get("source") or found.get("repository")


def linked_files(env: BuildEnvironment) -> dict[str, set[str]]:
    """Return the files that each page links to: {page: paths in the checkout}."""
    if not hasattr(env, "pykafka_linked_files"):
        env.pykafka_linked_files = {}  # type: ignore[attr-defined]
    found: dict[str, set[str]] = env.pykafka_linked_files  # type: ignore[attr-defined]
    return found


class CheckoutLinks(SphinxTransform):
    """Replace links that leave docs/."""

    default_priority = 100

    def apply(self, **kwargs: Any) -> None:
        """Go through the links of a page."""
        self._docs = Path(self.env.srcdir)
        page = self._docs / self.env.docname
        # A page below project/ has the links of a file at the top.
        self._folder = page.parent.parent.parent if page.parent.name == "project" else page.parent
        for link in [*self.document.findall(pending_xref), *self.document.findall(download_reference)]:
            if link.get("reftype") == "myst" or isinstance(link, download_reference):
                self._look_at(link)

    def _look_at(self, link: nodes.Element) -> None:
        target, _, anchor = self._target(link).partition("#")
        path = (self._folder / target).resolve()
        if not target or (path.is_relative_to(self._docs) and self._folder != self._docs.parent):
            return
        if not path.exists():
            log.warning("there is no %s in the checkout", path, location=link, type="links")
        inside = path.relative_to(self._docs.parent).as_posix()
        if path.is_relative_to(self._docs) and path.suffix == ".md":
            self._lead_to(link, path.relative_to(self._docs).with_suffix("").as_posix(), anchor)
        elif inside in INCLUDED:
            self._lead_to(link, INCLUDED[inside], anchor)
        else:
            self._replace(link, inside)

    def _target(self, link: nodes.Element) -> str:
        if link.get("refdomain") == "doc":  # without the suffix, from docs/
            return str((Path(self.env.srcdir) / f"{link['reftarget']}.md").resolve())
        return str(link["reftarget"])

    def _lead_to(self, link: nodes.Element, page: str, anchor: str) -> None:
        """Lead a link to a page of the site."""
        texts = {"refdomain": "doc", "reftype": "myst", "refdoc": self.env.docname, "refexplicit": True}
        made = pending_xref("", *link.children, reftarget=page, reftargetid=anchor or None, **texts)
        link.replace_self(made)

    def _replace(self, link: nodes.Element, path: str) -> None:
        address = source_address(self._docs.parent)
        text = link.astext() or path
        if address is None:
            linked_files(self.env).setdefault(self.env.docname, set()).add(path)
            uri = self.app.builder.get_relative_uri(self.env.docname, f"source/{path}")
        else:
            uri = f"{address.rstrip('/')}/blob/main/{path}"
        link.replace_self(nodes.reference("", text, refuri=uri, internal=address is None))


def forget(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    """Forget the links of a page that is read anew."""
    linked_files(env).pop(page, None)


def merge(app: Sphinx, env: BuildEnvironment, pages: set[str], other: BuildEnvironment) -> None:
    """Take the links that another process has read."""
    linked_files(env).update({page: files for page, files in linked_files(other).items() if page in pages})


def pages_of_files(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each linked file, and for each file in a linked folder."""
    root = Path(app.srcdir).parent
    waiting = {path for paths in linked_files(app.env).values() for path in paths}
    done: set[str] = set()
    while waiting:
        path = waiting.pop()
        done.add(path)
        if (root / path).is_dir():
            names = sorted(child.name for child in (root / path).iterdir() if child.name not in LEFT_OUT)
            waiting |= {f"{path}/{name}" for name in names} - done
            there = path.rpartition("/")[2]
            links = (f'<li><a href="{there}/{escape(name)}.html">{escape(name)}</a></li>' for name in names)
            body = f"<ul>{''.join(links)}</ul>"
        else:
            body = _highlighted(app, root / path)
        yield f"source/{path}", {"title": path, "body": f"<h1>{escape(path)}</h1>{body}", "parents": []}, "page.html"


def _highlighted(app: Sphinx, path: Path) -> str:
    """Return a file as HTML, coloured if its language is known."""
    try:
        language = get_lexer_for_filename(path.name).aliases[0]
    except ClassNotFound:
        language = "text"
    highlighted: str = app.builder.highlighter.highlight_block(path.read_text(), language, force=True)  # type: ignore[attr-defined]
    return highlighted


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_transform(CheckoutLinks)
    app.add_lexer("mermaid", TextLexer)  # CONTRIBUTING.md's picture, which forges draw
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("html-collect-pages", pages_of_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
