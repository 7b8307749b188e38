"""Which implementation of the compiled modules is loaded: the built one, or the Python source that it was built from."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

ENVIRONMENT_VARIABLE = "PYKAFKA_PURE_PYTHON"


class PureFinder:
    """Find the .py of a pykafka module although a compiled one lies beside it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Give the spec of the source, or None where only one form of the module exists."""
        package, _, name = fullname.rpartition(".")
        if path is None or not (package == "pykafka" or package.startswith("pykafka.")):
            return None
        for entry in path:
            stem = os.path.join(entry, name)
            # Without a compiled twin Python's own finders do the right thing, zip files and packages included.
            if os.path.isfile(stem + ".py") and any(os.path.isfile(stem + suffix) for suffix in EXTENSION_SUFFIXES):
                return spec_from_file_location(fullname, stem + ".py")
        return None


def wanted() -> bool:
    """Tell whether the environment asks for the Python sources: PYKAFKA_PURE_PYTHON set, and not to 0."""
    return os.environ.get(ENVIRONMENT_VARIABLE, "") not in ("", "0")


def install() -> None:
    """Load Python sources from now on if the environment asks for it; `import pykafka` calls this first."""
    if wanted() and not any(isinstance(finder, PureFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, PureFinder())


def compiled_modules() -> list[str]:
    """Name the modules of pykafka that are loaded in their compiled form, sorted."""
    suffixes = tuple(EXTENSION_SUFFIXES)
    return sorted(
        name
        for name, module in list(sys.modules.items())
        if name.startswith("pykafka.") and (getattr(module, "__file__", None) or "").endswith(suffixes)
    )


def describe() -> str:
    """Say in one line which form of the compiled modules `import pykafka` takes here, loading none of them."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    built: list[str] = []
    plain: list[str] = []
    for folder, _, files in os.walk(here, followlinks=True):
        for pxd in (name for name in files if name.endswith(".pxd")):
            stem = os.path.join(folder, pxd.removesuffix(".pxd"))
            name = os.path.relpath(stem, here).replace(os.sep, ".")
            (built if any(os.path.isfile(stem + suffix) for suffix in EXTENSION_SUFFIXES) else plain).append(name)
    if wanted():
        return f"pure Python sources, by {ENVIRONMENT_VARIABLE}"
    if not built:
        return "pure Python sources, nothing is compiled"
    return "compiled: " + ", ".join(sorted(built)) + (f"; not compiled: {', '.join(sorted(plain))}" if plain else "")
