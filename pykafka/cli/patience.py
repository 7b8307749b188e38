"""The end of a program that others can hold up: in bounded time after it was asked to, whatever they do."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from types import TracebackType

import click

from pykafka.handlers import ThreadingHandler

#: What makes a terminal show its cursor, which a progress display has hidden.
_SHOW_CURSOR = b"\x1b[?25h"


class Patience:
    """Ends the process when it has not ended by itself in time.

    A worker of its own watches, as the main thread may wait in somebody else's code, where no deadline is to be had.

    :param timeout: how long an end may take (s)
    :param last_words: what to say then
    :param kill: called before that, to end what would outlive this process and talk on
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
        """Have the time begin; a signal handler may, once.

        :param status: to exit with where it runs out
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
            # Where every thread is: what somebody who looks into it needs most.
            faulthandler.dump_traceback(sys.__stderr__ or 2)
            self.give_up(self._status)

    def give_up(self, status: int) -> None:
        """End the process here and now, without what is usually done at its end.

        :param status: to exit with
        """
        self._kill()
        if sys.stdout.isatty():
            os.write(sys.stdout.fileno(), _SHOW_CURSOR)
        click.echo(f"kafka-tools: {self._last_words}", err=True)
        sys.stdout.flush()
        os._exit(status)
