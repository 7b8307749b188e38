"""The end of the program in bounded time after a request, whatever foreign code does."""

from __future__ import annotations

import faulthandler
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from pykafka.handlers import ThreadingHandler
from pykafka.handlers.streams import PollWaiter

#: The escape sequence that shows the terminal's cursor, which a progress display hides.
_SHOW_CURSOR = b"\x1b[?25h"
STDOUT, STDERR = 1, 2
#: What a pipe takes without a wait if it takes anything (bytes): the least PIPE_BUF of POSIX.
_AT_ONCE = 512


def write_at_once(fd: int, data: bytes) -> None:
    """Write to a descriptor as much as it takes without a wait: whoever reads it may have stopped.

    A signal handler may call it, as it uses no file of Python, whose lock the interrupted code may hold.

    :param fd: a descriptor
    :param data: what to write
    """
    with suppress(OSError):  # closed, or not read any more
        while data and PollWaiter(fd, True).wait(0):
            data = data[os.write(fd, data[:_AT_ONCE]) :]


class ShutdownWatchdog:
    """A watchdog that ends the process if it does not end by itself in time.

    A worker of its own watches: the main thread may wait in foreign code, where deadlines do not work.

    :param timeout: how long an orderly end may take (s)
    :param last_words: the message at a forced end
    :param kill: called before that, to end processes that would outlive this one and continue printing
    """

    def __init__(self, timeout: float, last_words: str, kill: Callable[[], None]) -> None:
        self._timeout = timeout
        self._last_words = last_words
        self._kill = kill
        self._status = 1
        handler = ThreadingHandler()
        self._asked, self._ended = handler.Event(), handler.Event()
        self._worker = handler.spawn(self._watch, name="watchdog")

    def begin(self, status: int) -> None:
        """Start the countdown; a signal handler may call it, once.

        :param status: the exit status at the deadline
        """
        self._status = status
        self._asked.set()

    def __enter__(self) -> ShutdownWatchdog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._asked.set()
        self._worker.join()

    def _watch(self) -> None:
        self._asked.wait()
        if not self._ended.wait(self._timeout):
            # The stacks of all threads: the most useful fact for an investigation.
            with tempfile.TemporaryFile() as stacks:
                faulthandler.dump_traceback(stacks)
                stacks.seek(0)
                write_at_once(STDERR, stacks.read())
            self.give_up(self._status)

    def give_up(self, status: int) -> None:
        """End the process at once, without the interpreter's cleanup.

        :param status: the exit status
        """
        self._kill()
        if sys.stdout.isatty():
            write_at_once(STDOUT, _SHOW_CURSOR)
        write_at_once(STDERR, f"kafka-tools: {self._last_words}\n".encode())
        os._exit(status)
