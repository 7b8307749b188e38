"""Stands in for the module `cython` where Cython is not installed: the same sources then run as plain Python.

A module that is to be compiled must write `try: import cython` itself, with this module for the `except ImportError`:
Cython knows `cython.compiled` and `cython.nogil` only under a name that it saw imported so.
"""

from __future__ import annotations

from contextlib import nullcontext
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any

compiled = False
nogil = nullcontext()

# Names of C that only compiled branches use (the .pxd files bring them in); here for linters and type checkers.
address = cast = Py_ssize_t = uchar = pointer = NULL = None  # type names and conversions
memcpy: Any = None
PyBytes_AS_STRING: Any = None
PyBytes_FromStringAndSize: Any = None
PyUnicode_DecodeUTF8: Any = None
PyContext_CopyCurrent = copy_context
PyContext_Enter: Any = None
PyContext_Exit: Any = None
PyObject_GC_IsTracked: Any = None
PyObject_GC_Track: Any = None
PyObject_GC_UnTrack: Any = None
PyObject_IS_GC: Any = None


def system_time() -> float:
    """Read the system's clock (s since 1970), as the compiled code does by a function of C."""
    return datetime.now(UTC).timestamp()
