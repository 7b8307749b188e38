"""Check links to files of the checkout that are no pages, and have them lead to the repository.

A page links to them as a forge shows them: [examples](../examples/). Where setup.cfg names no address of the sources
(`project_urls`, "Source"), their text stays and the link goes.
"""

from __future__ import annotations

import configparser
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

log = logging.getLogger(__name__)


def source_address(root: Path) -> str | None:
    """Return the address of the sources that setup.cfg names; None: there is none."""
    config = configparser.ConfigParser()
    config.read(root / "setup.cfg")
    lines = config.get("metadata", "project_urls", fallback="").splitlines()
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    found = {name.strip().lower(): address.strip() for name, address in pairs.items()}
    return found.get("source") or found.get("repository")


class CheckoutLinks(SphinxTransform):
    """Replace links that leave docs/."""

    default_priority = 100

    def apply(self, **kwargs: Any) -> None:
        """Go through the links of a page."""
        docs = Path(self.env.srcdir)
        page = docs / self.env.docname
        links = [*self.document.findall(pending_xref), *self.document.findall(download_reference)]
        for link in links:
            if link.get("reftype") != "myst":
                continue
            target = self._target(link).partition("#")[0]
            path = (page.parent / target).resolve()
            if not target or path.is_relative_to(docs):
                continue
            if not path.exists():
                log.warning("there is no %s in the checkout", path, location=link, type="links")
            self._replace(link, path.relative_to(docs.parent).as_posix())

    def _target(self, link: nodes.Element) -> str:
        if link.get("refdomain") == "doc":  # without the suffix, from docs/
            return str((Path(self.env.srcdir) / f"{link['reftarget']}.md").resolve())
        return str(link["reftarget"])

    def _replace(self, link: nodes.Element, path: str) -> None:
        address = source_address(Path(self.env.srcdir).parent)
        text = link.astext() or path
        if address is None:
            link.replace_self(nodes.inline("", text))
        else:
            link.replace_self(nodes.reference("", text, refuri=f"{address.rstrip('/')}/blob/main/{path}"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_transform(CheckoutLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
