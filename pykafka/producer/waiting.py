"""`Waits`: how callers of `Delivery.get()` wait for a batch, and have it sent."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING

from pykafka.exceptions import ProducerStoppedException, ResponseTimeoutError
from pykafka.utils.error_handlers import valid_timeout

if TYPE_CHECKING:
    from pykafka.producer.batch import MessageBatch
    from pykafka.producer.engine import ProducerEngine

#: How often a waiting caller looks whether a sender has ended by an error (s).
LOOK_S = 1.0
#: What a batch may take beyond its delivery timeout and the last request's (s).
MARGIN_S = 5.0


class Waits:
    """The waits for batches of one producer, in one process.

    It refers to the producer weakly: an unfinished batch keeps it alive, a finished one need not.

    :param engine: of the producer
    """

    def __init__(self, engine: ProducerEngine) -> None:
        self._engine = weakref.ref(engine)
        self._handler = engine.handler
        self._lock = engine.lock

    def wait(self, batch: MessageBatch, index: int, timeout: float | None) -> None:
        """Wait until a batch is settled, and raise what went wrong with one of its messages; as of `Delivery.get`."""
        if not batch.done:
            self._settled(batch, timeout)
        error = batch.error_of(index)
        if error is not None:
            engine = self._engine()
            if engine is not None:
                engine.settlement.told(batch, index)
            raise error.again()

    def _settled(self, batch: MessageBatch, timeout: float | None) -> None:
        engine = self._engine()
        if engine is None or engine.waits is not self:
            raise ProducerStoppedException(
                "the producer of this message is another process's: this one was forked, and never hears of it",
                topic=batch.topic,
                partition=batch.partition_id,
            )
        self._handler.require_wait()  # another loop's thread would send and read beside the client's
        deadline = self._handler.now() + (self._longest(engine) if timeout is None else valid_timeout(timeout))
        with self._lock:
            if batch.event is None:
                batch.event = self._handler.Event()
            batch.urgent = True
            queue = engine.routing.queues.get((batch.topic, batch.partition_id))
            owner = None if queue is None else queue.owner
        if owner is not None and deadline > self._handler.now():
            owner.deliver(batch, deadline)
        while not batch.done:
            engine.raise_worker_exception()
            left = deadline - self._handler.now()
            if left <= 0:
                raise ResponseTimeoutError(
                    f"the message is not acknowledged after {timeout:g} s; it is still under way"
                    if timeout is not None
                    else "the sender has not said what became of the message; close() the producer",
                    topic=batch.topic,
                    partition=batch.partition_id,
                )
            batch.event.wait(min(left, LOOK_S))

    def _longest(self, engine: ProducerEngine) -> float:
        options = engine.options
        request = max(options.ack_timeout_ms, engine.cluster.socket_timeout_ms) / 1000
        return min(options.delivery_timeout_s + request + MARGIN_S, math.inf)
