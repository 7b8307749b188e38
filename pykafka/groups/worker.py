"""The worker that looks after a member's share, and does not keep the member alive."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.metadata.lifecycle import Tether

if TYPE_CHECKING:
    from pykafka.handlers.base import EventType

#: How often a worker that waits looks whether its consumer is still there (s).
GONE_S = 5.0


class Tended(Protocol):
    """The group consumer whose share the worker looks after."""

    _here: Any

    def _turn(self, stopping: EventType) -> tuple[EventType, float] | None:
        """Do what is due; return what to wait for, and for how long (s), or None to end the worker."""

    def _worker_ended(self, stopping: EventType, error: BaseException) -> None:
        """Take note that an error has ended the worker."""


def look_after(
    reference: weakref.ref[Tended], stopping: EventType, leave: Callable[[], None], pid: int, tether: Tether
) -> None:
    """Look after a consumer's share: the worker's main function. An error that ends the worker ends the consumer.

    The worker holds the consumer only while it does something, and leaves the group when the application has dropped it.

    :param stopping: set when the worker is to end
    :param leave: leaves the group; does not refer to the consumer
    :param pid: of the process that has started the worker
    :param tether: makes it look for the consumer when the client is closed
    """
    try:
        while True:
            consumer = reference()
            if consumer is None:
                if not stopping.is_set() and pid == os.getpid():  # a forked child has a copy of a greenlet
                    leave()
                return
            consumer._here.is_worker = True
            waiting = consumer._turn(stopping)
            del consumer
            if waiting is None:
                return
            event, seconds = waiting
            tether.wake = event
            event.wait(min(seconds, GONE_S))
    except BaseException as error:
        consumer = reference()
        if consumer is not None:
            consumer._worker_ended(stopping, error)
            del consumer
        if isinstance(error, (KeyboardInterrupt, SystemExit)):  # perhaps a signal's, meant for the program
            raise
