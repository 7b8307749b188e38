"""`process_number`: which process this is, without a system call: each message asks that several times."""

from __future__ import annotations

import os

_number = os.getpid()


def process_number() -> int:
    """Return the number of this process, as of its start or of the fork that made it."""
    return _number


def _after_fork() -> None:
    global _number
    _number = os.getpid()


os.register_at_fork(after_in_child=_after_fork)
