"""`Closure`: the end of an object, which the next call finishes after an interrupt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException
from pykafka.handlers.turnstile import Turnstile

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykafka.handlers.base import Handler


class Closure:
    """The steps that end an object: one call at a time takes them, until a call has taken all of them.

    A greenlet's timeout, a cancellation or Ctrl-C may come at any wait. If the first call set a flag that all later calls heed,
    an interrupt would leave the rest undone for good.

    :param handler: makes the locks
    :param complete: whether there is nothing to end yet
    """

    def __init__(self, handler: Handler, complete: bool = False) -> None:
        self._handler = handler
        self._turnstile = Turnstile(handler)
        #: Whether the steps were taken to their end.
        self.complete = complete

    def run(self, steps: Callable[[], object]) -> None:
        """Take the steps, unless that was done or another call does it now; they begin again after an interrupt.

        :param steps: may run again after any of their waits; a KafkaException that they raise counts as their end
        """
        with (turn := self._handler.Lock()):
            if self.complete or not self._turnstile.enter(turn):
                return
            try:
                steps()
            except KafkaException:
                self.complete = True
                raise
            self.complete = True
