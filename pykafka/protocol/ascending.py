"""`ascending`: the batches of an answer that lead on. What lies below the next offset was handed out before. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.protocol.records import RawBatch


def ascending(batches: Iterable[RawBatch], offset: int) -> tuple[list[RawBatch], tuple[int, int] | None]:
    """Return the batches that end behind an offset and behind all before them, and where the first one goes back.

    A batch may begin below the end of the one before it: its reader has to skip to there.

    :param offset: the first offset that is wanted
    :returns: the batches, and a pair of offsets, from where to where; None: each batch begins behind the one before
    """
    found: list[RawBatch] = []
    back: tuple[int, int] | None = None
    reached, end = offset, -1
    for batch in batches:
        if batch.base_offset < end and back is None:
            back = end, batch.base_offset
        end = max(end, batch.next_offset)
        if batch.next_offset > reached:
            found.append(batch)
            reached = batch.next_offset
    return found, back
