"""Copies of `pykafka` that the interpreter could import: PyKafka 2 and 3 are the same distribution, by name."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from pykafka._version import __version__

_VERSION = re.compile(rb"^__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)


@dataclass(frozen=True)
class Copy:
    """A copy of the package on the path.

    :param directory: the directory of the package, which may be inside an egg
    :param version: its version, as its files have it, or "of unknown version"
    :param imported: whether this interpreter imports this copy
    """

    directory: str
    version: str
    imported: bool

    def __str__(self) -> str:
        return f"{'imported' if self.imported else 'hidden'}: PyKafka {self.version} in {self.directory}"


def copies(path: Sequence[str] | None = None) -> list[Copy]:
    """Return all copies of `pykafka`, the imported one first, then in the order of the path.

    Nothing calls this at import: it reads the directories of the path.

    :param path: the directories and archives to search; None for `sys.path`
    """
    own = os.path.dirname(os.path.abspath(__file__))
    found = {os.path.realpath(own): Copy(own, __version__, imported=True)}
    for entry in sys.path if path is None else path:
        spec = PathFinder.find_spec("pykafka", [entry or os.getcwd()])
        if spec is not None and spec.origin is not None:
            directory = os.path.dirname(os.path.abspath(spec.origin))
            if os.path.realpath(directory) not in found:
                found[os.path.realpath(directory)] = Copy(directory, _version(spec, directory), imported=False)
    return list(found.values())


def _version(spec: ModuleSpec, directory: str) -> str:
    """Return the version of a copy that is not imported: 3 has a file for it, 2 has it in the package itself."""
    loader: Any = spec.loader
    for name in ("_version.py", "__init__.py") if hasattr(loader, "get_data") else ():
        try:
            found = _VERSION.search(loader.get_data(os.path.join(directory, name)))
        except OSError:  # PyKafka 2 has no such file, and an unreadable copy is still a copy
            continue
        if found is not None:
            return str(found[1], "ascii", "replace")
    return "of unknown version"
