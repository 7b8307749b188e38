"""The public members of PyKafka 2's protocol classes and helpers. Run as a program, by either Python, it prints them."""

from __future__ import annotations

import importlib
import inspect
import json
from typing import Any

CLASSES = ("base", "message", "metadata", "offset", "offset_commit", "fetch", "produce", "group_membership", "admin")
HELPERS = ("", ".compression", ".struct_helpers", ".error_handlers", ".socket", ".compat")
PROTOCOL = "pykafka.protocol"
#: Where the classes are that `pykafka.protocol` has, here or in 2.8.0.
HOMES = (PROTOCOL, "pykafka.compat.messages", "pykafka.metadata.partition")
UTILS = "pykafka.utils"
#: Members of 2.8.0 that ours does not have, or has with other parameters, and why. docs/migrating.md lists the same sentences.
GONE = {
    "Message is a Serializable": "`Message` is a compiled class: `isinstance(message, Serializable)` is False.",
    "Response(buff, which is new)": "`Response`, the base class, reads a body as its subclasses do, so it takes one.",
}


def members() -> dict[str, Any]:
    """Return {name: parameters as (name, default), or None for what cannot be called}."""
    found: dict[str, Any] = {}
    for module in (PROTOCOL, *(f"{PROTOCOL}.{name}" for name in CLASSES)):
        for name, value in _public(module).items():
            if inspect.isclass(value) and value.__module__.startswith(HOMES):
                found.update(_of_class(name, value))
    for name in HELPERS:
        for member, value in _public(UTILS + name).items():
            if inspect.isclass(value) and value.__module__.startswith(UTILS):
                found.update(_of_class(f"utils{name}.{member}", value))
            elif inspect.isfunction(value) and value.__module__.startswith(UTILS) and _is_of(value, name):
                found[f"utils{name}.{member}"] = _parameters(value)
    return found


def _is_of(function: Any, module: str) -> bool:
    # Modules of 2.8.0 import functions of `compat`.
    return function.__module__ != f"{UTILS}.compat" or module == ".compat"


def _public(module: str) -> dict[str, Any]:
    try:
        loaded = importlib.import_module(module)
    except ImportError:
        return {}
    names = {*dir(loaded), *(getattr(loaded, "__all__", None) or ())}
    return {name: getattr(loaded, name) for name in sorted(names) if not name.startswith("_")}


def _of_class(name: str, cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {name: _parameters(cls)}
    for base in cls.__mro__[1:-1]:
        if base.__name__.lstrip("_") != name and base.__module__ != "typing":
            found[f"{name} is a {base.__name__}"] = None
    for member in dir(cls):
        if not member.startswith("_") and member not in dir(tuple):
            found[f"{name}.{member}"] = _parameters(getattr(cls, member))
    return found


def _parameters(value: Any) -> list[tuple[str, str | None]] | None:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(_name(one), None if one.default is one.empty else _default(one.default)) for one in parameters]


def _name(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return "*"
    return "**" if parameter.kind is parameter.VAR_KEYWORD else parameter.name


def _default(value: Any) -> str:
    # An empty list and an empty tuple are the same default.
    return "()" if value == [] else repr(value)


if __name__ == "__main__":
    print(json.dumps(members()))
