"""`process_number`: the number of this process, without a system call; and forks that Python does not notice."""

from __future__ import annotations

import os

from pykafka.exceptions import UnnoticedForkError

_number = os.getpid()


def process_number() -> int:
    """Return the number of this process, as of its start or of the last fork that Python's hook reported."""
    return _number


def check_process() -> None:
    """Raise an error in a child that was forked without Python's hook; this makes a system call.

    The workers of the client do not exist in such a child, and its connections are still those of the parent: without this
    check a call would wait for ever, or take the answers that the parent waits for.

    :raises UnnoticedForkError: `os.register_at_fork` did not work here
    """
    if os.getpid() != _number:
        raise UnnoticedForkError(
            f"process {os.getpid()} was forked from process {_number} without Python's hook for forks, so the Kafka client "
            "of the parent cannot be used in it: make the client in this process, or fork by os.fork() (uWSGI: set "
            "lazy-apps = true)"
        )


def notice_fork() -> bool:
    """Return whether this process is a child that was forked without Python's hook; it counts as reported from then on."""
    if os.getpid() == _number:
        return False
    _after_fork()
    return True


def _after_fork() -> None:
    global _number
    _number = os.getpid()


os.register_at_fork(after_in_child=_after_fork)
