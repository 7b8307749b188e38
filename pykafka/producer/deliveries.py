"""Notification about messages: `on_delivery` functions on a worker of their own, reports, and failures without a listener."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler, Worker
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

#: How long the worker that calls `on_delivery` waits for more before it ends (s).
IDLE_S = 1.0
#: How long stop() waits for it to end once all is told (s).
JOIN_TIMEOUT_S = 5.0
#: What a failed batch takes besides its messages (bytes).
BATCH_COST = 5 * 1024

#: What is told of a message: why it was not delivered, or None; and the message.
OnDelivery = Callable[["KafkaException | None", "Message"], object]

#: A delivery report: the message, and why it was not delivered, or None.
Report = tuple["Message", "KafkaException | None"]


class Callback:
    """A function in a message's `delivery_report_q`, to be called with the outcome.

    :param fn: that function
    """

    __slots__ = ("fn",)

    def __init__(self, fn: OnDelivery) -> None:
        self.fn = fn


class Settled(Protocol):
    """A batch with the outcome of its messages."""

    told: bool

    def error_of(self, index: int) -> KafkaException | None: ...
    def messages(self) -> Iterator[Message]: ...


class _Waiting:
    """A batch's messages whose functions are still to be called.

    :param batch: says what became of them
    :param messages: those
    :param nbytes: which they take
    """

    __slots__ = ("at", "batch", "messages", "nbytes")

    def __init__(self, batch: Settled, messages: list[Message], nbytes: int) -> None:
        self.batch = batch
        self.messages = messages
        self.nbytes = nbytes
        self.at = 0


class Deliveries:
    """A caller of `on_delivery` functions, in the order in which batches were settled.

    The worker starts when there is something to tell, and ends when there has been nothing for a while.

    State: changes under `_lock`; `_Waiting.at` is the worker's.

    :param handler: whose worker calls
    :param name: of the topic
    :param progress: called when a batch has been told
    :param max_messages: from which on producing waits
    :param max_bytes: from which on producing waits
    """

    def __init__(
        self, handler: Handler, name: str, progress: Callable[[], object], max_messages: int, max_bytes: int
    ) -> None:
        self._handler = handler
        self._name = name
        self._progress = progress
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._lock = handler.Lock()
        self._wake = handler.Event()
        self._step = handler.Event()
        self._here = handler.local()
        self._waiting: deque[_Waiting] = deque()
        self._worker: Worker | None = None
        self._working = False
        self._ending = False
        self._bytes = 0
        #: Messages that are to be told of.
        self.messages = 0
        #: Functions called so far.
        self.calls = 0

    @property
    def full(self) -> bool:
        """Whether so many calls are waiting that producing should pause."""
        return self.messages >= self._max_messages or self._bytes >= self._max_bytes

    @property
    def here(self) -> bool:
        """Whether the caller runs inside an `on_delivery` function: it must not wait for its own worker."""
        return getattr(self._here, "working", False)

    def tell(self, batch: Settled, messages: list[Message], nbytes: int) -> None:
        """Queue the calls for a settled batch's messages; never waits.

        :param nbytes: which they take
        """
        with self._lock:
            self._waiting.append(_Waiting(batch, messages, nbytes))
            self.messages += len(messages)
            self._bytes += nbytes
        self.begin()

    def begin(self) -> None:
        """Start the worker, or wake it, if calls are waiting."""
        with self._lock:
            start = bool(self._waiting) and not (self._working and self._worker is not None and self._worker.is_alive())
            if start:
                try:
                    self._worker = self._handler.spawn(self._run, name=f"pykafka.on_delivery.{self._name}")
                except Exception as error:  # noqa: BLE001 - there may be no more threads; who waits tries again
                    self._handler.report("starting the worker that calls on_delivery", error)
                else:
                    self._working, self._ending = True, False
        self._wake.set()

    def waiting(self) -> list[Settled]:
        """Return the batches whose calls are waiting."""
        with self._lock:
            return [entry.batch for entry in self._waiting]

    def finish(self, patience: float) -> list[tuple[Settled, list[Message]]]:
        """Wait until all calls are done and end the worker; return the calls that it gives up.

        :param patience: how long to wait while no function returns (s)
        """
        if self.here:
            return []  # the worker goes on when this call of a function of its has returned
        calls, deadline = self.calls, self._handler.now() + patience
        while self._waiting and (remaining := deadline - self._handler.now()) > 0:
            self.begin()
            self._step.wait(min(remaining, 1.0))
            self._step.clear()
            if calls != self.calls:
                calls, deadline = self.calls, self._handler.now() + patience
        with self._lock:
            given_up = []
            for entry in self._waiting:
                given_up.append((entry.batch, entry.messages[entry.at :]))
                del entry.messages[entry.at :]
            self._waiting.clear()
            self.messages = self._bytes = 0
            self._ending = True
            worker = self._worker
        self._wake.set()
        if worker is not None and not given_up:
            worker.join(JOIN_TIMEOUT_S)
        return given_up

    def _run(self) -> None:
        self._here.working = True
        try:
            while (entry := self._next()) is not None:
                self._call(entry)
        except BaseException:
            # Ctrl-C, a kill or a function's own exit: it ends this worker, but keeps nobody from being told.
            with self._lock:
                self._working = False
            self.begin()
            raise

    def _next(self) -> _Waiting | None:
        """Return the next calls; None if this worker must end."""
        waited = False
        while True:
            with self._lock:
                if self._waiting:
                    return self._waiting[0]
                if waited or self._ending:
                    self._working = False
                    return None
            waited = not self._wake.wait(IDLE_S)
            self._wake.clear()

    def _call(self, entry: _Waiting) -> None:
        batch = entry.batch
        while entry.at < len(entry.messages):
            message = entry.messages[entry.at]
            entry.at += 1
            callback, message.delivery_report_q = message.delivery_report_q, None
            if callback is None:
                continue
            try:
                callback.fn(batch.error_of(message._index), message)
            except Exception as error:  # noqa: BLE001 - a user's function
                self._handler.report(f"on_delivery of a message to {self._name}", error)
            self.calls += 1
            if entry.at % 256 == 0:
                self._handler.breathe()
        with self._lock:
            if self._waiting and self._waiting[0] is entry:
                self._waiting.popleft()
                self.messages -= len(entry.messages)
                self._bytes -= entry.nbytes
        batch.told = True
        self._step.set()
        self._progress()


class _Inbox:
    """The reports of one thread or greenlet; `get` as a queue's.

    The standard library's queue keeps its lock for ever where Ctrl-C comes at the wrong step of `get`, and whoever puts
    something into it then, as the reader of a connection, waits for that lock.

    :param handler: supplies event and clock
    """

    __slots__ = ("_come", "_handler", "_unread")

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
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
    """The delivery reports, in a queue for each thread or greenlet that produces.

    They are documented to be kept until they are read. Who does not read them is told so in the log, once.

    State: `_failures` changes under `_lock`.

    :param handler: makes the queues
    :param name: of the topic
    :param max_messages: unread ones in a queue from which on a warning is logged
    :param max_bytes: which their messages take from which on a warning is logged
    """

    def __init__(self, handler: Handler, name: str, max_messages: int, max_bytes: int) -> None:
        self._handler = handler
        self._name = name
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._here = handler.local()
        self._lock = handler.Lock()
        self._failures = 0
        self._warned = False

    def queue(self) -> _Inbox:
        """Return the queue of this thread or greenlet."""
        found: _Inbox | None = getattr(self._here, "queue", None)
        if found is None:
            found = self._here.queue = _Inbox(self._handler)
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
        if unread >= self._max_messages or unread * message_size >= self._max_bytes:
            self._warned = True
            log.warning(
                "%d delivery reports of messages to %s are unread, and take memory until they are read: have the thread or "
                "greenlet that produces call get_delivery_report() for each, or use on_delivery instead",
                unread,
                self._name,
            )

    def get(self, block: bool, timeout: float | None) -> Report:
        """Return the next report of this thread or greenlet; as a queue's `get`."""
        report = self.queue().get(block, timeout)
        if report[1] is not None:
            with self._lock:
                self._failures -= 1
        return report

    def tell_unread(self) -> None:
        """Log the number of failed messages whose reports nobody has read."""
        if self._failures:
            log.error(
                "%d messages to %s were not delivered, and nobody has read the reports that say so; get_delivery_report() "
                "has them still, in the thread or greenlet that has produced",
                self._failures,
                self._name,
            )


