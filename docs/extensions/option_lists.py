"""Show tables of options as lists: five columns are readable on no screen, and each option gets an address.

`configuration.html#linger_ms` leads to the first option of that name, and the search finds each by its name.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

#: How the tables begin that tools/options.py writes.
HEADINGS = ["option", "default", "allowed", "meaning"]


class OptionLists(SphinxTransform):
    """Replace each table of options by a list of definitions."""

    default_priority = 500

    def apply(self, **kwargs: Any) -> None:
        """Go through the tables of a page."""
        seen: set[str] = set()
        for table in list(self.document.findall(nodes.table)):
            rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
            if [cell.astext() for cell in rows[0][:4]] == HEADINGS:
                made = nodes.definition_list(classes=["options"])
                made += [self._item(cells, table, seen) for cells in rows[1:]]
                table.replace_self(made)

    def _item(self, cells: list[nodes.entry], table: nodes.table, seen: set[str]) -> nodes.definition_list_item:
        """Return an option: its name, default and allowed values above what it means and costs."""
        name = cells[0].astext()
        section = next(node for node in _ancestors(table) if isinstance(node, nodes.section))
        title = section.next_node(nodes.title)
        ids = [f"{section['ids'][0]}-{name}"]
        if name not in seen:
            seen.add(name)
            ids.insert(0, name)
        term = nodes.term(ids=ids)
        term += _content(cells[0])
        for cell, before in ((cells[1], "default "), (cells[2], "")):
            if cell.astext():
                term += nodes.inline("", before, *_content(cell), classes=["option-value"])
        said = [nodes.paragraph("", "", *_content(cell)) for cell in cells[3:] if cell.astext()]
        for costs in said[1:]:
            costs["classes"].append("option-costs")
        domain = self.env.domains.standard_domain
        domain.note_object("confval", f"{title.astext() if title else ''}.{name}", ids[0], location=table)
        return nodes.definition_list_item("", term, nodes.definition("", *said))


def _ancestors(node: nodes.Node) -> list[nodes.Element]:
    """Return the elements around a node, the innermost first."""
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def _content(cell: nodes.entry) -> list[nodes.Node]:
    """Return what a cell has, without the paragraph around it."""
    return [child for paragraph in cell.findall(nodes.paragraph) for child in paragraph.children]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_transform(OptionLists)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
