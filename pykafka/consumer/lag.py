"""`Lag`: how far one partition of a consumer is behind its end, from fetch answers alone: it asks no broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pykafka.consumer.buffers import OwnedPartition


class Lag(NamedTuple):
    """How far a partition is behind its end.

    :param end: the offset where the partition ends for this consumer: its high watermark, with `isolation_level`
        "read_committed" its last stable offset; None before the first answer
    :param records: offsets between the position and `end`; None if one of them is unknown
    :param seconds: age of the last record handed out, by its timestamp, and 0.0 at the end; None before the first record, and
        if records have no timestamps
    """

    end: int | None
    records: int | None
    seconds: float | None


def end_offset(owned: OwnedPartition, read_committed: bool) -> int | None:
    """Return the end of a partition as the last fetch answer had it; None before the first one."""
    end = owned.high_watermark
    if read_committed and 0 <= owned.last_stable_offset < end:  # brokers before 0.11 have none
        end = owned.last_stable_offset
    return end if end >= 0 else None


def lag_of(owned: OwnedPartition, read_committed: bool, time_ms: int) -> Lag:
    """Return how far a partition is behind its end. Of a paused partition that is as of the last answer before the pause.

    :param read_committed: whether open transactions hide records
    :param time_ms: the present time (ms since 1970)
    """
    end, position = end_offset(owned, read_committed), owned.position
    if end is None or position < 0:
        return Lag(end, None, None)
    behind = max(end - position, 0)
    if not behind:
        return Lag(end, 0, 0.0)
    timestamp = owned.reached_timestamp()
    return Lag(end, behind, None if timestamp < 0 else max(time_ms - timestamp, 0) / 1000)
