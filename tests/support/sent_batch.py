"""`Batch`: a batch as a recorder sees it."""

from __future__ import annotations


class Batch:
    """A batch as a recorder sees it."""

    def __init__(self, topic: str, count: int = 1) -> None:
        self.topic, self.partition_id, self.count, self.created = topic, 0, count, 0.0
        self.wire, self.header_bytes, self.builder = [b"", b"12345"], 61, self
        self.size = 10
