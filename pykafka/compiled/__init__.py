"""Which implementation of the compiled modules is loaded: the built one, or the Python source that it was built from."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

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
    """Load Python sources from now on if the environment asks for it; `import pykafka` calls this first.

    Subinterpreters load them always: one interpreter of a process alone can load compiled modules. So do free-threaded
    interpreters that may not turn the GIL on, which the compiled modules rely on.

    :raises ImportError: this is an isolated subinterpreter
    """
    is_sub = _is_subinterpreter()
    if is_sub:
        _refuse_isolated()
    is_pure = wanted() or is_sub or _must_stay_free_threaded()
    if is_pure and not any(isinstance(finder, PureFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, PureFinder())


def _must_stay_free_threaded() -> bool:
    """Return whether this interpreter has no GIL, and keeps none whatever is imported (PYTHON_GIL=0, -X gil=0)."""
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    variable = None if sys.flags.ignore_environment else os.environ.get("PYTHON_GIL")  # python -E, -I
    return not has_gil and sys._xoptions.get("gil", variable) == "0"


def _is_subinterpreter() -> bool:
    """Return whether this is another interpreter than the main one of the process."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # Python 3.13 and later, and before
        try:
            module: Any = import_module(name)
        except ImportError:
            continue
        return bool(module.get_current() != module.get_main())
    return False


def _refuse_isolated() -> None:
    thread: Any = import_module("_thread")
    try:
        if not hasattr(thread, "daemon_threads_allowed"):  # Python 3.11 says so only when one is started
            thread.start_new_thread(int, ())
        elif not thread.daemon_threads_allowed():
            raise RuntimeError("daemon threads are not allowed")
    except RuntimeError as error:
        raise ImportError(
            f"pykafka cannot be used in an isolated subinterpreter, where its workers cannot run ({error}): use the main "
            "interpreter, or processes (multiprocessing, ProcessPoolExecutor)",
            name="pykafka",
        ) from error


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
    if _must_stay_free_threaded():
        return "pure Python sources, since the compiled ones need a GIL, which is off by PYTHON_GIL=0 or -X gil=0"
    if not built:
        return "pure Python sources, nothing is compiled"
    return "compiled: " + ", ".join(sorted(built)) + (f"; not compiled: {', '.join(sorted(plain))}" if plain else "")
