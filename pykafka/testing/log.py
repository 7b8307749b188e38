"""`PartitionLog`: the batches of one partition, as they were written, with the offsets that the log gave them."""

from __future__ import annotations


class PartitionLog:
    """Record batches in memory."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
