"""`Progress`: since when the partitions of a consumer stand still, and when the application has called, by samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykafka.consumer.lag import end_offset

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.engine import ConsumerEngine

#: An application counts as not polling after so long without a call (s).
IDLE_S = 1.5


class _Seen(NamedTuple):
    """A partition at a sample: where it stood, and since when."""

    position: int
    since: float


def is_behind(owned: OwnedPartition) -> bool:
    """Return whether a partition has records, or an open transaction, behind its position; or either of them is unknown."""
    if owned.position < 0:
        return True
    end = end_offset(owned, False)  # also of a consumer of committed records: an open transaction holds it up
    return end is None or end > owned.position


class Progress:
    """The samples of one consumer. The watch takes one in one to five seconds, and each `health()` and `explain()` one.

    State: `_seen` is replaced as a whole; two workers that sample at the same moment do no harm.

    :param now: the time when the consumer started, of the handler's clock (s)
    """

    def __init__(self, now: float) -> None:
        self._seen: dict[TopicPartition, _Seen] = {}
        self._calls = 0
        #: When the application has called last, as far as the samples show (s).
        self.called_at = now
        #: Whether it has ever called.
        self.has_called = False
        # Since when the member of a group has had no stable assignment, as far as the samples show (s); None if it has one.
        self._unsettled_since: float | None = None

    def observe(self, engine: ConsumerEngine, now: float, is_inside: bool) -> None:
        """Take a sample. This takes no lock.

        :param is_inside: whether a call of the application is under way
        """
        calls = engine.buffers.calls
        if calls != self._calls or (is_inside and not has_unread(engine)):
            self._calls, self.called_at = calls, now
            self.has_called = True
        seen: dict[TopicPartition, _Seen] = {}
        for key, owned in engine.partitions.items():
            before = self._seen.get(key)
            if before is None or before.position != owned.position or not is_behind(owned):
                seen[key] = _Seen(owned.position, now)
            else:
                seen[key] = before
        self._seen = seen

    def settle(self, is_settled: bool, now: float) -> None:
        """Take a sample of the membership.

        :param is_settled: whether the member has an assignment, or is no member at all
        """
        if is_settled:
            self._unsettled_since = None
        elif self._unsettled_since is None:
            self._unsettled_since = now

    def unsettled_for(self, now: float) -> float:
        """Return for how long the member has had no stable assignment (s); 0 while it has one."""
        since = self._unsettled_since
        return 0.0 if since is None else max(now - since, 0.0)

    def still_for(self, key: TopicPartition, now: float) -> float:
        """Return for how long a partition that is behind has stood still (s)."""
        seen = self._seen.get(key)
        return 0.0 if seen is None else max(now - seen.since, 0.0)

    def idle_for(self, now: float) -> float:
        """Return for how long the application has made no call (s)."""
        return max(now - self.called_at, 0.0)


def has_unread(engine: ConsumerEngine) -> bool:
    """Return whether records are buffered that a call could return."""
    return any(not owned.paused and buffered(owned) for owned in engine.partitions.values())


def buffered(owned: OwnedPartition) -> int:
    """Return how many records of a partition are fetched, and not handed out yet."""
    return int(owned.messages)
