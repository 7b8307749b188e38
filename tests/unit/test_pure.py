"""Which form of the compiled modules is loaded."""

from __future__ import annotations

import importlib
import json
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from pykafka import compiled as _pure
from tests.unit.test_packaging import COMPILED, ROOT, run

MODULES = """
import importlib, json, sys
import pykafka
names = %r
print(json.dumps({name: importlib.import_module(name).__file__ for name in names}))
"""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("pykafka", *parts) if parts[0] == "handlers" else parts)


def test_sources_are_loaded_when_asked_for() -> None:
    names = [module_name(path) for path in COMPILED]
    files = json.loads(run(MODULES % names, PYKAFKA_PURE_PYTHON="1"))
    assert all(file.endswith(".py") for file in files.values()), files


def test_either_all_modules_are_compiled_or_none() -> None:
    names = [module_name(path) for path in COMPILED]
    files = json.loads(run(MODULES % names, PYKAFKA_PURE_PYTHON="0"))
    compiled = {name for name, file in files.items() if file.endswith(tuple(EXTENSION_SUFFIXES))}
    assert compiled in (set(), set(names)), f"`make build` says why these are not: {sorted(set(names) - compiled)}"


def test_this_run_is_what_it_says_it_is() -> None:
    for path in COMPILED:
        importlib.import_module(module_name(path))
    if _pure.wanted():
        assert _pure.compiled_modules() == []
        assert "pure" in _pure.describe()
    else:
        assert bool(_pure.compiled_modules()) == _pure.describe().startswith("compiled")


def test_the_finder_leaves_others_alone(tmp_path: Path) -> None:
    finder = _pure.PureFinder()
    assert finder.find_spec("json", None) is None
    assert finder.find_spec("pykafka.common", [str(tmp_path)]) is None
    (tmp_path / "both.py").write_text("value = 1")
    assert finder.find_spec("pykafka.both", [str(tmp_path)]) is None  # no compiled twin: Python's own finders do
    (tmp_path / f"both{EXTENSION_SUFFIXES[0]}").touch()
    spec = finder.find_spec("pykafka.both", [str(tmp_path)])
    assert spec is not None
    assert spec.origin == str(tmp_path / "both.py")
