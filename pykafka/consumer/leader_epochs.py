"""`LeaderEpochs`: the leader epochs of the records that were fetched of a partition. No I/O.

Each record batch has the epoch of the leader that wrote it. After an unclean election the new leader's log may lack batches
that a consumer has read, and have others at their offsets. The broker finds that out from the epoch of the last batch before
the offset that is fetched (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

#: The epoch of records of which none is known.
NO_EPOCH = -1
#: So many epochs are kept, the latest ones: more than can lie between what is fetched and what is committed.
KEPT = 64


class Start(NamedTuple):
    """The first offset of an epoch, as far as it was fetched."""

    offset: int
    epoch: int


class CurrentLeader(NamedTuple):
    """The leader that a broker has named beside its error (KIP-951).

    :param leader_id: the number of its broker
    :param leader_epoch: its epoch
    :param endpoints: addresses that came with it: {broker number: (host, port)}
    """

    leader_id: int
    leader_epoch: int
    endpoints: Mapping[int, tuple[str, int]]


class LeaderEpochs:
    """The epochs of a part of a log, each from its first fetched offset on. Immutable, so that readers take no lock.

    :param starts: in order of their offsets
    """

    __slots__ = ("_starts",)

    def __init__(self, starts: Iterable[Start] = ()) -> None:
        self._starts = tuple(starts)[-KEPT:]

    @classmethod
    def ending_at(cls, offset: int, epoch: int) -> Self:
        """Return the epochs of a position whose last record before it is of an epoch, if that is known."""
        return cls() if epoch < 0 else cls([Start(offset - 1, epoch)])

    def with_batches(self, batches: Iterable[Start]) -> LeaderEpochs:
        """Return these epochs and those of batches, each with its first offset and its epoch."""
        starts: list[Start] | None = None
        last = self._starts[-1] if self._starts else None
        for batch in batches:
            if last is not None and batch.epoch == last.epoch and batch.offset >= last.offset:
                continue
            if starts is None:
                starts = list(self._starts)
            while starts and starts[-1].offset >= batch.offset:
                starts.pop()
            last = batch
            if not starts or starts[-1].epoch != batch.epoch:
                starts.append(batch)
        return self if starts is None else LeaderEpochs(starts)

    def before(self, offset: int) -> int:
        """Return the epoch of the last record before an offset; `NO_EPOCH` if it is not known."""
        for start in reversed(self._starts):
            if start.offset < offset:
                return start.epoch
        return NO_EPOCH

    def divergence(self, epoch: int, end_offset: int) -> int:
        """Return the offset from which on the leader's log is another one than what was fetched.

        :param epoch: the latest epoch of the leader's log that is not later than that of what was fetched
        :param end_offset: its end in the leader's log
        """
        later = next((start.offset for start in self._starts if start.epoch > epoch), end_offset)
        return min(later, end_offset)

    def until(self, offset: int) -> LeaderEpochs:
        """Return the epochs of what lies before an offset."""
        return LeaderEpochs(start for start in self._starts if start.offset < offset)
