"""Leftovers of a test: threads, greenlets, child processes, descriptors, and blocked signals."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import weakref
from typing import Any

from tests.support import loops

#: The watch for stalls looks so often (s) whether its clients were dropped; it hears only of those that are closed.
WATCH, WATCH_S = "thread pykafka.Watch", 5.0

_greenlets: weakref.WeakSet[Any] = weakref.WeakSet()
_watching = False


class Belongings:
    """The threads, greenlets, children and descriptors of this process at one moment."""

    def __init__(self) -> None:
        _watch_greenlets()
        # A loop has its own threads for offloaded calls, and ends them itself.
        self.threads = {
            thread.ident: thread.name
            for thread in threading.enumerate()
            if not thread.name.startswith(("asyncio_", "uvloop_"))
        }
        self.tasks = loops.tasks()
        # Those that are done and merely not collected are nobody's fault.
        self.greenlets = {id(one): repr(one) for one in _greenlets if not one.dead}
        self.children = _children()
        self.descriptors = _descriptors()
        # Of this thread: every process that is started from it inherits them.
        self.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.answers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def without(self, before: Belongings) -> list[str]:
        """Return the names of belongings that are new since then."""
        return [
            *(f"thread {name}" for ident, name in self.threads.items() if ident not in before.threads),
            *(f"task {name}" for name in self.tasks - before.tasks),
            *(f"greenlet {name}" for ident, name in self.greenlets.items() if ident not in before.greenlets),
            *(f"process {command}" for pid, command in self.children.items() if pid not in before.children),
            *(
                f"descriptor {number} ({target})"
                for number, target in self.descriptors.items()
                if before.descriptors.get(number) != target
            ),
            *(f"signal {signal.Signals(number).name} blocked" for number in self.blocked - before.blocked),
            *(
                f"signal {number.name} answered by {answer}"
                for number, answer in self.answers.items()
                if before.answers[number] is not answer
            ),
        ]


def left_since(before: Belongings, patience_s: float = 3.0, processes: bool = True) -> list[str]:
    """Return the names of belongings that are new since then, after those about to end had time to end.

    :param patience_s: how long to wait for that (s)
    :param processes: False: child processes and pipes to them may stay
    """
    deadline = time.monotonic() + patience_s
    while left := [one for one in Belongings().without(before) if processes or not _of_processes(one)]:
        if time.monotonic() > deadline + (WATCH_S if WATCH in left else 0.0):
            return left
        gc.collect()
        # Greenlets and tasks that are about to end must get their turn, where there are any.
        if "gevent" in sys.modules:
            sys.modules["gevent"].sleep(0.02)
        loops.pause(0.02)
    return []


def _of_processes(one: str) -> bool:
    return one.startswith("process ") or "(pipe:" in one


def _watch_greenlets() -> None:
    global _watching
    if not _watching and "gevent" in sys.modules:
        _watching = True
        sys.modules["gevent"].Greenlet.add_spawn_callback(_greenlets.add)


def _children() -> dict[int, str]:
    found = {}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as file:
                numbers = file.read().split()
            for number in numbers:
                with open(f"/proc/{number}/cmdline", "rb") as file:
                    found[int(number)] = file.read(200).replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
    return found


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one that listed the directory
            continue
        # A hub makes its own when it is first asked for, and keeps them as long as its thread lives. The locks of ports of
        # brokers are this process's until it ends.
        if not target.startswith("anon_inode:[event") and not target.endswith("/pykafka/ports.lock"):
            found[int(name)] = target
    return found
