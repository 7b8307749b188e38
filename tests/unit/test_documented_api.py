"""Everything that the documents of PyKafka 2.0.4 to 2.8 name is there, with the parameters and defaults they give it.

`tests/documented_api.json` lists it by module: classes (constructor's parameters, methods, attributes), functions,
exceptions ([base, code]) and plain names. What "differs" says differs, and why, is left out. Parameters that ours has
besides must be optional.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka import exceptions

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "DESIGN.md", "CHANGES.rst"))]
DOCUMENTED: dict[str, Any] = json.loads((ROOT / "tests" / "documented_api.json").read_text())
DIFFERS: dict[str, str] = DOCUMENTED["differs"]
#: Paths of PyKafka 2 that docs/migrating.md names because they are gone.
GONE = {"pykafka.rdkafka._rd_kafka", "pykafka.test"}


def entries(kind: str) -> Iterator[tuple[str, str, Any]]:
    for module, content in DOCUMENTED["modules"].items():
        found = content.get(kind, {})
        for name in found:
            yield module, name, found[name] if isinstance(found, dict) else None


def named(kind: str) -> list[Any]:
    return [
        pytest.param(module, name, what, id=f"{module}.{name}")
        for module, name, what in entries(kind)
        if f"{module}.{name}" not in DIFFERS
    ]


def default_of(documented: Any) -> Any:
    if isinstance(documented, dict):
        return documented["bytes"].encode() if "bytes" in documented else documented
    return documented


def same(ours: Any, documented: Any) -> bool:
    if isinstance(documented, dict) and "named" in documented:
        return ours is None or type(ours).__name__ == documented["named"] or hasattr(ours, "__len__") or callable(ours)
    if isinstance(documented, dict) and "empty" in documented:
        return len(ours) == 0
    expected = default_of(documented)
    return type(ours) is not bool and ours == expected if not isinstance(expected, bool) else ours is expected


def signature_of(function: Any) -> list[inspect.Parameter]:
    """Return the parameters, `self` left out; compiled classes do not tell theirs, but their sources do."""
    try:
        ours = list(inspect.signature(function).parameters.values())
    except ValueError:
        source = Path(importlib.import_module(function.__module__).__file__ or "")
        tree = ast.parse(source.with_name(source.name.split(".")[0] + ".py").read_text())
        made = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == function.__name__)
        init = next(node for node in made.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
        namespace: dict[str, Any] = {}
        init.body = [ast.Pass()]
        exec("from __future__ import annotations\n" + ast.unparse(init), namespace)
        ours = list(inspect.signature(namespace["__init__"]).parameters.values())
    return ours[1:] if ours and ours[0].name in {"self", "cls"} else ours


def problems(where: str, function: Any, documented: list[list[Any]]) -> Iterator[str]:
    """Say what is wrong with the parameters of a function."""
    ours = signature_of(function)
    takes_any = any(one.kind is one.VAR_KEYWORD for one in ours)
    by_name = {one.name: one for one in ours}
    positional = [one.name for one in ours if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}]
    wanted = [name for name, *_ in documented if f"{where}({name})" not in DIFFERS]
    for name, *default in documented:
        if f"{where}({name})" in DIFFERS:
            continue
        if name not in by_name:
            if not takes_any:
                yield f"{where} has no parameter {name}"
        elif default and not same(by_name[name].default, default[0]):
            yield f"{where}({name}) is {by_name[name].default!r} by default, documented {default[0]!r}"
    known = [name for name in wanted if name in positional]
    if positional[: len(known)] != known:
        yield f"{where}: the order is {positional}, documented {wanted}"
    for one in ours:
        if (
            one.name not in wanted
            and one.default is one.empty
            and one.kind not in {one.VAR_KEYWORD, one.VAR_POSITIONAL}
        ):
            yield f"{where} wants {one.name}, which is not documented"


def check_class(module: str, name: str, documented: dict[str, Any]) -> None:
    cls = getattr(importlib.import_module(module), name)
    where = f"{module}.{name}"
    found: list[str] = []
    if "parameters" in documented:
        found += problems(where, cls, documented["parameters"])
    for method, parameters in documented.get("methods", {}).items():
        key = f"{where}.{method}"
        if key in DIFFERS:
            continue
        if not callable(getattr(cls, method, None)):
            found.append(f"{key} is missing")
        elif not (method.startswith("__") and method != "__call__"):
            found += problems(key, getattr(cls, method), parameters)
    for attribute in documented.get("attributes", ()):
        if f"{where}.{attribute}" not in DIFFERS and not has_attribute(cls, attribute):
            found.append(f"{where}.{attribute} is missing")
    assert not found, "\n".join(found)


def has_attribute(cls: type, name: str) -> bool:
    """Return whether instances have an attribute: of the class, or set by a method."""
    if hasattr(cls, name):
        return True
    return any(
        f"self.{name} = " in inspect.getsource(base) or f"self.{name}: " in inspect.getsource(base)
        for base in cls.__mro__
        if base.__module__.startswith("pykafka")
    )


@pytest.mark.parametrize(("module", "name", "documented"), named("classes"))
def test_classes(module: str, name: str, documented: dict[str, Any]) -> None:
    check_class(module, name, documented)


@pytest.mark.parametrize(("module", "name", "documented"), named("functions"))
def test_functions(module: str, name: str, documented: list[list[Any]]) -> None:
    function = getattr(importlib.import_module(module), name)
    assert not list(problems(f"{module}.{name}", function, documented))


@pytest.mark.parametrize(("module", "name", "documented"), named("names"))
def test_names(module: str, name: str, documented: None) -> None:
    assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize(("module", "name", "documented"), named("exceptions"))
def test_exceptions(module: str, name: str, documented: list[Any]) -> None:
    base, *code = documented
    error = getattr(exceptions, name)
    assert issubclass(error, getattr(exceptions, base) if base != "Exception" else Exception)
    if code:
        assert code[0] == error.ERROR_CODE
        assert exceptions.ERROR_CODES[code[0]] is error


@pytest.mark.parametrize("key", list(DIFFERS))
def test_what_differs_is_told(key: str) -> None:
    """docs/migrating.md names each change that old code needs."""
    text = (ROOT / "docs" / "migrating.md").read_text()
    assert key.removeprefix("pykafka.") in text, f"docs/migrating.md says nothing of {key}: {DIFFERS[key]}"


# -- paths -----------------------------------------------------------------------------------------------------------------


def test_each_documented_module_can_be_the_first_import() -> None:
    """Modules that import each other can depend on which of them a program imports first."""
    program = """
