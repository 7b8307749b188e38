"""`in_context`: functions of the application that are called later, in the context of the call that they were given to."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TypeVar

R = TypeVar("R")


def in_context(fn: Callable[..., R]) -> Callable[..., R]:
    """Return a function that calls another one once, with the context variables as they are now."""
    return partial(copy_context().run, fn)
