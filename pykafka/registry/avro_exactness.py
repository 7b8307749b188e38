"""`exactness`: whether fastavro writes a value as it is, by a test that is quicker than its own check of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any, TypeAlias

_Test: TypeAlias = Callable[[Any], bool]
_RANGES = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}

_EXACT: dict[str, _Test] = {
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    **dict.fromkeys(("float", "double"), lambda value: type(value) is float or type(value) is int),
}


def exactness(tree: Any, names: Mapping[str, Any]) -> _Test:
    """Return a test of values: True if fastavro writes a value as it is or raises an error, False if it may write another one.

    It bends numbers with a fraction and large ones to integers, numbers to floats, anything to a boolean or a null, and a dict
    to an array. It checks the branches of a union itself, unless the value names one.

    :param tree: the schema, as fastavro has parsed it
    :param names: the definitions of its named types
    """
    return _test(tree, names, {}) or _always


def _always(_: Any) -> bool:
    return True


def _test(tree: Any, names: Mapping[str, Any], made: dict[str, _Test]) -> _Test | None:
    """Return the test of a type; None if values of the type need none.

    :param made: the tests of named types, those around this one included
    """
    if isinstance(tree, list):
        return _names_no_branch
    if isinstance(tree, str) and tree in names:
        tree = names[tree]
    kind = tree["type"] if isinstance(tree, dict) else tree
    if not isinstance(kind, str) or kind in names:
        return _test(kind, names, made)
    if kind in _RANGES:
        return _of_integers(*_RANGES[kind], isinstance(tree, dict) and "logicalType" in tree)
    if kind in _EXACT:
        return _EXACT[kind]
    if kind in ("record", "error"):
        return _of_record(tree, names, made)
    if kind == "array":
        return _of_array(_test(tree["items"], names, made))
    if kind == "map":
        return _of_map(_test(tree["values"], names, made))
    return None


def _of_array(test: _Test | None) -> _Test:
    if test is None:
        return lambda value: type(value) is list
    return lambda value: type(value) is list and all(map(test, value))


def _of_map(test: _Test | None) -> _Test:
    if test is None:
        return lambda value: type(value) is dict
    return lambda value: type(value) is dict and all(map(test, value.values()))


def _of_integers(low: int, high: int, logical: bool) -> _Test:
    """Return the test of integers.

    :param logical: whether they stand for something else, as for a date, which fastavro takes in their place
    """
    if logical:
        return lambda value: low <= value <= high if type(value) is int else not isinstance(value, Number)
    return lambda value: type(value) is int and low <= value <= high


def _names_no_branch(value: Any) -> bool:
    return type(value) is not tuple and not (isinstance(value, dict) and "-type" in value)


def _of_record(tree: Mapping[str, Any], names: Mapping[str, Any], made: dict[str, _Test]) -> _Test | None:
    name = tree["name"]
    if name in made:

        def test_again(value: Any) -> bool:
            return made[name](value)  # which is not made yet

        return test_again
    made[name] = _always  # until the fields have theirs
    found = [(field["name"], _test(field["type"], names, made)) for field in tree["fields"]]
    tests = tuple((field, test) for field, test in found if test is not None)

    def test_fields(value: Any) -> bool:
        # A missing field has its default, which is of its type, or is an error.
        return all(test(value[field]) for field, test in tests if field in value)

    if not tests:
        return None
    made[name] = test_fields
    return test_fields
