"""Checks of what users give."""

from __future__ import annotations

from typing import Any


def valid_int(param: Any, allow_zero: bool = False, allow_negative: bool = False) -> int:
    """Return an int within bounds.

    :param param: what was given
    :param allow_zero: whether 0 will do
    :param allow_negative: whether numbers below 0 will do
    :raises TypeError: it is no int
    :raises ValueError: it is out of bounds
    """
    if isinstance(param, bool) or not isinstance(param, int):
        raise TypeError(f"an int is wanted, not {type(param).__name__}: {param!r}")
    if (param == 0 and not allow_zero) or (param < 0 and not allow_negative):
        raise ValueError(f"{param} is out of bounds: it must be {'0 or more' if allow_zero else 'above 0'}")
    return param
