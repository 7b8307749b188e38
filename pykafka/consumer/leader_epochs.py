"""`LeaderEpochs`: the leader epochs of the records that were fetched of a partition. No I/O.

Each record batch has the epoch of the leader that wrote it. After an unclean election the new leader's log may lack batches
that a consumer has read, and have others at their offsets. The broker finds that out from the epoch of the last batch before
the offset that is fetched (KIP-320).

`PreferredReplicas`: where each partition is fetched: at its leader, or at a replica that is closer (KIP-392). A request that
names a rack lets the leader answer with the number of a replica there, and without records. The partition is fetched from
that replica for `max_age_s`; then the leader is asked again. If fetching from the replica fails, the partition is fetched
from the leader for `AVOID_S`, by requests that name no rack: otherwise the leader would send it back at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from pykafka.common import TopicPartition

#: The epoch of records of which none is known.
NO_EPOCH = -1
#: So many epochs are kept, the latest ones: more than can lie between what is fetched and what is committed.
KEPT = 64
#: From this version on Fetch answers where logs diverge.
FETCH_COMPARES_FROM = 12
#: How long a partition stays at its leader after a replica has failed (s).
AVOID_S = 10.0


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


class PreferredReplica(NamedTuple):
    """Where a partition is fetched.

    :param broker_id: the replica's number; None for the leader
    :param rack: the rack that requests name; "" for none
    """

    broker_id: int | None
    rack: str


class _Choice(NamedTuple):
    replica: PreferredReplica
    until: float


class PreferredReplicas:
    """The choice of one consumer for each of its partitions.

    State: `choices` changes by single steps; any worker may call.

    :param rack: of the consumer; "" fetches from leaders
    :param max_age_s: how long a replica is used before the leader is asked again (s)
    """

    def __init__(self, rack: str, max_age_s: float) -> None:
        self._usual = PreferredReplica(None, rack)
        self._max_age_s = max_age_s
        self.choices: dict[TopicPartition, _Choice] = {}

    def of(self, key: TopicPartition) -> PreferredReplica:
        """Return where to fetch a partition now."""
        choice = self.choices.get(key)
        return self._usual if choice is None else choice.replica

    def named(self, key: TopicPartition, broker_id: int, now: float) -> None:
        """Fetch from the replica that the leader has named; if a replica has named another one, avoid both."""
        if not self.failed(key, now):
            self.choices[key] = _Choice(PreferredReplica(broker_id, self._usual.rack), now + self._max_age_s)

    def failed(self, key: TopicPartition, now: float) -> bool:
        """Avoid the replica of a partition that could not be fetched; return False if it was fetched from its leader."""
        choice = self.choices.get(key)
        if choice is None or choice.replica.broker_id is None:
            return False
        self.choices[key] = _Choice(PreferredReplica(None, ""), now + min(AVOID_S, self._max_age_s))
        return True

    def forget(self, key: TopicPartition) -> None:
        """Forget a partition that is not read any more."""
        self.choices.pop(key, None)

    def expired(self, now: float) -> list[TopicPartition]:
        """Return the partitions whose leader is to be asked again, each once."""
        over = [key for key, choice in list(self.choices.items()) if choice.until <= now]
        return [key for key in over if self.choices.pop(key, None) is not None]
