"""Calls about a transaction that Ctrl-C ends at any step."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pykafka.handlers import ThreadingHandler
from pykafka.transactions.calls import Transaction
from pykafka.transactions.states import Event, State, TransactionStatus
from pykafka.transactions.transactions import Transactions
from tests.support.interrupts import Interrupted, interrupting


def test_an_interrupt_at_any_step_of_a_call_lets_the_next_one_in() -> None:
    """All later calls, close() included, waited for a call that was gone."""
    handler = ThreadingHandler()
    transactions: Any = Transactions.__new__(Transactions)
    transactions._engine = Engine(handler)
    transactions._handler, transactions._max_block_ms, transactions.status = handler, 1000, TransactionStatus("t")
    transactions.begin_process()
    steps = 0

    def work() -> None:
        with (turn := handler.Lock()), transactions._call(turn, "begin_transaction()", None):
            handler.now()

    for call in interrupting("transactions.py", "contextlib.py", "interrupts.py", "threads.py"):
        steps += 1
        with suppress(Interrupted):
            call(work)
        assert not transactions._calls.locked(), f"interrupted at step {steps}"
        with (turn := handler.Lock()), transactions._call(turn, "begin_transaction()", 0.0):
            pass
    assert steps > 10


class Engine:
    """The engine of a producer without messages."""

    def __init__(self, handler: ThreadingHandler) -> None:
        self.handler = handler
        self.lock, self.progress = handler.Lock(), handler.Event()
        self.cluster = self.accumulator = self.completion = self.failures = self
        self.socket_timeout_ms = 1000
        self.listener = None

    def open(self) -> None: ...

    def check_open(self) -> None: ...

    def close(self) -> None: ...

    def take(self) -> None: ...

    def queued(self) -> list[Any]:
        return []

    def drop_queued(self, _: Exception) -> int:
        return 0


class Consumer:
    """A consumer that counts how often it was put back."""

    put_back = 0

    def _in_transaction(self, _: object) -> None: ...

    def _check_transactional(self, *_: Any) -> None: ...

    def _put_back(self) -> None:
        self.put_back += 1


def test_an_interrupt_at_any_step_of_a_block_that_begins_leaves_nothing_open() -> None:
    """The transaction is aborted, if it has begun, and its consumer is put back in any case."""
    handler = ThreadingHandler()
    engine: Any = Engine(handler)
    steps = 0
    for call in interrupting("transactions.py", "states.py"):
        steps += 1
        transactions = Transactions(engine, "t", 1000, 1000)
        transactions.status.apply(Event.INIT)
        transactions.status.identified(1, 0)
        consumer: Any = Consumer()
        block = Transaction(transactions, consumer)
        begun = False
        with suppress(Interrupted):
            call(block.__enter__)
            begun = True
        if begun:
            break
        assert transactions.status.state is State.READY, f"interrupted at step {steps}"
        assert consumer.put_back, f"interrupted at step {steps}"
    assert steps > 10
