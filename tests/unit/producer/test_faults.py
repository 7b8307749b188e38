"""Producers that are interrupted: nobody else waits for them."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress
from typing import Any

import pytest

from pykafka.compat.delivery_reports import Reports
from pykafka.handlers import ThreadingHandler
from pykafka.producer.accumulator import PartitionQueue, take_next
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.producer.buffer_pool import Bounds
from pykafka.protocol.message import Message


class Interrupted(BaseException):
    """The exception that Ctrl-C raises in a worker."""


def test_ctrl_c_at_any_step_of_a_look_for_reports_holds_up_nobody() -> None:
    """A queue of the standard library kept its lock: the next look, and whoever had a report for it, waited for ever."""
    handler = ThreadingHandler()
    reports = Reports(handler, "t", Bounds(100_000, 1_000_000))
    message = Message(b"x", delivery_report_q=reports.queue())
    step = interrupt_at = 0

    def trace(*_: Any) -> Any:
        nonlocal step
        step += 1
        if step == interrupt_at:
            raise Interrupted
        return trace

    while step >= interrupt_at:  # until it got to its end
        step, interrupt_at = 0, interrupt_at + 1
        with suppress(Interrupted, handler.QueueEmptyError):
            sys.settrace(trace)
            try:
                reports.get(True, 0.001)
            finally:
                sys.settrace(None)
        worker = handler.spawn(reports.put, [(message, None)], 1.0)
        assert worker.join(10), f"interrupted at step {interrupt_at}"
        assert reports.get(True, 10) == (message, None)
    assert interrupt_at > 10


def test_a_batch_whose_begin_was_interrupted_goes_next() -> None:
    """The batch did not know its place in the window: the sender failed over it, and the producer with it."""

    class Interrupting(deque[Any]):
        def append(self, item: Any) -> None:
            super().append(item)
            raise Interrupted

    batch = ProducerBatch("t", 0, BrokerQueue(ThreadingHandler().Event(), 1, 1, 1), 0.0, None)
    queue = PartitionQueue(0)
    queue.closed_batches.append(batch)
    queue.window.batches = Interrupting()
    with pytest.raises(Interrupted):
        take_next(queue, None)
    again: Any = take_next(queue, None)
    assert again is batch
    queue.window.adopt(1, 0)
    queue.window.number(batch.in_flight)
    assert batch.in_flight.sequence == 0
