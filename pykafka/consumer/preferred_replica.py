"""`PreferredReplicas`: where each partition is fetched: at its leader, or at a replica that is closer (KIP-392). No I/O.

A request that names a rack lets the leader answer with the number of a replica there, and without records. The partition is
fetched from that replica for `max_age_s`; then the leader is asked again. If fetching from the replica fails, the partition is
fetched from the leader for `AVOID_S`, by requests that name no rack: otherwise the leader would send it back at once.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka.common import TopicPartition

#: How long a partition stays at its leader after a replica has failed (s).
AVOID_S = 10.0


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
