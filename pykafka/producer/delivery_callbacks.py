"""`DeliveryCallbacks`: calls `on_delivery` functions, on a worker of their own, in the contexts of their `produce()`."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.metrics.listener import CALLBACK
from pykafka.producer.delivery import Delivery, call_each

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler, Worker
    from pykafka.metrics.listener import ClientListener
    from pykafka.producer.buffer_pool import Bounds
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

#: How long the worker that calls `on_delivery` waits for more before it ends (s).
IDLE_S = 1.0
#: The functions of a batch that take longer are an event (s).
LONG_S = 0.1
#: How long stop() waits for it to end once all is reported (s).
JOIN_TIMEOUT_S = 5.0

#: The arguments of a callback: why it was not delivered, or None; and the message.
OnDelivery = Callable[["KafkaException | None", "Message"], object]


class Callback:
    """A function in a message's `delivery_report_q`, to be called with the outcome.

    :param fn: that function
    :param reports: whether it reports the outcome to the application; False if it only observes
    """

    __slots__ = ("fn", "reports")

    def __init__(self, fn: Callable[[Any, Any], object], reports: bool = True) -> None:
        self.fn = fn
        self.reports = reports


class CompletedBatch(Protocol):
    """A batch with the outcome of its messages."""

    reported: bool

    def error_of(self, index: int) -> KafkaException | None: ...
    def messages(self) -> Iterator[Message]: ...


class _Waiting:
    """A batch's messages whose functions are still to be called.

    :param batch: says what became of them
    :param messages: those
    :param contexts: in which their functions are called
    :param nbytes: which they take
    """

    __slots__ = ("at", "batch", "contexts", "messages", "nbytes")

    def __init__(
        self, batch: CompletedBatch, messages: list[Message], contexts: list[Context | None], nbytes: int
    ) -> None:
        self.batch = batch
        self.messages = messages
        self.contexts = contexts
        self.nbytes = nbytes
        self.at = 0


class DeliveryCallbacks:
    """A caller of `on_delivery` functions, in the order in which batches were completed.

    The worker starts when a call is waiting, and ends when there has been nothing for a while.

    State: changes under `_lock`; `_Waiting.at` is the worker's.

    :param handler: whose worker calls
    :param name: of the topic
    :param progress: called when a batch was reported
    :param bounds: from which on producing waits
    :param listener: hears of batches whose functions have taken long; None: nobody listens
    """

    def __init__(
        self,
        handler: Handler,
        name: str,
        progress: Callable[[], object],
        bounds: Bounds,
        listener: ClientListener | None = None,
    ) -> None:
        self._listener = listener
        self._handler = handler
        self._name = name
        self._progress = progress
        self._bounds = bounds
        self._lock = handler.Lock()
        self._wake = handler.Event()
        self._step = handler.Event()
        self._here = handler.local()
        self._waiting: deque[_Waiting] = deque()
        self._worker: Worker | None = None
        self._working = False
        self._ending = False
        #: What stands for the worker that calls, for `pykafka.handlers.whereabouts`; None for none.
        self.worker_mark: object = None
        self._bytes = 0
        #: Messages whose calls are waiting, and whether they are so many that producing should pause.
        self.messages = 0
        self.full = False
        self._called = 0
        #: How many of them have raised, and the first error.
        self.raised = 0
        self.first_raised: BaseException | None = None

    @property
    def calls(self) -> int:
        """How many functions were called so far, for those who wait while there is progress."""
        try:
            return self._called + self._waiting[0].at
        except IndexError:
            return self._called

    @property
    def here(self) -> bool:
        """Whether the caller runs inside an `on_delivery` function: it must not wait for its own worker."""
        return getattr(self._here, "working", False)

    def report(
        self, batch: CompletedBatch, messages: list[Message], contexts: list[Context | None], nbytes: int
    ) -> None:
        """Queue the calls for a completed batch's messages; never waits.

        :param contexts: of the `produce()` of each, in which its function is called
        :param nbytes: which they take
        """
        with self._lock:
            self._waiting.append(_Waiting(batch, messages, contexts, nbytes))
            self._count(len(messages), nbytes)
        self.begin()

    def _count(self, messages: int, nbytes: int) -> None:
        self.messages += messages
        self._bytes += nbytes
        self.full = self._bounds.reached(self.messages, self._bytes)

    def begin(self) -> None:
        """Start the worker, or wake it, if calls are waiting."""
        with self._lock:
            start = bool(self._waiting) and not (self._working and is_at_work(self._worker))
            if start:
                self._worker = worker = OwnedWorker(self._handler, self._run, f"pykafka.on_delivery.{self._name}")
                self._working, self._ending = True, False
                try:
                    worker.start()
                except Exception as error:  # noqa: BLE001 - there may be no more threads; waiting callers try again
                    self._handler.report("starting the worker that calls on_delivery", error)
        self._wake.set()

    def waiting(self) -> list[CompletedBatch]:
        """Return the batches whose calls are waiting."""
        with self._lock:
            return [entry.batch for entry in self._waiting]

    def finish(self, patience: float, total: bool = False) -> list[tuple[CompletedBatch, list[Message]]]:
        """Wait until all calls are done and end the worker; return the calls that it gives up.

        :param patience: how long to wait while no function returns (s)
        :param total: whether that is all the time there is, also if functions return
        """
        if self.here:
            return []  # the worker continues when its present callback has returned
        calls, deadline = self.calls, self._handler.now() + patience
        while self._waiting and (remaining := deadline - self._handler.now()) > 0:
            self.begin()
            self._step.wait(min(remaining, 1.0))
            self._step.clear()
            if calls != self.calls and not total:
                calls, deadline = self.calls, self._handler.now() + patience
        with self._lock:
            given_up = []
            for entry in self._waiting:
                given_up.append((entry.batch, entry.messages[entry.at :]))
                del entry.messages[entry.at :]
            self._waiting.clear()
            self._count(-self.messages, -self._bytes)
            self._ending = True
            worker = self._worker
        self._wake.set()
        if worker is not None and not given_up:
            worker.join(min(patience, JOIN_TIMEOUT_S) if total else JOIN_TIMEOUT_S)
        return given_up

    def _run(self) -> None:
        self._here.working = True
        self.worker_mark = self._handler.here()
        try:
            while (entry := self._next()) is not None:
                self._call(entry)
        except BaseException:
            # Ctrl-C, a kill or a function's own exit: it ends this worker, but the calls that are left still come.
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

    def _raised(self, message: Any, error: BaseException) -> None:
        where = self._name
        if type(message) is Delivery:
            where = f"{message.topic}/{message.partition} at offset {message.offset}"
        self._handler.report(f"on_delivery of a message to {where}", error)
        with self._lock:
            self.raised += 1
            self.first_raised = self.first_raised or error

    def take_raised(self) -> tuple[int, BaseException | None]:
        """Return how many functions have raised since the last call, and the first error."""
        with self._lock:
            found = self.raised, self.first_raised
            self.raised, self.first_raised = 0, None
        return found

    def _call(self, entry: _Waiting) -> None:
        batch, messages, began = entry.batch, entry.messages, self._handler.now()
        while entry.at < len(messages):
            try:
                failed = call_each(entry, messages, entry.contexts, entry.at + 256, batch.error_of)
            except BaseException as error:  # a function's own exit, or what ends this worker amid one
                if entry.at:
                    self._raised(messages[entry.at - 1], error)
                raise
            if failed is not None:
                self._raised(*failed)
            self._handler.breathe()
        with self._lock:
            if self._waiting and self._waiting[0] is entry:
                self._waiting.popleft()
                self._count(-len(entry.messages), -entry.nbytes)
                self._called += len(entry.messages)
        batch.reported = True
        self._step.set()
        self._progress()
        seconds = self._handler.now() - began
        if seconds >= LONG_S and self._listener is not None:
            self._listener.on_event(CALLBACK, self._name, seconds, f"{len(messages)} calls of on_delivery")