class Failures:
    """Failed batches that no caller has heard of yet.

    State: changes under the producer's lock.

    :param max_messages: from which on producing raises
    :param max_bytes: from which on producing raises
    """

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._batches: list[tuple[Settled, Collection[int]]] = []
        self._bytes = 0
        #: How many messages have failed.
        self.count = 0

    @property
    def full(self) -> bool:
        """Whether there are so many failures that `produce()` must raise them."""
        return self.count >= self._max_messages or self._bytes >= self._max_bytes

    def add(self, batch: Settled, count: int, nbytes: int, told: Collection[int] = ()) -> None:
        """Add a failed batch.

        :param count: messages in it
        :param nbytes: which they take
        :param told: indexes of those of which somebody was told
        """
        self._batches.append((batch, told))
        self.count += count - len(told)
        self._bytes += nbytes + BATCH_COST

    def empty(self) -> Failures:
        """Return an empty object with the same bounds."""
        return Failures(self._max_messages, self._max_bytes)

    def take(self) -> Failures:
        """Take all failures out, and return them."""
        taken = self.empty()
        taken.restore(self)
        self._batches, self.count, self._bytes = [], 0, 0
        return taken

    def restore(self, taken: Failures) -> None:
        """Put back failures that could not be raised."""
        self._batches = taken._batches + self._batches
        self.count += taken.count
        self._bytes += taken._bytes

    def pairs(self) -> list[tuple[Message, KafkaException]]:
        """Return each message with its error."""
        found: list[tuple[Any, Any]] = []
        for batch, told in self._batches:
            for message in batch.messages():
                error = batch.error_of(message._index)
                if error is not None and message._index not in told:
                    found.append((message, error))
        return found
