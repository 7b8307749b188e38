"""`Reports`: the delivery reports that `get_delivery_report()` reads."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.producer.buffer_pool import Bounds
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

#: A delivery report: the message, and why it was not delivered, or None.
Report = tuple["Message", "KafkaException | None"]


class _Inbox:
    """The reports of one thread, greenlet or task; `get` as a queue's.

    The standard library's queue keeps its lock for ever where Ctrl-C comes at the wrong step of `get`, and any worker that puts
    something into it then, as the reader of a connection, waits for that lock.

    :param handler: supplies event and clock
    :param reports: of the producer
    """

    __slots__ = ("_come", "_handler", "_unread", "reports")

    def __init__(self, handler: Handler, reports: Reports) -> None:
        self._handler = handler
        self.reports = reports
        self._come = handler.Event()
        self._unread: deque[Report] = deque()

    def put(self, report: Report) -> None:
        self._unread.append(report)
        self._come.set()

    def qsize(self) -> int:
        return len(self._unread)

    def get(self, block: bool, timeout: float | None) -> Report:
        if block and timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        now = self._handler.now
        deadline = math.inf if timeout is None else now() + timeout
        while not self._unread:
            if not block or (left := deadline - now()) <= 0:
                raise self._handler.QueueEmptyError
            self._come.clear()
            if not self._unread:
                self._come.wait(None if timeout is None else left)
        return self._unread.popleft()


class Reports:
    """The delivery reports, in a queue for each thread, greenlet or task that produces.

    Reports are kept until they are read, as documented. Where nobody reads them, a warning is logged once.

    State: `_failures` changes under `_lock`.

    :param handler: makes the queues
    :param name: of the topic
    :param bounds: of the unread ones in a queue, from which on a warning is logged
    """

    def __init__(self, handler: Handler, name: str, bounds: Bounds) -> None:
        self._handler = handler
        self._name = name
        self._bounds = bounds
        self._here = handler.worker_local()
        self._lock = handler.Lock()
        self._failures = 0
        self._warned = False

    def queue(self) -> _Inbox:
        """Return the queue of this thread, greenlet or task."""
        found: _Inbox | None = getattr(self._here, "queue", None)
        if found is None:
            found = self._here.queue = _Inbox(self._handler, self)
        return found

    def put(self, reports: Collection[Report], message_size: float) -> None:
        """Put each report into the queue that its message names.

        :param message_size: what such a message takes (bytes)
        """
        failures = 0
        queue: _Inbox | None = None
        for report in reports:
            queue = report[0].delivery_report_q
            assert queue is not None
            queue.put(report)
            failures += report[1] is not None
        if failures:
            with self._lock:
                self._failures += failures
        if queue is None or self._warned:
            return
        unread = queue.qsize()
        if self._bounds.reached(unread, unread * message_size):
            self._warned = True
            log.warning(
                "%d delivery reports of messages to %s are unread, and take memory until they are read: have the thread, "
                "greenlet or task that produces call get_delivery_report() for each, or use on_delivery instead",
                unread,
                self._name,
            )

    def get(self, block: bool, timeout: float | None) -> Report:
        """Return the next report of this thread, greenlet or task; as a queue's `get`."""
        report = self.queue().get(block, timeout)
        if report[1] is not None:
            with self._lock:
                self._failures -= 1
        return report

    def log_unread(self) -> None:
        """Log the number of failed messages whose reports nobody has read."""
        if self._failures:
            log.error(
                "%d messages to %s were not delivered, and nobody has read the reports that say so; get_delivery_report() "
                "has them still, in the thread, greenlet or task that has produced",
                self._failures,
                self._name,
            )
