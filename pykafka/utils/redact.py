"""`concealing`: functions whose errors show nothing of their arguments, also if a report shows the locals of frames.

`redacted`: a text without what looks like a secret.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

#: What stands in the place of a secret.
HIDDEN = "***"
#: A name of a secret with what follows it; the user part of an address; a credential of HTTP; a token of three parts.
_NAMED = re.compile(
    r"""(?ix) (?P<name> [\w.-]*(?:password|passwd|passphrase|secret|token|api[_.-]?key|private[_.-]?key|credential)[\w.-]*
        ["']? \s* [=:] \s*) (?: "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | [^\s,;&)}\]]+ )"""
)
_OTHERS = re.compile(
    r"(?i)(?P<name>\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}|(?P<user>://)[^/\s@]+@|\beyJ[\w-]+\.[\w-]+\.[\w-]*"
    r"|-----BEGIN [A-Z ]+-----.*"
)

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


def redacted(text: str) -> str:
    """Return a text without what looks like a secret: passwords, tokens and the like by their names, users in addresses."""
    text = _NAMED.sub(rf"\g<name>{HIDDEN}", text)
    return _OTHERS.sub(_hide, text)


def _hide(found: re.Match[str]) -> str:
    if found["user"]:
        return f"{found['user']}{HIDDEN}@"
    return f"{found['name'] or ''}{HIDDEN}"
