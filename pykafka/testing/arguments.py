"""Checks of what a test passes to the methods of a fake cluster: errors name the parameter, its value and what is possible."""

from __future__ import annotations

import operator
from typing import Any


def whole(name: str, value: Any, least: int = 0) -> int:
    """Return a whole number.

    :param name: of the parameter, for the error
    :param value: the argument
    :param least: the lowest number that is allowed
    :raises ValueError: the argument is not a whole number, or lower
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < least:
        raise ValueError(f"{name} is {value!r}: a whole number from {least} on")
    return operator.index(value)


def duration(name: str, value: Any) -> float:
    """Return a number of seconds.

    :param name: of the parameter, for the error
    :param value: the argument
    :raises ValueError: the argument is not a number, below 0, or without end
    """
    if type(value) not in (int, float) or not 0 <= value < float("inf"):
        raise ValueError(f"{name} is {value!r}: a number of seconds, 0 or more")
    return float(value)


def function(name: str, value: Any) -> None:
    """Check that a function was passed.

    :param name: of the parameter, for the error
    :param value: the argument
    :raises ValueError: the argument cannot be called
    """
    if not callable(value):
        raise ValueError(f"{name} is {value!r}: a function")


def is_text(value: Any) -> bool:
    """Return whether a value is a text that is not empty."""
    return isinstance(value, str) and value != ""
