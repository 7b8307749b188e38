"""The reference: names in docstrings become links, and every documented class and function has its place in it."""

from __future__ import annotations

import builtins
import json
from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry
from sphinx.environment import BuildEnvironment
from sphinx.roles import XRefRole
from sphinx.util import logging
from sphinx.util.nodes import find_pending_xref_condition, make_refnode

log = logging.getLogger(__name__)
#: Modules of old code that the reference leaves to docs/development/documented-names.md.
LEFT_OUT = {"pykafka.utils.compat"}
#: What a name that stands alone can mean: no methods or attributes, whose classes would have to be guessed.
KINDS = {"class", "exception", "function", "data"}
Objects = dict[str, ObjectEntry]


class Name(XRefRole):
    """A name in single backticks, as docstrings have them: of the class or module at hand, or of all that is documented."""

    def process_link(
        self, env: BuildEnvironment, refnode: nodes.Element, has_explicit_title: bool, title: str, target: str
    ) -> tuple[str, str]:
        """Note where it stands."""
        refnode["py:module"] = env.ref_context.get("py:module")
        refnode["py:class"] = env.ref_context.get("py:class")
        return title, target.removesuffix("()").removeprefix(".")


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> nodes.Element | None:
    """Find what a name means that is not written out, as those of annotations are not.

    What no documented object is called is shown as it stands; an exception that does not exist is warned about.
    """
    if node["reftype"] not in {"pyname", "class", "exc", "obj"}:
        return None
    shown = find_pending_xref_condition(node, "*")
    if shown is not None:
        content = nodes.inline("", "", *shown.children)
    name = find(env.domains.python_domain.objects, node)
    if name is not None:
        entry = env.domains.python_domain.objects[name]
        return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, name)
    if node["reftype"] == "exc" and not exists(str(node["reftarget"]), app.config.autodoc_mock_imports):
        return None
    return content


def find(objects: Objects, node: pending_xref) -> str | None:
    """Return the one documented object that a name means; None: there is none, or it could be any of several."""
    name, module, cls = str(node["reftarget"]), node.get("py:module"), node.get("py:class")
    if node["reftype"] == "pyname":
        for wanted in (f"{module}.{cls}.{name}", f"{module}.{name}", f"pykafka.{name}", name):
            if wanted in objects:
                return wanted
    else:
        name = name.rpartition(".")[2]
    found = {
        (one.docname, one.node_id): full
        for full, one in objects.items()
        if full.endswith(f".{name}") and ("." in name or one.objtype in KINDS)
    }
    return found.popitem()[1] if len(found) == 1 else None


def exists(name: str, mocked: Collection[str]) -> bool:
    """Return whether Python has something by this name.

    :param mocked: packages that may be missing here; whatever is theirs exists
    """
    module, _, last = name.rpartition(".")
    if name.partition(".")[0] in mocked:
        return True
    if not module:
        return hasattr(builtins, last)
    try:
        return hasattr(import_module(module), last)
    except ImportError:
        return False


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of documented names that the reference lacks."""
    for name in lacking(Path(app.srcdir).parent, env.domains.python_domain.objects):
        log.warning("the reference lacks %s, which is documented: see docs/api", name, type="reference")


def lacking(root: Path, objects: Objects) -> Iterator[str]:
    """Yield documented classes, functions, exceptions and methods without an underscore that have no entry."""
    content: dict[str, Any] = json.loads((root / "tests" / "documented_api.json").read_text())
    for module in content["modules"].keys() - LEFT_OUT:
        what = content["modules"][module]
        for name in [*what.get("classes", ()), *what.get("functions", ()), *what.get("exceptions", ())]:
            if f"{module}.{name}" not in objects and entry(getattr(import_module(module), name), objects) is None:
                yield f"{module}.{name}"
        for name, cls in what.get("classes", {}).items():
            for method in cls.get("methods", ()):
                if not method.startswith("_") and lacks(getattr(import_module(module), name), method, objects):
                    yield f"{module}.{name}.{method}"


def lacks(cls: type[Any], method: str, objects: Objects) -> bool:
    """Tell whether neither a class nor the one that it has a method from shows that method.

    A method that is gone stands in docs/migrating.md, which a test holds.
    """
    owner = next((base for base in cls.__mro__ if method in vars(base)), None)
    return owner is not None and not {f"{entry(one, objects)}.{method}" for one in (cls, owner)} & objects.keys()


def entry(thing: Any, objects: Objects) -> str | None:
    """Return the name under which the reference has a class or function; None: it lacks it."""
    found = objects.get(f"{thing.__module__}.{thing.__qualname__}")
    if found is None:
        return None
    return next(name for name, one in objects.items() if one.node_id == found.node_id and not one.aliased)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_role("pyname", Name())
    app.connect("missing-reference", resolve)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
