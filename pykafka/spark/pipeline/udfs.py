"""Functions of Python for the SQL of a pipeline, from modules beside its file or installed ones."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pyspark.cloudpickle import register_pickle_by_value

from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import DeclarationError, FunctionError
from pykafka.spark.pipeline.tables import Problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLACE = "[udf] modules"
#: The types of Spark for the annotations of Python's functions.
_TYPES = {str: "string", int: "bigint", float: "double", bool: "boolean", bytes: "binary"}


def register(declaration: Declaration, spark: SparkSession) -> None:
    """Make the functions of the declared modules known to SQL by their names.

    :raises DeclarationError: a module or a function cannot be used
    """
    problems: list[Problem] = []
    names: dict[str, str] = {}
    for name in declaration.udfs:
        try:
            module = _imported(name, str(declaration.directory))
        except Exception as error:  # noqa: BLE001 - whatever the module raises
            problems.append(Problem(_PLACE, f"{name} cannot be imported: {type(error).__name__}: {error}"))
            continue
        # By value, so that executors need not have it.
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        for function, made in _functions(module, problems):
            if function.lower() in names:
                problems.append(
                    Problem(_PLACE, f"{names[function.lower()]} and {name} both have a function {function}")
                )
                continue
            names[function.lower()] = name
            kind = None if hasattr(made, "evalType") else _TYPES[_returned(made)]  # type: ignore[index]
            spark.udf.register(function, made if kind is None else _named(made, f"{name}.{function}"), kind)
    if problems:
        raise DeclarationError(declaration.name, problems)


def _imported(name: str, directory: str) -> ModuleType:
    sys.path.insert(0, directory)
    try:
        importlib.invalidate_caches()
        return importlib.import_module(name)
    finally:
        sys.path.remove(directory)


def _functions(module: ModuleType, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    """Yield the functions of a module for SQL: those of udf() and pandas_udf(), and public ones of its own."""
    found = 0
    for name, value in vars(module).items():
        is_made = hasattr(value, "evalType") and hasattr(value, "returnType")
        is_own = inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        if not is_made and not is_own:
            continue
        if is_made or _returned(value) in _TYPES:
            found += 1
            yield name, value
            continue
        kinds = ", ".join(kind.__name__ for kind in _TYPES)
        sentence = f"{module.__name__}.{name} does not say what it returns: annotate it with one of {kinds}, or with "
        problems.append(Problem(_PLACE, f"{sentence}@udf of PySpark; or begin its name with an underscore"))
        found += 1
    if not found:
        problems.append(Problem(_PLACE, f"{module.__name__} has no functions"))


def _returned(function: Callable[..., Any]) -> object:
    """Return the type in a function's annotation, of `X | None` the type X; None if there is none."""
    try:
        kind = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None
    inner = [part for part in typing.get_args(kind) if part is not type(None)]
    return inner[0] if len(inner) == 1 and type(None) in typing.get_args(kind) else kind


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function whose errors name it."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise FunctionError(f"{name} failed: {type(error).__name__}: {error}") from error

    return call
