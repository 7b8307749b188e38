"""`in_context` and `entered`: what is done later, in the context of the call that asked for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import TypeVar

R = TypeVar("R")


def in_context(fn: Callable[..., R]) -> Callable[..., R]:
    """Return a function that calls another one once, with the context variables as they are now."""
    return partial(copy_context().run, fn)


@contextmanager
def entered(context: Context | None) -> Iterator[None]:
    """Give the context variables the values that they have in a context, for the block; it may await, and nest.

    :param context: None changes nothing
    """
    tokens = []
    present = copy_context() if context is not None else None
    for variable, value in (context or {}).items():
        if present is not None and (variable not in present or present[variable] is not value):
            tokens.append((variable, variable.set(value)))
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)
