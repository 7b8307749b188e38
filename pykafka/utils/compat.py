"""Names of PyKafka 2 for Python 2 and 3 alike, for applications that import them. Nothing in this package does."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka.utils import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

K = TypeVar("K")
V = TypeVar("V")

#: Whether this is Python 3.
PY3 = True
#: Whether this is PyPy.
IS_PYPY = sys.implementation.name == "pypy"

range = builtins.range
buffer = memoryview
string_types = (str,)
text_type = str
binary_type = bytes
integer_types = (int,)


def get_bytes(value: Any) -> Any:
    """Return text as UTF-8; text that has no UTF-8, and whatever else is given, as it is."""
    if not isinstance(value, str):
        return value
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        return value


def get_string(value: Any) -> Any:
    """Return UTF-8 as text; bytes that are none as they are, and whatever else is given as `str` has it."""
    if not isinstance(value, (bytes, bytearray)):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def iteritems(d: Mapping[K, V]) -> Iterator[tuple[K, V]]:
    """Iterate over the items of a dict."""
    return iter(d.items())


def iterkeys(d: Mapping[K, Any]) -> Iterator[K]:
    """Iterate over the keys of a dict."""
    return iter(d.keys())


def itervalues(d: Mapping[Any, V]) -> Iterator[V]:
    """Iterate over the values of a dict."""
    return iter(d.values())
