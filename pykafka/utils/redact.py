"""`concealing`: functions whose errors show nothing of their arguments, also if a report shows the locals of frames."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def concealing(fn: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose errors have tracebacks that begin at its caller.

    For functions that check secrets: their frames have them as local variables, which pytest, rich and services that collect
    errors show. The error's text must say enough by itself.

    :param fn: what has secrets as arguments
    """

    @wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        handled = sys.exception()
        try:
            return fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again
            refusal = error
        finally:
            del args, kwargs
        forget_frames(refusal, handled)
        try:
            raise refusal
        finally:
            del refusal, handled  # they may have this frame, and this frame would have them

    return call


def forget_frames(error: BaseException, handled: BaseException | None = None) -> None:
    """Take the tracebacks off an error and off those that led to it, and remove those that it suppresses.

    :param handled: what the caller was handling before; it and what led to it stay as they are
    """
    seen = {id(handled)}
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            if one.__suppress_context__:  # `from None` keeps it for whoever looks
                one.__context__ = None
            left += [one.__cause__, one.__context__]
