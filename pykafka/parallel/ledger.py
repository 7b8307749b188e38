"""`Ledger`: the records of one partition that were handed out, and those of them that are acknowledged. It does no I/O."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

#: Acknowledged entries at the front that are kept until there are so many of them: removing them costs a copy of the rest.
_TRIM = 1024


class Ledger(Generic[T]):
    """Offsets in the order in which they were handed out, each with an item until it is acknowledged.

    Offsets that the log lacks (compaction, control records of transactions) are in no ledger, so they hold nothing up.
    An entry costs 17 bytes and its item; a million of them are handed out and acknowledged in any order within a second.

    State: entry `number` is at index `number - _base` of three sequences; all before `_head` are acknowledged. The lock of the
    run guards it.
    """

    __slots__ = ("_acknowledged", "_base", "_head", "_items", "_offsets", "end", "unacknowledged")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._acknowledged = bytearray()
        self._items: list[T | None] = []
        self._base = 0
        self._head = 0
        #: The offset behind the last one that was handed out; None before the first.
        self.end: int | None = None
        #: Entries that are not acknowledged.
        self.unacknowledged = 0

    def __len__(self) -> int:
        """Return the number of entries from the lowest unacknowledged one on."""
        return len(self._items) - self._head

    def give(self, offsets: Sequence[int], items: Sequence[T]) -> int:
        """Add entries and return the number of the first; the others have the numbers that follow.

        :param offsets: ascending, and not below `end`: call `rewind` first where the consumer went back
        :param items: one for each
        :raises ValueError: the first offset is below `end`
        """
        if self.end is not None and offsets[0] < self.end:
            raise ValueError(f"offset {offsets[0]} comes after offset {self.end - 1}: rewind() the ledger first")
        number = self._base + len(self._items)
        self._offsets.extend(offsets)
        self._acknowledged.extend(bytes(len(items)))
        self._items.extend(items)
        self.unacknowledged += len(items)
        self.end = offsets[-1] + 1
        return number

    def acknowledge(self, number: int) -> bool:
        """Acknowledge an entry and let its item go; return False if that was done before.

        :param number: as `give` counts
        """
        index = number - self._base
        if index < 0 or self._acknowledged[index]:
            return False
        self._acknowledged[index] = 1
        self._items[index] = None
        self.unacknowledged -= 1
        if index == self._head:
            self._advance()
        return True

    def _advance(self) -> None:
        head = self._acknowledged.find(0, self._head)
        self._head = head = len(self._items) if head < 0 else head
        if head >= _TRIM and 2 * head >= len(self._items):
            del self._offsets[:head], self._acknowledged[:head], self._items[:head]
            self._base += head
            self._head = 0

    @property
    def committable(self) -> int | None:
        """The offset to commit: of the lowest unacknowledged entry, else `end`; None before anything was handed out."""
        return self._offsets[self._head] if self.unacknowledged else self.end

    def unsettled(self) -> list[T]:
        """Return the items of all entries that are not acknowledged, in their order."""
        return [item for item in self._items[self._head :] if item is not None]

    def rewind(self, offset: int) -> list[T]:
        """Forget the entries from an offset on, which are about to be handed out once more; return their items.

        Unacknowledged entries below it stay, so nothing is committed past them.

        :param offset: where the consumer went back to
        """
        replaced = []
        for index in range(self._head, len(self._items)):
            item = self._items[index]
            if item is not None and self._offsets[index] >= offset:
                replaced.append(item)
                self._acknowledged[index] = 1
                self._items[index] = None
        self.unacknowledged -= len(replaced)
        self._advance()
        self.end = offset
        return replaced