import importlib, os, sys
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        importlib.import_module(name)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(name)
"""
    command = [sys.executable, "-W", "error", "-c", program, *DOCUMENTED["modules"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == [], done.stderr


def paths_in(text: str) -> set[str]:
    """Return the modules of this package, and their names, that a page has: in code, as references, in imports."""
    found = {*re.findall(r"auto\w+:: (pykafka[\w.]+)", text), *re.findall(r"`(pykafka(?:\.\w+)+)(?:\(\))?`", text)}
    found |= set(re.findall(r"^ *import (pykafka[\w.]*)", text, re.MULTILINE))
    for module, listed in re.findall(r"^ *from (pykafka[\w.]*) import (\([^)]*\)|[^\n#(]+)", text, re.MULTILINE):
        names = (name.split(" as ")[0].strip() for name in listed.strip("()").split(","))
        found |= {f"{module}.{name}" for name in names if name}
    return found


def is_there(path: str) -> bool:
    """Return whether "pykafka.module.Class.member" is there."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            value = getattr(value, name, None)
        return value is not None
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_of_a_page(page: Path) -> None:
    assert {path for path in paths_in(page.read_text()) - GONE if not is_there(path)} == set()


def test_paths_are_found() -> None:
    text = """
from pykafka.spark import ship
from pykafka import (
    KafkaClient,
    Record as R,
)
    import pykafka.aio
.. automodule:: pykafka.common
It is `pykafka.topic.Topic` or `pykafka.admin.Admin()`, and no `pykafka-pack.tar.gz`.
"""
    names = ["spark.ship", "KafkaClient", "Record", "aio", "common", "topic.Topic", "admin.Admin"]
    assert paths_in(text) == {f"pykafka.{name}" for name in names}
    assert not is_there("pykafka.topic.Nothing")
    assert not is_there("pykafka.nothing")
