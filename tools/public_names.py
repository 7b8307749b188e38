"""Write tests/public_names.json: the names that docs/stability.md calls public, by module. Run it before a release.

python tools/public_names.py
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from types import ModuleType

NAMES = Path(__file__).resolve().parents[1] / "tests" / "public_names.json"
#: The modules of docs/stability.md, which names them, too.
MODULES = (
    *("pykafka", "pykafka.admin", "pykafka.aio", "pykafka.embedded", "pykafka.exceptions", "pykafka.handlers"),
    *("pykafka.health", "pykafka.otel", "pykafka.prometheus", "pykafka.registry", "pykafka.serialization"),
    "pykafka.spark",
)


def public_names(module: ModuleType) -> list[str]:
    """Return the names of a module, and `Class.member` of its classes, without a leading underscore."""
    exported = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if getattr(value, "__module__", "").startswith("pykafka.")
    ]
    names: set[str] = set()
    for name in exported:
        if not name.startswith("_"):
            names |= {name, *_members(name, getattr(module, name), exported)}
    return sorted(names)


def _members(name: str, value: object, exported: Collection[str]) -> set[str]:
    """Return the members of a class, without those that a base has which is public itself."""
    if not inspect.isclass(value):
        return set()
    bases = [base for base in value.__mro__[1:] if base.__name__ not in exported]
    ours = [base for base in (value, *bases) if base.__module__.startswith("pykafka")]
    found = {member for base in ours for member in vars(base) if not member.startswith("_")}
    # Names of other clients are there to raise an error that names ours.
    return {f"{name}.{member}" for member in found if hasattr(value, member)}


def current() -> dict[str, list[str]]:
    """Return the names of all modules, as they are now."""
    return {name: public_names(import_module(name)) for name in MODULES}


if __name__ == "__main__":
    NAMES.write_text(json.dumps(current(), indent=1) + "\n")
