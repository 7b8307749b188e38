"""The modules of an installed PyKafka: their names, and of classes the parameters, methods and attributes.

Run as a program by any Python that has a PyKafka, 2.8.0's or this one: `oldinventory.py [MODULE ...]` prints JSON. Attributes
that methods set are read from the source, so that nothing has to be connected.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "pykafka"
#: Compiled modules name their sources by paths below it.
ROOT = Path(__file__).resolve().parents[2]


def kind_of(value: Any) -> str:
    """Return "module", "class", "function" or "value"."""
    if isinstance(value, ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) else "value"


def parameters_of(function: Any) -> list[str] | None:
    """Return the names of a function's or constructor's parameters, those with a default followed by "="."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    return [one.name + ("" if one.default is one.empty else "=") for one in named if one.name not in ("self", "cls")]


def tree_of(cls: type) -> ast.AST:
    """Return the source of a class; without it, of its methods: a class may name its documented module as its own."""
    try:
        return ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls)))
    except (OSError, TypeError):
        pass
    methods = [getattr(value, "fget", value) for value in vars(cls).values()]
    compiled = [code.co_filename for method in methods if (code := getattr(method, "__code__", None)) is not None]
    for path in filter(Path.is_file, {ROOT / name for name in compiled}):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                return node
    sources = [inspect.getsource(inspect.unwrap(method)) for method in methods if inspect.isfunction(method)]
    return ast.parse("".join("if 1:\n" + source for source in sources))


def set_by_methods(cls: type) -> set[str]:
    """Return the attributes that the methods of a class set on `self`."""
    found = set()
    for base in cls.__mro__:
        if not base.__module__.startswith(PACKAGE):
            continue
        for node in ast.walk(tree_of(base)):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and ast.unparse(node.value) == "self"
            ):
                found.add(node.attr)
    return found


def members_of(cls: type) -> list[str]:
    """Return methods and attributes, those of `object` left out."""
    of_class = {name for name in dir(cls) if not name.startswith("__")} - set(dir(object))
    return sorted(of_class | set_by_methods(cls))


def describe(module: ModuleType) -> dict[str, dict[str, str]]:
    """Return the names of a module by kind, and parameters and members of what it defines; lists are joined by spaces."""
    values = {name: value for name, value in sorted(vars(module).items()) if not name.startswith("__")}
    own = {name: value for name, value in values.items() if getattr(value, "__module__", None) == module.__name__}
    kinds = {name: kind_of(value) for name, value in values.items()}
    parameters = {name: parameters_of(value) for name, value in own.items()}
    classes = {
        name: value
        for name, value in own.items()
        if kinds[name] == "class" and not issubclass(value, (BaseException, tuple))
    }
    return {
        "names": {
            kind: " ".join(name for name in kinds if kinds[name] == kind) for kind in sorted(set(kinds.values()))
        },
        "parameters": {name: " ".join(found) for name, found in parameters.items() if found is not None},
        "members": {name: " ".join(members_of(value)) for name, value in classes.items()},
    }


def modules_of() -> list[str]:
    """Return all modules of the package that can be imported, without its programs and tests."""
    package = importlib.import_module(PACKAGE)
    names = [one.name for one in pkgutil.walk_packages(package.__path__, PACKAGE + ".", onerror=lambda name: None)]
    return [PACKAGE, *(name for name in names if not name.endswith(".__main__") and ".test" not in name)]


def inventory(modules: list[str]) -> dict[str, dict[str, dict[str, str]]]:
    """Return {module: its description}; a module that cannot be imported, for lack of librdkafka, is left out."""
    found = {}
    for name in modules:
        try:
            found[name] = describe(importlib.import_module(name))
        except ImportError:
            continue
    return found


if __name__ == "__main__":
    json.dump(inventory(sys.argv[1:] or modules_of()), sys.stdout, indent=1, sort_keys=True)
