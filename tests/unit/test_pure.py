"""Which form of the compiled modules is loaded."""

from __future__ import annotations

import importlib
import json
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace

import pytest

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


@pytest.mark.parametrize(
    ("has_gil", "variable", "option", "pure"),
    [
        (None, "0", None, False),  # a Python before 3.13
        (True, None, None, False),
        (True, "1", None, False),
        (False, None, None, False),  # importing a compiled module turns the GIL on
        (False, "0", None, True),
        (False, None, "0", True),
        (False, "0", "1", False),  # Python takes the option first
    ],
)
def test_compiled_modules_run_with_a_gil_only(
    has_gil: bool | None, variable: str | None, option: str | None, pure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(_pure.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    if has_gil is not None:
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: has_gil, raising=False)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    monkeypatch.setattr(os, "environ", environment | ({} if variable is None else {"PYTHON_GIL": variable}))
    monkeypatch.setattr(sys, "_xoptions", {} if option is None else {"gil": option})
    others = [finder for finder in sys.meta_path if not isinstance(finder, _pure.PureFinder)]
    monkeypatch.setattr(sys, "meta_path", others)
    _pure.install()
    assert any(isinstance(finder, _pure.PureFinder) for finder in sys.meta_path) == pure
    assert ("PYTHON_GIL" in _pure.describe()) == pure


@pytest.mark.parametrize("ignored", [0, 1])
def test_a_variable_that_python_ignores_says_nothing(ignored: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -E` and `-I` turn the GIL on for a compiled module, whatever PYTHON_GIL says."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    monkeypatch.setattr(os, "environ", {**os.environ, "PYTHON_GIL": "0"})
    monkeypatch.setattr(sys, "_xoptions", {})
    monkeypatch.setattr(sys, "flags", SimpleNamespace(ignore_environment=ignored))
    assert _pure._must_stay_free_threaded() != ignored
    monkeypatch.setattr(sys, "_xoptions", {"gil": "0"})
    assert _pure._must_stay_free_threaded()


def test_no_compiled_module_claims_to_run_without_a_gil() -> None:
    """docs/development/free-threading.md lists what would have to be guarded before."""
    sources = [ROOT / "setup.py", *(path for source in COMPILED for path in (source, source.with_suffix(".pxd")))]
    assert [str(path) for path in sources if "freethreading_compatible" in path.read_text()] == []


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
