"""`AbortedTransactions`: the batches of a fetch answer that were never committed, found without I/O.

A broker that is asked for committed records only (KIP-98) stops its answer before the first transaction that is still
open. It sends all records of ended transactions, with a list of the aborted ones; the reader leaves those out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from pykafka.protocol.records import RawBatch

#: Fetch's number for each name of Kafka's isolation.level.
ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}

_ABORT = 0


class AbortedTransaction(Protocol):
    """An entry in the list of aborted transactions, as FetchResponse has it."""

    producer_id: int
    first_offset: int


class AbortedTransactions:
    """The aborted transactions of one partition in one fetch answer; ask about each batch, in order.

    :param aborted: the answer's list; None if it has none
    """

    def __init__(self, aborted: Iterable[AbortedTransaction] | None) -> None:
        self._coming = deque(sorted((entry.first_offset, entry.producer_id) for entry in aborted or ()))
        self._aborting: set[int] = set()

    def drops(self, batch: RawBatch) -> bool:
        """Return whether no record of a batch is a message: it was aborted, or marks the end of a transaction.

        :raises InvalidMessageError: a transaction's end cannot be read
        """
        while self._coming and self._coming[0][0] < batch.next_offset:
            self._aborting.add(self._coming.popleft()[1])
        if batch.is_control:
            if batch.producer_id in self._aborting and batch.control_type() == _ABORT:
                self._aborting.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._aborting


def isolation_number(name: str) -> int:
    """Return Fetch's number for an isolation level.

    :raises ValueError: it is none of Kafka's
    """
    try:
        return ISOLATION_LEVELS[name]
    except (KeyError, TypeError):
        raise ValueError(f"isolation_level must be {' or '.join(ISOLATION_LEVELS)}, not {name!r}") from None
