"""`Loan`: the cursors of a partition, lent to a reader that bypasses the buffers; and the volume of cursors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykafka.protocol.records_read import BatchReader

#: What a batch counts for besides its bytes: its cursor (bytes).
CURSOR_BYTES = 256


def volume(readers: Iterable[BatchReader]) -> tuple[int, int]:
    # How many messages are left to read, and what the cursors hold (bytes).
    messages = nbytes = 0
    for reader in readers:
        messages += reader.remaining
        nbytes += CURSOR_BYTES + reader._end
    return messages, nbytes


class Loan:
    """The cursors of a partition, lent to a reader that bypasses `Buffers.next`.

    :param owned: the partition
    :param number: tells whether the partition has been moved elsewhere meanwhile
    :param readers: the cursors, in order
    """

    __slots__ = ("nbytes", "number", "owned", "readers", "rows")

    def __init__(self, owned: Any, number: int, readers: list[BatchReader]) -> None:
        self.owned = owned
        self.number = number
        self.readers = readers
        self.rows, self.nbytes = volume(readers)
