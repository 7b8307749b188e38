"""The end of the program in bounded time after a request, whatever foreign code does."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from types import TracebackType

import click

from pykafka.handlers import ThreadingHandler

#: The escape sequence that shows the terminal's cursor, which a progress display hides.
_SHOW_CURSOR = b"\x1b[?25h"


class Patience:
    """A watchdog that ends the process if it does not end by itself in time.

    A worker of its own watches: the main thread may wait in foreign code, where deadlines do not work.

    :param timeout: how long an orderly end may take (s)
    :param last_words: the message at a forced end
    :param kill: called before that, to end processes that would outlive this one and go on printing
    """

    def __init__(self, timeout: float, last_words: str, kill: Callable[[], None]) -> None:
        self._timeout = timeout
        self._last_words = last_words
        self._kill = kill
        self._status = 1
        handler = ThreadingHandler()
        self._asked, self._ended = handler.Event(), handler.Event()
        self._worker = handler.spawn(self._watch, name="patience")

    def begin(self, status: int) -> None:
        """Start the countdown; a signal handler may call it, once.

        :param status: the exit status at the deadline
        """
        self._status = status
        self._asked.set()

    def __enter__(self) -> Patience:
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
            faulthandler.dump_traceback(sys.__stderr__ or 2)
            self.give_up(self._status)

    def give_up(self, status: int) -> None:
        """End the process at once, without the interpreter's cleanup.

        :param status: the exit status
        """
        self._kill()
        if sys.stdout.isatty():
            os.write(sys.stdout.fileno(), _SHOW_CURSOR)
        click.echo(f"kafka-tools: {self._last_words}", err=True)
        sys.stdout.flush()
        os._exit(status)
