"""`attend`: how a client gets along with uWSGI, which forks without Python's hook. Loaded only in a process of uWSGI."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pykafka.handlers.base import process_number

log = logging.getLogger(__name__)


def attend() -> None:
    """Make uWSGI report its fork, and log a warning for each option that the client needs and uWSGI lacks.

    The first client of a process calls this. In uWSGI's master the fork is still to come; in a worker it is over.
    """
    uwsgi = sys.modules["uwsgi"]
    options: dict[str, object] = uwsgi.opt
    if uwsgi.worker_id() == 0 and uwsgi.masterpid():
        _call_after_fork(uwsgi, report_fork)
        log.warning(
            "a Kafka client was made in uWSGI's master, before the fork: a worker hangs if a thread of the client has the "
            "interpreter's lock at that moment. Set lazy-apps = true, and each worker makes its own client"
        )
    if not {"enable-threads", "threads", "gevent"} & options.keys():
        log.warning(
            "uWSGI runs without enable-threads = true, so the threads of the Kafka client stand still between two requests: "
            "queued messages are late, and lost if the worker ends then. Set it"
        )


def report_fork() -> None:
    """Call Python's hooks for forks in this child, unless uWSGI has done so (`py-call-osafterfork`)."""
    if process_number() != os.getpid():
        # The same call that `py-call-osafterfork` makes, with the interpreter's lock held.
        ctypes.pythonapi.PyOS_AfterFork_Child()


def _call_after_fork(uwsgi: Any, function: Callable[[], None]) -> None:
    """Add a function to those that uWSGI calls in each worker after the fork."""
    given = getattr(uwsgi, "post_fork_hook", None)
    if given is None:
        # uWSGI's own decorators replace the hook when they are imported: import them first, and join their list.
        try:
            import_module("uwsgidecorators").postfork_chain.append(function)
        except Exception:  # noqa: BLE001 - not installed, or refused: then there is no list to join
            uwsgi.post_fork_hook = function
        return

    def both() -> None:
        function()
        given()

    uwsgi.post_fork_hook = both
