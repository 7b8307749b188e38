"""Calls about a transaction that Ctrl-C ends at any step."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pykafka.handlers import ThreadingHandler
from pykafka.transactions.states import Ledger
from pykafka.transactions.transactions import Transactions
from tests.support.interrupts import Interrupted, interrupting


def test_an_interrupt_at_any_step_of_a_call_lets_the_next_one_in() -> None:
    """All later calls, close() included, waited for a call that was gone."""
    handler = ThreadingHandler()
    transactions: Any = Transactions.__new__(Transactions)
    transactions._handler, transactions._max_block_ms, transactions.ledger = handler, 1000, Ledger("t")
    transactions.begin_process()
    steps = 0

    def work() -> None:
        with (turn := handler.Lock()), transactions._call(turn, "begin_transaction()", None):
            handler.now()

    for call in interrupting("transactions.py", "contextlib.py", "turnstile.py", "threads.py"):
        steps += 1
        with suppress(Interrupted):
            call(work)
        assert not transactions._calls.locked(), f"interrupted at step {steps}"
        with (turn := handler.Lock()), transactions._call(turn, "begin_transaction()", 0.0):
            pass
    assert steps > 10
