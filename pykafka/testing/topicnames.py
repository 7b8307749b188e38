"""The names that topics may have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pykafka.exceptions import InvalidTopic

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_MAX_LENGTH: Final = 249


def check_name(name: str) -> None:
    """Check a name.

    :raises InvalidTopic: no topic may be called so
    """
    if problem := _problem(name):
        raise InvalidTopic(f"Topic name is invalid: {problem}")


def is_legal(name: str) -> bool:
    """Return whether a topic may have this name."""
    return _problem(name) is None


def _problem(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_collision(name: str, others: Iterable[str]) -> None:
    """Check that a name differs from others by more than a dot for an underscore, as metrics show both alike.

    :raises InvalidTopic: it does not
    """
    alike = name.replace(".", "_")
    for other in others:
        if other.replace(".", "_") == alike:
            raise InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")
