"""Places in partitions, and offsets found there or committed by groups."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from pykafka.utils import milliseconds


class _Kind(Enum):
    EARLIEST = -2
    LATEST = -1
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    TIME = "time"
    AGO = "ago"
    SHIFT = "shift"
    OFFSET = "offset"


@dataclass(frozen=True)
class OffsetSpec:
    """A place in a partition; make it by its class methods.

    :param kind: the kind of place
    :param value: its number: ms since 1970, ms, or offsets
    """

    kind: _Kind
    value: int = 0

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """Return the place of the first message."""
        return cls(_Kind.EARLIEST)

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Return the place where the next message will be written."""
        return cls(_Kind.LATEST)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """Return the place of the message with the latest time (since Kafka 3.0)."""
        return cls(_Kind.MAX_TIMESTAMP)

    @classmethod
    def earliest_local(cls) -> OffsetSpec:
        """Return the place of the first message on the broker's own disk, with tiered storage (since Kafka 3.4)."""
        return cls(_Kind.EARLIEST_LOCAL)

    @classmethod
    def latest_tiered(cls) -> OffsetSpec:
        """Return the place of the last message in remote storage, with tiered storage (since Kafka 3.9)."""
        return cls(_Kind.LATEST_TIERED)

    @classmethod
    def at(cls, moment: datetime | int) -> OffsetSpec:
        """Return the place of the first message that is not older than a time.

        :param moment: a datetime (a naive one is UTC), or ms since 1970
        """
        return cls(_Kind.TIME, max(0, milliseconds(moment, "moment")))

    @classmethod
    def ago(cls, duration: timedelta | float) -> OffsetSpec:
        """Return the place of the first message that is not older than this.

        :param duration: a timedelta, or seconds
        """
        span = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
        if span < timedelta(0):
            raise ValueError(f"a duration must not be negative: {duration!r}")
        return cls(_Kind.AGO, span // timedelta(milliseconds=1))

    @classmethod
    def shift(cls, by: int) -> OffsetSpec:
        """Return the place so many messages behind the committed offset; before it where negative. For groups alone."""
        return cls(_Kind.SHIFT, by)

    @classmethod
    def offset(cls, offset: int) -> OffsetSpec:
        """Return the place of this offset. For groups alone."""
        if offset < 0:
            raise ValueError(f"an offset must not be negative: {offset}")
        return cls(_Kind.OFFSET, offset)

    @property
    def is_listed(self) -> bool:
        """Whether brokers can be asked for it."""
        return self.kind not in (_Kind.SHIFT, _Kind.OFFSET)

    @property
    def is_shift(self) -> bool:
        """Whether it is counted from a committed offset."""
        return self.kind == _Kind.SHIFT

    @property
    def since_version(self) -> tuple[int, str]:
        """The version of ListOffsets that it needs, and the release that has it."""
        return {
            _Kind.MAX_TIMESTAMP: (7, "3.0"),
            _Kind.EARLIEST_LOCAL: (8, "3.4"),
            _Kind.LATEST_TIERED: (9, "3.9"),
            _Kind.TIME: (1, "0.10.1"),
            _Kind.AGO: (1, "0.10.1"),
        }.get(self.kind, (0, "0.8.2"))

    def timestamp(self, now_ms: int) -> int:
        """Return the number that a request has for it.

        :param now_ms: the present time, ms since 1970
        """
        if self.kind == _Kind.TIME:
            return self.value
        if self.kind == _Kind.AGO:
            return max(0, now_ms - self.value)
        return int(self.kind.value)


@dataclass(frozen=True)
class ListedOffset:
    """An offset that a broker has found.

    :param offset: None if all messages are older than the time that was asked about
    :param timestamp: of the message there (ms since 1970); None where the broker does not say
    :param leader_epoch: of the message there; None where the broker does not say
    """

    offset: int | None
    timestamp: int | None
    leader_epoch: int | None


@dataclass(frozen=True)
class OffsetChange:
    """The offset of a group in a partition, before and after a change.

    :param before: None if there was none
    :param after: that of the next message to consume
    """

    before: int | None
    after: int


@dataclass(frozen=True)
class ShareGroupOffset:
    """How far a share group has come in a partition.

    :param start_offset: the first offset that the group may still get; None if there is none yet
    :param lag: messages that it has not done with; None where the broker does not say (before Kafka 4.2)
    :param leader_epoch: of the partition
    """

    start_offset: int | None
    lag: int | None
    leader_epoch: int
